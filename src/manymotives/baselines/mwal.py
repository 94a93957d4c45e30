"""MWAL, apprenticeship as a game (Syed & Schapire 2008): at least as good as the demonstrator, whatever it wants.

    value of the game  v* = max_ψ min_w w · (μ(ψ) − μ_E)         mixtures ψ of policies; w on the simplex, ρ = φ w
    round t = 1 … T    w_t = W_t / Σ_k W_t(k);   π_t optimal for the reward φ w_t
                       W_{t+1}(k) = W_t(k) β^{G_t(k)},   G_t = (μ(π_t) − μ_E) / 2r,   β = 1 / (1 + √(2 ln K / T))
    theorem            of ψ = the mixture of π_1 … π_T, 1/T each:
                       min_w w · (μ(ψ) − μ_E) ≥ v* − 2r (√(2 ln K / T) + ln K / T)

It assumes that more of every feature is better (w ≥ 0) and nothing of how the demonstrator, E, chooses. Feature
expectations μ are discounted and normalised, from the start distribution (see `expectations`), so they say little of
states that are rarely reached; r is the span of the features (in a round, two of them win or lose by at most 2r more or
less than each other, which is all that the theorem needs, also where episodes end). There is no reward to infer: the w
are an opponent's.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from manymotives.baselines.common import (
    Problem,
    Result,
    checked_count,
    checked_number,
    checked_problem,
    demonstrated_policies,
    listed,
)
from manymotives.baselines.expectations import Features, Mixture, checked_features, one_hot, padded
from manymotives.errors import InputError
from manymotives.planning import reliable_plan
from manymotives.planning.visits import discounted_visits

SETTLED = 0.1  # of the largest feature shown: how far from the value of the game a mixture may be without a warning


def mwal(
    environment: Any,
    demonstrations: Any,
    *,
    iterations: int = 1000,
    features: Any = None,
    on: str = "state",
    start: Any = None,
    smoothing: float = 0.0,
) -> Result:
    """The mixture of policies that does best for the least favourable weights, as one stationary policy per task.

    `policies` visits every state–action pair exactly as often as the mixture, which is in `details["mixture_policies"]`
    with `details["mixture_weights"]`. `details["advantage"]` is its advantage for the worst feature, min_k μ_k(ψ) −
    μ_k(demonstrator); `details["gap"]`, which is at most `details["bound"]`, is how much larger the advantage of the
    best mixture could be.

    Parameters
    ----------
    environment, demonstrations
        The environment, and the demonstrations in it.
    iterations
        T: the number of rounds of the game, with one plan each.
    features, on
        φ: [S, K], or [S, A, K] with `on="state_action"`. By default, one feature for each state (or pair).
    start
        Where episodes begin: probabilities [S] or a mapping from names. By default, where each task's own episodes
        begin.
    smoothing
        The pseudo-count of every available action with which the demonstrator's policy is estimated.

    Returns
    -------
    Result
        `policies` (task, state, action), `rewards` if the method infers them, `details` and `warnings`.
    """
    problem = checked_problem(environment, demonstrations, start=start)
    basis = checked_features(environment, features, on)
    rounds = checked_count(iterations, "iterations")
    span = basis.span
    if span == 0 and not problem.environment.is_terminal.any():  # where episodes end, a policy may collect for longer
        raise InputError("the features are constant, so no policy has more of them than another.")

    demonstrator = demonstrated_policies(problem, checked_number(smoothing, "smoothing"))
    _, demonstrated = _expectations(problem, basis, demonstrator, problem.starts)
    game = _play(problem, basis, demonstrated, rounds)
    advantage = np.array(
        [(mixture.weights @ mu - mu_e).min() for mixture, mu, mu_e in zip(game.mixtures, game.collected, demonstrated)]
    )

    # against the average weights w̄ no mixture has more than max_π w̄ · (μ(π) − μ_E), so v* is at most that
    best_value = reliable_plan(problem.environment, basis.rewards(game.average_weights), on=on).value
    best_collected = (1 - problem.environment.discount) * (problem.starts * best_value).sum(axis=1)
    upper_bound = best_collected - (game.average_weights * demonstrated).sum(axis=1)
    gap = np.maximum(upper_bound - advantage, 0.0)
    warnings: tuple[str, ...] = ()
    wide = gap > SETTLED * np.abs(demonstrated).max(axis=1)
    if wide.any():
        far = [problem.named(task) for task in np.flatnonzero(wide)]
        warnings = (
            f"the game has not converged after {rounds} rounds for {listed(far)}: some mixture may be better in "
            f"every feature by up to {gap.max():.2g}. Raise `iterations`.",
        )

    log_k = np.log(basis.size)
    bound = 2 * span * (np.sqrt(2 * log_k / rounds) + log_k / rounds)
    mixture_policies, mixture_weights = padded(game.mixtures)
    details = {
        "mixture_policies": problem.labelled(mixture_policies, "task", "component", "state", "action"),
        "mixture_weights": problem.labelled(mixture_weights, "task", "component"),
        "weights": problem.labelled(game.average_weights, "task", "feature", feature=basis.names),
        "demonstrated": problem.labelled(demonstrated, "task", "feature", feature=basis.names),
        "advantage": problem.labelled(advantage, "task"),
        "gap": problem.labelled(gap, "task"),
        "bound": problem.labelled(np.array(bound)),
    }
    policies = np.stack([mixture.stationary() for mixture in game.mixtures])
    return problem.result("mwal", policies, details=details, warnings=warnings)


class _Game(NamedTuple):
    """What was played in all rounds, for each of M tasks."""

    mixtures: list[Mixture]  # ψ: each policy as often as it was optimal
    collected: list[np.ndarray]  # [N, K] μ of each policy of the mixture
    average_weights: np.ndarray  # [M, K] w̄ = Σ_t w_t / T


@dataclass
class _Played:
    """The different policies that were optimal in some round, for one task."""

    position: dict[bytes, int] = field(default_factory=dict)  # of a policy in these lists, by its actions
    policies: list[np.ndarray] = field(default_factory=list)  # [S, A]
    visits: list[np.ndarray] = field(default_factory=list)  # [S]
    collected: list[np.ndarray] = field(default_factory=list)  # [K] μ
    times: list[int] = field(default_factory=list)


def _play(problem: Problem, basis: Features, demonstrated: np.ndarray, rounds: int) -> _Game:
    """T rounds of multiplicative weights, all tasks at once, from even weights; `demonstrated` is μ_E [M, K]."""
    num_tasks, span = problem.num_tasks, basis.span
    log_beta = -np.log1p(np.sqrt(2 * np.log(basis.size) / rounds))
    rate = log_beta / (2 * span) if span > 0 else 0.0
    log_weights = np.zeros((num_tasks, basis.size))  # log W_t
    average_weights = np.zeros((num_tasks, basis.size))
    played = [_Played() for _ in range(num_tasks)]
    actions = None
    for _ in range(rounds):
        weights = _normalised(log_weights)
        average_weights += weights / rounds
        plan = reliable_plan(problem.environment, basis.rewards(weights), on=basis.on, start=actions)
        actions = plan.actions
        keys = [row.tobytes() for row in actions]

        new = [task for task, key in enumerate(keys) if key not in played[task].position]
        if new:
            policies = one_hot(actions[new], problem.environment.num_actions)
            visits, collected = _expectations(problem, basis, policies, problem.starts[new])
            for index, task in enumerate(new):
                mine = played[task]
                mine.position[keys[task]] = len(mine.policies)
                mine.policies.append(policies[index])
                mine.visits.append(visits[index])
                mine.collected.append(collected[index])
                mine.times.append(0)

        positions = [mine.position[key] for mine, key in zip(played, keys)]
        for mine, position in zip(played, positions):
            mine.times[position] += 1
        advantage = np.stack([mine.collected[position] for mine, position in zip(played, positions)]) - demonstrated
        log_weights += rate * advantage

    mixtures = [
        Mixture(np.stack(mine.policies), np.array(mine.times) / rounds, np.stack(mine.visits)) for mine in played
    ]
    return _Game(mixtures, [np.stack(mine.collected) for mine in played], average_weights)


def _expectations(
    problem: Problem, basis: Features, policies: np.ndarray, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Discounted visits [M, S] of policies [M, S, A], and their feature expectations μ [M, K]."""
    visits = discounted_visits(problem.environment, policies, starts)
    return visits, (1 - problem.environment.discount) * basis.collected(visits, policies)


def _normalised(log_weights: np.ndarray) -> np.ndarray:
    """w = W / Σ_k W(k) [M, K] from log W."""
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)
