"""R-hat and effective draws of many quantities at once, against ArviZ's, one by one."""

import arviz_stats
import numpy as np
import pytest
import xarray as xr

from manymotives.inference import rank_diagnostics

LENGTHS = (4, 5, 6, 7, 8, 9, 10, 11, 50, 101)


def chains_of_every_kind(chains, length):
    """Independent, wandering, of few values, standing still, not a number, sticky and swinging draws."""
    rng = np.random.default_rng([chains, length])
    values = rng.normal(size=(chains, length, 6, 5))
    values[:, :, 1] = np.cumsum(values[:, :, 1], axis=1)
    values[:, :, 2] = np.round(values[:, :, 2])
    values[:, :, 3, 0] = 1.0
    values[:, 0, 3, 1] = np.nan
    values[:, :, 3, 2] = np.arange(chains)[:, None]  # each chain at a place of its own
    values[:, :, 3, 3] = np.arange(length) % 2
    values[:, :, 3, 4] = 1.0 + 1e-16 * values[:, :, 3, 4]
    for before in range(length - 1):
        values[:, before + 1, 4] += 0.9 * values[:, before, 4]
        values[:, before + 1, 5] -= 0.9 * values[:, before, 5]
    one = (("chain", "draw"), values[:, :, 0, 0])
    return xr.Dataset({"many": (("chain", "draw", "x", "y"), values), "one": one}, {"x": list("abcdef")})


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # ArviZ divides by what does not vary
@pytest.mark.parametrize("chains", [1, 2, 3])
def test_diagnostics_are_those_of_arviz(chains, monkeypatch):
    monkeypatch.setattr(rank_diagnostics, "AT_A_TIME", 1_000)  # some quantities at a time
    for length in LENGTHS:
        draws = chains_of_every_kind(chains, length)
        pairs = [(rank_diagnostics.ess(draws, kind), arviz_stats.ess(draws, method=kind)) for kind in ("bulk", "tail")]
        if chains > 1:
            pairs.append((rank_diagnostics.rhat(draws), arviz_stats.rhat(draws)))
        for found, expected in pairs:
            assert list(found.coords) == list(expected.coords)
            xr.testing.assert_allclose(found, expected, rtol=1e-9)  # rounding


def test_order_and_chains_matter():
    """The yardstick sees a difference: order matters for effective draws, chains for R-hat."""
    draws = chains_of_every_kind(2, 101)[["many"]].isel(x=4)
    shuffled = draws.isel(draw=np.random.default_rng(0).permutation(101))
    assert (rank_diagnostics.ess(shuffled, "bulk") > 1.5 * rank_diagnostics.ess(draws, "bulk"))["many"].all()
    apart = draws + xr.DataArray([0.0, 30.0], dims="chain")
    assert (rank_diagnostics.rhat(apart) > rank_diagnostics.rhat(draws))["many"].all()
