"""Agents who look some steps ahead: plans, gradients and posteriors, against plain loops."""

import numpy as np
import pytest
import scipy.sparse as sp
from arviz_stats import ess

import manymotives as mm
from manymotives.inference.laplace import likelihood_shape
from manymotives.inference.mcmc import sweeps
from manymotives.inference.mcmc.density import density_workspace, log_density_and_gradient
from manymotives.planning import warm_start
from oracle_depth import action_values, derivative, log_likelihood, value_of_the_best_tree, weight_posterior
from places import HOUSE, random_environment

ROOMS = random_environment(1, size=(8, 3))[0]
GRID = mm.worlds.GridWorld((14, 14), slip=0.1, discount=0.95)
SIX = mm.worlds.RandomMDP(states=6, actions=3, seed=3, discount=0.9)
RULES = {"greedy": mm.Softmax, "soft": mm.SoftOptimal}
WHERE = ["state", "state_action"]
EPSILON = 1e-12  # plans are sums of a few products


def drawn_rewards(rng, environment, on, count):
    shape = (count, environment.num_states, *([environment.num_actions] if on == "state_action" else []))
    return rng.standard_normal(shape)


def on_pairs(reward, environment):
    """As the oracle has them: of the pair, and nothing of pairs in terminal states."""
    if reward.ndim == 1:
        return np.repeat(reward[:, None], environment.num_actions, axis=1)
    return reward * ~environment.is_terminal[:, None]


# ---- plans ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", WHERE)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("depth", [1, 2, 3, 7])
def test_plans_are_those_of_backward_induction(depth, rule, on):
    rng = np.random.default_rng(depth)
    for environment in (HOUSE, ROOMS, SIX):
        rewards, c = drawn_rewards(rng, environment, on, 4), rng.uniform(0.5, 4.0, 4)
        own = rng.uniform(0.05, 0.99, 4)
        for discounts in (None, own):
            soft = c if rule == "soft" else None
            found = mm.plan(environment, rewards, on=on, inverse_temperature=soft, discount=discounts, depth=depth)
            assert found.converged.all()
            for k in range(4):
                gamma = environment.discount if discounts is None else own[k]
                reward, foreseen = on_pairs(rewards[k], environment), None if soft is None else c[k]
                expected = action_values(environment.tensor, gamma, reward, depth, foreseen, environment.available)
                lives = environment.available
                np.testing.assert_allclose(found.q[k][lives], expected[lives], rtol=EPSILON, atol=EPSILON)
            acts = ~environment.is_terminal
            assert not np.isfinite(found.q[:, acts][:, ~environment.available[acts]]).any()


def test_values_are_those_of_the_best_tree_of_actions():
    rng = np.random.default_rng(0)
    three = mm.worlds.RandomMDP(states=3, actions=2, seed=1, discount=0.8)
    reward = rng.standard_normal((3, 2))
    for depth in (1, 2, 4):
        found = mm.plan(three, reward, on="state_action", depth=depth).value
        expected = [value_of_the_best_tree(three.tensor, 0.8, reward, s, depth) for s in range(3)]
        np.testing.assert_allclose(found, expected, rtol=EPSILON)


@pytest.mark.parametrize("rule", RULES)
def test_large_environments_are_planned_in_by_their_transitions_alone(rule):
    rng = np.random.default_rng(0)
    reward, soft = rng.standard_normal(GRID.num_states), 2.0 if rule == "soft" else None
    assert sp.issparse(GRID.transitions)
    found = mm.plan(GRID, reward, inverse_temperature=soft, depth=4)
    expected = action_values(GRID.tensor, GRID.discount, on_pairs(reward, GRID), 4, soft, GRID.available)
    np.testing.assert_allclose(found.q, expected, rtol=EPSILON, atol=EPSILON)


