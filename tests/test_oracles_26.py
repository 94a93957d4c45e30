"""Oracles of hierarchical regression, inferred discounts and bus engines, against simpler integrals and each other."""

import numpy as np
import pytest
from scipy import integrate, stats

import oracle_bus as bus
import oracle_discount as discount
import oracle_regression as regression
import oracle_regression_draws as draws
import zoo_oracle

TRANSITIONS = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.3, 0.7], [0.8, 0.2]]])
FEATURES = np.array([[0.0], [1.0]])
COUNTS = np.array([[[6.0, 5.0], [4.0, 2.0]], [[2.0, 0.0], [0.0, 1.0]], [[6.0, 5.0], [7.0, 4.0]]])
ELSEWHERE = regression.Environment(TRANSITIONS[::-1, :, ::-1], 0.6, np.array([[1.0], [0.4]]), COUNTS[:, ::-1])
COVARIATES = np.array([[0.5], [-0.5], [1.0]])
PRIOR = regression.Prior(0.3, 0.8, 0.7, 1.2, 0.9, (0.7, 0.0))
UNKNOWN_TEMPERATURE = regression.Prior(0.3, 0.8, 0.7, 1.2, 0.9, (0.7, 0.4))
STANDARD_ERRORS = 4  # from 32 scramblings or hundreds of chains
BOTH_RULES = pytest.mark.parametrize("soft", [False, True])


def environment(counts=COUNTS, features=FEATURES):
    return regression.Environment(TRANSITIONS, 0.8, features, counts)


def assert_close(found, expected, tolerance):
    for name in ("mean", "sd", "quantiles"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=tolerance)


def assert_within_errors(estimate, exact, errors=STANDARD_ERRORS, floor=0.0):
    shape = estimate.mean.shape
    difference = np.abs(estimate.mean - np.reshape(exact.mean, shape))
    assert (difference <= errors * estimate.mean_error + floor).all()
    difference = np.abs(estimate.sd - np.reshape(exact.sd, shape))
    assert (difference <= errors * estimate.sd_error + floor).all()


# ------------------------------------------------------------------------------------------------------- discounts


@BOTH_RULES
def test_policies_are_those_of_the_plain_oracle(soft):
    rng = np.random.default_rng(0)
    transitions = rng.dirichlet(np.ones(4), size=(4, 3))
    available = np.array([[True, True, True], [True, False, True], [False, True, False], [False] * 3])
    rewards, temperatures = 3 * rng.normal(size=(40, 4, 3)), rng.gamma(2.0, size=40)
    expected, _ = zoo_oracle.World(transitions, 0.9, available).log_policies(rewards, temperatures, np.zeros(40), soft)
    found = discount.log_policies(transitions, np.full(40, 0.9), rewards, temperatures, soft, available)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@BOTH_RULES
@pytest.mark.parametrize("gamma", [0.05, 0.6, 0.95, 0.995])
def test_gradients_in_the_discount_are_those_of_implicit_differentiation(soft, gamma):
    rng = np.random.default_rng(1)
    transitions, reward = rng.dirichlet(np.ones(3), size=(3, 2)), rng.normal(size=(3, 2))
    counts, every = rng.integers(1, 9, size=(3, 2)), np.ones((3, 2), bool)
    found, error = discount.discount_gradients(transitions, np.array([gamma]), reward, 2.0, counts, soft)
    scaled = discount.scaled_action_values(transitions, np.array([gamma]), 2.0 * reward[None], soft, every)[0]
    policy = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    policy /= policy.sum(axis=1, keepdims=True)
    values = np.log(np.exp(scaled).sum(axis=1)) if soft else scaled.max(axis=1)
    acting = policy if soft else scaled == scaled.max(axis=1, keepdims=True)
    chain = np.einsum("sa,sat->st", acting, transitions)
    slope = np.linalg.solve(np.eye(3) - gamma * chain, chain @ values)  # of V: V_γ = P_π V + γ P_π V_γ
    of_scaled = transitions @ values + gamma * transitions @ slope
    expected = (counts * (of_scaled - (policy * of_scaled).sum(axis=1, keepdims=True))).sum()
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    assert error <= 1e-7 * abs(expected)


