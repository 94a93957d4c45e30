"""The verb: bind a model to data, run a method, label and check the result."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from manymotives.data.belief import DynamicsBelief, Place, known_part
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.errors import InputError
from manymotives.fitting.compilation import compile_first
from manymotives.fitting.records import from_record, record_of
from manymotives.inference import HMC, METHODS, Draws, Method, OptimalityMonteCarlo, Progress
from manymotives.inference.diagnostics import (
    Mixing,
    learning_warnings,
    mixing,
    parts_of,
    policy_warnings,
    spread_notes,
    visit_warnings,
)
from manymotives.io.netcdf import read_tree, unreadable
from manymotives.models import PolicyOptimalityModel, RewardPolicyModel, Target
from manymotives.models.choice import Softmax, SoftOptimal
from manymotives.models.optimality import DistributionOptimality, ExponentialOptimality, UniformOptimality
from manymotives.models.policies import DirichletPolicy
from manymotives.models.priors import DISTRIBUTIONS
from manymotives.models.rewards import BetaReward, DirichletReward, GaussianReward, RewardSet
from manymotives.models.sharing import Hierarchical, Pooled, Separate
from manymotives.posterior import PolicyOptimalityPosterior, Posterior, RewardPolicyPosterior
from manymotives.posterior.archive import plain_labels, unpacked_state
from manymotives.posterior.labelling import (
    check_groups,
    check_stored,
    label_policy_optimality,
    label_reward_policy,
    stored_belief,
    stored_environment,
    watched_reward_policy,
)

WITHOUT_CHECKSUM = (
    "this run was read from a file without a checksum, as version 0.1 wrote them: had the file been damaged, nobody "
    "would know."
)
Model = RewardPolicyModel | PolicyOptimalityModel  # what can be fitted
ROUNDING = 1e-12  # what writing probabilities and making them sum to 1 again may change

KINDS: dict[str, type] = DISTRIBUTIONS | {
    kind.__name__: kind
    for kind in (
        RewardPolicyModel,
        PolicyOptimalityModel,
        DirichletReward,
        BetaReward,
        GaussianReward,
        RewardSet,
        DirichletPolicy,
        ExponentialOptimality,
        UniformOptimality,
        DistributionOptimality,
        Softmax,
        SoftOptimal,
        Hierarchical,
        Separate,
        Pooled,
        *METHODS,
        OptimalityMonteCarlo,
    )
}


class Way(NamedTuple):
    """How one kind of model is fitted."""

    default: type
    methods: tuple[type, ...]
    label: Callable[..., xr.DataTree]
    posterior: type[Posterior]


WAYS: dict[type, Way] = {
    RewardPolicyModel: Way(HMC, METHODS, label_reward_policy, RewardPolicyPosterior),
    PolicyOptimalityModel: Way(
        OptimalityMonteCarlo, (OptimalityMonteCarlo,), label_policy_optimality, PolicyOptimalityPosterior
    ),
}


def fit(
    model: Model,
    environment: Environment | DynamicsBelief,
    demonstrations: Demonstrations,
    method: Method | None = None,
    *,
    seed: int = 0,
    progress: bool | Progress = True,
    start: Posterior | None = None,
) -> Posterior:
    """What each task wants, given what it did.

    Parameters
    ----------
    model
        Such as `RewardPolicyModel(DirichletReward(), Softmax(), Hierarchical())` or `PolicyOptimalityModel()`.
    environment, demonstrations
        What they acted in and what they did; with the same names of states and actions. Where transitions are not
        known, a `DynamicsBelief` takes the environment's place: it is then inferred along with the rewards.
    method
        For a `RewardPolicyModel`: `HMC()` (the default), `Gibbs()`, `Metropolis()`, `NestedMonteCarlo()`,
        `MonteCarlo()`, or `EmpiricalBayes()` for a first look. For a `PolicyOptimalityModel`: `OptimalityMonteCarlo()`.
    seed
        The same seed gives the same draws, whatever the number of cores.
    progress
        Show a bar where somebody can watch. Ctrl-C stops, with the draws made so far.
    start
        A posterior of the same model and data to go on from: the result has its draws and the new ones, as if they had
        been made in one run.
    """
    way = WAYS.get(type(model))
    if way is None:
        raise InputError(f"model must be a RewardPolicyModel(...) or a PolicyOptimalityModel(...); found {model!r}.")
    chosen = way.default() if method is None else method
    others = [kind for each in WAYS.values() if each is not way for kind in each.methods]
    if not isinstance(chosen, Method) or isinstance(chosen, type) or type(chosen) in others:
        names = ", ".join(f"{kind.__name__}()" for kind in way.methods)
        raise InputError(f"{chosen!r} cannot fit a {type(model).__name__}. These can: {names}.")
    for word, value, kind in (
        ("environment", environment, Place),
        ("demonstrations", demonstrations, Demonstrations),
        ("start", start, Posterior | None),
    ):
        if not isinstance(value, kind):
            raise InputError(f"{word} must be {_article(kind)}; found {type(value).__name__}.")
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0; found {seed!r}.")
    seed = int(seed)
    belief, environment = _split_environment(environment)
    target: Any = model.bind(belief or environment, demonstrations)
    record = json.dumps(record_of(model))  # before the work, so that nothing can go wrong with it afterwards
    state = None if start is None else _state_of(start, model, chosen, belief or environment, demonstrations)
    if state is not None:
        _check_state(state, target)
    bar = progress if isinstance(progress, Progress) else Progress(bool(progress))
    if isinstance(chosen, HMC) and chosen.device is None:
        compile_first()
    draws = chosen.run(target, seed=seed, progress=bar, state=state)
    mixed = None
    if start is None and getattr(chosen, "max_rounds", 1) > 1:
        draws, mixed = _until_mixed(draws, chosen, model, target, demonstrations, seed, bar)
    data = way.label(draws, model, target, demonstrations, seed)
    data.attrs["model"] = record
    data.attrs["method"] = json.dumps(record_of(chosen))
    if start is not None and chosen.is_markov_chain:
        data = _joined(start.data, data)
    mixed = mixed or _mixing(data, model, chosen)
    if mixed is not None and not mixed.warnings:
        data.attrs["mixing"] = str(mixed)
    said = (
        *draws.warnings,
        *(mixed.warnings if mixed else ()),
        *(belief.warnings if belief else ()),
        *_warnings(data, model, demonstrations, environment),
    )
    data.attrs["warnings"] = json.dumps(said)
    return way.posterior(data, model, environment, belief)


def _split_environment(place: Place) -> tuple[DynamicsBelief | None, Environment]:
    """What is not known of the environment, if anything, and what is."""
    belief = place if isinstance(place, DynamicsBelief) and place.is_uncertain.any() else None
    return belief, known_part(place)


def _until_mixed(
    draws: Draws,
    method: Any,
    model: Any,
    target: Target,
    demonstrations: Demonstrations,
    seed: int,
    progress: Progress,
) -> tuple[Draws, Mixing | None]:
    """As many draws again, as long as the chains have not mixed, up to `max_rounds`; none where the run was stopped.

    And how well they have mixed, if that is what it ended with.
    """
    most = method.max_rounds * draws.tasks.shape[1]
    while draws.tasks.shape[1] < most and draws.state:
        try:
            mixed = _mixing_so_far(watched_reward_policy(draws, model, target, demonstrations), progress)
            if mixed is not None:
                return draws, mixed
            draws = draws.followed_by(method.run(target, seed=seed, progress=progress, state=draws.state))
        except KeyboardInterrupt:
            return replace(draws, warnings=("stopped by hand before the chains had mixed.",), state={}), None
    return draws, None


def _mixing_so_far(watched: xr.Dataset, progress: Progress) -> Mixing | None:
    """How well chains have mixed, if they have: looked at until something has not, populations first."""
    parts = [part for part in parts_of(watched) if part.data_vars]
    found: list[Mixing] = []
    with progress.separate().of(len(parts), "parts looked at") as report:
        for part in parts:
            found.append(mixing(part))
            if found[-1].warnings:
                return None
            report.update(len(found), "have the chains mixed?")
    return Mixing((), max(m.rhat for m in found), min(m.bulk for m in found), min(m.tail for m in found))


def _mixing(data: xr.DataTree, model: Any, method: Any) -> Mixing | None:
    """Whether chains have mixed, where there are any."""
    drawn = data["posterior"].dataset
    if isinstance(model, PolicyOptimalityModel):
        if drawn.sizes["chain"] == 1:
            return None
        watched = drawn.drop_vars(["reward", "policy"], errors="ignore")  # often the same, whoever has them
        watched = watched.assign(which_reward=data["sample_stats"].dataset["reward_index"].astype(float))
        return mixing(watched, "Raise `draws`.")
    if not method.is_markov_chain:
        return None
    settings = "`max_rounds`, or `draws`" if hasattr(method, "max_rounds") else "`thin` or `draws`"
    return mixing(drawn, f"Raise {settings}.")


def _warnings(
    data: xr.DataTree, model: Any, demonstrations: Demonstrations, environment: Environment
) -> tuple[str, ...]:
    """What else to be careful about."""
    drawn, counts = data["posterior"].dataset, data["observed_data"].dataset["counts"]
    lives = ~environment.is_terminal
    by_policies = isinstance(model, PolicyOptimalityModel)
    has_spread = not by_policies and isinstance(model.sharing, Hierarchical) and counts.sizes["task"] > 1
    return (
        *environment.warnings,
        *model.warnings,
        *demonstrations.warnings,
        *(policy_warnings(counts, lives) if by_policies else visit_warnings(counts, lives, "weight" in drawn)),
        *learning_warnings(drawn, data["prior"].dataset),
        *(spread_notes(drawn, data["prior"].dataset) if has_spread else ()),
    )


def load(path: str | os.PathLike[str]) -> Posterior:
    """A posterior that `Posterior.save` wrote; refused if the file is damaged or was changed since."""
    if not Path(path).is_file():
        raise InputError(f"there is no file {str(path)!r}.")
    data, has_checksum = read_tree(path)
    try:
        check_groups(data)
        model = from_record(json.loads(data.attrs["model"]), KINDS)
        way = WAYS[type(model)]
        if json.loads(data.attrs["method"])["kind"] not in [kind.__name__ for kind in way.methods]:
            raise InputError(f"it was made by a method that cannot fit a {type(model).__name__}")
        environment = stored_environment(data)
        posterior = way.posterior(data, model, environment, stored_belief(data, environment))
        check_stored(posterior)
    except Exception as error:  # a file can hold anything, and fail anywhere
        raise unreadable(path, error) from None
    if not has_checksum and WITHOUT_CHECKSUM not in posterior.warnings:
        data.attrs["warnings"] = json.dumps([WITHOUT_CHECKSUM, *posterior.warnings])
    return posterior


def method_of(posterior: Posterior) -> Any:
    """The method that made a posterior, with its settings."""
    return from_record(json.loads(posterior.data.attrs["method"]), KINDS)


def _article(kind: Any) -> str:
    if kind == Posterior | None:
        return "a Posterior, such as mm.load reads"
    return "mm.Environment, or mm.DynamicsBelief" if kind == Place else f"mm.{kind.__name__}"


# ---- going on ----------------------------------------------------------------------------------------------


def _state_of(
    start: Posterior,
    model: Any,
    method: Any,
    environment: Place,
    demonstrations: Demonstrations,
) -> dict[str, Any]:
    """The sampler's state in an earlier posterior, if it can be gone on from."""
    belief, environment = _split_environment(environment)
    earlier, attrs = start.environment, start.data.attrs
    counts = start.data["observed_data"].dataset["counts"].values
    same = (
        json.dumps(record_of(model)) == attrs["model"]
        and json.dumps(plain_labels(demonstrations.tasks)) == attrs["tasks"]
        and json.dumps(plain_labels(environment.states)) == attrs["states"]
        and json.dumps(plain_labels(environment.actions)) == attrs["actions"]
        and np.array_equal(counts, demonstrations.counts)
        and earlier.discount == environment.discount
        and np.array_equal(earlier.available, environment.available)
        and np.array_equal(earlier.is_terminal, environment.is_terminal)
        and abs(earlier.matrix - environment.matrix).max() <= ROUNDING
        and _same_belief(start.belief, belief)
    )
    if not same:
        raise InputError(
            "start is the posterior of another model, environment or other data: it cannot be gone on from."
        )
    kind = json.loads(start.data.attrs["method"])["kind"]
    if kind != type(method).__name__:
        raise InputError(f"start was made by {kind}(): go on with the same method, not {type(method).__name__}().")
    state = unpacked_state(start.data["sampler"].dataset)
    if not state:
        raise InputError("start was stopped by hand or made by a method that cannot go on.")
    chains = getattr(method, "chains", None)
    if chains is not None and chains != start.data["posterior"].sizes["chain"]:
        found = start.data["posterior"].sizes["chain"]
        raise InputError(f"start has {found} chain{'s' if found > 1 else ''}: go on with as many, not with {chains}.")
    return state


