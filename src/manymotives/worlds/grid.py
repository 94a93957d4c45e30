"""Grid worlds, from a size or from a drawing."""

from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse as sp

from manymotives.data.environment import Environment
from manymotives.data.transitions import handy
from manymotives.errors import InputError

MOVES = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}


def GridWorld(
    layout: str | Sequence[str] | tuple[int, int],
    slip: float = 0.0,
    discount: float = 0.95,
    rewards: Mapping[str, float] | None = None,
    terminal: str = "",
) -> Environment:
    """A grid of cells with four moves, and walls that block them.

    Parameters
    ----------
    layout
        A drawing with one character per cell (`#` is a wall, `S` a start, anything else an ordinary cell), or (rows,
        columns) of an open room. Cells are named by row and column, such as "r0c3".
    slip
        The probability of moving at a right angle instead, half of it to each side. A move into a wall or off the map
        leaves the agent in place.
    discount
        γ.
    rewards
        The reward of the cells drawn with each character, such as {"G": 1.0, "X": -1.0}; other cells have 0.
    terminal
        Characters whose cells end the episode, such as "GX".

    Returns
    -------
    Environment
        An environment with coordinates, and with its own reward if `rewards` are given.
    """
    if not 0 <= slip <= 1:
        raise InputError(f"slip must be a probability; found {slip}.")
    drawing = _drawing_of(layout)
    cells = np.argwhere(drawing != "#")
    if len(cells) == 0:
        raise InputError("the layout has no cell that is not a wall.")
    letters = drawing[tuple(cells.T)]
    for letter in {*(rewards or {}), *terminal} - set(letters):
        raise InputError(f"the layout has no cell drawn {letter!r}.")

    number = np.full(np.array(drawing.shape) + 2, -1)  # a wall all around
    number[tuple(cells.T + 1)] = np.arange(len(cells))
    here = np.arange(len(cells))
    targets = []
    for move in MOVES.values():
        ahead = number[tuple((cells + 1 + move).T)]
        targets.append(np.where(ahead >= 0, ahead, here))
    rows, columns, probabilities = [], [], []
    for action in range(4):
        sides = ((action + 1) % 4, slip / 2), ((action + 3) % 4, slip / 2)
        for direction, probability in ((action, 1 - slip), *sides):
            rows.append(here * 4 + action)
            columns.append(targets[direction])
            probabilities.append(np.full(len(cells), probability))
    entries = np.concatenate(probabilities), (np.concatenate(rows), np.concatenate(columns))
    matrix = sp.csr_array(entries, shape=(4 * len(cells), len(cells)))

    names = [f"r{row}c{column}" for row, column in cells.tolist()]
    starts = letters == "S"
    return Environment(
        handy(matrix),
        discount=discount,
        states=names,
        actions=list(MOVES),
        terminal=[name for name, letter in zip(names, letters) if letter in terminal],
        start=starts / starts.sum() if starts.any() else None,
        reward=np.array([(rewards or {}).get(letter, 0.0) for letter in letters.tolist()]),
    ).with_coordinates(np.column_stack([cells[:, 1], -cells[:, 0]]))


def _drawing_of(layout: str | Sequence[str] | tuple[int, int]) -> np.ndarray:
    """The layout as an array of single characters."""
    if isinstance(layout, str):
        lines = [line.strip() for line in layout.splitlines() if line.strip()]
    elif all(isinstance(part, str) for part in layout):
        lines = [str(line) for line in layout]
    else:
        if len(layout) != 2 or not all(isinstance(size, int) and size > 0 for size in layout):
            raise InputError(f"the size of a grid must be (rows, columns), both at least 1; found {layout!r}.")
        return np.full(layout, ".")  # type: ignore[arg-type]
    if not lines or len({len(line) for line in lines}) != 1 or not lines[0]:
        lengths = ", ".join(str(len(line)) for line in lines) or "none"
        raise InputError(f"the lines of a layout must be equally long; found the lengths {lengths}.")
    return np.array([list(line) for line in lines])
