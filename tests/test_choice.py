"""Choice rules against plain loops."""

import numpy as np
import pytest
from numba import njit

import manymotives as mm
import oracles
import oracles_worlds
from manymotives.models.likelihood import exponentials, shortfalls, softmax_log_likelihood, weights_workspace
from manymotives.planning.simd import HALF, WIDTH, exponential, logarithm, memory_of


def test_softmax_policies_are_the_softmax_of_optimal_values():
    rng = np.random.default_rng(0)
    case = oracles_worlds.random_problem(rng, 4, 3, discount=0.9, with_terminal=True, with_missing_actions=True)
    environment = mm.Environment(
        case["transitions"], discount=0.9, available=case["available"], terminal=list(np.flatnonzero(case["terminal"]))
    )
    _, q = oracles.best_by_value_iteration(**case | {"terminal_value": np.zeros(4)})
    for c in (0.0, 1.0, 30.0):
        policy = mm.Softmax(c).policies(environment, case["rewards"], on="state_action")
        for state in np.flatnonzero(~case["terminal"]):
            weights = np.zeros(3)
            for action in np.flatnonzero(case["available"][state]):
                weights[action] = np.exp(c * (q[state, action] - q[state].max()))
            np.testing.assert_allclose(policy[state], weights / weights.sum(), atol=1e-8)


def test_zero_inverse_temperature_is_uniform_over_the_actions_that_exist():
    environment = mm.worlds.Labyrinth(levels=2)
    policy = mm.Softmax(0.0).policies(environment, np.arange(8.0))
    np.testing.assert_allclose(policy, environment.available / environment.available.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("rule", [mm.Softmax, mm.SoftOptimal])
def test_one_inverse_temperature_for_each_reward(rule):
    environment = mm.worlds.RandomMDP(seed=1)
    rewards = np.random.default_rng(0).normal(size=(3, 8))
    together = rule([0.5, 2.0, 8.0]).policies(environment, rewards)
    for number, c in enumerate((0.5, 2.0, 8.0)):
        np.testing.assert_allclose(together[number], rule(c).policies(environment, rewards[number]), atol=1e-12)


def test_soft_optimal_is_random_when_hot_and_optimal_when_cold():
    environment = mm.worlds.DirichletMDP(seed=1)  # no two actions alike, so no ties
    reward = np.random.default_rng(0).normal(size=8)
    np.testing.assert_allclose(mm.SoftOptimal(1e-6).policies(environment, reward), 0.25, atol=1e-4)
    cold = mm.SoftOptimal(1e5).policies(environment, reward)
    np.testing.assert_allclose(cold, mm.plan(environment, reward).policy, atol=1e-6)


@pytest.mark.parametrize("temperature", [1e-12, 0.3, 20.0, 1e130])
def test_a_temperature_by_itself_is_judged_as_with_everything_else(temperature):
    """Slice sampling looks at one temperature after the other: what does not depend on it is computed once."""
    rng = np.random.default_rng(0)
    q = rng.normal(size=(2, 5, 3))
    q[1, 0, 1] = q[1, 3, :2] = -np.inf  # cannot be done
    q[1, 4] = 0.5  # all the same
    counts = rng.poisson(1.0, size=(1, 5, 3)) * (q[1:] > -np.inf) * 1.0
    counts[0, 2] = 0.0  # never visited
    if temperature > 1e100:  # where only the best are chosen at all
        counts *= q[1:] == q[1:].max(axis=-1, keepdims=True)
    with np.errstate(over="ignore"):
        logits = temperature * (q[1] - q[1].max(axis=-1, keepdims=True))
    log_policy = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    expected = (counts[0][counts[0] > 0] * log_policy[counts[0] > 0]).sum()
    shortfall, room, made = weights_workspace(5, 3), weights_workspace(5, 3), np.empty(5)
    states, chosen = shortfalls(q, 1, counts, 0, shortfall, made)
    assert states == (counts[0].sum(axis=-1) > 0).sum() < 5
    found = njit(softmax_log_likelihood)(temperature, shortfall, made, states, chosen, 2, room)
    np.testing.assert_allclose(found, expected)


def test_sixteen_exponentials_at_once():
    """Against the C library's, from where they vanish to where they overflow."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-750, 720, 4000), rng.normal(size=4000), rng.normal(size=84) * 1e-9])
    x = np.concatenate([x, [0.0, -0.0, np.inf, -np.inf, np.nan, 709.0, -708.0, 1e300, -1e300, 0.5 * np.log(2), 1, -1]])
    found = x.copy()
    njit(exponentials)(found, len(x))
    with np.errstate(over="ignore"):
        expected = np.where(x < -708, 0.0, np.where(x > 709, np.inf, np.exp(x)))
    np.testing.assert_array_max_ulp(found[~np.isnan(x)], expected[~np.isnan(x)], maxulp=2)
    assert np.isnan(found[np.isnan(x)]).all()
    assert found[x == 0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("width", [WIDTH, HALF])
def test_logarithms_and_exponentials_in_lanes(width):
    load, store = memory_of(width).load, memory_of(width).store

    @njit
    def in_lanes(x, logarithms, exponentials):
        for row in range(len(x) // width):
            store(logarithms, row, logarithm(load(x, row)))
            store(exponentials, row, exponential(load(x, row)))

    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(1, 8, 800), 1 + 10 ** rng.uniform(-16, 0, 400), 10 ** rng.uniform(-300, 300, 400)])
    x[0] = 1.0
    found, above = np.empty_like(x), np.empty_like(x)
    in_lanes(x, found, above)
    np.testing.assert_array_max_ulp(found, np.log(x), maxulp=3)
    np.testing.assert_array_max_ulp(above[x < 700], np.exp(x[x < 700]), maxulp=2)
    assert found[0] == 0.0
