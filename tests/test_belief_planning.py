"""Decisions under a belief, against enumeration of all policies in plain loops, and against known environments."""

import itertools

import numpy as np
import pytest

import manymotives as mm
from cases import in_turn
from manymotives.planning.belief import candidates, generator
from manymotives.planning.multi_mdp import MultiMDP
from places import HOUSE, TRIANGLE

ROUNDING = 1e-9  # of values up to 20: linear systems with a condition number up to (1 + γ) / (1 − γ)


def random_belief(seed, states=3, actions=2, seen=4, terminal=(), discount=0.9):
    """A few transitions seen, under a prior of one observation; the second action is missing in state 0."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((states, actions, states))
    for _ in range(seen):
        counts[rng.integers(states), rng.integers(actions), rng.integers(states)] += 1
    available = np.ones((states, actions), dtype=bool)
    available[0, 1:] = not terminal
    available[list(terminal)] = False
    counts[~available] = 0
    return mm.DynamicsBelief(counts, discount=discount, possible=available, terminal=terminal)


def plain_values(environment, actions, reward):
    """V of one deterministic policy: the sum of what is received, until γ^t has vanished."""
    size = environment.num_states
    value = np.zeros(size)
    for _ in range(400 if environment.discount else 1):
        new = np.zeros(size)
        for s in range(size):
            lives = not environment.is_terminal[s]
            new[s] = reward[s] if np.ndim(reward) == 1 else reward[s][actions[s]] * lives
            if lives:
                row = environment.tensor[s, actions[s]]
                new[s] += environment.discount * sum(row[t] * value[t] for t in range(size))
        value = new
    return value


def all_policies(environment):
    choices = [np.flatnonzero(row) if row.any() else [0] for row in environment.available]
    return [np.array(each) for each in itertools.product(*choices)]


@pytest.mark.parametrize(("seed", "terminal", "on"), in_turn(range(3), [(), (2,)], ["state", "state_action"], every=2))
def test_bounds_hold_against_every_policy(seed, terminal, on):
    """On the environments in which values are reported: attained ≤ the best of all policies ≤ the upper bound."""
    belief = random_belief(seed, terminal=terminal)
    reward = np.random.default_rng(seed).random((3,) if on == "state" else (3, 2))
    count = 7
    plan = mm.plan(belief, reward, on=on, environments=count, seed=seed)
    valuing = generator(seed).spawn(3)[2]
    possible = [belief.environment(moves) for moves in belief.draws(count, valuing)]
    every = {
        tuple(a): np.mean([plain_values(e, a, reward) for e in possible], axis=0) for a in all_policies(belief.mean)
    }
    assert np.abs(plan.value - every[tuple(plan.actions)]).max() < ROUNDING
    assert (plan.value <= np.max(list(every.values()), axis=0) + ROUNDING).all()
    assert (np.max(list(every.values()), axis=0) <= plan.upper + ROUNDING).all()
    assert np.abs(plan.mean_policy_value - every[tuple(mm.plan(belief.mean, reward, on=on).actions)]).max() < ROUNDING
    assert np.isin(plan.by_induction, [True, False])
    assert plan.policy.shape == (3, 2)
    best = np.mean([mm.plan(each, reward, on=on).value for each in possible], axis=0)
    assert np.abs(best - plan.upper).max() < ROUNDING


@pytest.mark.parametrize("seed", in_turn(range(8), every=2))
def test_switches_find_what_enumeration_finds(seed):
    """Rewards that differ between environments too. No single change improves what switches end at, and it is at
    least as good as what they begin from; that it is also best of all is luck, but in these cases it must be."""
    rng = np.random.default_rng(seed)
    belief = random_belief(seed, seen=3)
    possible = belief.sample(6, seed)
    sample = MultiMDP.from_transitions(np.stack([each.tensor for each in possible]), belief.mean)
    rewards = rng.random((6, 3, 1))
    found = candidates(sample, rewards, np.zeros(3, dtype=np.int64))

    def worth(actions):
        return np.mean([plain_values(e, actions, r[:, 0]) @ e.start for e, r in zip(possible, rewards)])

    best = max(worth(actions) for actions in all_policies(belief.mean))
    assert worth(found.switched) >= max(worth(found.mean), worth(found.induced)) - ROUNDING
    assert worth(found.switched) == pytest.approx(best, abs=ROUNDING)


def test_induction_that_never_settles_returns_the_best_it_passes():
    """Where the induced policy changes for ever, plain backward induction passes through it, and none is better."""
    cycles = 0
    for seed in range(12):
        belief = random_belief(seed, seen=2, discount=0.95)
        possible = belief.sample(8, seed)
        reward = np.random.default_rng(seed).random(3)
        sample = MultiMDP.from_transitions(np.stack([each.tensor for each in possible]), belief.mean)
        first = mm.plan(belief.mean, reward).actions
        induced, settled = sample.induced(reward[None, :, None], first)
        values = [plain_values(each, first, reward) for each in possible]
        passed = []
        for _ in range(60):
            q = [reward[:, None] + 0.95 * each.tensor @ value for each, value in zip(possible, values)]
            best = np.where(belief.mean.available, np.mean(q, axis=0), -np.inf).argmax(axis=1)
            values = [each[np.arange(3), best] for each in q]
            passed.append(tuple(best))
        late = set(passed[40:])
        worth = {each: np.mean([plain_values(e, each, reward) @ e.start for e in possible]) for each in late}
        assert settled == (len(late) == 1)
        assert worth[tuple(induced)] == pytest.approx(max(worth.values()), abs=ROUNDING)
        cycles += not settled
    assert cycles > 0  # or the test would show nothing


@pytest.mark.parametrize("environment", [HOUSE, TRIANGLE], ids=["house", "triangle"])
@pytest.mark.parametrize("on", ["state", "state_action"])
def test_a_certain_belief_is_the_environment(environment, on):
    rewards = np.random.default_rng(0).random((2, 3, 3) if on == "state" else (2, 3, 3, 2))
    known = mm.plan(environment, rewards, on=on)
    belief = mm.plan(mm.DynamicsBelief.around(environment, 1e9), rewards, on=on, environments=20)
    # transitions differ by up to 5 / √1e9 = 1.6e-4, values of rewards up to 1 by γ / (1 − γ)² of it at the very most
    close = 1.6e-4 * environment.discount / (1 - environment.discount) ** 2
    for values in (belief.value, belief.upper, belief.mean_policy_value):
        assert np.abs(values - known.value).max() < close
    assert np.array_equal(belief.actions, known.actions)
    assert belief.converged.all()


def test_uncertainty_is_told_apart_from_its_mean():
    """A bridge that may be open or shut for good: its mean is half open, and an agent tries for ever; a negative
    control for plans in the mean environment, which think so too."""
    counts = np.zeros((2, 2, 2))
    counts[0, 1] = [0.02, 0.02]  # try the bridge: it nearly always works, or nearly never
    counts[0, 0] = counts[1, :] = 0
    possible = np.zeros((2, 2, 2), dtype=bool)
    possible[0, 0, 0] = possible[1, :, 1] = True  # stay; once across, across
    possible[0, 1] = True
    belief = mm.DynamicsBelief(counts, discount=0.9, prior=1e-3, possible=possible, start=[1.0, 0.0])
    reward = np.array([[0.55, 0.0], [1.0, 1.0]])  # staying pays 0.55 a step, across 1, trying nothing
    plan = mm.plan(belief, reward, on="state_action", environments=400)
    # staying for ever: 5.5; crossing in the mean environment: 0.45 · 10 / (1 − 0.45) = 8.2; in truth half of 9
    assert plan.mean_policy_value[0] == pytest.approx(4.5, abs=0.8)
    assert plan.value[0] == pytest.approx(5.5, abs=ROUNDING)
    assert plan.by_induction
    assert plan.actions[0] == 0
    assert plan.upper[0] == pytest.approx((9 + 5.5) / 2, abs=0.5)


@pytest.mark.long
def test_standard_errors_are_those_of_another_seed():
    """Values from other environments differ by their errors: z-values of 25 repetitions have a mean square near 1."""
    belief = random_belief(5, states=4, seen=10)
    reward = np.random.default_rng(5).random(4)
    actions = mm.plan(belief, reward, seed=0).actions
    exact = mm.plan(belief, reward, environments=1500, seed=99)
    assert np.array_equal(exact.actions, actions)
    z = []
    for seed in range(25):
        plan = mm.plan(belief, reward, environments=20, seed=seed)
        z.append((plan.upper - exact.upper) / plan.upper_error)
    square = np.mean(np.square(z), axis=0)  # χ² with 25 degrees of freedom, over 25: 0.35 to 2.1 with probability 0.999
    assert ((square > 0.35) & (square < 2.2)).all()


def test_same_seed_same_plan():
    belief, reward = random_belief(1), np.random.default_rng(1).random((2, 3))
    one, other, another = (mm.plan(belief, reward, environments=10, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(one.value, other.value)
    assert not np.array_equal(one.value, another.value)
    assert one.value.shape == one.upper.shape == (2, 3)
    assert one.by_induction.shape == (2,)
    assert mm.plan(belief, np.ones((0, 3)), environments=2).value.shape == (0, 3)
    assert np.isnan(mm.plan(belief, reward, environments=1).value_error).all()


def test_many_states():
    """Past what the compiled planner takes, where switches are many; the bounds hold."""
    grid = mm.worlds.GridWorld((12, 11), slip=0.2, discount=0.9)
    belief = mm.DynamicsBelief.around(grid, 5.0)
    plan = mm.plan(belief, np.eye(132)[-1], environments=10)
    assert (plan.value <= plan.upper + ROUNDING).all()
    assert plan.converged


@pytest.mark.parametrize("states", [5, 20])  # inverses of all at once, and one after the other
def test_mean_visits_are_averages_of_inverses(states):
    rng = np.random.default_rng(states)
    belief = random_belief(states, states=states, seen=30, terminal=(1,))
    possible = belief.sample(4, seed=1)
    sample = MultiMDP.from_transitions(np.stack([each.tensor for each in possible]), belief.mean)
    policies = rng.dirichlet(np.ones(2), size=(3, states))
    for policy, found in zip(policies, sample.mean_visits(policies)):
        steps = [np.einsum("sa,sat->st", policy, each.tensor) for each in possible]
        expected = np.mean([np.linalg.inv(np.eye(states) - 0.9 * each) for each in steps], axis=0)
        assert np.abs(found - expected).max() < ROUNDING
