"""Baselines that match features, MWAL, projection and maximum causal entropy, against plain sums and their theorems."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

import manymotives as mm
import oracles
from baseline_oracles import CHAIN, SMALL, beginnings, frequencies, module_of, problem_of, visits_of
from cases import in_turn
from manymotives.baselines.expectations import checked_features
from manymotives.baselines.maximum_causal_entropy import Dual
from places import HOUSE

# ---- MWAL ------------------------------------------------------------------------------------------------------


def value_of_the_game(environment, demonstrated, start, features):
    """max over occupancies of min_k μ_k − μ_k(demonstrator): a linear program in x(s, a) and the value."""
    size, actions, gamma = environment.num_states, environment.num_actions, environment.discount
    flow = np.zeros((size, size * actions + 1))
    less = np.zeros((features.shape[1], size * actions + 1))
    for s, a in itertools.product(range(size), range(actions)):
        flow[s, s * actions + a] += 1.0
        flow[:, s * actions + a] -= gamma * environment.tensor[s, a]
        less[:, s * actions + a] = -(1 - gamma) * features[s]
    less[:, -1] = 1.0
    cost = np.append(np.zeros(size * actions), -1.0)
    bounds = [(0, None)] * (size * actions) + [(None, None)]
    return -linprog(cost, A_ub=less, b_ub=-demonstrated, A_eq=flow, b_eq=start, bounds=bounds).fun


@pytest.mark.parametrize("seed", in_turn(range(3), every=3))
@pytest.mark.long
def test_mwal_keeps_its_bound(seed):
    environment = mm.worlds.DirichletMDP(states=5, actions=3, concentration=0.3, seed=seed, discount=0.9)
    truth = np.random.default_rng(seed).dirichlet(np.ones(5))
    data = mm.simulate(environment, truth, mm.Softmax(1.0), steps=30, episodes=3, seed=seed)
    start = beginnings(data, 0)
    visits = 0.1 * visits_of(environment, frequencies(environment, data.counts[0]), start)
    two = np.random.default_rng(seed).uniform(-1, 1, size=(5, 2))
    for features, span in ((np.eye(5), 1.0), (two, np.ptp(two))):
        shown = visits @ features
        value = value_of_the_game(environment, shown, start, features)
        for iterations in (10, 100, 500):
            found = mm.baselines.mwal(environment, data, iterations=iterations, features=features)
            np.testing.assert_allclose(found.details["demonstrated"][0], shown, atol=1e-10)
            reached = 0.1 * visits_of(environment, found.policies.values[0], start) @ features
            least = (reached - shown).min()
            assert least == pytest.approx(float(found.details["advantage"][0]), abs=1e-10)
            log_k = np.log(features.shape[1])
            bound = 2 * span * (np.sqrt(2 * log_k / iterations) + log_k / iterations)
            assert bound == pytest.approx(float(found.details["bound"]))
            assert value - bound <= least <= value + 1e-9  # the theorem, and nothing is better than the best
            assert value - least <= float(found.details["gap"][0]) + 1e-9  # the certificate is one
            assert float(found.details["gap"][0]) <= bound + 1e-9
        if features is two:
            assert least > 0.01  # a noisy demonstrator can be beaten in both; with states for features, in none
        else:
            assert value == pytest.approx(0.0, abs=1e-9)  # for visits sum to one


@pytest.mark.long
def test_where_episodes_end_more_of_the_same_is_more():
    """A feature that is 1 everywhere counts how long an episode lasts, which is a policy's choice in the house."""
    data = mm.Demonstrations.from_lists([(["hall", "kitchen", "garden"], ["on", "on"])], HOUSE)
    found = mm.baselines.mwal(HOUSE, data, features=np.ones((3, 1)))
    start = beginnings(data, 0)
    shown = visits_of(HOUSE, frequencies(HOUSE, data.counts[0]), start).sum()
    value = oracles.best_by_value_iteration(**problem_of(HOUSE, np.ones(3)))[0] @ start
    assert value > shown + 0.01
    assert float(found.details["advantage"][0]) == pytest.approx((1 - HOUSE.discount) * (value - shown), abs=1e-9)


