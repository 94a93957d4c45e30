"""The policy-optimality model against plain loops, numerical integration and enumeration by somebody else's code."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import manymotives as mm
import plain_optimality as plain
from cases import in_turn
from goodness_of_fit import SIGNIFICANCE
from manymotives.inference import Progress, sample
from manymotives.inference.optimality.integral import integrate
from manymotives.inference.optimality.integral_jax import Device
from manymotives.inference.optimality.policies_given_rewards import _likelihoods, _shared
from manymotives.inference.optimality.rewards_given_policies import _weigh_on_host
from manymotives.models.optimality import gaps_beyond, log_survival_of
from manymotives.planning import PlannedRewards

HOUSE = mm.Environment(  # a terminal state, and an action that does not exist everywhere
    [
        [[0.0, 1.0, 0.0, 0.0], [0.3, 0.0, 0.7, 0.0]],
        [[0.1, 0.2, 0.7, 0.0], [0.0, 0.0, 0.0, 0.0]],
        [[0.5, 0.0, 0.0, 0.5], [0.9, 0.1, 0.0, 0.0]],
        [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]],
    ],
    discount=0.9,
    available=[[True, True], [True, False], [True, True], [False, False]],
    terminal=[3],
)
PRIORS = {
    "exponential": (mm.optimality.ExponentialOptimality(1.3), stats.expon(scale=1 / 1.3)),
    "gamma": (mm.Gamma(shape=2.5, rate=2.0), stats.gamma(2.5, scale=0.5)),
    "half-normal": (mm.HalfNormal(scale=1.2), stats.halfnorm(scale=1.2)),
    "log-normal": (mm.LogNormal(mean=0.0, scale=0.7), stats.lognorm(0.7)),
    "bounded": (mm.optimality.DistributionOptimality(stats.beta(1.5, 2.0)), stats.beta(1.5, 2.0)),
    "uniform": (mm.optimality.UniformOptimality(3.0), stats.uniform(0.0, 3.0)),
    "of scipy": (mm.optimality.DistributionOptimality(stats.weibull_min(1.5)), stats.weibull_min(1.5)),
    "a function": (mm.optimality.DistributionOptimality(stats.weibull_min(1.5).cdf), stats.weibull_min(1.5)),
}


def arrays(environment):
    """Transitions as the plain code wants them."""
    return environment.tensor, environment.available, environment.discount


def random_problem(seed, states=4, actions=3, rewards=7, policies=5, on="state"):
    rng = np.random.default_rng(seed)
    environment = mm.Environment(rng.dirichlet(np.ones(states), size=(states, actions)), discount=0.9)
    shape = (rewards, states) if on == "state" else (rewards, states, actions)
    return environment, rng.random(shape), rng.dirichlet(np.ones(actions), size=(policies, states)), rng


# ---- the loss matrix ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "on"), in_turn(["random", "house", "wide", "sparse"], ["state", "state_action"], every=4)
)
def test_loss_matrix(world, on):
    if world == "house":
        environment, rng = HOUSE, np.random.default_rng(1)
        shape = (6, 4) if on == "state" else (6, 4, 2)
        rewards = rng.normal(size=shape)
        if on == "state_action":
            rewards[:, 3] = 0.0
        policies = mm.optimality.DirichletPolicy().draw(rng, np.ones(9), np.zeros((4, 2)), environment.available)
    elif world == "sparse":
        environment = mm.worlds.GridWorld((12, 11), discount=0.9)
        rng = np.random.default_rng(2)
        rewards = rng.random((2, 132) if on == "state" else (2, 132, environment.num_actions))
        rewards = rewards * environment.available if on == "state_action" else rewards
        counts = np.zeros(environment.available.shape)
        policies = mm.optimality.DirichletPolicy().draw(rng, np.ones(2), counts, environment.available)
    else:
        size = {"states": 19, "rewards": 18, "policies": 17} if world == "wide" else {}
        environment, rewards, policies, _ = random_problem(0, on=on, **size)
    for scale_free in (False, True):
        expected = plain.loss_matrix(*arrays(environment), policies, rewards, scale_free=scale_free)
        found = mm.optimality.loss_matrix(environment, policies, rewards, on=on, scale_free=scale_free)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        if world in ("wide", "sparse"):  # the same code in JAX whatever the size
            continue
        traced = mm.optimality.loss_matrix(
            environment, jnp.asarray(policies), jnp.asarray(rewards), on=on, scale_free=scale_free
        )
        np.testing.assert_allclose(traced, expected, atol=1e-9)


def test_an_optimal_policy_loses_nothing_and_half_the_reward_half():
    environment, rewards, policies, _ = random_problem(3)
    best = mm.plan(environment, rewards).policy
    losses = mm.optimality.loss_matrix(environment, best, rewards)
    assert np.diag(losses).max() < 1e-13
    assert losses.min() >= 0
    half = mm.optimality.loss_matrix(environment, policies, rewards / 2)
    np.testing.assert_allclose(half, mm.optimality.loss_matrix(environment, policies, rewards) / 2, rtol=1e-12)
    shifted = mm.optimality.loss_matrix(environment, policies, rewards + 3.0, scale_free=True)
    np.testing.assert_allclose(
        shifted, mm.optimality.loss_matrix(environment, policies, rewards, scale_free=True), atol=1e-12
    )


@pytest.mark.long
def test_float32_losses_are_float64_ones_to_six_digits():
    environment, rewards, policies, _ = random_problem(4, states=12, rewards=40, policies=30)
    exact = mm.optimality.loss_matrix(environment, policies, rewards)
    single = mm.optimality.loss_matrix(environment, jnp.asarray(policies, "float32"), jnp.asarray(rewards, "float32"))
    assert single.dtype == jnp.float32
    assert np.abs(single - exact).max() < 5e-6 * exact.max()


# ---- the integral --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", in_turn(PRIORS, every=4))
def test_the_integral_is_the_numerical_one(name):
    """With ties, with a measure that is zero somewhere, and with losses beyond the prior's end; to 1e-10."""
    optimality, exact = PRIORS[name]
    rng = np.random.default_rng(0)
    for problem in (0, 3):
        losses = rng.gamma(1.0, 0.6, size=(1, 8)) + (0.0 if problem % 2 else 0.05)
        losses[:, 5] = losses[:, 2]
        measure = rng.dirichlet(np.ones(8))
        if problem > 1:
            measure[np.argmin(losses[0])] = 0.0
        losses = np.minimum(losses, 0.9) if name == "bounded" and problem == 3 else losses
        uniforms = 1.0 - rng.random((1, 2))
        found = integrate(losses, measure, optimality, uniforms)
        for k in range(len(losses)):
            ends = [end for end in (exact.support()[1],) if np.isfinite(end)]
            for empty in ("condition", "drop", "prior"):
                expected = plain.conditional_weights(losses[k], measure, exact.sf, empty, exact.pdf, points=ends)
                inside = np.exp(found.log_mass[k])
                weights = {
                    "condition": found.weights[k],
                    "drop": inside * found.weights[k],
                    "prior": inside * found.weights[k] + (1 - inside) * measure / measure.sum(),
                }[empty]
                np.testing.assert_allclose(weights, expected, atol=1e-10)


