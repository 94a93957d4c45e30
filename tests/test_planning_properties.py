"""Laws that planning obeys whatever the problem."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import manymotives as mm

SLACK = 1e-8

seeds = st.integers(0, 2**32 - 1)
discounts = st.sampled_from([0.0, 0.5, 0.9, 0.99])


def world(seed, discount):
    rng = np.random.default_rng(seed)
    states, actions = int(rng.integers(2, 9)), int(rng.integers(1, 5))
    make = mm.worlds.RandomMDP if rng.random() < 0.5 else mm.worlds.DirichletMDP
    return make(states=states, actions=actions, seed=seed, discount=discount), rng


def random_policy(environment, rng):
    return rng.dirichlet(np.ones(environment.num_actions), size=environment.num_states)


@settings(max_examples=40, deadline=None)
@given(seeds, discounts)
def test_no_policy_beats_the_plan_and_losses_are_not_negative(seed, discount):
    environment, rng = world(seed, discount)
    rewards = rng.normal(size=environment.num_states)
    best = mm.plan(environment, rewards)
    for _ in range(5):
        policy = random_policy(environment, rng)
        assert (best.value >= mm.evaluate(environment, policy, rewards) - SLACK).all()
        assert mm.loss(environment, policy, rewards) >= 0
    assert mm.loss(environment, best.policy, rewards) <= SLACK


@settings(max_examples=40, deadline=None)
@given(seeds, discounts, st.floats(-5, 5))
def test_adding_a_constant_shifts_values_and_keeps_policies(seed, discount, constant):
    environment, rng = world(seed, discount)
    rewards = rng.normal(size=environment.num_states)
    plain, shifted = mm.plan(environment, rewards), mm.plan(environment, rewards + constant)
    np.testing.assert_allclose(shifted.value, plain.value + constant / (1 - discount), atol=SLACK)
    np.testing.assert_array_equal(shifted.actions, plain.actions)


@settings(max_examples=40, deadline=None)
@given(seeds, discounts)
def test_potential_shaping_keeps_policies(seed, discount):
    environment, rng = world(seed, discount)
    rewards = rng.normal(size=(environment.num_states, environment.num_actions))
    potential = rng.normal(size=environment.num_states)
    shaped = rewards + discount * environment.tensor @ potential - potential[:, None]
    plain = mm.plan(environment, rewards, on="state_action")
    other = mm.plan(environment, shaped, on="state_action")
    np.testing.assert_allclose(other.value, plain.value - potential, atol=SLACK)
    np.testing.assert_array_equal(other.actions, plain.actions)


@settings(max_examples=40, deadline=None)
@given(seeds, discounts, st.floats(0.1, 10), st.floats(0.2, 5))
def test_scaling_the_reward_is_scaling_the_inverse_temperature(seed, discount, scale, inverse_temperature):
    environment, rng = world(seed, discount)
    rewards = rng.normal(size=environment.num_states)
    for rule in (mm.Softmax, mm.SoftOptimal):
        scaled = rule(inverse_temperature).policies(environment, scale * rewards)
        sharper = rule(scale * inverse_temperature).policies(environment, rewards)
        np.testing.assert_allclose(scaled, sharper, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(seeds, discounts)
def test_renaming_states_and_actions_renames_the_plan(seed, discount):
    environment, rng = world(seed, discount)
    rewards = rng.normal(size=environment.num_states)
    states, actions = rng.permutation(environment.num_states), rng.permutation(environment.num_actions)
    renamed = mm.Environment(environment.tensor[states][:, actions][:, :, states], discount=discount)
    plain, other = mm.plan(environment, rewards), mm.plan(renamed, rewards[states])
    np.testing.assert_allclose(other.q, plain.q[states][:, actions], atol=SLACK)


@settings(max_examples=40, deadline=None)
@given(seeds, st.sampled_from([0.5, 0.9, 0.99]))
def test_the_bellman_backup_contracts(seed, discount):
    environment, rng = world(seed, discount)
    rewards = rng.normal(size=environment.num_states)

    def backup(value):
        return (rewards[:, None] + discount * environment.tensor @ value).max(axis=1)

    best = mm.plan(environment, rewards).value
    guess = rng.normal(size=environment.num_states)
    assert np.abs(backup(guess) - best).max() <= discount * np.abs(guess - best).max() + SLACK


@settings(max_examples=30, deadline=None)
@given(seeds, discounts)
def test_soft_values_lie_between_the_best_and_the_best_plus_the_largest_entropy(seed, discount):
    environment, rng = world(seed, discount)
    rewards = rng.normal(size=environment.num_states)
    best = mm.plan(environment, rewards).value
    for c in (0.5, 5.0, 500.0):
        soft = mm.plan(environment, rewards, inverse_temperature=c).value
        assert (soft >= best - SLACK).all()
        assert (soft <= best + np.log(environment.num_actions) / c / (1 - discount) + SLACK).all()


def test_sparse_and_dense_forms_of_an_environment_plan_alike():
    for environment in (mm.worlds.GridWorld((8, 9), slip=0.1), mm.worlds.Labyrinth(levels=3)):
        other = mm.Environment(environment.matrix, discount=environment.discount, available=environment.available)
        rewards = np.random.default_rng(0).normal(size=(3, environment.num_states))
        np.testing.assert_array_equal(mm.plan(environment, rewards).q, mm.plan(other, rewards).q)


def test_terminal_and_absorbing_states_are_worth_what_they_should():
    """Reward received once (V = ρ) against for ever (V = ρ / (1 − γ))."""
    transitions = np.zeros((3, 1, 3))
    transitions[0, 0, 1] = transitions[1, 0, 1] = transitions[2, 0, 2] = 1
    for discount in (0.0, 0.9):
        absorbing = mm.Environment(transitions, discount=discount)
        terminal = mm.Environment(transitions, discount=discount, terminal=[1])
        assert absorbing.is_absorbing.tolist() == [False, True, True]
        assert terminal.is_absorbing.tolist() == [False, False, True]
        rewards = np.array([1.0, -2.0, 0.0])
        forever = -2 / (1 - discount)
        np.testing.assert_allclose(mm.plan(absorbing, rewards).value, [1 + discount * forever, forever, 0])
        np.testing.assert_allclose(mm.plan(terminal, rewards).value, [1 - 2 * discount, -2, 0])
        pairs = np.array([[1.0], [-2.0], [0.0]])
        np.testing.assert_allclose(mm.plan(terminal, pairs, on="state_action").value, [1, 0, 0])
