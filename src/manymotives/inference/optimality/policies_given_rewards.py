"""Tasks that inform each other: the model factored the other way, policies given rewards.

p(π | ρ_j) ∝ ξ(π) β̄(ℓ(π, ρ_j)), so the choices of task m speak for reward j with

    p(d_m | ρ_j) ∝ E[β̄(ℓ(π, ρ_j)) | d_m] / E[β̄(ℓ(π, ρ_j))]

two averages over policies, drawn given the task's choices and given none. Few policies of the second kind are near
optimal for anything, so all tasks' policies serve there too, each weighed by ξ against the mixture of all:
1 / (1 + Σ_m p(d_m | π) / p(d_m)), up to a constant. From there on the rewards are a finite mixture with common weights
ω ~ Dirichlet(κ λ), sampled by Gibbs with ω integrated out.
"""

from typing import Any

import numpy as np
from scipy.special import logsumexp

from manymotives.errors import InputError
from manymotives.inference.draws import OptimalityDraws
from manymotives.inference.importance import resampled
from manymotives.inference.optimality.integral_kernels import share_rewards
from manymotives.inference.optimality.policy_draws import (
    AT_A_TIME,
    LARGEST_POLICIES,
    block_size,
    draw_policies,
    log_likelihood,
)
from manymotives.inference.progress import Progress
from manymotives.models import OptimalityTarget
from manymotives.models.optimality import gaps_beyond, log_survival_of
from manymotives.models.policies import log_evidence
from manymotives.models.priors import Prior
from manymotives.planning import BeliefPlannedRewards, PlannedRewards

CHAINS = 4
SWEEPS = 20  # between two draws
WARMUP = 50  # draws
FEW_POLICIES = 20.0  # effective ones, below which an average over policies is that of a handful


def policies_given_rewards(
    target: OptimalityTarget,
    planned: PlannedRewards | BeliefPlannedRewards,
    measure: np.ndarray,
    draws: int,
    seed: int,
    progress: Progress,
) -> OptimalityDraws:
    """Weights of the rewards, and joint draws of reward, policy and ε."""
    common = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(4,)))
    spoken, effective = _likelihoods(target, planned, measure, draws, seed, progress)
    spoken = np.where(measure > 0, spoken, -np.inf)
    hopeless = ~np.isfinite(spoken).any(axis=1)
    if hopeless.any():
        raise InputError(
            "the prior of the optimality gap has no mass where it is needed: every policy drawn for "
            f"{target.tasks[int(np.argmax(hopeless))]!r} loses more than {target.model.optimality!r} allows, whatever "
            "the reward. Allow larger gaps."
        )
    likelihood = np.exp(spoken - spoken.max(axis=1, keepdims=True))
    if target.model.shares_rewards:
        weights, index, kappas = _shared(common, target, likelihood, measure, draws)
    else:
        weights = measure * likelihood
        weights /= weights.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            index = np.stack([resampled(common, np.log(row), draws) for row in weights], axis=1)[None]
        kappas = None
    solid = (weights * effective).sum(axis=1)
    warnings: tuple[str, ...] = ()
    if solid.min() < min(FEW_POLICIES, draws):
        who = target.tasks[int(np.argmin(solid))]
        warnings = (
            f"the weights of {who!r} rest on effectively {solid.min():.0f} of {draws} policies: few are as close "
            "to optimal as the prior of the gap requires. Raise draws, or allow larger gaps.",
        )
    return OptimalityDraws(
        **_with_policies(target, planned, index, draws, seed),
        rewards=planned.rewards,
        measure=measure,
        spans=planned.spans,
        weights=weights,
        index=index,
        reward_concentration=kappas,
        statistics={"effective_policies": (("task",), solid)},
        warnings=warnings,
    )


def _concentration(target: OptimalityTarget, draws: int) -> np.ndarray:
    return np.full(draws, float(target.model.policy.concentration))


def _likelihoods(
    target: OptimalityTarget,
    planned: PlannedRewards | BeliefPlannedRewards,
    measure: np.ndarray,
    draws: int,
    seed: int,
    progress: Progress,
) -> tuple[np.ndarray, np.ndarray]:
    """log p(d_m | ρ_j) [M, N] up to a constant a task, and how many policies each stands on."""
    log_survival = log_survival_of(target.model.optimality)
    concentration, num_tasks = _concentration(target, draws), target.num_tasks
    step = block_size(AT_A_TIME, max(len(measure), target.environment.available.size))
    evidence = log_evidence(target.counts, target.environment.available, concentration[0])  # log p(d_m)
    after = _Average(num_tasks, len(measure))
    before = _Average(1, len(measure))
    with progress.of(draws * (num_tasks + 1), "policies") as report:
        for position, task in enumerate((None, *range(num_tasks))):
            for begin in range(0, draws, step):
                part = slice(begin, min(begin + step, draws))
                policies, _ = draw_policies(target, concentration, task, seed, part)
                tails = log_survival(planned.losses(policies))
                odds = np.stack([log_likelihood(policies, counts) for counts in target.counts]) - evidence[:, None]
                share = -np.logaddexp(0.0, logsumexp(odds, axis=0))  # ξ against the mixture
                before.add(0, tails + share[:, None])
                if task is not None:
                    after.add(task, tails)
                report.update(draws * position + part.stop)
    with np.errstate(invalid="ignore"):
        spoken = np.where(np.isfinite(after.log_sum), after.log_sum - before.log_sum, -np.inf)
    return spoken, np.minimum(after.effective, before.effective)


