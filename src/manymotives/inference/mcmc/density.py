"""MRP's posterior and its gradient in coordinates that do not know their population: compiled.

A task's coordinate is u = T(z; a, b), a population's h = T(z; constants), where T resembles a quantile function
(`noncentred`): before the data z is nearly standard normal, whatever the population, and a population that moves
carries its tasks along. What T does to densities is counted, so that T only has to be good, not right.

The gradient goes back the same way: choices → values → rewards (one adjoint solve) → u → z, and the population's z.
"""

import math
from typing import NamedTuple

import numpy as np

from manymotives.families import BETA, NORMAL, is_location_scale, natural
from manymotives.inference.mcmc.noncentred import latent, latent_constants, latent_density, latent_normaliser
from manymotives.inference.mcmc.proposals import plan_trials
from manymotives.jit import compiled, inner
from manymotives.models.gradient import likelihood_and_pull
from manymotives.models.likelihood import COLDEST, HOTTEST, weights_workspace
from manymotives.models.rewards import NORMALISED
from manymotives.planning.function_pointers import call
from manymotives.planning.simd import WIDTH
from manymotives.planning.warm_start import Plans, empty_plans, pull_back

FARTHEST = 30.0  # a standard normal is never so far from 0


class Room(NamedTuple):
    """Where densities are worked out. `plans` stay for the next to begin from."""

    plans: Plans
    policies: np.ndarray  # [N, S, A]
    pull: np.ndarray  # [N, S, A] of log-likelihoods in q, then in rewards
    worth: np.ndarray  # [N, S]
    owner: np.ndarray  # [N] whose lane it is
    hyper: np.ndarray  # [G, H] h
    values: np.ndarray  # [G, H] the hyperparameters themselves
    tasks: np.ndarray  # [N, D] u
    log_likelihood: np.ndarray  # [M]
    lift: np.ndarray  # [M, D] its gradient in u
    task_density: np.ndarray  # [M] log p(choices, z_m | population)
    population_density: np.ndarray  # [G] log p of a population and its tasks
    task_slope: np.ndarray  # [M, D] gradient in the tasks' z
    population_slope: np.ndarray  # [G, H] in the populations' z
    bends: np.ndarray  # [M, D, 5] derivatives: of u in z, a, b; of log p(z | a, b) in a, b
    hyper_bends: np.ndarray  # [G, H] of the hyperparameters themselves in their z


