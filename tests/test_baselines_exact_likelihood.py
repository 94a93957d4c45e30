"""Baselines with a likelihood, policy walk and multiple intentions, against brute force and finite differences."""

import itertools

import numpy as np
import pytest
from scipy import stats

import manymotives as mm
import oracles
from baseline_oracles import CHAIN, DOUBLE, loss_of, module_of, problem_of
from manymotives.baselines.common import checked_problem
from manymotives.baselines.expectations import checked_features
from manymotives.baselines.multiple_intentions import Climb
from manymotives.baselines.walks import UNIFORM, invert, walk_on
from manymotives.planning.warm_start import world_of
from places import HOUSE

# ---- policy walk -----------------------------------------------------------------------------------------------


def brute_force(environment, counts, points, log_prior, temperature, normalised=True):
    """The posterior of every point of a grid of rewards, by plain loops."""
    heights = []
    for reward in points:
        q = oracles.best_by_value_iteration(**problem_of(environment, reward))[1]
        total = log_prior(reward)
        for s, a in np.argwhere(counts > 0):
            worth = temperature * q[s, a]
            if normalised:
                worth -= np.log(np.exp(temperature * q[s]).sum())
            total += counts[s, a] * worth
        heights.append(total)
    weights = np.exp(np.array(heights) - max(heights))
    return weights / weights.sum()


def agreement(draws, points, probabilities):
    """p-value of Hotelling's test that chains visit the points as often as they should; chains are independent."""
    spacing = points[points > 0].min()
    width = int(2 * np.abs(points).max() / spacing) + 1
    codes = np.rint((draws + np.abs(points).max()) / spacing).astype(int) @ [width, 1]
    known = np.rint((points + np.abs(points).max()) / spacing).astype(int) @ [width, 1]
    common = probabilities > 0.02  # the others together are one cell, left out because all sum to one
    shares = np.stack([(codes == code).mean(axis=1) for code in known[common]], axis=1)  # [chains, cells]
    chains, cells = shares.shape
    if (shares == 0).all(axis=0).any():
        return 0.0  # nobody ever came to where one draw in fifty should be
    away = shares.mean(axis=0) - probabilities[common]
    squared = chains * away @ np.linalg.solve(np.cov(shares.T), away)
    return stats.f.sf(squared * (chains - cells) / (cells * (chains - 1)), cells, chains - cells)


@pytest.mark.parametrize(
    ("prior", "log_prior", "reach", "normalised"),
    [
        (mm.baselines.UniformPrior(1.0, spacing=0.5), lambda r: 0.0, 1.0, True),
        (mm.baselines.UniformPrior(1.0, spacing=0.5), lambda r: 0.0, 1.0, False),
        (mm.baselines.GaussianPrior(0.4, spacing=0.5), lambda r: -(r**2).sum() / 0.32, 3.0, True),
        (mm.baselines.GaussianPrior(0.4, spacing=0.5), lambda r: -(r**2).sum() / 0.32, 3.0, False),
        (mm.baselines.LaplacianPrior(0.25, spacing=0.5), lambda r: -np.abs(r).sum() / 0.25, 4.0, True),
    ],
)
def test_policy_walk_has_the_posterior_of_brute_force(prior, log_prior, reach, normalised):
    """And not that of another temperature, nor of the other likelihood: the test can tell."""
    data = mm.Demonstrations.from_lists([([0, 0, 0, 1, 1], [0, 0, 1, 1, 1])], DOUBLE)
    options = {"method": mm.Metropolis(chains=128, draws=400, warmup=100, thin=4), "normalised": normalised}
    c = 2.0 if normalised else 0.2
    found = mm.baselines.policy_walk(DOUBLE, data, prior=prior, choice=mm.Softmax(c), seed=2, **options)
    draws = found.details["reward_draws"].values[:, :, 0]
    line = np.arange(-reach, reach + 0.1, 0.5)
    points = np.array(list(itertools.product(line, line)))

    def posterior(temperature, is_normalised):
        return brute_force(DOUBLE, data.counts[0], points, log_prior, temperature, is_normalised)

    right = posterior(c, normalised)
    assert agreement(draws, points, right) > 0.001
    error = draws.mean(axis=1).std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(found.rewards.values[0] - right @ points) < 4 * error).all()
    assert agreement(draws, points, posterior(1.3 * c, normalised)) < 1e-6
    assert agreement(draws, points, posterior(c, not normalised)) < 1e-6