@pytest.mark.parametrize("name", [pytest.param("mwal", marks=pytest.mark.long), "projection"])
def test_the_stationary_policy_goes_where_the_mixture_goes(name):
    data = mm.simulate(SMALL, np.eye(3)[1], mm.Softmax(2.0), steps=10, episodes=4, seed=0)
    found = getattr(mm.baselines, name)(SMALL, data)
    start = beginnings(data, 0)
    weights = found.details["mixture_weights"].values[0]
    assert weights.sum() == pytest.approx(1.0)
    mixed = np.zeros((3, 3))
    for weight, policy in zip(weights, found.details["mixture_policies"].values[0]):
        mixed += weight * visits_of(SMALL, policy, start)[:, None] * policy
    alone = found.policies.values[0]
    np.testing.assert_allclose(visits_of(SMALL, alone, start)[:, None] * alone, mixed, atol=1e-10)


# ---- projection ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_projection_comes_nearer_as_fast_as_its_lemma_says(seed):
    """Abbeel & Ng's lemma 3, in normalised expectations: t_{i+1} / t_i ≤ √K / √(K + t_i²)."""
    environment = mm.worlds.DirichletMDP(states=5, actions=3, concentration=0.3, seed=seed, discount=0.9)
    data = mm.simulate(environment, np.eye(5)[0], mm.Softmax(3.0), steps=30, episodes=2, seed=seed)
    found = mm.baselines.projection(environment, data, tolerance=1e-4)
    margins = found.details["margin"].values[0]
    assert (margins[1:] <= margins[:-1] * np.sqrt(5 / (5 + margins[:-1] ** 2)) + 1e-12).all()
    start = beginnings(data, 0)
    shown = 0.1 * visits_of(environment, frequencies(environment, data.counts[0]), start)
    reached = 0.1 * visits_of(environment, found.policies.values[0], start)
    missed = np.linalg.norm(reached - shown)
    assert missed == pytest.approx(float(found.details["distance"][0]), abs=1e-10)
    assert missed <= min(1e-4, margins[-1] + 1e-12)  # the mixture is at least as near as the projections came


# ---- maximum causal entropy ------------------------------------------------------------------------------------


def discounted_likelihood(environment, weights, shown, start):
    """E Σ_t γ^t log π_w(a_t | s_t) under the demonstrator's policy, by plain sums."""
    policy = oracles.soft_by_value_iteration(**problem_of(environment, weights), inverse_temperature=1.0)[2]
    visits = visits_of(environment, shown, start)
    total = 0.0
    for s in range(environment.num_states):
        for a in range(environment.num_actions):
            if shown[s, a] > 0 and not environment.is_terminal[s]:
                total += visits[s] * shown[s, a] * np.log(policy[s, a])
    return total


@pytest.mark.parametrize("environment", [SMALL, HOUSE])
def test_the_gradient_of_maximum_causal_entropy_is_that_of_the_likelihood(environment):
    if environment is SMALL:
        data = mm.simulate(SMALL, np.eye(3)[0], mm.Softmax(2.0), steps=20, episodes=2, seed=0)
    else:
        lists = [(["hall", "kitchen", "kitchen"], ["on", "on", "back"]), (["kitchen", "garden"], ["on"])]
        data = mm.Demonstrations.from_lists(lists, HOUSE, tasks=[0, 0])
    start = beginnings(data, 0)
    shown = frequencies(environment, data.counts[0])
    basis = checked_features(environment, None, "state")
    dual = Dual(environment, basis, visits_of(environment, shown, start), start, 0.0)
    weights = np.random.default_rng(1).normal(size=3)
    point = dual.at(weights)
    step = 1e-5
    slopes = [
        (
            discounted_likelihood(environment, weights + step * unit, shown, start)
            - discounted_likelihood(environment, weights - step * unit, shown, start)
        )
        / (2 * step)
        for unit in np.eye(3)
    ]
    np.testing.assert_allclose(-point.gradient, slopes, atol=1e-7)
    assert -point.height == pytest.approx(discounted_likelihood(environment, weights, shown, start), abs=1e-9)
    bent = [
        (dual.at(weights + step * unit).gradient - dual.at(weights - step * unit).gradient) / (2 * step)
        for unit in np.eye(3)
    ]
    np.testing.assert_allclose(dual.curvature(point, basis.on_pairs()), bent, atol=1e-6)


