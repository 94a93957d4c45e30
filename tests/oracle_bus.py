"""Rust's bus engines as Su & Judd (2012) set them up: choices simulated, costs estimated by a nested fixed point.

Plain NumPy and SciPy; nothing of the library is imported. Conventions (Su & Judd 2012; Iskhakov et al. 2016):

    a bus at mileage bin x = 0, …, S − 1 is kept (action 0) or its engine is replaced (action 1);
    r(x, keep) = −.001 c x,        r(x, replace) = −RC − .001 c · 0;
    keep: x' = min(x + j, S − 1),  replace: x' = j, where j = 0, …, 4 is the increment of the same month;
    choices maximise r + ε + β E V(x') with ε of type 1 extreme value, scale 1.

With θ = (RC, c), r(x, a) = features[x, a] · θ, and choices are soft-optimal at inverse temperature 1 and discount β:

    V(x) = log Σ_a exp(r(x, a) + β Σ P[x, a, x'] V(x')),     π(a | x) = exp(r + β P V − V).

ε has mean .5772 (Euler): that adds .5772 / (1 − β) to every value and changes no choice. Bins counted from 1, as in
Su & Judd's code, add −.001 c to both rewards, which changes no choice either. Every bus starts at bin 0.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

Array = np.ndarray
INCREMENTS = np.array([0.0937, 0.4475, 0.4459, 0.0127, 0.0002])
TRUTH = np.array([11.7257, 2.4569])  # replacement cost, maintenance cost
DISCOUNT = 0.975
STATES, BUSES, MONTHS = 175, 50, 120


def bus_environment(states: int = STATES, increments: Array = INCREMENTS) -> tuple[Array, Array]:
    """Transitions [S, 2, S] and features [S, 2, 2] of pairs; weights of the features are (RC, c)."""
    mileage = np.arange(states)
    chance = np.append(increments[:-1], 1 - increments[:-1].sum())
    transitions = np.zeros((states, 2, states))
    for increment, probability in enumerate(chance):
        transitions[mileage, 0, np.minimum(mileage + increment, states - 1)] += probability
        transitions[:, 1, increment] += probability
    features = np.zeros((states, 2, 2))
    features[:, 0, 1] = -0.001 * mileage
    features[:, 1, 0] = -1.0
    return transitions, features


def soft_values(transitions: Array, discount: float, rewards: Array, start: Array | None = None) -> tuple[Array, Array]:
    """V [S] and log π [S, A] for rewards [S, A]: Newton–Kantorovich steps on V = log Σ_a exp(r + β P V)."""
    values = np.zeros(len(rewards)) if start is None else start
    for _ in range(100):
        action_values = rewards + discount * transitions @ values
        improved = special.logsumexp(action_values, axis=1)
        log_policy = action_values - improved[:, None]
        chain = np.einsum("sa,sat->st", np.exp(log_policy), transitions)
        step = np.linalg.solve(np.eye(len(values)) - discount * chain, improved - values)
        values = values + step
        if np.abs(step).max() <= 1e-13 * max(1.0, np.abs(values).max()) / (1 - discount):
            action_values = rewards + discount * transitions @ values
            return values, action_values - special.logsumexp(action_values, axis=1, keepdims=True)
    raise RuntimeError("the integrated Bellman equation was not solved")


def simulate(
    seed: int,
    parameters: Array = TRUTH,
    discount: float = DISCOUNT,
    buses: int = BUSES,
    months: int = MONTHS,
    states: int = STATES,
    increments: Array = INCREMENTS,
) -> tuple[Array, Array]:
    """Mileage bins and decisions [buses, months] of agents who choose by π."""
    rng = np.random.default_rng(seed)
    transitions, features = bus_environment(states, increments)
    _, log_policy = soft_values(transitions, discount, features @ parameters)
    replaces = np.exp(log_policy[:, 1])
    bins, decisions = np.zeros((buses, months), int), np.zeros((buses, months), int)
    mileage = np.zeros(buses, int)
    for month in range(months):
        decision = (rng.random(buses) < replaces[mileage]).astype(int)
        bins[:, month], decisions[:, month] = mileage, decision
        increment = np.searchsorted(np.cumsum(increments[:-1]), rng.random(buses), side="right")
        mileage = np.minimum(np.where(decision == 1, 0, mileage) + increment, states - 1)
    return bins, decisions


def choice_counts(bins: Array, decisions: Array, states: int = STATES) -> Array:
    """Counts [S, 2] of decisions in each bin."""
    counts = np.zeros((states, 2))
    np.add.at(counts, (bins.ravel(), decisions.ravel()), 1)
    return counts


@dataclass(frozen=True)
class Likelihood:
    """The log likelihood of counts at some parameters, its gradient, and the Fisher information at the bins seen."""

    log_likelihood: float
    gradient: Array  # [K]
    information: Array  # [K, K]
    values: Array  # [S]


def likelihood(
    parameters: Array,  # [K]
    counts: Array,  # [S, A]
    transitions: Array,  # [S, A, S]
    features: Array,  # [S, A, K]
    discount: float = DISCOUNT,
    start: Array | None = None,  # values to start from
) -> Likelihood:
    """Derivatives by implicit differentiation: (I − β P_π) dV = Σ_a π features, dQ = features + β P dV."""
    values, log_policy = soft_values(transitions, discount, features @ parameters, start)
    policy = np.exp(log_policy)
    chain = np.einsum("sa,sat->st", policy, transitions)
    slope = np.linalg.solve(np.eye(len(values)) - discount * chain, np.einsum("sa,sak->sk", policy, features))
    slopes = features + discount * np.einsum("sat,tk->sak", transitions, slope) - slope[:, None]  # of log π
    information = np.einsum("s,sa,sak,sal->kl", counts.sum(axis=1), policy, slopes, slopes)
    return Likelihood(float((counts * log_policy).sum()), np.einsum("sa,sak->k", counts, slopes), information, values)


@dataclass(frozen=True)
class Estimate:
    """Maximum likelihood estimates with standard errors from the Fisher information."""

    parameters: Array  # [K]
    standard_errors: Array  # [K]
    covariance: Array  # [K, K]
    log_likelihood: float
    gradient: Array  # [K], of the log likelihood: 0 to rounding
    iterations: int


def maximum_likelihood(
    counts: Array,
    transitions: Array | None = None,
    features: Array | None = None,
    discount: float = DISCOUNT,
    start: Array = TRUTH,
) -> Estimate:
    """Nested fixed point with Fisher scoring: θ ← θ + information⁻¹ gradient, halved until the likelihood grows.

    Without transitions and features: those of `bus_environment`. It stops where the next step would be less than
    1e−8 standard errors long.
    """
    if transitions is None or features is None:
        transitions, features = bus_environment(len(counts))
    parameters = np.asarray(start, float)
    here = likelihood(parameters, counts, transitions, features, discount)
    for iteration in range(1, 101):
        step = np.linalg.solve(here.information, here.gradient)
        if step @ here.gradient <= 1e-16:
            covariance = np.linalg.inv(here.information)
            errors = np.sqrt(np.diag(covariance))
            return Estimate(parameters, errors, covariance, here.log_likelihood, here.gradient, iteration)
        for halving in range(40):
            moved = parameters + step / 2**halving
            there = likelihood(moved, counts, transitions, features, discount, here.values)
            if there.log_likelihood >= here.log_likelihood - 1e-10:
                break
        parameters, here = moved, there
    raise RuntimeError("the likelihood was not maximised")


def monte_carlo(samples: int, first_seed: int = 0, discount: float = DISCOUNT) -> tuple[Array, Array]:
    """Estimates and standard errors [samples, 2] over simulated samples."""
    found = [
        maximum_likelihood(choice_counts(*simulate(first_seed + seed, discount=discount)), discount=discount)
        for seed in range(samples)
    ]
    return np.array([one.parameters for one in found]), np.array([one.standard_errors for one in found])