def test_atoms_count_to_the_right_of_a_loss():
    """ε = 0.5 or 2, evenly: at 0.5 the reward with loss 0.5 does not qualify, and that with 0.2 does."""

    def steps(gap):
        return 0.5 * (gap >= 0.5) + 0.5 * (gap >= 2.0)

    losses, measure = np.array([[0.2, 0.5, 1.0]]), np.array([0.2, 0.3, 0.5])
    found = integrate(losses, measure, mm.optimality.DistributionOptimality(steps), np.array([[0.3, 0.5]]))
    np.testing.assert_allclose(found.weights[0], [0.5 + 0.5 * 0.2, 0.5 * 0.3, 0.5 * 0.5])
    expected = plain.conditional_weights_by_sum(losses[0], measure, lambda x: 1 - steps(x), "condition")
    np.testing.assert_allclose(found.weights[0], expected)


def test_nothing_underflows_that_matters():
    """A rate at which every mass is below the smallest number: only ratios count."""
    losses, measure = np.array([[3.0, 3.001, 4.0]]), np.full(3, 1 / 3)
    sharp = integrate(losses, measure, mm.optimality.ExponentialOptimality(1000.0), np.array([[0.5, 0.5]]))
    shifted = integrate(losses - 3.0, measure, mm.optimality.ExponentialOptimality(1000.0), np.array([[0.5, 0.5]]))
    np.testing.assert_allclose(sharp.weights, shifted.weights, rtol=1e-10)
    assert sharp.log_mass[0] == -3000.0


