"""Hidden states behind choices, forwards and backwards in time, compiled.

Rows are visited states in order; where `begins`, hidden states are drawn anew. An action of −1 was not recorded:
nothing is learnt from it, and time passes.
"""

import math

import numpy as np

from manymotives.jit import compiled


@compiled
def forward(begins, state, action, policies, transitions, initial, known, log_probability):
    """Fill known [rows, K] with p(z_t | a_1 … a_t) and log_probability [rows] with log p(a_t | a_1 … a_{t−1}).

    policies [K, S, A], transitions [K, K], initial [K]. Where no action was recorded, log_probability is 0; where one
    is impossible under every policy, −∞, and nothing is learnt from it. Returns their sum.
    """
    size = len(initial)
    expected = np.empty(size)
    total = 0.0
    for t in range(len(state)):
        for k in range(size):
            expected[k] = initial[k]
            if not begins[t]:
                expected[k] = 0.0
                for j in range(size):
                    expected[k] += known[t - 1, j] * transitions[j, k]
        scale, likelihood = 0.0, 0.0
        for k in range(size):
            known[t, k] = expected[k]
            scale += expected[k]
            if action[t] >= 0:
                likelihood += expected[k] * policies[k, state[t], action[t]]
        log_probability[t] = 0.0
        if action[t] >= 0:
            log_probability[t] = math.log(likelihood / scale) if likelihood > 0.0 else -math.inf
            if likelihood > 0.0:
                scale = likelihood
                for k in range(size):
                    known[t, k] = expected[k] * policies[k, state[t], action[t]]
        for k in range(size):
            known[t, k] /= scale
        total += log_probability[t]
    return total


@compiled
def backward(begins, state, action, transitions, known, chosen, moved, begun):
    """Add to chosen [K, S, A], moved [K, K] and begun [K] how often each is expected to have occurred, given all.

    known [rows, K]: what `forward` found. With γ_t = p(z_t | everything), from the last row of each segment upwards,
    p(z_t = i, z_{t+1} = j | everything) = known_t(i) T(i, j) γ_{t+1}(j) / Σ_l known_t(l) T(l, j).
    """
    size = len(begun)
    smoothed, later = np.empty(size), np.empty(size)
    for t in range(len(state) - 1, -1, -1):
        if t + 1 == len(state) or begins[t + 1]:
            for k in range(size):
                smoothed[k] = known[t, k]
        else:
            for k in range(size):
                later[k] = smoothed[k]
                smoothed[k] = 0.0
            for j in range(size):
                expected = 0.0
                for i in range(size):
                    expected += known[t, i] * transitions[i, j]
                if expected > 0.0:
                    for i in range(size):
                        share = known[t, i] * transitions[i, j] * later[j] / expected
                        moved[i, j] += share
                        smoothed[i] += share
        for k in range(size):
            if action[t] >= 0:
                chosen[k, state[t], action[t]] += smoothed[k]
            if begins[t]:
                begun[k] += smoothed[k]
