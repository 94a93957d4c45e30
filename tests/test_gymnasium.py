"""Gymnasium's tabular environments: the same optimal values as plain value iteration on their own tables."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import manymotives as mm

gymnasium = pytest.importorskip("gymnasium")

# Value iteration stops at a change of 1e-12, so it is within 1e-12 γ / (1 − γ) < 1e-10 of the answer.
TOLERANCE = 1e-8


def latest(name):
    """The newest registered version of a built-in environment, such as Taxi-v3 or Taxi-v4."""
    versions = [spec.version for spec in gymnasium.registry.values() if spec.name == name and spec.namespace is None]
    if not versions:
        pytest.skip(f"this Gymnasium has no {name}")
    return f"{name}-v{max(versions)}"


def best_values(table, num_states, num_actions, discount):
    """V* by value iteration on Gymnasium's table; a transition that is done has no future value."""
    state, action, probability, following, reward, done = (
        np.array(column)
        for column in zip(
            *((s, a, *outcome) for s in range(num_states) for a in range(num_actions) for outcome in table[s][a])
        )
    )
    value = np.zeros(num_states)
    while True:
        outcome = probability * (reward + discount * np.where(done, 0.0, value[following]))
        q = np.bincount(state * num_actions + action, weights=outcome, minlength=num_states * num_actions)
        after = q.reshape(num_states, num_actions).max(axis=1)
        if np.abs(after - value).max() < 1e-12:
            return after
        value = after


def both(source, discount):
    """Our environment's plan and Gymnasium's values."""
    raw = source.unwrapped
    environment = mm.io.from_gymnasium(source, discount=discount)
    num_states, num_actions = int(raw.observation_space.n), int(raw.action_space.n)
    expected = best_values(raw.P, num_states, num_actions, discount)
    return environment, mm.plan(environment, environment.reward, on="state_action"), expected


CASES = {
    "lake": ("FrozenLake", dict(map_name="4x4", is_slippery=True)),
    "still lake": ("FrozenLake", dict(map_name="4x4", is_slippery=False)),
    "large lake": ("FrozenLake", dict(map_name="8x8", is_slippery=True)),
    "own lake": ("FrozenLake", dict(desc=["SFS", "FHF", "HFG"], is_slippery=True)),
    "taxi": ("Taxi", {}),
    "cliff": ("CliffWalking", {}),
    "slippery cliff": ("CliffWalking", dict(is_slippery=True)),
}


@pytest.mark.parametrize("case", CASES)
def test_optimal_values_are_those_of_plain_value_iteration(case):
    name, options = CASES[case]
    source = gymnasium.make(latest(name), **options)
    environment, plan, expected = both(source, 0.99)
    start = np.asarray(source.unwrapped.initial_state_distrib)
    assert environment.start @ plan.value == pytest.approx(start @ expected, abs=TOLERANCE)
    assert plan.converged
    lives = ~environment.is_terminal[: expected.size]
    np.testing.assert_allclose(plan.value[: expected.size][lives], expected[lives], atol=TOLERANCE)
    np.testing.assert_array_equal(environment.start[: expected.size], start)
    assert environment.discount == 0.99


def test_values_that_are_known_from_elsewhere():
    """FrozenLake 4x4 at γ = 0.99 is worth 0.542 (a textbook number); the shortest walk along the cliff has 13 steps."""
    lake = mm.io.from_gymnasium(gymnasium.make(latest("FrozenLake"), is_slippery=True), discount=0.99)
    assert lake.start @ mm.plan(lake, lake.reward, on="state_action").value == pytest.approx(0.542, abs=5e-4)
    cliff = mm.io.from_gymnasium(gymnasium.make(latest("CliffWalking")), discount=0.99)
    steps = -(1 - 0.99**13) / (1 - 0.99)
    assert cliff.start @ mm.plan(cliff, cliff.reward, on="state_action").value == pytest.approx(steps, abs=TOLERANCE)


def test_holes_and_the_goal_of_the_lake_are_terminal():
    lake = mm.io.from_gymnasium(latest("FrozenLake"), discount=0.99)
    assert lake.num_states == 16
    assert np.flatnonzero(lake.is_terminal).tolist() == [5, 7, 11, 12, 15]
    assert not lake.available[lake.is_terminal].any()
    assert lake.available[~lake.is_terminal].all()
    assert lake.start[0] == 1.0
    assert not lake.reward[lake.is_terminal].any()
    assert lake.reward[14].max() == pytest.approx(1 / 3)


def test_a_name_and_an_environment_give_the_same():
    name = latest("Taxi")
    first, second = mm.io.from_gymnasium(name, discount=0.9), mm.io.from_gymnasium(gymnasium.make(name), discount=0.9)
    assert sp.issparse(first.transitions)
    assert first.states == second.states
    assert abs(first.matrix - second.matrix).max() == 0
    np.testing.assert_array_equal(first.reward, second.reward)


@pytest.mark.parametrize("case", CASES)
def test_following_the_best_policy_in_gymnasium_earns_what_the_plan_promises(case):
    """Rollouts in Gymnasium itself; the mean return is within 5 standard errors, with a fixed seed."""
    name, options = CASES[case]
    source = gymnasium.make(latest(name), **options).unwrapped  # without a time limit
    environment, plan, _ = both(source, 0.9)
    returns = []
    for episode in range(200):
        state, _ = source.reset(seed=episode)
        total, weight, done = 0.0, 1.0, False
        while not done and weight > 1e-3:
            state, reward, done, _, _ = source.step(int(plan.actions[state]))
            total += weight * reward
            weight *= 0.9
        returns.append(total)
    # what is cut off is worth at most 1e-3 / (1 − 0.9) of the largest reward
    slack = 1e-2 * np.abs(environment.reward).max()
    error = np.std(returns) / np.sqrt(len(returns))
    assert abs(np.mean(returns) - environment.start @ plan.value) < 5 * error + slack


