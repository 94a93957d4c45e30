"""Swap moves of two states, in transition probabilities and in rewards, compiled: from one explanation to another.

Where the dynamics are uncertain, a high reward in one state with rows of transitions that lead to it explains the same
choices as a high reward in another state with rows that lead there; neither rewards nor rows can change alone. So the
probabilities of two next states are swapped in some rows, reversibly under the belief, and the swap of rewards is
summed over: the proposal T' is accepted with min(1, L(T') / L(T)), where

    L(T) = Π over populations Σ over h Π over tasks Σ over x  p(h) p(x | h) p(choices | x, T),

x is a task's rewards as they are or with those of the two states swapped, and h the same of the hyperparameters. Then
each h, and each x, is drawn from its conditional distribution given T.
"""

import math

import numpy as np

from manymotives.families import (
    is_location_scale,
    location,
    log_density,
    log_kernel,
    log_normaliser,
    standardised,
)
from manymotives.inference.mcmc.dynamics_rows import log_sum, set_row
from manymotives.inference.mcmc.populations import set_parameters
from manymotives.inference.mcmc.proposals import (
    accept,
    evaluate_proposals,
    start_proposals,
)
from manymotives.jit import compiled, inner


@compiled
def swap_states(rng, world, layout, data, state, rows, as_is, swapped):
    """Swap two states, drawn at random, in some rows of transitions, and in tasks and populations to match.

    `as_is` and `swapped` are workspaces of proposals.
    """
    size, hyper = layout.num_rewards, state.hyper
    if size < 2 or len(layout.features.begin) > 1 or layout.on_pairs:
        return  # rewards are not one for each state
    d = min(int(rng.random() * size), size - 1)
    e = (d + 1 + min(int(rng.random() * (size - 1)), size - 2)) % size
    logs = rows.logs.copy()
    if not _swap_in_rows(rng, world, rows, layout.reward_index[d], layout.reward_index[e]):
        return
    weights, own = _weigh(layout, state, d, e)
    sums = np.empty((len(hyper), 2))
    _log_likelihoods(world, layout, data, state, swapped, d, e, True)
    before = _add_up(weights, own, state.log_likelihood, swapped.found, sums)
    _update_world(world, rows, logs)
    _log_likelihoods(world, layout, data, state, as_is, d, e, False)
    _log_likelihoods(world, layout, data, state, swapped, d, e, True)
    after = _add_up(weights, own, as_is.found, swapped.found, sums)
    if math.log1p(-rng.random()) < after - before:
        _choose(rng, layout, state, as_is, swapped, weights, sums, d, e)
    else:
        for k in range(len(logs)):
            logs[k], rows.logs[k] = rows.logs[k], logs[k]
        _update_world(world, rows, logs)


@inner
def _swap_in_rows(rng, world, rows, first, second):
    """Swap the probabilities of two next states in some rows, each with the odds of the belief; whether in any."""
    logs, concentration, pairs = rows.logs, rows.concentration, rows.pairs
    is_any = False
    share = rng.random()
    for r in range(len(pairs)):
        if rng.random() < share:
            one, other = -1, -1
            for k in range(world.indptr[pairs[r]], world.indptr[pairs[r] + 1]):
                if world.indices[k] == first:
                    one = k
                elif world.indices[k] == second:
                    other = k
            if one >= 0 and other >= 0:
                odds = (concentration[one] - concentration[other]) * (logs[other] - logs[one])
                if rng.random() < 1.0 / (1.0 + math.exp(-odds)):
                    logs[one], logs[other] = logs[other], logs[one]
                    is_any = True
    return is_any


@inner
def _log_likelihoods(world, layout, data, state, workspace, d, e, is_swapped):
    """Log-likelihoods, left in the workspace, of tasks as they are or with coordinates d and e swapped."""
    plans, proposed, proposed_z = workspace.plans, workspace.proposed, workspace.proposed_z
    found, owner = workspace.found, workspace.owner
    num_tasks = len(state.tasks)
    start_proposals(state, plans, proposed, proposed_z, owner, num_tasks)
    plans.age[:] = -1  # of inverses: they may belong to other transitions
    if is_swapped:
        for m in range(num_tasks):
            proposed[m, d], proposed[m, e] = proposed[m, e], proposed[m, d]
    evaluate_proposals(world, layout, data, plans, proposed, owner, num_tasks, found)


@inner
def _weigh(layout, state, d, e):
    """Log prior weights [M, 2, 2] of tasks, given h and x each in either order, and [G, 2] of populations.

    Terms that all tasks of a population share are among the weights of the population.
    """
    tasks, hyper, families = state.tasks, state.hyper, layout.families
    weights, own = np.zeros((len(tasks), 2, 2)), np.zeros((len(hyper), 2))
    before, parameters = np.empty((len(families), 2)), np.empty((len(families), 2))
    for g in range(len(hyper)):
        set_parameters(layout, hyper, g, before)
        for h in range(2):
            if h == 1 and not _swap_hyper(layout, hyper, g, d, e):
                own[g, 1] = -np.inf  # there is but one order
                break
            own[g, h] = _log_hyper(layout, hyper, g, d, e)
            set_parameters(layout, hyper, g, parameters)
            own[g, h] += layout.group_size * log_normaliser(families[d], parameters[d, 0], parameters[d, 1])
            own[g, h] += layout.group_size * log_normaliser(families[e], parameters[e, 0], parameters[e, 1])
            for m in range(g * layout.group_size, (g + 1) * layout.group_size):
                for x in range(2):
                    at_d, at_e = (d, e) if x == 0 else (e, d)
                    weights[m, h, x] = _log_kernel_at(families, state, m, at_d, before, d, parameters)
                    weights[m, h, x] += _log_kernel_at(families, state, m, at_e, before, e, parameters)
            if h == 1:
                _swap_hyper(layout, hyper, g, d, e)  # back
    return weights, own


