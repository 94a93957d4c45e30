"""Collapsed updates of concentrations and swap moves, in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as sc
import scipy.stats as st

import manymotives as mm
from goodness_of_fit import SIGNIFICANCE
from manymotives.inference.many_chains import collapsed
from manymotives.inference.many_chains.collapsed import (
    CEILING,
    CentredState,
    _below,
    _log_series,
    collapsed_update,
    has_collapsed_update,
    swap,
)
from manymotives.inference.many_chains.density import populations_at
from manymotives.inference.many_chains.layout import data_of, static_layout_of
from manymotives.inference.mcmc import noncentred
from manymotives.inference.mcmc.collapsed import _log_series as compiled_series
from manymotives.inference.mcmc.density import noncentred_draws

RATE, CHAINS = 5.0, 4000


def bound(inverse_temperature=1e-9):
    environment = mm.worlds.RandomMDP(3, 2, seed=0, discount=0.9)
    demonstrations = mm.simulate(environment, np.eye(3)[[0, 1]], mm.Softmax(0.0), steps=1, seed=0)
    prior = mm.DirichletReward(concentration=mm.Gamma(shape=1.0, rate=RATE))
    return mm.RewardPolicyModel(prior, mm.Softmax(inverse_temperature)).bind(environment, demonstrations)


@pytest.mark.parametrize("shape", [1e-3, 0.8, 30.0])
@pytest.mark.parametrize("x", [1e-300, 1e-4, np.exp(CEILING)])
def test_the_series_is_the_compiled_one(shape, x):
    assert float(_log_series(jnp.asarray(shape), jnp.asarray(x))) == pytest.approx(compiled_series(shape, x), abs=1e-12)


@pytest.mark.parametrize("shape", [0.05, 3.0])
def test_draws_below_a_limit_have_the_truncated_density(shape):
    limit = jnp.full(4000, CEILING)
    x = np.exp(np.asarray(_below(jax.random.key(0), jnp.full(4000, shape), limit)))
    ranks = sc.gammainc(shape, x) / sc.gammainc(shape, np.exp(CEILING))
    assert st.kstest(ranks, "uniform").pvalue > SIGNIFICANCE
    assert st.kstest(ranks**2, "uniform").pvalue < 1e-6  # the control


def moved(target, rng, moves=12):
    """Concentrations and log x [C, …] of chains that begin with exact draws from the prior, before and after."""
    hyper = target.draw_hyper(rng, CHAINS)
    tasks = target.draw_tasks(rng, hyper)
    layout, data = static_layout_of(target), jax.tree.map(jnp.asarray, data_of(target))
    assert has_collapsed_update(layout)
    hyper_z, _ = noncentred_draws(target.layout, hyper, tasks)
    hyper_z, u = (jnp.asarray(each.transpose(2, 1, 0)) for each in (hyper_z, tasks))
    actions = jnp.zeros((target.environment.num_states, target.num_tasks, CHAINS), jnp.int32)
    likelihood, likelihood_gradient, actions = collapsed.choices(layout, data, u, actions)

    @jax.jit
    def step(place, key):
        keys = jax.random.split(key)
        place = collapsed_update(layout, data, place, keys[0])
        _, values, _ = populations_at(layout, data, place.hyper_z)
        return swap(layout, data, values, place, keys[1])

    place = CentredState(hyper_z, u, likelihood, likelihood_gradient, actions)
    for key in jax.random.split(jax.random.key(1), moves):
        place = step(place, key)
    after = target.natural_hyper(
        np.stack([[noncentred.centred(0, z, 1.0, RATE)[0] for z in row] for row in np.asarray(place.hyper_z[:, 0])]).T
    )
    return target.natural_hyper(hyper[:, 0]), after, tasks, np.asarray(place.u).transpose(2, 1, 0)


@pytest.mark.long
def test_the_prior_stays_as_it_is_where_choices_say_nothing():
    before, after, tasks, u = moved(bound(), np.random.default_rng(0))
    assert (before != after).mean() > 0.8  # they do move
    for k in range(3):
        assert st.kstest(after[:, k], st.gamma(1.0, scale=1 / RATE).cdf).pvalue > SIGNIFICANCE
        assert st.ks_2samp(u[:, 0, k], tasks[:, 1, k]).pvalue > SIGNIFICANCE
        both = np.argsort(np.argsort(after[:, k])) + np.argsort(np.argsort(u[:, 1, k]))  # ranks: what belongs together
        same = np.argsort(np.argsort(before[:, k])) + np.argsort(np.argsort(tasks[:, 1, k]))
        assert st.ks_2samp(both, same).pvalue > SIGNIFICANCE


@pytest.mark.long
def test_a_wrong_density_is_seen(monkeypatch):
    """The control: without the negligible rewards' part of the density, concentrations do not stay."""
    monkeypatch.setattr(collapsed, "_log_series", lambda shape, x: 9.0 * shape)
    _, after, _, _ = moved(bound(), np.random.default_rng(0))
    assert min(st.kstest(after[:, k], st.gamma(1.0, scale=1 / RATE).cdf).pvalue for k in range(3)) < 1e-6