class _Average:
    """Sums of exponentials, and of their squares, in logarithms: rows added to block by block."""

    def __init__(self, rows: int, columns: int) -> None:
        self.log_sum = np.full((rows, columns), -np.inf)
        self.log_square = np.full((rows, columns), -np.inf)

    def add(self, row: int, logs: np.ndarray) -> None:
        """Of logs [K, columns]."""
        self.log_sum[row] = np.logaddexp(self.log_sum[row], logsumexp(logs, axis=0))
        self.log_square[row] = np.logaddexp(self.log_square[row], logsumexp(2 * logs, axis=0))

    @property
    def effective(self) -> np.ndarray:
        """How many equal terms would be as good [rows, columns]."""
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(np.exp(2 * self.log_sum - self.log_square))


def _shared(
    rng: np.random.Generator, target: OptimalityTarget, likelihood: np.ndarray, measure: np.ndarray, draws: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights [M, N], rewards drawn [chain, draw, M] and κ [chain, draw] of tasks with common weights."""
    num_tasks = len(likelihood)
    own = np.cumsum(measure * likelihood, axis=1)
    given = target.model.weights_concentration
    family, parameters = -1, np.zeros(2)
    if isinstance(given, Prior):
        family = given.family
        parameters[: len(given.parameters)] = [float(value) for value in given.parameters]
    length = -(-draws // CHAINS)
    weights = np.zeros_like(likelihood)
    index = np.empty((CHAINS, length, num_tasks), dtype=np.int64)
    kappas = np.empty((CHAINS, length))
    first = target.draw_reward_concentrations(rng, CHAINS)
    for chain, stream in enumerate(rng.spawn(CHAINS)):
        points = stream.random(num_tasks) * own[:, -1]
        assigned = np.array([np.searchsorted(row, point, side="right") for row, point in zip(own, points)])
        assigned = np.minimum(assigned, len(measure) - 1)
        known = (likelihood, np.array(measure), own, family, parameters)
        idle = (np.empty((WARMUP, num_tasks), dtype=np.int64), np.empty(WARMUP), np.zeros_like(likelihood))
        share_rewards(stream, *known, first[chain], assigned, SWEEPS, *idle)
        share_rewards(stream, *known, idle[1][-1], assigned, SWEEPS, index[chain], kappas[chain], weights)
    return weights / (CHAINS * length), index, kappas


def _with_policies(
    target: OptimalityTarget, planned: PlannedRewards | BeliefPlannedRewards, index: np.ndarray, draws: int, seed: int
) -> dict[str, Any]:
    """A policy and an ε for each reward drawn: π_i with probability ∝ β̄(ℓ_ij), ε from β beyond that loss."""
    model, (chains, length, num_tasks) = target.model, index.shape
    shape, concentration = target.environment.available.shape, _concentration(target, draws)
    log_survival = log_survival_of(model.optimality)
    gap, loss, likelihood = np.empty((3, *index.shape))
    keep = index.size * target.environment.available.size <= LARGEST_POLICIES
    kept = np.empty((*index.shape, *shape) if keep else (0,))
    policy_mean = np.empty((num_tasks, *shape))
    for m in range(num_tasks):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(6, m)))
        policies, _ = draw_policies(target, concentration, m, seed, slice(0, draws))
        drawn = index[:, :, m].ravel()
        chosen = np.empty(len(drawn), dtype=np.int64)
        losses = np.empty(len(drawn))
        distinct = np.unique(drawn)
        step = max(1, AT_A_TIME // len(policies))
        for begin in range(0, len(distinct), step):
            some = distinct[begin : begin + step]
            matrix = planned.among(some).losses(policies)
            for column, j in enumerate(some):
                here = np.flatnonzero(drawn == j)
                chosen[here] = resampled(rng, log_survival(matrix[:, column]), len(here))
                losses[here] = matrix[chosen[here], column]
        beyond = np.log(1.0 - rng.random(len(drawn))) + log_survival(losses)
        beyond = np.maximum(gaps_beyond(model.optimality, beyond), np.nextafter(losses, np.inf))
        gap[:, :, m] = beyond.reshape(chains, length)
        loss[:, :, m] = losses.reshape(chains, length)
        likelihood[:, :, m] = log_likelihood(policies[chosen], target.counts[m]).reshape(chains, length)
        policy_mean[m] = policies[chosen].mean(axis=0)
        if keep:
            kept[:, :, m] = policies[chosen].reshape(chains, length, *shape)
    return {
        "gap": gap,
        "loss": loss,
        "policy_mean": policy_mean,
        "policies": kept if keep else None,
        "log_likelihood": likelihood,
        "concentration": np.full(index.shape, concentration[0]),
    }
