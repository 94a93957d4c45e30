"""Plans by Newton's method with kept sparse factors are plans, at any discount and temperature."""

import math

import numpy as np
import pytest
from numba import typeof

import manymotives as mm
import oracles
from cases import in_turn
from manymotives.planning.elimination import elimination_of, no_elimination, operations
from manymotives.planning.warm_start import empty_plans, planners_of, world_of
from test_updates import PLACES

EPSILON = np.finfo(float).eps


def bus(discount, states=90):
    """Rust's bus engines, and features [S, A, 2]: mileage rises by 0 to 3 a month; action 1 replaces the engine."""
    transitions = np.zeros((states, 2, states))
    for s in range(states):
        for more, probability in enumerate((0.094, 0.447, 0.446, 0.013)):
            transitions[s, 0, min(s + more, states - 1)] += probability
            transitions[s, 1, more] += probability
    features = np.zeros((states, 2, 2))
    features[:, 0, 0] = -0.001 * np.arange(states)
    features[:, 1, 1] = -1.0
    return mm.Environment(transitions, discount=discount), features


def factored(environment, is_soft):
    """A world whose plans are made by factors, whether or not that is the quickest way."""
    world = world_of(environment, 1, is_soft)._replace(by_updates=False, by_factors=True)
    return world._replace(elimination=elimination_of(environment))


def policies_of(plans, temperature):
    """[N, S, A] softmax(c q), or the best actions where the temperature is None."""
    if temperature is None:
        return np.eye(plans.q.shape[2])[plans.actions]
    below = plans.q - plans.q.max(axis=2, keepdims=True)
    weight = np.exp(np.where(below < 0, temperature * below, 0.0))
    return weight / weight.sum(axis=2, keepdims=True)


@pytest.mark.parametrize(
    ("name", "on", "step", "temperature"),
    in_turn(PLACES, ["state", "state_action"], [0.02, 1.0], [None, 0.01, 2.0, 1e6], every=4),
)
def test_plans_by_kept_factors_are_plans(name, on, step, temperature):
    environment = PLACES[name]
    size, actions = environment.num_states, environment.num_actions
    world = factored(environment, temperature is not None)
    per_state = 1 if on == "state" else actions
    count = 1 if step == 1.0 else 2  # alone, or in lanes
    plans = empty_plans(world, 16, per_state)
    rng = np.random.default_rng(2)
    rewards = rng.normal(size=(count, size, per_state))
    plans.temperature[:] = 0.0 if temperature is None else temperature
    for _ in range(12):
        rewards += step * rng.normal(size=rewards.shape)
        if on == "state_action":
            rewards *= environment.available
        plans.rewards[:count] = rewards
        planners_of(world)[0](world, plans, temperature is not None, count)
        given = rewards[..., 0] if on == "state" else rewards
        expected = mm.plan(environment, given, on=on, inverse_temperature=temperature)
        # residuals of both are at rounding, S ε |V|; values differ by 1 / (1 − γ) times that
        slack = 4 * size * EPSILON * np.abs(expected.value).max() / (1 - environment.discount)
        np.testing.assert_allclose(plans.value[:count], expected.value, rtol=0, atol=slack)
        inside = environment.available
        np.testing.assert_allclose(plans.q[:count][:, inside], expected.q[:, inside], rtol=0, atol=slack)


@pytest.mark.parametrize("temperature", [None, 0.3, 5.0, 200.0])
def test_plans_by_factors_agree_with_plain_value_iteration(temperature):
    environment, features = bus(0.9, states=14)
    rewards = features @ [40.0, 2.0]
    problem = {
        "transitions": environment.tensor,
        "available": environment.available,
        "terminal": environment.is_terminal,
        "rewards": rewards,
        "terminal_value": np.zeros(14),
        "discount": 0.9,
    }
    world = factored(environment, temperature is not None)
    plans = empty_plans(world, 16, 2)
    plans.rewards[0], plans.temperature[0] = rewards, temperature or 0.0
    planners_of(world)[0](world, plans, temperature is not None, 1)
    if temperature is None:
        value, q = oracles.best_by_value_iteration(**problem)
    else:
        value, q, _ = oracles.soft_by_value_iteration(**problem, inverse_temperature=temperature)
    tolerance = 1e-13 * np.abs(value).max() / (1 - 0.9)  # where the oracle stops, over 1 − γ
    np.testing.assert_allclose(plans.value[0], value, rtol=0, atol=2 * tolerance)
    np.testing.assert_allclose(plans.q[0], q, rtol=0, atol=2 * tolerance)


