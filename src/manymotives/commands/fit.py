"""From a table of choices to a posterior in a file."""

import time
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from manymotives import inference
from manymotives.commands.common import JsonOption, Speaker
from manymotives.commands.conclusions import found_and_said
from manymotives.commands.covariates import asked_covariates, check_covariates, covariates_said, with_covariates
from manymotives.commands.discount import DEFAULT as DISCOUNT
from manymotives.commands.discount import (
    DEPTH_HELP,
    PRIOR_HELP,
    depth_said,
    discount_said,
    with_depth,
    with_discount_prior,
)
from manymotives.commands.discount import HELP as DISCOUNT_HELP
from manymotives.commands.features import check_features, features_said, made_of_features
from manymotives.commands.inputs import Inputs, read_inputs
from manymotives.commands.mixture import BY, MOTIVES, SPREAD, MotivesOf, asked_mixture, mixture_said
from manymotives.commands.motives import SwitchingBy, asked_switching, switching_said
from manymotives.commands.outputs import announcer, check_out, left
from manymotives.errors import InputError
from manymotives.fitting.checkpoints import EVERY, fit_in_blocks
from manymotives.fitting.run import Run
from manymotives.inference.progress import Progress, Quiet, announcement
from manymotives.models import PolicyOptimalityModel, RewardPolicyModel
from manymotives.models.choice import Softmax
from manymotives.models.rewards import BetaReward, DirichletReward, GaussianReward
from manymotives.models.sharing import Hierarchical, Pooled, Separate
from manymotives.models.smooth import SmoothReward
from manymotives.models.switching import Switching
from manymotives.posterior import Posterior
from manymotives.posterior.dependent_features import warnings_of_features


class Model(StrEnum):
    mrp = "mrp"
    rp = "rp"
    separate = "separate"
    mixture = "mixture"
    mpo = "mpo"


class Reward(StrEnum):
    dirichlet = "dirichlet"
    beta = "beta"
    gaussian = "gaussian"
    smooth = "smooth"


class On(StrEnum):
    states = "states"
    pairs = "pairs"


class Method(StrEnum):
    hmc = "hmc"
    gibbs = "gibbs"
    metropolis = "metropolis"
    nested = "nested"
    monte_carlo = "monte-carlo"
    empirical_bayes = "empirical-bayes"
    maximum_likelihood = "maximum-likelihood"
    optimality = "optimality"


SHARING = {Model.mrp: Hierarchical(), Model.rp: Pooled(), Model.separate: Separate()}
MODELS = {
    Model.mrp: "partial pooling",
    Model.rp: "complete pooling",
    Model.separate: "no pooling",
    Model.mixture: "subjects share motives",
    Model.mpo: "policy-optimality",
}
REWARDS: dict[Reward, type] = {
    Reward.dirichlet: DirichletReward,
    Reward.beta: BetaReward,
    Reward.gaussian: GaussianReward,
    Reward.smooth: SmoothReward,
}
METHODS: dict[Method, type] = {
    Method.hmc: inference.HMC,
    Method.gibbs: inference.Gibbs,
    Method.metropolis: inference.Metropolis,
    Method.nested: inference.NestedMonteCarlo,
    Method.monte_carlo: inference.MonteCarlo,
    Method.empirical_bayes: inference.EmpiricalBayes,
    Method.maximum_likelihood: inference.MaximumLikelihood,
    Method.optimality: inference.OptimalityMonteCarlo,
}
Columns = "Columns (several columns, separated by commas, are combined)"
Where = "The environment"
How = "How to fit"


