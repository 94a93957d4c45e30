"""Differentiable planning: JAX in, JAX out, on any device, in the precision of the rewards.

The optimal policy π is found by policy iteration outside the reach of differentiation; one more evaluation of that
fixed policy then gives values *and* exact first derivatives, because at an optimum the change of the policy has no
first-order effect:  dV = (I − γP_π)^{-1} π·dρ,  one adjoint solve. At a tie between actions this is a subgradient.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from manymotives.data.environment import Environment
from manymotives.planning.problem import LIMIT, Solution, allowed_actions, rounding

Loop = tuple[Array, Array, Array, Array, Array]  # policy, shift, residual, whether to go on, solves
EXACT = lax.Precision.HIGHEST  # GPUs would otherwise multiply float32 matrices with ten bits of mantissa


def plan_traced(
    environment: Environment, rewards: Array, temperatures: Array | None, start: Any, discounts: Array | None = None
) -> Solution:
    """Plans of rewards [B, S, 1 or A]; with discounts [B], or the environment's."""
    dtype = rewards.dtype
    common = environment.discount if discounts is None else 1.0
    return _plan_batch(
        jnp.asarray(common * environment.tensor, dtype),
        None if discounts is None else discounts.astype(dtype),
        # not 1 minus the sum of rounded numbers: 1 − γ, whose digits matter, is known
        jnp.asarray(np.where(environment.available, 1 - common, 1.0), dtype),
        jnp.asarray(allowed_actions(environment)),
        rewards,
        None if temperatures is None else temperatures.astype(dtype),
        None if start is None else jnp.asarray(start),
    )


@jax.jit  # compiled once for each shape, not for each call
def _plan_batch(
    transitions: Float[Array, "S A S"],
    discounts: Float[Array, " B"] | None,  # where they are not in the transitions already
    leaks: Float[Array, "S A"],
    allowed: Bool[Array, "S A"],
    rewards: Float[Array, "B S _"],
    temperatures: Float[Array, " B"] | None,
    start: Int[Array, "B S"] | None,
) -> Solution:
    num_states, num_actions = allowed.shape
    on_pairs = jnp.broadcast_to(rewards, (len(rewards), num_states, num_actions))
    inverse = jnp.ones(len(rewards), rewards.dtype) if temperatures is None else temperatures
    first = None if start is None else jax.nn.one_hot(start, num_actions, dtype=rewards.dtype)
    over = (None if first is None else 0, 0, 0)
    if discounts is None:
        solve = partial(plan_one, transitions, leaks, allowed, temperatures is not None)
        return jax.vmap(solve, in_axes=over)(first, on_pairs, inverse)

    def solve_one(discount: Array, *given: Any) -> Solution:
        own_leaks = 1 - discount * (1 - leaks)
        return plan_one(discount * transitions, own_leaks, allowed, temperatures is not None, *given)

    return jax.vmap(solve_one, in_axes=(0, *over))(discounts, first, on_pairs, inverse)


