"""Models at random (`zoo.py`): some of them by every method; what must be found; the oracle they are held against."""

from dataclasses import replace

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import integrate, special, stats

import zoo
from goodness_of_fit import SIGNIFICANCE
from zoo_checks import (
    LARGEST_Z,
    compare,
    effective_sample_size,
    log_reach,
    problems_of,
    quantities,
    split_rhat,
)
from zoo_library import library_method, sample
from zoo_oracle import (
    Distribution,
    Model,
    Variable,
    log_density,
    log_likelihoods,
    log_prior,
    log_tail_probabilities,
    prior_draws,
    rewards_of_pairs,
    variables,
)
from zoo_specimens import specimen

SEED = 22
SHORT = {"chains": 2, "draws": 400, "warmup": 150, "thin": 1}
FAR = 6.0  # standard errors of so few draws are uncertain themselves: only what is further apart is looked at again
RAN_AWAY = [5, 20, 22, 30, 47, 58, 79, 86, 92, 98, 104, 112]  # HMC did, in an earlier version, with these settings
OTHERS = [8, 13, 15, 18, 29, 31, 33, 38]


# ---- the library ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "index",
    [pytest.param(n, marks=[] if k % 9 == 0 else pytest.mark.long) for k, n in enumerate(RAN_AWAY + OTHERS)],
)
def test_every_method_on_a_model_at_random(index):
    record = zoo.examine(SEED, index, SHORT, zoo.METHODS, suspicious=FAR)
    assert not zoo.is_bad(record), zoo.described(record)


@pytest.mark.parametrize("index", [pytest.param(n, marks=pytest.mark.long) for n in range(124, 200, 4)])
def test_every_method_on_a_model_at_random_whose_discount_is_inferred(index):
    assert specimen(SEED, index).model.discount is not None
    record = zoo.examine(SEED, index, SHORT, zoo.METHODS, suspicious=FAR)
    assert not zoo.is_bad(record), zoo.described(record)


@pytest.mark.parametrize("index", [pytest.param(n, marks=pytest.mark.long) for n in range(249, 329, 4)])
def test_every_method_on_a_model_at_random_that_looks_some_steps_ahead(index):
    assert specimen(SEED, index).model.depth is not None
    record = zoo.examine(SEED, index, SHORT, zoo.METHODS, suspicious=FAR)
    assert not zoo.is_bad(record), zoo.described(record)


@pytest.mark.parametrize("index", [pytest.param(n, marks=pytest.mark.long) for n in (17, 2, *range(40, 70))])
def test_chains_around_a_laplace_approximation_on_a_model_at_random(index):
    size = SHORT if index < 40 else SHORT | {"chains": 4, "draws": 600, "thin": 2}
    record = zoo.examine(SEED, index, size, ("HMC", zoo.LAPLACE), suspicious=FAR)
    assert not zoo.is_bad(record), zoo.described(record)


@pytest.mark.parametrize("index", [pytest.param(n, marks=pytest.mark.long) for n in (3, *range(200, 215))])
def test_two_environments_on_a_model_at_random(index):
    record = zoo.examine(SEED, index, SHORT, zoo.METHODS, suspicious=FAR, several=True)
    assert not zoo.is_bad(record), zoo.described(record)


@pytest.mark.long
def test_many_models_at_length():
    size = {"chains": 4, "draws": 1500, "warmup": 400, "thin": 1}
    records = [zoo.examine(SEED + 1, index, size, zoo.METHODS) for index in range(30)]
    assert not any(map(zoo.is_bad, records)), "\n".join(map(zoo.described, filter(zoo.is_bad, records)))
    z = np.concatenate([np.array(pair["z"], float) for record in records for pair in record["pairs"].values()])
    z = z[np.isfinite(z)]
    assert len(z) > 1000
    assert (
        0.85 < np.sqrt((z**2).mean()) < 1.15
    )  # quantities of one model are correlated: as far as a hundred may be off


@pytest.mark.long
@pytest.mark.parametrize("index", [1, 2, 6])
def test_many_chains_at_once_on_a_model_at_random(index):
    record = zoo.examine(SEED, index, {"chains": 8, "draws": 500, "warmup": 400, "thin": 1}, ("HMC", "JAX"))
    assert not zoo.is_bad(record), zoo.described(record)


