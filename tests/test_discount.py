"""An inferred discount: its gradient on every path, plans with discounts of their own, and its posterior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats import ess

import manymotives as mm
from cases import in_turn
from manymotives.inference.many_chains.layout import data_of, static_layout_of
from manymotives.inference.mcmc import sweeps
from manymotives.inference.mcmc.density import density_workspace, log_density_and_gradient
from manymotives.models.likelihood import LARGEST_LOGIT
from manymotives.planning import warm_start
from oracle_discount import discount_gradients, discount_posterior, log_likelihoods, scaled_action_values
from places import HOUSE, random_environment
from test_many_chains import CHAINS, TOLERANCES, ours_at

PRIOR = mm.Beta(alpha=6.0, beta=2.0)
GRID = mm.worlds.GridWorld((14, 14), slip=0.1, discount=0.95)
ROOMS = random_environment(1, size=(8, 3))[0]
PATHS = {  # an environment, tasks, and from how many states on plans may be made by factors
    "lanes of whole blocks": (ROOMS, 5, 10**9),
    "one reward at a time by factors": (GRID, 1, 12),
    "factors in lanes": (GRID, 20, 12),
    "sweeps": (GRID, 2, 10**9),
}
RULES = {"greedy": mm.Softmax, "soft": mm.SoftOptimal}
TRUTH = np.array([0.0, 1.0, 0.2, 0.4, 0.0, 0.7])
SIX = mm.worlds.RandomMDP(states=6, actions=3, seed=3, discount=0.9)


def on_pairs(rewards, environment):
    return np.repeat(rewards[..., None], environment.num_actions, axis=-1)


@pytest.mark.parametrize(("path", "rule"), in_turn(PATHS, RULES, every=2))
def test_gradients_in_the_discount_on_every_path(path, rule, monkeypatch):
    environment, tasks, factored = PATHS[path]
    monkeypatch.setattr(warm_start, "FACTORED", factored)
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, (tasks, environment.num_states, environment.num_actions)) * environment.available
    reward = mm.GaussianReward(mean=0.0, scale=1.0)
    model = mm.RewardPolicyModel(reward, RULES[rule](inverse_temperature=2.0), mm.Separate(), discount=PRIOR)
    target = model.target(environment, tuple(range(tasks)), counts.astype(float))
    world = warm_start.world_of(environment, tasks, target.layout.is_soft, own_discounts=True)
    assert world.by_factors == ("factors" in path)
    assert not world.by_updates
    data = sweeps.data_of(target, world, is_hamiltonian=True)
    workspace = density_workspace(world, target.layout, tasks, tasks)
    assert (len(workspace.plans.lane_holder) > 0) == ("factors" in path)
    nobody, index = np.zeros((tasks, 0)), target.layout.discount
    checked = 0
    for _ in range(6):  # plans start from those before, with factors of other discounts
        z = 0.7 * rng.standard_normal((tasks, target.num_coordinates))
        log_density_and_gradient(world, target.layout, data, workspace, nobody, z)
        u = workspace.tasks[:tasks]
        discounts, rewards = target.discounts(u, np.arange(tasks)), target.rewards(u)
        for m in range(min(tasks, 3)):
            known = environment.tensor, discounts[[m]], on_pairs(rewards[m], environment)
            plain = log_likelihoods(
                known[0], known[1], known[2][None], np.full(1, 2.0), counts[m], rule == "soft", environment.available
            )
            np.testing.assert_allclose(workspace.log_likelihood[m], plain[0], rtol=1e-9)
            slope, error = discount_gradients(*known, 2.0, counts[m], rule == "soft", environment.available, step=4e-4)
            if error[0] < 1e-7 * (1 + abs(slope[0])):  # else there is a kink nearby
                found = workspace.likelihood_gradient[m, index] / (discounts[m] * (1 - discounts[m]))
                np.testing.assert_allclose(found, slope[0], rtol=1e-6, atol=1e-6)
                checked += 1
    assert checked >= 3


@pytest.mark.parametrize(("of", "rule"), in_turn([(ROOMS, 37), (GRID, 3), (GRID, 20)], RULES, every=2))
def test_plans_with_discounts_of_their_own(of, rule):
    environment, count = of
    rng = np.random.default_rng(1)
    rewards, c = rng.standard_normal((count, environment.num_states)), rng.uniform(0.5, 3.0, count)
    discounts = np.append([1e-6, 1 - 1e-6], rng.uniform(0.05, 0.99, count - 2))
    scaled = c[:, None, None] * on_pairs(rewards, environment)
    expected = scaled_action_values(environment.tensor, discounts, scaled, rule == "soft", environment.available)
    expected = np.where(environment.available, expected / c[:, None, None], 0.0)
    soft = c if rule == "soft" else None
    found = mm.plan(environment, rewards, discount=discounts, inverse_temperature=soft)
    assert found.converged.all()
    # values are known to rounding / (1 − γ), here and there
    off = abs(np.where(environment.available, found.q, 0.0) - expected).max(axis=(1, 2))
    assert (off <= 1e-14 / (1 - discounts) * abs(expected).max(axis=(1, 2)) + 1e-12).all()
    if environment is ROOMS:
        traced = mm.plan(environment, jnp.asarray(rewards), discount=jnp.asarray(discounts), inverse_temperature=soft)
        off = abs(np.where(environment.available, traced.q, 0.0) - expected).max(axis=(1, 2))
        assert (off <= 1e-13 / (1 - discounts) * abs(expected).max(axis=(1, 2)) + 1e-12).all()
    policy = found.policy
    attained = mm.evaluate(environment, policy, rewards, discount=discounts)
    one = mm.evaluate(environment.with_discount(discounts[2]), policy[2], rewards[2])
    np.testing.assert_allclose(attained[2], one, rtol=1e-10, atol=1e-10)
    if rule == "greedy":
        losses = mm.loss(environment, policy, rewards, discount=discounts)
        assert (losses <= 1e-9 * environment.num_states * abs(found.value).max(axis=1)).all()


@pytest.mark.parametrize("rule", ["soft", pytest.param("greedy", marks=pytest.mark.long)])
def test_traced_plans_have_derivatives_in_the_discount(rule):
    rng = np.random.default_rng(2)
    rewards, weight = jnp.asarray(rng.standard_normal((4, 8))), jnp.asarray(rng.standard_normal((4, 8)))
    discounts = np.array([0.3, 0.6, 0.8, 0.95])
    soft = 2.0 if rule == "soft" else None

    def total(discount):
        return (weight * mm.plan(ROOMS, rewards, discount=discount, inverse_temperature=soft).value).sum()

    slopes = np.asarray(jax.grad(total)(jnp.asarray(discounts)))
    step = 1e-6
    for k in range(4):
        aside = step * np.eye(4)[k]
        expected = (total(jnp.asarray(discounts + aside)) - total(jnp.asarray(discounts - aside))) / (2 * step)
        np.testing.assert_allclose(slopes[k], expected, rtol=1e-6, atol=1e-6)


def inferred(rule, demonstrations, method, scale, prior=(3.0, 2.0), seed=0):
    reward = mm.GaussianReward(features=TRUTH[:, None], mean=1.0, scale=scale)
    model = mm.RewardPolicyModel(reward, RULES[rule](3.0), mm.Pooled(), discount=mm.Beta(alpha=prior[0], beta=prior[1]))
    return mm.fit(model, SIX, demonstrations, method, seed=seed, progress=False)


METHODS = {
    "HMC": mm.HMC(draws=2000, max_rounds=1),
    "Gibbs": mm.Gibbs(draws=500, warmup=300),
    "Metropolis": mm.Metropolis(draws=500, warmup=300),
    "MonteCarlo": mm.MonteCarlo(draws=4000),
}


EXACT = [(method, rule) for method in METHODS for rule in RULES]
AT_ONCE = {("HMC", "soft"), ("Gibbs", "greedy"), ("MonteCarlo", "soft")}


@pytest.mark.parametrize(
    ("method", "rule"), [each if each in AT_ONCE else pytest.param(*each, marks=pytest.mark.long) for each in EXACT]
)
def test_the_posterior_of_a_discount_is_the_exact_one(method, rule):
    demonstrations = mm.simulate(SIX, TRUTH[None], RULES[rule](3.0), steps=60, seed=1, discount=0.7)
    exact = discount_posterior(
        SIX.tensor,
        demonstrations.counts[0],
        TRUTH[:, None],
        np.array([1.0]),
        np.array([0.3]),
        (3.0, 2.0),
        3.0,
        rule == "soft",
        SIX.available,
    )
    posterior = inferred(rule, demonstrations, METHODS[method], scale=0.3)
    draws = posterior.data["posterior"]["discount"].values
    for values, expected in ((draws, exact.mean), ((draws - exact.mean) ** 2, exact.sd**2)):
        size = ess(values) if len(values) > 1 else values.size / 4  # importance weights, unequal ones
        assert abs(values.mean() - expected) < 4 * values.std() / np.sqrt(float(size))


def test_a_known_discount_is_that_of_the_environment():
    demonstrations = mm.simulate(SIX, TRUTH[None], mm.Softmax(3.0), steps=60, seed=1)
    method, near = mm.Gibbs(chains=2, draws=400, warmup=200, thin=5), SIX.with_discount(0.5)
    plain, told = (
        mm.fit(mm.RewardPolicyModel(sharing=mm.Pooled(), discount=d), e, demonstrations, method, progress=False)
        for d, e in ((None, SIX), (0.9, near))
    )
    assert told.environment.discount == 0.9
    np.testing.assert_array_equal(plain.rewards, told.rewards)
    np.testing.assert_array_equal(plain.policies(), told.policies())
    assert (told.discounts == 0.9).all()
    sure = mm.Beta(alpha=9e6, beta=1e6)  # .9 ± .0001
    narrow = mm.RewardPolicyModel(sharing=mm.Pooled(), discount=sure)
    found = mm.fit(narrow, near, demonstrations, method, progress=False)
    np.testing.assert_allclose(found.discounts, 0.9, atol=1e-3)
    error = found.rewards.std(("chain", "draw")) / np.sqrt(200.0)
    assert (abs(found.mean_reward - plain.mean_reward) < 5 * np.sqrt(2.0) * error).all()


def test_populations_of_discounts_and_what_posteriors_say(tmp_path):
    own = np.array([0.3, 0.5, 0.9])
    rewards = np.repeat(TRUTH[None], 3, axis=0)
    demonstrations = mm.simulate(SIX, rewards, mm.Softmax(4.0), steps=80, seed=1, discount=own, tasks=["a", "b", "c"])
    prior = mm.Beta(alpha=mm.Gamma(shape=4.0, rate=1.0), beta=mm.Gamma(shape=4.0, rate=1.0))
    reward = mm.GaussianReward(features=TRUTH[:, None], mean=1.0, scale=0.3)
    model = mm.RewardPolicyModel(reward, mm.Softmax(4.0), mm.Hierarchical(), discount=prior)
    posterior = mm.fit(model, SIX, demonstrations, mm.HMC(draws=100, warmup=100, max_rounds=1), progress=False)
    drawn = posterior.data["posterior"].dataset
    assert drawn["discount"].dims == ("chain", "draw", "task")
    assert {"discount_alpha", "discount_beta"} <= set(drawn)
    assert posterior.population()["discount"].shape == drawn["discount"].shape[:2]
    assert posterior.predictive_policies(50).sizes["task"] == 3
    u_policies = posterior.drawn_policies(1)
    q = mm.plan(SIX, posterior.rewards.values[0, 7, 1], discount=float(drawn["discount"][0, 7, 1])).q
    weight = np.exp(4.0 * (q - q.max(axis=-1, keepdims=True)))
    np.testing.assert_allclose(u_policies[7], weight / weight.sum(axis=-1, keepdims=True), rtol=1e-9)
    assert np.isfinite(posterior.canonical()["reward"]).all()
    best = mm.plan(SIX, posterior.mean_reward.values, discount=posterior.discounts.mean(("chain", "draw")).values)
    np.testing.assert_array_equal(posterior.policies(), best.policy)
    posterior.save(tmp_path / "run.nc")
    np.testing.assert_array_equal(mm.load(tmp_path / "run.nc").discounts, posterior.discounts)


@pytest.mark.long
def test_many_chains_have_the_same_gradients():
    reward = mm.GaussianReward(features=[[1.0, 0.0], [0.5, 1.0], [0.0, -1.0]])
    prior = mm.Beta(alpha=mm.Gamma(shape=8.0, rate=1.0), beta=2.0)
    rule = mm.SoftOptimal(mm.Gamma(shape=4.0, rate=1.0), lapse=mm.Beta(alpha=1.0, beta=9.0))
    target = mm.RewardPolicyModel(reward, rule, mm.Hierarchical(), discount=prior).bind(
        HOUSE, mm.simulate(HOUSE, [[0.0, 0.5, 1.0], [1.0, 0.2, 0.0]], mm.Softmax(2.0), steps=20)
    )
    rng = np.random.default_rng(0)
    hyper_z = rng.normal(size=(CHAINS, target.num_groups, target.num_hyper))
    task_z = rng.normal(size=(CHAINS, target.num_tasks, target.num_coordinates))
    world = warm_start.world_of(HOUSE, own_discounts=True)
    data = sweeps.data_of(target, world, is_hamiltonian=True)
    names = ("task_density", "population_density", "task_gradient", "population_gradient")
    expected = []
    for populations, tasks in zip(hyper_z, task_z):
        workspace = density_workspace(world, target.layout, target.num_tasks, target.num_groups)
        log_density_and_gradient(world, target.layout, data, workspace, populations, tasks)
        expected.append([getattr(workspace, name).copy() for name in names])
    actions = np.zeros((3, target.num_tasks, CHAINS), dtype=np.int32)
    found = ours_at(
        static_layout_of(target), data_of(target), hyper_z.transpose(2, 1, 0), task_z.transpose(2, 1, 0), actions
    )
    for ours, theirs, tolerance in zip(found, map(np.stack, zip(*expected)), TOLERANCES):
        np.testing.assert_allclose(ours, theirs.T, rtol=tolerance, atol=tolerance)


def test_discounts_stay_below_one():
    model = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(1.0), mm.Pooled(), discount=PRIOR)
    target = model.target(SIX, ("everybody",), np.ones((1, 6, 3)))
    u = np.zeros((3, target.num_coordinates))
    u[:, target.layout.discount] = -800.0, 0.0, 800.0
    discounts = target.discounts(u, np.zeros(3, dtype=int))
    np.testing.assert_allclose(discounts, [1e-6, 0.5, 1 - 1e-6], rtol=1e-4)
    np.testing.assert_allclose(LARGEST_LOGIT, np.log(1e6), rtol=1e-5)
    assert np.isfinite(target.log_likelihood(u, np.zeros(3, dtype=int))).all()
