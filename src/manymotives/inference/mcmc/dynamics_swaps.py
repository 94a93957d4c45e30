"""Two states change places, in what follows and in what is wanted: the compiled move from one explanation to another.

"They go there because of what is there" leaves open which place is meant, where little is known about what leads to
it: a high reward in one state and rows of transitions that lead to it explain the same choices as a high reward in
another and rows that lead to that. Neither rewards nor rows can change by themselves. So some rows exchange the
probabilities of two next states, in a way that leaves the belief as it is, and the proposal is judged by

    Π over populations Σ over h Π over tasks Σ over x  p(h) p(x | h) p(choices | x, environment),

where x are a task's rewards as they are or with those of the two states exchanged, and h the same of a population's
hyperparameters: whoever would have to change along is summed over. Then each h and x are drawn given the environment.
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
from manymotives.inference.mcmc.proposals import begin_trials, judge_trials, keep, room_for
from manymotives.jit import compiled, inner


@compiled
def exchange_states(rng, world, anatomy, data, state, rows):
    """Two states, drawn at random, change places in some rows of transitions, and in tasks and populations to match."""
    size, num_tasks, hyper = anatomy.num_rewards, len(state.tasks), state.hyper
    if size < 2 or anatomy.features.size > 0 or anatomy.on_pairs:
        return  # rewards do not belong to states, one each
    d = min(int(rng.random() * size), size - 1)
    e = (d + 1 + min(int(rng.random() * (size - 1)), size - 2)) % size
    logs = rows.logs.copy()
    if not _exchange_in_rows(rng, world, rows, anatomy.places[d], anatomy.places[e]):
        return
    as_is, exchanged = room_for(world, anatomy, num_tasks), room_for(world, anatomy, num_tasks)
    weights, own = _weigh(anatomy, state, d, e)
    sums = np.empty((len(hyper), 2))
    _judge(world, anatomy, data, state, exchanged, d, e, True)
    before = _add_up(weights, own, state.log_likelihood, exchanged[3], sums)
    _tell(world, rows, logs)
    _judge(world, anatomy, data, state, as_is, d, e, False)
    _judge(world, anatomy, data, state, exchanged, d, e, True)
    after = _add_up(weights, own, as_is[3], exchanged[3], sums)
    if math.log1p(-rng.random()) < after - before:
        _choose(rng, anatomy, state, as_is, exchanged, weights, sums, d, e)
    else:
        logs, rows.logs[:] = rows.logs.copy(), logs
        _tell(world, rows, logs)


@inner
def _exchange_in_rows(rng, world, rows, first, second):
    """Exchange the probabilities of two next states in some rows, each with the odds of the belief; whether in any."""
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
def _judge(world, anatomy, data, state, room, d, e, is_exchanged):
    """Log-likelihoods, left in the room, of tasks as they are or with coordinates d and e exchanged."""
    plans, trial, trial_z, found, owner = room
    num_tasks = len(state.tasks)
    begin_trials(state, plans, trial, trial_z, owner, num_tasks)
    plans.age[:] = -1  # of inverses: they may belong to other transitions
    if is_exchanged:
        for m in range(num_tasks):
            trial[m, d], trial[m, e] = trial[m, e], trial[m, d]
    judge_trials(world, anatomy, data, plans, trial, owner, num_tasks, found)


@inner
def _weigh(anatomy, state, d, e):
    """Log prior weights [M, 2, 2] of tasks, given h and x each in either order, and [G, 2] of populations.

    What is the same for all tasks of a population is among the weights of that.
    """
    tasks, hyper, families = state.tasks, state.hyper, anatomy.families
    weights, own = np.zeros((len(tasks), 2, 2)), np.zeros((len(hyper), 2))
    before, parameters = np.empty((len(families), 2)), np.empty((len(families), 2))
    for g in range(len(hyper)):
        set_parameters(anatomy, hyper, g, before)
        for h in range(2):
            if h == 1 and not _exchange_hyper(anatomy, hyper, g, d, e):
                own[g, 1] = -np.inf  # there is but one order
                break
            own[g, h] = _log_hyper(anatomy, hyper, g, d, e)
            set_parameters(anatomy, hyper, g, parameters)
            own[g, h] += anatomy.group_size * log_normaliser(families[d], parameters[d, 0], parameters[d, 1])
            own[g, h] += anatomy.group_size * log_normaliser(families[e], parameters[e, 0], parameters[e, 1])
            for m in range(g * anatomy.group_size, (g + 1) * anatomy.group_size):
                for x in range(2):
                    at_d, at_e = (d, e) if x == 0 else (e, d)
                    weights[m, h, x] = _log_kernel_at(families, state, m, at_d, before, d, parameters)
                    weights[m, h, x] += _log_kernel_at(families, state, m, at_e, before, e, parameters)
            if h == 1:
                _exchange_hyper(anatomy, hyper, g, d, e)  # back
    return weights, own


@inner
def _log_kernel_at(families, state, m, k, before, d, parameters):
    """The kernel of coordinate d's density where coordinate k of task m is now, of which z belongs to `before`."""
    a, b = parameters[d, 0], parameters[d, 1]
    if is_location_scale(families[d]):
        return -0.5 * standardised(state.task_z[m, k], before[k, 0], before[k, 1], a, b) ** 2
    return log_kernel(families[d], state.tasks[m, k] - location(families[d], a, b), a, b)


