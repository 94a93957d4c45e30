"""The optimality integral: which rewards explain a policy, integrated over how optimal it may be.

For one policy with losses ℓ_1, …, ℓ_N, sorted, and Λ_k = λ_(1) + … + λ_(k):

    w_(j) = ∫ λ_(j) 1{ℓ_(j) < ε} / λ({i: ℓ_i < ε}) dβ(ε) = λ_(j) Σ_{k ≥ j} β((ℓ_(k), ℓ_(k+1)]) / Λ_k,   ℓ_(N+1) = ∞

one sort and one cumulative sum (docs/optimality-theory.md). Below the smallest loss no reward qualifies; weights here
are those given that ε lies above it, and the mass that does is returned beside them.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from manymotives.errors import InputError
from manymotives.inference.optimality.integral_kernels import fill_weights
from manymotives.models.optimality import gaps_beyond, log_survival_of
from manymotives.planning import in_parallel


class Integral(NamedTuple):
    """For each of K policies; a policy that no ε of positive probability can explain has a log mass of −∞."""

    weights: Any  # [K, N], each row summing to 1, or 0 where the mass is
    log_mass: Any  # [K] log β(ε > the policy's smallest loss)
    gap: Any  # [K] a draw of ε …
    drawn: Any  # [K] … and of a reward given ε, as its index in the set
    loss: Any  # [K] of the policy for that reward


class WeightSum(NamedTuple):
    """The same for a block of policies, their weights added up: all that has to be kept of them."""

    total: Any  # [N]
    counts: Any  # [K] how much each policy counts in it
    reference: Any  # log of the unit that both are in
    log_mass: Any  # [K]
    gap: Any
    drawn: Any
    loss: Any


def summed_weights(found: Integral, measure: Any, empty_set: str, xp: Any = np) -> WeightSum:
    """Weights added up over policies, each policy counting as the treatment of the empty set says."""
    weights, log_mass = found.weights, found.log_mass
    reference: Any = xp.zeros((), log_mass.dtype)
    if empty_set == "drop":
        reference = log_mass.max()
        counts = xp.exp(log_mass - xp.where(xp.isfinite(reference), reference, 0.0))
    else:
        counts = xp.where(xp.isfinite(log_mass) | (empty_set == "prior"), xp.ones_like(log_mass), 0.0)
    if empty_set == "prior":
        inside = xp.exp(log_mass)[:, None]
        weights = inside * weights + (1.0 - inside) * measure[None]
    total = (counts[:, None] * weights).sum(axis=0)
    return WeightSum(total, counts, reference, log_mass, found.gap, found.drawn, found.loss)


def integrate(
    losses: Float[np.ndarray, "K N"],
    measure: Float[np.ndarray, " N"],
    optimality: Any,  # β
    uniforms: Float[np.ndarray, "K 2"],
    *,
    within: bool = True,
) -> Integral:
    """Weights, and one draw of (ε, reward) a policy from two uniform numbers.

    `within`: draw ε from β given that some reward qualifies; else from β itself, and from λ where none does.
    """
    num_policies, num_rewards = losses.shape
    log_survival = log_survival_of(optimality)
    found = Integral(
        np.empty((num_policies, num_rewards)),
        np.empty(num_policies),
        np.empty(num_policies),
        np.empty(num_policies, dtype=np.int64),
        np.empty(num_policies),
    )
    measure = np.require(measure, requirements=["C", "W"])
    counted = measure > 0

    def work(begin: int, end: int) -> None:
        part = slice(begin, end)
        order = np.argsort(losses[part], axis=1)
        ordered = np.take_along_axis(losses[part], order, axis=1)
        tails = np.ascontiguousarray(log_survival(ordered), dtype=float)
        if (tails[:, 1:] > tails[:, :-1] + 1e-9).any():
            raise InputError(f"{optimality!r} is not a distribution: it decreases between two losses.")
        first = np.zeros(end - begin, dtype=np.int64)
        if not counted.all():  # a reward of no measure qualifies nobody
            first = np.argmax(counted[order], axis=1)
        rows = np.arange(end - begin)
        mass = tails[rows, first]
        found.log_mass[part] = mass
        wanted = np.log(uniforms[part, 0]) + np.where(np.isfinite(mass) & within, mass, 0.0)
        gap = gaps_beyond(optimality, wanted)
        if within:  # rounding may not take a gap below the loss that it must exceed
            gap = np.maximum(gap, np.nextafter(ordered[rows, first], np.inf))
        found.gap[part] = gap
        fill_weights(
            ordered, order, tails, measure, gap, uniforms[part, 1].copy(), found.weights[part], found.drawn[part]
        )
        found.loss[part] = losses[np.arange(begin, end), found.drawn[part]]

    in_parallel(work, num_policies, cost=100 * num_rewards)
    return found
