"""One simulated experiment of a power analysis: settings and a seed in, the truth and what a fit says of it out."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from arviz_stats import ess, rhat

from manymotives.assessment.contrasts import Contrast
from manymotives.assessment.power_rules import Rule
from manymotives.assessment.power_truths import Recruits, Truths, recruited, wanted
from manymotives.errors import InputError
from manymotives.execution.jobs import Numbers
from manymotives.inference import Draws, Method, Progress, suited
from manymotives.models import RewardPolicyModel, Target
from manymotives.models.covariates import Covariates
from manymotives.models.effects import POPULATION
from manymotives.models.model import EVERYBODY
from manymotives.posterior.predictions import typical_coordinates
from manymotives.worlds import simulate

# Looser than `fit` asks for, because one number is decided about and not every reward reported: draws worth 150
# independent ones tell a tail probability of .025 to ±.013, and where that leaves the decision open there are more.
LARGEST_RHAT = 1.05
EFFECTIVE = 150.0
CLEAR = 1.5  # Monte Carlo standard errors between a tail probability and where the decision changes
RECRUITMENTS = 20  # tried, until one has a design whose effects can be told apart
BEYOND = 1e6  # in the place of infinity


@dataclass(frozen=True, eq=False)
class Experiment:
    """One cell of a power analysis: everything about an experiment but its random numbers."""

    truths: Truths
    contrast: Contrast  # in the truth
    effect: float | None  # the contrast's true value, where that is given
    analysis: RewardPolicyModel
    analysed: Contrast  # the same in the analysis, whose coordinates may be others
    covariates: Covariates | None  # rows of which are those of new subjects
    subjects: int
    steps: int
    episodes: int
    rule: Rule
    method: Method


def replicate(experiment: Experiment, seed: int) -> Numbers:
    """Draw a population and subjects, simulate their choices, fit, and decide about the contrast."""
    truths = experiment.truths
    origin = truths.target
    recruits, target = recruited_and_bound(experiment, seed)
    rng = np.random.default_rng([seed, 1])
    population = truths.draw(origin, rng)
    if experiment.effect is not None:
        population = population.with_effect(experiment.contrast, experiment.effect, origin, recruits.covariates)
    truth = population.contrast(experiment.contrast, origin, recruits.covariates)
    u = wanted(population, origin, recruits, seed)
    anybody = np.zeros(len(u), dtype=int)
    choice = type(truths.model.choice)(
        inverse_temperature=origin.temperatures(u, anybody), lapse=origin.lapses(u, anybody)
    )
    demonstrations = simulate(
        origin.environment,
        origin.rewards(u),
        choice,
        steps=experiment.steps,
        episodes=experiment.episodes,
        seed=seed,
        tasks=recruits.tasks,
        on=origin.on,
        discount=origin.discounts(u, anybody),
        depth=origin.depth,
    )
    counts = demonstrations.counts.astype(float)
    made = counts.sum() / experiment.subjects
    if experiment.analysis.is_pooled:
        counts = counts.sum(axis=0, keepdims=True)
    found = fitted(experiment, replace(target, counts=np.ascontiguousarray(counts)), recruits, seed)
    return {"truth": truth, "choices": made} | found


def recruited_and_bound(experiment: Experiment, seed: int) -> tuple[Recruits, Target]:
    """New subjects, and the analysis of their choices, of which there are none yet.

    In a small experiment all subjects may happen to have the same sex, whose effect could not be told: then others are
    recruited, as an experimenter would.
    """
    for attempt in range(RECRUITMENTS):
        recruits = recruited(
            experiment.covariates, experiment.truths.model, experiment.contrast, experiment.subjects, [seed, 2, attempt]
        )
        try:
            return recruits, _bound(experiment, recruits)
        except InputError as error:
            if experiment.covariates is None:
                raise
            reason = error
    raise InputError(
        f"power: the model could not be fitted to the choices of any {experiment.subjects} simulated subjects: "
        f"{reason} Or plan for more subjects."
    )


def _bound(experiment: Experiment, recruits: Recruits) -> Target:
    analysis, environment = experiment.analysis, experiment.truths.environment
    if analysis.has_covariates:
        table = recruits.table(analysis.sharing.covariates)
        analysis = replace(analysis, sharing=replace(analysis.sharing, covariates=table))
    tasks: tuple[Any, ...] = (EVERYBODY,) if analysis.is_pooled else recruits.tasks
    shape = (len(tasks), environment.num_states, environment.num_actions)
    return analysis.target(environment, tasks, np.zeros(shape))


def fitted(experiment: Experiment, target: Target, recruits: Recruits, seed: int) -> Numbers:
    """What the posterior says of the contrast: rounds of draws until it has converged and the decision is clear."""
    method: Any = suited(experiment.method, target)
    state, draws = method.init(target, seed), None
    values = np.empty((1, 0))
    agreement, effective = BEYOND, 0.0
    for _ in range(getattr(method, "max_rounds", 1)):
        state, more = method.advance(state, method.draws, Progress(False))
        draws = more if draws is None else draws.followed_by(more)
        values = contrast_draws(experiment.analysed, target, draws, recruits)
        agreement, effective = mixing_of(values)
        error = CLEAR / np.sqrt(max(effective, 1.0))
        if is_converged(agreement, effective) and experiment.rule.is_clear(values, error):
            break
        if state is None:
            break
    lower, upper = experiment.rule.interval(values)
    return {
        "mean": float(values.mean()),
        "sd": float(values.std()),
        "lower": lower,
        "upper": upper,
        "p_positive": float((values > 0).mean()),
        "yes": float(experiment.rule.decides(values)),
        "converged": float(is_converged(agreement, effective)),
        "rhat": agreement,
        "effective_draws": effective,
        "draws": float(values.size),
    }


def contrast_draws(contrast: Contrast, target: Target, draws: Draws, recruits: Recruits) -> np.ndarray:
    """Draws [chain, draw] of the contrast, averaged over the subjects of the experiment."""
    if target.tasks == (EVERYBODY,):
        return contrast.at(target, draws.tasks[:, :, 0], None, {})
    location = typical_coordinates(target, target.parameters(draws.hyper[:, :, 0]))
    if target.effects is None or draws.effects is None:
        return contrast.at(target, location, None, {})
    coefficients = target.effects.coefficients(*draws.effects)[..., target.effects.slope == POPULATION, :]
    return contrast.at(target, location, coefficients, recruits.covariates)


def mixing_of(values: np.ndarray) -> tuple[float, float]:
    """R-hat and the effective number of draws [chain, draw], in the bulk or in the tails, whichever is smaller."""
    if np.ptp(values) == 0 or values.shape[1] < 4:
        return BEYOND, 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        agreement = float(rhat(values)) if len(values) > 1 else 1.0
        effective = min(float(ess(values)), float(ess(values, method="tail", prob=(0.05, 0.95))))
    return float(np.nan_to_num(agreement, nan=BEYOND, posinf=BEYOND)), float(np.nan_to_num(effective))


def is_converged(agreement: float, effective: float) -> bool:
    return agreement <= LARGEST_RHAT and effective >= EFFECTIVE
