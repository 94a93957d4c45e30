"""Demonstrations or a table of counts in; what a `DynamicsBelief` is made from out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from manymotives.data.belief_rows import possible_rows
from manymotives.data.demonstrations import NONE, Demonstrations
from manymotives.data.labels import Label, index_of, indices_of
from manymotives.data.tables import Column, column_name, columns_of, numbers_in
from manymotives.errors import InputError, RowError, quoted


def parts_of_demonstrations(
    demonstrations: Demonstrations, possible: Any, terminal: Sequence[Label], start: Any
) -> dict[str, Any]:
    """Counts of what followed, what is possible, and where episodes begin and end, as they were seen to."""
    states, actions = demonstrations.states, demonstrations.actions
    size, width = len(states), len(actions)
    counts = demonstrations.transition_counts().astype(float)
    taken = demonstrations.action != NONE
    available = np.zeros((size, width), dtype=bool)
    available[demonstrations.state[taken], demonstrations.action[taken]] = True
    ends = np.zeros(size, dtype=bool)
    ends[[index_of(name, states, "state") for name in terminal]] = True
    wrong = np.flatnonzero(ends & available.any(axis=1))
    if wrong.size:
        raise InputError(
            f"state {quoted(states[wrong[0]])} is declared terminal, but choices are made in it. Leave it "
            "out of the terminal states, or leave the action empty there."
        )
    ends |= ~available.any(axis=1)
    if possible is None:
        moves = counts.tocoo()
        follows = sp.csr_array((np.ones(moves.nnz), (moves.row // width, moves.col)), shape=(size, size)).toarray() > 0
        follows[~follows.any(axis=1)] = True
        possible = np.broadcast_to(follows[:, None], (size, width, size))
    moves_of_taken = possible_rows(possible, states, actions).multiply(available.reshape(-1, 1))
    if start is None:
        first = np.append(True, np.diff(demonstrations.episode) != 0)
        start = np.bincount(demonstrations.state[first], minlength=size).astype(float)
        start[ends] = 0
        start = start / start.sum() if start.sum() else None
    return {
        "counts": counts,
        "possible": sp.csr_array(moves_of_taken),
        "states": states,
        "actions": actions,
        "terminal": [states[s] for s in np.flatnonzero(ends)],
        "start": start,
    }


def parts_of_table(frame: Any, columns: dict[str, Column]) -> dict[str, Any]:
    """Counts of the moves that are listed, which are those that are possible, and names as they first appear."""
    table = columns_of(frame, columns, "the table of counts").dropna(how="all")
    for word, column in columns.items():
        holes = np.flatnonzero(table[word].isna())
        if holes.size:
            row = table.index[holes[0]]
            raise RowError(f"column {quoted(column_name(column))}, ", (row,), ": this cell is empty. Fill it in.")
    numbers = numbers_in(table["count"])
    if not np.isfinite(numbers).all():
        at = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise InputError(
            f"column {quoted(columns['count'])}: {quoted(table['count'].iloc[at])} is not a number. Write a count, "
            "such as 12."
        )
    states = list(dict.fromkeys([*table["state"], *table["next_state"]]))
    actions = list(dict.fromkeys(table["action"]))
    size, width = len(states), len(actions)
    here = indices_of(table["state"], states, "state", column_name(columns["state"]))
    act = indices_of(table["action"], actions, "action", column_name(columns["action"]))
    there = indices_of(table["next_state"], states, "state", column_name(columns["next_state"]))
    shape = (size * width, size)
    listed = sp.csr_array((np.ones(len(table)), (here * width + act, there)), shape=shape)
    return {
        "counts": sp.csr_array((numbers, (here * width + act, there)), shape=shape),
        "possible": listed > 0,
        "states": states,
        "actions": actions,
        "terminal": [states[s] for s in np.flatnonzero(~np.isin(np.arange(size), here))],
    }
