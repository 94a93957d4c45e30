"""Collapsed updates of concentrations: exact without choices, and with some."""

import numpy as np
import pytest
import scipy.integrate as si
import scipy.special as sc
import scipy.stats as st

import manymotives as mm
from goodness_of_fit import SIGNIFICANCE
from manymotives.inference.mcmc.collapsed import _draw_below, _log_series


@pytest.mark.parametrize("shape", [1e-3, 0.07, 1.0, 30.0])
@pytest.mark.parametrize("x", [1e-300, 1e-4, 0.3, 1.0])
def test_the_series_is_the_incomplete_gamma_function(shape, x):
    expected = si.quad(lambda t: np.exp(-x * t ** (1 / shape)), 0, 1)[0]  # P(a, x) Γ(a + 1) / x^a, by t = (y / x)^a
    assert _log_series(shape, x) == pytest.approx(np.log(expected), abs=1e-9)


@pytest.mark.parametrize("shape", [0.05, 0.8, 3.0])
@pytest.mark.parametrize("limit", [-20.0, -1.0, 0.0])
def test_draws_below_a_limit_have_the_truncated_density(shape, limit):
    rng = np.random.default_rng(3)
    x = np.exp(np.array([_draw_below(rng, shape, limit) for _ in range(4000)]))
    ranks = sc.gammainc(shape, x) / sc.gammainc(shape, np.exp(limit))
    assert np.all((ranks >= 0) & (ranks <= 1))
    assert st.kstest(ranks, "uniform").pvalue > SIGNIFICANCE
    assert st.kstest(ranks**2, "uniform").pvalue < 1e-6  # the control


@pytest.mark.parametrize(
    "rate", [pytest.param(10.0, marks=pytest.mark.long), pytest.param(1.0, marks=pytest.mark.long)]
)
def test_without_choices_sparse_populations_are_as_before(rate):
    """Hyperprior in, hyperprior out: quantiles of concentrations and rewards, against draws that need no chain."""
    environment = mm.worlds.RandomMDP(3, 2, seed=0, discount=0.9)
    demonstrations = mm.simulate(
        environment, np.eye(3)[[0, 1, 2]], mm.Softmax(inverse_temperature=0.0), steps=1, seed=0
    )
    model = mm.RewardPolicyModel(
        mm.DirichletReward(concentration=mm.Gamma(shape=1.0, rate=rate)), mm.Softmax(inverse_temperature=1e-9)
    )
    method = mm.HMC(chains=4, draws=400, warmup=200, thin=8, max_rounds=1)
    drawn = mm.fit(model, environment, demonstrations, method, seed=1, progress=False).data["posterior"].dataset
    thinned = drawn["reward_concentration"].values[:, ::8].reshape(-1, 3)
    for values in thinned.T:
        assert st.kstest(values, st.gamma(1.0, scale=1 / rate).cdf).pvalue > SIGNIFICANCE
        assert st.kstest(values, st.gamma(1.0, scale=1.7 / rate).cdf).pvalue < 1e-3  # the control
    rng = np.random.default_rng(5)
    concentration = rng.gamma(1.0, 1 / rate, size=(200_000, 3))
    logs = np.log(rng.gamma(concentration + 1)) + np.log(rng.random(concentration.shape)) / concentration
    reward = np.exp(logs - sc.logsumexp(logs, axis=1, keepdims=True))
    found = drawn["reward"].values[:, ::10].reshape(-1, 3)
    assert st.ks_2samp(found[:, 0], reward[:, 0]).pvalue > SIGNIFICANCE
