"""Counts, a prior and what is possible in; checked Dirichlet concentrations for each state and action out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from manymotives.data.alignment import aligned
from manymotives.data.labels import Label, index_of
from manymotives.data.transitions import transition_rows
from manymotives.errors import InputError, quoted


def dirichlet_rows(
    counts: Any,
    prior: Any,
    possible: Any,
    available: Any,
    states: Sequence[Label] | None,
    actions: Sequence[Label] | None,
    terminal: Sequence[Label],
) -> tuple[sp.csr_array, sp.csr_array, np.ndarray]:
    """Counts [S·A, S], concentrations (counts and prior) [S·A, S], and which actions exist [S, A].

    Arguments are those of `DynamicsBelief`.
    """
    axes = {"state": states, "action": actions, "next_state": states}
    counts, prior, possible = (
        aligned(values, word, **axes) for word, values in (("counts", counts), ("prior", prior), ("possible", possible))
    )
    available = aligned(available, "available", state=states, action=actions)
    rows, num_states, num_actions = transition_rows(counts)
    rows = sp.csr_array(rows)
    _check_counts(rows.data, "counts")
    exists = _existing(available, states, terminal, num_states, num_actions)
    allowed = _rows_like(possible, rows.shape, "possible", exists)
    expected = sp.csr_array(_prior_rows(prior, allowed, rows.shape) * allowed)
    _check_counts(expected.data, "prior")
    impossible = rows - rows * allowed
    impossible.eliminate_zeros()
    if impossible.nnz:
        row, there = (int(part[0]) for part in impossible.nonzero())
        here, act = divmod(row, num_actions)
        raise InputError(
            f"state {_name(states, here)} with action {_name(actions, act)} was followed by "
            f"{_name(states, there)}, which is said to be impossible."
        )
    concentration = sp.csr_array(rows + expected)
    concentration.eliminate_zeros()
    concentration.sort_indices()
    total = np.asarray(concentration.sum(axis=1)).ravel()
    empty = np.flatnonzero(exists.ravel() & (total == 0))
    if empty.size:
        here, act = divmod(int(empty[0]), num_actions)
        raise InputError(
            f"nothing is known or thought of state {_name(states, here)} with action {_name(actions, act)}: its "
            "counts and its prior are 0. Give prior counts, or say available=… where actions do not exist."
        )
    return rows, concentration, exists


def _check_counts(values: np.ndarray, word: str) -> None:
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise InputError(
            f"{word} must be finite and not negative; found {values[~(np.isfinite(values) & (values >= 0))][0]:g}."
        )


def _existing(available: Any, states: Any, terminal: Sequence[Label], num_states: int, num_actions: int) -> np.ndarray:
    """[S, A] which actions exist where; `Environment` checks the rest."""
    exists = np.ones((num_states, num_actions), dtype=bool) if available is None else np.array(available, dtype=bool)
    if exists.shape != (num_states, num_actions):
        raise InputError(
            f"available must have the shape [{num_states}, {num_actions}] (states, actions); found "
            f"{list(exists.shape)}."
        )
    names = tuple(states) if states is not None else tuple(range(num_states))
    exists[[index_of(name, names, "state") for name in terminal]] = False
    return exists


def _rows_like(possible: Any, shape: tuple[int, int], word: str, exists: np.ndarray) -> sp.csr_array:
    """`possible` as rows [S·A, S] of zeros and ones; none where an action does not exist."""
    if possible is None:
        rows = sp.csr_array(np.ones(shape))
    else:
        rows, num_states, num_actions = transition_rows(possible)
        rows = sp.csr_array(rows)
        if rows.shape != shape:
            raise InputError(f"{word} must have the shape of counts; found {[num_states, num_actions, num_states]}.")
    rows.eliminate_zeros()
    rows.data[:] = 1.0
    rows = sp.csr_array(sp.diags_array(exists.ravel().astype(float)) @ rows)
    rows.eliminate_zeros()
    return rows


def _prior_rows(prior: Any, allowed: sp.csr_array, shape: tuple[int, int]) -> Any:
    if np.ndim(prior) == 0 and not sp.issparse(prior):
        _check_counts(np.array([float(prior)]), "prior")
        wide = np.asarray(allowed.sum(axis=1)).ravel()
        return sp.csr_array(sp.diags_array(float(prior) / np.maximum(wide, 1)) @ allowed)
    rows = sp.csr_array(transition_rows(prior)[0])
    if rows.shape != shape:
        raise InputError(
            f"prior must be one number, or have the shape of counts; found rows {list(rows.shape)}, not {list(shape)}."
        )
    return rows


def _name(names: Sequence[Label] | None, index: int) -> str:
    return quoted(index if names is None else list(names)[index])
