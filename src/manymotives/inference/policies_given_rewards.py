"""Tasks that inform each other: the model factored the other way, policies given rewards.

p(π | ρ_j) ∝ ξ(π) β̄(ℓ(π, ρ_j)), so the choices of task m speak for reward j with

    p(d_m | ρ_j) ∝ E[β̄(ℓ(π, ρ_j)) | d_m] / E[β̄(ℓ(π, ρ_j))]

two averages over policies, drawn given the task's choices and given none. From there on the rewards are a finite
mixture with common weights ω ~ Dirichlet(κ λ), sampled by Gibbs with ω integrated out.
"""

from typing import Any

import numpy as np
from scipy.special import logsumexp

from manymotives.errors import InputError
from manymotives.inference.draws import OptimalityDraws
from manymotives.inference.integral_kernels import share_rewards
from manymotives.inference.progress import Progress
from manymotives.inference.rewards_given_policies import (
    AT_A_TIME,
    LARGEST_POLICIES,
    block_size,
    drawn_policies,
    log_likelihood,
)
from manymotives.inference.weights import resampled
from manymotives.models import OptimalityTarget
from manymotives.optimality import gaps_beyond, log_survival_of
from manymotives.planning import Contest
from manymotives.priors import Prior

CHAINS = 4
SWEEPS = 20  # between two draws
WARMUP = 1_000  # sweeps
FEW_POLICIES = 20.0  # effective ones, below which an average over policies is that of a handful


def policies_given_rewards(
    target: OptimalityTarget,
    contest: Contest,
    rewards: np.ndarray,
    measure: np.ndarray,
    draws: int,
    seed: int,
    progress: Progress,
    device: str,
) -> OptimalityDraws:
    """Weights of the rewards, and joint draws of reward, policy and ε."""
    num_tasks = target.num_tasks
    common = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(4,)))
    concentration = target.draw_concentrations(common, draws)
    step = block_size(AT_A_TIME, max(len(measure), target.environment.available.size))
    average = np.empty((num_tasks, len(measure)))
    effective = np.empty_like(average)
    with progress.of(draws * (num_tasks + 1), "policies") as report:
        beforehand, before_size = _average(target, contest, concentration[:, 0], None, seed, step)
        report.update(draws)
        for m in range(num_tasks):
            average[m], effective[m] = _average(target, contest, concentration[:, m], m, seed, step)
            report.update(draws * (m + 2))
    possible = np.isfinite(beforehand)
    if not (possible & (measure > 0)).any():
        raise InputError(
            "the prior of the optimality gap has no mass where it is needed: every policy drawn from the prior loses "
            f"more than {target.model.optimality!r} allows, whatever the reward. Allow larger gaps."
        )
    with np.errstate(invalid="ignore"):
        spoken = np.where(possible, average - beforehand, -np.inf)
    weight = np.where(measure > 0, spoken, -np.inf)
    hopeless = ~np.isfinite(weight).any(axis=1)
    if hopeless.any():
        raise InputError(
            f"every policy drawn for {target.tasks[int(np.argmax(hopeless))]!r} loses more than the prior of the "
            "optimality gap allows, whatever the reward. Allow larger gaps."
        )
    spoken = spoken - weight.max(axis=1, keepdims=True)
    if target.model.shares_rewards:
        weights, index, kappas = _shared(common, target, spoken, measure, draws)
    else:
        weights = measure * np.exp(spoken)
        weights /= weights.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            index = np.stack([resampled(common, np.log(row), draws) for row in weights], axis=1)[None]
        kappas = None
    standing = np.minimum(effective, before_size)
    solid = np.array([row @ size for row, size in zip(weights, standing)])
    warnings: tuple[str, ...] = ()
    if solid.min() < FEW_POLICIES:
        who = target.tasks[int(np.argmin(solid))]
        warnings = (
            f"the weights of {who!r} stand on {solid.min():.0f} of {draws} policies: few are as optimal as the "
            "prior of the gap wants. Raise draws, or allow larger gaps.",
        )
    return OptimalityDraws(
        **_with_policies(target, rewards, index, concentration, seed),
        rewards=rewards,
        measure=measure,
        spans=contest.spans,
        weights=weights,
        index=index,
        reward_concentration=kappas,
        statistics={"effective_policies": (("task",), solid)},
        warnings=warnings,
    )