# ---- checks that must fail -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sampled():
    """A Gaussian model with weights, and draws of it that are in order."""
    one = specimen(SEED, 0)
    rng = np.random.default_rng(0)
    model = Model(
        reward=Distribution("Normal", (Distribution("Normal", (0.0, 1.0)), 1.0)),
        on="state",
        features=rng.normal(size=(len(one.world.available), 2)),
        foresees_errors=True,
        inverse_temperature=1.0,
        lapse=Distribution("Beta", (1.0, 20.0)),
        sharing="Separate",
    )
    one = replace(one, model=model, episodes=one.episodes[:3])
    one = replace(one, num_tasks=len({task for task, _, _ in one.episodes}))
    drawn = sample(one, library_method("Gibbs", chains=2, draws=300, warmup=200, thin=5), seed=0)
    return one, drawn


def found(one, drawn):
    reach = log_reach(one.world, one.model, one.data, np.random.default_rng(0))
    return set(problems_of(one.world, one.model, one.data, drawn, reach))


def test_draws_in_order_pass(sampled):
    assert found(*sampled) == set()


def test_a_corrupted_log_likelihood_is_seen(sampled):
    one, drawn = sampled
    off = replace(drawn, log_likelihood=drawn.log_likelihood * (1 + 1e-6))
    assert found(one, off) == {"log likelihood differs"}
    above = drawn.log_likelihood.copy()
    above[7] = 1e-12
    assert "log likelihood above 0" in found(one, replace(drawn, log_likelihood=above))
    above[7] = np.inf
    assert {"log likelihood above 0", "not finite"} <= found(one, replace(drawn, log_likelihood=above))


def test_a_corrupted_log_density_is_seen(sampled):
    one, drawn = sampled
    off = drawn.log_posterior + 1e-5 * np.arange(len(drawn.draws)) / len(drawn.draws)
    assert found(one, replace(drawn, log_posterior=off)) == {"log density differs"}


def test_one_weight_that_ran_away_is_seen(sampled):
    """Even where likelihood and density are right for it."""
    one, drawn = sampled
    coordinates = drawn.draws.coordinates.copy()
    coordinates[11, 0, 0] = 1e6
    draws = replace(drawn.draws, coordinates=coordinates, rewards=rewards_of_pairs(one.world, one.model, coordinates))
    likelihood, _ = log_likelihoods(one.world, one.model, draws, one.data.counts, one.data.owner)
    density = log_prior(one.model, draws)[0] + likelihood.sum(axis=1)
    assert found(one, replace(drawn, draws=draws, log_likelihood=likelihood, log_posterior=density)) == {"run away"}


def test_a_method_with_shifted_or_wider_draws_is_seen(sampled):
    one, drawn = sampled
    ours = quantities(one.model, drawn, one.data)
    rng = np.random.default_rng(0)
    theirs = {name: values + 0.0 for name, values in ours.items()}
    same = compare(ours, theirs)
    assert same.counted.all()
    assert np.abs(same.z[same.counted]).max() < 1e-9
    centre, scale = ours["reward"].mean(axis=(0, 1)), ours["reward"].std(axis=(0, 1))
    for wrong, kind in ((ours["reward"] + 0.5 * scale, ""), (centre + 2 * (ours["reward"] - centre), " (spread)")):
        apart = compare(ours, theirs | {"reward": wrong[:, rng.permutation(wrong.shape[1])]})
        seen = {name for name, z in zip(apart.names, apart.z) if abs(z) > LARGEST_Z}
        assert {f"reward[{place}]{kind}" for place in range(wrong.shape[-1])} <= seen


# ---- the oracle ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", range(0, 40, 4))
def test_values_solve_the_bellman_equations(index):
    world = specimen(SEED, index).world
    rng = np.random.default_rng(index)
    rewards = rng.normal(size=(5, *world.available.shape))
    c = rng.gamma(1.0, 3.0, size=5)
    ends = np.where(world.is_terminal, rewards[:, :, 0], 0.0)
    for soft in (False, True):
        if soft:
            q = world.soft_action_values(rewards, c) / c[:, None, None]
            value = special.logsumexp(c[:, None, None] * q, axis=2) / c[:, None]
        else:
            q = world.optimal_action_values(rewards)
            value = q.max(axis=2)
        value = np.where(world.is_terminal, ends, value)
        for state, action in np.argwhere(world.available):
            expected = rewards[:, state, action] + world.discount * (value @ world.transitions[state, action])
            np.testing.assert_allclose(q[:, state, action], expected, rtol=1e-12, atol=1e-12)  # rounding


FAMILIES = {
    "Gamma": (2.5, 0.7, np.exp),
    "Beta": (0.6, 2.5, special.expit),
    "Normal": (-1.0, 0.3, lambda u: u),
    "HalfNormal": (0.4, 0.4, np.exp),
    "LogNormal": (-1.0, 0.3, np.exp),
}


