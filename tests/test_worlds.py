"""Worlds against plain loops; what simulated agents do against the policies and transitions they follow."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

import manymotives as mm
import oracles
import oracles_worlds

# Statistical tests have fixed seeds, so they pass or fail for good; a right program would fail one in 10 000 seeds.
SIGNIFICANCE = 1e-4
ARRAYS = ("task", "episode", "step", "state", "action", "next_state")


def p_value(observed, probabilities):
    """Chi-square test of rows of counts [n, k] against rows of probabilities; rows without counts say nothing."""
    statistic, freedom = 0.0, 0
    for counts, chances in zip(np.asarray(observed, dtype=float), np.asarray(probabilities, dtype=float)):
        expected = counts.sum() * chances
        assert not counts[chances == 0].any()
        if counts.sum() == 0:
            continue
        # the approximation is good where some five are expected: rarer outcomes are pooled
        common = expected >= 5
        seen, due = counts[common].tolist(), expected[common].tolist()
        if expected[~common].sum() >= 5:
            seen.append(counts[~common].sum())
            due.append(expected[~common].sum())
        elif due:
            seen[-1] += counts[~common].sum()
            due[-1] += expected[~common].sum()
        if len(due) > 1:
            statistic += sum((n - e) ** 2 / e for n, e in zip(seen, due))
            freedom += len(due) - 1
    assert freedom > 0
    return stats.chi2.sf(statistic, freedom)


def arrays(demonstrations, task=None):
    """States, actions and all else, of one task or of all."""
    chosen = slice(None) if task is None else demonstrations.task == task
    return [getattr(demonstrations, name)[chosen] for name in ARRAYS]


def assert_equal_arrays(found, expected):
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one, other)


def corridor(**options):
    """Three rooms and an exit: "on" mostly goes on, "back" goes back; "wait" exists in the first room only."""
    transitions = np.zeros((4, 3, 4))
    available = np.zeros((4, 3), dtype=bool)
    for room in range(3):
        transitions[room, 0, room + 1], transitions[room, 0, room] = 0.7, 0.3
        transitions[room, 1, max(room - 1, 0)] = 1.0
        available[room, :2] = True
    transitions[0, 2, 0] = 1.0
    available[0, 2] = True
    return mm.Environment(
        transitions,
        **dict(
            discount=0.9,
            states=["first", "second", "third", "exit"],
            actions=["on", "back", "wait"],
            available=available,
            terminal=["exit"],
        )
        | options,
    )


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


# ---- simulation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "demonstrator", [mm.Softmax(2.0), mm.SoftOptimal(2.0), mm.worlds.ModelBasedLearner(epsilon=0.2)]
)
def test_simulations_come_back_from_their_seed(demonstrator):
    environment = mm.worlds.RandomMDP(seed=1)
    rewards = np.random.default_rng(0).random((3, 8))
    first = mm.simulate(environment, rewards, demonstrator, steps=20, episodes=2, seed=7)
    again = mm.simulate(environment, rewards, demonstrator, steps=20, episodes=2, seed=7)
    other = mm.simulate(environment, rewards, demonstrator, steps=20, episodes=2, seed=8)
    assert_equal_arrays(arrays(first), arrays(again))
    assert not np.array_equal(first.action, other.action)
    assert not np.array_equal(first.action[first.task == 0], first.action[first.task == 1])


@pytest.mark.parametrize(
    "demonstrator", [mm.Softmax(2.0), mm.SoftOptimal(2.0), mm.worlds.ModelBasedLearner(epsilon=0.2)]
)
@pytest.mark.parametrize("world", ["random", "corridor"])
def test_a_tasks_data_do_not_depend_on_the_tasks_beside_it(world, demonstrator):
    environment = mm.worlds.RandomMDP(seed=1) if world == "random" else corridor()
    rewards = np.random.default_rng(0).normal(size=(9, environment.num_states))
    everything = mm.simulate(environment, rewards, demonstrator, steps=15, episodes=3, seed=2)
    for number in (1, 2, 5):
        fewer = mm.simulate(environment, rewards[:number], demonstrator, steps=15, episodes=3, seed=2)
        changed = rewards.copy()
        changed[number:] = 0.0
        others = mm.simulate(environment, changed, demonstrator, steps=15, episodes=3, seed=2)
        for task in range(number):
            assert_equal_arrays(arrays(fewer, task), arrays(everything, task))
            assert_equal_arrays(arrays(others, task)[2:], arrays(everything, task)[2:])


def test_dense_and_sparse_environments_give_the_same_simulation():
    dense = corridor()
    sparse = mm.Environment(dense.matrix, discount=0.9, available=dense.available, terminal=[3], start=dense.start)
    assert sp.issparse(sparse.transitions)
    for demonstrator in (mm.Softmax(1.0), mm.worlds.ModelBasedLearner(epsilon=0.3)):
        first = mm.simulate(dense, np.arange(4.0), demonstrator, steps=30, episodes=5)
        second = mm.simulate(sparse, np.arange(4.0), demonstrator, steps=30, episodes=5)
        assert_equal_arrays(arrays(first), arrays(second))


@pytest.mark.parametrize("on", ["state", "state_action"])
@pytest.mark.parametrize("rule", [mm.Softmax, mm.SoftOptimal])
def test_actions_are_taken_as_often_as_the_policy_says(rule, on):
    """The policies come from the oracles, not from the library."""
    rng = np.random.default_rng(3)
    case = oracles_worlds.random_problem(rng, 5, 3, discount=0.8, with_missing_actions=True)
    environment = mm.Environment(case["transitions"], discount=0.8, available=case["available"])
    rewards = case["rewards"]
    if on == "state":
        rewards = rng.normal(size=5)
        case["rewards"] = np.repeat(rewards[:, None], 3, axis=1)
    c = 1.5
    if rule is mm.Softmax:
        _, q = oracles.best_by_value_iteration(**case)
        weights = np.exp(c * (q - q.max(axis=1, keepdims=True)))
        policy = weights / weights.sum(axis=1, keepdims=True)
    else:
        _, _, policy = oracles.soft_by_value_iteration(**case, inverse_temperature=c)
    assert policy[case["available"]].min() > 0.01  # nothing is rare, so something is tested
    demonstrations = mm.simulate(environment, rewards, rule(c), steps=2000, episodes=10, seed=4, on=on)
    assert demonstrations.counts.sum(axis=2).min() > 1000
    assert p_value(demonstrations.counts[0], policy) > SIGNIFICANCE
    uniform = case["available"] / case["available"].sum(axis=1, keepdims=True)
    assert p_value(demonstrations.counts[0], uniform) < 1e-12  # the test would see a wrong policy


@pytest.mark.parametrize("demonstrator", [mm.Softmax(0.5), mm.worlds.ModelBasedLearner(epsilon=0.5)])
def test_next_states_follow_as_often_as_the_transitions_say(demonstrator):
    for environment in (mm.worlds.DirichletMDP(states=6, actions=3, seed=2), corridor()):
        rewards = np.random.default_rng(1).random(environment.num_states)
        demonstrations = mm.simulate(environment, rewards, demonstrator, steps=40, episodes=300, seed=5)
        moves = demonstrations.transition_counts().toarray()
        assert p_value(moves, environment.tensor.reshape(moves.shape)) > SIGNIFICANCE


@pytest.mark.parametrize("demonstrator", [mm.Softmax(0.5), mm.worlds.ModelBasedLearner(epsilon=0.5)])
def test_episodes_start_as_the_start_distribution_says(demonstrator):
    start = {"first": 0.2, "third": 0.8}
    demonstrations = mm.simulate(corridor(start=start), np.ones(4), demonstrator, steps=10, episodes=400, seed=6)
    starts = demonstrations.state[demonstrations.step == 0]
    assert starts.size == demonstrations.num_episodes
    assert p_value(np.bincount(starts, minlength=4)[None], [[0.2, 0.0, 0.8, 0.0]]) > SIGNIFICANCE


@pytest.mark.parametrize("demonstrator", [mm.Softmax(0.5), mm.worlds.ModelBasedLearner(epsilon=0.5)])
def test_episodes_end_in_terminal_states_and_go_on_otherwise(demonstrator):
    environment = corridor()
    demonstrations = mm.simulate(environment, [0.0, 0, 0, 1], demonstrator, steps=12, episodes=50, seed=3)
    assert not environment.is_terminal[demonstrations.state].any()
    follows = np.append(np.diff(demonstrations.episode) == 0, False)
    np.testing.assert_array_equal(demonstrations.next_state[:-1][follows[:-1]], demonstrations.state[1:][follows[:-1]])
    assert not environment.is_terminal[demonstrations.next_state[follows]].any()
    last = ~follows
    if isinstance(demonstrator, mm.worlds.ModelBasedLearner):
        assert demonstrations.num_steps == 12 * 50
        assert environment.is_terminal[demonstrations.next_state[last][:-1]].all()
    else:
        assert demonstrations.num_episodes == 50
        full = demonstrations.step[last] == 11
        assert (environment.is_terminal[demonstrations.next_state[last]] | full).all()
        assert not full.all()


@pytest.mark.parametrize(
    "demonstrator", [mm.Softmax(0.5), mm.SoftOptimal(0.5), mm.worlds.ModelBasedLearner(epsilon=0.9)]
)
@pytest.mark.parametrize("on", ["state", "state_action"])
def test_only_available_actions_are_taken(demonstrator, on):
    for environment in (corridor(), mm.worlds.Labyrinth(2)):
        shape = (3, environment.num_states) if on == "state" else (3, environment.num_states, environment.num_actions)
        rewards = np.random.default_rng(0).normal(size=shape)
        demonstrations = mm.simulate(environment, rewards, demonstrator, steps=50, episodes=3, seed=1, on=on)
        assert environment.available[demonstrations.state, demonstrations.action].all()
        assert (demonstrations.counts.sum(axis=0)[environment.available] > 0).mean() > 0.7


@pytest.mark.parametrize("demonstrator", [mm.Softmax(0.5), mm.worlds.ModelBasedLearner(epsilon=0.5)])
def test_an_episode_that_starts_in_a_terminal_state_has_no_choices(demonstrator):
    environment = corridor(start={"first": 0.5, "exit": 0.5})
    demonstrations = mm.simulate(environment, [0.0, 0, 0, 1], demonstrator, steps=10, episodes=40, seed=3)
    assert not environment.is_terminal[demonstrations.state].any()
    assert (demonstrations.state[demonstrations.step == 0] == 0).all()


def test_where_every_episode_ends_at_once_there_is_nothing_to_simulate():
    environment = corridor(start={"exit": 1.0})
    with pytest.raises(mm.errors.InputError, match="nothing is ever chosen"):
        mm.simulate(environment, np.zeros(4), mm.Softmax(1.0), steps=5)


@pytest.mark.parametrize("demonstrator", [mm.Softmax(1.0), mm.worlds.ModelBasedLearner()])
def test_there_are_as_many_tasks_and_choices_as_asked_for(demonstrator):
    environment = mm.worlds.Chain()
    demonstrations = mm.simulate(
        environment, np.zeros((3, 5)), demonstrator, steps=7, episodes=4, tasks=["ann", "bob", "cy"]
    )
    assert demonstrations.tasks == ("ann", "bob", "cy")
    assert demonstrations.states == environment.states
    assert demonstrations.actions == environment.actions
    assert demonstrations.num_steps == 3 * 7 * 4
    np.testing.assert_array_equal(demonstrations.counts.sum(axis=(1, 2)), [28, 28, 28])
    if isinstance(demonstrator, mm.worlds.ModelBasedLearner):
        assert demonstrations.num_episodes == 3  # nothing ends on a chain, and a learner never starts afresh
    else:
        assert demonstrations.num_episodes == 12
        assert demonstrations.episodes == (0, 1, 2, 3) * 3
        np.testing.assert_array_equal(demonstrations.step, np.tile(np.arange(7), 12))
    single = mm.simulate(environment, np.zeros(5), demonstrator, steps=7)
    assert single.tasks == (0,)
    assert single.num_steps == 7


def test_simulated_choices_go_through_a_table_unchanged():
    environment = corridor()
    rewards = np.random.default_rng(0).normal(size=(3, 4))
    first = mm.simulate(environment, rewards, mm.Softmax(1.0), steps=9, episodes=6, seed=2)
    second = mm.Demonstrations.from_frame(
        first.to_frame(), environment, episode="episode", step="step", next_state="next_state"
    )
    assert_equal_arrays(arrays(second), arrays(first))
    assert second.warnings == ()


def test_one_inverse_temperature_for_each_task():
    environment = mm.worlds.DirichletMDP(states=4, actions=3, seed=1, discount=0.8)
    rewards = np.random.default_rng(5).normal(size=(2, 4)) * 3
    demonstrations = mm.simulate(environment, rewards, mm.Softmax([0.0, 200.0]), steps=3000, seed=1)
    assert p_value(demonstrations.counts[0], np.full((4, 3), 1 / 3)) > SIGNIFICANCE
    best = mm.plan(environment, rewards[1]).actions
    greedy = demonstrations.counts[1][np.arange(4), best].sum()
    assert greedy > 0.95 * 3000


@pytest.mark.parametrize(
    ("rewards", "options"),
    [
        (np.zeros(4), {}),
        (np.zeros((2, 2, 5)), {}),
        (np.zeros((0, 5)), {}),
        (np.full(5, np.nan), {}),
        (np.zeros(5), {"steps": 0}),
        (np.zeros(5), {"episodes": 0}),
        (np.zeros(5), {"tasks": ["a", "b"]}),
        (np.zeros(5), {"on": "state_action"}),
        (np.zeros(5), {"on": "pairs"}),
    ],
)
def test_simulations_that_make_no_sense_are_refused(rewards, options):
    with pytest.raises(mm.errors.InputError):
        mm.simulate(mm.worlds.Chain(), rewards, mm.Softmax(1.0), **{"steps": 3} | options)


# ---- learners ------------------------------------------------------------------------------------------------------


def greedy_gaps(environment, learner, demonstrations, reward, on):
    """How much worse than the best each choice was, by the learner's own beliefs, replayed in plain NumPy."""
    size, num_actions = environment.num_states, environment.num_actions
    counts = np.full((size, num_actions, size), learner.transition_prior)
    shape = (size,) if on == "state" else (size, num_actions)
    seen = np.full(shape, learner.reward_prior_weight)
    total = seen * learner.reward_prior_mean
    ends = environment.is_terminal
    value = np.zeros(size)
    gaps = []
    for state, action, following in zip(demonstrations.state, demonstrations.action, demonstrations.next_state):
        model = counts / counts.sum(axis=2, keepdims=True)
        believed = total / seen
        immediate = believed[:, None] if on == "state" else believed
        while True:
            q = np.where(environment.available, immediate + environment.discount * model @ value, -np.inf)
            after = np.where(ends, believed if on == "state" else 0.0, q.max(axis=1))
            change, value = np.abs(after - value).max(), after
            if change < 1e-11:
                break
        gaps.append(q[state].max() - q[state, action])
        counts[state, action, following] += 1
        place = (state,) if on == "state" else (state, action)
        seen[place] += 1
        total[place] += reward[place]
        if ends[following] and on == "state":
            seen[following] += 1
            total[following] += reward[following]
    return np.array(gaps)


