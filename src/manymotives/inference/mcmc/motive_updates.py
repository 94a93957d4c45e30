"""Updates of the hidden chain of motives, compiled:

rows, κ, ν | z             conditional draws on the tree of rows                          `row_tree.draw_rows`
z | θ, rows                forward filtering, backward sampling                           `models.hidden_markov`
θ | z                      the sweeps that all models have, given counts N_k(s, a)        `sweeps`
"""

import math

import numpy as np

from manymotives.families import BETA, natural
from manymotives.inference.mcmc.row_tree import draw_rows
from manymotives.jit import compiled, inner
from manymotives.models.hidden_markov import choice_table, filter_forward, sample_backward
from manymotives.models.likelihood import inverse_temperature, log_likelihood, weights_workspace


@compiled
def count_choices(segments, motive, counts, num_units):
    """N_k(s, a) of units into counts [K · U, S, A]."""
    _count_choices(segments, motive, counts, num_units)


@inner
def _count_choices(segments, motive, counts, num_units):
    states, actions, unit = segments.state, segments.action, segments.unit
    counts[:] = 0.0
    for t in range(len(motive)):
        if actions[t] >= 0:
            counts[motive[t] * num_units + unit[t], states[t], actions[t]] += 1.0


@compiled
def resample_rows(rng, segments, tree, state):
    """Rows, κ and ν given the motives."""
    _resample_rows(rng, segments, tree, state)


@compiled
def update_motives(rng, layout, data, chain, segments, tree, state):
    """Rows given motives; motives given rows and policies; counts, and log-likelihoods given the motives."""
    _resample_rows(rng, segments, tree, state)
    log_policies = _log_policies(layout, data, chain)
    num_motives = state.rows.shape[2]
    table = choice_table(log_policies, num_motives)
    state.log_likelihood[:] = 0.0
    filter_forward(segments, state.context_rows, table, state.filtered, state.log_likelihood)
    sample_backward(rng, segments, state.context_rows, state.filtered, state.motive)
    counts = data.counts
    _count_choices(segments, state.motive, counts, len(counts) // num_motives)
    workspace = weights_workspace(counts.shape[1], counts.shape[2])
    for m in range(len(counts)):
        temperature, lapse = _temperature_and_lapse(layout, data, chain.tasks, m)
        chain.log_likelihood[m] = log_likelihood(chain.q, m, counts, m, temperature, lapse, workspace)


@inner
def _resample_rows(rng, segments, tree, state):
    rows, motive, begins, context = state.rows, state.motive, segments.begins, segments.context
    node_of, context_rows = tree.context, state.context_rows
    num_motives = rows.shape[2]
    counts = np.zeros(rows.shape)
    for t in range(len(motive)):
        j = num_motives if begins[t] else motive[t - 1]
        counts[node_of[context[t]], j, motive[t]] += 1.0
    draw_rows(rng, tree, counts, rows, state.stickiness, state.concentration, state.use)
    for c in range(len(node_of)):
        for j in range(num_motives + 1):
            for k in range(num_motives):
                context_rows[c, j, k] = rows[node_of[c], j, k]


@inner
def _temperature_and_lapse(layout, data, tasks, m):
    temperature, lapse = data.temperature[m], data.lapse[m]
    if layout.temperature >= 0:
        temperature = inverse_temperature(tasks[m, layout.temperature])
    if layout.lapse >= 0:
        lapse = natural(BETA, tasks[m, layout.lapse])
    return temperature, lapse


@inner
def _log_policies(layout, data, chain):
    """log π(a|s) [K · U, S, A] of the chain's state; −inf where an action does not exist."""
    q, tasks = chain.q, chain.tasks
    count, num_states, num_actions = q.shape
    found = np.full((count, num_states, num_actions), -np.inf)
    for m in range(count):
        temperature, lapse = _temperature_and_lapse(layout, data, tasks, m)
        for s in range(num_states):
            best, available, weight = -np.inf, 0, 0.0
            for a in range(num_actions):
                best = max(best, q[m, s, a])
            for a in range(num_actions):
                if q[m, s, a] > -np.inf:
                    available += 1
                    weight += math.exp(temperature * (q[m, s, a] - best))
            for a in range(num_actions):
                if q[m, s, a] > -np.inf:
                    share = temperature * (q[m, s, a] - best) - math.log(weight)
                    if lapse > 0.0:
                        share = math.log(min((1.0 - lapse) * math.exp(share) + lapse / available, 1.0))
                    found[m, s, a] = min(share, 0.0)
    return found