def plan_one(
    transitions: Float[Array, "S A S"],  # already multiplied by the discount
    leaks: Float[Array, "S A"],  # 1 − their sum over next states: what a value of 1 everywhere would need as a reward
    allowed: Bool[Array, "S A"],
    soft: bool,
    first: Float[Array, "S A"] | None,  # a policy to start from
    rewards: Float[Array, "S A"],
    inverse_temperature: Float[Array, ""],
) -> Solution:
    """Policy iteration for one reward.

    Values are kept relative to their middle, k: V − k solves the same equations with the reward r − k (1 − γ). As γ → 1
    all values share a large constant, and in float32 the differences that decide would drown in its rounding.
    """
    frozen = lax.stop_gradient((transitions, leaks, rewards, inverse_temperature))
    frozen_transitions, frozen_leaks, frozen_rewards, frozen_temperature = frozen
    size_of_rewards = jnp.where(allowed, jnp.abs(frozen_rewards), 0).max()

    def backup(moves: Array, gain: Array, value: Array) -> Array:
        return jnp.where(allowed, gain + jnp.matmul(moves, value, precision=EXACT), -jnp.inf)

    def slack_of(value: Array) -> Array:
        size = jnp.abs(value).max() + size_of_rewards
        return rounding(size, value.size, float(np.finfo(value.dtype).eps))

    def soft_choice(c: Array, q: Array) -> tuple[Array, Array]:
        """softmax(c q) and log Σ exp(c q) / c. Below the best, then times c: never above 0, whatever c and rounding."""
        best = lax.stop_gradient(q.max(axis=1, keepdims=True))  # neither result depends on it
        # −inf times a derivative of 0 is no number: actions that do not exist are left out, not sent to −inf
        weight = jnp.where(allowed, jnp.exp(c * jnp.where(allowed, q - best, 0)), 0)
        total = weight.sum(axis=1, keepdims=True)
        return weight / total, (best + jnp.log(total) / c)[:, 0]

    def improve(q: Array, policy: Array, slack: Array) -> tuple[Array, Array, Array]:
        """A better policy, its one-step value, and whether it differs from the one it came from."""
        if soft:
            return *soft_choice(frozen_temperature, q), jnp.array(True)
        best = q.max(axis=1)
        taken = jnp.where(policy > 0, q, 0).sum(axis=1)
        better = best > taken + slack  # ties keep the action taken, so that equal actions cannot take turns
        greedy = jax.nn.one_hot(q.argmax(axis=1), q.shape[1], dtype=q.dtype)
        return jnp.where(better[:, None], greedy, policy), best, better.any()

    def unsettled(state: Loop) -> Array:
        *_, again, solves = state
        return again & (solves < LIMIT)

    def step(state: Loop) -> Loop:
        policy, shift, before, _, solves = state
        gain = frozen_rewards - shift * frozen_leaks
        value = evaluate_one(frozen_transitions, policy, gain, frozen_temperature, soft)
        middle = (value.max() + value.min()) / 2
        value, shift = value - middle, shift + middle
        slack = slack_of(value)
        q = backup(frozen_transitions, frozen_rewards - shift * frozen_leaks, value)
        better, one_step, switched = improve(q, policy, slack)
        residual = jnp.abs(one_step - value).max()
        # Newton's steps double their digits: one that gains none has met the precision's floor
        gains = (residual > slack) & ((solves < 20) | (residual < before / 2))
        return better, shift, residual, gains if soft else switched, solves + 1

    # one look ahead gives a first policy, and how much a step adds gives a first middle
    here = jnp.where(allowed, frozen_rewards, -jnp.inf).max(axis=1)
    q = backup(frozen_transitions, frozen_rewards, here)
    shift = here.mean() + (q.max(axis=1) - here).mean() / jnp.where(allowed, frozen_leaks, 1).min()
    if first is None:
        nowhere = jnp.zeros_like(rewards)  # no action taken yet: every one is better
        first, _, _ = improve(q, nowhere, jnp.array(-jnp.inf))
    begin = (first, shift, jnp.array(jnp.inf, rewards.dtype), jnp.array(True), jnp.array(0))
    policy, shift, residual, _, solves = lax.stop_gradient(lax.while_loop(unsettled, step, begin))

    value = evaluate_one(transitions, policy, rewards - shift * leaks, inverse_temperature, soft)
    q = backup(transitions, rewards - shift * leaks, value)
    one_step = soft_choice(inverse_temperature, q)[1] if soft else jnp.where(policy > 0, q, 0).sum(axis=1)
    residual = residual + float(np.finfo(q.dtype).eps) * jnp.abs(shift)  # the sum below is rounded too
    tied = q >= q.max(axis=1, keepdims=True) - slack_of(value)
    return Solution(q + shift, one_step + shift, tied.argmax(axis=1), residual, solves)


def evaluate_one(
    transitions: Float[Array, "S A S"],
    policy: Float[Array, "S A"],
    rewards: Float[Array, "S A"],
    inverse_temperature: Float[Array, ""],
    soft: bool,
) -> Float[Array, " S"]:
    """Solve (I − γP_π) V = r_π (+ H(π) / c for soft optimality)."""
    of_policy = jnp.einsum("sa,sat->st", policy, transitions, precision=EXACT)
    gain = (policy * rewards).sum(axis=1)
    if soft:
        gain = gain - jax.scipy.special.xlogy(policy, policy).sum(axis=1) / inverse_temperature
    return jnp.linalg.solve(jnp.eye(len(gain), dtype=gain.dtype) - of_policy, gain[:, None])[:, 0]


def evaluate_traced(environment: Environment, policies: Array, rewards: Array, discounts: Array | None = None) -> Array:
    """V^π [B, S] of policies [B, S, A] for rewards [B, S, 1 or A]; with discounts [B], or the environment's."""
    dtype = jnp.result_type(policies, rewards)
    each = jnp.full(len(rewards), environment.discount) if discounts is None else discounts
    transitions = jnp.asarray(environment.tensor, dtype)
    return _evaluate_batch(transitions, each.astype(dtype), policies.astype(dtype), rewards.astype(dtype))


@jax.jit
def _evaluate_batch(
    transitions: Float[Array, "S A S"],
    discounts: Float[Array, " B"],
    policies: Float[Array, "B S A"],
    rewards: Float[Array, "B S _"],
) -> Float[Array, "B S"]:
    on_pairs = jnp.broadcast_to(rewards, policies.shape)
    unused = jnp.ones((), policies.dtype)

    def one(discount: Array, policy: Array, r: Array) -> Array:
        return evaluate_one(discount * transitions, policy, r, unused, False)

    return jax.vmap(one)(discounts, policies, on_pairs)
