"""Features as rows of a sparse matrix: most are zero where there are many, such as one for each pair of states."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp


class Features(NamedTuple):
    """Compressed sparse rows Φ [cells, K], for compiled loops; without a row where rewards have no features."""

    begin: np.ndarray  # [cells + 1] where the entries of each row begin, and where the last one ends
    column: np.ndarray  # [entries], in ascending order within a row
    value: np.ndarray  # [entries]
    width: int  # K

    @classmethod
    def of(cls, matrix: Any) -> "Features":
        """From a sparse matrix [cells, K]; None: no features."""
        if matrix is None:
            return cls(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0), 0)
        rows = sp.csr_array(matrix)
        rows.sum_duplicates()
        return cls(rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data.astype(float), rows.shape[1])

    def copied(self) -> "Features":
        """The same with arrays of its own."""
        return Features(self.begin.copy(), self.column.copy(), self.value.copy(), self.width)

    @property
    def exist(self) -> bool:
        """Whether there are any; compiled loops ask `len(begin) > 1`."""
        return len(self.begin) > 1

    @property
    def matrix(self) -> sp.csr_array:
        """[cells, K]"""
        return sp.csr_array((self.value, self.column, self.begin), shape=(len(self.begin) - 1, self.width))
