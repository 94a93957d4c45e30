"""What simulated agents do against the policies and transitions they follow; seeds, tasks, episodes."""

import numpy as np
import pytest
import scipy.sparse as sp

import manymotives as mm
import oracles
import oracles_worlds
from goodness_of_fit import SIGNIFICANCE, p_value
from places import corridor

ARRAYS = ("task", "episode", "step", "state", "action", "next_state")


def arrays(demonstrations, task=None):
    """States, actions and all else, of one task or of all."""
    chosen = slice(None) if task is None else demonstrations.task == task
    return [getattr(demonstrations, name)[chosen] for name in ARRAYS]


def assert_equal_arrays(found, expected):
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one, other)


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


# ---- motives that switch -----------------------------------------------------------------------------------------

CHANCES = np.array([[[0.9, 0.1], [0.3, 0.7]], [[0.5, 0.5], [0.5, 0.5]], [[0.2, 0.8], [1.0, 0.0]]])  # by state


def three_states():
    return mm.worlds.DirichletMDP(states=3, actions=3, seed=2, discount=0.8)


def test_an_agent_with_one_motive_does_what_its_rule_does():
    rewards = np.random.default_rng(0).normal(size=(2, 3))
    plain = mm.simulate(three_states(), rewards, mm.SoftOptimal(2.0), steps=30, episodes=3, seed=4)
    agent = mm.worlds.SwitchingAgent(mm.SoftOptimal(2.0), [[1.0]])
    found, motives = mm.simulate(three_states(), rewards[:, None], agent, steps=30, episodes=3, seed=4)
    assert_equal_arrays(arrays(found), arrays(plain))
    assert motives.shape == found.state.shape
    assert (motives == 0).all()


def test_motives_follow_each_other_and_act_as_they_should():
    """Next motives by the state that is left, first ones by the start, choices by each motive's own policy."""
    environment, rule = three_states(), mm.Softmax(np.array([1.0, 3.0]))
    rewards = np.random.default_rng(1).normal(size=(2, 3))
    agent = mm.worlds.SwitchingAgent(rule, CHANCES, start=[0.2, 0.8])
    found, motives = mm.simulate(environment, rewards, agent, steps=40, episodes=400, seed=5)
    follows = np.flatnonzero(found.follows)
    moved = np.zeros((3, 2, 2))
    np.add.at(moved, (found.state[follows - 1], motives[follows - 1], motives[follows]), 1)
    assert p_value(moved.reshape(6, 2), CHANCES.reshape(6, 2)) > SIGNIFICANCE
    assert p_value(np.bincount(motives[found.step == 0], minlength=2)[None], [[0.2, 0.8]]) > SIGNIFICANCE
    policies = rule.policies(environment, rewards)
    for motive in range(2):
        chosen = np.zeros((3, 3))
        np.add.at(chosen, (found.state[motives == motive], found.action[motives == motive]), 1)
        assert p_value(chosen, policies[motive]) > SIGNIFICANCE
        assert p_value(chosen, policies[1 - motive]) < 1e-12  # the test would see another motive's


def test_each_task_may_switch_in_its_own_way():
    rewards = np.random.default_rng(1).normal(size=(2, 2, 3))
    own = np.array([[[[1.0, 0.0], [0.0, 1.0]]], [[[0.0, 1.0], [1.0, 0.0]]]])  # one for good; another at every step
    agent = mm.worlds.SwitchingAgent(mm.Softmax(1.0), own, start=[1.0, 0.0])
    found, motives = mm.simulate(three_states(), rewards, agent, steps=8, seed=6)
    assert (motives[found.task == 0] == 0).all()
    assert motives[found.task == 1].tolist() == [0, 1] * 4
    alone, first = mm.simulate(
        three_states(), rewards[:1], mm.worlds.SwitchingAgent(mm.Softmax(1.0), own[0], [1.0, 0.0]), steps=8, seed=6
    )
    assert_equal_arrays(arrays(alone), arrays(found, 0))
    assert np.array_equal(first, motives[found.task == 0])
