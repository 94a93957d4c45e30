"""MWAL, apprenticeship as a game (Syed & Schapire 2008): at least as good as the demonstrator, whatever it wants.

    maximise over mixtures of policies  min_w w · (μ(π) − μ(demonstrator))      w on the simplex, ρ = φ w, w ≥ 0
    n times:  π_i optimal for φ w_i;  w_{i+1} ∝ w_i β^{(μ(π_i) − μ(demonstrator)) / 2r},  β = 1 / (1 + √(2 ln K / n))
    the mixture of all π_i falls short of the best possible by at most 2 r (√(2 ln K / n) + ln K / n)

It assumes that more of every feature is better (w ≥ 0) and nothing of how the demonstrator chooses. μ is discounted and
normalised, from the start distribution (see `expectations`), so it says little of states that are rarely reached; r is
the span of the features (in a round, two of them win or lose by at most 2 r more or less than each other, which is all
that the theorem needs, also where episodes end). There is no reward to infer: the w are an opponent's.
"""

from typing import Any

import numpy as np

from manymotives.baselines.common import (
    Result,
    checked_count,
    checked_number,
    checked_problem,
    demonstrated_policies,
    listed,
)
from manymotives.baselines.expectations import Mixture, checked_features, discounted_visits, one_hot, padded
from manymotives.errors import InputError
from manymotives.planning import reliable_plan

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
    pooled: bool = False,
    seed: Any = 0,
) -> Result:
    """The mixture of policies that does best against the least favourable weights, as one stationary policy a task.

    Parameters
    ----------
    iterations
        n: rounds of the game, one plan each.
    features, on
        φ: [S, K], or [S, A, K] with `on="state_action"`; by default one for each state (or pair).
    start
        Where episodes begin: probabilities [S] or a mapping from names. Default: where each task's own episodes do.
    smoothing
        Choices imagined for every available action when the demonstrator's policy is estimated.
    pooled
        One policy for all tasks, from all choices.
    seed
        Not used: nothing here is random.

    `policies` visits every state and action exactly as often as the mixture, which is in `details["mixture_policies"]`
    with `details["mixture_weights"]`. `details["advantage"]` is its least min_k μ_k(π) − μ_k(demonstrator);
    `details["gap"]`, at most `details["bound"]`, how much more the best mixture could have.
    """
    problem = checked_problem(environment, demonstrations, seed=seed, pooled=pooled, start=start)
    basis = checked_features(environment, features, on)
    count = checked_count(iterations, "iterations")
    span = basis.span
    if span == 0 and not problem.environment.is_terminal.any():  # where episodes end, a policy may collect for longer
        raise InputError("the features are all the same: no policy has more of them than another.")
    gamma, num_tasks = problem.environment.discount, problem.num_tasks
    shown = demonstrated_policies(problem, checked_number(smoothing, "smoothing"))
    visits = discounted_visits(problem.environment, shown, problem.starts)
    demonstrated = (1 - gamma) * basis.collected(visits, shown)

    log_k = np.log(basis.size)
    rate = -np.log1p(np.sqrt(2 * log_k / count)) / (2 * span) if span > 0 else 0.0  # log β / 2r
    log_weights = np.zeros((num_tasks, basis.size))
    average = np.zeros((num_tasks, basis.size))
    known: list[dict[bytes, int]] = [{} for _ in range(num_tasks)]  # policies met before, by their actions
    played: list[list[int]] = [[] for _ in range(num_tasks)]  # how often each
    parts: list[list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = [[] for _ in range(num_tasks)]
    actions = None
    for _ in range(count):
        weights = _shares(log_weights)
        average += weights / count
        plan = reliable_plan(problem.environment, basis.rewards(weights), on=on, start=actions)
        actions = plan.actions
        keys = [row.tobytes() for row in actions]
        new = [task for task, key in enumerate(keys) if key not in known[task]]
        if new:
            policies = one_hot(actions[new], problem.environment.num_actions)
            reached = discounted_visits(problem.environment, policies, problem.starts[new])
            collected = (1 - gamma) * basis.collected(reached, policies)
            for place, task in enumerate(new):
                known[task][keys[task]] = len(parts[task])
                parts[task].append((policies[place], reached[place], collected[place]))
                played[task].append(0)
        which = [known[task][key] for task, key in enumerate(keys)]
        for task, index in enumerate(which):
            played[task][index] += 1
        won = np.stack([parts[task][index][2] for task, index in enumerate(which)]) - demonstrated
        log_weights += rate * won

    mixtures = [
        Mixture(np.stack([p for p, _, _ in part]), np.array(times) / count, np.stack([d for _, d, _ in part]))
        for part, times in zip(parts, played)
    ]
    reached_by_all = [np.stack([mu for _, _, mu in part]) for part in parts]
    advantage = np.array([(m.weights @ mu - e).min() for m, mu, e in zip(mixtures, reached_by_all, demonstrated)])
    best = reliable_plan(problem.environment, basis.rewards(average), on=on).value
    most = (1 - gamma) * (problem.starts * best).sum(axis=1) - (average * demonstrated).sum(axis=1)
    gap = np.maximum(most - advantage, 0.0)
    warnings: tuple[str, ...] = ()
    wide = gap > SETTLED * np.abs(demonstrated).max(axis=1)
    if wide.any():
        far = [problem.named(task) for task in np.flatnonzero(wide)]
        warnings = (
            f"the game has not settled after {count} rounds for {listed(far)}: some mixture may be better in every "
            f"feature by up to {gap.max():.2g}. Raise `iterations`.",
        )
    mixture_policies, mixture_weights = padded(mixtures)
    bound = 2 * span * (np.sqrt(2 * log_k / count) + log_k / count)
    details = {
        "mixture_policies": problem.labelled(mixture_policies, "task", "component", "state", "action"),
        "mixture_weights": problem.labelled(mixture_weights, "task", "component"),
        "weights": problem.labelled(average, "task", "feature", feature=basis.names),
        "demonstrated": problem.labelled(demonstrated, "task", "feature", feature=basis.names),
        "advantage": problem.labelled(advantage, "task"),
        "gap": problem.labelled(gap, "task"),
        "bound": problem.labelled(np.array(bound)),
    }
    policies = np.stack([mixture.stationary() for mixture in mixtures])
    return problem.result("mwal", policies, details=details, warnings=warnings)


def _shares(log_weights: np.ndarray) -> np.ndarray:
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)
