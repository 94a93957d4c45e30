"""Apprenticeship by projection (Abbeel & Ng 2004, section 3.1): a mixture of policies that collects what was collected.

    w_i = μ(demonstrator) − μ̄_{i−1};   margin t_i = |w_i|;   π_i optimal for φ w_i
    μ̄_i = the point nearest to μ(demonstrator) between μ̄_{i−1} and μ(π_i)
    at the end, the mixture of all π_i whose μ is nearest to μ(demonstrator): a quadratic program (section 3, end)

It assumes that rewards are linear in the features: if |w|₂ ≤ 1 the mixture's value, times 1 − γ, is within the last
distance of the demonstrator's, whatever w. It never does better than the demonstrator on purpose. μ is discounted and
normalised, from the start distribution (see `expectations`); it says little of states that are rarely reached. No
reward is inferred.
"""

from typing import Any

import numpy as np
from scipy.optimize import nnls

from manymotives.baselines.common import (
    Result,
    checked_count,
    checked_number,
    checked_problem,
    demonstrated_policies,
    listed,
)
from manymotives.baselines.expectations import Features, Mixture, checked_features, one_hot, padded
from manymotives.data.environment import Environment
from manymotives.planning import reliable_plan
from manymotives.planning.problem import allowed_actions
from manymotives.planning.visits import discounted_visits


def projection(
    environment: Any,
    demonstrations: Any,
    *,
    tolerance: float = 5e-3,
    iterations: int = 500,
    features: Any = None,
    on: str = "state",
    start: Any = None,
    smoothing: float = 0.0,
) -> Result:
    """The mixture of policies whose feature expectations are closest to the demonstrator's, as one stationary policy
    per task.

    `policies` visits every state–action pair exactly as often as the mixture, which is in `details["mixture_policies"]`
    with `details["mixture_weights"]`. `details["margin"]` contains the successive t_i, and `details["distance"]` the
    final distance.

    Parameters
    ----------
    environment, demonstrations
        The environment, and the demonstrations in it.
    tolerance
        ε: the iterations stop if the distance |μ(demonstrator) − μ(mixture)|₂ is below it. It has the unit of the
        features; if these are states, it is a fraction of one, since μ is normalised.
    iterations
        The largest number of policies.
    features, on, start, smoothing
        As for `mwal`. The signs of weights do not matter here.

    Returns
    -------
    Result
        `policies` (task, state, action), `rewards` if the method infers them, `details` and `warnings`.
    """
    problem = checked_problem(environment, demonstrations, start=start)
    basis = checked_features(environment, features, on)
    tolerance, most = checked_number(tolerance, "tolerance", above=True), checked_count(iterations, "iterations")
    shown = demonstrated_policies(problem, checked_number(smoothing, "smoothing"))
    visits = discounted_visits(problem.environment, shown, problem.starts)
    demonstrated = (1 - problem.environment.discount) * basis.collected(visits, shown)
    mixtures, margins, distances = [], [], []
    for target, start_weights in zip(demonstrated, problem.starts):
        mixture, margin, left = _nearest(problem.environment, basis, target, start_weights, tolerance, most)
        mixtures.append(mixture)
        margins.append(margin)
        distances.append(left)
    distance = np.array(distances)
    warnings: tuple[str, ...] = ()
    if (distance > tolerance).any():
        far = [problem.named(task) for task in np.flatnonzero(distance > tolerance)]
        warnings = (
            f"after {most} policies the features of {listed(far)} are still missed by up to {distance.max():.2g}. "
            "Raise `iterations` or `tolerance`.",
        )
    longest = max(len(margin) for margin in margins)
    path = np.stack([np.append(margin, np.full(longest - len(margin), np.nan)) for margin in margins])
    mixture_policies, mixture_weights = padded(mixtures)
    details = {
        "mixture_policies": problem.labelled(mixture_policies, "task", "component", "state", "action"),
        "mixture_weights": problem.labelled(mixture_weights, "task", "component"),
        "demonstrated": problem.labelled(demonstrated, "task", "feature", feature=basis.names),
        "margin": problem.labelled(path, "task", "iteration"),
        "distance": problem.labelled(distance, "task"),
    }
    policies = np.stack([mixture.stationary() for mixture in mixtures])
    return problem.result("projection", policies, details=details, warnings=warnings)


def _nearest(
    environment: Environment, basis: Features, target: np.ndarray, start: np.ndarray, tolerance: float, most: int
) -> tuple[Mixture, np.ndarray, float]:
    """The mixture of one task, its margins on the way, and its distance from the demonstrator."""

    def walked(policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        visits = discounted_visits(environment, policy[None], start[None])
        return visits[0], (1 - environment.discount) * basis.collected(visits, policy[None])[0]

    allowed = allowed_actions(environment)
    policies = [allowed / allowed.sum(axis=1, keepdims=True)]  # begin with blind choice, which takes no side
    visits, collected = ([each] for each in walked(policies[0]))
    nearest = collected[0]
    margins: list[float] = []
    shares, distance = _closest(np.stack(collected), target)
    actions = None
    known: set[bytes] = set()
    while len(margins) < most:
        direction = target - nearest
        margins.append(float(np.linalg.norm(direction)))
        if distance <= tolerance:
            break
        plan = reliable_plan(environment, basis.rewards(direction), on=basis.on, start=actions)
        actions = plan.actions
        policy = one_hot(actions, environment.num_actions)
        d, mu = walked(policy)
        if actions.tobytes() not in known:  # met again, it adds nothing to the hull
            known.add(actions.tobytes())
            policies.append(policy)
            visits.append(d)
            collected.append(mu)
            shares, distance = _closest(np.stack(collected), target)
        along = mu - nearest
        length = along @ along
        step = min(1.0, max(0.0, along @ direction / length)) if length > 0 else 0.0
        if step == 0:  # no policy is nearer in this direction: the target lies outside what policies can reach
            break
        nearest = nearest + step * along
    used = shares > 0
    mixture = Mixture(np.stack(policies)[used], shares[used], np.stack(visits)[used])
    return mixture, np.array(margins), distance


def _closest(points: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights on the simplex of the points [N, K] nearest to the target.

    min |Aᵀλ|² + (Σλ − 1)² over λ ≥ 0, with A = points − target, has the direction of the answer: for λ = t ν with ν on
    the simplex the best t leaves |Aᵀν|² / (1 + |Aᵀν|²), which grows with |Aᵀν|.
    """
    away = points - target
    scale = max(float(np.abs(away).max()), 1e-300)  # far from 1, the last row would drown or be drowned
    system = np.vstack([away.T / scale, np.ones(len(points))])
    shares = nnls(system, np.append(np.zeros(len(target)), 1.0), maxiter=100 * len(points) + 1000)[0]
    shares = shares / shares.sum()
    return shares, float(np.linalg.norm(shares @ away))
