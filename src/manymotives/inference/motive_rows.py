"""Rows of the transition matrix of motives, given expected numbers of transitions: means on the tree of rows.

A node's row is Dirichlet(ν · its parent's), with expected transitions X at the leaves. What a child asks of its parent
is the expected number of tables of a Chinese restaurant, t_k = ν p_k (ψ(X_k + ν p_k) − ψ(ν p_k)) with p the parent's
row; these are the parent's transitions. From the root down rows are posterior means, (X + ν p) / (Σ X + ν). κ and ν are
the likeliest, times their prior: Dirichlet–multinomial distributions of X.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import optimize
from scipy.special import gammaln, psi

from manymotives.families import log_density
from manymotives.models.assignment import KNOWN, RowTree

NARROWEST, WIDEST = np.log(1e-2), np.log(1e5)  # of κ and ν
SMALLEST = 1e-10  # of a row's probabilities


class Rows(NamedTuple):
    """At all nodes, and the numbers behind them."""

    rows: Float[np.ndarray, "N R K"]  # from each motive, and last the one by which segments begin
    stickiness: Float[np.ndarray, " roots"]
    concentration: Float[np.ndarray, "roots levels"]
    pseudo: Float[np.ndarray, "N R K"]  # of the Dirichlet distribution of each row, given what was expected


def first_rows(tree: RowTree, num_motives: int) -> Rows:
    """Before anything is known: motives are kept."""
    rows = np.full((len(tree.parent), num_motives + 1, num_motives), 1.0 / num_motives)
    rows[:, :-1] = 0.9 * np.eye(num_motives) + 0.1 / num_motives
    roots, levels = tree.begin.shape[0], tree.begin.shape[1] - 1
    stickiness = np.full(roots, 10.0 if tree.stickiness_family != KNOWN else tree.stickiness[0])
    concentration = np.full((roots, levels), 10.0 if tree.concentration_family != KNOWN else tree.concentration[0])
    return Rows(rows, stickiness, concentration, 10 * rows)


def expected_rows(tree: RowTree, transitions: Float[np.ndarray, "C R K"], before: Rows) -> Rows:
    """Rows, κ and ν, given expected transitions of contexts, the leaves; from where they stood before."""
    counts = np.zeros_like(before.rows)
    counts[tree.context] = transitions
    rows, pseudo = before.rows.copy(), before.pseudo.copy()
    stickiness, concentration = before.stickiness.copy(), before.concentration.copy()
    kept = np.vstack([np.eye(rows.shape[2]), np.zeros(rows.shape[2])])  # where κ is added: not to beginnings
    for root, (begin, end) in enumerate(zip(tree.begin, tree.end)):
        for level in range(len(begin) - 1, 0, -1):
            mine = slice(begin[level], end[level])
            above = rows[tree.parent[mine]]
            if tree.concentration_family != KNOWN:
                concentration[root, level - 1] = likeliest(
                    tree.concentration_family, tree.concentration, counts[mine], above, np.zeros_like(above)
                )
            expected = concentration[root, level - 1] * above
            tables = expected * (psi(counts[mine] + expected) - psi(expected))
            np.add.at(counts, tree.parent[mine], np.where(counts[mine] > 0, tables, 0.0))
        top = begin[0]
        if tree.stickiness_family != KNOWN:
            stickiness[root] = likeliest(
                tree.stickiness_family, tree.stickiness, counts[top, :-1], kept[:-1], np.ones_like(kept[:-1])
            )
        pseudo[top] = counts[top] + 1.0 + stickiness[root] * kept
        rows[top] = _normalised(pseudo[top])
        for level in range(1, len(begin)):
            mine = slice(begin[level], end[level])
            pseudo[mine] = counts[mine] + concentration[root, level - 1] * rows[tree.parent[mine]]
            rows[mine] = _normalised(pseudo[mine])
    return Rows(rows, stickiness, concentration, pseudo)


def likeliest(family: int, parameters: np.ndarray, counts: np.ndarray, shape: np.ndarray, base: np.ndarray) -> float:
    """The number x under which counts [..., K] are likeliest, rows being Dirichlet(x · shape + base)."""
    used = counts.sum(axis=-1) > 0
    counts, shape, base = counts[used], shape[used], base[used]

    def surprise(log_x: float) -> float:
        expected = np.maximum(np.exp(log_x) * shape + base, SMALLEST)
        total = expected.sum(axis=-1)
        found = (gammaln(total) - gammaln(total + counts.sum(axis=-1))).sum()
        found += (gammaln(expected + counts) - gammaln(expected)).sum()
        return -float(found + log_density(family, log_x, parameters[0], parameters[1]))

    return float(np.exp(optimize.minimize_scalar(surprise, bounds=(NARROWEST, WIDEST), method="bounded").x))


def _normalised(pseudo: np.ndarray) -> np.ndarray:
    rows = np.maximum(pseudo, SMALLEST)
    return rows / rows.sum(axis=-1, keepdims=True)
