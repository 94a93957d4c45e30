"""Compiled peer: multi-task Metropolis-Hastings over rewards, taken literally from the slow reference algorithm.
Every task update draws (reward, inverse temperature) from the prior, solves by cold value iteration, loops the steps.
The Gamma over the inverse temperature is by shape and rate (mean shape / rate); the Dirichlet is by alpha."""

import math
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
from numba import njit

TOLERANCE = 1e-3
LOWEST = -1e300  # finite stand-in for minus infinity: fastmath assumes there are no infinities
C3, C4, C5, C6, C7, C8, C9, C10, C11 = [1.0 / math.factorial(n) for n in range(3, 12)]

OPTIONS = {"error_model": "numpy", "fastmath": True}


@njit(inline="always", **OPTIONS)
def draw_proposal(rng, alpha, shape, rate, n_states, reward):
    """Fill reward with a Dirichlet(alpha) draw; return an inverse temperature from Gamma(shape, rate)."""
    total = 0.0
    for s in range(n_states):
        reward[s] = rng.standard_gamma(alpha[s])
        total += reward[s]
    scale = 1.0 / total
    for s in range(n_states):
        reward[s] *= scale
    return rng.standard_gamma(shape) / rate


@njit(inline="always", **OPTIONS)
def value_iteration(discounted, reward, n_states, n_actions, pair_reward, values, q_values):
    """Cold value iteration, V = 0 at the start. discounted is gamma P laid out [next state, action * S + state]."""
    for s in range(n_states):
        values[s] = 0.0
        for a in range(n_actions):
            pair_reward[a * n_states + s] = reward[s]
    change = TOLERANCE
    while change >= TOLERANCE:
        for k in range(n_states * n_actions):
            backup = pair_reward[k]
            for t in range(n_states):
                backup += values[t] * discounted[t, k]
            q_values[k] = backup
        change = 0.0
        for s in range(n_states):
            best = q_values[s]
            for a in range(1, n_actions):
                best = max(best, q_values[a * n_states + s])
            change = max(change, abs(best - values[s]))
            values[s] = best


@njit(inline="always", **OPTIONS)
def exp_inline(x):
    """exp for x <= 0 in plain arithmetic (relative error below 1e-13), so that loops vectorise, unlike libm."""
    x = max(x, -700.0)
    power = math.floor(x * 1.4426950408889634 + 0.5)
    f = x - power * 0.6931471805599453
    tail = C6 + f * (C7 + f * (C8 + f * (C9 + f * (C10 + f * C11))))
    series = 1.0 + f * (1.0 + f * (0.5 + f * (C3 + f * (C4 + f * (C5 + f * tail)))))
    return series * np.int64((np.int64(power) + 1023) << 52).view(np.float64)


@njit(inline="always", **OPTIONS)
def log_likelihood(q_values, temperature, task_states, task_actions, n_states, n_actions, chosen, normalisers):
    """Sum over all recorded steps of log softmax(temperature * Q[s_t])[a_t], one softmax per step."""
    n_steps = task_states.size
    for step in range(n_steps):
        s = task_states[step]
        best = q_values[s]
        for a in range(1, n_actions):
            best = max(best, q_values[a * n_states + s])
        normaliser = 0.0
        for a in range(n_actions):
            normaliser += exp_inline(temperature * (q_values[a * n_states + s] - best))
        normalisers[step] = normaliser
        chosen[step] = temperature * (q_values[task_actions[step] * n_states + s] - best)
    total = 0.0
    for step in range(n_steps):
        total += chosen[step] - math.log(normalisers[step])
    return total


@cache
def compile_chain(n_states, n_actions):
    """The chain for one problem size. The sizes are compile-time constants, so that inner loops unroll."""

    @njit(nogil=True, cache=True, **OPTIONS)
    def chain(transitions, discount, states, actions, alpha, shape, rate, sweeps, rng, rewards_out):
        n_tasks = states.shape[0]
        discounted = np.empty((n_states, n_states * n_actions))
        for s in range(n_states):
            for a in range(n_actions):
                for t in range(n_states):
                    discounted[t, a * n_states + s] = discount * transitions[s, a, t]
        proposal = np.empty(n_states)
        values = np.empty(n_states)
        q_values = np.empty(n_states * n_actions)
        pair_reward = np.empty(n_states * n_actions)
        chosen = np.empty(states.shape[1])
        normalisers = np.empty(states.shape[1])
        rewards = np.empty((n_tasks, n_states))
        temperatures = np.empty(n_tasks)
        log_likelihoods = np.full(n_tasks, LOWEST)  # the first proposal is always taken: a start from the prior
        accepted = 0
        for sweep in range(sweeps):
            for m in range(n_tasks):
                temperature = draw_proposal(rng, alpha, shape, rate, n_states, proposal)
                value_iteration(discounted, proposal, n_states, n_actions, pair_reward, values, q_values)
                proposed = log_likelihood(
                    q_values, temperature, states[m], actions[m], n_states, n_actions, chosen, normalisers
                )
                gain = proposed - log_likelihoods[m]
                if gain >= 0.0 or rng.random() < math.exp(gain):
                    accepted += 1
                    log_likelihoods[m] = proposed
                    temperatures[m] = temperature
                    for s in range(n_states):
                        rewards[m, s] = proposal[s]
                for s in range(n_states):
                    rewards_out[sweep, m, s] = rewards[m, s]
        return accepted

    return chain


def literal_chain(transitions, discount, states, actions, alpha, shape, rate, sweeps, rng, rewards_out):
    """One chain of `sweeps` updates of each task; fills rewards_out [sweeps, M, S], returns the accepted count."""
    n_states, n_actions, _ = transitions.shape
    return compile_chain(n_states, n_actions)(
        np.ascontiguousarray(transitions, dtype=np.float64),
        float(discount),
        np.ascontiguousarray(states, dtype=np.int64),
        np.ascontiguousarray(actions, dtype=np.int64),
        np.ascontiguousarray(alpha, dtype=np.float64),
        float(shape),
        float(rate),
        int(sweeps),
        rng,
        rewards_out,
    )


def run_literal(transitions, discount, states, actions, alpha, shape, rate, sweeps, chains=2, seed=0):
    """Run one chain per thread (the compiled chain holds no GIL); return the total number of task updates.

    The first call for a problem size compiles (or loads the cache): call once with sweeps=1 before timing."""
    n_tasks, n_states = states.shape[0], transitions.shape[0]

    def one_chain(sequence):
        rewards_out = np.empty((sweeps, n_tasks, n_states))
        rng = np.random.default_rng(sequence)
        literal_chain(transitions, discount, states, actions, alpha, shape, rate, sweeps, rng, rewards_out)
        return sweeps * n_tasks

    sequences = np.random.SeedSequence(seed).spawn(chains)
    with ThreadPoolExecutor(max_workers=chains) as pool:
        return sum(pool.map(one_chain, sequences))
