"""The log-likelihood of choices given action values, compiled, from counts and never step by step:

log L = Σ_{s,a} k(s, a) log π(a|s),      π(a|s) = (1 − lapse) exp(c q(s, a)) / Σ_b exp(c q(s, b)) + lapse / |A(s)|
"""

import math

import numpy as np

from manymotives.jit import compiled, inner

COLDEST = -27.0  # log c below which choices are uniform to the last bit anyone could see, and soft plans overflow
HOTTEST = 300.0  # log c above which only best actions are chosen, and products with values overflow


@inner
def inverse_temperature(log_temperature):
    """c, from log c; the same beyond either end, where choices are the same."""
    return math.exp(min(max(log_temperature, COLDEST), HOTTEST))


@inner
def log_likelihood(q, n, counts, m, temperature, lapse):
    """Σ_{s,a} k(s, a) log π(a|s) for values q[n] and counts k = counts[m], [S, A]; q is −inf where nothing can be done.

    π = (1 − lapse) softmax(c q) + lapse / (number of available actions). States without choices cost nothing. (Whole
    arrays and an index, not rows: a row is a new array to Numba, and costs more than some of the work here.)
    """
    total = 0.0
    for s in range(counts.shape[1]):
        total += log_likelihood_in(s, q, n, counts, m, temperature, lapse)
    return total


@inner
def log_likelihood_in(s, q, n, counts, m, temperature, lapse):
    """The part of it that choices in state s have."""
    num_actions = counts.shape[2]
    made = 0.0
    for a in range(num_actions):
        made += counts[m, s, a]
    if made == 0.0:
        return 0.0
    best = q[n, s, 0]
    for a in range(1, num_actions):
        best = max(best, q[n, s, a])
    weight, available, chosen = 0.0, 0, 0.0
    for a in range(num_actions):
        if q[n, s, a] > -np.inf:
            above = temperature * (q[n, s, a] - best)
            weight += math.exp(above) if above < 0.0 else 1.0
            available += 1
            if counts[m, s, a] > 0.0:  # else 0 · −∞ where c (q − best) overflows
                chosen += counts[m, s, a] * above
    log_weight = math.log(weight)
    if lapse == 0.0:
        return chosen - made * log_weight
    total = 0.0
    for a in range(num_actions):
        if counts[m, s, a] > 0.0:
            share = math.exp(temperature * (q[n, s, a] - best) - log_weight)
            total += counts[m, s, a] * math.log(min((1.0 - lapse) * share + lapse / available, 1.0))
    return total


@inner
def shortfalls(q, n, counts, m, shortfall, made):
    """What the likelihood of choices without lapses needs of values q[n], whatever the temperature.

    For each state with choices, how far the values of its actions but the first best fall short of the best, in a row
    of shortfall [S, A − 1], and how many choices were made there, in made [S]. The answer: the number of such states,
    and Σ k (q − best).
    """
    _, num_states, num_actions = counts.shape
    states, chosen = 0, 0.0
    for s in range(num_states):
        total, best = 0.0, 0
        for a in range(num_actions):
            total += counts[m, s, a]
            if q[n, s, a] > q[n, s, best]:
                best = a
        if total > 0.0:
            others = 0
            for a in range(num_actions):
                if a != best:
                    below = q[n, s, a] - q[n, s, best]
                    shortfall[states, others] = below
                    others += 1
                    if counts[m, s, a] > 0.0:
                        chosen += counts[m, s, a] * below
            made[states] = total
            states += 1
    return states, chosen


@inner
def softmax_log_likelihood(temperature, shortfall, made, states, chosen):
    """The log-likelihood at a temperature, of what `shortfalls` has found."""
    total = temperature * chosen
    for i in range(states):
        weight = 1.0
        for a in range(shortfall.shape[1]):
            weight += math.exp(temperature * shortfall[i, a])
        total -= made[i] * math.log(weight)
    return total


@compiled
def log_likelihoods(q, counts, owner, temperature, lapse):
    """The same for each of a batch of values q [N, S, A]; `owner` says whose counts [M, S, A] they are to explain."""
    found = np.empty(len(q))
    for n in range(len(q)):
        found[n] = log_likelihood(q, n, counts, owner[n], temperature[n], lapse[n])
    return found
