"""Plans inside JAX: gradients against finite differences, and plans under jit and vmap."""

from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import manymotives as mm
from planning_examples import EXACT, problems


@pytest.mark.parametrize(
    ("on", "inverse_temperature", "which"),
    [
        ("state", None, slice(8, 9)),
        pytest.param("state", None, slice(None), marks=pytest.mark.long),
        pytest.param("state_action", 2.5, slice(None), marks=pytest.mark.long),
        pytest.param("state", 2.5, slice(None), marks=pytest.mark.long),
        pytest.param("state_action", None, slice(None), marks=pytest.mark.long),
    ],
)
def test_gradients_equal_finite_differences(on, inverse_temperature, which):
    """Of every entry of Q with respect to every reward; central differences are exact to O(step²) away from ties."""
    rng = np.random.default_rng(2)
    for environment, rewards, case in islice(problems(on), which.start, which.stop):
        rewards = rewards + 0.01 * rng.normal(size=rewards.shape)
        exists = case["available"] | case["terminal"][:, None] & (np.arange(case["available"].shape[1]) == 0)

        def action_values(given, environment=environment, exists=exists):
            q = mm.plan(environment, given, on=on, inverse_temperature=inverse_temperature).q
            return q[exists]

        jacobian = jax.jacrev(action_values)(jnp.asarray(rewards))
        forward = jax.jacfwd(action_values)(jnp.asarray(rewards))
        step = 1e-5
        for place in np.ndindex(rewards.shape):
            bump = np.zeros_like(rewards)
            bump[place] = step
            slope = (action_values(rewards + bump) - action_values(rewards - bump)) / (2 * step)
            np.testing.assert_allclose(jacobian[(slice(None), *place)], slope, atol=2e-6)
            np.testing.assert_allclose(forward[(slice(None), *place)], slope, atol=2e-6)


@pytest.mark.long
def test_gradient_with_respect_to_the_inverse_temperature():
    environment = mm.worlds.RandomMDP(seed=4)
    reward = np.random.default_rng(0).normal(size=8)

    def value(c):
        return mm.plan(environment, jnp.asarray(reward), inverse_temperature=c).value.sum()

    slope = (value(jnp.asarray(2.0 + 1e-5)) - value(jnp.asarray(2.0 - 1e-5))) / 2e-5
    np.testing.assert_allclose(jax.grad(value)(jnp.asarray(2.0)), slope, rtol=1e-6)


def test_plans_inside_jit_and_vmap_are_the_same():
    environment = mm.worlds.Chain()
    rewards = np.random.default_rng(0).random((6, 5))
    inside = jax.jit(jax.vmap(lambda reward: mm.plan(environment, reward).q))(jnp.asarray(rewards))
    np.testing.assert_allclose(inside, mm.plan(environment, rewards).q, atol=EXACT)


@pytest.mark.long
def test_temperatures_and_starts_can_be_traced_beside_plain_rewards():
    environment = mm.worlds.Labyrinth(levels=2)  # most actions exist only in some states
    reward = np.random.default_rng(0).normal(size=8)

    def value(c, given=reward):
        return mm.plan(environment, given, inverse_temperature=c).value.sum()

    slope = (value(jnp.asarray(2.0 + 1e-5)) - value(jnp.asarray(2.0 - 1e-5))) / 2e-5
    np.testing.assert_allclose(jax.jit(jax.grad(value))(2.0), slope, rtol=1e-6)
    start = mm.plan(environment, reward).actions
    warm = jax.jit(lambda begin: mm.plan(environment, jnp.asarray(reward), start=begin).solves)(jnp.asarray(start))
    assert warm == 1


@pytest.mark.long
def test_the_likelihood_of_softmax_choices_can_be_differentiated():
    environment = mm.worlds.Labyrinth(levels=2)
    counts = mm.simulate(environment, np.arange(8.0), mm.Softmax(1.0), steps=200, seed=0).counts[0]
    exists = counts > 0

    def log_likelihood(reward):
        policy = mm.Softmax(1.0).policies(environment, reward)
        return (counts[exists] * jnp.log(policy[exists])).sum()

    reward = jnp.asarray(np.random.default_rng(1).normal(size=8))
    slope = jax.grad(log_likelihood)(reward)
    for state in range(8):
        bump = 1e-5 * jnp.eye(8)[state]
        numeric = (log_likelihood(reward + bump) - log_likelihood(reward - bump)) / 2e-5
        np.testing.assert_allclose(slope[state], numeric, rtol=1e-5, atol=1e-5)
