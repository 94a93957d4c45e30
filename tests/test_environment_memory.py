"""Environments that remember the previous state: which pairs there are, how they move, what they are worth."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import manymotives as mm
from places import ROUNDING, random_environment, two_places


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_states_with_memory_are_the_pairs_that_can_occur_and_move_as_their_second_state_does(seed, sparse):
    environment, case = random_environment(seed, sparse=sparse, reward=np.arange(5.0))
    environment = environment.with_coordinates(np.arange(10.0).reshape(5, 2)).with_warnings(["beware"])
    memory = environment.with_memory()
    base = environment.tensor
    possible = {(-1, s) for s in range(5)}
    for s in range(5):
        for a in range(3):
            for t in range(5):
                if case["available"][s, a] and base[s, a, t] > 0:
                    possible.add((s, t))
    pairs = [tuple(pair) for pair in memory.pairs.tolist()]
    assert set(pairs) == possible
    assert len(pairs) == memory.num_states == len(possible)
    assert sp.issparse(memory.transitions) == sparse
    assert memory.discount == environment.discount
    assert memory.actions == environment.actions
    assert memory.warnings == ("beware",)
    assert environment.pairs is None
    for number, (previous, s) in enumerate(pairs):
        assert memory.states[number] == (f"→{s}" if previous < 0 else f"{previous}→{s}")
        assert memory.is_terminal[number] == environment.is_terminal[s]
        assert memory.start[number] == (environment.start[s] if previous < 0 else 0.0)
        assert memory.reward[number] == environment.reward[s]
        np.testing.assert_array_equal(memory.coordinates[number], environment.coordinates[s])
        np.testing.assert_array_equal(memory.available[number], environment.available[s])
        for a in range(3):
            expected = np.zeros(len(pairs))
            for t in range(5):
                if base[s, a, t] > 0:
                    expected[pairs.index((s, t))] = base[s, a, t]
            np.testing.assert_allclose(memory.tensor[number, a], expected, atol=ROUNDING)


def test_memory_begins_only_where_it_may():
    environment = mm.Environment(np.full((3, 2, 3), 1 / 3), discount=0.9, states=["a", "b", "c"], start=[0, 1, 0])
    memory = environment.with_memory(firsts=["c"])
    assert memory.states[:3] == ("→b", "→c", "a→a")
    assert memory.num_states == 2 + 9
    np.testing.assert_array_equal(memory.start, [1.0] + [0.0] * 10)
    frame = pd.DataFrame({"state": ["b", "c", "a"], "action": [0, 1, 0], "episode": [0, 0, 1], "task": 0})
    with pytest.raises(mm.errors.InputError, match="'a' occurs in the data without a previous state"):
        mm.Demonstrations.from_frame(frame, environment, episode="episode").with_memory(memory)
    remembered = mm.Demonstrations.from_frame(frame[:2], environment, episode="episode").with_memory(memory)
    assert [memory.states[s] for s in remembered.state] == ["→b", "b→c"]
    with pytest.raises(mm.errors.InputError, match="d"):
        environment.with_memory(firsts=["d"])


@pytest.mark.parametrize("on", ["state", "state_action"])
def test_planning_with_memory_gives_the_values_of_the_base_environment(on):
    """A reward without memory is worth the same however one came: to the planners' rounding."""
    for seed in range(3):
        environment, _ = random_environment(seed)
        memory = environment.with_memory()
        reward = np.random.default_rng(seed).normal(size=(5,) if on == "state" else (5, 3))
        value = mm.plan(environment, reward, on=on).value
        lifted = mm.plan(memory, reward[memory.pairs[:, 1]], on=on).value
        np.testing.assert_allclose(lifted, value[memory.pairs[:, 1]], atol=1e-10)


def test_a_policy_with_memory_is_worth_what_plain_bookkeeping_says():
    environment = mm.worlds.DirichletMDP(states=3, actions=2, seed=4, discount=0.8)
    memory = environment.with_memory()
    rng = np.random.default_rng(2)
    reward = rng.normal(size=3)
    forward = {(p, s): rng.random() for p in range(-1, 3) for s in range(3)}  # P(action 1 | previous, state)
    policy = np.array([[1 - forward[p, s], forward[p, s]] for p, s in memory.pairs.tolist()])
    value = mm.evaluate(memory, policy, reward[memory.pairs[:, 1]])
    for first in range(3):
        chance, total = {(-1, first): 1.0}, 0.0
        for step in range(160):  # 0.8^160 / (1 − 0.8) < 2e-15
            total += 0.8**step * sum(weight * reward[s] for (_, s), weight in chance.items())
            after = {}
            for (p, s), weight in chance.items():
                for a, taken in enumerate((1 - forward[p, s], forward[p, s])):
                    for t in range(3):
                        move = weight * taken * environment.tensor[s, a, t]
                        after[s, t] = after.get((s, t), 0.0) + move
            chance = after
        assert value[memory.states.index(f"→{first}")] == pytest.approx(total, abs=1e-10)


def test_alternating_needs_memory():
    """Two places: staying once after every arrival is no policy of the places alone."""
    memory = two_places(discount=0.5, start={"here": 1.0}).with_memory()
    go = {"→here": 0, "→there": 0, "here→here": 1, "there→there": 1, "here→there": 0, "there→here": 0}
    policy = np.eye(2)[[go[name] for name in memory.states]]
    value = mm.evaluate(memory, policy, np.array([1.0, 0.0])[memory.pairs[:, 1]])
    # here, here, there, there, here, here, …: (1 + ½) (1 + 1/16 + 1/256 + …)
    assert memory.start @ value == pytest.approx(1.5 * 16 / 15, abs=1e-12)


def test_memory_works_with_names_from_a_large_sparse_world():
    environment = mm.worlds.GridWorld((12, 12), discount=0.9, terminal="", slip=0.1)
    memory = environment.with_memory()
    assert sp.issparse(memory.transitions)
    assert "r0c0→r0c1" in memory.states
    assert "r0c0→r1c1" not in memory.states