@pytest.mark.parametrize(
    ("world", "on"), [("chain", "state"), ("chain", "state_action"), ("corridor", "state"), ("labyrinth", "state")]
)
def test_a_learner_without_exploration_does_what_it_believes_best(world, on):
    environment = {
        "chain": lambda: mm.worlds.Chain(discount=0.8),
        "corridor": lambda: corridor(discount=0.8),
        "labyrinth": lambda: mm.worlds.Labyrinth(2, discount=0.8),
    }[world]()
    shape = (environment.num_states,) if on == "state" else (environment.num_states, environment.num_actions)
    reward = np.random.default_rng(1).random(shape)
    for learner in (mm.worlds.ModelBasedLearner(epsilon=0.0), mm.worlds.ModelBasedLearner(0.0, 0.05, 2.0, 3.0)):
        demonstrations = mm.simulate(environment, reward, learner, steps=100, seed=3, on=on)
        # the replay stops within 1e-11 / (1 − 0.8) of the value
        assert greedy_gaps(environment, learner, demonstrations, reward, on).max() < 1e-9


def test_a_learner_explores_as_often_as_epsilon_says():
    """With few ties, ε (1 − 1/A) of the choices are not the best by its own beliefs."""
    environment = mm.worlds.DirichletMDP(states=4, actions=4, seed=3, discount=0.7)
    reward = np.random.default_rng(2).random((4, 4))
    learner = mm.worlds.ModelBasedLearner(epsilon=0.4)
    demonstrations = mm.simulate(environment, reward, learner, steps=600, seed=1, on="state_action")
    astray = (greedy_gaps(environment, learner, demonstrations, reward, "state_action") > 1e-8).sum()
    assert stats.binomtest(int(astray), 600, 0.4 * 0.75).pvalue > SIGNIFICANCE


