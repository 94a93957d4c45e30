"""The authors' algorithm taken literally, compiled: the peer of our samplers.

Metropolis–Hastings for M tasks in one environment. A task update draws a reward and an inverse temperature from the
prior (Dirichlet by alpha, Gamma by shape and rate), solves by value iteration from zero until nothing changes by more
than 1e-3, loops over every recorded step for the likelihood, and accepts with the ratio of likelihoods.

`plain_chain` is that, in the loops one would write. `tuned_chain` is the same arithmetic laid out for the machine:
sizes known when it is compiled, transitions transposed, an exponential that vectorises. It is the harder peer.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numba import njit

TOLERANCE = 1e-3
NOT_YET = -1e300  # stands for minus infinity, which fastmath does not know
C3, C4, C5, C6, C7, C8, C9, C10, C11 = (1.0 / math.factorial(n) for n in range(3, 12))

_tuned: Any = {"error_model": "numpy", "fastmath": True}


def run_literal(
    chain: Any, transitions: np.ndarray, discount: float, demonstrations: Any, prior: Any, sweeps: int, seed: int = 0
) -> int:
    """Two chains in two threads; how many task updates they made in all. prior: alpha [S], shape, rate."""
    states, actions = demonstrations
    discounted = np.ascontiguousarray(discount * transitions)

    def one(stream: np.random.SeedSequence) -> int:
        rewards = np.empty((sweeps, *states.shape[:1], len(transitions)))
        chain(discounted.copy(), states.copy(), actions.copy(), *prior, sweeps, np.random.default_rng(stream), rewards)
        return sweeps * len(states)

    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(one, np.random.SeedSequence(seed).spawn(2)))


@njit(nogil=True, cache=True, error_model="numpy")
def plain_chain(discounted, states, actions, alpha, shape, rate, sweeps, rng, rewards_out):
    """discounted [S, A, S] is γ P; states and actions [M, T]; fills rewards_out [sweeps, M, S]."""
    num_states, num_actions, _ = discounted.shape
    num_tasks, num_steps = states.shape
    reward, value, q = np.empty(num_states), np.empty(num_states), np.empty((num_states, num_actions))
    rewards, likelihoods = np.zeros((num_tasks, num_states)), np.full(num_tasks, NOT_YET)
    for sweep in range(sweeps):
        for m in range(num_tasks):
            total = 0.0
            for s in range(num_states):
                reward[s] = rng.standard_gamma(alpha[s])
                total += reward[s]
            for s in range(num_states):
                reward[s] /= total
                value[s] = 0.0
            temperature = rng.standard_gamma(shape) / rate
            change = TOLERANCE
            while change >= TOLERANCE:
                for s in range(num_states):
                    for a in range(num_actions):
                        backup = reward[s]
                        for t in range(num_states):
                            backup += discounted[s, a, t] * value[t]
                        q[s, a] = backup
                change = 0.0
                for s in range(num_states):
                    best = q[s, 0]
                    for a in range(1, num_actions):
                        best = max(best, q[s, a])
                    change = max(change, abs(best - value[s]))
                    value[s] = best
            proposed = 0.0
            for step in range(num_steps):
                s = states[m, step]
                best = value[s]
                normaliser = 0.0
                for a in range(num_actions):
                    normaliser += math.exp(temperature * (q[s, a] - best))
                proposed += temperature * (q[s, actions[m, step]] - best) - math.log(normaliser)
            if math.log1p(-rng.random()) < proposed - likelihoods[m]:
                likelihoods[m] = proposed
                rewards[m] = reward
            rewards_out[sweep, m] = rewards[m]


@cache
def tuned_chain(num_states: int, num_actions: int) -> Any:
    """The chain for one problem size."""

    @njit(nogil=True, cache=True, **_tuned)
    def chain(discounted, states, actions, alpha, shape, rate, sweeps, rng, rewards_out):
        num_tasks, num_steps = states.shape
        across = np.empty((num_states, num_states * num_actions))  # [next state, action · S + state]
        for s in range(num_states):
            for a in range(num_actions):
                for t in range(num_states):
                    across[t, a * num_states + s] = discounted[s, a, t]
        reward, value = np.empty(num_states), np.empty(num_states)
        q, received = np.empty(num_states * num_actions), np.empty(num_states * num_actions)
        chosen, normalisers = np.empty(num_steps), np.empty(num_steps)
        rewards, likelihoods = np.zeros((num_tasks, num_states)), np.full(num_tasks, NOT_YET)
        for sweep in range(sweeps):
            for m in range(num_tasks):
                total = 0.0
                for s in range(num_states):
                    reward[s] = rng.standard_gamma(alpha[s])
                    total += reward[s]
                for s in range(num_states):
                    reward[s] /= total
                temperature = rng.standard_gamma(shape) / rate
                _value_iteration(across, reward, num_states, num_actions, received, value, q)
                proposed = _steps(q, temperature, states, actions, m, num_states, num_actions, chosen, normalisers)
                gain = proposed - likelihoods[m]
                if gain >= 0.0 or rng.random() < math.exp(gain):
                    likelihoods[m] = proposed
                    for s in range(num_states):
                        rewards[m, s] = reward[s]
                for s in range(num_states):
                    rewards_out[sweep, m, s] = rewards[m, s]

    return chain


@njit(inline="always", **_tuned)
def _value_iteration(across, reward, num_states, num_actions, received, value, q):
    for s in range(num_states):
        value[s] = 0.0
        for a in range(num_actions):
            received[a * num_states + s] = reward[s]
    change = TOLERANCE
    while change >= TOLERANCE:
        for k in range(num_states * num_actions):
            backup = received[k]
            for t in range(num_states):
                backup += value[t] * across[t, k]
            q[k] = backup
        change = 0.0
        for s in range(num_states):
            best = q[s]
            for a in range(1, num_actions):
                best = max(best, q[a * num_states + s])
            change = max(change, abs(best - value[s]))
            value[s] = best


@njit(inline="always", **_tuned)
def _exponential(x):
    """exp for x ≤ 0 in plain arithmetic (relative error below 1e-13), so that loops vectorise."""
    x = max(x, -700.0)
    power = math.floor(x * 1.4426950408889634 + 0.5)
    f = x - power * 0.6931471805599453
    tail = C6 + f * (C7 + f * (C8 + f * (C9 + f * (C10 + f * C11))))
    series = 1.0 + f * (1.0 + f * (0.5 + f * (C3 + f * (C4 + f * (C5 + f * tail)))))
    return series * np.int64((np.int64(power) + 1023) << 52).view(np.float64)


@njit(inline="always", **_tuned)
def _steps(q, temperature, states, actions, m, num_states, num_actions, chosen, normalisers):
    """Σ over all steps of log softmax(c q)[a], one softmax a step."""
    for step in range(chosen.size):
        s = states[m, step]
        best = q[s]
        for a in range(1, num_actions):
            best = max(best, q[a * num_states + s])
        normaliser = 0.0
        for a in range(num_actions):
            normaliser += _exponential(temperature * (q[a * num_states + s] - best))
        normalisers[step] = normaliser
        chosen[step] = temperature * (q[actions[m, step] * num_states + s] - best)
    total = 0.0
    for step in range(chosen.size):
        total += chosen[step] - math.log(normalisers[step])
    return total


@njit(error_model="numpy")
def losses_by_value_iteration(transitions, discount, policies, rewards, tolerance):
    """max_s V*(s) − V^π(s) [K, N], both values by sweeps from zero for every pair: as one would write it."""
    num_states, num_actions, _ = transitions.shape
    losses = np.empty((len(policies), len(rewards)))
    for i in range(len(policies)):
        for j in range(len(rewards)):
            best, ours = np.zeros(num_states), np.zeros(num_states)
            change = np.inf
            while change > tolerance:
                change = 0.0
                for s in range(num_states):
                    top, mean = -np.inf, 0.0
                    for a in range(num_actions):
                        q, own = rewards[j, s], rewards[j, s]
                        for t in range(num_states):
                            q += discount * transitions[s, a, t] * best[t]
                            own += discount * transitions[s, a, t] * ours[t]
                        top = max(top, q)
                        mean += policies[i, s, a] * own
                    change = max(change, abs(top - best[s]), abs(mean - ours[s]))
                    best[s], ours[s] = top, mean
            losses[i, j] = np.max(best - ours)
    return losses
