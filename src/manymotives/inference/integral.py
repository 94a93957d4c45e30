"""The optimality integral: which rewards explain a policy, integrated over how optimal it may be.

For one policy with losses ℓ_1, …, ℓ_N, sorted, and Λ_k = λ_(1) + … + λ_(k):

    w_(j) = ∫ λ_(j) 1{ℓ_(j) < ε} / λ({i: ℓ_i < ε}) dβ(ε) = λ_(j) Σ_{k ≥ j} β((ℓ_(k), ℓ_(k+1)]) / Λ_k,   ℓ_(N+1) = ∞

one sort and one cumulative sum (docs/optimality-theory.md). Below the smallest loss no reward qualifies; weights here
are those given that ε lies above it, and the mass that does is returned beside them.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from manymotives.inference.integral_kernels import fill_weights
from manymotives.optimality import gaps_beyond, log_survival_of
from manymotives.planning import in_parallel


class Integral(NamedTuple):
    """For each of K policies; a policy that no ε of positive probability can explain has a log mass of −∞."""

    weights: Any  # [K, N], each row summing to 1, or 0 where the mass is
    log_mass: Any  # [K] log β(ε > the policy's smallest loss)
    gap: Any  # [K] a draw of ε …
    drawn: Any  # [K] … and of a reward given ε, as its place in the set
    loss: Any  # [K] of the policy for that reward


class Judgement(NamedTuple):
    """The same for a block of policies, their weights added up: all that has to be kept of them."""

    total: Any  # [N]
    reference: Any  # log of the unit that the total is in
    log_mass: Any  # [K]
    gap: Any
    drawn: Any
    loss: Any


def judged(found: Integral, shares: Any, empty_set: str, xp: Any = np) -> Judgement:
    """Weights added up over policies, each policy counting as the treatment of the empty set says."""
    weights, log_mass = found.weights, found.log_mass
    reference: Any = xp.zeros(())
    if empty_set == "condition":
        total = weights.sum(axis=0)
    elif empty_set == "drop":
        reference = log_mass.max()
        scale = xp.exp(log_mass - xp.where(xp.isfinite(reference), reference, 0.0))
        total = (scale[:, None] * weights).sum(axis=0)
    else:
        inside = xp.exp(log_mass)[:, None]
        total = (inside * weights + (1.0 - inside) * shares).sum(axis=0)
    return Judgement(total, reference, log_mass, found.gap, found.drawn, found.loss)


def integrate(
    losses: Float[np.ndarray, "K N"],
    measure: Float[np.ndarray, "_ N"],  # one row for all policies, or one for each
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

    def work(begin: int, end: int) -> None:
        part = slice(begin, end)
        order = np.argsort(losses[part], axis=1)
        ordered = np.take_along_axis(losses[part], order, axis=1)
        tails = np.ascontiguousarray(log_survival(ordered), dtype=float)
        shares = measure if len(measure) == 1 else measure[part]
        first = np.zeros(end - begin, dtype=np.int64)
        if (shares == 0).any():  # a reward of no measure qualifies nobody
            first = np.argmax(np.take_along_axis(np.broadcast_to(shares > 0, order.shape), order, axis=1), axis=1)
        mass = tails[np.arange(end - begin), first]
        found.log_mass[part] = mass
        hopeless = ~np.isfinite(mass)
        wanted = np.log(uniforms[part, 0]) + np.where(hopeless | (not within), 0.0, mass)
        found.gap[part] = gaps_beyond(optimality, wanted)
        fill_weights(
            ordered,
            order,
            tails,
            np.require(shares, requirements=["C", "W"]),
            found.gap[part],
            uniforms[part, 1].copy(),
            found.weights[part],
            found.drawn[part],
        )
        found.loss[part] = losses[np.arange(begin, end), found.drawn[part]]

    in_parallel(work, num_policies, cost=100 * num_rewards)
    return found
