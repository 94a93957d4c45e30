"""Algorithm 2 as the paper has it: policies given choices, rewards given policies.

Each of K policies π_i of a task gives every reward of the set a weight, by the optimality integral; their average is
the posterior. As printed, the rewards' measure may be drawn anew for each policy, λ^(i) ~ Dirichlet(κ λ).
"""

from collections.abc import Callable

import numpy as np

from manymotives.errors import InputError
from manymotives.inference.device_integral import Device
from manymotives.inference.draws import OptimalityDraws
from manymotives.inference.integral import Judgement, integrate, judged
from manymotives.inference.progress import Progress
from manymotives.inference.weights import resampled
from manymotives.models import OptimalityTarget
from manymotives.planning import Contest

AT_A_TIME = 2_000_000  # losses of one block; on a device, fifty times as many
CHUNK = 100  # policies that share a stream of random numbers
LARGEST_POLICIES = 20_000_000  # numbers, of all policies drawn: beyond it only their means are kept


def rewards_given_policies(
    target: OptimalityTarget,
    contest: Contest,
    rewards: np.ndarray,
    measure: np.ndarray,
    draws: int,
    seed: int,
    progress: Progress,
    device: str,
) -> OptimalityDraws:
    """Weights of the rewards, and one draw of (policy, ε, reward) for each policy."""
    model, num_tasks, num_rewards = target.model, target.num_tasks, len(measure)
    common = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(4,)))
    concentration = target.draw_concentrations(common, draws)
    kappa = target.draw_reward_concentrations(common, draws)
    index = np.empty((draws, num_tasks), dtype=np.int64)
    gap, loss, log_mass, likelihood = np.empty((4, draws, num_tasks))
    size = target.environment.available.size
    keep = draws * num_tasks * size <= LARGEST_POLICIES
    kept = np.empty((draws if keep else 0, num_tasks, *target.environment.available.shape))
    policy_sum = np.zeros((num_tasks, *target.environment.available.shape))
    sums = [_Sum(num_rewards) for _ in range(num_tasks)]
    on_device = Device(target, rewards) if device == "gpu" else None
    step = block_size(AT_A_TIME * (1 if on_device is None else 50), max(num_rewards, size))
    judge = on_device.judge if on_device else _judge_here(target, contest)
    made = 0
    with progress.of(draws, "policies") as report:
        try:
            for begin in range(0, draws, step):
                part = slice(begin, min(begin + step, draws))
                for m in range(num_tasks):
                    policies, rngs = drawn_policies(target, concentration[:, m], m, seed, part)
                    uniforms = np.concatenate([1.0 - rng.random((CHUNK, 2)) for rng in rngs])[: len(policies)]
                    shares = measure[None]
                    if kappa is not None:
                        tables = [
                            _dirichlet(rng, each[:, None] * measure) for rng, each in zip(rngs, _chunks(kappa, part))
                        ]
                        shares = np.concatenate(tables)
                    found = judge(policies, shares, uniforms)
                    sums[m].add(found)
                    index[part, m], gap[part, m], loss[part, m] = found.drawn, found.gap, found.loss
                    log_mass[part, m] = found.log_mass
                    likelihood[part, m] = log_likelihood(policies, target.counts[m])
                    policy_sum[m] += policies.sum(axis=0)
                    if keep:
                        kept[part, m] = policies
                made = part.stop
                report.update(made)
        except KeyboardInterrupt:
            if made == 0:
                raise
    warnings: tuple[str, ...] = (f"stopped by hand after {made} of {draws} policies.",) if made < draws else ()
    warnings += _unexplained(target, log_mass[:made])
    chosen = np.repeat(np.arange(made)[:, None], num_tasks, axis=1)
    policy_mean = policy_sum / made
    for m in range(num_tasks):
        impossible = ~np.isfinite(log_mass[:made, m])
        if model.empty_set == "drop" or (model.empty_set == "condition" and impossible.any()):
            log_weight = log_mass[:made, m] if model.empty_set == "drop" else np.where(impossible, -np.inf, 0.0)
            chosen[:, m] = resampled(np.random.default_rng([seed, m]), log_weight, made)
            if keep:
                policy_mean[m] = kept[chosen[:, m], m].mean(axis=0)
    each = (chosen, np.arange(num_tasks))
    return OptimalityDraws(
        rewards=rewards,
        measure=measure,
        spans=contest.spans,
        weights=np.stack([total.normalised() for total in sums]),
        index=index[each][None],
        gap=gap[each][None],
        loss=loss[each][None],
        policy_mean=policy_mean,
        policies=kept[each][None] if keep else None,
        log_likelihood=likelihood[each][None],
        concentration=concentration[each][None],
        reward_concentration=None if kappa is None else kappa[None, :made],
        statistics={"log_mass": (("chain", "draw", "task"), log_mass[each][None])},
        warnings=warnings,
    )


