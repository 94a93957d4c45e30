"""Worlds against plain loops: grids, chains, labyrinths, and the distributions of random ones."""

import numpy as np
import pytest
import scipy.sparse as sp

import manymotives as mm
import oracles_worlds
from goodness_of_fit import SIGNIFICANCE, p_value

# ---- grids -------------------------------------------------------------------------------------------------------

DRAWINGS = {
    "room": ["...", "...", "..."],
    "walls": ["S.#G", ".#..", "...X"],
    "row": ["S....G"],
    "column": ["S", ".", "G"],
    "cell": ["S"],
    "islands": [".#.", "###", ".#S"],
    "large": ["S" + "." * 14] + ["." * 7 + "#" + "." * 7] * 9,
}


@pytest.mark.parametrize("slip", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("name", DRAWINGS)
def test_grids_move_as_plain_loops_say(name, slip):
    lines = DRAWINGS[name]
    transitions, cells = oracles_worlds.grid_transitions(lines, slip)
    for layout in (lines, "\n".join(lines), "\n" + "\n".join("    " + line for line in lines) + "\n"):
        environment = mm.worlds.GridWorld(layout, slip=slip, discount=0.9)
        assert environment.states == tuple(f"r{row}c{column}" for row, column in cells)
        assert environment.actions == ("up", "right", "down", "left")
        # sums of at most three of 1 − slip, slip / 2 and slip / 2, in any order
        np.testing.assert_allclose(environment.tensor, transitions, atol=1e-15)
        assert not environment.is_terminal.any()
        np.testing.assert_array_equal(environment.coordinates, [(column, -row) for row, column in cells])
        assert sp.issparse(environment.transitions) == (len(cells) > 128)


def test_an_open_room_can_be_given_by_its_size():
    environment = mm.worlds.GridWorld((2, 3), slip=0.3, discount=0.9)
    np.testing.assert_allclose(environment.tensor, oracles_worlds.grid_transitions(["...", "..."], 0.3)[0], atol=1e-15)
    np.testing.assert_array_equal(environment.start, np.full(6, 1 / 6))


def test_starts_rewards_and_terminal_letters_are_read_from_the_drawing():
    lines = ["S.#G", ".#.X", "S..G"]
    rewards, terminal = {"G": 1.0, "X": -2.0, ".": 0.25}, "GX"
    environment = mm.worlds.GridWorld(lines, slip=0.2, discount=0.8, rewards=rewards, terminal=terminal)
    transitions, cells = oracles_worlds.grid_transitions(lines, 0.2)
    letters = [lines[row][column] for row, column in cells]
    assert environment.discount == 0.8
    for state, letter in enumerate(letters):
        assert environment.reward[state] == rewards.get(letter, 0.0)
        assert environment.start[state] == (0.5 if letter == "S" else 0.0)
        assert environment.is_terminal[state] == (letter in terminal)
        assert environment.available[state].all() == (letter not in terminal)
        if letter not in terminal:
            np.testing.assert_allclose(environment.tensor[state], transitions[state], atol=1e-15)
        else:
            assert not environment.tensor[state].any()


def test_without_a_start_cell_every_cell_that_goes_on_is_a_start():
    environment = mm.worlds.GridWorld(["..G", "..."], discount=0.8, terminal="G")
    np.testing.assert_array_equal(environment.start, [0.2, 0.2, 0.0, 0.2, 0.2, 0.2])


def test_a_drawing_may_be_indented_together_with_its_closing_quotes():
    environment = mm.worlds.GridWorld(
        """
        S.G
        ...
        """,
        discount=0.9,
    )
    assert environment.num_states == 6


def test_a_space_is_a_cell_like_any_other_in_a_list_of_lines():
    """`#` is a wall and anything else a cell."""
    assert mm.worlds.GridWorld([" .", " ."], discount=0.9).num_states == 4


@pytest.mark.parametrize(
    ("layout", "options"),
    [
        (["...", ".."], {}),
        ([], {}),
        (["##", "##"], {}),
        ((0, 3), {}),
        (["S."], {"slip": 1.1}),
        (["S."], {"terminal": "G"}),
        (["S."], {"rewards": {"G": 1.0}}),
    ],
)
def test_grids_that_make_no_sense_are_refused(layout, options):
    with pytest.raises(mm.errors.InputError):
        mm.worlds.GridWorld(layout, **options)


# ---- chains, labyrinths, random worlds -----------------------------------------------------------------------------


@pytest.mark.parametrize("slip", [0.0, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("states", [2, 5, 9])
def test_chains_move_as_plain_loops_say(states, slip):
    environment = mm.worlds.Chain(states, slip=slip, discount=0.7)
    np.testing.assert_allclose(environment.tensor, oracles_worlds.chain_transitions(states, slip), atol=1e-15)
    assert environment.actions == ("back", "forward")
    assert environment.discount == 0.7
    np.testing.assert_array_equal(environment.start, [1.0] + [0.0] * (states - 1))
    np.testing.assert_array_equal(environment.reward, [0.2] + [0.0] * (states - 2) + [1.0])


@pytest.mark.parametrize("world", [mm.worlds.RandomMDP, mm.worlds.DirichletMDP])
def test_random_worlds_have_the_size_asked_for_and_come_back_from_their_seed(world):
    first = world(states=6, actions=3, seed=5, discount=0.7)
    assert first.tensor.shape == (6, 3, 6)
    assert first.discount == 0.7
    np.testing.assert_allclose(first.tensor.sum(axis=2), 1.0, atol=1e-15)
    np.testing.assert_array_equal(world(states=6, actions=3, seed=5).tensor, first.tensor)
    assert not np.array_equal(world(states=6, actions=3, seed=6).tensor, first.tensor)
    assert world().tensor.shape == (8, 4, 8)


def test_spread_is_the_weight_of_every_state_beside_the_favourites_one():
    for spread in (0.0, 0.01, 0.5, 10.0):
        tensor = mm.worlds.RandomMDP(states=7, actions=2, spread=spread, seed=3).tensor
        for row in tensor.reshape(-1, 7):
            favourite = int(row.argmax())
            for state in range(7):
                weight = spread + (state == favourite)
                assert row[state] == pytest.approx(weight / (1 + 7 * spread), abs=1e-15)
    favourites = mm.worlds.RandomMDP(states=7, actions=400, spread=0.01, seed=3).tensor.argmax(axis=2)
    counts = np.bincount(favourites.ravel(), minlength=7)[None]
    assert p_value(counts, np.full((1, 7), 1 / 7)) > SIGNIFICANCE


def test_dirichlet_worlds_have_the_moments_of_their_distribution():
    """Each probability has mean 1/n and variance (n − 1) / (n² (n c + 1)); 5 standard errors, from the draws."""
    for concentration in (0.2, 1.0, 20.0):
        tensor = mm.worlds.DirichletMDP(states=5, actions=1000, concentration=concentration, seed=1).tensor
        draws = tensor.reshape(-1, 5)[:, 0]
        squares = (draws - 0.2) ** 2
        variance = 4 / (25 * (5 * concentration + 1))
        assert abs(draws.mean() - 0.2) < 5 * draws.std() / np.sqrt(draws.size)
        assert abs(squares.mean() - variance) < 5 * squares.std() / np.sqrt(squares.size)


def test_the_papers_labyrinth_is_a_binary_tree_with_a_home():
    environment = mm.worlds.Labyrinth(6)
    assert environment.num_states == 128
    assert environment.actions == ("left", "right", "back", "enter")
    assert environment.states == (*map(str, range(127)), "home")
    expected = np.zeros((128, 4, 128))
    for node in range(127):
        if node < 63:
            expected[node, 0, 2 * node + 1] = 1.0
            expected[node, 1, 2 * node + 2] = 1.0
        parent = 127 if node == 0 else (node - 1) // 2
        expected[node, 2, parent] = 1.0
    expected[127, 3, 0] = 1.0
    np.testing.assert_array_equal(environment.tensor, expected)
    np.testing.assert_array_equal(environment.available, expected.any(axis=2))
    assert not environment.is_terminal.any()
    assert environment.start[environment.states.index("home")] == 1.0


@pytest.mark.parametrize("levels", [1, 2, 3, 4, 5, 6, 7, 9])
def test_no_two_places_of_a_labyrinth_are_drawn_on_top_of_each_other(levels):
    environment = mm.worlds.Labyrinth(levels)
    assert environment.num_states == 2 ** (levels + 1)
    assert len({tuple(place) for place in environment.coordinates.tolist()}) == environment.num_states


def test_the_largest_labyrinth_can_be_built():
    environment = mm.worlds.Labyrinth(9)  # the dense array of 16 levels would not fit into any memory
    assert sp.issparse(environment.transitions)
    assert environment.matrix[4 * 1023 + 3, 0] == 1.0
    assert environment.matrix[4 * 1022 + 2, 510] == 1.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: mm.worlds.Chain(1),
        lambda: mm.worlds.Chain(5, slip=-0.1),
        lambda: mm.worlds.Labyrinth(0),
        lambda: mm.worlds.Labyrinth(17),
        lambda: mm.worlds.RandomMDP(states=0),
        lambda: mm.worlds.RandomMDP(spread=-1.0),
        lambda: mm.worlds.DirichletMDP(concentration=0.0),
        lambda: mm.worlds.DirichletMDP(actions=0),
    ],
)
def test_worlds_that_make_no_sense_are_refused(make):
    with pytest.raises(mm.errors.InputError):
        make()