@inner
def _log_kernel_at(families, state, m, k, before, d, parameters):
    """The kernel of coordinate d's density where coordinate k of task m is now, of which z belongs to `before`."""
    a, b = parameters[d, 0], parameters[d, 1]
    if is_location_scale(families[d]):
        return -0.5 * standardised(state.task_z[m, k], before[k, 0], before[k, 1], a, b) ** 2
    return log_kernel(families[d], state.tasks[m, k] - location(families[d], a, b), a, b)


@inner
def _swap_hyper(layout, hyper, g, d, e):
    """Swap population g's hyperparameters of coordinates d and e; whether there are any."""
    source = layout.source
    is_anything = False
    for column in range(2):
        one, other = source[d, column], source[e, column]
        if one >= 0 and other >= 0 and one != other:
            hyper[g, one], hyper[g, other] = hyper[g, other], hyper[g, one]
            is_anything = True
    return is_anything


@inner
def _log_hyper(layout, hyper, g, d, e):
    """Log prior density of the hyperparameters that a swap would change."""
    source, families, constants = layout.source, layout.hyper_families, layout.hyper_constants
    total = 0.0
    for column in range(2):
        one, other = source[d, column], source[e, column]
        if one >= 0 and other >= 0 and one != other:
            total += log_density(families[one], hyper[g, one], constants[one, 0], constants[one, 1])
            total += log_density(families[other], hyper[g, other], constants[other, 0], constants[other, 1])
    return total


@inner
def _add_up(weights, own, as_is, swapped, sums):
    """log of the sum over all orders, given log-likelihoods [M] of both; sums [G, 2] is left with those given h."""
    group_size = len(weights) // len(own)
    total = 0.0
    for g in range(len(own)):
        for h in range(2):
            sums[g, h] = own[g, h]
            for m in range(g * group_size, (g + 1) * group_size):
                sums[g, h] += log_sum(weights[m, h, 0] + as_is[m], weights[m, h, 1] + swapped[m])
        total += log_sum(sums[g, 0], sums[g, 1])
    return total


@inner
def _choose(rng, layout, state, as_is, swapped, weights, sums, d, e):
    """Draw an order of each population, then of each of its tasks, in the new environment."""
    tasks, value, actions, q, log_likelihoods = state.tasks, state.value, state.actions, state.q, state.log_likelihood
    task_z = state.task_z
    plans, proposed, proposed_z, found = as_is.plans, as_is.proposed, as_is.proposed_z, as_is.found
    other_plans, other_proposed = swapped.plans, swapped.proposed
    other_z, other_found = swapped.proposed_z, swapped.found
    group_size = layout.group_size
    is_scaled = is_location_scale(layout.families[d])  # all rewards are of one family
    before, after = np.empty((len(layout.families), 2)), np.empty((len(layout.families), 2))
    for g in range(len(sums)):
        set_parameters(layout, state.hyper, g, before)
        h = int(math.log(rng.random()) < sums[g, 1] - log_sum(sums[g, 0], sums[g, 1]))
        if h == 1:
            _swap_hyper(layout, state.hyper, g, d, e)
        set_parameters(layout, state.hyper, g, after)
        for m in range(g * group_size, (g + 1) * group_size):
            here, there = weights[m, h, 0] + found[m], weights[m, h, 1] + other_found[m]
            if is_scaled:
                for k, i in ((d, e), (e, d)):
                    a, b = after[k, 0], after[k, 1]
                    proposed_z[m, k] = standardised(task_z[m, k], before[k, 0], before[k, 1], a, b)
                    other_z[m, k] = standardised(task_z[m, i], before[i, 0], before[i, 1], a, b)
            if math.log(rng.random()) < there - log_sum(here, there):
                log_likelihoods[m] = other_found[m]
                new_value, new_actions, new_q = other_plans.value, other_plans.actions, other_plans.q
                accept(tasks, task_z, value, actions, q, other_proposed, other_z, new_value, new_actions, new_q, m, m)
            else:
                log_likelihoods[m] = found[m]
                new_value, new_actions, new_q = plans.value, plans.actions, plans.q
                accept(tasks, task_z, value, actions, q, proposed, proposed_z, new_value, new_actions, new_q, m, m)


@inner
def _update_world(world, rows, before):
    """Set the world's transitions where rows have changed."""
    for pair in rows.pairs:
        for k in range(world.indptr[pair], world.indptr[pair + 1]):
            if rows.logs[k] != before[k]:
                set_row(world, rows.logs, pair)
                break
