"""What no choice can show in environments of hundreds and thousands of states, by sparse factors."""

import numpy as np
import pytest
import scipy.sparse as sp

import manymotives as mm
from manymotives.planning import potentials


def rooms(*sides, weak=0.0):
    """Open rooms side by side whose moves go wrong by another probability in every state; a weak door between them."""
    rng, blocks = np.random.default_rng(0), []
    for side in sides:
        moves = sp.csr_array(mm.worlds.GridWorld((side, side), slip=0.2).matrix)
        moves.data = moves.data * rng.uniform(0.5, 1.5, size=len(moves.data))
        blocks.append(moves)
    matrix = sp.lil_array(sp.block_diag(blocks))
    if weak:
        matrix[0, matrix.shape[1] - 1] = weak
    matrix = sp.csr_array(matrix)
    whole = sp.diags_array(1 / np.asarray(matrix.sum(axis=1)).ravel()) @ matrix
    return mm.Environment(sp.csr_array(whole), discount=0.9)


@pytest.mark.parametrize("sides", [(24,), (20, 15), (16, 16, 16)])
def test_sparse_factors_find_what_dense_algebra_finds(sides, monkeypatch):
    env = rooms(*sides)
    with_factors = mm.identifiability(env)
    monkeypatch.setattr(potentials, "SPARSE", 10**9)
    potentials.potentials_of.cache_clear()
    dense = mm.identifiability(env)
    potentials.potentials_of.cache_clear()
    assert with_factors.directions.shape[1] == dense.directions.shape[1] == len(sides)
    np.testing.assert_array_equal(with_factors.groups, dense.groups)
    # both span the same: projections on one leave nothing of the other
    left = with_factors.directions - dense.directions @ (dense.directions.T @ with_factors.directions)
    assert np.abs(left).max() < 1e-9


def test_sparse_factors_leave_open_what_they_cannot_decide():
    many = rooms(*[8] * 10)
    rows, _ = potentials.differences_of(many, np.ones(many.num_states, dtype=bool))
    assert potentials._sparse_null_space(rows) is None  # ten potentials
    rows, _ = potentials.differences_of(rooms(20, 15, weak=1e-5), np.ones(625, dtype=bool))
    assert potentials._sparse_null_space(rows) is None  # one, and another nearly


def test_ten_thousand_states_are_looked_at_in_full():
    known = mm.identifiability(rooms(100))
    assert known.left_out is None
    assert known.is_plain