@pytest.mark.parametrize("rule", RULES)
def test_one_step_is_myopic_and_many_are_for_ever(rule):
    rng = np.random.default_rng(3)
    soft, reward = 2.0 if rule == "soft" else None, rng.standard_normal((8, 3))
    near = mm.plan(ROOMS, reward, on="state_action", inverse_temperature=soft, depth=1)
    nothing_later = mm.plan(ROOMS.with_discount(0.0), reward, on="state_action", inverse_temperature=soft)
    np.testing.assert_array_equal(near.q, nothing_later.q)
    np.testing.assert_array_equal(near.q[ROOMS.available], reward[ROOMS.available])
    for_ever = mm.plan(ROOMS, reward, on="state_action", inverse_temperature=soft)
    for depth in (20, 60, 300):
        found = mm.plan(ROOMS, reward, on="state_action", inverse_temperature=soft, depth=depth)
        off = abs(found.q[ROOMS.available] - for_ever.q[ROOMS.available]).max()
        assert off <= 0.9**depth * abs(for_ever.value).max() * (1 + 1e-9) + 1e-12
    # what a short view costs is said in the long run
    lost = mm.loss(ROOMS, near.policy, reward, on="state_action")
    attained = mm.evaluate(ROOMS, near.policy, reward, on="state_action")
    best = mm.plan(ROOMS, reward, on="state_action").value
    np.testing.assert_allclose(lost, (best - attained).sum(), rtol=1e-9)


# ---- gradients -----------------------------------------------------------------------------------------------

PATHS = {"dense": (ROOMS, 5), "sparse": (mm.worlds.GridWorld((4, 4), slip=0.1, discount=0.95), 2)}


def counted(rng, environment, tasks):
    return rng.integers(0, 4, (tasks, environment.num_states, environment.num_actions)) * environment.available


def target_of(rule, on, environment, counts, depth, temperature=2.0, lapse=0.0):
    """Rewards, discounts, and where asked for temperatures and lapse rates, are inferred."""
    prior = mm.Beta(alpha=6.0, beta=2.0)
    reward = mm.GaussianReward(mean=0.0, scale=1.0, on=on)
    choice = RULES[rule](inverse_temperature=temperature, lapse=lapse)
    model = mm.RewardPolicyModel(reward, choice, mm.Separate(), discount=prior, depth=depth)
    return model.target(environment, tuple(range(len(counts))), counts.astype(float))


@pytest.mark.parametrize("depth", [1, pytest.param(2, marks=pytest.mark.long), 5])
@pytest.mark.parametrize("on", WHERE)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("path", PATHS)
def test_gradients_of_samplers_and_of_laplace_approximations(path, rule, on, depth):
    environment, tasks = PATHS[path]
    rng = np.random.default_rng(depth)
    counts = counted(rng, environment, tasks)
    prior, lapse = mm.Gamma(shape=4.0, rate=2.0), 0.0 if rule == "greedy" else mm.Beta(1.0, 9.0)
    target = target_of(rule, on, environment, counts, depth, prior, lapse)
    layout, own, c = target.layout, target.layout.discount, target.layout.temperature
    world = warm_start.world_of(environment, tasks, layout.is_soft, own_discounts=True, depth=depth)
    data = sweeps.data_of(target, world, is_hamiltonian=True)
    workspace = density_workspace(world, layout, tasks, tasks)
    checked = 0
    for _ in range(2):
        z = 0.7 * rng.standard_normal((tasks, target.num_coordinates))
        log_density_and_gradient(world, layout, data, workspace, np.zeros((tasks, 0)), z)
        u = workspace.tasks[:tasks].copy()
        slope, _ = likelihood_shape(target, u, np.arange(tasks))
        np.testing.assert_allclose(workspace.likelihood_gradient, slope, rtol=1e-8, atol=1e-8)
        m = 0
        rewarded = np.flatnonzero(abs(slope[m, : layout.num_rewards]) > 0)
        some = rng.choice(rewarded, min(3, len(rewarded)), replace=False) if len(rewarded) else []
        coordinates = [*some, own, c, *([layout.lapse] if layout.lapse >= 0 else [])]

        def at(value, m=m, place=0, u=u):
            moved = u[m].copy()
            moved[place] = value
            shares = 0.0 if layout.lapse < 0 else float(target.lapses(moved[None], np.zeros(1, int))[0])
            known = target.discounts(moved[None], np.zeros(1, int))[0], on_pairs(target.rewards(moved), environment)
            temperature = float(np.exp(moved[c]))
            rest = temperature, counts[m], rule == "soft", environment.available, shares
            return log_likelihood(environment.tensor, *known, depth, *rest)

        np.testing.assert_allclose(workspace.log_likelihood[m], at(u[m, 0]), rtol=1e-9)
        for place in coordinates:
            expected, error = derivative(lambda x, place=place: at(x, place=place), u[m, place], 1e-2)
            if error < 1e-7 * (1 + abs(expected)):  # else there is a kink nearby
                found = workspace.likelihood_gradient[m, place]
                np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
                checked += 1
    assert checked >= 3