@pytest.mark.parametrize("kind", FAMILIES)
def test_densities_of_unconstrained_coordinates_integrate_to_one(kind):
    first, second, natural = FAMILIES[kind]

    def density(u):
        given = np.array([natural(u)]), np.array([first]), np.array([second])
        return float(np.exp(log_density(Variable("x", kind, *given))[0][0]))

    assert np.isclose(integrate.quad(density, -35, 8, points=[-2, 0, 1], limit=200)[0], 1.0, atol=1e-7)


def test_tail_probabilities_are_uniform_under_the_prior():
    rng = np.random.default_rng(5)
    checked = set()
    for index in range(20):
        one = specimen(SEED, index)
        draws = prior_draws(one.world, one.model, one.num_tasks, 500, rng)
        for variable in variables(one.model, draws):
            if variable.name == "reward" and one.model.is_dirichlet and variable.values.shape[-1] == 1:
                continue
            tails = np.exp(log_tail_probabilities(one.model, variable))[:, 0].reshape(500, -1)[:, 0]
            if variable.kind not in ("Gamma", "Beta") or variable.values.min() > 1e-300:  # a float's end is no tail
                checked.add(variable.kind)
                assert stats.kstest(tails, "uniform").pvalue > SIGNIFICANCE / 70, (
                    f"model {index}: {variable.name}"
                )  # some 70 tests
    assert checked == set(FAMILIES)


def test_tail_probabilities_far_out():
    """Where distribution functions underflow their leading terms go on: no jump, and further out is less likely."""
    model = specimen(SEED, 0).model
    for kind, first, second, values in (
        ("Gamma", 2.0, 1.0, 10 ** np.linspace(-300, 4, 200)),
        ("HalfNormal", 1.0, 1.0, 10 ** np.linspace(-300, 4, 200)),
        ("LogNormal", 0.0, 0.5, 10 ** np.linspace(-300, 300, 200)),
        ("Normal", 1.43, 1e-8, 1.43 + 10 ** np.linspace(-9, 100, 200)),
        ("Beta", 2.0, 3.0, 10 ** np.linspace(-300, -0.5, 200)),
    ):
        given = (np.broadcast_to(value, values.shape) for value in (first, second))
        tails = log_tail_probabilities(model, Variable("x", kind, values, *given))
        assert np.isfinite(tails).all()
        middle = int(np.argmax(tails))
        assert (np.diff(tails[: middle + 1]) >= 0).all()
        assert (np.diff(tails[middle:]) <= 0).all()


def test_effective_sample_sizes_and_rhat_are_those_of_arviz():
    rng = np.random.default_rng(0)
    for correlation in (-0.3, 0.0, 0.6, 0.98):
        chains = autoregressive(rng, correlation, (4, 500))
        np.testing.assert_allclose(effective_sample_size(chains), array_stats.ess(chains, method="mean"), rtol=1e-9)
        np.testing.assert_allclose(split_rhat(chains), array_stats.rhat(chains, method="split"), rtol=1e-9)


def test_methods_that_agree_are_one_standard_error_apart():
    """z of mean ranks between chains of one heavy-tailed distribution, with autocorrelations as samplers have."""
    rng = np.random.default_rng(1)
    z = []
    for correlation in (0.0, 0.5, 0.9):
        draws = [
            {"x": np.exp(3 * autoregressive(rng, correlation, (120, 4, 400))).transpose(1, 2, 0)} for _ in range(2)
        ]
        z.append(compare(*draws).z)
    z = np.concatenate(z)
    counted = z[np.isfinite(z)]
    assert len(counted) > 0.8 * len(z)
    assert 0.92 < np.sqrt((counted**2).mean()) < 1.08  # 1 / √(2 · 720) = .026 if all are counted, times three


def autoregressive(rng, correlation, shape):
    """Stationary AR(1) chains along the last axis, of unit variance."""
    noise = rng.standard_normal(shape)
    chains = np.empty(shape)
    chains[..., 0] = noise[..., 0]
    for step in range(1, shape[-1]):
        chains[..., step] = correlation * chains[..., step - 1] + np.sqrt(1 - correlation**2) * noise[..., step]
    return chains


def test_the_same_specimen_whatever_else_is_drawn():
    first, again = specimen(3, 17), specimen(3, 17)
    assert str(first) == str(again)
    assert first.episodes == again.episodes
    assert isinstance(first.model.reward, Distribution)
