"""Environments: what goes in is what is there, unchanged and unchangeable."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

import manymotives as mm
import oracles_worlds
from places import ROUNDING, random_environment, two_places

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


def test_the_description_says_what_matters():
    assert repr(two_places(terminal=["there"], reward=[0, 1])) == (
        "Environment(2 states, 1 terminal, 2 actions, discount 0.9, dense transitions, with its own reward)"
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
