"""Counts, a prior and what is possible in; checked Dirichlet concentrations for each state and action out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from manymotives.data.alignment import aligned, is_labelled, labelled
from manymotives.data.labels import Label, index_of
from manymotives.data.transitions import transition_rows
from manymotives.errors import InputError, quoted


def dirichlet_rows(
    counts: Any,
    prior: Any,
    possible: Any,
    states: Sequence[Label] | None,
    actions: Sequence[Label] | None,
    terminal: Sequence[Label],
) -> tuple[sp.csr_array, sp.csr_array, np.ndarray]:
    """Counts [S·A, S], concentrations (counts and prior) [S·A, S], and which actions exist [S, A].

    Arguments are those of `DynamicsBelief`.
    """
    axes = {"state": states, "action": actions, "next_state": states}
    counts, prior = (aligned(values, word, **axes) for word, values in (("counts", counts), ("prior", prior)))
    rows, num_states, num_actions = transition_rows(counts)
    rows = sp.csr_array(rows)
    _check_counts(rows.data, "counts")
    names = range(num_states) if states is None else states
    allowed = possible_rows(possible, names, range(num_actions) if actions is None else actions)
    exists = (allowed.sum(axis=1) > 0).reshape(num_states, num_actions)
    exists[[index_of(name, tuple(names), "state") for name in terminal]] = False
    allowed = sp.csr_array(sp.diags_array(exists.ravel().astype(float)) @ allowed)
    allowed.eliminate_zeros()
    expected = sp.csr_array(_prior_rows(prior, allowed, rows.shape) * allowed)
    _check_counts(expected.data, "prior")
    impossible = rows - rows * allowed
    impossible.eliminate_zeros()
    if impossible.nnz:
        row, there = (int(part[0]) for part in impossible.nonzero())
        here, act = divmod(row, num_actions)
        raise InputError(
            f"state {_name(states, here)} with action {_name(actions, act)} was followed by "
            f"{_name(states, there)}, which is declared impossible."
        )
    concentration = sp.csr_array(rows + expected)
    concentration.eliminate_zeros()
    concentration.sort_indices()
    total = np.asarray(concentration.sum(axis=1)).ravel()
    empty = np.flatnonzero(exists.ravel() & (total == 0))
    if empty.size:
        here, act = divmod(int(empty[0]), num_actions)
        raise InputError(
            f"state {_name(states, here)} with action {_name(actions, act)} has neither counts nor a prior: both "
            "are 0. Give prior counts, or use possible=… to say which actions exist."
        )
    return rows, concentration, exists


def _check_counts(values: np.ndarray, word: str) -> None:
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise InputError(
            f"{word} must be finite and not negative; found {values[~(np.isfinite(values) & (values >= 0))][0]:g}."
        )


def possible_rows(possible: Any, states: Sequence[Label], actions: Sequence[Label]) -> sp.csr_array:
    """Moves that can happen as rows [S·A, S] of zeros and ones, from [S, A, S], such rows, [S, A], or None: all."""
    num_states, num_actions = len(states), len(actions)
    shape = (num_states * num_actions, num_states)
    if possible is None:
        return sp.csr_array(np.ones(shape))
    axes = {"state": states, "action": actions, "next_state": states}
    num_axes = len(labelled(possible).labels) if is_labelled(possible) else np.ndim(possible)
    if num_axes == 2 and not sp.issparse(possible):
        axes.pop("next_state")
        exists = np.asarray(aligned(possible, "possible", **axes), dtype=bool)
        if exists.shape != (num_states, num_actions):
            raise InputError(
                f"possible must have the shape [{num_states}, {num_actions}] (states, actions) or the shape of counts; "
                f"found {list(exists.shape)}."
            )
        return sp.csr_array(np.broadcast_to(exists.reshape(-1, 1), shape).astype(float))
    rows, found_states, found_actions = transition_rows(aligned(possible, "possible", **axes))
    if rows.shape != shape:
        raise InputError(
            f"possible must have the shape of counts; found {[found_states, found_actions, found_states]}."
        )
    rows = sp.csr_array(rows, dtype=float)
    rows.eliminate_zeros()
    rows.data[:] = 1.0
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
