"""Demonstrations: every choice of every ragged trajectory is counted once, where it was made, whatever the table."""

import itertools
import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manymotives as mm
import oracles_worlds
from manymotives.data.tables import whole_numbers

BACKENDS = ["pandas", "polars", "pyarrow"]
S, A = 4, 3
ANYWHERE = mm.Environment(np.full((S, A, S), 1 / S), discount=0.9)  # everything can follow everything
ARRAYS = ("task", "episode", "step", "state", "action", "next_state")


def ragged(seed, num_tasks=4, episodes=5, longest=7):
    """Random trajectories (task, states, actions): unequal lengths, some without a last action.

    The first of each task is complete, so that every task has a choice and tasks appear in order.
    """
    rng = np.random.default_rng(seed)
    trajectories = []
    for task in range(num_tasks):
        for episode in range(rng.integers(1, episodes + 1)):
            length = int(rng.integers(1, longest + 1))
            states = rng.integers(S, size=length).tolist()
            shorter = episode > 0 and rng.random() < 0.5
            actions = rng.integers(A, size=length - shorter).tolist()
            trajectories.append((task, states, actions))
    return trajectories


def columns(trajectories):
    """The long table of trajectories, one row a state."""
    rows = {"task": [], "episode": [], "step": [], "state": [], "action": []}
    number = {}
    for task, states, actions in trajectories:
        number[task] = number.get(task, -1) + 1
        for step, state in enumerate(states):
            rows["task"].append(task)
            rows["episode"].append(number[task])
            rows["step"].append(step)
            rows["state"].append(state)
            rows["action"].append(actions[step] if step < len(actions) else None)
    return rows


def table(backend, rows):
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[backend](rows)


def read(trajectories, environment=ANYWHERE, backend="pandas"):
    frame = table(backend, columns(trajectories))
    return mm.Demonstrations.from_frame(frame, environment, episode="episode", step="step")


def moves_of(demonstrations, task=None):
    shape = len(demonstrations.states), len(demonstrations.actions), len(demonstrations.states)
    return demonstrations.transition_counts(task).toarray().reshape(shape)


def assert_identical(found, expected):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    for name in ("tasks", "states", "actions", "episodes"):
        assert getattr(found, name) == getattr(expected, name), name


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
    assert demonstrations.warnings == ("1 rows have no state and are left out; nothing follows across them.",)


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
    with pytest.raises(mm.errors.InputError, match=r"'then', row 0 .*state 2 is said to .*following step is in 1"):
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


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("environment", [ANYWHERE, None], ids=["environment", "data"])
def test_every_data_frame_library_gives_the_same(backend, seed, environment):
    trajectories = ragged(seed)
    found = read(trajectories, environment, backend)
    assert_identical(found, read(trajectories, environment))
    text = [(f"task {t}", [f"s{s}" for s in states], [f"a{a}" for a in actions]) for t, states, actions in trajectories]
    named = mm.Environment(
        ANYWHERE.transitions, discount=0.9, states=[f"s{s}" for s in range(S)], actions=[f"a{a}" for a in range(A)]
    )
    by_name = read(text, None if environment is None else named, backend)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(by_name, name), getattr(found, name))
    assert by_name.tasks == tuple(f"task {t}" for t in found.tasks)


@pytest.mark.parametrize("kind", ["category", "string", "object", "string[pyarrow]", "Int64", "int8", "int64[pyarrow]"])
def test_every_kind_of_pandas_column_gives_the_same(kind):
    trajectories = ragged(6)
    rows = pd.DataFrame(columns(trajectories))
    if kind not in ("Int64", "int8", "int64[pyarrow]"):
        for name, letter in (("state", "s"), ("action", "a")):
            rows[name] = [None if np.isnan(value) else f"{letter}{int(value)}" for value in rows[name]]
    whole = ["task", "state"] if kind == "int8" else ["task", "state", "action"]
    converted = rows.astype({name: kind for name in whole})
    found = mm.Demonstrations.from_frame(converted, episode="episode", step="step")
    expected = read(trajectories)
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_array_equal(moves_of(found), moves_of(expected))


@pytest.mark.parametrize("backend", ["polars", "pyarrow"])
def test_whole_numbers_stay_whole_numbers_as_names(backend):
    """A last state without an action must not turn action 1 into 1.0."""
    demonstrations = read([(7, [0, 1, 2], [1, 0])], None, backend)
    for names in (demonstrations.tasks, demonstrations.states, demonstrations.actions):
        assert {type(name) for name in names} == {int}


