"""The verb: bind a model to data, run a method, label and check the result."""

import json
import os
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from manymotives.choice import Softmax, SoftOptimal
from manymotives.demonstrations import Demonstrations
from manymotives.diagnostics import learning_warnings, mixing_warnings, visit_warnings
from manymotives.environment import Environment
from manymotives.errors import InputError
from manymotives.inference import METHODS, Draws, Gibbs, Method, Progress
from manymotives.labels import Label
from manymotives.models import RewardPolicyModel, Target
from manymotives.posterior import Posterior
from manymotives.priors import DISTRIBUTIONS
from manymotives.records import from_record, record_of
from manymotives.rewards import BetaReward, DirichletReward, GaussianReward
from manymotives.sharing import Hierarchical, Pooled, Separate

PRIOR_DRAWS = 2000  # kept beside the posterior, to compare with
LARGEST_LIKELIHOOD = 20_000_000  # draws × episodes; beyond it the log-likelihood is kept by task
KINDS: dict[str, type] = DISTRIBUTIONS | {
    kind.__name__: kind
    for kind in (
        RewardPolicyModel,
        DirichletReward,
        BetaReward,
        GaussianReward,
        Softmax,
        SoftOptimal,
        Hierarchical,
        Separate,
        Pooled,
        *METHODS,
    )
}


def fit(
    model: Any,
    environment: Any,
    demonstrations: Any,
    method: Any = None,
    *,
    seed: Any = 0,
    progress: bool = True,
    start: Any = None,
) -> Posterior:
    """What each task wants, given what it did.

    Parameters
    ----------
    model
        Such as `RewardPolicyModel(DirichletReward(), Softmax(), Hierarchical())`.
    environment, demonstrations
        What they acted in and what they did; with the same names of states and actions.
    method
        `Gibbs()` (the default), `Metropolis()`, `NestedMonteCarlo()`, `MonteCarlo()`, or `EmpiricalBayes()` for a first
        look.
    seed
        The same seed gives the same draws, whatever the number of cores.
    progress
        Show a bar where somebody can watch. Ctrl-C stops, with the draws made so far.
    start
        A posterior of the same model and data to go on from: the result has its draws and the new ones, as if they had
        been made in one run.
    """
    if not isinstance(model, RewardPolicyModel):
        raise InputError(f"model must be a RewardPolicyModel(...); found {model!r}.")
    chosen = Gibbs() if method is None else method
    if not isinstance(chosen, Method) or isinstance(chosen, type):
        names = ", ".join(f"{kind.__name__}()" for kind in METHODS)
        raise InputError(f"{chosen!r} cannot fit a RewardPolicyModel. These can: {names}.")
    for word, value, kind in (
        ("environment", environment, Environment),
        ("demonstrations", demonstrations, Demonstrations),
        ("start", start, Posterior | None),
    ):
        if not isinstance(value, kind):
            raise InputError(f"{word} must be {_article(kind)}; found {type(value).__name__}.")
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0; found {seed!r}.")
    seed = int(seed)
    target = model.bind(environment, demonstrations)
    record = json.dumps(record_of(model))  # before the work, so that nothing can go wrong with it afterwards
    state = None if start is None else _state_of(start, model, chosen, environment, demonstrations)
    draws = chosen.run(target, seed=seed, progress=Progress(progress), state=state)
    data = _labelled(draws, model, target, demonstrations, seed)
    data.attrs["model"] = record
    data.attrs["method"] = json.dumps(record_of(chosen))
    if start is not None and chosen.is_markov_chain:
        data = _joined(start.data, data)
    data.attrs["warnings"] = json.dumps(
        [
            *draws.warnings,
            *(mixing_warnings(data["posterior"].dataset) if chosen.is_markov_chain else ()),
            *model.warnings,
            *demonstrations.warnings,
            *visit_warnings(data["observed_data"].dataset["counts"]),
            *learning_warnings(data["posterior"].dataset["reward"], data["prior"].dataset["reward"]),
        ]
    )
    return Posterior(data, model, environment)


def load(path: str | os.PathLike[str]) -> Posterior:
    """A posterior that `Posterior.save` wrote."""
    if not Path(path).is_file():
        raise InputError(f"there is no file {str(path)!r}.")
    try:
        with xr.open_datatree(path, engine="h5netcdf") as stored:
            data = stored.load()
        record = data.attrs["model"]
    except (OSError, KeyError, ValueError):
        raise InputError(f"{str(path)!r} is not a posterior saved by manymotives.") from None
    model = from_record(json.loads(record), KINDS)
    return Posterior(data, model, _stored_environment(data))


