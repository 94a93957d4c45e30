"""Demonstrations whose states remember the previous one: pairs against plain loops, and nothing across gaps."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manymotives as mm
import oracles_worlds
from demonstration_examples import ANYWHERE, A, S, moves_of, ragged, read


def expected_memory(trajectories, memory, num_tasks):
    """Choices [task, pair, A] and moves between pairs, by plain loops."""
    number = {tuple(pair): index for index, pair in enumerate(memory.pairs.tolist())}
    lifted = []
    for task, states, actions in trajectories:
        pairs = [number[previous, state] for previous, state in zip([-1, *states], states)]
        lifted.append((task, pairs, actions))
    return oracles_worlds.count_choices(lifted, num_tasks, memory.num_states, memory.num_actions)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_memory_agrees_with_plain_loops(seed):
    trajectories = ragged(seed)
    memory = ANYWHERE.with_memory()
    choices, moves = expected_memory(trajectories, memory, 4)
    demonstrations = read(trajectories)
    remembered = demonstrations.with_memory(memory)
    np.testing.assert_array_equal(remembered.counts, choices)
    np.testing.assert_array_equal(moves_of(remembered), moves)
    np.testing.assert_array_equal(memory.pairs[remembered.state][:, 1], demonstrations.state)
    for name in ("task", "episode", "step", "action"):
        np.testing.assert_array_equal(getattr(remembered, name), getattr(demonstrations, name))
    assert remembered.states == memory.states


def test_memory_of_simulated_choices_only_meets_possible_moves():
    environment = mm.worlds.GridWorld(["S..", ".#.", "..G"], slip=0.2, discount=0.9, terminal="G")
    memory = environment.with_memory()
    simulated = mm.simulate(environment, np.arange(8.0), mm.Softmax(0.5), steps=9, episodes=30, seed=1)
    remembered = simulated.with_memory(memory)
    made = moves_of(remembered)
    assert made.sum() == simulated.num_steps  # every next state is known, so every next pair is
    assert not made[memory.tensor == 0].any()
    again = mm.Demonstrations.from_frame(
        remembered.to_frame(), memory, episode="episode", step="step", next_state="next_state"
    )
    assert again.warnings == ()
    np.testing.assert_array_equal(again.counts, remembered.counts)


def test_nothing_is_remembered_across_a_gap():
    frame = pd.DataFrame({"task": 0, "step": [0, 1, 3, 4], "state": [0, 1, 1, 2], "action": [0, 1, 2, 0]})
    memory = ANYWHERE.with_memory()
    remembered = mm.Demonstrations.from_frame(frame, ANYWHERE, step="step").with_memory(memory)
    np.testing.assert_array_equal(memory.pairs[remembered.state], [[-1, 0], [0, 1], [-1, 1], [1, 2]])


@pytest.mark.parametrize("gap", ["step", "state"])
def test_nothing_is_remembered_across_a_gap_even_where_the_next_state_is_given(gap):
    """From 0 to 1 at step 0; later, after an unknown number of steps, in 1 again: who knows from where."""
    frame = pd.DataFrame(
        {"task": 0, "step": [0, 1, 2, 3], "state": [0, None, 1, 2], "action": [0, 0, 1, 1], "then": [1, None, 2, None]}
    )
    if gap == "step":
        frame = frame.dropna(subset="state")
    memory = ANYWHERE.with_memory()
    demonstrations = mm.Demonstrations.from_frame(frame, ANYWHERE, step="step", next_state="then")
    remembered = demonstrations.with_memory(memory)
    np.testing.assert_array_equal(memory.pairs[remembered.state], [[-1, 0], [-1, 1], [1, 2]])
    np.testing.assert_array_equal(memory.pairs[remembered.next_state[0]], [0, 1])


def test_a_state_is_remembered_although_the_action_there_was_not_recorded():
    frame = pd.DataFrame({"task": 0, "state": [0, 1, 2], "action": [None, 1, 2]})
    memory = ANYWHERE.with_memory()
    remembered = mm.Demonstrations.from_frame(frame, ANYWHERE).with_memory(memory)
    np.testing.assert_array_equal(memory.pairs[remembered.state], [[-1, 0], [0, 1], [1, 2]])


def test_memory_refuses_an_environment_without_it_and_moves_it_does_not_know():
    demonstrations = read([(0, [0, 3], [0, 0])])
    with pytest.raises(mm.errors.InputError, match="no memory"):
        demonstrations.with_memory(ANYWHERE)
    standstill = mm.Environment(np.repeat(np.eye(S)[:, None], A, axis=1), discount=0.9).with_memory()
    with pytest.raises(mm.errors.InputError, match="state 3 follows 0"):
        demonstrations.with_memory(standstill)


def test_memory_does_not_mistake_names_from_the_data_for_those_of_the_environment():
    """Data that visit only states 2 and 3 number them 0 and 1."""
    chain = mm.worlds.Chain(5, discount=0.9)
    memory = chain.with_memory()
    frame = pd.DataFrame({"task": 0, "state": [2, 3], "action": ["forward", "back"]})
    try:
        remembered = mm.Demonstrations.from_frame(frame).with_memory(memory)
    except mm.errors.InputError:
        return
    assert [memory.states[s] for s in remembered.state] == ["→2", "2→3"]
