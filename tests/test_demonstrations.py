"""Demonstrations: every choice of every ragged trajectory is counted once, where it was made; what is refused."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manymotives as mm
import oracles_worlds
from demonstration_examples import ANYWHERE, A, S, columns, moves_of, ragged, read

# ---- counts ------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1), num_tasks=st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_counts_of_ragged_data_agree_with_plain_loops(seed, num_tasks):
    trajectories = ragged(seed, num_tasks)
    choices, moves = oracles_worlds.count_choices(trajectories, num_tasks, S, A)
    demonstrations = read(trajectories)
    np.testing.assert_array_equal(demonstrations.counts, choices)
    np.testing.assert_array_equal(moves_of(demonstrations), moves)
    for task in range(num_tasks):
        _, own = oracles_worlds.count_choices([t for t in trajectories if t[0] == task], num_tasks, S, A)
        np.testing.assert_array_equal(moves_of(demonstrations, task), own)
    visits = np.zeros((num_tasks, S), dtype=int)
    for task, states, _ in trajectories:
        for state in states:
            visits[task, state] += 1
    np.testing.assert_array_equal(demonstrations.visits, visits)
    assert demonstrations.num_steps == choices.sum()
    assert demonstrations.num_tasks == num_tasks
    assert demonstrations.num_episodes == len(trajectories)
    assert demonstrations.warnings == ()


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_the_order_of_rows_does_not_matter_where_steps_are_given(seed):
    trajectories = ragged(seed)
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(columns(trajectories))
    shuffled = mm.Demonstrations.from_frame(
        frame.iloc[rng.permutation(len(frame))], ANYWHERE, episode="episode", step="step"
    )
    sorted_ = mm.Demonstrations.from_frame(frame, ANYWHERE, episode="episode", step="step")
    order = [shuffled.tasks.index(task) for task in sorted_.tasks]  # tasks come in order of appearance
    np.testing.assert_array_equal(shuffled.counts[order], sorted_.counts)
    for task in sorted_.tasks:
        np.testing.assert_array_equal(moves_of(shuffled, task), moves_of(sorted_, task))


def test_rows_of_several_tasks_may_alternate_and_are_in_order_without_steps():
    frame = pd.DataFrame({"task": ["x", "y"] * 3, "state": [0, 3, 1, 2, 2, 1], "action": [0, 2, 1, 1, 2, 0]})
    demonstrations = mm.Demonstrations.from_frame(frame, ANYWHERE)
    assert demonstrations.tasks == ("x", "y")
    np.testing.assert_array_equal(demonstrations.state, [0, 1, 2, 3, 2, 1])
    np.testing.assert_array_equal(demonstrations.next_state, [1, 2, -1, 2, 1, -1])
    np.testing.assert_array_equal(demonstrations.step, [0, 1, 2, 0, 1, 2])


def test_rows_of_several_episodes_may_alternate_too():
    frame = pd.DataFrame({"task": 0, "episode": ["p", "q"] * 2, "state": [0, 3, 1, 2], "action": [0, 2, 1, 1]})
    demonstrations = mm.Demonstrations.from_frame(frame, ANYWHERE, episode="episode")
    np.testing.assert_array_equal(demonstrations.state, [0, 1, 3, 2])
    np.testing.assert_array_equal(demonstrations.next_state, [1, -1, 2, -1])
    assert demonstrations.episodes == ("p", "q")


def test_tasks_may_share_the_names_of_episodes():
    trajectories = [("a", [0, 1], [0, 0]), ("b", [2, 3], [1, 1]), ("a", [1, 1], [2])]
    demonstrations = read(trajectories)
    assert demonstrations.episodes == (0, 1, 0)
    np.testing.assert_array_equal(demonstrations.episode, [0, 0, 1, 1, 2, 2])
    np.testing.assert_array_equal(demonstrations.next_state, [1, -1, 1, -1, 3, -1])


def test_a_last_state_without_an_action_is_visited_and_entered_but_nothing_is_chosen_there():
    demonstrations = read([(0, [0, 1, 2], [0, 1])])
    np.testing.assert_array_equal(demonstrations.action, [0, 1, -1])
    np.testing.assert_array_equal(demonstrations.next_state, [1, 2, -1])
    assert demonstrations.visits[0, 2] == 1
    assert demonstrations.counts[0, 2].sum() == 0
    assert moves_of(demonstrations)[1, 1, 2] == 1


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_no_transition_is_counted_across_a_gap_in_the_steps(seed):
    """Rows are taken out at random; a plain loop counts what still stands next to each other."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(columns([(0, [0, 0], [0, 0]), *ragged(seed)]))
    frame = frame[(rng.random(len(frame)) < 0.7) | (np.arange(len(frame)) < 2)]
    demonstrations = mm.Demonstrations.from_frame(frame, ANYWHERE, episode="episode", step="step")
    choices, moves, gaps = np.zeros((len(demonstrations.tasks), S, A), int), np.zeros((S, A, S), int), 0
    rows = frame.to_dict("records")
    for row, following in itertools.zip_longest(rows, rows[1:]):
        acted = not np.isnan(row["action"])
        if acted:
            choices[demonstrations.tasks.index(row["task"]), row["state"], int(row["action"])] += 1
        if following is None or (following["task"], following["episode"]) != (row["task"], row["episode"]):
            continue
        if following["step"] != row["step"] + 1:
            gaps += 1
        elif acted:
            moves[row["state"], int(row["action"]), following["state"]] += 1
    np.testing.assert_array_equal(demonstrations.counts, choices)
    np.testing.assert_array_equal(moves_of(demonstrations), moves)
    assert demonstrations.warnings == (
        (f"{gaps} gaps in the steps: no transition is counted across them.",) if gaps else ()
    )


