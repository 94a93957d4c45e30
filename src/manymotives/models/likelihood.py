"""The log-likelihood of choices given action values, compiled, from counts and never step by step:

log L = Σ_{s,a} k(s, a) log π(a|s),      π(a|s) = (1 − lapse) exp(c q(s, a)) / Σ_b exp(c q(s, b)) + lapse / |A(s)|
"""

import math

import numpy as np

from manymotives.jit import compiled, inner
from manymotives.planning.simd import WIDTH, exponential, load, spread, store

SMALLEST_LOG_C = -27.0  # below it choices are uniform to the last bit anyone could see, and soft plans overflow
LARGEST_LOG_C = 300.0  # above it only best actions are chosen, and products with values overflow
LARGEST_LOGIT = 13.8155  # of a discount: it is between 1e-6 and 1 − 1e-6, beyond which values lose their digits


@inner
def inverse_temperature(log_temperature):
    """c, from log c; the same beyond either end, where choices are the same."""
    return math.exp(min(max(log_temperature, SMALLEST_LOG_C), LARGEST_LOG_C))


@inner
def discount_factor(logit):
    """γ, from its logit; the same beyond either end."""
    return 1.0 / (1.0 + math.exp(-min(max(logit, -LARGEST_LOGIT), LARGEST_LOGIT)))


@inner
def weights_workspace(num_states, num_actions):
    """Where the weights e^(c q) of one task are worked out, sixteen at a time."""
    return np.zeros(-(-num_states * num_actions // WIDTH) * WIDTH)


@inner
def exponentials(workspace, count):
    """e^x of the first `count` numbers, in their places."""
    for row in range(-(-count // WIDTH)):
        store(workspace, row, exponential(load(workspace, row)))


@inner
def log_likelihood(q, n, counts, m, temperature, lapse, workspace):
    """Σ_{s,a} k(s, a) log π(a|s) for values q[n] and counts k = counts[m], [S, A]; q is −inf where nothing can be done.

    π = (1 − lapse) softmax(c q) + lapse / (number of available actions). States without choices cost nothing. (Whole
    arrays and an index, not rows: a row is a new array to Numba, and costs more than some of the work here.)
    """
    _, num_states, num_actions = counts.shape
    count, total = 0, 0.0
    for s in range(num_states):
        made = 0.0
        for a in range(num_actions):
            made += counts[m, s, a]
        if made > 0.0:
            best = q[n, s, 0]
            for a in range(1, num_actions):
                best = max(best, q[n, s, a])
            for a in range(num_actions):
                above = temperature * (q[n, s, a] - best) if q[n, s, a] > -np.inf else -np.inf
                workspace[count] = above
                count += 1
                if counts[m, s, a] > 0.0:  # else 0 · −∞ where c (q − best) overflows
                    total += counts[m, s, a] * above
    exponentials(workspace, count)
    count = 0
    if lapse > 0.0:
        total = 0.0
    for s in range(num_states):
        made = 0.0
        for a in range(num_actions):
            made += counts[m, s, a]
        if made > 0.0:
            weight, available = 0.0, 0
            for a in range(num_actions):
                weight += workspace[count + a]
                available += q[n, s, a] > -np.inf
            if lapse == 0.0:
                total -= made * math.log(weight)
            else:
                for a in range(num_actions):
                    if counts[m, s, a] > 0.0:
                        share = (1.0 - lapse) * workspace[count + a] / weight + lapse / available
                        total += counts[m, s, a] * math.log(min(share, 1.0))
            count += num_actions
    return total


@inner
def log_likelihood_in(s, q, n, counts, m, temperature, lapse):
    """The part of it that choices in state s have: few exponentials, one by one."""
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

    For each state with choices: how far the values of its actions but the first best fall short of the best, one after
    the other in `shortfall`, and how many choices were made there, in made [S]. The answer: the number of such states,
    and Σ k (q − best).
    """
    _, num_states, num_actions = counts.shape
    states, others, chosen = 0, 0, 0.0
    for s in range(num_states):
        total, best = 0.0, 0
        for a in range(num_actions):
            total += counts[m, s, a]
            if q[n, s, a] > q[n, s, best]:
                best = a
        if total > 0.0:
            for a in range(num_actions):
                if a != best:
                    below = q[n, s, a] - q[n, s, best]
                    shortfall[others] = below
                    others += 1
                    if counts[m, s, a] > 0.0:
                        chosen += counts[m, s, a] * below
            made[states] = total
            states += 1
    return states, chosen


@inner
def softmax_log_likelihood(temperature, shortfall, made, states, chosen, num_others, workspace):
    """The log-likelihood at a temperature, of what `shortfalls` has found; each state has `num_others` shortfalls."""
    for row in range(-(-states * num_others // WIDTH)):
        store(workspace, row, exponential(spread(temperature) * load(shortfall, row)))
    total, count = temperature * chosen, 0
    for i in range(states):
        weight = 1.0
        for _ in range(num_others):
            weight += workspace[count]
            count += 1
        total -= made[i] * math.log(weight)
    return total


@compiled
def log_likelihoods(q, counts, owner, temperature, lapse):
    """The same for each of a batch of values q [N, S, A]; `owner` says whose counts [M, S, A] they are to explain."""
    found, workspace = np.empty(len(q)), weights_workspace(q.shape[1], q.shape[2])
    for n in range(len(q)):
        found[n] = log_likelihood(q, n, counts, owner[n], temperature[n], lapse[n], workspace)
    return found