@pytest.mark.parametrize("name", PRIORS)
def test_draws_of_gaps_are_draws_of_the_prior(name):
    optimality, exact = PRIORS[name]
    points = np.linspace(0.01, 0.99, 99)
    found = gaps_beyond(optimality, np.log(points))
    np.testing.assert_allclose(found, exact.isf(points), rtol=1e-9)


def test_gammas_reach_as_far_as_anybody_asks():
    """log Q(a, x) where Q itself is 0: with a = 1 it is −x, with a = 2 log(1 + x) − x."""
    gap = np.array([1.0, 50.0, 300.0, 1e3, 1e5, 1e8])
    for given in (gap, jnp.asarray(gap)):
        np.testing.assert_allclose(log_survival_of(mm.Gamma(shape=1.0, rate=1.0))(given), -gap, rtol=1e-12)
        found = log_survival_of(mm.Gamma(shape=2.0, rate=1.0))(given)
        np.testing.assert_allclose(found, np.log1p(gap) - gap, rtol=1e-12)
    np.testing.assert_allclose(
        log_survival_of(mm.Gamma(shape=0.5, rate=1.0))(gap[:3]), np.log(special.erfc(np.sqrt(gap[:3]))), rtol=1e-11
    )


def test_a_very_sharp_prior_draws_what_it_weighs():
    """Gaps that differ from the smallest loss by less than rounding still admit that reward."""
    losses = np.random.default_rng(9).random((200, 6))
    for optimality in (
        mm.optimality.ExponentialOptimality(1e17),
        mm.HalfNormal(scale=1e-9),
        mm.Gamma(shape=2.0, rate=1e6),
    ):
        found = integrate(losses, np.full(6, 1 / 6), optimality, 1.0 - np.random.default_rng(0).random((200, 2)))
        assert (found.drawn == losses.argmin(axis=1)).all()
        assert (found.gap > found.loss).all()
        np.testing.assert_allclose(found.weights.max(axis=1), 1.0, atol=1e-3)


def test_drawn_rewards_have_their_weights():
    rng = np.random.default_rng(5)
    losses = np.repeat(rng.gamma(1.0, 1.0, size=(1, 6)), 20_000, axis=0)
    measure = rng.dirichlet(np.ones(6))
    for within in (True, False):
        found = integrate(
            losses, measure, mm.optimality.ExponentialOptimality(1.0), 1.0 - rng.random((20_000, 2)), within=within
        )
        inside = np.exp(found.log_mass[0])
        expected = found.weights[0] if within else inside * found.weights[0] + (1 - inside) * measure
        observed = np.bincount(found.drawn, minlength=6)
        assert stats.chisquare(observed, 20_000 * expected).pvalue > SIGNIFICANCE
        qualified = found.gap > found.loss
        assert qualified.all() if within else abs(qualified.mean() - inside) < 0.05


# ---- Algorithm 2 ----------------------------------------------------------------------------------------------------


class Given(mm.optimality.DirichletPolicy):
    """Policies [K, M, S, A] that somebody else has drawn, the first of each task first."""

    def __init__(self, policies):
        super().__init__(0.7)
        object.__setattr__(self, "policies", policies)
        object.__setattr__(self, "tasks", {})

    def draw(self, rng, concentrations, counts, available):
        task = self.tasks.setdefault(counts.tobytes(), len(self.tasks))
        return self.policies[: len(concentrations), task]


