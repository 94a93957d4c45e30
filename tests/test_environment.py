"""Environments: what goes in is what is there, unchanged and unchangeable, and tables bring it back."""

import dataclasses

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
import oracles_worlds

BACKENDS = ["pandas", "polars", "pyarrow"]
# Rows are divided by their sums, which are 1 to a few units in the last place.
ROUNDING = 1e-15


def random_environment(seed, *, sparse=False, size=(5, 3), **options):
    """A random environment with a terminal state and missing actions, and the arrays it was made from."""
    case = oracles_worlds.random_problem(
        np.random.default_rng(seed),
        *size,
        discount=0.9,
        with_terminal=True,
        with_missing_actions=True,
        dense=False,
    )
    labels = options.get("states") or list(range(size[0]))
    rows = case["transitions"]
    environment = mm.Environment(
        sp.csr_array(rows.reshape(-1, size[0])) if sparse else rows,
        discount=0.9,
        available=case["available"],
        terminal=[labels[s] for s in np.flatnonzero(case["terminal"])],
        **options,
    )
    return environment, case


def two_places(**options):
    """ "stay" and "go" between two places."""
    transitions = np.zeros((2, 2, 2))
    transitions[0, 0, 0] = transitions[0, 1, 1] = transitions[1, 0, 1] = transitions[1, 1, 0] = 1.0
    return mm.Environment(transitions, **dict(discount=0.9, states=["here", "there"], actions=["stay", "go"]) | options)


def table(backend, columns):
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[backend](columns)


# ---- construction --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_dense_and_sparse_transitions_describe_the_same_environment(seed):
    dense, case = random_environment(seed)
    sparse, _ = random_environment(seed, sparse=True)
    assert not sp.issparse(dense.transitions)
    assert sp.issparse(sparse.transitions)
    for environment in (dense, sparse):
        assert (environment.num_states, environment.num_actions) == (5, 3)
        np.testing.assert_allclose(environment.tensor, case["transitions"], atol=ROUNDING)
        np.testing.assert_allclose(environment.matrix.toarray().reshape(5, 3, 5), case["transitions"], atol=ROUNDING)
        np.testing.assert_array_equal(environment.available, case["available"])
        np.testing.assert_array_equal(environment.is_terminal, case["terminal"])


@pytest.mark.parametrize(
    "form", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array, sp.lil_array, np.asarray, np.ndarray.tolist]
)
def test_every_sparse_format_and_nested_lists_are_taken(form):
    expected = oracles_worlds.chain_transitions(4, 0.25)
    rows = expected if form in (np.asarray, np.ndarray.tolist) else expected.reshape(8, 4)
    environment = mm.Environment(form(rows), discount=0.5)
    np.testing.assert_array_equal(environment.tensor, expected)


