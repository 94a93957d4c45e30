"""The loss matrix in JAX: on any device, in the precision of the rewards; on NVIDIA GPUs in float32 by a fused kernel.

V^π = (I − γP_π)^{-1} r_π is one matrix product a policy. Of its result, policies × states × rewards, only the maximum
over states is needed; plain JAX writes it to memory and reads it again, which on a GPU costs more than the product
itself. The fused kernel keeps it in registers (docs/decisions/0006).
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from manymotives.data.environment import Environment
from manymotives.planning.dense import EXACT, plan_traced

POLICIES = 256  # at a time where the product goes through memory
KERNEL_POLICIES, KERNEL_REWARDS = 16, 128  # a program's share in the fused kernel
KERNEL_STATES = 128  # largest number of states whose inverse fits there


def losses_traced(environment: Environment, policies: Array, rewards: Array) -> Array:
    """max_s V*(s) − V^π(s) [K, N] of policies [K, S, A] for rewards [N, S, 1 or A]."""
    dtype = jnp.result_type(policies, rewards)
    best = plan_traced(environment, rewards.astype(dtype), None, None).value
    return losses_against(environment, policies.astype(dtype), rewards.astype(dtype), best)


def losses_against(environment: Environment, policies: Array, rewards: Array, best: Array) -> Array:
    """The same where the optimal values [N, S] are known."""
    dtype = rewards.dtype
    if not environment.is_terminal.any():  # a constant changes no loss: values near 0 keep their digits
        middle = (best.max(axis=1) + best.min(axis=1)) / 2
        best = best - middle[:, None]
        rewards = rewards - (1 - environment.discount) * middle[:, None, None]
    transitions = jnp.asarray(environment.discount * environment.tensor, dtype)
    fused = dtype == jnp.float32 and environment.num_states <= KERNEL_STATES and _on_nvidia(rewards)
    solve: Any = _fused if fused and rewards.shape[2] == 1 else _plain
    return solve(transitions, policies, rewards, best)


def _on_nvidia(array: Array) -> bool:
    return not isinstance(array, jax.core.Tracer) and all(device.platform == "gpu" for device in array.devices())


def _inverses(transitions: Array, policies: Array) -> Array:
    """(I − γP_π)^{-1} [K, S, S]."""
    of_policy = jnp.einsum("ksa,sat->kst", policies, transitions, precision=EXACT)
    return jnp.linalg.inv(jnp.eye(of_policy.shape[1], dtype=of_policy.dtype)[None] - of_policy)


@jax.jit
def _plain(
    transitions: Float[Array, "S A S"],
    policies: Float[Array, "K S A"],
    rewards: Float[Array, "N S _"],
    best: Float[Array, "N S"],
) -> Float[Array, "K N"]:
    on_states = rewards.shape[2] == 1

    def one(policy: Array) -> Array:
        visits = _inverses(transitions, policy[None])[0]
        gain = rewards[..., 0].T if on_states else jnp.einsum("sa,nsa->sn", policy, rewards, precision=EXACT)
        return (best.T - jnp.matmul(visits, gain, precision=EXACT)).max(axis=0)

    losses = lax.map(one, policies, batch_size=POLICIES)
    return jnp.maximum(losses, 0)


@jax.jit
def _fused(
    transitions: Float[Array, "S A S"],
    policies: Float[Array, "K S A"],
    rewards: Float[Array, "N S 1"],
    best: Float[Array, "N S"],
) -> Float[Array, "K N"]:
    from jax.experimental import pallas as pl  # only where there is a GPU to use it on

    num_policies, num_states, _ = policies.shape
    num_rewards = len(rewards)
    size = max(16, 1 << (num_states - 1).bit_length())  # the kernel's arrays are powers of two
    more_policies, more_rewards = -num_policies % KERNEL_POLICIES, -num_rewards % KERNEL_REWARDS
    more_states = size - num_states
    visits = jnp.pad(_inverses(transitions, policies), ((0, more_policies), (0, more_states), (0, more_states)))
    columns = jnp.pad(rewards[..., 0].T, ((0, more_states), (0, more_rewards)))
    tops = jnp.pad(best.T, ((0, more_states), (0, more_rewards)), constant_values=-jnp.inf)
    over_rewards = pl.BlockSpec((size, KERNEL_REWARDS), lambda n, k: (0, n))
    losses = pl.pallas_call(
        partial(_kernel, precision=lax.DotAlgorithmPreset.TF32_TF32_F32_X3),
        grid=(columns.shape[1] // KERNEL_REWARDS, len(visits) // KERNEL_POLICIES),
        in_specs=[
            pl.BlockSpec((KERNEL_POLICIES, size, size), lambda n, k: (k, 0, 0)),
            over_rewards,
            over_rewards,
        ],
        out_specs=pl.BlockSpec((KERNEL_POLICIES, KERNEL_REWARDS), lambda n, k: (k, n)),
        out_shape=jax.ShapeDtypeStruct((len(visits), columns.shape[1]), rewards.dtype),
    )(visits, columns, tops)
    return jnp.maximum(losses[:num_policies, :num_rewards], 0)


def _kernel(visits: Any, rewards: Any, best: Any, out: Any, *, precision: Any) -> None:
    """Some policies against some rewards: the product stays in registers, its largest difference is written.

    TF32 three times over is as exact as float32 (measured: both err by 3e-7 of values about 1) and twice as fast.
    """
    columns, tops = rewards[...], best[...]

    def one(k: Any, nothing: None) -> None:
        values = jnp.dot(visits[k], columns, precision=precision, preferred_element_type=columns.dtype)
        out[k, :] = jnp.max(tops - values, axis=0)

    lax.fori_loop(0, KERNEL_POLICIES, one, None)