def block_size(numbers: int, each: int) -> int:
    """How many policies make so many numbers: whole chunks."""
    return CHUNK * max(1, numbers // each // CHUNK)


def drawn_policies(
    target: OptimalityTarget, concentration: np.ndarray, task: int | None, seed: int, part: slice
) -> tuple[np.ndarray, list[np.random.Generator]]:
    """Policies `part` of a task (None: of nobody's choices) and the streams they came from, one a chunk.

    The same policies whatever the blocks they are asked for in, and whoever else is there.
    """
    place = 0 if task is None else task + 1
    first = part.start // CHUNK
    rngs = [
        np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(5, place, first + chunk)))
        for chunk in range(-(-(part.stop - part.start) // CHUNK))
    ]
    tables = [target.draw_policies(rng, each, task) for rng, each in zip(rngs, _chunks(concentration, part))]
    return np.concatenate(tables), rngs


def _chunks(values: np.ndarray, part: slice) -> list[np.ndarray]:
    return [values[begin : min(begin + CHUNK, part.stop)] for begin in range(part.start, part.stop, CHUNK)]


def log_likelihood(policies: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Σ n(s, a) log π(a|s) [K] of policies [K, S, A]."""
    seen = counts > 0
    with np.errstate(divide="ignore"):
        return np.log(policies[:, seen]) @ counts[seen]


def _judge_here(target: OptimalityTarget, contest: Contest) -> Callable[..., Judgement]:
    optimality, empty_set = target.model.optimality, target.model.empty_set

    def judge(policies: np.ndarray, shares: np.ndarray, uniforms: np.ndarray) -> Judgement:
        found = integrate(contest.losses(policies), shares, optimality, uniforms, within=empty_set != "prior")
        return judged(found, shares, empty_set)

    return judge


class _Sum:
    """Weights [N] added up over blocks of policies that may be in different units."""

    def __init__(self, num_rewards: int) -> None:
        self.total = np.zeros(num_rewards)
        self.reference = -np.inf

    def add(self, found: Judgement) -> None:
        unit = max(self.reference, float(found.reference))
        if unit > -np.inf:
            self.total = self.total * np.exp(self.reference - unit) + found.total * np.exp(found.reference - unit)
            self.reference = unit

    def normalised(self) -> np.ndarray:
        return self.total / self.total.sum()


def _dirichlet(rng: np.random.Generator, concentrations: np.ndarray) -> np.ndarray:
    """Weights [K, N] from Dirichlet distributions, in logarithms because most parameters are tiny."""
    with np.errstate(divide="ignore"):
        log_gamma = np.log(rng.standard_gamma(concentrations + 1.0))
        log_gamma += np.log1p(-rng.random(concentrations.shape)) / concentrations
    weights = np.exp(log_gamma - log_gamma.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _unexplained(target: OptimalityTarget, log_mass: np.ndarray) -> tuple[str, ...]:
    """Policies to which β gives no reward at all."""
    if target.model.empty_set == "prior":
        return ()
    impossible = ~np.isfinite(log_mass)
    worst = int(np.argmax(impossible.mean(axis=0)))
    share = float(impossible[:, worst].mean())
    if share == 0:
        return ()
    who = repr(target.tasks[worst])
    if share == 1:
        raise InputError(
            f"the prior of the optimality gap has no mass where it is needed: every policy drawn for {who} loses more "
            f"than {target.model.optimality!r} allows, whatever the reward. Allow larger gaps, or use "
            'empty_set="prior".'
        )
    return (
        f"{share:.0%} of the policies drawn for {who} lose more than the prior of the optimality gap allows, whatever "
        "the reward; they were left out.",
    )
