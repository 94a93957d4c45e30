"""Proposals for many tasks at a time, compiled: begun where tasks are, planned for together, judged by likelihood."""

import math

import numpy as np

from manymotives.families import BETA, natural
from manymotives.jit import compiled, inner
from manymotives.models.likelihood import inverse_temperature, log_likelihood, weights_workspace
from manymotives.models.rewards import NORMALISED
from manymotives.planning.function_pointers import call
from manymotives.planning.simd import WIDTH
from manymotives.planning.warm_start import empty_plans, plan_again


@inner
def room_for(world, anatomy, num_tasks):
    """Plans, coordinates u and z [N, D], log-likelihoods [N] and owners [N] of trials: one a task, and idle lanes."""
    count = -(-num_tasks // WIDTH) * WIDTH
    per_state = world.num_actions if anatomy.on_pairs else 1
    trial, trial_z = np.empty((count, len(anatomy.families))), np.empty((count, len(anatomy.families)))
    return empty_plans(world, count, per_state), trial, trial_z, np.empty(count), np.arange(count) % num_tasks


@inner
def begin_trials(state, plans, trial, trial_z, owner, count):
    """Tasks `owner` [N] as trials, with their plans to begin from."""
    tasks, task_z, values, actions = state.tasks, state.task_z, state.value, state.actions
    new_values, new_actions = plans.value, plans.actions
    size = tasks.shape[1]
    for n in range(count):
        m = owner[n]
        for d in range(size):
            trial[n, d] = tasks[m, d]
            trial_z[n, d] = task_z[m, d]
        for s in range(values.shape[1]):
            new_values[n, s] = values[m, s]
            new_actions[n, s] = actions[m, s]


@inner
def judge_trials(world, anatomy, data, plans, trial, owner, count, found):
    """Log-likelihoods of trials of tasks `owner` [N]; −inf where planning failed."""
    call(data.trial_judge, (world, anatomy, data, plans, trial, owner, count, found))


@compiled
def trial_judge(world, anatomy, data, plans, trial, owner, count, found):
    counts, known_lapse, lapse_place = data.counts, data.lapse, anatomy.lapse
    temperature, q, residual = plans.temperature, plans.q, plans.residual
    plan_trials(world, anatomy, data, plans, trial, owner, count)
    weights = weights_workspace(counts.shape[1], counts.shape[2])
    for n in range(count):
        m = owner[n]
        found[n] = -np.inf
        if residual[n] < np.inf:
            lapse = known_lapse[m] if lapse_place < 0 else natural(BETA, trial[n, lapse_place])
            value = log_likelihood(q, n, counts, m, temperature[n], lapse, weights)
            if not math.isnan(value):
                found[n] = value


@inner
def plan_trials(world, anatomy, data, plans, trial, owner, count):
    """Rewards, temperatures and plans of trials of tasks `owner` [N]."""
    known_temperature, temperature_place = data.temperature, anatomy.temperature
    rewards, temperature = plans.rewards, plans.temperature
    set_rewards(anatomy, trial, rewards, count)
    for n in range(count):
        temperature[n] = known_temperature[owner[n]]
        if temperature_place >= 0:
            temperature[n] = inverse_temperature(trial[n, temperature_place])
    plan_again(world, plans, anatomy.is_soft, count)


@inner
def keep(tasks, task_z, value, actions, q, trial, trial_z, new_value, new_actions, new_q, n, m):
    """The n-th trial becomes the state of task m."""
    _, num_states, num_actions = q.shape
    for d in range(tasks.shape[1]):
        tasks[m, d] = trial[n, d]
        task_z[m, d] = trial_z[n, d]
    for s in range(num_states):
        value[m, s] = new_value[n, s]
        actions[m, s] = new_actions[n, s]
        for a in range(num_actions):
            q[m, s, a] = new_q[n, s, a]


@inner
def copy_row(into, m, source):
    """Row m of one matrix into another. (An assignment would be compiled with all that it says of rows that differ.)"""
    for d in range(into.shape[1]):
        into[m, d] = source[m, d]


@inner
def set_rewards(anatomy, trial, rewards, count):
    """Rewards [N, S, 1 or A] of the first trials."""
    families, features, places, link = anatomy.families, anatomy.features, anatomy.places, anatomy.link
    size = anatomy.num_rewards
    _, num_states, per_state = rewards.shape
    x = np.empty(size)
    for n in range(count):
        if link == NORMALISED:
            largest = trial[n, 0]
            for k in range(1, size):
                largest = max(largest, trial[n, k])
            total = 0.0
            for k in range(size):
                x[k] = math.exp(trial[n, k] - largest)
                total += x[k]
            for k in range(size):
                x[k] /= total
        else:
            for k in range(size):
                x[k] = natural(families[k], trial[n, k])
        if features.size > 0:
            for i in range(num_states * per_state):
                total = 0.0
                for k in range(size):
                    total += features[i, k] * x[k]
                rewards[n, i // per_state, i % per_state] = total
        elif per_state == 1:
            for k in range(size):
                rewards[n, places[k], 0] = x[k]
        else:
            for k in range(size):
                rewards[n, places[k] // per_state, places[k] % per_state] = x[k]