def test_steps_may_be_whole_numbers_from_anywhere_in_any_type():
    base = read([(0, [0, 1, 2], [0, 1, 2])])
    for step in (
        np.array([-3, -2, -1]),
        np.array([5.0, 6.0, 7.0]),
        np.array([250, 251, 252], dtype=np.uint8),
        pd.array([10, 11, 12], dtype="Int64"),
    ):
        frame = pd.DataFrame({"task": 0, "step": step, "state": [0, 1, 2], "action": [0, 1, 2]})
        for rows in (frame, frame.iloc[::-1]):
            found = mm.Demonstrations.from_frame(rows, ANYWHERE, step="step")
            np.testing.assert_array_equal(found.state, base.state)
            np.testing.assert_array_equal(found.next_state, base.next_state)
            assert found.warnings == ()


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris"])
def test_times_order_the_rows_and_leave_no_gaps(zone):
    times = pd.to_datetime(["2024-01-03 09:00", "2024-01-01 10:00", "2024-01-01 10:01"]).tz_localize(zone)
    frame = pd.DataFrame({"task": 0, "when": times, "state": [2, 0, 1], "action": [2, 0, 1]})
    demonstrations = mm.Demonstrations.from_frame(frame, ANYWHERE, step="when")
    np.testing.assert_array_equal(demonstrations.state, [0, 1, 2])
    np.testing.assert_array_equal(demonstrations.next_state, [1, 2, -1])
    assert demonstrations.warnings == ()


@pytest.mark.parametrize(
    "step", [pd.to_timedelta([3, 1, 2], unit="s"), pd.Series([3, 1, 2], dtype=object)], ids=["elapsed", "object"]
)
def test_elapsed_times_and_whole_numbers_in_an_object_column_order_the_rows_too(step):
    """The documentation says: whole numbers or anything that sorts."""
    frame = pd.DataFrame({"task": 0, "step": step, "state": [2, 0, 1], "action": [2, 0, 1]})
    demonstrations = mm.Demonstrations.from_frame(frame, ANYWHERE, step="step")
    np.testing.assert_array_equal(demonstrations.state, [0, 1, 2])
    np.testing.assert_array_equal(demonstrations.next_state, [1, 2, -1])


def test_steps_between_whole_numbers_only_order_the_rows():
    frame = pd.DataFrame({"task": 0, "step": [9.5, 0.0, 4.0], "state": [2, 0, 1], "action": [2, 0, 1]})
    demonstrations = mm.Demonstrations.from_frame(frame, ANYWHERE, step="step")
    np.testing.assert_array_equal(demonstrations.next_state, [1, 2, -1])