def test_a_soft_plan_takes_as_many_steps_at_any_discount_and_solves_the_bellman_equation():
    """|V − V*| ≤ max |B(V) − V| / (1 − γ), with B in plain loops: value iteration itself would take 10⁵ sweeps."""
    steps = {}
    for discount in (0.9, 0.99, 0.9999, 0.999999):
        environment, features = bus(discount)
        world = world_of(environment, 1, True)
        assert world.by_factors  # chosen by itself
        plans = empty_plans(world, 16, 2)
        rng, weights = np.random.default_rng(0), np.array([2.4, 11.7])
        taken = []
        for _ in range(10):
            weights = weights * (1 + 0.03 * rng.normal(size=2))
            plans.rewards[0], plans.temperature[0] = features @ weights, 1.0
            planners_of(world)[0](world, plans, True, 1)
            taken.append(plans.solves[0])
            value = plans.value[0].tolist()
            for s in range(90):
                q = [plans.rewards[0, s, a] + discount * float(environment.tensor[s, a] @ value) for a in range(2)]
                off = max(q) + math.log(sum(math.exp(each - max(q)) for each in q)) - value[s]
                assert abs(off) <= 128 * EPSILON * max(map(abs, value))
        steps[discount] = max(taken)
    # the first begins from nothing. By sweeps, each of which takes off a factor γ: log(1e-13) / log γ, 3e5 at .9999
    assert max(steps.values()) <= 15


@pytest.mark.parametrize(("name", "temperature"), in_turn(PLACES, [None, 2.0], every=2))
def test_gradients_go_back_through_kept_factors(name, temperature):
    """value_adjoint w solves (I − T_π)ᵀ w = Tᵀ g at the policy of the plan, though factors are of another one."""
    environment = PLACES[name]
    size, actions = environment.num_states, environment.num_actions
    world = factored(environment, temperature is not None)
    plans = empty_plans(world, 16, 1)
    plans.temperature[:] = temperature or 0.0
    rng = np.random.default_rng(3)
    rewards = rng.normal(size=(size, 1))
    moves = environment.discount * environment.tensor
    for step in (0.0, 0.01, 3.0):
        plans.rewards[0] = rewards = rewards + step * rng.normal(size=rewards.shape)
        planners_of(world)[0](world, plans, temperature is not None, 1)
        policies = policies_of(plans, temperature)
        policies[:, ~environment.available] = 0.0
        q_gradient, value_adjoint = np.zeros((16, size, actions)), np.zeros((16, size))
        q_gradient[0] = rng.normal(size=(size, actions)) * environment.available
        planners_of(world)[1](world, plans, policies, q_gradient, value_adjoint, 1)
        matrix = np.eye(size) - np.einsum("sa,sat->st", policies[0], moves)
        expected = np.linalg.solve(matrix.T, np.einsum("sa,sat->t", q_gradient[0], moves))
        slack = 64 * EPSILON * np.abs(expected).max() / (1 - environment.discount)
        np.testing.assert_allclose(value_adjoint[0], expected, rtol=0, atol=slack)


@pytest.mark.parametrize("log_temperature", [50.0, 700.0, 709.7, np.inf])
def test_ever_colder_plans_become_greedy_ones_and_stay_finite(log_temperature):
    """Products c q overflow from log c = 700 on; c (q − max q) does not matter there."""
    environment = mm.worlds.GridWorld((4, 5), slip=0.1, discount=0.99)
    rewards = np.random.default_rng(0).normal(size=(2, 20))
    rewards[1] = np.round(rewards[1])  # ties
    expected = mm.plan(environment, rewards)
    for world in (factored(environment, True), world_of(environment)):
        plans = empty_plans(world, 16, 1)
        plans.rewards[:2, :, 0], plans.temperature[:] = rewards, np.exp(log_temperature)
        planners_of(world)[0](world, plans, True, 2)
        assert np.all(plans.residual[:2] < 1e-10)
        np.testing.assert_allclose(plans.value[:2], expected.value, rtol=1e-10)
        for n in range(2):
            alone = empty_plans(world, 16, 1)
            alone.rewards[0, :, 0], alone.temperature[:] = rewards[n], np.exp(log_temperature)
            planners_of(world)[0](world, alone, True, 1)
            np.testing.assert_allclose(alone.value[0], expected.value[n], rtol=1e-10)


def test_a_plan_that_failed_is_forgotten():
    """Rewards that are no numbers give no plan, and the next ones a good one."""
    environment, features = bus(0.99)
    world = world_of(environment, 1, True)
    plans = empty_plans(world, 16, 2)
    for broken in (0.0, np.nan, np.inf, 0.0):
        plans.rewards[0], plans.temperature[0] = features @ [2.0, 10.0], 1.0
        plans.rewards[0, 5, 0] += broken
        planners_of(world)[0](world, plans, True, 1)
        assert np.isfinite(plans.residual[0]) == np.isfinite(broken)
    expected = mm.plan(environment, plans.rewards[0], on="state_action", inverse_temperature=1.0)
    np.testing.assert_allclose(plans.value[0], expected.value, rtol=1e-10)


def test_environments_with_and_without_an_order_run_the_same_compiled_loops():
    """Arrays of another layout would have every sampler compiled once more: half a minute before the first draw."""
    assert typeof(elimination_of(mm.worlds.GridWorld((12, 12)))) == typeof(no_elimination())


def test_the_order_of_elimination_keeps_factors_sparse():
    """Buses: a band and four columns. A line of states: no entry is filled at all."""
    environment, _ = bus(0.9)
    factorising, solving = operations(elimination_of(environment))
    assert solving < 15 * 90  # dense: 8 100 …
    assert factorising < 30 * 90  # … and 240 000
    corridor = mm.worlds.Chain(states=50, discount=0.9)
    assert operations(elimination_of(corridor))[1] <= 5 * 50
    assert operations(no_elimination()) == (0, 0)
