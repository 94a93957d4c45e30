"""The hidden chain of motives given its rows and the motives' policies, compiled: filtering, smoothing, sampling.

    predicted   p(z_t = k | a_1 … a_{t−1}) = Σ_j f_{t−1}(j) A[c_t, j, k],     B[c_t, k] where a segment begins
    filtered    f_t(k) = p(z_t = k | a_1 … a_t) ∝ predicted_t(k) π_k(a_t|s_t)
    log p(a_1 … a_T) = Σ_t log Σ_k predicted_t(k) π_k(a_t|s_t)
    smoothed    g_t(j) = p(z_t = j | a_1 … a_T) = f_t(j) Σ_k A[c_{t+1}, j, k] g_{t+1}(k) / predicted_{t+1}(k)
    sampled     z_T ~ f_T,   z_t | z_{t+1} ∝ f_t(j) A[c_{t+1}, j, z_{t+1}]             (backwards)

Rows [C, K + 1, K] have those from each motive, and last the one by which a segment begins. Probabilities of choices are
relative to the largest over motives, so that no product of them vanishes.
"""

import math
from typing import NamedTuple

import numpy as np

from manymotives.jit import compiled, inner

SMALLEST = 1e-290  # of a row's probabilities: a motive that is nearly impossible must not make all of them so


class Segments(NamedTuple):
    """Steps in the order of time; a segment begins with an episode, and after a gap."""

    state: np.ndarray  # [T]
    action: np.ndarray  # [T]; −1: not recorded
    unit: np.ndarray  # [T] whose motives they are
    task: np.ndarray  # [T]
    episode: np.ndarray  # [T]
    begins: np.ndarray  # [T]
    context: np.ndarray  # [T] of the row that the step's motive was drawn from


class ChoiceTable(NamedTuple):
    """π_k(a|s) of units: what each motive makes of a choice, relative to the motive that likes it best."""

    relative: np.ndarray  # [U, S, A, K]
    largest: np.ndarray  # [U, S, A] log π of that motive


@inner
def choice_table(log_policies, num_motives):
    """From log π [K · U, S, A], motive by motive; actions that do not exist are impossible for all alike."""
    count, num_states, num_actions = log_policies.shape
    units = count // num_motives
    relative = np.ones((units, num_states, num_actions, num_motives))
    largest = np.full((units, num_states, num_actions), -np.inf)
    for u in range(units):
        for s in range(num_states):
            for a in range(num_actions):
                best = -np.inf
                for k in range(num_motives):
                    best = max(best, log_policies[k * units + u, s, a])
                if best > -np.inf:
                    for k in range(num_motives):
                        relative[u, s, a, k] = math.exp(log_policies[k * units + u, s, a] - best)
                largest[u, s, a] = best
    return ChoiceTable(relative, largest)


@inner
def predict(begins, context, rows, filtered, t, predicted):
    """p(z_t | choices before t) into predicted [K]. (Arrays, not their tuple: see `sweeps`.)"""
    num_motives, c = len(predicted), context[t]
    if begins[t]:
        for k in range(num_motives):
            predicted[k] = rows[c, num_motives, k]
        return
    for k in range(num_motives):
        predicted[k] = 0.0
    for j in range(num_motives):
        weight = filtered[t - 1, j]
        for k in range(num_motives):
            predicted[k] += weight * rows[c, j, k]


@inner
def filter_forward(segments, rows, table, filtered, log_likelihood):
    """Fill filtered [T, K]; add log p of each step to its episode's log_likelihood."""
    state, action, unit, episode = segments.state, segments.action, segments.unit, segments.episode
    begins, context, relative, largest = segments.begins, segments.context, table.relative, table.largest
    num_motives = filtered.shape[1]
    predicted = np.empty(num_motives)
    for t in range(len(state)):
        predict(begins, context, rows, filtered, t, predicted)
        total = 0.0
        for k in range(num_motives):
            if action[t] >= 0:
                predicted[k] *= relative[unit[t], state[t], action[t], k]
            total += predicted[k]
        if action[t] >= 0:  # rows sum to 1 but for rounding, and a probability is never above it
            log_likelihood[episode[t]] += min(math.log(total), 0.0) + largest[unit[t], state[t], action[t]]
        for k in range(num_motives):
            filtered[t, k] = predicted[k] / total


