"""In which order the states of an environment are eliminated, and where sparse LU factors of I − T_π have non-zeros.

Row i of L + U holds the states that are reached from state i by transitions through states eliminated before it
(Rose and Tarjan). They are found row by row, by a search of the rows of U found so far. Where (i, k) and (k, i) are
both there, what row k reaches beyond i is reached by row i as well, and row k is searched no further than i
(symmetric pruning; Eisenstat and Liu). The work grows with the number of non-zeros: no array [S, S] is made.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from scipy.sparse.csgraph import reverse_cuthill_mckee

from manymotives.by_reference import by_reference
from manymotives.data.environment import Environment
from manymotives.jit import compiled

MOST_ENTRIES = 12_000_000  # of L and U: a hundred million bytes
MOST_OPERATIONS = 1e10  # of an elimination in a band: a minimum-degree order takes a tenth of it, or a few seconds


@by_reference
class Elimination(NamedTuple):
    """In which order states are eliminated, and where L and U have non-zeros: row by row, columns ascending."""

    order: np.ndarray  # [S] the state that is eliminated i-th
    columns: np.ndarray  # [transitions] the position in that order of each transition's next state
    indptr: np.ndarray  # [S + 1]
    indices: np.ndarray  # [E] uint32: half the memory to read, and no check for negative ones
    diagonal: np.ndarray  # [S] where in `indices` the diagonal is
    is_nested: np.ndarray  # [S] whether row i of U is i + 1, and then row i + 1 of U: so that both are read together


def elimination_of(environment: Environment) -> Elimination:
    """The symbolic factorisation of I − T_π for every policy of an environment; none where factors are too large."""
    matrix: Any = environment.matrix
    num_states, num_actions = environment.num_states, environment.num_actions
    entries = matrix.tocoo()
    links = sp.csr_array(
        (np.ones(entries.nnz), (entries.row // num_actions, entries.col)), shape=(num_states, num_states)
    )
    if _operations_in_a_band(links) > MOST_OPERATIONS:
        return no_elimination()
    dominant = links + sp.diags_array(np.asarray(links.sum(axis=1)).ravel() + 1.0)
    options = {"SymmetricMode": True}
    position = spl.splu(dominant.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options).perm_c
    position = np.asarray(position, dtype=np.int64)  # of each state in the order of elimination
    order = np.argsort(position)
    permuted = sp.csr_array(links[order][:, order])
    indptr, indices, diagonal, is_nested = _filled(
        permuted.indptr.astype(np.int64), permuted.indices.astype(np.int64), MOST_ENTRIES
    )
    if len(indices) == 0:
        return no_elimination()
    return Elimination(order, position[matrix.indices], indptr, indices, diagonal, is_nested)


def no_elimination() -> Elimination:
    """What stands in a `World` that has no use for one."""
    nothing = np.empty(0, dtype=np.int64)
    return Elimination(nothing, nothing, nothing, nothing.astype(np.uint32), nothing, nothing > 0)


def operations(elimination: Elimination) -> tuple[int, int]:
    """Multiplications of a factorisation, and of a solution with its factors."""
    if len(elimination.indices) == 0:
        return 0, 0
    above = elimination.indptr[1:] - elimination.diagonal - 1  # entries of each row of U beside its diagonal
    rows = np.repeat(np.arange(len(above)), np.diff(elimination.indptr))
    below = elimination.indices[elimination.indices < rows]
    return int(above[below].sum()), len(elimination.indices)


def _operations_in_a_band(links: Any) -> float:
    """Multiplications of an elimination that fills the band of the reverse Cuthill–McKee order: quickly known."""
    symmetric = sp.csr_matrix(links + links.T)
    order = reverse_cuthill_mckee(symmetric, symmetric_mode=True)
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    ends = symmetric.tocoo()
    width = np.zeros(len(order))
    np.maximum.at(width, position[ends.row], (position[ends.row] - position[ends.col]).astype(float))
    return float((width**2).sum())


@compiled
def _filled(indptr, indices, most):
    """Rows of L + U for rows of non-zeros in the order of elimination, where each diagonal is, and which are nested.

    Empty where there are more than `most`.
    """
    size = len(indptr) - 1
    starts, diagonal = np.zeros(size + 1, dtype=np.int64), np.empty(size, dtype=np.int64)
    search_end = np.empty(size, dtype=np.int64)  # of the part of each row of U that is searched
    is_pruned, is_nested = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
    found_for, stack = np.full(size, -1, dtype=np.int64), np.empty(size, dtype=np.int64)
    filled = np.empty(max(1024, 4 * len(indices)), dtype=np.uint32)
    for i in range(size):
        begin = starts[i]
        if begin + size > len(filled):
            longer = np.empty(2 * len(filled) + size, dtype=np.uint32)
            for e in range(begin):
                longer[e] = filled[e]
            filled = longer
        end, waiting = begin + 1, 0
        filled[begin] = i
        found_for[i] = i
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if found_for[j] != i:
                found_for[j] = i
                filled[end] = j
                end += 1
                if j < i:
                    stack[waiting] = j
                    waiting += 1
        while waiting > 0:
            waiting -= 1
            k = stack[waiting]
            for e in range(diagonal[k] + 1, search_end[k]):
                j = filled[e]
                if found_for[j] != i:
                    found_for[j] = i
                    filled[end] = j
                    end += 1
                    if j < i:
                        stack[waiting] = j
                        waiting += 1
        if end > most:
            return starts[:0], filled[:0], diagonal[:0], is_nested[:0]
        filled[begin:end].sort()
        starts[i + 1] = search_end[i] = end
        diagonal[i] = begin + np.searchsorted(filled[begin:end], i)
        for e in range(begin, diagonal[i]):
            k = filled[e]
            if not is_pruned[k]:
                at = diagonal[k] + 1 + np.searchsorted(filled[diagonal[k] + 1 : starts[k + 1]], i)
                if at < starts[k + 1] and filled[at] == i:
                    is_pruned[k] = True
                    search_end[k] = at + 1
    for k in range(size - 1):
        first, second = diagonal[k] + 1, diagonal[k + 1]
        length = starts[k + 1] - first
        same = length == starts[k + 2] - second
        for e in range(length if same else 0):
            same = same and filled[first + e] == filled[second + e]
        is_nested[k] = same
    return starts, filled[: starts[size]].copy(), diagonal, is_nested
