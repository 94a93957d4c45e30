"""Features as rows of a sparse matrix: most are zero where there are many, such as one for each pair of states.

Eigenvectors have no zeros, nor have many radial features: their rows are full, and loops need not look up columns.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from manymotives.by_reference import by_reference

FULL = 0.5  # share of entries from which on zeros are kept …
MANY = 100_000  # … if there are so many: fewer take no time, and go on giving the same numbers to the last bit


@by_reference
class Features(NamedTuple):
    """Compressed sparse rows Φ [cells, K], for compiled loops; without a row where rewards have no features."""

    begin: np.ndarray  # [cells + 1] where the entries of each row begin, and where the last one ends
    column: np.ndarray  # [entries], in ascending order within a row
    value: np.ndarray  # [entries]
    width: int  # K
    is_dense: bool  # rows are full, and `column` is empty

    @classmethod
    def of(cls, matrix: Any, *, may_be_dense: bool = False) -> "Features":
        """From a sparse matrix [cells, K], or a dense one whose zeros are kept; None: no features."""
        if matrix is None:
            return cls(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0), 0, False)
        if isinstance(matrix, np.ndarray):
            cells, width = matrix.shape
            begin = width * np.arange(cells + 1, dtype=np.int64)
            return cls(begin, np.empty(0, dtype=np.int64), matrix.astype(float).ravel(), width, True)
        rows = sp.csr_array(matrix)
        rows.sum_duplicates()
        if may_be_dense and rows.nnz >= max(MANY, FULL * rows.shape[0] * rows.shape[1]):
            return cls.of(rows.toarray())
        begin, column = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
        return cls(begin, column, rows.data.astype(float), rows.shape[1], False)

    def copied(self) -> "Features":
        """The same with arrays of its own."""
        return Features(self.begin.copy(), self.column.copy(), self.value.copy(), self.width, self.is_dense)

    @property
    def exist(self) -> bool:
        """Whether there are any; compiled loops ask `len(begin) > 1`."""
        return len(self.begin) > 1

    @property
    def array(self) -> np.ndarray:
        """[cells, K], with zeros."""
        return self.value.reshape(-1, self.width) if self.is_dense else self.matrix.toarray()

    def times(self, weights: np.ndarray) -> np.ndarray:
        """Φ w [N, cells] for weights [N, K]."""
        return weights @ self.array.T if self.is_dense else (self.matrix @ weights.T).T

    @property
    def matrix(self) -> sp.csr_array:
        """[cells, K]"""
        if self.is_dense:
            return sp.csr_array(self.array)
        return sp.csr_array((self.value, self.column, self.begin), shape=(len(self.begin) - 1, self.width))
