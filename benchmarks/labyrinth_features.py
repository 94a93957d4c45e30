"""Features of a step in a labyrinth, given the last nodes: environments with memory in, a sparse one-hot matrix out.

Each group says one thing about a pair (state, action), as a label: the pair has the column of its label, and no other
of that group. A state is the node with as many before it as there is memory. The finest description, by all the nodes
of the state, would be one column for each pair: by default that is left to a model's residual.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

import manymotives as mm

NONE = -1  # in place of a node: the episode had not begun
STRAIGHT = 1e-9  # of a cross product: corridors meet at right angles, or not at all


class Features(NamedTuple):
    """One column for each label of each group, those of a group side by side."""

    matrix: sp.csr_array  # [S·A, K] of zeros and ones, row s·A + a; empty rows where an action does not exist
    names: tuple[str, ...]  # [K] "group: label"
    groups: tuple[str, ...]  # [K] the group of each


def with_memory(environment: mm.Environment, memory: int) -> tuple[mm.Environment, ...]:
    """The environment without memory, with one node, and so on. Every episode starts at home."""
    environments = [environment]
    for _ in range(memory):
        environments.append(environments[-1].with_memory(firsts=()))
    return tuple(environments)


def last_nodes(environments: Sequence[mm.Environment]) -> np.ndarray:
    """[S, memory + 1]: the nodes that each state of the last environment stands for, the current one first."""
    nodes = np.arange(environments[0].num_states)[:, None]
    for environment in environments[1:]:
        assert environment.pairs is not None
        previous, current = environment.pairs.T
        oldest = np.where(previous == NONE, NONE, nodes[previous, -1])
        nodes = np.column_stack([nodes[current], oldest])
    return nodes


def features(environments: Sequence[mm.Environment], water: int, finest: bool = False) -> Features:
    """Of pairs of the last environment, which remembers at least one node; water is at the leaf of that number.

    `finest`: with a column for each pair too, where that is not left to a residual.
    """
    environment = environments[-1]
    state, action = np.nonzero(environment.available)
    rows = state * environment.num_actions + action
    blocks, names, groups = [], [], []
    for group, labels in labels_of(environments, water, finest).items():
        found, column = np.unique(labels, return_inverse=True)
        shape = (environment.available.size, len(found))
        blocks.append(sp.csr_array((np.ones(len(rows)), (rows, column)), shape=shape))
        names += [f"{group}: {label}" for label in found]
        groups += [group] * len(found)
    return Features(sp.hstack(blocks, format="csr"), tuple(names), tuple(groups))


def labels_of(environments: Sequence[mm.Environment], water: int, finest: bool = False) -> dict[str, np.ndarray]:
    """For each group, the label of every pair that exists, state by state."""
    maze, memory = environments[0], len(environments) - 1
    state, action = np.nonzero(environments[-1].available)
    past = last_nodes(environments)[state]  # [pairs, memory + 1]
    here, before = past[:, 0], past[:, 1]
    successor = np.where(maze.available, maze.tensor.argmax(axis=2), NONE)
    there = successor[here, action]

    node_names, actions = np.array([*maze.states, "nothing"]), np.array(maze.actions)  # NONE is the last one's number
    came_from = _words("from", np.append(actions, "nowhere")[_way_to(successor, here, before)])
    step = _joined(came_from, actions[action])
    level = _words("level", _levels(maze)[here])
    nearer = _distances(successor, water)[there] < _distances(successor, water)[here]
    turns = [_turns(maze, before, here, there)]
    labels = {
        "next node": node_names[there],
        "step": step,
        "step by level": _joined(step, level),
        "turn by level": _joined(turns[0], level),
        "water": np.where(nearer, "towards water", "away from water"),
    }
    for back in range(1, memory):
        turns.append(_turns(maze, past[:, back + 1], past[:, back], past[:, back - 1]))
        labels[f"step after {back} turn{'s' if back > 1 else ''}"] = _joined(
            step, level, *(_words("after", turn) for turn in turns[1:])
        )
    for length in range(2, memory + (2 if finest else 1)):
        route = (node_names[past[:, back]] for back in reversed(range(length)))
        labels[f"last {length} nodes"] = _joined(*route, actions[action])
    return labels


def _turns(maze: mm.Environment, before: np.ndarray, here: np.ndarray, there: np.ndarray) -> np.ndarray:
    """How one turns on the way from node to node to node: back, forward, left or right as the maze is drawn."""
    assert maze.coordinates is not None
    arriving, leaving = (
        maze.coordinates[here] - maze.coordinates[before],
        maze.coordinates[there] - maze.coordinates[here],
    )
    cross = arriving[:, 0] * leaving[:, 1] - arriving[:, 1] * leaving[:, 0]
    turn = np.select([cross > STRAIGHT, cross < -STRAIGHT], ["turn left", "turn right"], "go forward")
    turn = np.where(there == before, "turn back", turn)
    return np.where((before == NONE) | (here == NONE), "begin", turn)


def _way_to(successor: np.ndarray, here: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The action that leads from one node to its neighbour; NONE where there is no other."""
    return np.where(other == NONE, NONE, (successor[here] == other[:, None]).argmax(axis=1))


def _levels(maze: mm.Environment) -> np.ndarray:
    """How often the way from the entrance to each node has forked; "home" for that."""
    return np.array([*((node + 1).bit_length() - 1 for node in range(maze.num_states - 1)), "home"])


def _distances(successor: np.ndarray, goal: int) -> np.ndarray:
    """Steps from each node to one of them."""
    distance = np.full(len(successor), len(successor))
    distance[goal] = 0
    for _ in range(len(successor)):
        neighbours = np.where(successor == NONE, len(successor), distance[successor])
        nearest = np.minimum(distance, neighbours.min(axis=1) + 1)
        if np.array_equal(nearest, distance):
            break
        distance = nearest
    return distance


def _words(word: str, values: np.ndarray) -> np.ndarray:
    return np.strings.add(f"{word} ", values.astype(str))


def _joined(*parts: np.ndarray) -> np.ndarray:
    """Labels of several parts, with commas."""
    joined = parts[0]
    for part in parts[1:]:
        joined = np.strings.add(np.strings.add(joined, ", "), part)
    return joined