def _article(kind: Any) -> str:
    return "a Posterior, such as mm.load reads" if kind == Posterior | None else f"mm.{kind.__name__}"


# ---- labels ------------------------------------------------------------------------------------------------


def _labelled(
    draws: Draws, model: RewardPolicyModel, target: Target, demonstrations: Demonstrations, seed: int
) -> xr.DataTree:
    """Draws in the ArviZ schema."""
    environment = target.environment
    names = {
        "task": coordinate_of(demonstrations.tasks),
        "state": coordinate_of(environment.states),
        "action": coordinate_of(environment.actions),
    }
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2**31,)))
    alone = replace(
        target, tasks=target.tasks[:1], counts=target.counts[:1] * 0, anatomy=target.anatomy._replace(group_size=1)
    )
    prior_hyper = alone.draw_hyper(rng, PRIOR_DRAWS)
    prior_tasks = alone.draw_tasks(rng, prior_hyper)
    prior = labelled_variables(model, alone, prior_tasks[None], prior_hyper[None], names, for_tasks=False)
    pooled = isinstance(model.sharing, Pooled)
    posterior = labelled_variables(model, target, draws.tasks, draws.hyper, names, for_tasks=not pooled)

    statistics = {
        name: (tuple("task_group" if dim == "group" else dim for dim in dims), values)
        for name, (dims, values) in draws.statistics.items()
    }
    chains, length = draws.tasks.shape[:2]
    log_prior = target.log_prior(
        draws.hyper.reshape(chains * length, *draws.hyper.shape[2:]),
        draws.tasks.reshape(chains * length, *draws.tasks.shape[2:]),
    ).reshape(chains, length)
    statistics["lp"] = (("chain", "draw"), log_prior + draws.log_likelihood.sum(axis=2))
    if pooled:
        statistics = {name: (dims, values) for name, (dims, values) in statistics.items() if "task" not in dims}
    sample_stats = xr.Dataset(statistics, coords={"task": names["task"]} | _sample(chains, length))
    known = {} if pooled else {"task": names["task"]}
    constants = {
        "discount": ((), environment.discount),
        "start": (("state",), environment.start),
        "is_terminal": (("state",), environment.is_terminal),
        "available": (("state", "action"), environment.available),
        **_stored_transitions(environment),
    }
    if environment.coordinates is not None:
        constants["coordinates"] = (("state", "axis"), environment.coordinates)
    for word, place, values in (
        ("inverse_temperature", target.anatomy.temperature, target.fixed_temperature),
        ("lapse", target.anatomy.lapse, target.fixed_lapse),
    ):
        if place < 0:
            constants[word] = ((), values[0]) if pooled else (("task",), values)
    places = {"state": names["state"], "action": names["action"]}
    counts = xr.DataArray(demonstrations.counts, dims=("task", "state", "action"), coords=names)
    groups = {
        "posterior": posterior,
        "sample_stats": sample_stats,
        "log_likelihood": _episode_likelihood(draws, target, demonstrations, names),
        "prior": prior,
        "observed_data": xr.Dataset({"counts": counts}),
        "constant_data": xr.Dataset(constants, coords=places | known),
        "sampler": xr.Dataset(
            {name: ([f"{name}_{axis}" for axis in range(value.ndim)], value) for name, value in draws.state.items()}
        ),
    }
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = {
        "manymotives_version": version("manymotives"),
        "seed": seed,
        "tasks": json.dumps(_plain(demonstrations.tasks)),
        "states": json.dumps(_plain(environment.states)),
        "actions": json.dumps(_plain(environment.actions)),
    }
    return tree


