"""The posterior of MRP and its gradient in coordinates z that all look alike: compiled, for samplers that follow it.

A task's coordinate is u = T(z; ã, b̃), a population's h = T(z; constants), where T resembles a quantile function
(`families.placed`): z is nearly standard normal before the data, whatever the population. What T does to densities is
counted, so that T only has to be good, not right.

    ã = a^w · a₀^(1 − w)        or w a + (1 − w) a₀ where a is a mean

w = 1: the population carries its tasks along (non-centred), right where choices say little about a task. w = 0: tasks
stay where they are (centred), right where they say much. a₀ is about where the population is.

The gradient goes back the same way: choices → values → rewards (one adjoint solve) → u → z and population.

Numba's cache watches this file and `hamiltonian`, not those they take functions from (`families`, `gradient`, `warm`,
`trials`, `populations`): after a change there, touch both.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from manymotives.families import (
    BETA,
    LOG_NORMAL,
    NORMAL,
    log_density,
    log_kernel,
    log_normaliser,
    natural,
    parameter_slopes,
    placed,
    slope,
    statistics,
)
from manymotives.inference.trials import set_rewards
from manymotives.models.gradient import likelihood_and_pull
from manymotives.models.target import COLDEST
from manymotives.planning.lanes import WIDTH
from manymotives.planning.warm import Plans, empty_plans, plan_again, pull_back
from manymotives.rewards import NORMALISED

_compiled = njit(nogil=True, cache=True, error_model="numpy")


class Centring(NamedTuple):
    """How much populations carry their tasks along."""

    weight: np.ndarray  # [M, D] w
    reference: np.ndarray  # [G, D, 2] a₀, b₀


class Room(NamedTuple):
    """Where a density is worked out; `plans` stay for the next to begin from."""

    plans: Plans
    policies: np.ndarray  # [N, S, A]
    pull: np.ndarray  # [N, S, A]
    worth: np.ndarray  # [N, S]
    tasks: np.ndarray  # [N, D] u
    hyper: np.ndarray  # [G, H] h
    log_likelihood: np.ndarray  # [M]
    bend: np.ndarray  # [M, D, 6] derivatives of u in z, a, b; of log du/dz in z, a, b
    effective: np.ndarray  # [M, D, 2] ã, b̃
    climb: np.ndarray  # [M, D] gradient in u


@_compiled
def room_for(world, anatomy, num_tasks, num_groups):
    count = -(-num_tasks // WIDTH) * WIDTH
    size = len(anatomy.families)
    per_state = world.num_actions if anatomy.on_pairs else 1
    table = (count, world.num_states, world.num_actions)
    return Room(
        empty_plans(world, count, per_state),
        np.zeros(table),
        np.zeros(table),
        np.zeros((count, world.num_states)),
        np.zeros((count, size)),
        np.zeros((num_groups, len(anatomy.hyper_families))),
        np.zeros(num_tasks),
        np.zeros((num_tasks, size, 6)),
        np.zeros((num_tasks, size, 2)),
        np.zeros((num_tasks, size)),
    )


@_compiled
def log_density_and_gradient(world, anatomy, data, centring, room, z, gradient):
    """log p(z | choices), up to a constant, at z [G·H + M·D]; its gradient in `gradient`. −inf where no plan is found.

    Leaves u, h and the log-likelihoods in `room`.
    """
    families, hyper_families, constants = anatomy.families, anatomy.hyper_families, anatomy.hyper_constants
    source, group_size = anatomy.source, anatomy.group_size
    tasks, hyper, climb, bend, effective = room.tasks, room.hyper, room.climb, room.bend, room.effective
    weight, reference = centring.weight, centring.reference
    num_groups, num_hyper = hyper.shape
    num_tasks, size = climb.shape
    total = 0.0
    values = np.empty((num_groups, num_hyper))
    for g in range(num_groups):
        for j in range(num_hyper):
            place = g * num_hyper + j
            family, a, b = hyper_families[j], constants[j, 0], constants[j, 1]
            there = placed(family, z[place], a, b)
            hyper[g, j] = there[0]
            values[g, j] = natural(family, there[0])
            total += there[1] + log_density(family, there[0], a, b)
            # so far, what does not come from the tasks: ∂/∂z of both, and ∂h/∂z to multiply the rest by
            gradient[place] = there[5] + there[2] * slope(family, there[0], a, b)
            if math.isinf(values[g, j]) or (values[g, j] <= 0.0 and family != NORMAL):
                return -np.inf
    parameters = np.empty((size, 2))
    sums = np.zeros((num_groups, size, 2))
    begin = num_groups * num_hyper
    for m in range(num_tasks):
        g = m // group_size
        if m % group_size == 0:
            _set_parameters(anatomy, values, g, parameters)
        for d in range(size):
            family = families[d]
            a, b = parameters[d, 0], parameters[d, 1]
            if weight[m, d] != 1.0:
                a, b = _blended(family, source, d, weight[m, d], a, b, reference[g, d, 0], reference[g, d, 1])
            there = placed(family, z[begin + m * size + d], a, b)
            tasks[m, d] = there[0]
            total += there[1]
            effective[m, d, 0], effective[m, d, 1] = a, b
            for i in range(6):
                bend[m, d, i] = there[2 + i]
            first, second = statistics(family, there[0])
            sums[g, d, 0] += first
            sums[g, d, 1] += second
            climb[m, d] = slope(family, there[0], parameters[d, 0], parameters[d, 1])
    total += _likelihoods(world, anatomy, data, room)
    if not total > -np.inf:  # also where it is not a number
        return -np.inf
    into = np.zeros((num_groups, num_hyper))  # gradient in the hyperparameters themselves
    for g in range(num_groups):
        _set_parameters(anatomy, values, g, parameters)
        for d in range(size):
            family, a, b = families[d], parameters[d, 0], parameters[d, 1]
            total += group_size * log_normaliser(family, a, b) + log_kernel(family, sums[g, d, 0], sums[g, d, 1], a, b)
            if source[d, 0] < 0 and source[d, 1] < 0:
                continue
            by_a, by_b = parameter_slopes(family, group_size, sums[g, d, 0], sums[g, d, 1], a, b)
            for m in range(g * group_size, (g + 1) * group_size):
                pull_a = climb[m, d] * bend[m, d, 1] + bend[m, d, 4]
                pull_b = climb[m, d] * bend[m, d, 2] + bend[m, d, 5]
                w = weight[m, d]
                if family in (NORMAL, LOG_NORMAL):
                    by_a += w * pull_a
                else:
                    by_a += w * effective[m, d, 0] / a * pull_a
                if b != 0.0:
                    by_b += w * effective[m, d, 1] / b * pull_b
            if source[d, 0] >= 0:
                into[g, source[d, 0]] += by_a
            if source[d, 1] >= 0:
                into[g, source[d, 1]] += by_b
        for j in range(num_hyper):
            place = g * num_hyper + j
            family = hyper_families[j]
            x = values[g, j]
            by_coordinate = 1.0 if family == NORMAL else x * (1.0 - x) if family == BETA else x
            there = placed(family, z[place], constants[j, 0], constants[j, 1])
            gradient[place] += there[2] * by_coordinate * into[g, j]
    for m in range(num_tasks):
        for d in range(size):
            gradient[begin + m * size + d] = climb[m, d] * bend[m, d, 0] + bend[m, d, 3]
    return total if not math.isnan(total) else -np.inf


@_compiled
def _set_parameters(anatomy, values, g, parameters):
    """parameters [D, 2] of the coordinates of population g's tasks, from its hyperparameters [G, H] themselves."""
    source, constants = anatomy.source, anatomy.constants
    for d in range(len(source)):
        for column in range(2):
            j = source[d, column]
            parameters[d, column] = constants[d, column] if j < 0 else values[g, j]