def test_a_missing_state_is_a_gap():
    frame = pd.DataFrame({"task": 0, "state": ["a", None, "b", "b"], "action": ["x", "x", "y", "x"]})
    demonstrations = mm.Demonstrations.from_frame(frame)
    assert demonstrations.states == ("a", "b")
    np.testing.assert_array_equal(demonstrations.state, [0, 1, 1])
    np.testing.assert_array_equal(demonstrations.next_state, [-1, 1, -1])
    np.testing.assert_array_equal(demonstrations.counts, [[[1, 0], [1, 1]]])
    assert demonstrations.warnings == ("1 rows have no state and are left out; no transition is counted across them.",)


def test_a_next_state_given_at_the_end_of_an_episode_is_counted():
    frame = pd.DataFrame(
        {"task": 0, "episode": [0, 0, 1], "state": [0, 1, 2], "action": [0, 1, 2], "next_state": [1, 3, None]}
    )
    demonstrations = mm.Demonstrations.from_frame(frame, ANYWHERE, episode="episode", next_state="next_state")
    np.testing.assert_array_equal(demonstrations.next_state, [1, 3, -1])
    assert moves_of(demonstrations).sum() == 2
    assert moves_of(demonstrations)[1, 1, 3] == 1


def test_a_next_state_given_before_a_gap_is_counted_and_the_rest_is_filled_in():
    frame = pd.DataFrame(
        {"task": 0, "step": [0, 1, 5], "state": [0, 1, 2], "action": [0, 1, 2], "next_state": [None, 3, None]}
    )
    demonstrations = mm.Demonstrations.from_frame(frame, ANYWHERE, step="step", next_state="next_state")
    np.testing.assert_array_equal(demonstrations.next_state, [1, 3, -1])


def test_a_next_state_that_is_not_the_following_state_is_refused():
    frame = pd.DataFrame({"task": 0, "state": [0, 1], "action": [0, 1], "then": [2, 3]})
    with pytest.raises(
        mm.errors.InputError, match=r"'then', row 0 .*2 is given as the next state, .*following step is in 1"
    ):
        mm.Demonstrations.from_frame(frame, ANYWHERE, next_state="then")


def test_without_a_task_column_everything_belongs_to_one_task():
    frame = pd.DataFrame({"episode": ["p", "p", "q"], "state": [0, 1, 2], "action": [0, 1, 2]})
    demonstrations = mm.Demonstrations.from_frame(frame, ANYWHERE, task=None, episode="episode")
    assert demonstrations.tasks == (0,)
    choices, moves = oracles_worlds.count_choices([(0, [0, 1], [0, 1]), (0, [2], [2])], 1, S, A)
    np.testing.assert_array_equal(demonstrations.counts, choices)
    np.testing.assert_array_equal(moves_of(demonstrations), moves)
    np.testing.assert_array_equal(moves_of(demonstrations, 0), moves)


def test_without_an_environment_names_come_from_the_data_in_order():
    frame = pd.DataFrame({"task": 0, "state": ["c", "a"], "action": ["y", "x"], "then": ["a", "b"]})
    demonstrations = mm.Demonstrations.from_frame(frame, next_state="then")
    assert demonstrations.states == ("a", "b", "c")
    assert demonstrations.actions == ("x", "y")
    np.testing.assert_array_equal(demonstrations.state, [2, 0])
    np.testing.assert_array_equal(demonstrations.next_state, [0, 1])
    mixed = mm.Demonstrations.from_frame(pd.DataFrame({"task": 0, "state": ["home", 3, 10], "action": [1, 0, 1]}))
    assert set(mixed.states) == {3, 10, "home"}
    assert mixed.actions == (0, 1)


# ---- invariances -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_splitting_a_demonstration_into_episodes_leaves_the_counts_of_choices_unchanged(seed):
    rng = np.random.default_rng(seed)
    whole, pieces = [], []
    for task in range(3):
        states, actions = rng.integers(S, size=12).tolist(), rng.integers(A, size=12).tolist()
        cut = int(rng.integers(1, 12))
        whole.append((task, states, actions))
        # the state at the cut is repeated without an action, so that no transition is lost either
        pieces += [(task, states[: cut + 1], actions[:cut]), (task, states[cut:], actions[cut:])]
    first, second = read(whole), read(pieces)
    np.testing.assert_array_equal(second.counts, first.counts)
    np.testing.assert_array_equal(moves_of(second), moves_of(first))
    assert second.num_episodes == 2 * first.num_episodes