@inner
def latent_room(world, anatomy, num_tasks, num_groups):
    count = -(-num_tasks // WIDTH) * WIDTH
    size, num_hyper = len(anatomy.families), len(anatomy.hyper_families)
    per_state = world.num_actions if anatomy.on_pairs else 1
    table = (count, world.num_states, world.num_actions)
    return Room(
        empty_plans(world, count, per_state),
        np.zeros(table),
        np.zeros(table),
        np.zeros((count, world.num_states)),
        np.arange(count) % num_tasks,
        np.zeros((num_groups, num_hyper)),
        np.zeros((num_groups, num_hyper)),
        np.zeros((count, size)),
        np.zeros(num_tasks),
        np.zeros((num_tasks, size)),
        np.zeros(num_tasks),
        np.zeros(num_groups),
        np.zeros((num_tasks, size)),
        np.zeros((num_groups, num_hyper)),
        np.zeros((num_tasks, size, 5)),
        np.zeros((num_groups, num_hyper)),
    )


@inner
def find_latent(anatomy, hyper, tasks, hyper_z, task_z):
    """Leave z of populations h [G, H] and of tasks u [M, D]; what stands there is the first guess.

    Of tasks' location–scale coordinates z is what stands there: where their population is narrow, u does not tell.
    """
    families, hyper_families, constants = anatomy.families, anatomy.hyper_families, anatomy.hyper_constants
    num_groups, num_hyper = hyper.shape
    num_tasks, size = tasks.shape
    for g in range(num_groups):
        for j in range(num_hyper):
            hyper_z[g, j] = latent(hyper_families[j], hyper[g, j], constants[j, 0], constants[j, 1], hyper_z[g, j])
    parameters, values = np.empty((size, 2)), np.empty(num_hyper)
    for m in range(num_tasks):
        if m % anatomy.group_size == 0:
            g = m // anatomy.group_size
            for j in range(num_hyper):
                values[j] = natural(hyper_families[j], hyper[g, j])
            set_parameters_at(anatomy, values, parameters)
        for d in range(size):
            if not is_location_scale(families[d]):
                task_z[m, d] = latent(families[d], tasks[m, d], parameters[d, 0], parameters[d, 1], task_z[m, d])


@compiled
def latent_draws(anatomy, hyper, tasks):
    """z of populations [N, G, H] and tasks [N, M, D], for draws of both.

    Of location–scale coordinates as well as u tells them: beyond FARTHEST is rounding error, and set to 0.
    """
    hyper_z, task_z = np.zeros_like(hyper), np.zeros_like(tasks)
    parameters, values = np.empty((tasks.shape[2], 2)), np.empty(hyper.shape[2])
    for n in range(len(tasks)):
        find_latent(anatomy, hyper[n], tasks[n], hyper_z[n], task_z[n])
        for m in range(tasks.shape[1]):
            g = m // anatomy.group_size
            for j in range(len(values)):
                values[j] = natural(anatomy.hyper_families[j], hyper[n, g, j])
            set_parameters_at(anatomy, values, parameters)
            for d in range(len(parameters)):
                if is_location_scale(anatomy.families[d]):
                    z = (tasks[n, m, d] - parameters[d, 0]) / parameters[d, 1]
                    task_z[n, m, d] = z if abs(z) < FARTHEST else 0.0
    return hyper_z, task_z


@inner
def set_parameters_at(anatomy, values, parameters):
    """parameters [D, 2] of the coordinates of a population's tasks, from its hyperparameters [H] themselves."""
    source, constants = anatomy.source, anatomy.constants
    for d in range(len(source)):
        for column in range(2):
            j = source[d, column]
            parameters[d, column] = constants[d, column] if j < 0 else values[j]


@inner
def judge(world, anatomy, data, room, hyper_z, task_z):
    """Densities and gradients at z of populations [G, H] and tasks [M, D], in `room`; −inf where they do not exist."""
    call(data.path_judge, (world, anatomy, data, room, hyper_z, task_z))


@compiled
def path_judge(world, anatomy, data, room, hyper_z, task_z):
    _place(anatomy, room, hyper_z, task_z)
    _judge_choices(world, anatomy, data, room)
    _conclude(anatomy, room)


@inner
def judge_again(anatomy, room, hyper_z, task_z):
    """The same where u is as it was, so that log-likelihoods and their gradients in u are those that stand there."""
    _place(anatomy, room, hyper_z, task_z)
    _conclude(anatomy, room)


@inner
def _place(anatomy, room, hyper_z, task_z):
    """h and u, and what densities and gradients are before the choices."""
    families, hyper_families, constants = anatomy.families, anatomy.hyper_families, anatomy.hyper_constants
    hyper, values, tasks, bends = room.hyper, room.values, room.tasks, room.bends
    task_slope, population_slope, hyper_bends = room.task_slope, room.population_slope, room.hyper_bends
    task_density, population_density = room.task_density, room.population_density
    group_size = anatomy.group_size
    num_groups, num_hyper = hyper.shape
    size = len(families)
    parameters, shared = np.empty((size, 2)), np.empty((size, 3))
    for g in range(num_groups):
        exists = True
        population_density[g] = 0.0
        for j in range(num_hyper):
            family, a, b = hyper_families[j], constants[j, 0], constants[j, 1]
            shift, spread, centre = latent_constants(family, a, b)
            h, density, by_z, _, _, h_z, _, _ = latent_density(family, hyper_z[g, j], a, b, shift, spread, centre)
            x = natural(family, h)
            hyper[g, j], values[g, j] = h, x
            population_density[g] += density + latent_normaliser(family, a, b)[0]
            population_slope[g, j] = by_z
            hyper_bends[g, j] = h_z * (1.0 if family == NORMAL else x * (1.0 - x) if family == BETA else x)
            exists = exists and not math.isinf(x) and (x > 0.0 or family == NORMAL)
        if not exists:
            population_density[g] = -np.inf
        set_parameters_at(anatomy, values[g], parameters)
        for d in range(size):
            shared[d, 0], shared[d, 1], shared[d, 2] = latent_constants(families[d], parameters[d, 0], parameters[d, 1])
        for m in range(g * group_size, (g + 1) * group_size):
            total = 0.0
            for d in range(size):
                a, b, shift, spread, centre = (
                    parameters[d, 0],
                    parameters[d, 1],
                    shared[d, 0],
                    shared[d, 1],
                    shared[d, 2],
                )
                u, density, by_z, by_a, by_b, u_z, u_a, u_b = latent_density(
                    families[d], task_z[m, d], a, b, shift, spread, centre
                )
                total += density
                tasks[m, d] = u
                task_slope[m, d] = by_z
                bends[m, d, 0], bends[m, d, 1], bends[m, d, 2] = u_z, u_a, u_b
                bends[m, d, 3], bends[m, d, 4] = by_a, by_b
            task_density[m] = total


@inner
def _conclude(anatomy, room):
    """Densities and gradients with the choices."""
    families, source = anatomy.families, anatomy.source
    values, lift, bends, found = room.values, room.lift, room.bends, room.log_likelihood
    hyper_bends, task_slope, population_slope = room.hyper_bends, room.task_slope, room.population_slope
    task_density, population_density = room.task_density, room.population_density
    group_size = anatomy.group_size
    num_groups, num_hyper = values.shape
    size = len(families)
    parameters = np.empty((size, 2))
    into = np.empty(num_hyper)  # gradient in the hyperparameters themselves
    for g in range(num_groups):
        set_parameters_at(anatomy, values[g], parameters)
        for j in range(num_hyper):
            into[j] = 0.0
        normaliser = 0.0
        for d in range(size):
            one, by_a, by_b = latent_normaliser(families[d], parameters[d, 0], parameters[d, 1])
            normaliser += one
            by_a, by_b = group_size * by_a, group_size * by_b
            for m in range(g * group_size, (g + 1) * group_size):
                by_a += lift[m, d] * bends[m, d, 1] + bends[m, d, 3]
                by_b += lift[m, d] * bends[m, d, 2] + bends[m, d, 4]
                task_slope[m, d] += lift[m, d] * bends[m, d, 0]
            if source[d, 0] >= 0:
                into[source[d, 0]] += by_a
            if source[d, 1] >= 0:
                into[source[d, 1]] += by_b
        for j in range(num_hyper):
            population_slope[g, j] += hyper_bends[g, j] * into[j]
        for m in range(g * group_size, (g + 1) * group_size):
            task_density[m] += normaliser + found[m]
            if not task_density[m] < np.inf:
                task_density[m] = -np.inf
            population_density[g] += task_density[m]
        if not population_density[g] < np.inf:
            population_density[g] = -np.inf


@inner
def _judge_choices(world, anatomy, data, room):
    """Log-likelihoods of the tasks and their gradients in u."""
    counts, known_lapse = data.counts, data.lapse
    temperature_place, lapse_place, is_soft = anatomy.temperature, anatomy.lapse, anatomy.is_soft
    tasks, lift, found = room.tasks, room.lift, room.log_likelihood
    policies, pull, worth, plans = room.policies, room.pull, room.worth, room.plans
    temperature, actions, q, value, residual = plans.temperature, plans.actions, plans.q, plans.value, plans.residual
    num_tasks = len(lift)
    num_states, num_actions = world.num_states, world.num_actions
    plan_trials(world, anatomy, data, plans, tasks, room.owner, num_tasks)
    by_temperature, weights = np.zeros(num_tasks), weights_workspace(num_states, num_actions)
    for m in range(num_tasks):
        for d in range(lift.shape[1]):
            lift[m, d] = 0.0
        if not residual[m] < np.inf:
            found[m] = -np.inf
            for s in range(num_states):
                for a in range(num_actions):
                    pull[m, s, a] = policies[m, s, a] = 0.0
            continue
        lapse = known_lapse[m] if lapse_place < 0 else natural(BETA, tasks[m, lapse_place])
        found[m], by_temperature[m], by_lapse = likelihood_and_pull(
            q, m, counts, m, temperature[m], lapse, is_soft, actions, policies, pull, weights
        )
        if lapse_place >= 0:
            lift[m, lapse_place] = by_lapse * lapse * (1.0 - lapse)
    pull_back(world, plans, policies, pull, worth, num_tasks)
    for m in range(num_tasks):
        if temperature_place >= 0 and COLDEST < tasks[m, temperature_place] < HOTTEST:
            if is_soft:  # v = log Σ exp(c q) / c hangs on c, with q held
                for s in range(num_states):
                    expected = 0.0
                    for a in range(num_actions):
                        if policies[m, s, a] > 0.0:
                            expected += policies[m, s, a] * q[m, s, a]
                    by_temperature[m] += worth[m, s] * (expected - value[m, s]) / temperature[m]
            lift[m, temperature_place] = by_temperature[m] * temperature[m]
        for s in range(num_states):
            for a in range(num_actions):
                pull[m, s, a] += worth[m, s] * policies[m, s, a]
    _lift_rewards(anatomy, room)


@inner
def _lift_rewards(anatomy, room):
    """From derivatives in the rewards of pairs, `pull` [N, S, A], to those in the tasks' coordinates."""
    families, features, places, link = anatomy.families, anatomy.features, anatomy.places, anatomy.link
    tasks, lift, pull, rewards = room.tasks, room.lift, room.pull, room.plans.rewards
    size = anatomy.num_rewards
    _, num_states, per_state = rewards.shape
    num_actions = pull.shape[2]
    table = np.empty(num_states * per_state)
    into = np.empty(size)
    for m in range(len(lift)):
        for s in range(num_states):
            if per_state == 1:
                total = 0.0
                for a in range(num_actions):
                    total += pull[m, s, a]
                table[s] = total
            else:
                for a in range(num_actions):
                    table[s * per_state + a] = pull[m, s, a]
        if features.size > 0:
            for k in range(size):
                into[k] = 0.0
            for i in range(num_states * per_state):
                for k in range(size):
                    into[k] += features[i, k] * table[i]
        else:
            for k in range(size):
                into[k] = table[places[k]]
        if link == NORMALISED:
            mean = 0.0
            for k in range(size):
                mean += rewards[m, places[k] // per_state, places[k] % per_state] * into[k]
            for k in range(size):
                lift[m, k] = rewards[m, places[k] // per_state, places[k] % per_state] * (into[k] - mean)
        else:
            for k in range(size):
                x = natural(families[k], tasks[m, k])
                by_coordinate = 1.0 if families[k] == NORMAL else x * (1.0 - x) if families[k] == BETA else x
                lift[m, k] = into[k] * by_coordinate
