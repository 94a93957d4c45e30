"""Environments from tables and files, of every data frame library, and the same back from their own tables."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import manymotives as mm
from places import ROUNDING, random_environment

BACKENDS = ["pandas", "polars", "pyarrow"]


def table(backend, columns):
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[backend](columns)


# ---- tables ----------------------------------------------------------------------------------------------------


def assert_same(found, expected):
    """The same environment, state by state and action by action, whatever the order of the names."""
    assert set(found.states) == set(expected.states)
    assert set(found.actions) == set(expected.actions)
    states = [found.states.index(name) for name in expected.states]
    actions = [found.actions.index(name) for name in expected.actions]
    np.testing.assert_allclose(
        found.tensor[np.ix_(states, actions, states)], expected.tensor, atol=ROUNDING, rtol=4 * ROUNDING
    )
    np.testing.assert_array_equal(found.available[np.ix_(states, actions)], expected.available)
    np.testing.assert_array_equal(found.is_terminal[states], expected.is_terminal)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_table_with_actions_that_exist_only_in_some_states_and_a_terminal_state(backend):
    frame = table(
        backend,
        {
            "state": ["hall", "hall", "hall", "attic", "exit"],
            "action": ["up", "up", "out", "down", None],
            "next_state": ["attic", "hall", "exit", "hall", None],
            "probability": [0.75, 0.25, 1.0, 1.0, None],
        },
    )
    environment = mm.Environment.from_frame(frame, discount=0.9, start={"attic": 1.0})
    assert environment.states == ("hall", "attic", "exit")
    assert environment.actions == ("up", "out", "down")
    np.testing.assert_array_equal(environment.is_terminal, [False, False, True])
    np.testing.assert_array_equal(
        environment.available, [[True, True, False], [False, False, True], [False, False, False]]
    )
    expected = np.zeros((3, 3, 3))
    expected[0, 0] = [0.25, 0.75, 0.0]
    expected[0, 1, 2] = expected[1, 2, 0] = 1.0
    np.testing.assert_array_equal(environment.tensor, expected)
    np.testing.assert_array_equal(environment.start, [0.0, 1.0, 0.0])
    back = mm.Environment.from_frame(environment.to_frame(backend), discount=0.9)
    assert_same(back, environment)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_columns_can_be_chosen_and_names_are_in_order_of_appearance(backend):
    frame = table(backend, {"s": ["b", "a"], "a": ["x", "x"], "t": ["a", "end"], "p": [1, 1], "note": ["", ""]})
    environment = mm.Environment.from_frame(
        frame,
        discount=0.9,
        state="s",
        action="a",
        next_state="t",
        probability="p",
        terminal=["end"],
    )
    assert environment.states == ("b", "a", "end")
    assert environment.tensor[0, 0, 1] == environment.tensor[1, 0, 2] == 1.0
    np.testing.assert_array_equal(environment.available, [[True], [True], [False]])


@pytest.mark.parametrize("backend", BACKENDS)
@given(
    seed=st.integers(0, 2**32 - 1),
    states=st.integers(2, 6),
    actions=st.integers(2, 3),
    text=st.booleans(),
    sparse=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_reading_a_table_back_gives_the_same_environment(backend, seed, states, actions, text, sparse):
    names = {}
    if text:
        names = dict(states=[f"place {s}" for s in range(states)], actions=[f"do {a}" for a in range(actions)])
    environment, _ = random_environment(seed, sparse=sparse, size=(states, actions), **names)
    frame = environment.to_frame(backend)
    back = mm.Environment.from_frame(frame, discount=0.9)
    assert set(back.states) == set(environment.states)
    here = [back.states.index(name) for name in environment.states]
    exists = environment.available.any(axis=0)  # an action that no row mentions cannot come back
    assert set(back.actions) == {name for name, known in zip(environment.actions, exists) if known}
    act = [back.actions.index(name) for name, known in zip(environment.actions, exists) if known]
    np.testing.assert_allclose(back.tensor[here][:, act][:, :, here], environment.tensor[:, exists], atol=ROUNDING)
    np.testing.assert_array_equal(back.available[here][:, act], environment.available[:, exists])
    np.testing.assert_array_equal(back.is_terminal[here], environment.is_terminal)
    if exists.all():
        assert_same(back, environment)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_large_table_stays_sparse(backend):
    environment = mm.worlds.GridWorld((15, 12), slip=0.2, discount=0.9)
    back = mm.Environment.from_frame(environment.to_frame(backend), discount=0.9)
    assert sp.issparse(back.transitions)
    assert back.states == environment.states
    assert abs(back.matrix - environment.matrix).max() <= ROUNDING


@pytest.mark.parametrize("backend", BACKENDS)
def test_whole_numbers_stay_whole_numbers_as_names(backend):
    """An empty cell beside them, as in the row of a terminal state, must not turn 1 into 1.0."""
    environment, _ = random_environment(3)
    back = mm.Environment.from_frame(environment.to_frame(backend), discount=0.9)
    assert {type(name) for name in back.states} == {int}
    assert {type(name) for name in back.actions} == {int}


@pytest.mark.parametrize("backend", ["polars", "pyarrow"])
def test_names_of_several_types_come_back_or_are_refused_in_words(backend):
    """`from_gymnasium` itself names states 0, 1, …, "end"."""
    environment, _ = random_environment(3, states=[0, 1, 2, 3, "end"])
    try:
        frame = environment.to_frame(backend)
    except mm.errors.InputError:
        return
    assert_same(mm.Environment.from_frame(frame, discount=0.9), environment)


def test_tables_that_make_no_sense_are_refused_in_words():
    good = {
        "state": ["a", "b"],
        "action": ["x", "x"],
        "next_state": ["b", "a"],
        "probability": [1.0, 1.0],
    }
    read = mm.Environment.from_frame
    with pytest.raises(mm.errors.InputError, match="no column 'probability'"):
        read(pd.DataFrame(good).drop(columns="probability"), discount=0.9)
    with pytest.raises(mm.errors.InputError, match="no rows"):
        read(pd.DataFrame(good).iloc[:0], discount=0.9)
    with pytest.raises(mm.errors.InputError, match=r"column 'action', row 1 .*is empty"):
        read(pd.DataFrame(good | {"action": ["x", None]}), discount=0.9)
    with pytest.raises(mm.errors.InputError, match=r"row 1 .*'one' is not a number"):
        read(pd.DataFrame(good | {"probability": ["1", "one"]}), discount=0.9)
    with pytest.raises(mm.errors.InputError, match=r"rows 0 and 2 .*: both are for"):
        read(pd.concat([pd.DataFrame(good), pd.DataFrame(good).iloc[:1]]), discount=0.9)
    with pytest.raises(mm.errors.InputError, match="'b'"):
        read(pd.DataFrame(good).iloc[:1], discount=0.9)
    with pytest.raises(mm.errors.InputError, match="must be a data frame"):
        read([1, 2], discount=0.9)


def test_a_wholly_empty_row_is_no_terminal_state():
    frame = pd.DataFrame(
        {
            "state": ["a", "b", None],
            "action": ["x", "x", None],
            "next_state": ["b", "a", None],
            "probability": [1.0, 1.0, None],
        }
    )
    try:
        environment = mm.Environment.from_frame(frame, discount=0.9)
    except mm.errors.InputError:
        return
    assert environment.states == ("a", "b")


# ---- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".CSV"])
@pytest.mark.parametrize("text", [False, True])
def test_files_bring_the_environment_back(tmp_path, ending, text):
    names = dict(states=["NA", "home", "None", "é→", "x y"], actions=["null", "go, then", "n/a"]) if text else {}
    environment, _ = random_environment(8, **names)
    path = tmp_path / f"environment{ending}"
    frame = environment.to_frame()
    if ending == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ending == ".tsv" else ",")
    back = mm.io.read_environment(path, discount=0.9)
    assert back.discount == 0.9
    assert_same(back, environment)


def test_parquet_written_by_pyarrow_and_polars_is_read(tmp_path):
    environment, _ = random_environment(4)
    pyarrow.parquet.write_table(environment.to_frame("pyarrow"), tmp_path / "arrow.parquet")
    environment.to_frame("polars").write_parquet(tmp_path / "polars.parquet")
    for name in ("arrow", "polars"):
        assert_same(mm.io.read_environment(tmp_path / f"{name}.parquet", discount=0.9), environment)


def test_a_spreadsheets_byte_order_mark_other_columns_and_given_terminal_states_are_read(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("from,do,to,p,remark\na,x,b,1,\nb,x,a,0.5,\nb,x,end,0.5,hm\n", encoding="utf-8-sig")
    environment = mm.io.read_environment(
        str(path),
        discount=0.9,
        state="from",
        action="do",
        next_state="to",
        probability="p",
        terminal=["end"],
        start={"b": 1.0},
    )
    assert environment.states == ("a", "b", "end")
    np.testing.assert_array_equal(environment.tensor[:, 0], [[0, 1, 0], [0.5, 0, 0.5], [0, 0, 0]])
    np.testing.assert_array_equal(environment.start, [0, 1, 0])


def test_an_empty_line_at_the_end_of_a_file_adds_no_state(tmp_path):
    path = tmp_path / "environment.csv"
    path.write_text("state,action,next_state,probability\na,x,b,1\nb,x,a,1\n\n")
    try:
        environment = mm.io.read_environment(path, discount=0.9)
    except mm.errors.InputError:
        return  # to refuse it in words would be right as well
    assert environment.states == ("a", "b")


def test_files_that_cannot_be_read_are_refused_in_words(tmp_path):
    with pytest.raises(mm.errors.InputError, match="no file"):
        mm.io.read_environment(tmp_path / "missing.csv", discount=0.9)
    (tmp_path / "empty.csv").touch()
    with pytest.raises(mm.errors.InputError, match="is empty"):
        mm.io.read_environment(tmp_path / "empty.csv", discount=0.9)
    for name in ("table.xlsx", "table.parquet"):
        (tmp_path / name).write_text("state")
        with pytest.raises(mm.errors.InputError, match=name):
            mm.io.read_environment(tmp_path / name, discount=0.9)
    (tmp_path / "latin.csv").write_bytes("state,action,next_state,probability\né,x,é,1\n".encode("latin-1"))
    with pytest.raises(mm.errors.InputError, match="UTF-8"):
        mm.io.read_environment(tmp_path / "latin.csv", discount=0.9)
