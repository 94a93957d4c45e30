"""Algorithm 2 as the paper has it: policies given choices, rewards given policies.

Each of K policies π_i of a task gives every reward of the set a weight, by the optimality integral; their average is
the posterior. The paper also draws the rewards' measure anew for each policy, λ^(i) ~ Dirichlet(κ λ): the weights are
then those of λ whatever κ is (docs/optimality-theory.md), so that noise is left out.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from manymotives.errors import InputError, quoted
from manymotives.inference.draws import OptimalityDraws
from manymotives.inference.importance import COLLAPSED, effective_size, resampled
from manymotives.inference.optimality.integral import WeightSum, integrate, summed_weights
from manymotives.inference.optimality.policy_draws import (
    AT_A_TIME,
    CHUNK,
    LARGEST_POLICIES,
    block_size,
    draw_policies,
    log_likelihood,
)
from manymotives.inference.progress import Progress
from manymotives.models import OptimalityTarget
from manymotives.models.priors import Prior
from manymotives.planning import BeliefPlannedRewards, PlannedRewards

ON_DEVICE = 50  # times as many losses a block


def rewards_given_policies(
    target: OptimalityTarget,
    planned: PlannedRewards | BeliefPlannedRewards,
    measure: np.ndarray,
    draws: int,
    seed: int,
    progress: Progress,
    device: str,
) -> OptimalityDraws:
    """Weights of the rewards, and one draw of (policy, ε, reward) for each policy."""
    model, num_tasks, shape = target.model, target.num_tasks, target.environment.available.shape
    common = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(4,)))
    concentration = target.draw_concentrations(common, draws)
    index = np.empty((draws, num_tasks), dtype=np.int64)
    gap, loss, log_mass, likelihood = np.empty((4, draws, num_tasks))
    size = int(np.prod(shape))
    keep = draws * num_tasks * size <= LARGEST_POLICIES
    kept = np.empty((draws if keep else 0, num_tasks, *shape))
    totals = [_Sum(len(measure)) for _ in range(num_tasks)]
    policy_totals = [_Sum(size) for _ in range(num_tasks)]
    on_device = _on_device(target, planned) if device == "gpu" and isinstance(planned, PlannedRewards) else None
    weigh = on_device.weigh if on_device else _weigh_on_host(target, planned)
    step = block_size(AT_A_TIME * (ON_DEVICE if on_device else 1), max(len(measure), size))
    made = 0
    with progress.of(draws, "policies per task") as report:
        try:
            for begin in range(0, draws, step):
                part = slice(begin, min(begin + step, draws))
                for m in range(num_tasks):
                    policies, rngs = draw_policies(target, concentration[:, m], m, seed, part)
                    uniforms = np.concatenate([1.0 - rng.random((CHUNK, 2)) for rng in rngs])[: len(policies)]
                    found = weigh(policies, measure, uniforms)
                    totals[m].add(found.total, found.reference)
                    policy_totals[m].add(found.counts @ policies.reshape(len(policies), -1), found.reference)
                    index[part, m], gap[part, m], loss[part, m] = found.drawn, found.gap, found.loss
                    log_mass[part, m] = found.log_mass
                    likelihood[part, m] = log_likelihood(policies, target.counts[m])
                    if keep:
                        kept[part, m] = policies
                made = part.stop
                report.update(made)
        except KeyboardInterrupt:
            if made == 0:
                raise
    warnings: tuple[str, ...] = (f"interrupted after {made} of {draws} policies.",) if made < draws else ()
    warnings += _unexplained(target, log_mass[:made])
    chosen, used = _resampled_policies(model.empty_set, log_mass[:made], common)
    if used.min() < min(COLLAPSED, made):
        warnings += (
            f"the weight of {target.tasks[int(np.argmin(used))]!r} rests on effectively {used.min():.1f} of "
            f"{made} policies: nearly all are further from optimal than the prior of the gap allows. Allow larger "
            "gaps, or draw more.",
        )
    each = (chosen, np.arange(num_tasks))
    return OptimalityDraws(
        rewards=planned.rewards,
        measure=measure,
        spans=planned.spans,
        weights=np.stack([total.normalised() for total in totals]),
        index=index[each][None],
        gap=gap[each][None],
        loss=loss[each][None],
        policy_mean=shape[0] * np.stack([total.normalised() for total in policy_totals]).reshape(num_tasks, *shape),
        policies=kept[each][None] if keep else None,
        log_likelihood=likelihood[each][None],
        concentration=concentration[each][None],
        reward_concentration=None,
        statistics={
            "log_mass": (("chain", "draw", "task"), log_mass[each][None]),
            "effective_policies": (("task",), used),
        },
        warnings=warnings,
    )


def _resampled_policies(
    empty_set: str, log_mass: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Equally weighted policies [K, M] of each task, as the treatment of the empty set weighs them; effective sizes."""
    count, num_tasks = log_mass.shape
    chosen = np.repeat(np.arange(count)[:, None], num_tasks, axis=1)
    used = np.full(num_tasks, float(count))
    for m in range(num_tasks):
        impossible = ~np.isfinite(log_mass[:, m])
        if empty_set == "drop" or (empty_set == "condition" and impossible.any()):
            log_weight = log_mass[:, m] if empty_set == "drop" else np.where(impossible, -np.inf, 0.0)
            chosen[:, m] = resampled(rng.spawn(1)[0], log_weight, count)
            used[m] = effective_size(log_weight)
    return chosen, used