def _average(
    target: OptimalityTarget, contest: Contest, concentration: np.ndarray, task: int | None, seed: int, step: int
) -> tuple[np.ndarray, np.ndarray]:
    """log E β̄(ℓ(π, ρ_j)) [N] over a task's policies, or nobody's, and how many policies each stands on [N]."""
    log_survival = log_survival_of(target.model.optimality)
    once, twice = [], []
    for begin in range(0, len(concentration), step):
        part = slice(begin, min(begin + step, len(concentration)))
        policies, _ = drawn_policies(target, concentration, task, seed, part)
        tails = log_survival(contest.losses(policies))
        once.append(logsumexp(tails, axis=0))
        twice.append(logsumexp(2 * tails, axis=0))
    first, second = logsumexp(once, axis=0), logsumexp(twice, axis=0)
    with np.errstate(invalid="ignore"):
        size = np.exp(2 * first - second)
    return first - np.log(len(concentration)), np.nan_to_num(size)


def _shared(
    rng: np.random.Generator, target: OptimalityTarget, spoken: np.ndarray, measure: np.ndarray, draws: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights [M, N], rewards drawn [chain, draw, M] and κ [chain, draw] of tasks with common weights."""
    num_tasks = len(spoken)
    own = np.cumsum(measure * np.exp(spoken), axis=1)
    given = target.model.weights_concentration
    family, parameters = -1, np.zeros(2)
    if isinstance(given, Prior):
        family = given.family
        parameters[: len(given.parameters)] = [float(value) for value in given.parameters]
    chains = min(CHAINS, draws)
    length = -(-draws // chains)
    weights = np.zeros_like(spoken)
    index = np.empty((chains, length, num_tasks), dtype=np.int64)
    kappas = np.empty((chains, length))
    first = target.draw_reward_concentrations(rng, chains)
    assert first is not None
    for chain, stream in enumerate(rng.spawn(chains)):
        points = stream.random(num_tasks) * own[:, -1]
        assigned = np.array([np.searchsorted(row, point, side="right") for row, point in zip(own, points)])
        assigned = np.minimum(assigned, len(measure) - 1)
        arguments = (spoken, np.array(measure), own, family, parameters)
        idle = np.zeros_like(spoken)
        begin = (index[chain, :1], kappas[chain, :1], idle)  # overwritten at once
        share_rewards(stream, *arguments, first[chain], assigned, WARMUP, 1, *begin)
        kappa, kept = kappas[chain, 0], (index[chain], kappas[chain], weights)
        share_rewards(stream, *arguments, kappa, assigned, SWEEPS, length, *kept)
    return weights / (chains * length), index, kappas


def _with_policies(
    target: OptimalityTarget, rewards: np.ndarray, index: np.ndarray, concentration: np.ndarray, seed: int
) -> dict[str, Any]:
    """A policy and an ε for each reward drawn: π_i with probability ∝ β̄(ℓ_ij), ε from β beyond that loss."""
    model, (chains, length, num_tasks) = target.model, index.shape
    shape = target.environment.available.shape
    log_survival = log_survival_of(model.optimality)
    gap, loss, likelihood, concentrations = np.empty((4, *index.shape))
    keep = index.size * target.environment.available.size <= LARGEST_POLICIES
    kept = np.empty((*index.shape, *shape) if keep else (0,))
    policy_mean = np.empty((num_tasks, *shape))
    for m in range(num_tasks):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(6, m)))
        policies, _ = drawn_policies(target, concentration[:, m], m, seed, slice(0, len(concentration)))
        drawn = index[:, :, m].ravel()
        chosen = np.empty(len(drawn), dtype=np.int64)
        losses = np.empty(len(drawn))
        distinct = np.unique(drawn)
        step = max(1, AT_A_TIME // len(policies))
        for begin in range(0, len(distinct), step):
            some = distinct[begin : begin + step]
            few = Contest.between(target.environment, rewards[some], on=target.on, scale_free=model.scale_free)
            matrix = few.losses(policies)
            for column, j in enumerate(some):
                here = np.flatnonzero(drawn == j)
                chosen[here] = resampled(rng, log_survival(matrix[:, column]), len(here))
                losses[here] = matrix[chosen[here], column]
        beyond = np.log(1.0 - rng.random(len(drawn))) + log_survival(losses)
        gap[:, :, m] = gaps_beyond(model.optimality, beyond).reshape(chains, length)
        loss[:, :, m] = losses.reshape(chains, length)
        likelihood[:, :, m] = log_likelihood(policies[chosen], target.counts[m]).reshape(chains, length)
        concentrations[:, :, m] = concentration[chosen, m].reshape(chains, length)
        policy_mean[m] = policies[chosen].mean(axis=0)
        if keep:
            kept[:, :, m] = policies[chosen].reshape(chains, length, *shape)
    return {
        "gap": gap,
        "loss": loss,
        "policy_mean": policy_mean,
        "policies": kept if keep else None,
        "log_likelihood": likelihood,
        "concentration": concentrations,
    }