@_compiled
def _blended(family, source, d, weight, a, b, a0, b0):
    """ã and b̃; parameters that are no hyperparameters stay as they are."""
    if source[d, 0] >= 0:
        if family in (NORMAL, LOG_NORMAL):
            a = weight * a + (1.0 - weight) * a0
        else:
            a = math.exp(weight * math.log(a) + (1.0 - weight) * math.log(a0))
    if source[d, 1] >= 0:
        b = math.exp(weight * math.log(b) + (1.0 - weight) * math.log(b0))
    return a, b


@_compiled
def _likelihoods(world, anatomy, data, room):
    """Σ log L of the tasks at their coordinates; adds its gradient in these to `climb`."""
    counts, known_temperature, known_lapse = data.counts, data.temperature, data.lapse
    temperature_place, lapse_place, is_soft = anatomy.temperature, anatomy.lapse, anatomy.is_soft
    tasks, climb, found = room.tasks, room.climb, room.log_likelihood
    policies, pull, worth = room.policies, room.pull, room.worth
    plans = room.plans
    rewards, temperature, actions, q, value = plans.rewards, plans.temperature, plans.actions, plans.q, plans.value
    residual = plans.residual
    num_tasks = len(climb)
    num_states, num_actions = world.num_states, world.num_actions
    padded = len(tasks)
    set_rewards(anatomy, tasks, rewards, num_tasks)
    for n in range(num_tasks):
        temperature[n] = known_temperature[n]
        if temperature_place >= 0:
            temperature[n] = math.exp(max(tasks[n, temperature_place], COLDEST))
    for n in range(num_tasks, padded):  # idle lanes repeat the first
        temperature[n] = temperature[0]
        for s in range(num_states):
            actions[n, s] = actions[0, s]
            for a in range(rewards.shape[2]):
                rewards[n, s, a] = rewards[0, s, a]
    plan_again(world, plans, is_soft, padded)
    total = 0.0
    by_temperature = np.empty(num_tasks)
    for n in range(num_tasks):
        if not residual[n] < np.inf:
            return -np.inf
        lapse = known_lapse[n] if lapse_place < 0 else natural(BETA, tasks[n, lapse_place])
        found[n], by_temperature[n], by_lapse = likelihood_and_pull(
            q, n, counts, n, temperature[n], lapse, is_soft, actions, policies, pull
        )
        total += found[n]
        if lapse_place >= 0:
            climb[n, lapse_place] += by_lapse * lapse * (1.0 - lapse)
    pull_back(world, policies, pull, worth, padded)
    for n in range(num_tasks):
        if temperature_place >= 0 and tasks[n, temperature_place] > COLDEST:
            if is_soft:  # v = log Σ exp(c q) / c, with q held
                for s in range(num_states):
                    expected = 0.0
                    for a in range(num_actions):
                        if policies[n, s, a] > 0.0:
                            expected += policies[n, s, a] * q[n, s, a]
                    by_temperature[n] += worth[n, s] * (expected - value[n, s]) / temperature[n]
            climb[n, temperature_place] += by_temperature[n] * temperature[n]
        for s in range(num_states):
            for a in range(num_actions):
                pull[n, s, a] += worth[n, s] * policies[n, s, a]
    _climb_rewards(anatomy, room, num_tasks)
    return total