# ---- posteriors ----------------------------------------------------------------------------------------------

FEATURE = np.array([0.0, 1.0, 0.2, 0.4, 0.0, 0.7])
METHODS = {
    "HMC": mm.HMC(draws=2000, max_rounds=1),
    "Gibbs": mm.Gibbs(draws=500, warmup=300),
    "Metropolis": mm.Metropolis(draws=500, warmup=300),
    "MonteCarlo": mm.MonteCarlo(draws=4000),
}
EXACT = [(method, rule) for method in METHODS for rule in RULES]
AT_ONCE = {("HMC", "soft"), ("HMC", "greedy"), ("Gibbs", "greedy"), ("MonteCarlo", "soft")}


@pytest.mark.parametrize(
    ("method", "rule"), [each if each in AT_ONCE else pytest.param(*each, marks=pytest.mark.long) for each in EXACT]
)
def test_the_posterior_of_a_weight_is_the_exact_one(method, rule):
    choices = mm.simulate(SIX, FEATURE[None], RULES[rule](3.0), steps=60, seed=1, depth=3)
    pairs = on_pairs(FEATURE, SIX)
    exact = weight_posterior(SIX.tensor, choices.counts[0], pairs, (1.0, 0.6), 3, 3.0, rule == "soft", 0.9)
    reward = mm.GaussianReward(features=FEATURE[:, None], mean=1.0, scale=0.6)
    model = mm.RewardPolicyModel(reward, RULES[rule](3.0), mm.Pooled(), depth=3)
    posterior = mm.fit(model, SIX, choices, METHODS[method], progress=False)
    draws = posterior.data["posterior"]["weight"].values[..., 0]
    for values, expected in ((draws, exact.mean), ((draws - exact.mean) ** 2, exact.sd**2)):
        size = ess(values) if len(values) > 1 else values.size / 4  # importance weights, unequal ones
        assert abs(values.mean() - expected) < 4 * values.std() / np.sqrt(float(size))


@pytest.mark.parametrize("rule", ["soft", pytest.param("greedy", marks=pytest.mark.long)])
def test_the_posterior_of_a_discount_within_the_steps_ahead_is_the_exact_one(rule):
    choices = mm.simulate(SIX, FEATURE[None], RULES[rule](3.0), steps=60, seed=1, depth=3, discount=0.7)
    prior, pairs = (3.0, 2.0), on_pairs(FEATURE, SIX)
    exact = weight_posterior(SIX.tensor, choices.counts[0], pairs, (1.0, 0.4), 3, 3.0, rule == "soft", prior, points=41)
    reward = mm.GaussianReward(features=FEATURE[:, None], mean=1.0, scale=0.4)
    model = mm.RewardPolicyModel(reward, RULES[rule](3.0), mm.Pooled(), discount=mm.Beta(*prior), depth=3)
    posterior = mm.fit(model, SIX, choices, METHODS["HMC"], progress=False)
    drawn = posterior.data["posterior"].dataset
    weight = drawn["weight"].values[..., 0]
    for values, expected in ((drawn["discount"].values, exact.discount_mean), (weight, exact.mean)):
        assert abs(values.mean() - expected) < 4 * values.std() / np.sqrt(float(ess(values)))