def labelled_variables(
    model: RewardPolicyModel,
    target: Target,
    tasks: np.ndarray,
    hyper: np.ndarray,
    names: dict[str, Any],
    *,
    for_tasks: bool,
) -> xr.Dataset:
    """Rewards, temperatures and hyperparameters from coordinates u [chain, draw, M, D] and h [chain, draw, G, H].

    `for_tasks`: with a task axis; without it there is one of everything.
    """
    anatomy = target.anatomy
    owner = np.arange(target.num_tasks)
    cells = ("state",) if target.on == "state" else ("state", "action")
    made: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}

    def add(name: str, values: np.ndarray, behind: tuple[str, ...]) -> None:
        """Values [chain, draw, M, ...] under their name."""
        if for_tasks:
            made[name] = (("chain", "draw", "task", *behind), values)
        else:
            made[name] = (("chain", "draw", *behind), values[:, :, 0])

    reward = target.rewards(tasks)
    if target.on == "state_action":
        reward = np.where(target.environment.available, reward, np.nan)
    add("reward", reward, cells)
    coordinates: dict[str, Any] = {name: names[name] for name in cells} | ({"task": names["task"]} if for_tasks else {})
    if anatomy.features.size:
        add("weight", tasks[..., : anatomy.num_rewards], ("feature",))
        coordinates["feature"] = coordinate_of(model.reward.feature_names(anatomy.num_rewards))
    if anatomy.temperature >= 0:
        add("inverse_temperature", target.temperatures(tasks, owner), ())
    if anatomy.lapse >= 0:
        add("lapse", target.lapses(tasks, owner), ())
    values = target.natural_hyper(hyper)
    for block in target.blocks:
        part = values[..., block.begin : block.end]
        behind: tuple[str, ...] = ()
        if not block.per_reward:
            part = part[..., 0]
        elif anatomy.features.size:
            behind = ("feature",)
        else:
            shape = (target.environment.num_states, target.environment.num_actions)[: len(cells)]
            table = np.full((*part.shape[:-1], int(np.prod(shape))), np.nan)
            table[..., anatomy.places] = part
            part, behind = table.reshape(*part.shape[:-1], *shape), cells
        if target.num_groups > 1 or (for_tasks and isinstance(model.sharing, Separate)):
            made[block.name] = (("chain", "draw", "task", *behind), part)
        else:
            made[block.name] = (("chain", "draw", *behind), part[:, :, 0])
    chains, length = tasks.shape[:2]
    return xr.Dataset(made, coords=coordinates | _sample(chains, length))


def _sample(chains: int, length: int) -> dict[str, np.ndarray]:
    return {"chain": np.arange(chains), "draw": np.arange(length)}


def coordinate_of(labels: tuple[Label, ...]) -> np.ndarray:
    """Names as xarray and netCDF can hold them: whole numbers, or text."""
    plain = _plain(labels)
    if all(isinstance(label, int) and not isinstance(label, bool) for label in plain):
        return np.array(plain)
    text = [str(label) for label in plain]
    if len(set(text)) < len(text):  # 1 and "1" are two names
        text = [repr(label) for label in plain]
    return np.array(text, dtype=object)


def _plain(labels: tuple[Label, ...]) -> list[Any]:
    """Labels that JSON can hold."""
    values = [label.item() if isinstance(label, np.generic) else label for label in labels]
    return [value if isinstance(value, str | int | float | bool) else str(value) for value in values]