def test_learners_find_the_best_policy_of_a_chain():
    """Without exploration some settle for less; most of these find that forward is best and keep to it."""
    environment = mm.worlds.Chain()
    learners = mm.simulate(
        environment, np.tile(environment.reward, (10, 1)), mm.worlds.ModelBasedLearner(epsilon=0.0), steps=600, seed=0
    )
    forward = environment.actions.index("forward")
    late = [(learners.action[learners.task == task][400:] == forward).mean() for task in range(10)]
    assert sum(share > 0.95 for share in late) >= 3


def test_a_learner_that_only_explores_is_uniform_over_the_actions_that_exist():
    environment = corridor()
    demonstrations = mm.simulate(
        environment, np.arange(4.0), mm.worlds.ModelBasedLearner(epsilon=1.0), steps=3000, seed=2
    )
    uniform = environment.available / np.maximum(environment.available.sum(axis=1, keepdims=True), 1)
    assert p_value(demonstrations.counts[0], uniform) > SIGNIFICANCE


@pytest.mark.parametrize("world", ["chain", "corridor"])
@pytest.mark.parametrize("burn_in", [1, 13, 50])
def test_burning_in_drops_the_first_steps_and_changes_nothing_else(world, burn_in):
    environment = mm.worlds.Chain() if world == "chain" else corridor()
    rewards = np.random.default_rng(0).random((3, environment.num_states))
    whole = mm.simulate(environment, rewards, mm.worlds.ModelBasedLearner(epsilon=0.1), steps=burn_in + 40, seed=4)
    rest = mm.simulate(
        environment, rewards, mm.worlds.ModelBasedLearner(epsilon=0.1, burn_in=burn_in), steps=20, episodes=2, seed=4
    )
    assert rest.num_steps == 3 * 40
    for task in range(3):
        for name in ("state", "action", "next_state"):
            found = getattr(rest, name)[rest.task == task]
            np.testing.assert_array_equal(found, getattr(whole, name)[whole.task == task][burn_in:])
        same = np.diff(rest.episode[rest.task == task]) == 0
        np.testing.assert_array_equal(same, (np.diff(whole.episode[whole.task == task]) == 0)[burn_in:])


