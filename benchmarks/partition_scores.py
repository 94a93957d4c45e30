"""Two partitions of the same tasks in, how alike they are out: 1 if they are equal.

With n_ij tasks in block i of the truth and block j of what was found, M in all, H an entropy, I mutual information:

    best_match_f          Σ_i n_i/M max_j 2 n_ij / (n_i + n_j): of each block of the truth, with the block found that is
                          most like it (Larsen & Aone 1999)
    pairwise_f            2 P R / (P + R), of pairs of tasks: P of those found together are together in truth, and R of
                          those together in truth were found together
    mutual_information    2 I / (H(truth) + H(found)), the arithmetic normalisation; 1 where both have one block
    adjusted_rand         (Σ C(n_ij, 2) − E) / ((Σ C(n_i, 2) + Σ C(n_j, 2)) / 2 − E), with
                          E = Σ C(n_i, 2) Σ C(n_j, 2) / C(M, 2)  (Hubert & Arabie 1985): 0 in expectation for blocks at
                          random of these sizes
"""

import numpy as np
from numpy.typing import ArrayLike


def best_match_f(truth: ArrayLike, found: ArrayLike) -> float:
    """Of blocks of the truth, each with the most similar block found."""
    table = _table(truth, found)
    of_truth = table.sum(axis=1, keepdims=True)
    best = (2 * table / (of_truth + table.sum(axis=0))).max(axis=1)
    return float((of_truth[:, 0] * best).sum() / table.sum())


def pairwise_f(truth: ArrayLike, found: ArrayLike) -> float:
    """Of pairs of tasks; 1 where no pair is together in either."""
    both, of_truth, of_found, _ = _pairs(truth, found)
    return float(2 * both / (of_truth + of_found)) if of_truth + of_found else 1.0


def mutual_information(truth: ArrayLike, found: ArrayLike) -> float:
    """Normalised."""
    share = _table(truth, found) / np.size(truth)
    entropies = _entropy(share.sum(axis=1)) + _entropy(share.sum(axis=0))
    return float(2 * (entropies - _entropy(share)) / entropies) if entropies else 1.0


def adjusted_rand(truth: ArrayLike, found: ArrayLike) -> float:
    """The adjusted Rand index."""
    both, of_truth, of_found, every = _pairs(truth, found)
    expected = of_truth * of_found / every
    most = (of_truth + of_found) / 2
    return float((both - expected) / (most - expected)) if most != expected else 1.0


def _pairs(truth: ArrayLike, found: ArrayLike) -> tuple[float, float, float, float]:
    """Pairs together in both, in the truth, in what was found; all pairs."""
    table = _table(truth, found)
    sizes = table, table.sum(axis=1), table.sum(axis=0), table.sum()
    both, of_truth, of_found, every = (float((size * (size - 1)).sum() / 2) for size in sizes)
    return both, of_truth, of_found, every


def _table(truth: ArrayLike, found: ArrayLike) -> np.ndarray:
    """[blocks of the truth, blocks found] how many tasks."""
    rows, columns = (np.unique(np.asarray(each), return_inverse=True)[1] for each in (truth, found))
    table = np.zeros((rows.max() + 1, columns.max() + 1))
    np.add.at(table, (rows, columns), 1.0)
    return table


def _entropy(share: np.ndarray) -> float:
    positive = share[share > 0]
    return float(-(positive * np.log(positive)).sum())