def fit(
    choices: Annotated[Path, typer.Argument(help="Table of choices, one row per step: .csv, .tsv, .txt or .parquet.")],
    out: Annotated[Path | None, typer.Option(help="File for the result, such as run.nc.")] = None,
    environment: Annotated[
        list[str] | None,
        typer.Option(
            help="Table with the columns state, action, next_state, probability; or gymnasium:NAME. Without it, "
            "transitions are inferred from the choices too (or taken as observed, if each action always led "
            "to the same state, and with --history). Repeat it for several environments, named after their "
            "files; the column environment of the choices says which.",
            rich_help_panel=Where,
        ),
    ] = None,
    plug_in: Annotated[
        bool,
        typer.Option(
            "--plug-in",
            help="Without --environment: take the observed transitions as the true ones. Faster, but intervals "
            "are too narrow.",
            rich_help_panel=Where,
        ),
    ] = False,
    discount: Annotated[float | None, typer.Option(help=DISCOUNT_HELP, rich_help_panel=Where)] = None,
    discount_prior: Annotated[str | None, typer.Option(help=PRIOR_HELP, rich_help_panel=Where)] = None,
    depth: Annotated[int | None, typer.Option(help=DEPTH_HELP, rich_help_panel=Where)] = None,
    terminal: Annotated[
        list[str] | None, typer.Option(help="A state that ends an episode; may be repeated.", rich_help_panel=Where)
    ] = None,
    coordinates: Annotated[
        Path | None,
        typer.Option(help="Table with state, x, y: positions of states in maps.", rich_help_panel=Where),
    ] = None,
    history: Annotated[
        int, typer.Option(help="With 1, states become (previous state, state).", min=0, max=1, rich_help_panel=Where)
    ] = 0,
    task: Annotated[str | None, typer.Option(help="Column of the subject.", rich_help_panel=Columns)] = None,
    state: Annotated[str | None, typer.Option(help="Column of the state.", rich_help_panel=Columns)] = None,
    action: Annotated[str | None, typer.Option(help="Column of the action chosen.", rich_help_panel=Columns)] = None,
    next_state: Annotated[str | None, typer.Option(help="Column of the next state.", rich_help_panel=Columns)] = None,
    episode: Annotated[str | None, typer.Option(help="Column of the episode.", rich_help_panel=Columns)] = None,
    step: Annotated[str | None, typer.Option(help="Column of the order of steps.", rich_help_panel=Columns)] = None,
    model: Annotated[
        Model,
        typer.Option(
            help="mrp: partial pooling, subjects of one population; rp: complete pooling, the same reward for all; "
            "separate: no pooling; mixture: subjects share motives; mpo: the policy-optimality model, with a prior on "
            "how close to optimal subjects are in place of a softmax.",
            rich_help_panel=How,
        ),
    ] = Model.mrp,
    reward: Annotated[
        Reward | None,
        typer.Option(
            help="Prior of rewards. Default: dirichlet; with --features, gaussian. smooth: neighbouring states "
            "have similar rewards.",
            rich_help_panel=How,
        ),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            help="Table with a column state (and perhaps action) and one numeric column for each feature: "
            "rewards are weighted sums of the features.",
            rich_help_panel=How,
        ),
    ] = None,
    covariates: Annotated[
        Path | None,
        typer.Option(
            help="Table of covariates with one row for each subject. Needs --formula.",
            rich_help_panel=How,
        ),
    ] = None,
    formula: Annotated[
        list[str] | None,
        typer.Option(
            help='How subjects\' parameters depend on covariates, such as "condition + age"; or, repeated, one '
            'for each parameter: "reward ~ condition", "inverse_temperature ~ age".',
            rich_help_panel=How,
        ),
    ] = None,
    effect_scale: Annotated[
        float | None,
        typer.Option(help="Prior standard deviation of effects. Default: 2.5.", rich_help_panel=How),
    ] = None,
    on: Annotated[
        On | None,
        typer.Option(
            help="Whether rewards are on states or on state-action pairs. Default: states; with --history, "
            "pairs, because rewards on states cannot make choices depend on the previous state.",
            rich_help_panel=How,
        ),
    ] = None,
    inverse_temperature: Annotated[
        float | None,
        typer.Option(help="Inverse temperature, if it is known.", min=0.0, rich_help_panel=How),
    ] = None,
    switching: Annotated[
        str | None,
        typer.Option(
            help='Number of motives between which subjects switch; "auto": inferred, at most 15.',
            metavar="NUMBER|auto",
            rich_help_panel=How,
        ),
    ] = None,
    switching_by: Annotated[
        SwitchingBy | None,
        typer.Option(
            help="With --switching: whether the probability of switching is the same everywhere (the default) or "
            "depends on the state that is left.",
            rich_help_panel=How,
        ),
    ] = None,
    motives: Annotated[
        str | None, typer.Option(help=MOTIVES, metavar="NUMBER|finite|process", rich_help_panel=How)
    ] = None,
    spread: Annotated[float | None, typer.Option(help=SPREAD, rich_help_panel=How)] = None,
    by: Annotated[MotivesOf | None, typer.Option(help=BY, rich_help_panel=How)] = None,
    method: Annotated[
        Method | None, typer.Option(help="Method of inference. Default: hmc; for mpo, optimality.", rich_help_panel=How)
    ] = None,
    draws: Annotated[int | None, typer.Option(help="Draws per chain and round.", min=1, rich_help_panel=How)] = None,
    chains: Annotated[int | None, typer.Option(help="Number of chains.", min=1, rich_help_panel=How)] = None,
    warmup: Annotated[int | None, typer.Option(help="Warm-up draws per chain.", min=0, rich_help_panel=How)] = None,
    thin: Annotated[int | None, typer.Option(help="Sweeps per draw.", min=1, rich_help_panel=How)] = None,
    max_rounds: Annotated[
        int | None,
        typer.Option(help="Rounds of --draws, at most; fewer once chains have mixed.", min=1, rich_help_panel=How),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same draws.", min=0, rich_help_panel=How)] = 0,
    checkpoint: Annotated[float, typer.Option(help="Seconds between checkpoints, approximately.", min=0.0)] = EVERY,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the checkpoint in --out, if any.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file named by --out.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be fitted; write nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Infer what each subject wants from a table of choices.

    Exit codes: 0 success; 2 an input cannot be used; 130 interrupted.
    """
    speaker = Speaker(as_json)
    target = out or Path("run.nc")
    with speaker.failures(target, lambda: left(target)):
        if features is not None:
            check_features(reward, history)
        prior = reward or (Reward.dirichlet if features is None else Reward.gaussian)
        where = on or (On.pairs if history else On.states)
        asked = asked_covariates(covariates, formula, effect_scale)
        if asked is not None:
            check_covariates(model, method, reward, switches=switching is not None)
        switches = asked_switching(model, method, switching, switching_by)
        shared = asked_mixture(model, method, prior, motives, spread, by)
        chosen_model = _model(model, prior, where, inverse_temperature, switches, shared or SHARING.get(model))
        chosen_model = with_depth(with_discount_prior(chosen_model, discount_prior), depth)
        settings = {"draws": draws, "chains": chains, "warmup": warmup, "thin": thin, "max_rounds": max_rounds}
        chosen_method = _method(model, method, **settings)
        if not dry_run:
            check_out(out, resume=resume, force=force)
        given = {
            "task": task,
            "state": state,
            "action": action,
            "next_state": next_state,
            "episode": episode,
            "step": step,
        }
        progress = (Quiet if as_json else Progress)(on_command_line=True)
        with progress.phase(f"Reading {choices.name}"):
            inputs = read_inputs(
                choices,
                environment or (),
                given,
                discount=DISCOUNT if discount is None else discount,
                terminal=terminal or (),
                coordinates=coordinates,
                history=history,
                plug_in=plug_in,
                features=features,
            )
        if inputs.features is not None:
            chosen_model = made_of_features(chosen_model, inputs.features, on)
        warnings = warnings_of_features(chosen_model.reward, inputs.environment)
        if asked is not None:
            chosen_model, more = with_covariates(chosen_model, asked, inputs)
            warnings += more
        known = inputs.environment.discount
        _introduce(speaker, inputs, warnings, discount_said(chosen_model, known, is_default=discount is None))
        if dry_run:
            run = Run(chosen_model, inputs.dynamics, inputs.demonstrations, chosen_method, seed=seed)  # or refused
            chosen_method = run.method
            made_of = "" if inputs.features is None else f", made of {features_said(inputs.features)},"
            on_what = On.states if chosen_model.reward.on == "state" else On.pairs
            more_said = f"{depth_said(depth)}{switching_said(switches)}{mixture_said(shared)}"
            more_said += covariates_said(asked, chosen_model, inputs)
            clauses = f"{made_of}{more_said}".replace(",,", ",")
            what = f"{model.value} ({MODELS[model]}) with {prior.value} rewards on {on_what.value}{clauses}"
            speaker.say(f"This would fit {what} by {_settings(chosen_method)}.")
            (seconds, said), advice = run.forecast(progress)
            speaker.say(announcement(seconds, advice.on_command_line, run.looks.next_of_several, said))
            speaker.say("Nothing was written (--dry-run).")
            ahead = {"seconds_ahead": round(seconds, 1), "forecast": said}
            speaker.result({"dry_run": True, **inputs.facts(), "method": _settings(chosen_method), **ahead})
            return
        began = time.monotonic()
        posterior = fit_in_blocks(
            Run(chosen_model, inputs.dynamics, inputs.demonstrations, chosen_method, seed=seed),
            target,
            resume=resume and not force,
            every=checkpoint,
            progress=progress,
            on_checkpoint=None if as_json or Console(stderr=True).is_terminal else announcer(target),
        )
        _conclude(speaker, posterior, inputs, target, time.monotonic() - began)


def _model(
    model: Model,
    reward: Reward,
    on: On,
    inverse_temperature: float | None,
    switching: Switching | None,
    sharing: Any,
) -> Any:
    if reward is Reward.smooth and on is On.pairs:
        raise InputError("--reward smooth is for rewards on states (--on states): pairs have no neighbours.")
    where = {} if reward is Reward.smooth else {"on": "state" if on is On.states else "state_action"}
    prior = REWARDS[reward](**where)
    if model is not Model.mpo:
        return RewardPolicyModel(prior, Softmax(inverse_temperature), sharing, switching)
    if inverse_temperature is not None:
        raise InputError("--inverse-temperature does not apply to the model mpo, which has no softmax. Leave it out.")
    return PolicyOptimalityModel(reward=prior)


def _method(model: Model, method: Method | None, **settings: Any) -> Any:
    """The method with the settings given."""
    chosen = method or (Method.optimality if model is Model.mpo else Method.hmc)
    if (chosen is Method.optimality) != (model is Model.mpo):
        raise InputError(
            f"--method {chosen.value} cannot fit the model {model.value}: optimality is the method for mpo, the "
            "others are for the other models."
        )
    kind = METHODS[chosen]
    given = {name: value for name, value in settings.items() if value is not None}
    known = {field.name for field in fields(kind)}
    for name in given:
        if name not in known:
            raise InputError(f"--{name.replace('_', '-')} is not a setting of the method {chosen.value}. Leave it out.")
    return kind(**given)


def _introduce(speaker: Speaker, inputs: Inputs, warnings: tuple[str, ...], discount: str) -> None:
    for line in inputs.lines(discount):
        speaker.say(line)
    for note in (*inputs.notes, *inputs.dynamics.warnings, *warnings, *inputs.demonstrations.warnings):
        speaker.warn(note)


def _conclude(speaker: Speaker, posterior: Posterior, inputs: Inputs, target: Path, seconds: float) -> None:
    drawn = posterior.data["posterior"].dataset
    found, lines = found_and_said(posterior)
    speaker.say("")
    speaker.say(f"{drawn.sizes['chain']} × {drawn.sizes['draw']:,} draws in {seconds:,.0f} s.")
    for line in lines:
        speaker.say(line)
    for warning in posterior.warnings:
        speaker.warn(warning)
    speaker.say(f"Saved in {target}. Next: manymotives report {target}, or manymotives export {target} --out tables")
    speaker.result(
        {
            "out": str(target),
            "seconds": round(seconds, 3),
            "chains": drawn.sizes["chain"],
            "draws": drawn.sizes["draw"],
            "mixing": posterior.data.attrs.get("mixing"),
            "warnings": list(posterior.warnings),
            **found,
            **inputs.facts(),
        }
    )


def _settings(method: Any) -> str:
    given = ", ".join(f"{field.name}={getattr(method, field.name)}" for field in fields(method))
    return f"{type(method).__name__}({given})"