def test_a_learner_learns_the_reward_of_a_terminal_state():
    """Leaving pays 1 once; staying pays 0. With time the learner leaves by the shortest way."""
    environment = corridor(start={"first": 1.0})
    demonstrations = mm.simulate(
        environment, [0.0, 0.0, 0.0, 1.0], mm.worlds.ModelBasedLearner(epsilon=0.0), steps=400, episodes=1, seed=1
    )
    assert (demonstrations.action[200:] == 0).mean() > 0.95


def test_a_learner_expects_nothing_of_a_terminal_state_when_rewards_lie_on_pairs():
    """Staying is worth 0.04 / (1 − 0.9) = 0.4 and stopping 0: one who knows the ends does not stop for long."""
    transitions = np.zeros((2, 2, 2))
    transitions[0, 0, 0] = transitions[0, 1, 1] = 1.0
    environment = mm.Environment(
        transitions, discount=0.9, states=["here", "end"], actions=["stay", "stop"], terminal=["end"]
    )
    reward = np.array([[0.04, 0.0], [0.0, 0.0]])
    assert mm.plan(environment, reward, on="state_action").actions[0] == 0
    learner = mm.worlds.ModelBasedLearner(epsilon=0.05)
    demonstrations = mm.simulate(environment, reward, learner, steps=2000, seed=0, on="state_action")
    assert (demonstrations.action[1000:] == 0).mean() > 0.9


@pytest.mark.parametrize(
    "settings",
    [
        dict(epsilon=1.5),
        dict(epsilon=-0.1),
        dict(epsilon=np.nan),
        dict(transition_prior=0.0),
        dict(reward_prior_weight=0.0),
        dict(burn_in=-1),
    ],
)
def test_learners_that_make_no_sense_are_refused(settings):
    with pytest.raises(mm.errors.InputError):
        mm.worlds.ModelBasedLearner(**settings)