def test_without_choices_the_posterior_of_a_discount_is_its_prior():
    found = discount.discount_posterior(
        TRANSITIONS, np.zeros((2, 2)), np.eye(2), np.array([0.3, 1.0]), np.array([0.0, 0.7]), (4.0, 2.0), 3.0, False
    )
    prior = stats.beta(4.0, 2.0)
    np.testing.assert_allclose(found.quantiles, prior.ppf([0.05, 0.5, 0.95]), atol=1e-9)
    np.testing.assert_allclose([found.mean, found.sd, found.log_evidence], [prior.mean(), prior.std(), 0.0], atol=1e-10)
    np.testing.assert_allclose([found.weight_means, found.weight_sds], [[0.3, 1.0], [0.0, 0.7]], atol=1e-10)


@BOTH_RULES
def test_the_posterior_of_a_discount_is_that_of_adaptive_quadrature(soft):
    def density(gamma, power):
        likelihood = discount.log_likelihoods(
            TRANSITIONS, np.array([gamma]), np.array([[[0.0, 0.0], [1.0, 1.0]]]), np.array([3.0]), COUNTS[0], soft
        )
        return gamma**power * stats.beta.pdf(gamma, 4.0, 2.0) * np.exp(likelihood[0] + 10)

    total, first, second = (integrate.quad(density, 0, 1, (power,), epsabs=0, epsrel=1e-11)[0] for power in (0, 1, 2))
    found = discount.discount_posterior(
        TRANSITIONS, COUNTS[0], FEATURES, np.ones(1), np.zeros(1), (4.0, 2.0), 3.0, soft, points=121
    )
    assert found.log_evidence == pytest.approx(np.log(total) - 10, abs=1e-9)
    assert found.mean == pytest.approx(first / total, abs=1e-9)
    assert found.sd == pytest.approx(np.sqrt(second / total - (first / total) ** 2), abs=1e-9)


@BOTH_RULES
def test_the_posterior_of_a_discount_and_a_weight_converges(soft):
    def found(points, weight_points):
        scale = np.array([0.7])
        one = discount.discount_posterior(
            TRANSITIONS, COUNTS[2], FEATURES, np.array([0.5]), scale, (4.0, 2.0), 3.0, soft, None, (0.1, 0.5),
            points, weight_points,
        )  # fmt: skip
        return np.concatenate([[one.mean, one.sd, one.log_evidence], one.quantiles, one.weight_means, one.weight_sds])

    coarse, fine, finest = (found(*sizes) for sizes in ((41, 61), (41, 121), (61, 121)))
    tolerance = 1e-9 if soft else 2e-4  # the kink at a weight of 0: O(spacing²)
    np.testing.assert_allclose(coarse, fine, rtol=0, atol=tolerance)
    np.testing.assert_allclose(fine, finest, rtol=0, atol=1e-5)  # of the quantiles; the rest is closer


# ------------------------------------------------------------------------------------------------------ regression


def one_task_by_quadrature(environments, soft):
    """Mean, sd and log evidence of one task without covariates: given s, θ ~ Normal(m0, √(s0² + s²))."""
    x, w = np.polynomial.legendre.leggauss(60)
    scales, scale_weights = 3.0 * PRIOR.scale * (1 + x), 3.0 * PRIOR.scale * w
    spreads = np.hypot(PRIOR.mean_scale, scales)
    of_scales = scale_weights * stats.halfnorm.pdf(scales, scale=PRIOR.scale)
    half, weights = 10.0 * (1 + x), 10.0 * w
    theta, weights = np.concatenate([-half, half]), np.concatenate([weights, weights])
    temperatures = np.full(len(theta), np.exp(PRIOR.log_temperature[0]))
    likelihoods = np.exp(regression.task_log_likelihoods(environments, theta[:, None], temperatures, soft)[:, 0])
    prior = stats.norm.pdf(theta[:, None], PRIOR.mean_location, spreads) @ of_scales
    masses = weights * prior * likelihoods
    mean = masses @ theta / masses.sum()
    return mean, np.sqrt(masses @ (theta - mean) ** 2 / masses.sum()), np.log(masses.sum())