def test_repeated_entries_of_a_sparse_matrix_add_up():
    halves = sp.coo_array(([0.5, 0.5, 1.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    environment = mm.Environment(halves, discount=0.5)
    np.testing.assert_array_equal(environment.tensor, [[[0, 1]], [[1, 0]]])


def test_single_precision_and_whole_numbers_become_double_precision():
    for dtype in (np.float32, np.int64, bool):
        environment = mm.Environment(np.eye(2)[[[1], [0]]].astype(dtype), discount=0.5)
        assert environment.transitions.dtype == np.float64


def test_rows_that_sum_to_one_up_to_printing_are_made_to_sum_to_one():
    printed = np.full((3, 1, 3), 0.333333333)  # sums to 1 − 1e-9
    for given_rows in (printed, sp.csr_array(printed.reshape(3, 3))):
        environment = mm.Environment(given_rows, discount=0.5)
        np.testing.assert_allclose(environment.tensor.sum(axis=2), 1.0, rtol=ROUNDING)


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_of_actions_that_do_not_exist_are_ignored_whatever_they_hold(sparse):
    transitions = oracles_worlds.chain_transitions(3, 0.1)
    transitions[1, 0] = np.nan
    transitions[2] = -7.0
    available = np.ones((3, 2), dtype=bool)
    available[1, 0] = False
    environment = mm.Environment(
        sp.csr_array(transitions.reshape(6, 3)) if sparse else transitions,
        discount=0.5,
        available=available,
        terminal=[2],
    )
    np.testing.assert_array_equal(environment.available, [[True, True], [False, True], [False, False]])
    assert not environment.tensor[1, 0].any()
    assert not environment.tensor[2].any()
    assert environment.matrix.nnz == (environment.tensor > 0).sum()


def test_names_are_numbers_unless_given():
    environment = mm.Environment(oracles_worlds.chain_transitions(3, 0.1), discount=0.5)
    assert environment.states == (0, 1, 2)
    assert environment.actions == (0, 1)
    named = two_places()
    assert named.states == ("here", "there")
    assert named.actions == ("stay", "go")


def test_names_from_numpy_are_plain_python_objects():
    environment = mm.Environment(
        np.eye(2)[[[1], [0]]], discount=0.5, states=np.array([3, 5]).tolist(), actions=list(np.array(["x"]))
    )
    assert [type(name) for name in (*environment.states, *environment.actions)] == [int, int, str]


def test_absorbing_states_are_those_every_available_action_keeps():
    transitions = np.zeros((4, 2, 4))
    transitions[0, :, 1] = 1.0
    transitions[1, :, 1] = 1.0  # stays, whatever is done
    transitions[2, 0, 2], transitions[2, 1, 0] = 1.0, 1.0  # can leave
    transitions[3, 0, 3] = 1.0  # stays: its other action does not exist
    available = np.array([[True, True], [True, True], [True, True], [True, False]])
    for form in (transitions, sp.csr_array(transitions.reshape(8, 4))):
        environment = mm.Environment(form, discount=0.5, available=available)
        np.testing.assert_array_equal(environment.is_absorbing, [False, True, False, True])
        assert not environment.is_terminal.any()
        ended = mm.Environment(form, discount=0.5, available=available, terminal=[1])
        np.testing.assert_array_equal(ended.is_absorbing, [False, False, False, True])
        np.testing.assert_array_equal(ended.is_terminal, [False, True, False, False])


def test_episodes_start_anywhere_but_in_terminal_states_unless_told():
    np.testing.assert_array_equal(two_places().start, [0.5, 0.5])
    np.testing.assert_array_equal(two_places(terminal=["there"]).start, [1.0, 0.0])
    np.testing.assert_array_equal(two_places(start=[0.25, 0.75]).start, [0.25, 0.75])
    np.testing.assert_array_equal(two_places(start=np.array([0, 1])).start, [0.0, 1.0])
    np.testing.assert_array_equal(two_places(start={"there": 1}).start, [0.0, 1.0])
    np.testing.assert_array_equal(two_places(start={"there": 0.25, "here": 0.75}).start, [0.75, 0.25])


def test_rewards_lie_on_states_or_on_pairs_or_nowhere():
    assert two_places().reward is None
    np.testing.assert_array_equal(two_places(reward=[1, 2]).reward, [1.0, 2.0])
    np.testing.assert_array_equal(two_places(reward=[[1, 2], [3, 4]]).reward, [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(discount=1.0), "discount"),
        (dict(discount=-0.1), "discount"),
        (dict(states=["here"]), "2 states"),
        (dict(states=["here", "here"]), "'here'"),
        (dict(terminal=["ther"]), "did you mean 'there'"),
        (dict(terminal=["here", "there"]), "every state is terminal"),
        (dict(available=np.ones((2, 2))), "boolean"),
        (dict(available=np.ones((2, 3), dtype=bool)), r"\[2, 2\]"),
        (dict(available=np.array([[False, False], [True, True]])), "'here'"),
        (dict(start=[0.5, 0.6]), "sums to 1.1"),
        (dict(start=[1.5, -0.5]), "negative"),
        (dict(start={"nowhere": 1.0}), "nowhere"),
        (dict(start=[1.0]), "2 states"),
        (dict(reward=[1.0, np.inf]), "not finite"),
        (dict(reward=[1.0, 2.0, 3.0]), "reward must have the shape"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(options, words):
    with pytest.raises(mm.errors.InputError, match=words):
        two_places(**options)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("entry", "words"), [(0.5, "sum to 0.5"), (-1.0, "-1"), (np.nan, "nan"), (0.0, "available")])
def test_rows_that_are_no_distributions_are_refused_by_name(sparse, entry, words):
    transitions = np.eye(2)[[[1, 0], [0, 1]]]
    transitions[1, 0, 0] = entry
    with pytest.raises(mm.errors.InputError, match=f"state 'b', action 'x'.*{words}"):
        mm.Environment(
            sp.csr_array(transitions.reshape(4, 2)) if sparse else transitions,
            discount=0.5,
            states=["a", "b"],
            actions=["x", "y"],
        )


# ---- nothing changes afterwards --------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
def test_later_changes_to_the_arrays_given_are_not_seen_and_they_are_not_changed(sparse):
    transitions = oracles_worlds.chain_transitions(3, 0.1)
    transitions[2, 1] = 5.0  # an ignored row, which must survive in the caller's array
    rows = sp.csr_array(transitions.reshape(6, 3)) if sparse else transitions
    arrays = {
        "available": np.array([[True, True], [True, True], [True, False]]),
        "start": np.array([0.5, 0.5, 0.0]),
        "reward": np.arange(3.0),
        "coordinates": np.arange(6.0).reshape(3, 2),
    }
    before = {name: array.copy() for name, array in arrays.items()}
    rows_before = rows.copy()
    given = {name: array for name, array in arrays.items() if name != "coordinates"}
    environment = mm.Environment(rows, discount=0.5, **given).with_coordinates(arrays["coordinates"])
    plan_before = mm.plan(environment, environment.reward).value
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, before[name])
        assert array.flags.writeable
        array[...] = 0
        np.testing.assert_array_equal(getattr(environment, name), before[name])
    changed = rows.data if sparse else rows
    np.testing.assert_array_equal(changed, rows_before.data if sparse else rows_before)
    changed[...] = 0.0
    np.testing.assert_array_equal(environment.tensor[0], oracles_worlds.chain_transitions(3, 0.1)[0])
    np.testing.assert_array_equal(mm.plan(environment, environment.reward).value, plan_before)


def test_names_given_as_a_list_may_change_afterwards():
    names = ["here", "there"]
    environment = two_places(states=names)
    names[0] = "gone"
    assert environment.states == ("here", "there")


@pytest.mark.parametrize("sparse", [False, True])
def test_every_array_is_read_only(sparse):
    base, _ = random_environment(1, sparse=sparse, reward=np.zeros(5), start=[1.0, 0, 0, 0, 0])
    base = base.with_coordinates(np.zeros((5, 2)))
    for environment in (base, base.with_memory()):
        arrays = {
            name: getattr(environment, name)
            for name in ("available", "is_terminal", "start", "reward", "coordinates", "tensor")
        }
        if sparse:
            arrays |= {part: getattr(environment.transitions, part) for part in ("data", "indices", "indptr")}
        else:
            arrays["transitions"] = environment.transitions
        if environment is not base:
            arrays["pairs"] = environment.pairs
        for name, array in arrays.items():
            assert not array.flags.writeable, name
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


@pytest.mark.parametrize("sparse", [False, True])
def test_derived_arrays_are_read_only_too(sparse):
    """They are computed once and used by planning and simulation: writing to them would change the environment."""
    environment, _ = random_environment(1, sparse=sparse)
    for array in (environment.matrix.data, environment.matrix.indices, environment.is_absorbing):
        assert not array.flags.writeable


def test_attributes_cannot_be_set():
    environment = two_places()
    for name in ("discount", "transitions", "states", "start", "reward", "something"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(environment, name, 0.5)
    assert environment.discount == 0.9


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


# ---- memory ------------------------------------------------------------------------------------------------------


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
    with pytest.raises(mm.errors.InputError, match="'a' comes without a previous one"):
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


def test_the_description_says_what_matters():
    assert repr(two_places(terminal=["there"], reward=[0, 1])) == (
        "Environment(2 states, 1 terminal, 2 actions, discount 0.9, dense transitions, with its own reward)"
    )