@pytest.mark.parametrize("on", ["state", "state_action"])
@pytest.mark.parametrize("environment", [HOUSE, mm.worlds.GridWorld((4, 4), slip=0.2, discount=0.97)])
def test_the_walk_keeps_a_policy_that_is_optimal_and_its_inverse(environment, on):
    """After twenty thousand steps, some of which changed the policy: no error has piled up."""
    data = mm.simulate(environment, np.eye(environment.num_states)[-1], mm.Softmax(1.0), steps=10, seed=0)
    places = np.flatnonzero(environment.available) if on == "state_action" else np.arange(environment.num_states)
    rng = np.random.default_rng(0)
    grid = rng.integers(-5, 6, size=len(places))
    actions = np.where(environment.available, 1, 0).argmax(axis=1)
    inverse = np.empty((environment.num_states, environment.num_states))
    world = world_of(environment)
    invert(world, actions, inverse)
    first = actions.copy()
    draws = np.empty((20, len(places)))
    per_state = environment.num_actions if on == "state_action" else 1
    settings = (0.1, 10, UNIFORM, 1.0, 1.0, True)
    counts = data.counts[:1].astype(float)
    arrays = (rng.random((20_000, 3)), 1000, grid, actions, inverse, draws)
    taken = walk_on(world, counts, places, per_state, *settings, *arrays)
    assert 0 < taken < 20_000
    np.testing.assert_allclose(draws[-1], 0.1 * grid)
    table = np.zeros(environment.num_states * per_state)
    table[places] = 0.1 * grid
    table = table.reshape(environment.num_states, per_state)
    problem = problem_of(environment, table[:, 0] if on == "state" else np.zeros(environment.num_states))
    problem["rewards"] = np.broadcast_to(table, environment.available.shape)
    best, _ = oracles.best_by_value_iteration(**problem)
    chosen = np.eye(environment.num_actions)[actions]
    np.testing.assert_allclose(oracles.policy_value(**problem, policy=chosen), best, atol=1e-9)
    chain = np.stack([environment.tensor[s, a] for s, a in enumerate(actions)])
    np.testing.assert_allclose(
        inverse @ (np.eye(len(chain)) - environment.discount * chain), np.eye(len(chain)), atol=1e-8
    )
    if environment is not HOUSE:
        assert (actions != first).any()


@pytest.mark.parametrize("warmup", [0, 5, 23])
def test_a_walk_in_pieces_is_the_walk(warmup, monkeypatch):
    """Random numbers are drawn a few steps at a time, of which a long warm-up takes many."""
    data = mm.Demonstrations.from_lists([([0, 0, 0, 1, 1], [0, 0, 1, 1, 1])], DOUBLE)
    method = mm.Metropolis(chains=2, draws=17, warmup=warmup, thin=3)
    whole = mm.baselines.policy_walk(DOUBLE, data, method=method).details["reward_draws"]
    monkeypatch.setattr(module_of("policy_walk"), "AT_A_TIME", 4 * 3 * 3 * 2)  # four draws of two states
    np.testing.assert_array_equal(mm.baselines.policy_walk(DOUBLE, data, method=method).details["reward_draws"], whole)


# ---- multiple intentions ---------------------------------------------------------------------------------------

TWO = np.array([[2.0, 0.0, 0.0, 0.0, -1.0], [-1.0, 0.0, 0.0, 0.0, 2.0]])
WHO = [0, 1, 1, 0, 1, 0, 0, 1, 1, 1]


