"""The policy-optimality model under a belief: losses against plain loops, fits against those in known environments."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import manymotives as mm
import plain_optimality as plain
from cases import in_step, in_turn
from manymotives.planning import BeliefPlannedRewards
from manymotives.planning.belief import generator
from places import HOUSE, TRIANGLE

ROUNDING = 1e-9  # of values up to 20: linear systems with a condition number up to (1 + γ) / (1 − γ)
QUICK = mm.OptimalityMonteCarlo(draws=100, num_rewards=50, environments=10)


def vague(environment, seen=2.0):
    """A belief in which much is possible: so many observations of everything, and half of one of anything."""
    prior = 0.5 * np.repeat(environment.available[..., None], environment.num_states, axis=2)
    return mm.DynamicsBelief(
        seen * environment.tensor,
        discount=environment.discount,
        prior=prior,
        possible=environment.available,
        terminal=[environment.states[s] for s in np.flatnonzero(environment.is_terminal)],
        states=environment.states,
        actions=environment.actions,
    )


def some_policies(environment, count, rng):
    policies = rng.dirichlet(np.ones(environment.num_actions), size=(count, environment.num_states))
    policies = policies * environment.available + 1e-300
    return np.where(environment.is_terminal[:, None], [1.0, 0.0], policies / policies.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize(("environment", "on"), in_turn([HOUSE, TRIANGLE], ["state", "state_action"], every=2))
def test_losses_are_those_of_plain_loops(environment, on):
    belief, rng, count = vague(environment), np.random.default_rng(0), 6
    rewards = rng.random((5, 3) if on == "state" else (5, 3, 2))
    policies = some_policies(environment, 4, rng)
    possible = [belief.environment(moves).tensor for moves in belief.draws(count, generator(3))]

    def value(policy, reward):
        return np.mean([plain.policy_value(T, belief.mean.discount, policy, reward) for T in possible], axis=0)

    choices = [np.flatnonzero(row) if row.any() else [0] for row in environment.available]
    every = [np.eye(2)[list(each)] for each in itertools.product(*choices)]
    planned = BeliefPlannedRewards.of_rewards(belief, rewards, on=on, environments=count, rng=generator(3))
    found = mm.optimality.loss_matrix(belief, policies, rewards, on=on, environments=count, seed=3)
    for j, reward in enumerate(rewards):
        reachable = np.max([value(policy, reward) for policy in every], axis=0)
        known = [plain.optimal_value(T, environment.available, environment.discount, reward) for T in possible]
        assert np.abs(planned.best[j] - reachable).max() < ROUNDING  # so few policies: the best is among those found
        assert np.abs(planned.upper[j] - np.mean(known, axis=0)).max() < ROUNDING
        for i, policy in enumerate(policies):
            assert found[i, j] == pytest.approx(max(0.0, (reachable - value(policy, reward)).max()), abs=ROUNDING)
    unitless = mm.optimality.loss_matrix(belief, policies, rewards, on=on, environments=count, seed=3, scale_free=True)
    assert np.abs(unitless * planned.spans - found).max() < ROUNDING
    some = np.array([3, 1])
    assert np.array_equal(planned.among(some).losses(policies), planned.losses(policies)[:, some])


def test_better_than_the_best_found_is_no_loss():
    """Where the mark is too low, a policy above it in every state loses nothing; one above it in some, what it
    misses in others."""
    belief, rng = vague(TRIANGLE), np.random.default_rng(1)
    planned = BeliefPlannedRewards.of_rewards(belief, rng.random((1, 3)), environments=5, rng=rng)
    policies = some_policies(TRIANGLE, 20, rng)
    low = replace(planned, best=planned.best - 100.0)
    assert (low.losses(policies) == 0).all()
    dented = replace(planned, best=planned.best - [100.0, 0.0, 0.0])
    assert (dented.losses(policies) <= planned.losses(policies)).all()
    assert (dented.losses(policies) > 0).all()


def test_a_belief_is_not_its_mean():
    """A bridge that is open or shut for good. In the mean environment trying it for ever is optimal; under the belief
    it loses what staying would have brought where it is shut: (9 + 0) / 2 instead of 5.5, and 1 in all."""
    possible = np.zeros((2, 2, 2), dtype=bool)
    possible[0, 0, 0] = possible[1, :, 1] = True
    possible[0, 1] = True
    counts = np.zeros((2, 2, 2))
    counts[0, 1] = 0.02
    belief = mm.DynamicsBelief(counts, discount=0.9, prior=1e-3, possible=possible)
    reward = np.array([[[0.55, 0.0], [1.0, 1.0]]])
    trying = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    assert mm.optimality.loss_matrix(belief.mean, trying, reward, on="state_action")[0, 0] < ROUNDING
    # the share of open bridges among 400 is ½ ± 0.025, and each is worth 9
    found = mm.optimality.loss_matrix(belief, trying, reward, on="state_action", environments=400)[0, 0]
    assert found == pytest.approx(1.0, abs=4 * 0.025 * 9)


@pytest.mark.parametrize(
    ("environment", "factorisation", "scale_free"),
    in_step([HOUSE, TRIANGLE], ["policy_given_reward", "reward_given_policy"], [True, False]),
)
def test_a_certain_belief_fits_as_the_environment(environment, factorisation, scale_free):
    rewards = np.random.default_rng(0).random((3, 3))
    shown = mm.simulate(environment, rewards, mm.Softmax(5.0), steps=20, seed=0)
    model = mm.PolicyOptimalityModel(factorisation=factorisation, scale_free=scale_free)
    known = mm.fit(model, environment, shown, QUICK, progress=False)
    found = mm.fit(model, mm.DynamicsBelief.around(environment, 1e9), shown, QUICK, progress=False)
    # transitions differ by about 1 / √1e9 = 3e-5, losses by γ / (1 − γ)² = 90 times that at most; a weight changes by
    # as much where no two losses change places
    assert np.abs(known.weights - found.weights).max() < 5e-3
    same = known.data["sample_stats"]["reward_index"] == found.data["sample_stats"]["reward_index"]
    if environment is TRIANGLE or not scale_free:  # one choice in the house: without a scale, all rewards tie
        assert same.mean() > 0.97
    assert np.abs(known.losses - found.losses).where(same).max() < 5e-3
    assert found.environment is environment or np.array_equal(found.environment.tensor, environment.tensor)


def test_what_is_not_known_comes_along(tmp_path):
    """The belief's warnings and bounds are in the posterior, and in its file."""
    belief = vague(HOUSE, seen=1.0)
    shown = mm.simulate(HOUSE, np.eye(3)[:2], mm.Softmax(5.0), steps=20, seed=0)
    found = mm.fit(mm.PolicyOptimalityModel(), belief, shown, QUICK, progress=False)
    assert set(belief.warnings) <= set(found.warnings)
    assert belief.warnings
    assert np.array_equal(found.environment.tensor, belief.mean.tensor)
    best = mm.plan(belief, found.mean_reward.values)
    assert np.array_equal(found.policies().values, best.policy)
    candidates = found.data["reward_set"]
    assert (candidates["best_value"] <= candidates["best_value_bound"] + ROUNDING).all()
    assert (candidates["best_value"] < candidates["best_value_bound"] - 1e-3).any()
    found.save(tmp_path / "run.nc")
    again = mm.load(tmp_path / "run.nc")
    assert np.array_equal(again.data["reward_set"]["best_value_bound"], candidates["best_value_bound"])
    assert again.warnings == found.warnings


def test_what_could_be_larger_is_said():
    """One observation of everything: knowing the environment would be worth more than half of what tasks lose."""
    belief = vague(TRIANGLE, seen=0.5)
    shown = mm.simulate(TRIANGLE, np.eye(3), mm.Softmax(50.0), steps=200, seed=0)
    vaguely = mm.fit(mm.PolicyOptimalityModel(scale_free=True), belief, shown, QUICK, progress=False)
    surely = mm.fit(mm.PolicyOptimalityModel(scale_free=True), vague(TRIANGLE, 1e4), shown, QUICK, progress=False)
    assert any("Knowing it would be worth" in said for said in vaguely.warnings)
    assert not any("Knowing it would be worth" in said for said in surely.warnings)
