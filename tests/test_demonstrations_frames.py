"""Demonstrations from tables of every library and type, from lists and files, and the same back from their tables."""

import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manymotives as mm
import oracles_worlds
from demonstration_examples import ANYWHERE, ARRAYS, BACKENDS, A, S, assert_identical, columns, moves_of, ragged, read
from manymotives.data.tables import whole_numbers

# ---- tables ----------------------------------------------------------------------------------------------------


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


def test_the_frame_given_is_not_changed():
    frame = pd.DataFrame(columns(ragged(1)), index=np.arange(100, 100 + len(columns(ragged(1))["task"])))
    before = frame.copy(deep=True)
    mm.Demonstrations.from_frame(frame, ANYWHERE, episode="episode", step="step")
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("zone", [None, "UTC", "+09:00"])
def test_times_beyond_the_calendar_are_refused_in_a_sentence(zone):
    times = pa.array([1704110400000000, 2**63 - 1], type=pa.timestamp("us", tz=zone))
    table = pa.table({"task": times, "state": ["a", "b"], "action": ["x", "y"]})
    with pytest.raises(mm.errors.InputError, match=r"column 'task', row 1 .*: a time in the year 294247\. Times"):
        mm.Demonstrations.from_frame(table)


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


def test_a_column_of_episodes_that_was_not_named_is_warned_of():
    """Without it, all rows of a task are one episode."""
    frame = pd.DataFrame({"task": "a", "episode": [0, 0, 1], "state": ["x", "y", "x"], "action": "go"})
    merged = mm.Demonstrations.from_frame(frame)
    assert merged.num_episodes == 1
    assert merged.warnings[-1].startswith("the table has a column 'episode' that was not used")
    assert not mm.Demonstrations.from_frame(frame, episode="episode").warnings