# ---- made by hand --------------------------------------------------------------------------------------------------


def tabular(table, start=None):
    """The least an environment needs to have, in Gymnasium's form."""
    fake = SimpleNamespace(
        P=table,
        observation_space=SimpleNamespace(n=len(table)),
        action_space=SimpleNamespace(n=len(table[0])),
    )
    if start is not None:
        fake.initial_state_distrib = np.array(start)
    fake.unwrapped = fake
    return fake


def test_a_state_that_is_both_lived_in_and_ended_in_gets_an_end_of_its_own():
    """State 1 is entered alive by action 0 and dead by action 1; alive it pays 1 a step."""
    table = {
        0: {0: [(1.0, 1, 0.0, False)], 1: [(0.5, 1, 3.0, True), (0.5, 0, 1.0, False)]},
        1: {0: [(1.0, 1, 1.0, False)], 1: [(1.0, 2, 2.0, True)]},
        2: {0: [(1.0, 2, 0.0, True)], 1: [(1.0, 2, 0.0, True)]},
    }
    for discount in (0.0, 0.5, 0.9):
        environment, plan, expected = both(tabular(table, [1.0, 0.0, 0.0]), discount)
        assert environment.states == (0, 1, 2, "end")
        assert [environment.states[s] for s in np.flatnonzero(environment.is_terminal)] == [2, "end"]
        np.testing.assert_allclose(plan.value[:2], expected[:2], atol=TOLERANCE)
        assert plan.value[3] == plan.value[2] == 0.0
        np.testing.assert_array_equal(environment.tensor[0, 1], [0.5, 0.0, 0.0, 0.5])
        np.testing.assert_array_equal(environment.reward[:2], [[0.0, 2.0], [1.0, 2.0]])
        assert environment.start.tolist() == [1.0, 0.0, 0.0, 0.0]


def test_a_state_that_only_dead_states_lead_into_alive_is_terminal_all_the_same():
    """Rows of terminal states are never used: 1 and 2 point at each other with done=False."""
    table = {
        0: {0: [(1.0, 1, 1.0, True)], 1: [(1.0, 2, 2.0, True)]},
        1: {0: [(1.0, 2, 9.0, False)], 1: [(1.0, 2, 9.0, False)]},
        2: {0: [(1.0, 1, 9.0, False)], 1: [(1.0, 1, 9.0, False)]},
    }
    environment, plan, expected = both(tabular(table, [1.0, 0.0, 0.0]), 0.9)
    assert environment.states == (0, 1, 2)
    assert environment.is_terminal.tolist() == [False, True, True]
    assert plan.value[0] == pytest.approx(expected[0], abs=TOLERANCE)
    assert expected[0] == 2.0


def test_an_ending_in_a_start_state_does_not_end_the_start():
    table = {
        0: {0: [(1.0, 1, 0.0, False)]},
        1: {0: [(0.5, 0, 4.0, True), (0.5, 1, 0.0, False)]},
    }
    environment, plan, expected = both(tabular(table, [1.0, 0.0]), 0.9)
    assert environment.states == (0, 1, "end")
    assert environment.is_terminal.tolist() == [False, False, True]
    np.testing.assert_allclose(plan.value[:2], expected, atol=TOLERANCE)


def test_without_a_start_distribution_every_state_is_a_start():
    table = {
        0: {0: [(1.0, 1, 1.0, True)]},
        1: {0: [(1.0, 1, 0.0, True)]},
    }
    environment, plan, expected = both(tabular(table), 0.9)
    assert environment.start[:2].tolist() == [0.5, 0.5]
    np.testing.assert_allclose(plan.value[:2], expected, atol=TOLERANCE)


def test_repeated_and_impossible_outcomes_are_read_rightly():
    table = {
        0: {0: [(0.25, 1, 4.0, True), (0.25, 1, 0.0, True), (0.5, 0, 1.0, False), (0.0, 0, 99.0, True)]},
        1: {0: [(1.0, 1, 0.0, True)]},
    }
    environment, plan, expected = both(tabular(table, [1.0, 0.0]), 0.9)
    assert environment.states == (0, 1)
    np.testing.assert_array_equal(environment.tensor[0, 0], [0.5, 0.5])
    assert environment.reward[0, 0] == 1.5
    assert plan.value[0] == pytest.approx(expected[0], abs=TOLERANCE)


@pytest.mark.parametrize("seed", range(6))
def test_random_tables_with_endings_anywhere_have_the_values_of_plain_value_iteration(seed):
    rng = np.random.default_rng(seed)
    table = {
        s: {
            a: [
                (float(p), int(rng.integers(6)), float(rng.normal()), bool(rng.random() < 0.3))
                for p in rng.dirichlet(np.ones(3))
            ]
            for a in range(2)
        }
        for s in range(6)
    }
    start = rng.dirichlet(np.ones(6)) if seed % 2 else np.eye(6)[0]
    environment, plan, expected = both(tabular(table, start), 0.95)
    assert environment.start @ plan.value == pytest.approx(start @ expected, abs=TOLERANCE)
    lives = ~environment.is_terminal[:6]
    np.testing.assert_allclose(plan.value[:6][lives], expected[lives], atol=TOLERANCE)


def test_environments_without_a_table_are_refused():
    with pytest.raises(mm.errors.InputError, match="transition table"):
        mm.io.from_gymnasium(gymnasium.make(latest("CartPole")), discount=0.9)