@pytest.mark.parametrize(
    "environment", [SMALL, CHAIN, HOUSE, pytest.param(mm.worlds.RandomMDP(discount=0.99), marks=pytest.mark.long)]
)
def test_maximum_causal_entropy_collects_what_was_collected(environment):
    truth = np.eye(environment.num_states)[-1]
    data = mm.simulate(environment, truth, mm.Softmax(2.0), steps=20, episodes=3, seed=0)
    found = mm.baselines.maximum_causal_entropy(environment, data)
    start = beginnings(data, 0)
    shown = visits_of(environment, frequencies(environment, data.counts[0]), start)
    reward = found.rewards.values[0]
    soft = oracles.soft_by_value_iteration(**problem_of(environment, reward), inverse_temperature=1.0)[2]
    soft[environment.is_terminal, 0] = 1.0
    np.testing.assert_allclose(found.policies.values[0], soft, atol=1e-8)
    reached = visits_of(environment, soft, start)
    assert (1 - environment.discount) * np.abs(reached - shown).max() < 1e-6


def test_maximum_causal_entropy_finds_a_soft_optimal_demonstrator():
    """Where data are what the model says, in the limit, it is that demonstrator's policy that comes back."""
    truth = np.array([1.0, -0.5, 0.3])
    policy = oracles.soft_by_value_iteration(**problem_of(SMALL, truth), inverse_temperature=1.0)[2]
    counts = np.rint(policy * 1e5).astype(int)
    states = np.repeat(np.arange(3), counts.sum(axis=1))
    actions = np.concatenate([np.repeat(np.arange(3), row) for row in counts])
    data = mm.Demonstrations.from_lists([(states.tolist(), actions.tolist())], SMALL)
    found = mm.baselines.maximum_causal_entropy(SMALL, data, start=np.full(3, 1 / 3))
    np.testing.assert_allclose(found.policies.values[0], policy, atol=5e-5)  # counts are rounded to 1e-5
    away = found.rewards.values[0] - truth
    np.testing.assert_allclose(away, away.mean(), atol=1e-3)  # a constant is nobody's choice


@pytest.mark.parametrize("newton", [4_000_000, 0])
@pytest.mark.parametrize("units", [1e-8, [1e-6, 1.0, 1e3], 1e6])
def test_the_unit_of_a_feature_changes_its_weight_alone(units, newton, monkeypatch):
    monkeypatch.setattr(module_of("maximum_causal_entropy"), "NEWTON", newton)
    data = mm.simulate(SMALL, np.eye(3)[0], mm.Softmax(2.0), steps=20, episodes=2, seed=0)
    plain = mm.baselines.maximum_causal_entropy(SMALL, data)
    other = mm.baselines.maximum_causal_entropy(SMALL, data, features=np.eye(3) * units)
    np.testing.assert_allclose(other.policies, plain.policies, atol=1e-6)  # features match to 1e-9, here of visits > .1
    assert other.warnings == plain.warnings


@pytest.mark.parametrize("penalty", [0.0, 0.5])
def test_the_likelihood_told_is_that_of_the_policy_told(penalty):
    data = mm.simulate(SMALL, np.eye(3)[0], mm.Softmax(2.0), steps=20, episodes=2, seed=0)
    found = mm.baselines.maximum_causal_entropy(SMALL, data, penalty=penalty)
    shown, start = frequencies(SMALL, data.counts[0]), beginnings(data, 0)
    total = discounted_likelihood(SMALL, found.rewards.values[0], shown, start)
    assert float(found.details["log_likelihood"][0]) == pytest.approx((1 - SMALL.discount) * total, abs=1e-9)
    away = found.details["demonstrated"] - found.details["expected"]
    np.testing.assert_allclose(away, (1 - SMALL.discount) * penalty * found.details["weights"], atol=1e-8)


def test_many_weights_climb_by_gradient_to_the_same_place(monkeypatch):
    data = mm.simulate(SMALL, np.eye(3)[0], mm.Softmax(1.0), steps=40, episodes=2, seed=0)
    monkeypatch.setattr(module_of("maximum_causal_entropy"), "MATCH", 1e-7)
    newton = mm.baselines.maximum_causal_entropy(SMALL, data)
    monkeypatch.setattr(module_of("maximum_causal_entropy"), "NEWTON", 0)
    slowly = mm.baselines.maximum_causal_entropy(SMALL, data)
    assert not np.array_equal(newton.policies, slowly.policies)  # it was another way
    np.testing.assert_allclose(newton.policies, slowly.policies, atol=1e-4)
