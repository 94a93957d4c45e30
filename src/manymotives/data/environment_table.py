"""An environment table, row by row: what is wrong with the moves it lists, and in which rows."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from manymotives.data.labels import Label
from manymotives.data.transitions import ROW_SUM_TOLERANCE
from manymotives.errors import RowError, quoted

SHOWN = 3  # rows named where many belong together


def check_moves(
    moves: pd.DataFrame,
    indices: tuple[np.ndarray, np.ndarray, np.ndarray],
    probabilities: np.ndarray,
    terminal: Sequence[Label],
    next_state_column: str,
    probability_column: str,
) -> None:
    """Refuse moves listed twice, numbers that are no probabilities or do not sum to 1, and states that are never left.

    `moves` has the columns state, action, next_state, and the users' rows as its index; `indices` are the same three as
    indices. What is listed for terminal states is never used, and not looked at.
    """
    here, act, there = indices
    column, rows = f"column {quoted(probability_column)}, ", moves.index.to_numpy()
    again = np.flatnonzero(pd.DataFrame({"here": here, "act": act, "there": there}).duplicated())
    if again.size:
        at = again[0]
        first = int(np.flatnonzero((here == here[at]) & (act == act[at]) & (there == there[at]))[0])
        arrival = f"next state {quoted(moves['next_state'].iloc[at])}"
        raise RowError(column, (rows[first], rows[at]), f": both are for {_move(moves, at)}, {arrival}. Keep one.")

    used = ~moves["state"].isin(terminal).to_numpy()
    wrong = np.flatnonzero(used & ~((probabilities >= 0) & np.isfinite(probabilities)))
    if wrong.size:
        raise RowError(
            column,
            (rows[wrong[0]],),
            f": {probabilities[wrong[0]]:g} is not a probability. Write a number from 0 to 1.",
        )
    _check_sums(moves, here * (act.max() + 1) + act, probabilities, used, column)

    left = set(moves["state"]) | set(terminal)
    stuck = [name for name in dict.fromkeys(moves["next_state"]) if name not in left]
    if stuck:
        at = int(np.flatnonzero((moves["next_state"] == stuck[0]).to_numpy())[0])
        more = f" (and {len(stuck) - 1} more)" if len(stuck) > 1 else ""
        raise RowError(
            f"column {quoted(next_state_column)}, ",
            (rows[at],),
            f": state {quoted(stuck[0])}{more} has no action. If episodes end there, declare it terminal, by a "
            "row with the state and nothing else; otherwise give it an action.",
        )


def _check_sums(
    moves: pd.DataFrame, pairs: np.ndarray, probabilities: np.ndarray, used: np.ndarray, column: str
) -> None:
    """The probabilities of each state and action sum to 1."""
    codes, found = pd.factorize(pairs)
    sums = np.bincount(codes, weights=probabilities, minlength=len(found))
    off = np.flatnonzero(used & (np.abs(sums - 1) > ROW_SUM_TOLERANCE)[codes])
    if off.size == 0:
        return
    together = np.flatnonzero(codes == codes[off[0]])
    more = len(np.unique(codes[off])) - 1
    others = f" ({more} more {'does' if more == 1 else 'do'} not sum to 1 either)" if more else ""
    beyond = f" and {len(together) - SHOWN} more" if len(together) > SHOWN else ""
    each = "the probability" if len(together) == 1 else "the probabilities"
    raise RowError(
        column,
        moves.index[together[:SHOWN]].tolist(),
        f"{beyond}: {each} of {_move(moves, off[0])} sum{'s' if len(together) == 1 else ''} to "
        f"{sums[codes[off[0]]]:.10g}, not 1{others}. Correct {'it' if len(together) == 1 else 'them'}, or add the "
        "missing next state.",
    )


def _move(moves: pd.DataFrame, at: int | np.integer) -> str:
    return f"state {quoted(moves['state'].iloc[at])}, action {quoted(moves['action'].iloc[at])}"