@BOTH_RULES
def test_one_task_in_two_environments_is_exact(soft):
    environments = [environment(COUNTS[:1]), regression.Environment(
        ELSEWHERE.transitions, ELSEWHERE.discount, ELSEWHERE.features, ELSEWHERE.counts[:1]
    )]  # fmt: skip
    found = regression.exact_posterior(environments, np.zeros((1, 0)), PRIOR, soft)
    mean, sd, evidence = one_task_by_quadrature(environments, soft)
    np.testing.assert_allclose(found["weight"].mean, mean, atol=1e-7)
    np.testing.assert_allclose(found["weight"].sd, sd, atol=1e-7)
    np.testing.assert_allclose(found["log_evidence"].mean, evidence, atol=1e-7)


def test_without_choices_the_exact_posterior_is_the_prior():
    found = regression.exact_posterior([environment(np.zeros((1, 2, 2)))], COVARIATES[:1], UNKNOWN_TEMPERATURE, False)
    for name, prior in (
        ("mean", stats.norm(0.3, 0.8)), ("coefficient", stats.norm(0, 1.2)), ("scale", stats.halfnorm(scale=0.7))
    ):  # fmt: skip
        expected = regression.Summary(prior.mean(), prior.std(), prior.ppf(regression.PROBABILITIES))
        one = found[name] if name != "coefficient" else regression.Summary(*(
            getattr(found[name], part)[0] for part in ("mean", "sd", "quantiles")
        ))  # fmt: skip
        assert_close(one, expected, 1e-6)
    np.testing.assert_allclose(found["log_evidence"].mean, 0.0, atol=1e-8)
    np.testing.assert_allclose(
        [found["log_temperature"].mean[0], found["log_temperature"].sd[0]], [0.7, 0.4], atol=1e-8
    )


@pytest.mark.long
def test_the_exact_posterior_converges():
    """Softmax, whose kink is the harder case."""
    arguments = ([environment(COUNTS[:2])], np.zeros((2, 0)), PRIOR, False)
    coarse = regression.exact_posterior(*arguments)
    fine = regression.exact_posterior(*arguments, scale_nodes=16, lattice=0.1, nodes=64)
    for name in ("mean", "scale", "weight"):
        assert_close(coarse[name], fine[name], 1e-6)
    assert np.ptp(coarse["log_evidence"].mean) < 1e-7


@pytest.mark.long
@BOTH_RULES
@pytest.mark.parametrize("prior", [PRIOR, UNKNOWN_TEMPERATURE])
def test_the_exact_posterior_of_three_tasks_with_a_covariate_converges(soft, prior):
    arguments = ([environment(), ELSEWHERE], COVARIATES, prior, soft)
    coarse = regression.exact_posterior(*arguments)
    fine = regression.exact_posterior(*arguments, scale_nodes=24, lattice=0.1, nodes=96)
    for name in ("mean", "coefficient", "scale", "weight"):
        assert_close(coarse[name], fine[name], 1e-6)
    assert np.ptp(coarse["log_evidence"].mean) < 1e-7


@pytest.mark.long
def test_nested_integrals_and_chains_agree_with_the_exact_posterior():
    arguments = ([environment()], COVARIATES, PRIOR, False)
    exact = regression.exact_posterior(*arguments)
    nested, effective = draws.nested_posterior(*arguments, log2_draws=8, points=321)
    chains = draws.sampled_posterior(*arguments, chains=200, warmup=100, steps=150)
    assert effective > 500
    for name in ("mean", "coefficient", "scale", "weight"):
        assert_within_errors(nested[name], exact[name])
        assert_within_errors(draws.chain_summary(chains[name]), exact[name])


def test_a_weight_without_effect_keeps_its_prior():
    """Two weights, of which the second is that of a feature that is nowhere: the first is as if it were alone."""
    tasks = environment(COUNTS[:2], np.array([[0.0, 0.0], [1.0, 0.0]]))
    nested, _ = draws.nested_posterior([tasks], np.zeros((2, 0)), PRIOR, False, log2_draws=8)
    exact = regression.exact_posterior([environment(COUNTS[:2])], np.zeros((2, 0)), PRIOR, False)
    prior = {"mean": stats.norm(0.3, 0.8), "scale": stats.halfnorm(scale=0.7)}
    for name in ("mean", "scale"):
        expected = regression.Summary(
            np.array([exact[name].mean, prior[name].mean()]), np.array([exact[name].sd, prior[name].std()]), np.zeros(0)
        )
        assert_within_errors(nested[name], expected, floor=5e-4)  # what the grid may add