def test_whole_numbers_stay_whole_numbers_in_the_table_that_comes_out():
    frame = mm.Demonstrations.from_lists([([0, 1, 2], [1, 0])], ANYWHERE).to_frame()
    assert frame["action"].dropna().map(str).tolist() == ["1", "0"]
    assert frame["next_state"].dropna().map(str).tolist() == ["1", "2"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([3, None, -(2**63)], "Int64"),
        ([0, 1, 1704110400000000, 2**63 + 1], "UInt64"),
        ([None, 2**64 - 1, 2**63 + 1], "UInt64"),
        ([-1, 2**63], "object"),
        ([None], "Int64"),
    ],
)
def test_large_whole_numbers_are_kept_to_the_last_digit(values, dtype):
    found = whole_numbers(values)
    assert str(found.dtype) == dtype
    assert [None if pd.isna(value) else int(value) for value in found] == values


# ---- lists -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_lists_of_trajectories_give_the_same_as_a_table(seed):
    trajectories = ragged(seed)
    pairs = [(states, actions) for _, states, actions in trajectories]
    tasks = [task for task, _, _ in trajectories]
    assert_identical(mm.Demonstrations.from_lists(pairs, ANYWHERE, tasks=tasks), read(trajectories))
    alone = mm.Demonstrations.from_lists(pairs, ANYWHERE)
    assert alone.tasks == tuple(range(len(pairs)))
    choices, _ = oracles_worlds.count_choices(
        [(number, states, actions) for number, (states, actions) in enumerate(pairs)], len(pairs), S, A
    )
    np.testing.assert_array_equal(alone.counts, choices)


def test_lists_keep_names_as_they_were_given():
    demonstrations = mm.Demonstrations.from_lists([([(0, 0), (0, 1)], [1]), ([(0, 1)], [None])], tasks=["x", "y"])
    assert demonstrations.states == ((0, 0), (0, 1))
    assert demonstrations.actions == (1,)
    assert type(demonstrations.actions[0]) is int
    np.testing.assert_array_equal(demonstrations.action, [0, -1, -1])


def test_lists_that_do_not_fit_are_refused():
    for trajectory in (([0, 1], []), ([0], [1, 1]), ([], [])):
        with pytest.raises(mm.errors.InputError, match=r"trajectory 1 has"):
            mm.Demonstrations.from_lists([([0], [0]), trajectory], ANYWHERE)
    with pytest.raises(mm.errors.InputError, match="task of each trajectory"):
        mm.Demonstrations.from_lists([([0], [0])], ANYWHERE, tasks=["a", "b"])
    with pytest.raises(mm.errors.InputError, match="no trajectories"):
        mm.Demonstrations.from_lists([], ANYWHERE)


