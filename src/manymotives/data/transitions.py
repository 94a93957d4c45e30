"""What follows what: transition probabilities in, checked rows [S·A, S] out, dense or sparse."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from manymotives.data.labels import Label
from manymotives.errors import InputError, quoted

DENSE_STATES = 128  # up to so many, transitions we make ourselves are arrays: easier to look at
ROW_SUM_TOLERANCE = 1e-8  # what float64 rounding and a table printed to nine digits leave


def transition_rows(transitions: Any) -> tuple[Any, int, int]:
    """Transitions as rows [S·A, S], dense or sparse, in float64 and owned by us."""
    if sp.issparse(transitions):
        rows = sp.csr_array(transitions, dtype=np.float64, copy=True)
        rows.sum_duplicates()
        height, num_states = rows.shape
        if num_states == 0 or height == 0 or height % num_states:
            raise InputError(
                "sparse transitions must have the shape [S·A, S], row s·A + a for action a in state s; found "
                f"{list(rows.shape)}."
            )
        return rows, num_states, height // num_states
    array = np.array(transitions, dtype=np.float64, order="C")
    if array.ndim != 3 or array.shape[0] != array.shape[2] or 0 in array.shape:
        raise InputError(
            f"transitions must have the shape [S, A, S] (states, actions, next states); found {list(array.shape)}."
        )
    return array.reshape(-1, array.shape[2]), array.shape[0], array.shape[1]


def handy(matrix: sp.csr_array) -> Any:
    """A sparse matrix [S·A, S] as an array [S, A, S] where that is small."""
    height, num_states = matrix.shape
    if num_states > DENSE_STATES:
        return matrix
    return matrix.toarray().reshape(num_states, height // num_states, num_states)


def checked_available(
    available: Any, is_terminal: np.ndarray, states: tuple[Label, ...], num_actions: int
) -> np.ndarray:
    shape = (len(states), num_actions)
    exists = np.ones(shape, dtype=bool) if available is None else np.array(available)
    if exists.shape != shape or exists.dtype != bool:
        raise InputError(
            f"available must be a boolean array of shape {list(shape)} (states, actions); found {exists.dtype} "
            f"of shape {list(exists.shape)}."
        )
    exists[is_terminal] = False  # an episode has ended there: nothing is chosen
    stuck = np.flatnonzero(~exists.any(axis=1) & ~is_terminal)
    if stuck.size:
        more = f" (and {stuck.size - 1} more)" if stuck.size > 1 else ""
        raise InputError(
            f"state {quoted(states[stuck[0]])}{more} has no action. If episodes end there, declare it "
            "terminal; otherwise give it an action."
        )
    return exists


def checked_rows(rows: Any, exists: np.ndarray, states: tuple[Label, ...], actions: tuple[Label, ...]) -> Any:
    """Rows of existing actions are distributions; the others become zero."""
    keep = exists.ravel()
    if sp.issparse(rows):
        rows = sp.csr_array(sp.diags_array(keep.astype(float)) @ rows)
        rows.eliminate_zeros()
        entries, entry_rows = rows.data, np.repeat(np.arange(keep.size), np.diff(rows.indptr))
    else:
        rows[~keep] = 0.0
        entries, entry_rows = rows, np.arange(keep.size)[:, None]

    def name(row: int | np.integer) -> str:
        state, action = divmod(int(row), len(actions))
        return f"state {quoted(states[state])}, action {quoted(actions[action])}"

    wrong = ~np.isfinite(entries) | (entries < 0)
    if wrong.any():
        row = np.broadcast_to(entry_rows, entries.shape)[wrong][0]
        raise InputError(
            f"transitions for {name(row)} contain {entries[wrong][0]:g}. Probabilities must be finite and not negative."
        )
    sums = np.asarray(rows.sum(axis=1)).ravel()
    off = np.flatnonzero(keep & (np.abs(sums - 1) > ROW_SUM_TOLERANCE))
    if off.size:
        more = f" ({off.size - 1} more rows do not sum to 1 either)" if off.size > 1 else ""
        cure = (
            "If the action does not exist there, say so with available=…." if sums[off[0]] == 0 else "Normalise them."
        )
        raise InputError(f"transitions for {name(off[0])} sum to {sums[off[0]]:.10g}, not 1{more}. {cure}")
    # exact to rounding from here on: a row that sums to 1 + 1e-9 would bias V by 1e-9 / (1 − γ)²
    scale = np.where(keep, 1 / np.where(keep, sums, 1), 0)
    if sp.issparse(rows):
        return read_only_matrix(sp.csr_array(sp.diags_array(scale) @ rows))
    return read_only(rows * scale[:, None])


def read_only_matrix(matrix: sp.csr_array) -> sp.csr_array:
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False
    return matrix


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