@inner
def _exchange_hyper(anatomy, hyper, g, d, e):
    """Exchange what population g has for coordinate d with what it has for e; whether that is anything."""
    source = anatomy.source
    is_anything = False
    for column in range(2):
        one, other = source[d, column], source[e, column]
        if one >= 0 and other >= 0 and one != other:
            hyper[g, one], hyper[g, other] = hyper[g, other], hyper[g, one]
            is_anything = True
    return is_anything


@inner
def _log_hyper(anatomy, hyper, g, d, e):
    """Log prior density of the hyperparameters that an exchange would change."""
    source, families, constants = anatomy.source, anatomy.hyper_families, anatomy.hyper_constants
    total = 0.0
    for column in range(2):
        one, other = source[d, column], source[e, column]
        if one >= 0 and other >= 0 and one != other:
            total += log_density(families[one], hyper[g, one], constants[one, 0], constants[one, 1])
            total += log_density(families[other], hyper[g, other], constants[other, 0], constants[other, 1])
    return total


@inner
def _add_up(weights, own, as_is, exchanged, sums):
    """log of the sum over all orders, given log-likelihoods [M] of both; sums [G, 2] is left with those given h."""
    group_size = len(weights) // len(own)
    total = 0.0
    for g in range(len(own)):
        for h in range(2):
            sums[g, h] = own[g, h]
            for m in range(g * group_size, (g + 1) * group_size):
                sums[g, h] += log_sum(weights[m, h, 0] + as_is[m], weights[m, h, 1] + exchanged[m])
        total += log_sum(sums[g, 0], sums[g, 1])
    return total


@inner
def _choose(rng, anatomy, state, as_is, exchanged, weights, sums, d, e):
    """Draw an order of each population, then of each of its tasks, in the new environment."""
    tasks, value, actions, q, log_likelihoods = state.tasks, state.value, state.actions, state.q, state.log_likelihood
    task_z = state.task_z
    plans, trial, trial_z, found, _ = as_is
    other_plans, other_trial, other_z, other_found, _ = exchanged
    group_size = anatomy.group_size
    is_scaled = is_location_scale(anatomy.families[d])  # all rewards are of one family
    before, after = np.empty((len(anatomy.families), 2)), np.empty((len(anatomy.families), 2))
    for g in range(len(sums)):
        set_parameters(anatomy, state.hyper, g, before)
        h = int(math.log(rng.random()) < sums[g, 1] - log_sum(sums[g, 0], sums[g, 1]))
        if h == 1:
            _exchange_hyper(anatomy, state.hyper, g, d, e)
        set_parameters(anatomy, state.hyper, g, after)
        for m in range(g * group_size, (g + 1) * group_size):
            here, there = weights[m, h, 0] + found[m], weights[m, h, 1] + other_found[m]
            if is_scaled:
                for k, i in ((d, e), (e, d)):
                    a, b = after[k, 0], after[k, 1]
                    trial_z[m, k] = standardised(task_z[m, k], before[k, 0], before[k, 1], a, b)
                    other_z[m, k] = standardised(task_z[m, i], before[i, 0], before[i, 1], a, b)
            if math.log(rng.random()) < there - log_sum(here, there):
                log_likelihoods[m] = other_found[m]
                new_value, new_actions, new_q = other_plans.value, other_plans.actions, other_plans.q
                keep(tasks, task_z, value, actions, q, other_trial, other_z, new_value, new_actions, new_q, m, m)
            else:
                log_likelihoods[m] = found[m]
                new_value, new_actions, new_q = plans.value, plans.actions, plans.q
                keep(tasks, task_z, value, actions, q, trial, trial_z, new_value, new_actions, new_q, m, m)


@inner
def _tell(world, rows, before):
    """The world's transitions, of rows that are no longer what they were."""
    for pair in rows.pairs:
        for k in range(world.indptr[pair], world.indptr[pair + 1]):
            if rows.logs[k] != before[k]:
                set_row(world, rows.logs, pair)
                break