@pytest.mark.parametrize("seed", range(4))
def test_permuting_tasks_permutes_counts(seed):
    trajectories = ragged(seed)
    order = np.random.default_rng(seed).permutation(4)
    permuted = [trajectory for task in order for trajectory in trajectories if trajectory[0] == task]
    first, second = read(trajectories), read(permuted)
    assert second.tasks == tuple(order.tolist())
    np.testing.assert_array_equal(second.counts, first.counts[order])
    np.testing.assert_array_equal(second.visits, first.visits[order])
    np.testing.assert_array_equal(moves_of(second), moves_of(first))
    for task in range(4):
        np.testing.assert_array_equal(moves_of(second, task), moves_of(first, task))


# ---- warnings and refusals ---------------------------------------------------------------------------------------


def test_impossible_transitions_are_counted_in_a_warning():
    chain = mm.worlds.Chain(5, discount=0.9)
    trajectories = [(0, [0, 3, 4, 4], ["forward", "forward", "forward"]), (1, [2, 1], ["back"])]
    demonstrations = read(trajectories, chain)
    (warning,) = demonstrations.warnings
    assert warning.startswith("2 observed transitions are impossible in this environment, for example 0 --'forward'-->")
    possible = read([(0, [0, 1, 0], ["forward", "forward"])], chain)
    assert possible.warnings == ()


def test_impossible_transitions_are_found_in_sparse_environments_too():
    grid = mm.worlds.GridWorld((12, 12), discount=0.9)
    demonstrations = read([(0, ["r0c0", "r5c5", "r5c6"], ["right", "right"])], grid)
    (warning,) = demonstrations.warnings
    assert warning == (
        "1 observed transitions are impossible in this environment, for example 'r0c0' --'right'--> 'r5c5'."
    )


def test_choices_without_a_single_transition_are_read():
    """One choice an episode: a questionnaire."""
    demonstrations = mm.Demonstrations.from_lists([([0], [1]), ([2], [0])], ANYWHERE)
    choices, _ = oracles_worlds.count_choices([(0, [0], [1]), (1, [2], [0])], 2, S, A)
    np.testing.assert_array_equal(demonstrations.counts, choices)
    assert demonstrations.transition_counts().nnz == 0
    assert demonstrations.warnings == ()


def test_actions_that_do_not_exist_are_refused_with_their_row():
    labyrinth = mm.worlds.Labyrinth(2)
    with pytest.raises(mm.errors.InputError, match=r"row 1 .*'left' does not exist in state 'home'.*'enter'"):
        read([(0, ["0", "home"], ["back", "left"])], labyrinth)
    grid = mm.worlds.GridWorld(["S.G"], discount=0.9, terminal="G")
    with pytest.raises(mm.errors.InputError, match=r"row 2 .*'up' is taken in state 'r0c2', which is terminal"):
        read([(0, ["r0c0", "r0c1", "r0c2"], ["right", "right", "up"])], grid)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({"state": [0, 9]}, {}, "column 'state', row 1 .*: unknown state 9"),
        ({"action": [0, 9]}, {}, "column 'action', row 1 .*: unknown action 9"),
        ({"task": [0, None]}, {}, "column 'task' is empty in row 1"),
        ({"step": [4, 4]}, {"step": "step"}, r"rows 0 and 1 .*the same step occurs twice"),
        ({"step": ["a", "b"]}, {"step": "step"}, "'a' is neither a number nor a time"),
        ({"action": [None, None]}, {}, "there are no choices"),
        ({}, {"episode": "day"}, "no column 'day'"),
    ],
)
def test_tables_that_make_no_sense_are_refused_in_words(change, options, words):
    frame = pd.DataFrame({"task": [0, 0], "state": [0, 1], "action": [0, 1]} | change)
    with pytest.raises(mm.errors.InputError, match=words):
        mm.Demonstrations.from_frame(frame, ANYWHERE, **options)


def test_transitions_of_an_unknown_task_are_refused():
    with pytest.raises(mm.errors.InputError, match="no task 'x'"):
        read(ragged(0)).transition_counts("x")