def _check_state(state: dict[str, Any], target: Target) -> None:
    """Raise unless arrays have the sizes that compiled loops take for granted: a file can hold any."""
    tasks, states, actions = target.num_tasks, *target.environment.available.shape
    sizes = {
        "tasks": (tasks, target.num_coordinates),
        "hyper": (target.num_groups, target.num_hyper),
        "q": (tasks, states, actions),
        "value": (tasks, states),
        "actions": (tasks, states),
        "log_likelihood": (tasks,),
    }
    known = {name: np.asarray(values) for name, values in state.items() if name in sizes}
    wrong = [name for name, values in known.items() if values.shape[1:] != sizes[name] or values.dtype.kind not in "if"]
    chosen = known.get("actions", np.zeros(1))
    if wrong or chosen.min() < 0 or chosen.max() >= actions:
        raise InputError(
            f"start cannot be gone on from: {(wrong or ['actions'])[0]!r} of its sampler does not fit this model and "
            "these data."
        )


def _same_belief(one: DynamicsBelief | None, other: DynamicsBelief | None) -> bool:
    if one is None or other is None:
        return one is other
    return bool(abs(one.concentration - other.concentration).max() == 0)


def _joined(before: xr.DataTree, after: xr.DataTree) -> xr.DataTree:
    """Both sets of draws as one; what is said of a chain, not of its draws, is a rate, and averaged over them."""
    counts = [float(tree["posterior"].sizes["draw"]) for tree in (before, after)]
    groups = {name: after[name].to_dataset() for name in after.children}
    for name in ("posterior", "log_likelihood", "sample_stats"):
        old, new = before[name].to_dataset(), groups[name]
        made = [word for word in new.data_vars if "draw" in new[word].dims]
        joined = xr.concat([old[made], new[made]], dim="draw", join="exact")
        joined = joined.assign_coords(draw=np.arange(joined.sizes["draw"]))
        others = {word: new[word] for word in new.data_vars if word not in made}
        if name == "sample_stats":
            others = {word: (counts[0] * old[word] + counts[1] * rate) / sum(counts) for word, rate in others.items()}
        groups[name] = joined.assign(others)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = dict(after.attrs)
    return tree
