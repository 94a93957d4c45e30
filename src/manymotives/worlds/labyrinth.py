"""A labyrinth shaped like a binary tree, with a home at its entrance (as in Rosenberg et al. 2021)."""

import numpy as np
import scipy.sparse as sp

from manymotives.data.environment import Environment
from manymotives.data.transitions import handy
from manymotives.errors import InputError


def Labyrinth(levels: int = 6, discount: float = 0.95) -> Environment:
    """A binary tree of junctions that forks `levels` times, with a home outside the first junction.

    States "0", "1", … are the junctions and leaves, level by level: from junction n, "left" leads to 2n + 1 and "right"
    to 2n + 2; "back" leads towards the entrance and from there out to "home", where the only action is "enter".

    Parameters
    ----------
    levels
        The number of times it forks.
    discount
        γ.

    Returns
    -------
    Environment
        An environment with coordinates.
    """
    if not 1 <= levels <= 16:
        raise InputError(f"a labyrinth must have from 1 to 16 levels; found {levels}.")
    nodes = 2 ** (levels + 1) - 1
    junctions = 2**levels - 1
    home = nodes
    successor = np.full((nodes + 1, 4), -1)
    successor[:junctions, 0] = 2 * np.arange(junctions) + 1
    successor[:junctions, 1] = 2 * np.arange(junctions) + 2
    successor[1:nodes, 2] = (np.arange(1, nodes) - 1) // 2
    successor[0, 2] = home
    successor[home, 3] = 0

    available = successor >= 0
    size = nodes + 1
    positions = np.flatnonzero(available), successor[available]
    matrix = sp.csr_array((np.ones(len(positions[0])), positions), shape=(4 * size, size))
    return Environment(
        handy(matrix),
        discount=discount,
        states=[*map(str, range(nodes)), "home"],
        actions=["left", "right", "back", "enter"],
        available=available,
        start=(np.arange(size) == home).astype(float),
    ).with_coordinates(_coordinates(levels))


def _coordinates(levels: int) -> np.ndarray:
    """An H-tree: each fork turns by a right angle, and corridors halve every second level."""
    positions = np.zeros((2 ** (levels + 1), 2))
    for node in range(2**levels - 1):
        level = int(np.log2(node + 1))
        reach = 2.0 ** ((levels - level - 1) // 2)
        step = np.array([0.0, reach]) if level % 2 == 0 else np.array([reach, 0.0])
        positions[2 * node + 1], positions[2 * node + 2] = positions[node] + step, positions[node] - step
    positions[-1] = [positions[:, 0].min() - 2.0, 0.0]
    return positions