# ---- out again ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_the_table_that_comes_out_goes_in_again(backend, seed):
    """Also where steps have gaps, as rows are taken out at random."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(columns([(0, [0, 0], [0, 0]), *ragged(seed)]))
    frame = frame[(rng.random(len(frame)) < 0.9) | (np.arange(len(frame)) < 2)]
    first = mm.Demonstrations.from_frame(frame, ANYWHERE, episode="episode", step="step")
    second = mm.Demonstrations.from_frame(
        first.to_frame(backend), ANYWHERE, episode="episode", step="step", next_state="next_state"
    )
    assert_identical(second, first)


def test_episodes_keep_their_order_when_the_table_that_comes_out_goes_in_again():
    """Tasks with partly different episodes, in rows that alternate between the tasks."""
    frame = pd.DataFrame(
        {
            "task": ["A", "B", "A", "B", "B"],
            "episode": ["mon", "tue", "wed", "wed", "wed"],
            "state": [0, 1, 2, 3, 3],
            "action": [0, 1, 2, 0, 1],
        }
    )
    first = mm.Demonstrations.from_frame(frame, ANYWHERE, episode="episode")
    second = mm.Demonstrations.from_frame(
        first.to_frame(), ANYWHERE, episode="episode", step="step", next_state="next_state"
    )
    assert_identical(second, first)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_pooled_choices_are_those_of_one_task(seed):
    """And no two episodes become one, also by way of a table, though tasks use the same names for theirs."""
    frame = pd.DataFrame(columns([(0, [0, 0], [0, 0]), *ragged(seed)]))
    apart = mm.Demonstrations.from_frame(frame, ANYWHERE, episode="episode", step="step")
    pooled = apart.pooled()
    assert pooled.tasks == ("all",)
    assert len(set(pooled.episodes)) == pooled.num_episodes == apart.num_episodes
    np.testing.assert_array_equal(pooled.counts[0], apart.counts.sum(axis=0))
    np.testing.assert_array_equal(pooled.transition_counts().toarray(), apart.transition_counts().toarray())
    again = mm.Demonstrations.from_frame(
        pooled.to_frame(), ANYWHERE, episode="episode", step="step", next_state="next_state"
    )
    assert_identical(again, pooled)


@pytest.mark.parametrize("backend", BACKENDS)
def test_times_come_out_and_go_in_again(backend):
    times = pd.to_datetime(["2024-01-03 09:00", "2024-01-01 10:00", "2024-01-01 10:01"])
    frame = pd.DataFrame({"task": 0, "when": times, "state": [2, 0, 1], "action": [2, 0, 1]})
    first = mm.Demonstrations.from_frame(frame, ANYWHERE, step="when")
    out = first.to_frame(backend)
    second = mm.Demonstrations.from_frame(out, ANYWHERE, episode="episode", step="step", next_state="next_state")
    np.testing.assert_array_equal(second.state, first.state)
    np.testing.assert_array_equal(second.next_state, first.next_state)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_files_bring_demonstrations_back(tmp_path, ending):
    demonstrations = read(ragged(2))
    path = tmp_path / f"choices{ending}"
    frame = demonstrations.to_frame()
    if ending == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    back = mm.io.read_demonstrations(path, ANYWHERE, episode="episode", step="step", next_state="next_state")
    assert_identical(back, demonstrations)


def test_a_long_file_that_mixes_numbers_and_words_is_read_with_one_name_for_each_state(tmp_path):
    """Readers that guess a column's type piece by piece call a state 3 in one piece and "3" in another."""
    path = tmp_path / "long.csv"
    lines = ["task,state,action"] + ["t,3,x"] * 400_000 + ["t,home,x", "t,3,x"]
    path.write_text("\n".join(lines) + "\n")
    demonstrations = mm.io.read_demonstrations(path)
    assert len(demonstrations.states) == 2
    assert demonstrations.counts.sum() == 400_002


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


def test_the_frame_given_is_not_changed():
    frame = pd.DataFrame(columns(ragged(1)), index=np.arange(100, 100 + len(columns(ragged(1))["task"])))
    before = frame.copy(deep=True)
    mm.Demonstrations.from_frame(frame, ANYWHERE, episode="episode", step="step")
    pd.testing.assert_frame_equal(frame, before)


# ---- memory ------------------------------------------------------------------------------------------------------


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
        ({"step": [4, 4]}, {"step": "step"}, r"rows 0 and 1 .*the same step twice"),
        ({"step": ["a", "b"]}, {"step": "step"}, "'a' is neither a number nor a time"),
        ({"action": [None, None]}, {}, "nothing was demonstrated"),
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


# ---- size --------------------------------------------------------------------------------------------------------


def test_a_long_table_is_read_and_counted_quickly():
    """300 000 rows in 1.5 s; the best of three, as other programs may run beside."""
    size, rng = 300_000, np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "task": np.repeat([f"subject {i}" for i in range(100)], size // 100),
            "day": np.tile(np.repeat(np.arange(10), size // 1000), 100),
            "step": np.tile(np.arange(size // 1000), 1000),
            "state": rng.integers(50, size=size),
            "action": rng.integers(5, size=size),
        }
    )
    anywhere = mm.Environment(np.full((50, 5, 50), 1 / 50), discount=0.9)
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        demonstrations = mm.Demonstrations.from_frame(frame, anywhere, episode="day", step="step")
        total, moves = demonstrations.counts.sum(), demonstrations.transition_counts().sum()
        seconds.append(time.perf_counter() - began)
    assert total == size
    assert moves == size - 1000
    assert demonstrations.num_episodes == 1000
    assert min(seconds) < 1.5


@pytest.mark.parametrize("zone", [None, "UTC", "+09:00"])
def test_times_beyond_the_calendar_are_refused_in_a_sentence(zone):
    times = pa.array([1704110400000000, 2**63 - 1], type=pa.timestamp("us", tz=zone))
    table = pa.table({"task": times, "state": ["a", "b"], "action": ["x", "y"]})
    with pytest.raises(mm.errors.InputError, match=r"column 'task', row 1 .*: a time in the year 294247\. Times"):
        mm.Demonstrations.from_frame(table)
