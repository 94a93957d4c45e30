"""Proposals for many tasks at a time, compiled: start at the state, plan together, evaluate, accept.

u → rewards ρ(u) → q* (or soft q) → log p(choices | u)        accepted where log uniform < the gain in log density

ρ = softmax(u) (Dirichlet), natural(u) (Beta, Gaussian), or features · natural(u)
"""

import math
from typing import NamedTuple

import numpy as np

from manymotives.by_reference import by_reference
from manymotives.families import BETA, natural
from manymotives.inference.mcmc.rewards import set_rewards
from manymotives.jit import compiled, inner
from manymotives.models.likelihood import discount_factor, inverse_temperature, log_likelihood, weights_workspace
from manymotives.models.target import ParameterLayout
from manymotives.planning.function_pointers import call
from manymotives.planning.simd import WIDTH
from manymotives.planning.warm_start import Plans, World, empty_plans, plan_again


@by_reference
class Proposals(NamedTuple):
    """Proposals: one per task, and idle lanes."""

    plans: Plans
    proposed: np.ndarray  # [N, D] u
    proposed_z: np.ndarray  # [N, D] z
    found: np.ndarray  # [N] log-likelihoods
    owner: np.ndarray  # [N] the task of each


def proposal_workspace(world: World, layout: ParameterLayout, num_tasks: int) -> Proposals:
    """Room for proposals of so many tasks."""
    count = -(-num_tasks // WIDTH) * WIDTH
    per_state = world.num_actions if layout.on_pairs else 1
    proposed, proposed_z = np.empty((count, len(layout.families))), np.empty((count, len(layout.families)))
    plans, owner = empty_plans(world, count, per_state), np.arange(count) % num_tasks
    return Proposals(plans, proposed, proposed_z, np.empty(count), owner)


@inner
def start_proposals(state, plans, proposed, proposed_z, owner, count):
    """The state of tasks `owner` [N] as proposals, with their plans to start from."""
    tasks, task_z, values, actions = state.tasks, state.task_z, state.value, state.actions
    new_values, new_actions = plans.value, plans.actions
    size = tasks.shape[1]
    for n in range(count):
        m = owner[n]
        for d in range(size):
            proposed[n, d] = tasks[m, d]
            proposed_z[n, d] = task_z[m, d]
        for s in range(values.shape[1]):
            new_values[n, s] = values[m, s]
            new_actions[n, s] = actions[m, s]


@inner
def evaluate_proposals(world, layout, data, plans, proposed, owner, count, found):
    """Log-likelihoods of proposals for tasks `owner` [N]; −inf where planning failed."""
    call(data.proposal_log_likelihoods, (world, layout, data, plans, proposed, owner, count, found))


@compiled
def proposal_log_likelihoods(world, layout, data, plans, proposed, owner, count, found):
    counts, known_lapse, lapse_index = data.counts, data.lapse, layout.lapse
    temperature, q, residual = plans.temperature, plans.q, plans.residual
    u = shifted(data, proposed, owner, count)
    plan_proposals(world, layout, data, plans, u, owner, count)
    weights = weights_workspace(counts.shape[1], counts.shape[2])
    for n in range(count):
        m = owner[n]
        found[n] = -np.inf
        if residual[n] < np.inf:
            lapse = known_lapse[m] if lapse_index < 0 else natural(BETA, u[n, lapse_index])
            value = log_likelihood(q, n, counts, m, temperature[n], lapse, weights)
            if not math.isnan(value):
                found[n] = value


@inner
def shifted(data, proposed, owner, count):
    """The first proposals with what covariates add to them: themselves where there are none."""
    offset = data.offset
    if len(offset) == 0:
        return proposed
    u = proposed.copy()
    for n in range(count):
        for d in range(u.shape[1]):
            u[n, d] += offset[owner[n], d]
    return u


@inner
def plan_proposals(world, layout, data, plans, proposed, owner, count):
    """Rewards, temperatures, discounts and plans of proposals, with what covariates add, for tasks `owner` [N]."""
    known_temperature, temperature_index, discount_index = data.temperature, layout.temperature, layout.discount
    rewards, temperature, ratio = plans.rewards, plans.temperature, plans.ratio
    set_rewards(layout, proposed, rewards, count)
    for n in range(count):
        temperature[n] = known_temperature[owner[n]]
        if temperature_index >= 0:
            temperature[n] = inverse_temperature(proposed[n, temperature_index])
        if discount_index >= 0:
            ratio[n] = discount_factor(proposed[n, discount_index])
    plan_again(world, plans, layout.is_soft, count)


@inner
def accept(tasks, task_z, value, actions, q, proposed, proposed_z, new_value, new_actions, new_q, n, m):
    """The n-th proposal becomes the state of task m."""
    _, num_states, num_actions = q.shape
    for d in range(tasks.shape[1]):
        tasks[m, d] = proposed[n, d]
        task_z[m, d] = proposed_z[n, d]
    for s in range(num_states):
        value[m, s] = new_value[n, s]
        actions[m, s] = new_actions[n, s]
        for a in range(num_actions):
            q[m, s, a] = new_q[n, s, a]


@inner
def copy_row(into, m, source):
    """Row m of one matrix into another. (An assignment of slices would compile checks of their lengths as well.)"""
    for d in range(into.shape[1]):
        into[m, d] = source[m, d]
