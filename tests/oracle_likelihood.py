"""The log likelihood of choices and its maximum by plain NumPy and SciPy; nothing of the library is imported.

    soft      V(s) = log Σ_a exp(c Q(s, a)) / c        greedy      V(s) = max_a Q(s, a)        Q = r + γ P V
    π(a | s) = (1 − lapse) softmax(c Q)(a | s) + lapse / |A(s)|        log L = Σ N(s, a) log π(a | s)

A terminal state has no actions: its value is its reward where rewards lie on states, and 0 where they lie on pairs.
Maxima are found by SciPy's BFGS and Newton steps, with derivatives by differences of this log likelihood alone.
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

Array = np.ndarray


@dataclass(frozen=True)
class Problem:
    """A model of choices as plain arrays. Parameters are weights, then logarithms or logits of what is in `infers`."""

    transitions: Array  # [S, A, S]; rows of actions that do not exist are 0
    available: Array  # [S, A]
    terminal: Array  # [S]
    counts: Array  # [S, A]
    features: Array  # [S, K], or [S, A, K] for rewards on pairs
    discount: float
    inverse_temperature: float = 1.0
    lapse: float = 0.0
    is_soft: bool = True
    depth: int | None = None
    infers: tuple[str, ...] = ()  # of "inverse_temperature", "lapse" and "discount"

    def unpacked(self, parameters: Array) -> tuple[Array, float, float, float]:
        """Rewards [S, A or 1], c, lapse and γ."""
        size = self.features.shape[-1]
        rewards = self.features @ parameters[:size]
        rest = dict(zip(self.infers, parameters[size:]))
        temperature = np.exp(rest["inverse_temperature"]) if "inverse_temperature" in rest else self.inverse_temperature
        lapse = special.expit(rest["lapse"]) if "lapse" in rest else self.lapse
        discount = special.expit(rest["discount"]) if "discount" in rest else self.discount
        return rewards, temperature, lapse, discount

    def log_likelihood(self, parameters: Array) -> float:
        rewards, temperature, lapse, discount = self.unpacked(np.asarray(parameters, float))
        q = self.action_values(rewards, temperature, discount)
        total = 0.0
        for s in np.flatnonzero(self.counts.sum(axis=1)):
            exists = self.available[s]
            log_intended = special.log_softmax(temperature * q[s, exists])
            policy = np.logaddexp(np.log1p(-lapse) + log_intended, np.log(lapse / exists.sum()) if lapse else -np.inf)
            total += self.counts[s, exists] @ policy
        return float(total)

    def action_values(self, rewards: Array, temperature: float, discount: float) -> Array:
        """Q [S, A]: by so many backups, or by Newton steps (policy iteration) to rounding."""
        here = rewards[:, None] if rewards.ndim == 1 else rewards
        end = rewards if rewards.ndim == 1 else np.zeros(len(rewards))
        values = np.zeros(len(rewards)) if self.depth is not None else np.where(self.terminal, end, 0.0)
        for _ in range(self.depth if self.depth is not None else 200):
            q = np.where(self.available, here + discount * self.transitions @ values, -np.inf)
            policy = np.zeros_like(q)
            best = np.where(self.terminal, end, 0.0)
            for s in np.flatnonzero(~self.terminal):
                if self.is_soft:
                    best[s] = special.logsumexp(temperature * q[s]) / temperature
                    policy[s] = np.exp(temperature * (q[s] - best[s]))
                else:
                    best[s], policy[s, q[s].argmax()] = q[s].max(), 1.0
            if self.depth is not None:
                values = best
                continue
            chain = np.einsum("sa,sat->st", policy, self.transitions)
            step = np.linalg.solve(np.eye(len(values)) - discount * chain, best - values)
            values = values + step
            if np.abs(step).max() <= 1e-14 * max(1.0, np.abs(values).max()):
                break
        return q if self.depth is not None else np.where(self.available, here + discount * self.transitions @ values, 0)


def gradient(problem: Problem, parameters: Array, step: float = 1e-4) -> Array:
    """By differences of fourth order."""
    found = np.empty(len(parameters))
    for k, away in enumerate(np.eye(len(parameters)) * step):
        one, two = (
            problem.log_likelihood(parameters + size * away) - problem.log_likelihood(parameters - size * away)
            for size in (1, 2)
        )
        found[k] = (8 * one - two) / (12 * step)
    return found


def hessian(problem: Problem, parameters: Array, step: float = 1e-3) -> Array:
    """By differences of fourth order of the above."""
    rows = []
    for away in np.eye(len(parameters)) * step:
        one, two = (
            gradient(problem, parameters + size * away) - gradient(problem, parameters - size * away) for size in (1, 2)
        )
        rows.append((8 * one - two) / (12 * step))
    return (np.array(rows) + np.array(rows).T) / 2


def maximum(problem: Problem, start: Array) -> tuple[Array, float, Array]:
    """Estimates, the log likelihood and the Hessian there."""
    found = optimize.minimize(
        lambda x: -problem.log_likelihood(x), start, jac=lambda x: -gradient(problem, x), method="BFGS"
    ).x
    for _ in range(3):
        curvature = hessian(problem, found)
        found = found - np.linalg.solve(curvature, gradient(problem, found))
    return found, problem.log_likelihood(found), curvature
