"""An environment in, a drawing of it out: where its states lie, and what leads where."""

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from manymotives.data.environment import Environment
from manymotives.data.environments import Environments
from manymotives.posterior import Posterior
from manymotives.posterior.by_name import are_by_name
from manymotives.reporting.words import listed

MOST_EDGES = 3000
MANY = 900  # places; beyond, a map is an image without edges


def layout_of(environment: Environment, visits: np.ndarray) -> dict[str, Any] | None:
    """Places, and the states at each; None without coordinates.

    Several states may share a place (with memory, all that are reached in the same spot); a place then shows their
    mean, weighted by `visits` [S].
    """
    if environment.coordinates is None or len(environment.states) < 2:
        return None
    spots, owner = np.unique(np.round(environment.coordinates, 6), axis=0, return_inverse=True)
    owner = owner.ravel()
    if len(spots) < 2:
        return None
    weight = visits + 1e-3
    together = np.split(np.argsort(owner, kind="stable"), np.cumsum(np.bincount(owner))[:-1])
    members = [
        [[int(s), round(float(weight[s] / weight[here].sum()), 4)] for s in here[np.argsort(-weight[here])]]
        for here in together
    ]
    moves = environment.matrix.tocoo()
    happens = moves.data > 0
    ends = np.sort(
        np.stack([owner[moves.row[happens] // environment.num_actions], owner[moves.col[happens]]], axis=1), axis=1
    )
    edges = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
    size = _spacing(spots)
    steps = (spots - spots.min(axis=0)) / size
    square = bool(
        np.abs(steps - np.round(steps)).max() < 1e-6 and len(spots) > 0.5 * np.prod(np.ptp(steps, axis=0) + 1)
    )
    return {
        "xy": compact(spots),
        "members": members,
        "edges": edges.tolist() if len(edges) <= MOST_EDGES and len(spots) <= MANY else [],
        "many": len(spots) > MANY,
        "square": square,
        "size": size,
        "alone": len(spots) == environment.num_states,
        "owner": owner.tolist(),
    }


def by_state(drawn: dict[str, Any]) -> dict[str, Any]:
    """The same with places in the order of the states, where each state has a place of its own."""
    if not drawn["alone"]:
        return drawn
    state = {position: s for s, position in enumerate(drawn["owner"])}
    kept = {word: value for word, value in drawn.items() if word not in ("members", "owner")}
    return kept | {
        "xy": [drawn["xy"][position] for position in drawn["owner"]],
        "edges": [[state[a], state[b]] for a, b in drawn["edges"]],
    }


def with_rows(drawn: dict[str, Any], posterior: Posterior) -> dict[str, Any]:
    """A drawing whose places say which reward is theirs, where several states have one."""
    environment = posterior.environment
    if not isinstance(environment, Environments) or not are_by_name(posterior.model.reward, environment):
        return drawn
    row = environment.state_name.tolist()
    members = drawn.get("members") or [[[state, 1]] for state in range(len(row))]
    return drawn | {"members": [[[row[state], weight] for state, weight in here] for here in members]}


def side_by_side(environment: Environment) -> str:
    """Which environment is where, on a map of several."""
    if not isinstance(environment, Environments) or len(environment.members) < 2:
        return ""
    return f" From left to right: {listed(list(environment.names), 12)}."


def compact(values: np.ndarray) -> Any:
    """Nested lists with whole numbers where all of them are: these make a smaller page."""
    return (values.astype(int) if np.array_equal(values, np.round(values)) else values).tolist()


def moves_of(environment: Environment) -> np.ndarray:
    """[S, A, 2]: which way each action leads on the drawing, to where it leads most often."""
    assert environment.coordinates is not None
    where = np.asarray(environment.matrix.argmax(axis=1)).reshape(environment.available.shape)
    there = environment.coordinates[where] - environment.coordinates[:, None]
    return np.where(environment.available[..., None], there, 0.0)


def _spacing(spots: np.ndarray) -> float:
    """The smallest distance between two places."""
    return float(cKDTree(spots).query(spots, k=2)[0][:, 1].min())
