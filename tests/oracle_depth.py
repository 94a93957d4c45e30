"""Agents who look n steps ahead, in plain loops: action values, log likelihoods, their gradients and grid posteriors.

Nothing of the library is imported. The reward is that of the present pair, and nothing comes after the last step:

    V_0 = 0,   Q_k(s, a) = r(s, a) + γ Σ_t P[s, a, t] V_{k−1}(t),   π = softmax(c Q_n) at every step
    Softmax: V_k(s) = max_a Q_k(s, a);        SoftOptimal: V_k(s) = log Σ_a exp(c Q_k(s, a)) / c

A terminal state has no available action; its value is its reward (of its first pair), however few steps are left.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


def action_values(
    transitions: Array,  # [S, A, S]
    discount: float,
    reward: Array,  # [S, A]
    depth: int,
    inverse_temperature: float | None = None,  # of agents who foresee their errors
    available: Array | None = None,  # [S, A]
) -> Array:
    """Q_n [S, A] by backward induction; −∞ where an action does not exist."""
    states, actions = reward.shape
    exists = np.ones((states, actions), bool) if available is None else available
    value = [0.0] * states
    found = np.full((states, actions), -math.inf)
    for _ in range(depth):
        before, value = value, []
        for s in range(states):
            for a in range(actions):
                if exists[s, a]:
                    later = math.fsum(transitions[s, a, t] * before[t] for t in range(states))
                    found[s, a] = reward[s, a] + discount * later
            options = [found[s, a] for a in range(actions) if exists[s, a]]
            value.append(_value(options, inverse_temperature) if options else float(reward[s, 0]))
    return found


def _value(options: list[float], inverse_temperature: float | None) -> float:
    best = max(options)
    if inverse_temperature is None:
        return best
    total = math.fsum(math.exp(inverse_temperature * (each - best)) for each in options)
    return best + math.log(total) / inverse_temperature


def value_of_the_best_tree(transitions: Array, discount: float, reward: Array, state: int, depth: int) -> float:
    """V_n(state) by trying every action after every history, without memory: for very small problems."""
    if depth == 0:
        return 0.0
    found = []
    for a in range(reward.shape[1]):
        later = sum(
            transitions[state, a, t] * value_of_the_best_tree(transitions, discount, reward, t, depth - 1)
            for t in range(len(reward))
            if transitions[state, a, t] > 0
        )
        found.append(reward[state, a] + discount * later)
    return max(found)


def log_likelihood(
    transitions: Array,
    discount: float,
    reward: Array,
    depth: int,
    inverse_temperature: float,
    counts: Array,  # [S, A]
    soft: bool,
    available: Array | None = None,
    lapse: float = 0.0,
) -> float:
    """Σ N log π, π = (1 − lapse) softmax(c Q_n) + lapse / (number of available actions)."""
    foreseen = inverse_temperature if soft else None
    q = action_values(transitions, discount, reward, depth, foreseen, available)
    total = 0.0
    for s in range(len(q)):
        options = [x for x in q[s] if x > -math.inf]
        for a in range(q.shape[1]):
            if counts[s, a] > 0:
                best = max(options)
                weight = math.fsum(math.exp(inverse_temperature * (x - best)) for x in options)
                log_share = inverse_temperature * (q[s, a] - best) - math.log(weight)
                if lapse > 0:
                    log_share = math.log((1 - lapse) * math.exp(log_share) + lapse / len(options))
                total += counts[s, a] * log_share
    return total


def derivative(function: Callable[[float], float], at: float, step: float) -> tuple[float, float]:
    """f′ by central differences with three steps (Richardson), and an estimate of the error: large near a kink."""
    first = [(function(at + h) - function(at - h)) / (2 * h) for h in (step, step / 2, step / 4)]
    second = [(4 * fine - coarse) / 3 for coarse, fine in itertools.pairwise(first)]
    best = (16 * second[1] - second[0]) / 15
    return best, abs(best - second[1])


@dataclass(frozen=True)
class WeightPosterior:
    """Posterior of one weight θ, and of the discount where it is not known."""

    mean: float
    sd: float
    log_evidence: float
    discount_mean: float


def weight_posterior(
    transitions: Array,
    counts: Array,  # [S, A]
    feature: Array,  # [S, A]: r = θ · feature
    prior: tuple[float, float],  # mean and scale of θ
    depth: int,
    inverse_temperature: float,
    soft: bool,
    discount: float | tuple[float, float],  # known, or the parameters of its Beta prior
    points: int = 161,
    available: Array | None = None,
) -> WeightPosterior:
    """By summation over a grid of θ within seven scales, and of 81 logits of the discount."""
    z = np.linspace(-7.0, 7.0, points)
    log_mass = -(z**2) / 2 - math.log(np.exp(-(z**2) / 2).sum())
    discounts, log_prior = [discount], np.zeros(1)
    if isinstance(discount, tuple):
        logits = np.linspace(-9.0, 9.0, 81)
        discounts = (1 / (1 + np.exp(-logits))).tolist()
        log_prior = np.array([discount[0] * math.log(d) + discount[1] * math.log(1 - d) for d in discounts])
        log_prior -= math.log(np.exp(log_prior).sum())
    weights = prior[0] + prior[1] * z
    joint = np.empty((len(discounts), points))
    for row, gamma in enumerate(discounts):
        for column, weight in enumerate(weights):
            found = log_likelihood(
                transitions, gamma, weight * feature, depth, inverse_temperature, counts, soft, available
            )
            joint[row, column] = found + log_mass[column] + log_prior[row]
    top = joint.max()
    evidence = top + math.log(np.exp(joint - top).sum())
    mass = np.exp(joint - evidence)
    mean = float(mass.sum(axis=0) @ weights)
    sd = math.sqrt(float(mass.sum(axis=0) @ (weights - mean) ** 2))
    return WeightPosterior(mean, sd, evidence, float(mass.sum(axis=1) @ np.array(discounts)))
