"""The linear algebra behind `identifiability`: which potentials, or rewards of states, no choice depends on.

D holds P(·|s, a) − P(·|s, b) for all states s and available actions a, b: its null space are the potentials φ that all
actions change alike. Rows of D that compare two states only, as all do where moves are certain, merge their states,
which may leave other rows with two. What remains is dense linear algebra, for at most `LARGEST` merged states; or, for
more where each state leads to few nearby, inverse iteration with sparse factors of DᵀD, where few potentials remain and
no other comes near.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components, reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from manymotives.data.environment import Environment

LARGEST = 2000  # merged states whose potentials are found by dense linear algebra: seconds
SPARSE = 500  # merged states, beyond which sparse factors are tried
WORK = 1e10  # states × bandwidth² of DᵀD, which bounds what factors take: a few seconds
FEW, ITERATIONS = 8, 8  # potentials that inverse iteration looks for, and its steps for each
SHIFT = 1e-10  # of the largest entry of DᵀD, added to its diagonal so that it can be factored
NUMBERS = 30_000_000  # in a matrix of directions
SMALLEST = 1e-8  # a smaller difference between probabilities is rounding, as in a table printed to nine digits
CANDIDATE = 1e-6  # of the largest eigenvalue of DᵀD: what may be zero, before D itself decides
SINGULAR = 1e-9  # of the largest singular value: zero


def reachable_states(environment: Environment, start: np.ndarray) -> np.ndarray:
    """[S] states that some sequence of actions leads to."""
    num_states, num_actions = environment.available.shape
    moves = environment.matrix.tocoo()
    real = moves.data > 0
    # one more state, from which everything begins
    here = np.concatenate([moves.row[real] // num_actions, np.full(int(start.sum()), num_states)])
    there = np.concatenate([moves.col[real], np.flatnonzero(start)])
    graph = sp.csr_array((np.ones(len(here)), (here, there)), shape=(num_states + 1,) * 2)
    found = np.zeros(num_states + 1, dtype=bool)
    found[breadth_first_order(graph, num_states, return_predecessors=False)] = True
    return found[:num_states]


@lru_cache(maxsize=4)  # a posterior and its thinned copies ask for the same
def potentials_of(environment: Environment, reachable_states: bytes) -> np.ndarray | None:
    """[S, n] columns that span the φ with D φ = 0, 0 where nothing leads; None where there are too many states."""
    num_states, reachable = environment.num_states, np.frombuffer(reachable_states, dtype=bool)
    differences, _ = differences_of(environment, reachable)
    if environment.discount == 0:  # nothing is foreseen
        differences = differences[:0]
    merged = np.arange(num_states)  # the number of the group in which φ is equal
    while True:
        counts = np.diff(differences.indptr)
        differences, counts = differences[counts > 0], counts[counts > 0]
        two = differences[counts == 2]
        if two.shape[0] == 0:
            break
        ends = two.indices.reshape(-1, 2)
        size = differences.shape[1]
        graph = sp.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(size, size))
        number, group = connected_components(graph, directed=False)
        merged = group[merged]
        together = sp.csr_array((np.ones(size), (np.arange(size), group)), shape=(size, number))
        differences = _without_rounding(differences @ together)
    number = differences.shape[1]
    involved = np.unique(differences.indices)
    free = np.setdiff1d(np.unique(merged[reachable]), involved)
    null = _sparse_null_space(differences[:, involved]) if len(involved) > SPARSE else None
    if null is None and len(involved) > LARGEST:
        return None
    if null is None:
        null = _null_space(differences[:, involved].toarray())
    if num_states * (len(free) + null.shape[1]) > NUMBERS:
        return None
    found = np.zeros((number, len(free) + null.shape[1]))
    found[free, np.arange(len(free))] = 1.0
    found[involved, len(free) :] = null
    return np.where(reachable[:, None], found[merged], 0.0)


def unseen_ahead(environment: Environment, reachable: np.ndarray, depth: int, on: str) -> np.ndarray | None:
    """[S, n] columns that span the δ of states that agents who look some steps ahead never show; None: too many.

    Where rewards lie on pairs, terminal states have none.
    """
    num_states = environment.num_states
    is_left_out = ~reachable | (environment.is_terminal & (on == "state_action"))
    if depth == 1 or environment.discount == 0:
        there = np.flatnonzero(~is_left_out)
        return None if num_states * len(there) > NUMBERS else np.eye(num_states)[:, there]
    found = potentials_of(environment, reachable.tobytes())
    if found is None:
        return None
    found = np.linalg.qr(found)[0]
    found = found @ _null_space_of_few(found[is_left_out])
    differences, _ = differences_of(environment, reachable)
    rows = np.flatnonzero(environment.available & reachable[:, None])
    states, first = np.unique(rows // environment.num_actions, return_index=True)
    chain = sp.csr_array((np.ones(len(states)), (states, np.arange(len(states)))), (num_states, len(states)))
    chain = chain @ normalised(environment.matrix[rows[first]])
    moved = found
    for _ in range(depth - 2):
        moved = chain @ moved
        kept = _null_space_of_few(differences @ moved)
        if kept.shape[1] == found.shape[1]:  # and so it stays
            break
        found, moved = found @ kept, moved @ kept
    return found


def _null_space_of_few(matrix: np.ndarray) -> np.ndarray:
    """Orthonormal columns; of few columns whose size is about 1, so that what is small is zero."""
    if matrix.shape[1] == 0 or len(matrix) == 0:
        return np.eye(matrix.shape[1])
    _, singular, right = np.linalg.svd(np.linalg.qr(matrix, mode="r"), full_matrices=True)
    return right[int((singular > SINGULAR).sum()) :].T


def differences_of(environment: Environment, states: np.ndarray) -> tuple[sp.csr_array, np.ndarray]:
    """D: P(·|s, a) − P(·|s, b) in some states, b the first available action; and s·A + a of each row."""
    rows = np.flatnonzero(environment.available & states[:, None])
    _, first, owner = np.unique(rows // environment.num_actions, return_index=True, return_inverse=True)
    matrix = normalised(environment.matrix[rows])
    return _without_rounding(matrix - matrix[first[owner]]), rows


def _null_space(matrix: np.ndarray) -> np.ndarray:
    """Orthonormal columns. The eigenvectors of DᵀD, which are quick, propose; the singular values of D decide."""
    values, vectors = np.linalg.eigh(matrix.T @ matrix)
    if not len(values):
        return vectors
    near = vectors[:, values <= CANDIDATE * values[-1]]
    _, singular, right = np.linalg.svd(matrix @ near, full_matrices=True)
    singular = np.concatenate([singular, np.zeros(near.shape[1] - len(singular))])
    return near @ right[singular <= SINGULAR * np.sqrt(values[-1])].T


def _sparse_null_space(matrix: Any) -> np.ndarray | None:
    """Orthonormal columns, found one by one; None where there are many, or where something else is nearly one of them.

    Inverse iteration finds the smallest singular value that is left, in what is orthogonal to the columns found. It
    is zero, or so far from zero that nothing smaller can have been missed.
    """
    gram = sp.csc_array(matrix.T @ matrix)
    size, largest = gram.shape[0], float(gram.diagonal().max())
    if size * float(_bandwidth(gram)) ** 2 > WORK:
        return None
    solve = splu(sp.csc_array(gram + SHIFT * largest * sp.eye_array(size))).solve
    found = np.full((size, 1), size**-0.5)  # rows of D sum to zero
    rng = np.random.default_rng(0)
    while found.shape[1] <= FEW:
        vector = rng.normal(size=size)
        for _ in range(ITERATIONS):
            for _ in range(2):  # the second time takes away what rounding left
                vector = vector - found @ (found.T @ vector)
            vector = solve(vector / np.linalg.norm(vector))
        vector = vector - found @ (found.T @ vector)
        vector /= np.linalg.norm(vector)
        smallest = np.linalg.norm(matrix @ vector) / np.sqrt(largest)
        if smallest**2 > CANDIDATE:
            return found
        if smallest > SINGULAR:
            return None
        found = np.column_stack([found, vector])
    return None


def _bandwidth(matrix: Any) -> int:
    """How far from the diagonal entries lie, with rows and columns in an order that brings them near."""
    place = np.argsort(reverse_cuthill_mckee(sp.csr_array(matrix), symmetric_mode=True))
    entries = matrix.tocoo()
    return int(np.abs(place[entries.row] - place[entries.col]).max())


def normalised(rows: sp.csr_array) -> sp.csr_array:
    """Probabilities that sum to one to the last digit, so that a constant is one of the potentials."""
    return sp.diags_array(1.0 / np.asarray(rows.sum(axis=1)).ravel()) @ rows


def _without_rounding(matrix: Any) -> sp.csr_array:
    matrix = sp.csr_array(matrix)
    matrix.data[np.abs(matrix.data) <= SMALLEST] = 0.0
    matrix.eliminate_zeros()
    return matrix
