"""Hamiltonian paths, compiled: a task, or a population that carries its tasks along, follows the gradient for a while.

Paths are taken in z (see `latent`), given a random momentum r, by the leapfrog rule in y with z = F y: what is long and
narrow in z is round in y (F is a lower triangle). A task's path leaves its population where it is, so that all tasks
follow theirs at once, each with a step of its own and each accepted or not by itself. A population's path keeps its
tasks' z.

How many steps a path has is drawn anew each time: paths of one length may come back to where they began.
"""

import math

import numpy as np

from manymotives.inference.mcmc.density import find_latent, judge, judge_again
from manymotives.inference.mcmc.proposals import copy_row, keep
from manymotives.jit import compiled, inner, inner_any_order


@compiled
def prepare_paths(world, anatomy, data, state, room):
    """z and gradients where a chain is, after moves that do not know of them."""
    find_latent(anatomy, state.hyper, state.tasks, state.hyper_z, state.task_z)
    judge(world, anatomy, data, room, state.hyper_z, state.task_z)
    for m in range(len(state.lift)):
        copy_row(state.lift, m, room.lift)


@inner
def follow_tasks(rng, world, anatomy, data, state, frame, step, longest, room, accepted):
    """A path of every task given its population; frame [M, D, D], step [M]."""
    hyper_z, task_z = state.hyper_z, state.task_z
    z = task_z.copy()
    momentum = _momenta(rng, z.shape)
    _return(state, room)
    judge_again(anatomy, room, hyper_z, z)
    energy = _kinetic(momentum) - room.task_density
    count = 1 + int(rng.random() * longest)
    _kick(momentum, room.task_slope, frame, step, 0.5)
    for n in range(count):
        _drift(z, momentum, frame, step)
        judge(world, anatomy, data, room, hyper_z, z)
        _kick(momentum, room.task_slope, frame, step, 1.0 if n < count - 1 else 0.5)
    energy -= _kinetic(momentum) - room.task_density
    for m in range(len(z)):
        chance = math.exp(min(0.0, energy[m])) if energy[m] > -np.inf else 0.0
        accepted[m] += chance
        if rng.random() < chance:
            _keep(state, room, z, m)


@inner
def follow_populations(rng, world, anatomy, data, state, frame, step, longest, room, accepted):
    """A path of every population, which carries its tasks along; frame [G, H, H], step [G]."""
    hyper_z, task_z = state.hyper_z, state.task_z
    group_size = anatomy.group_size
    z = hyper_z.copy()
    momentum = _momenta(rng, z.shape)
    _return(state, room)
    judge_again(anatomy, room, z, task_z)
    energy = _kinetic(momentum) - room.population_density
    count = 1 + int(rng.random() * longest)
    _kick(momentum, room.population_slope, frame, step, 0.5)
    for n in range(count):
        _drift(z, momentum, frame, step)
        judge(world, anatomy, data, room, z, task_z)
        _kick(momentum, room.population_slope, frame, step, 1.0 if n < count - 1 else 0.5)
    energy -= _kinetic(momentum) - room.population_density
    for g in range(len(z)):
        chance = math.exp(min(0.0, energy[g])) if energy[g] > -np.inf else 0.0
        accepted[g] += chance
        if rng.random() < chance:
            copy_row(hyper_z, g, z)
            copy_row(state.hyper, g, room.hyper)
            for m in range(g * group_size, (g + 1) * group_size):
                _keep(state, room, task_z, m)


@inner
def _return(state, room):
    """What is known of the choices where a chain is."""
    found, before = room.log_likelihood, state.log_likelihood
    for m in range(len(before)):
        found[m] = before[m]
        copy_row(room.lift, m, state.lift)


@inner
def _keep(state, room, task_z, m):
    """Where task m's path has led is where it is."""
    plans = room.plans
    keep(
        state.tasks,
        state.task_z,
        state.value,
        state.actions,
        state.q,
        room.tasks,
        task_z,
        plans.value,
        plans.actions,
        plans.q,
        m,
        m,
    )
    state.log_likelihood[m] = room.log_likelihood[m]
    copy_row(state.lift, m, room.lift)


@inner
def _momenta(rng, shape):
    momentum = np.empty(shape)
    for k in range(shape[0]):
        for i in range(shape[1]):
            momentum[k, i] = rng.standard_normal()
    return momentum


@inner
def _kinetic(momentum):
    """r² / 2 of each row."""
    energy = np.empty(len(momentum))
    for k in range(len(momentum)):
        total = 0.0
        for i in range(momentum.shape[1]):
            total += momentum[k, i] * momentum[k, i]
        energy[k] = 0.5 * total
    return energy


@inner
def _kick(momentum, slope, frame, step, share):
    """r += share · step · Fᵀ ∇."""
    count, size = momentum.shape
    for k in range(count):
        for i in range(size):
            force = share * step[k] * slope[k, i]
            for j in range(i + 1):
                momentum[k, j] += frame[k, i, j] * force


@inner_any_order
def _drift(z, momentum, frame, step):
    """z += step · F r."""
    count, size = momentum.shape
    for k in range(count):
        for i in range(size):
            total = 0.0
            for j in range(i + 1):
                total += frame[k, i, j] * momentum[k, j]
            z[k, i] += step[k] * total
