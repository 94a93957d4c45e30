"""Model-based learners against their own beliefs, replayed in plain NumPy; exploration, burn-in, terminal states."""

import numpy as np
import pytest
from scipy import stats

import manymotives as mm
from goodness_of_fit import SIGNIFICANCE, p_value
from places import corridor


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