@_compiled
def _climb_rewards(anatomy, room, num_tasks):
    """From derivatives in the rewards of pairs, `pull` [N, S, A], to those in the tasks' coordinates."""
    families, features, places, link = anatomy.families, anatomy.features, anatomy.places, anatomy.link
    tasks, climb, pull, rewards = room.tasks, room.climb, room.pull, room.plans.rewards
    size = anatomy.num_rewards
    _, num_states, per_state = rewards.shape
    num_actions = pull.shape[2]
    table = np.empty(num_states * per_state)
    x, into = np.empty(size), np.empty(size)
    for n in range(num_tasks):
        for s in range(num_states):
            if per_state == 1:
                both = 0.0
                for a in range(num_actions):
                    both += pull[n, s, a]
                table[s] = both
            else:
                for a in range(num_actions):
                    table[s * per_state + a] = pull[n, s, a]
        if features.size > 0:
            into[:] = 0.0
            for i in range(num_states * per_state):
                for k in range(size):
                    into[k] += features[i, k] * table[i]
        else:
            for k in range(size):
                into[k] = table[places[k]]
        if link == NORMALISED:
            mean = 0.0
            for k in range(size):
                x[k] = rewards[n, places[k] // per_state, places[k] % per_state]
                mean += x[k] * into[k]
            for k in range(size):
                climb[n, k] += x[k] * (into[k] - mean)
        else:
            for k in range(size):
                family = families[k]
                if family == NORMAL:
                    climb[n, k] += into[k]
                else:
                    y = natural(family, tasks[n, k])
                    climb[n, k] += into[k] * (y * (1.0 - y) if family == BETA else y)
