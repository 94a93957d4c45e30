"""`integral.py` in JAX, for accelerators: losses, sort and sums stay on the device, in float32; only results return."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from manymotives.inference.optimality.integral import Integral, WeightSum, summed_weights
from manymotives.models import OptimalityTarget
from manymotives.models.optimality import log_survival_of
from manymotives.planning import PlannedRewards
from manymotives.planning.dense_losses import losses_against

HALVINGS = 60


class Device:
    """Rewards of one target on an accelerator, where policies give them weights."""

    def __init__(self, target: OptimalityTarget, planned: PlannedRewards, dtype: Any = jnp.float32) -> None:
        self.target, self.dtype = target, dtype
        rewards = planned.rewards[..., None] if planned.on == "state" else planned.rewards
        self.rewards = jnp.asarray(rewards, dtype)
        self.best = jnp.asarray(planned.best, dtype)  # planned for in float64, on the host
        self.scale = jnp.asarray(planned.spans if planned.scale_free else np.ones(len(rewards)), dtype)

    def weigh(self, policies: np.ndarray, measure: np.ndarray, uniforms: np.ndarray) -> WeightSum:
        """Weights of these policies [K, S, A] added up, and a draw for each."""
        found = self.weigh_on_device(*(jnp.asarray(each, self.dtype) for each in (policies, measure, uniforms)))
        return WeightSum(*(np.asarray(each, dtype=np.int64 if each.dtype == jnp.int32 else float) for each in found))

    def weigh_on_device(self, policies: Any, measure: Any, uniforms: Any) -> WeightSum:
        """The same without the way to the device and back."""
        model = self.target.model
        losses = losses_against(self.target.environment, policies, self.rewards, self.best) / self.scale[None]
        return weigh_traced(losses, measure, uniforms, optimality=model.optimality, empty_set=model.empty_set)


@partial(jax.jit, static_argnames=("optimality", "empty_set"))
def weigh_traced(losses: Any, measure: Any, uniforms: Any, *, optimality: Any, empty_set: str) -> WeightSum:
    """`integrate` and `summed_weights` for losses [K, N]."""
    found = _integrate(losses, measure, uniforms, log_survival_of(optimality), within=empty_set != "prior")
    return summed_weights(found, measure, empty_set, jnp)


def _integrate(losses: Any, measure: Any, uniforms: Any, log_survival: Any, *, within: bool) -> Integral:
    num_rewards = losses.shape[1]
    columns = lax.broadcasted_iota(jnp.int32, losses.shape, 1)
    ordered, order = lax.sort((losses, columns), dimension=1, num_keys=1)
    share = measure[order]
    total = jnp.cumsum(share, axis=1)
    tails = log_survival(ordered)
    first = jnp.argmax(total > 0, axis=1)
    mass = jnp.take_along_axis(tails, first[:, None], axis=1)
    usable = jnp.isfinite(mass)
    here = jnp.where(usable, jnp.exp(tails - jnp.where(usable, mass, 0)), 0)
    beyond = jnp.pad(here[:, 1:], ((0, 0), (0, 1)))
    explained = jnp.where(total > 0, (here - beyond) / jnp.where(total > 0, total, 1), 0)
    explained = jnp.flip(jnp.cumsum(jnp.flip(explained, 1), axis=1), 1)
    rows = lax.broadcasted_iota(jnp.int32, losses.shape, 0)
    weights = jnp.zeros_like(losses).at[rows, order].set(share * explained, unique_indices=True)

    mass = mass[:, 0]
    wanted = jnp.log(uniforms[:, 0]) + (jnp.where(usable[:, 0], mass, 0) if within else 0)
    gap = _gaps_beyond(log_survival, wanted)
    if within:  # rounding may not take a gap below the loss that it must exceed
        least = jnp.take_along_axis(ordered, first[:, None], axis=1)[:, 0]
        gap = jnp.maximum(gap, jnp.nextafter(least, jnp.full_like(least, jnp.inf)))
    qualify = (ordered < gap[:, None]).sum(axis=1)
    reached = jnp.take_along_axis(total, jnp.maximum(qualify - 1, 0)[:, None], axis=1)[:, 0]
    reached = jnp.where((qualify > 0) & (reached > 0), reached, total[:, -1])
    rank = (total <= (uniforms[:, 1] * reached)[:, None]).sum(axis=1)
    index = jnp.take_along_axis(order, jnp.minimum(rank, num_rewards - 1)[:, None], axis=1)[:, 0]
    loss = jnp.take_along_axis(losses, index[:, None], axis=1)[:, 0]
    return Integral(weights, mass, gap, index, loss)


def _gaps_beyond(log_survival: Any, log_mass: Any) -> Any:
    """As `optimality.gaps_beyond`, with a fixed number of steps."""
    low, high = jnp.zeros_like(log_mass), jnp.ones_like(log_mass)

    def widen(_: Any, bounds: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = bounds
        short = log_survival(high) > log_mass
        return jnp.where(short, high, low), jnp.where(short, 2 * high, high)

    def halve(_: Any, bounds: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = bounds
        middle = 0.5 * (low + high)
        above = log_survival(middle) > log_mass
        return jnp.where(above, middle, low), jnp.where(above, high, middle)

    return lax.fori_loop(0, HALVINGS, halve, lax.fori_loop(0, 100, widen, (low, high)))[1]