@pytest.mark.long
@BOTH_RULES
def test_chains_agree_with_nested_integrals_where_tasks_share_subjects_and_temperatures_are_unknown(soft):
    arguments = ([environment(), ELSEWHERE], COVARIATES, UNKNOWN_TEMPERATURE, soft, np.array([[0, 0, 1]]))
    nested, effective = draws.nested_posterior(*arguments)
    chains = draws.sampled_posterior(*arguments)
    assert effective > 5000
    for name in nested:
        assert_within_errors(draws.chain_summary(chains[name]), nested[name], errors=4.5)


@pytest.mark.long
@BOTH_RULES
def test_chains_agree_with_nested_integrals_for_two_weights(soft):
    arguments = ([environment(COUNTS[:2], np.array([[1.0, 0.0], [0.5, -1.0]]))], COVARIATES[:2], PRIOR, soft)
    nested, _ = draws.nested_posterior(*arguments)
    coarse, _ = draws.nested_posterior(*arguments, points=81)
    chains = draws.sampled_posterior(*arguments)
    for name in nested:
        np.testing.assert_allclose(coarse[name].mean, nested[name].mean, atol=3e-3)  # spacings of .25 and .125
        assert_within_errors(draws.chain_summary(chains[name]), nested[name], errors=4.5)


# ----------------------------------------------------------------------------------------------------------- buses


def test_values_of_buses_solve_the_bellman_equation_and_ignore_the_mean_of_the_errors():
    transitions, features = bus.bus_environment()
    np.testing.assert_allclose(transitions.sum(axis=2), 1.0, atol=1e-15)
    rewards = features @ bus.TRUTH
    values, log_policy = bus.soft_values(transitions, bus.DISCOUNT, rewards)
    action_values = rewards + bus.DISCOUNT * transitions @ values
    np.testing.assert_allclose(np.logaddexp(*action_values.T), values, rtol=1e-13)
    np.testing.assert_allclose(np.exp(log_policy).sum(axis=1), 1.0, atol=1e-14)
    shifted, same = bus.soft_values(transitions, bus.DISCOUNT, rewards + np.euler_gamma)
    np.testing.assert_allclose(shifted, values + np.euler_gamma / (1 - bus.DISCOUNT), rtol=1e-12)
    np.testing.assert_allclose(same, log_policy, atol=1e-10)
    plain = discount.log_policies(transitions, np.array([bus.DISCOUNT]), rewards[None], np.ones(1), True)[0]
    np.testing.assert_allclose(plain, log_policy, atol=1e-10)


def test_the_likelihood_of_buses_has_the_gradient_of_finite_differences_and_a_maximum():
    transitions, features = bus.bus_environment()
    bins, decisions = bus.simulate(seed=1)
    counts = bus.choice_counts(bins, decisions)
    assert counts.sum() == bus.BUSES * bus.MONTHS
    at = np.array([10.0, 2.0])
    found = bus.likelihood(at, counts, transitions, features)
    for coordinate, step in enumerate(1e-4 * np.eye(2)):
        ends = [bus.likelihood(at + sign * step, counts, transitions, features).log_likelihood for sign in (1, -1)]
        assert found.gradient[coordinate] == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-6)
    estimate = bus.maximum_likelihood(counts, start=at)
    again = bus.maximum_likelihood(counts)
    np.testing.assert_allclose(estimate.parameters, again.parameters, rtol=1e-7)
    np.testing.assert_allclose(estimate.gradient, 0.0, atol=1e-6)
    assert (np.abs(estimate.parameters - bus.TRUTH) < 4 * estimate.standard_errors).all()


@pytest.mark.long
def test_a_hundred_samples_of_buses_have_the_published_mean_and_spread():
    """Published: 11.98 (1.48) and 2.525 (.434)."""
    estimates, errors = bus.monte_carlo(100)
    published_mean, published_sd = np.array([11.98, 2.525]), np.array([1.48, 0.434])
    assert (np.abs(estimates.mean(axis=0) - published_mean) < 3.5 * published_sd / np.sqrt(100)).all()
    spread = estimates.std(axis=0, ddof=1)
    assert (np.abs(np.log(spread / published_sd)) < 3.5 / np.sqrt(2 * 99)).all()
    assert (np.abs(np.log(errors.mean(axis=0) / spread)) < 3.5 / np.sqrt(2 * 99)).all()