@pytest.mark.parametrize("empty", in_turn(["condition", "drop", "prior"], every=3))
def test_algorithm_2_is_the_plain_loop(empty):
    """The same policies, so the same weights to rounding; then its own policies, and the same to Monte Carlo error."""
    environment, rewards, _, rng = random_problem(6, rewards=6)
    measure = rng.dirichlet(np.ones(6))
    counts = rng.integers(0, 5, size=(2, 4, 3)).astype(float)
    settings = (*arrays(environment), counts, rewards, measure, stats.expon(scale=0.5).sf, 0.7)
    expected, policies = plain.algorithm2(np.random.default_rng(0), *settings, 60, empty)

    def weights(policy, draws, seed=0):
        model = mm.PolicyOptimalityModel(
            mm.optimality.RewardSet(rewards, measure), policy, mm.optimality.ExponentialOptimality(2.0), empty_set=empty
        )
        target = model.target(environment, ("a", "b"), counts)
        return sample(mm.OptimalityMonteCarlo(draws=draws), target, seed=seed)

    np.testing.assert_allclose(weights(Given(policies), 60).weights, expected, atol=1e-10)
    several = np.stack([weights(mm.optimality.DirichletPolicy(0.7), 2000, seed).weights for seed in range(20)])
    long, _ = plain.algorithm2(np.random.default_rng(1), *settings, 200, empty)
    error = np.sqrt(20 * several.var(axis=0, ddof=1) * 2000 / 200 / 20 + several.var(axis=0, ddof=1) / 20)
    assert np.abs((several.mean(axis=0) - long) / error).max() < 4.0
    drawn = weights(mm.optimality.DirichletPolicy(0.7), 20_000)
    for m in range(2):
        observed = np.bincount(drawn.index[0, :, m], minlength=6)
        assert stats.chisquare(observed, 20_000 * drawn.weights[m]).pvalue > SIGNIFICANCE


def test_the_concentration_of_policies_is_integrated_out():
    rng = np.random.default_rng(7)
    counts = rng.multinomial(12, rng.dirichlet(np.full(3, 0.5)), size=(4, 5)).astype(float)
    available = np.ones((5, 3), dtype=bool)
    available[2, 1] = False
    counts[:, 2, 1] = 0.0
    prior = mm.optimality.DirichletPolicy(mm.Gamma(shape=2.0, rate=1.0))
    drawn = prior.draw_concentrations(rng, 20_000, counts, available)
    grid = np.linspace(-5.0, 4.0, 1500)
    mass = plain.concentration_posterior(
        counts, available, lambda a: stats.gamma(2.0).logpdf(a) + np.log(a), np.exp(grid)
    )
    assert stats.kstest(drawn, lambda a: np.interp(np.log(a), grid, np.cumsum(mass) - mass / 2)).pvalue > SIGNIFICANCE


def test_drawing_the_measure_anew_changes_nothing():
    """What docs/optimality-theory.md proves: the mean of λ_j / λ(A) over λ ~ Dirichlet(κ λ) is that of λ itself."""
    rng = np.random.default_rng(8)
    losses, measure = rng.gamma(1.0, 1.0, size=(1, 5)), rng.dirichlet(np.ones(5))
    fixed = integrate(losses, measure, mm.optimality.ExponentialOptimality(1.0), np.full((1, 2), 0.5)).weights[0]
    drawn = rng.dirichlet(2.0 * measure, size=4000)
    each = [plain.conditional_weights_by_sum(losses[0], own, lambda x: np.exp(-x), "condition") for own in drawn]
    error = np.std(each, axis=0) / np.sqrt(4000)
    assert (np.abs(np.mean(each, axis=0) - fixed) < 4 * error).all()


# ---- tasks that inform each other ----------------------------------------------------------------------------------


def test_the_likelihood_of_a_reward():
    environment, rewards, _, rng = random_problem(9, rewards=4)
    counts = rng.integers(0, 6, size=(2, 4, 3)).astype(float)
    expected, error = plain.policy_given_reward_likelihood(
        np.random.default_rng(0), *arrays(environment), counts, rewards, stats.expon(scale=0.4).sf, 0.7, 500
    )
    model = mm.PolicyOptimalityModel(
        rewards, mm.optimality.DirichletPolicy(0.7), mm.optimality.ExponentialOptimality(2.5)
    )
    target = model.target(environment, ("a", "b"), counts)
    planned = PlannedRewards.of_rewards(environment, rewards)
    spoken, size = _likelihoods(target, planned, np.full(4, 0.25), 40_000, 0, Progress(False))
    assert (size > 1000).all()
    for m in range(2):  # up to a constant a task
        ratio = np.exp(spoken[m] - spoken[m, 0]) / (expected[m] / expected[m, 0])
        assert np.abs(ratio - 1).max() < 4 * np.hypot(error[m].max(), error[m, 0])