@inner
def sample_backward(rng, segments, rows, filtered, motive):
    """Fill motive [T] with a draw of z given all choices."""
    begins, context = segments.begins, segments.context
    num_steps, num_motives = filtered.shape
    weight = np.empty(num_motives)
    for t in range(num_steps - 1, -1, -1):
        total = 0.0
        is_last = t == num_steps - 1 or begins[t + 1]
        for k in range(num_motives):
            weight[k] = filtered[t, k]
            if not is_last:
                weight[k] *= rows[context[t + 1], k, motive[t + 1]]
            total += weight[k]
        left = rng.random() * total
        chosen = 0
        while chosen < num_motives - 1 and left >= weight[chosen]:
            left -= weight[chosen]
            chosen += 1
        while weight[chosen] == 0.0:  # reached by rounding alone
            chosen = (chosen + num_motives - 1) % num_motives
        motive[t] = chosen


@inner
def smooth_backward(segments, rows, filtered, smoothed, transitions):
    """Fill smoothed [T, K]; add expected numbers of transitions, and of beginnings, to transitions [C, K + 1, K]."""
    begins, context = segments.begins, segments.context
    num_steps, num_motives = filtered.shape
    predicted, ratio = np.empty(num_motives), np.empty(num_motives)
    for t in range(num_steps - 1, -1, -1):
        if t == num_steps - 1 or begins[t + 1]:
            for k in range(num_motives):
                smoothed[t, k] = filtered[t, k]
        else:
            predict(begins, context, rows, filtered, t + 1, predicted)
            for k in range(num_motives):
                ratio[k] = smoothed[t + 1, k] / predicted[k] if smoothed[t + 1, k] > 0.0 else 0.0
            for j in range(num_motives):
                total = 0.0
                for k in range(num_motives):
                    both = filtered[t, j] * rows[context[t + 1], j, k] * ratio[k]
                    transitions[context[t + 1], j, k] += both
                    total += both
                smoothed[t, j] = total
        if begins[t]:
            for k in range(num_motives):
                transitions[context[t], num_motives, k] += smoothed[t, k]


@compiled
def filtered_motives(segments, rows, log_policies, num_episodes):
    """p(z_t | choices up to t) [T, K], and log p of the choices of each episode."""
    num_motives = rows.shape[2]
    filtered, log_likelihood = np.empty((len(segments.state), num_motives)), np.zeros(num_episodes)
    filter_forward(segments, rows, choice_table(log_policies, num_motives), filtered, log_likelihood)
    return filtered, log_likelihood


@compiled
def smoothed_motives(segments, rows, log_policies, num_episodes):
    """p(z_t | all choices) [T, K], expected transitions [C, K + 1, K], and log p of the choices of each episode."""
    num_motives = rows.shape[2]
    filtered, log_likelihood = np.empty((len(segments.state), num_motives)), np.zeros(num_episodes)
    filter_forward(segments, rows, choice_table(log_policies, num_motives), filtered, log_likelihood)
    smoothed, transitions = np.empty_like(filtered), np.zeros(rows.shape)
    smooth_backward(segments, rows, filtered, smoothed, transitions)
    return smoothed, transitions, log_likelihood


@compiled
def sampled_motives(rng, segments, rows, log_policies, num_episodes):
    """A draw of z [T] given all choices, and log p of the choices of each episode."""
    num_motives = rows.shape[2]
    filtered, log_likelihood = np.empty((len(segments.state), num_motives)), np.zeros(num_episodes)
    filter_forward(segments, rows, choice_table(log_policies, num_motives), filtered, log_likelihood)
    motive = np.zeros(len(filtered), dtype=np.int64)
    sample_backward(rng, segments, rows, filtered, motive)
    return motive, log_likelihood


def log_predictions(segments, rows, log_policies):
    """log p(a_t | choices before t) [T] of each recorded choice, 0 elsewhere: causal, as nothing later is read."""
    num_steps = len(segments.state)
    each = segments._replace(episode=np.arange(num_steps))
    return filtered_motives(each, rows, log_policies, num_steps)[1]


@compiled
def expected_counts(segments, weights, num_units, num_states, num_actions):
    """E N_k(s, a) of units [K · U, S, A], for weights [T, K] such as smoothed probabilities."""
    num_motives = weights.shape[1]
    state, action, unit = segments.state, segments.action, segments.unit
    found = np.zeros((num_motives * num_units, num_states, num_actions))
    for t in range(len(weights)):
        if action[t] >= 0:
            for k in range(num_motives):
                found[k * num_units + unit[t], state[t], action[t]] += weights[t, k]
    return found
