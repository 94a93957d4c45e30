"""Draws in, names out: the ArviZ schema, with all that a file must hold to be read again."""

import json
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import scipy.sparse as sp
import xarray as xr

from manymotives.demonstrations import Demonstrations
from manymotives.environment import Environment
from manymotives.inference import Draws
from manymotives.labels import Label
from manymotives.models import RewardPolicyModel, Target
from manymotives.sharing import Pooled, Separate

PRIOR_DRAWS = 2000  # kept beside the posterior, to compare with
LARGEST_LIKELIHOOD = 20_000_000  # draws × episodes; beyond it the log-likelihood is kept by task


def labelled(
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
        "tasks": json.dumps(plain_labels(demonstrations.tasks)),
        "states": json.dumps(plain_labels(environment.states)),
        "actions": json.dumps(plain_labels(environment.actions)),
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
    plain = plain_labels(labels)
    if all(isinstance(label, int) and not isinstance(label, bool) for label in plain):
        return np.array(plain)
    text = [str(label) for label in plain]
    if len(set(text)) < len(text):  # 1 and "1" are two names
        text = [repr(label) for label in plain]
    return np.array(text, dtype=object)


def plain_labels(labels: tuple[Label, ...]) -> list[Any]:
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
    task_of_episode = np.zeros(num_episodes, dtype=int)
    task_of_episode[demonstrations.episode] = demonstrations.task
    pairs_in_all = len(demonstrations.states) * len(demonstrations.actions)
    keys, times = np.unique(episode * pairs_in_all + pairs, return_counts=True)
    episode, pairs = np.divmod(keys, pairs_in_all)
    owner = task_of_episode[episode] if num_tasks == demonstrations.num_tasks else np.zeros_like(episode)
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
        "episode_task": ("episode", names["task"][task_of_episode]),
    }
    return xr.Dataset({"choices": (("chain", "draw", "episode"), found)}, coords=coordinates | _sample(chains, length))


# ---- files -------------------------------------------------------------------------------------------------


def _stored_transitions(environment: Environment) -> dict[str, Any]:
    """The non-zero transitions, whatever their form."""
    matrix = environment.matrix
    return {
        "transition_probability": (("transition",), matrix.data),
        "transition_next_state": (("transition",), matrix.indices.astype(np.int64)),
        "transition_row": (("row",), matrix.indptr.astype(np.int64)),
    }


def stored_environment(data: xr.DataTree) -> Environment:
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