def _on_device(target: OptimalityTarget, planned: PlannedRewards) -> Any:
    """What weighs rewards on an accelerator, with JAX."""
    from manymotives.inference.optimality.integral_jax import Device

    return Device(target, planned)


def _weigh_on_host(
    target: OptimalityTarget, planned: PlannedRewards | BeliefPlannedRewards
) -> Callable[..., WeightSum]:
    optimality, empty_set = target.model.optimality, target.model.empty_set

    def weigh(policies: np.ndarray, measure: np.ndarray, uniforms: np.ndarray) -> WeightSum:
        found = integrate(planned.losses(policies), measure, optimality, uniforms, within=empty_set != "prior")
        return summed_weights(found, measure, empty_set)

    return weigh


class _Sum:
    """Numbers added up over blocks of policies that may be in different units."""

    def __init__(self, size: int) -> None:
        self.total = np.zeros(size)
        self.reference = -np.inf

    def add(self, total: np.ndarray, reference: Any) -> None:
        unit = max(self.reference, float(reference))
        if unit > -np.inf:
            self.total = self.total * np.exp(self.reference - unit) + total * np.exp(float(reference) - unit)
            self.reference = unit

    def normalised(self) -> np.ndarray:
        return self.total / self.total.sum()


def _unexplained(target: OptimalityTarget, log_mass: np.ndarray) -> tuple[str, ...]:
    """Policies to which β gives no reward at all."""
    model = target.model
    if model.empty_set == "prior":
        return ()
    impossible = ~np.isfinite(log_mass)
    worst = int(np.argmax(impossible.sum(axis=0)))
    count, who = int(impossible[:, worst].sum()), quoted(target.tasks[worst])
    if count == 0:
        return ()
    if count == len(log_mass):
        raise InputError(
            f"the prior of the optimality gap has no mass where it is needed: every policy drawn for {who} loses more "
            f"than {model.optimality!r} allows, whatever the reward. Allow larger gaps, or use "
            'empty_set="prior".'
        )
    if isinstance(model.policy.concentration, Prior) and target.num_tasks > 1 and target.shares_policies:
        raise InputError(
            f"some policies of {who} lose more than {model.optimality!r} allows, whatever the reward: with a prior on "
            'the concentration of policies that tasks share, use empty_set="prior", Separate(), or larger gaps.'
        )
    return (
        f"{count} of {len(log_mass)} policies drawn for {who} lose more than the prior of the optimality gap allows, "
        "whatever the reward; they were left out.",
    )