def _episode_likelihood(
    draws: Draws, target: Target, demonstrations: Demonstrations, names: dict[str, Any]
) -> xr.Dataset:
    """log p of each episode under each draw (chain, draw, episode), from the episodes' counts."""
    chains, length, num_tasks, size = draws.tasks.shape
    num_episodes = demonstrations.num_episodes
    if chains * length * num_episodes > LARGEST_LIKELIHOOD:
        if num_tasks == 1:
            values = (("chain", "draw"), draws.log_likelihood[:, :, 0])
            return xr.Dataset({"choices": values}, coords=_sample(chains, length))
        return xr.Dataset(
            {"choices": (("chain", "draw", "task"), draws.log_likelihood)},
            coords={"task": names["task"]} | _sample(chains, length),
        )
    made = demonstrations.action >= 0
    pairs = demonstrations.state[made] * len(demonstrations.actions) + demonstrations.action[made]
    episode = demonstrations.episode[made]
    owner_of_episode = np.zeros(num_episodes, dtype=int)
    owner_of_episode[demonstrations.episode] = demonstrations.task if num_tasks == demonstrations.num_tasks else 0
    pairs_in_all = len(demonstrations.states) * len(demonstrations.actions)
    keys, times = np.unique(episode * pairs_in_all + pairs, return_counts=True)
    episode, pairs = np.divmod(keys, pairs_in_all)
    owner = owner_of_episode[episode]
    found = np.zeros((chains, length, num_episodes))
    first = np.flatnonzero(np.append(True, np.diff(episode) > 0)) if len(episode) else np.array([], dtype=int)
    step = max(1, 1_000_000 // (num_tasks * pairs_in_all + len(keys)))
    for chain in range(chains):
        for begin in range(0, length, step):
            part = draws.tasks[chain, begin : begin + step]
            who = np.tile(np.arange(num_tasks), len(part))
            log_policy = target.log_policies(part.reshape(-1, size), who).reshape(len(part), num_tasks, -1)
            terms = times * log_policy[:, owner, pairs]
            if len(first):
                found[chain, begin : begin + step, episode[first]] = np.add.reduceat(terms, first, axis=1).T
    coordinates = {
        "episode": np.arange(num_episodes),
        "episode_name": ("episode", coordinate_of(demonstrations.episodes)),
        "episode_task": ("episode", names["task"][_task_of_episode(demonstrations)]),
    }
    return xr.Dataset({"choices": (("chain", "draw", "episode"), found)}, coords=coordinates | _sample(chains, length))


def _task_of_episode(demonstrations: Demonstrations) -> np.ndarray:
    owner = np.zeros(demonstrations.num_episodes, dtype=int)
    owner[demonstrations.episode] = demonstrations.task
    return owner


# ---- files -------------------------------------------------------------------------------------------------


def _stored_transitions(environment: Environment) -> dict[str, Any]:
    """The non-zero transitions, whatever their form."""
    matrix = environment.matrix
    return {
        "transition_probability": (("transition",), matrix.data),
        "transition_next_state": (("transition",), matrix.indices.astype(np.int64)),
        "transition_row": (("row",), matrix.indptr.astype(np.int64)),
    }


def _stored_environment(data: xr.DataTree) -> Environment:
    import scipy.sparse as sp

    stored = data["constant_data"].dataset
    states, actions = json.loads(data.attrs["states"]), json.loads(data.attrs["actions"])
    matrix = sp.csr_array(
        (
            stored["transition_probability"].values,
            stored["transition_next_state"].values,
            stored["transition_row"].values,
        ),
        shape=(len(states) * len(actions), len(states)),
    )
    return Environment(
        matrix if len(states) > 500 else matrix.toarray().reshape(len(states), len(actions), len(states)),
        discount=float(stored["discount"]),
        states=states,
        actions=actions,
        available=stored["available"].values.astype(bool),
        terminal=[state for state, ends in zip(states, stored["is_terminal"].values) if ends],
        start=stored["start"].values,
        coordinates=stored["coordinates"].values if "coordinates" in stored else None,
    )


# ---- going on ----------------------------------------------------------------------------------------------


def _state_of(
    start: Posterior, model: RewardPolicyModel, method: Any, environment: Environment, demonstrations: Demonstrations
) -> dict[str, Any]:
    """The sampler's state in an earlier posterior, if it can be gone on from."""
    earlier, attrs = start.environment, start.data.attrs
    counts = start.data["observed_data"].dataset["counts"].values
    same = (
        json.dumps(record_of(model)) == attrs["model"]
        and json.dumps(_plain(demonstrations.tasks)) == attrs["tasks"]
        and json.dumps(_plain(environment.states)) == attrs["states"]
        and json.dumps(_plain(environment.actions)) == attrs["actions"]
        and np.array_equal(counts, demonstrations.counts)
        and earlier.discount == environment.discount
        and np.array_equal(earlier.available, environment.available)
        and np.array_equal(earlier.is_terminal, environment.is_terminal)
        and abs(earlier.matrix - environment.matrix).max() == 0
    )
    if not same:
        raise InputError(
            "start is the posterior of another model, environment or other data: it cannot be gone on from."
        )
    kind = json.loads(start.data.attrs["method"])["kind"]
    if kind != type(method).__name__:
        raise InputError(f"start was made by {kind}(): go on with the same method, not {type(method).__name__}().")
    state = {str(name): np.asarray(value.values) for name, value in start.data["sampler"].data_vars.items()}
    if not state:
        raise InputError("start was stopped by hand or made by a method that cannot go on.")
    chains = getattr(method, "chains", None)
    if chains is not None and chains != start.data["posterior"].sizes["chain"]:
        found = start.data["posterior"].sizes["chain"]
        raise InputError(f"start has {found} chain{'s' if found > 1 else ''}: go on with as many, not with {chains}.")
    return state


def _joined(before: xr.DataTree, after: xr.DataTree) -> xr.DataTree:
    """Both sets of draws as one."""
    groups = {name: after[name].to_dataset() for name in after.children}
    for name in ("posterior", "log_likelihood", "sample_stats"):
        old, new = before[name].to_dataset(), groups[name]
        made = [word for word in new.data_vars if "draw" in new[word].dims]
        joined = xr.concat([old[made], new[made]], dim="draw", join="exact")
        joined = joined.assign_coords(draw=np.arange(joined.sizes["draw"]))
        groups[name] = joined.assign({word: new[word] for word in new.data_vars if word not in made})
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = dict(after.attrs)
    return tree