def test_shared_rewards_are_the_enumerated_ones():
    rng = np.random.default_rng(10)
    likelihood = rng.gamma(0.5, 1.0, size=(3, 4))
    measure = rng.dirichlet(np.ones(4))
    environment, *_ = random_problem(0)
    for kappa in (0.001, 0.3, 4.0, mm.Gamma(shape=2.0, rate=0.5)):
        model = mm.PolicyOptimalityModel(
            mm.optimality.RewardSet(rng.random((4, 4)), measure),
            factorisation="policy_given_reward",
            reward_concentration=kappa,
        )
        target = model.target(environment, ("a", "b", "c"), np.zeros((3, 4, 3)))
        weights, index, kappas = _shared(np.random.default_rng(0), target, likelihood, measure, 20_000)
        if isinstance(kappa, float):
            marginals, pair, _ = plain.shared_posterior(likelihood, measure, kappa)
        else:
            grid = np.linspace(-7.0, 5.0, 400)
            mass = plain.kappa_posterior(
                likelihood, measure, lambda k: stats.gamma(2.0, scale=2.0).logpdf(k) + np.log(k), np.exp(grid)
            )
            each = [plain.shared_posterior(likelihood, measure, np.exp(point))[:2] for point in grid]
            marginals = sum(m * found for m, (found, _) in zip(mass, each))
            pair = sum(m * found for m, (_, found) in zip(mass, each))
            mean, spread = mass @ grid, np.sqrt(mass @ grid**2 - (mass @ grid) ** 2)
            assert abs(np.log(kappas).mean() - mean) < 4 * spread / np.sqrt(4000)
        np.testing.assert_allclose(weights, marginals, atol=4 * 0.5 / np.sqrt(5000))
        for m in range(3):  # what is drawn is what is weighed
            share = np.bincount(index[..., m].ravel(), minlength=4) / index[..., m].size
            np.testing.assert_allclose(share, weights[m], atol=4 * 0.5 / np.sqrt(5000))
        assert abs((index[..., 0] == index[..., 1]).mean() - pair) < 4 * 0.5 / np.sqrt(5000)


# ---- the same on a device ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "empty"),
    [
        pytest.param("exponential", "condition", marks=pytest.mark.long),
        pytest.param("gamma", "drop", marks=pytest.mark.long),
        pytest.param("half-normal", "prior", marks=pytest.mark.long),
        pytest.param("uniform", "drop", marks=pytest.mark.long),
    ],
)
def test_the_device_says_the_same(name, empty):
    """In float64 to rounding, in float32 to five digits; here on JAX's CPU."""
    environment, rewards, policies, rng = random_problem(11, rewards=50, policies=40)
    measure = rng.dirichlet(np.ones(50))
    measure[3] = 0.0
    model = mm.PolicyOptimalityModel(
        mm.optimality.RewardSet(rewards, measure),
        optimality=PRIORS[name][0],
        empty_set=empty,
        scale_free=empty == "drop",
    )
    target = model.target(environment, ("a",), np.zeros((1, 4, 3)))
    planned = PlannedRewards.of_rewards(environment, rewards, scale_free=model.scale_free)
    measure, uniforms = model.reward.weights, 1.0 - rng.random((40, 2))
    here = _weigh_on_host(target, planned)(policies, measure, uniforms)
    for dtype, tolerance in ((jnp.float64, 1e-9), (jnp.float32, 1e-4)):
        there = Device(target, planned, dtype).weigh(policies, measure, uniforms)
        np.testing.assert_allclose(
            there.total * np.exp(there.reference), here.total * np.exp(here.reference), atol=40 * tolerance
        )
        np.testing.assert_allclose(there.log_mass, here.log_mass, atol=tolerance)
        np.testing.assert_allclose(there.gap, here.gap, atol=10 * tolerance)
        assert (there.drawn == here.drawn).mean() > 0.9
    assert jax.config.jax_enable_x64


def test_a_device_that_is_not_there():
    environment, rewards, *_ = random_problem(0)
    target = mm.PolicyOptimalityModel(rewards).target(environment, ("a",), np.zeros((1, 4, 3)))
    with pytest.raises(mm.errors.InputError, match="JAX finds no GPU here"):
        sample(mm.OptimalityMonteCarlo(device="gpu"), target, seed=0)
