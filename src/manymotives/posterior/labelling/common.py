"""Draws in, names out: what the ArviZ schema and a file must hold, whatever the model."""

import json
from typing import Any

import numpy as np
import scipy.sparse as sp
import xarray as xr

from manymotives.data.belief import DynamicsBelief
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.environments import Environments
from manymotives.data.labels import Label
from manymotives.posterior.archive import GROUP, plain_labels, stored_demonstrations
from manymotives.versions import MANYMOTIVES


def names_of(environment: Environment, demonstrations: Demonstrations) -> dict[str, Any]:
    """Coordinates of tasks, states and actions."""
    return {
        "task": coordinate_of(demonstrations.tasks),
        "state": coordinate_of(environment.states),
        "action": coordinate_of(environment.actions),
    }


def tree_of(
    groups: dict[str, xr.Dataset], environment: Environment, demonstrations: Demonstrations, seed: int
) -> xr.DataTree:
    """Groups as one tree, with the choices and the names that a file needs."""
    names = names_of(environment, demonstrations)
    counts = xr.DataArray(demonstrations.counts, dims=("task", "state", "action"), coords=names)
    chosen = {"observed_data": xr.Dataset({"counts": counts}), GROUP: stored_demonstrations(demonstrations)}
    tree = xr.DataTree.from_dict(groups | chosen)
    tree.attrs = {
        "manymotives_version": MANYMOTIVES,
        "seed": seed,
        "tasks": json.dumps(plain_labels(demonstrations.tasks)),
        "states": json.dumps(plain_labels(environment.states)),
        "actions": json.dumps(plain_labels(environment.actions)),
    }
    return tree


def sample_coordinates(chains: int, length: int) -> dict[str, np.ndarray]:
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


def labelled_likelihood(
    by_task: np.ndarray, by_episode: np.ndarray | None, demonstrations: Demonstrations, names: dict[str, Any]
) -> xr.Dataset:
    """log p of each episode under each draw [chain, draw, episode]; of each task [chain, draw, M] where not known."""
    chains, length, num_tasks = by_task.shape
    sample = sample_coordinates(chains, length)
    if by_episode is None:
        if num_tasks == 1:
            return xr.Dataset({"choices": (("chain", "draw"), by_task[:, :, 0])}, coords=sample)
        return xr.Dataset({"choices": (("chain", "draw", "task"), by_task)}, coords={"task": names["task"]} | sample)
    task_of_episode = np.zeros(demonstrations.num_episodes, dtype=int)
    task_of_episode[demonstrations.episode] = demonstrations.task
    coordinates = {
        "episode": np.arange(demonstrations.num_episodes),
        "episode_name": ("episode", coordinate_of(demonstrations.episodes)),
        "episode_task": ("episode", names["task"][task_of_episode]),
    }
    return xr.Dataset({"choices": (("chain", "draw", "episode"), by_episode)}, coords=coordinates | sample)


# ---- files -------------------------------------------------------------------------------------------------


def stored_constants(environment: Environment, belief: DynamicsBelief | None = None) -> dict[str, Any]:
    """Variables from which `stored_environment` rebuilds it; of the transitions, those that are not zero."""
    matrix = environment.matrix
    constants: dict[str, Any] = {
        "discount": ((), environment.discount),
        "start": (("state",), environment.start),
        "is_terminal": (("state",), environment.is_terminal),
        "available": (("state", "action"), environment.available),
        "transition_probability": (("transition",), matrix.data),
        "transition_next_state": (("transition",), matrix.indices.astype(np.int64)),
        "transition_row": (("row",), matrix.indptr.astype(np.int64)),
    }
    if belief is not None:
        constants["transition_concentration"] = (("transition",), belief.concentration.data)
        constants["pair_seen"] = (("state", "action"), belief.seen.reshape(environment.available.shape))
    if environment.warnings:
        constants["environment_warnings"] = ((), json.dumps(environment.warnings))
    if environment.coordinates is not None:
        constants["coordinates"] = (("state", "axis"), environment.coordinates)
    if environment.reward is not None:
        constants["environment_reward"] = (("state", "action")[: environment.reward.ndim], environment.reward)
    if isinstance(environment, Environments):
        parts = [
            {"name": part["name"]} | {word: plain_labels(tuple(part[word])) for word in ("states", "actions")}
            for part in environment.parts
        ]
        constants["environments"] = ((), json.dumps(parts))
    if environment.pairs is not None:
        constants["pairs"] = (("state", "moment"), environment.pairs)
    return constants


def move_coordinates(belief: DynamicsBelief, names: dict[str, Any]) -> dict[str, Any]:
    """What the uncertain moves are called: the state, the action and the next state of each."""
    positions = belief.transition_index[belief.is_uncertain]
    return {
        "move": np.arange(len(positions)),
        "move_state": ("move", names["state"][positions[:, 0]]),
        "move_action": ("move", names["action"][positions[:, 1]]),
        "move_next_state": ("move", names["state"][positions[:, 2]]),
    }


def stored_belief(data: xr.DataTree, environment: Environment) -> DynamicsBelief | None:
    """What was not known of the environment; None where everything was."""
    stored = data["constant_data"].dataset
    if "transition_concentration" not in stored:
        return None
    concentration = sp.csr_array(
        (
            stored["transition_concentration"].values,
            stored["transition_next_state"].values,
            stored["transition_row"].values,
        ),
        shape=environment.matrix.shape,
    )
    return DynamicsBelief.of_parts(environment, concentration, stored["pair_seen"].values.ravel())


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
    matrix.check_format(full_check=True)  # SciPy writes where indices say, and asks nothing
    environment = Environment(
        matrix if len(states) > 500 else matrix.toarray().reshape(len(states), len(actions), len(states)),
        discount=float(stored["discount"]),
        states=states,
        actions=actions,
        available=stored["available"].values.astype(bool),
        terminal=[state for state, ends in zip(states, stored["is_terminal"].values) if ends],
        start=stored["start"].values,
        reward=stored["environment_reward"].values if "environment_reward" in stored else None,
    )
    if "coordinates" in stored:
        environment = environment.with_coordinates(stored["coordinates"].values)
    if "environment_warnings" in stored:
        environment = environment.with_warnings(json.loads(str(stored["environment_warnings"].values)))
    if "environments" in stored:
        return Environments.of_parts(environment, json.loads(str(stored["environments"].values)))
    return environment.paired(stored["pairs"].values) if "pairs" in stored else environment