def test_two_intentions_are_told_apart_and_given_to_the_right_tasks():
    data = mm.simulate(CHAIN, TWO[WHO], mm.SoftOptimal(1.0), steps=40, episodes=2, seed=0)
    found = mm.baselines.multiple_intentions(CHAIN, data, seed=1)
    responsibilities = found.details["responsibilities"].values
    assert responsibilities.argmax(axis=1).tolist() == [1 - w for w in WHO]  # the commonest intention comes first
    assert responsibilities.max(axis=1).min() > 0.95
    np.testing.assert_allclose(found.details["shares"], [0.6, 0.4], atol=0.01)
    for policy, who in zip(found.policies.values, WHO):
        assert loss_of(CHAIN, policy, TWO[who]) < 1e-6
    # the responsibilities are those of the rewards and shares returned, by plain sums
    policies = [
        oracles.soft_by_value_iteration(**problem_of(CHAIN, reward), inverse_temperature=1.0)[2]
        for reward in found.details["intention_rewards"].values
    ]
    for counts, mine in zip(data.counts, responsibilities):
        joint = [
            share * np.exp((counts * np.log(policy)).sum())
            for share, policy in zip(found.details["shares"].values, policies)
        ]
        np.testing.assert_allclose(mine, np.array(joint) / sum(joint), atol=1e-6)


@pytest.mark.parametrize("choice", [mm.SoftOptimal(1.5), mm.Softmax(1.5)])
@pytest.mark.parametrize("penalty", [pytest.param(0.0, marks=pytest.mark.long), 0.05])
def test_the_likelihood_never_falls(choice, penalty, monkeypatch):
    monkeypatch.setattr(module_of("multiple_intentions"), "PENALTY", penalty)
    monkeypatch.setattr(module_of("multiple_intentions"), "ROUNDS", 5)
    data = mm.simulate(CHAIN, TWO[WHO], mm.SoftOptimal(0.7), steps=15, seed=3)
    found = mm.baselines.multiple_intentions(CHAIN, data, intentions=3, choice=choice, starts=1)
    path = found.details["objective"].values
    assert len(path) > 2
    assert np.diff(path).min() > -1e-9 * abs(path[0])


@pytest.mark.parametrize("choice", [mm.SoftOptimal(1.5), mm.Softmax(1.5)])
@pytest.mark.parametrize("on", ["state", "state_action"])
def test_the_gradient_inside_is_that_of_the_likelihood(choice, on):
    lists = [(["hall", "kitchen", "kitchen"], ["on", "on", "back"]), (["kitchen", "garden"], ["on"])]
    data = mm.Demonstrations.from_lists(lists, HOUSE, tasks=[0, 0])
    climb = Climb(checked_problem(HOUSE, data, seed=0), checked_features(HOUSE, None, on), choice, 0.1)
    weights = np.random.default_rng(0).normal(size=3)
    slope = climb.height_and_slope(weights, data.counts[0].astype(float))[1]

    def height(at):
        pairs = np.zeros((3, 2))
        pairs[HOUSE.available] = at if on == "state_action" else np.repeat(at[:, None], 2, axis=1)[HOUSE.available]
        problem = problem_of(HOUSE, at) | {"rewards": pairs}
        if on == "state_action":
            problem["terminal_value"] = np.zeros(3)
        if isinstance(choice, mm.SoftOptimal):
            policy = oracles.soft_by_value_iteration(**problem, inverse_temperature=1.5)[2]
        else:
            q = oracles.best_by_value_iteration(**problem)[1][:2]
            policy = np.exp(1.5 * (q - q.max(axis=1, keepdims=True)))
            policy = np.vstack([policy / policy.sum(axis=1, keepdims=True), [1.0, 1.0]])
        seen = data.counts[0] > 0
        return (data.counts[0][seen] * np.log(policy[seen])).sum() - 0.05 * at @ at

    step = 1e-6
    slopes = [(height(weights + step * unit) - height(weights - step * unit)) / (2 * step) for unit in np.eye(3)]
    np.testing.assert_allclose(slope, slopes, atol=1e-6)
    assert climb.height_and_slope(weights, data.counts[0].astype(float))[0] == pytest.approx(height(weights))
