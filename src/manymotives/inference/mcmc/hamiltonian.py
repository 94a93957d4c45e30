"""Hamiltonian Monte Carlo, compiled: trajectories of tasks given their population, and of populations given tasks' z.

    H(z, r) = −log p(z) + r'r / 2,     z = F y,  F lower triangular,  F Fᵀ = M⁻¹ the inverse mass matrix

One leapfrog step of size ε, in y (so that what is long and narrow in z is round):

    r ← r + ε/2 Fᵀ ∇ log p(z),     z ← z + ε F r,     r ← r + ε/2 Fᵀ ∇ log p(z)

accepted at the end of a trajectory with probability min(1, exp(H before − H after)). Given their population all tasks
are independent: their trajectories are computed together, with a step size, a mass matrix and an acceptance of each its
own. A population's trajectory is non-centred: its tasks keep their z, and their u move with it.

The number of steps is drawn for every trajectory: with a fixed one, trajectories may return to their start.
"""

import math

import numpy as np

from manymotives.inference.mcmc.density import evaluate, evaluate_again, find_noncentred
from manymotives.inference.mcmc.proposals import accept, copy_row
from manymotives.jit import compiled, inner, inner_any_order


@compiled
def start_trajectories(world, layout, data, state, workspace):
    """z and gradients at a chain's state, after moves that do not keep them up to date."""
    find_noncentred(layout, state.hyper, state.tasks, state.hyper_z, state.task_z)
    evaluate(world, layout, data, workspace, state.hyper_z, state.task_z)
    for m in range(len(state.likelihood_gradient)):
        copy_row(state.likelihood_gradient, m, workspace.likelihood_gradient)


@inner
def task_trajectories(rng, world, layout, data, state, tuning, longest, workspace, acceptance):
    """A trajectory of every task given its population."""
    mass_factor, step_size, accepted = tuning.task_mass_factor, tuning.task_step_size, acceptance.task_trajectories
    hyper_z, task_z = state.hyper_z, state.task_z
    z = task_z.copy()
    momentum = _momenta(rng, z.shape)
    _restore_likelihoods(state, workspace)
    evaluate_again(layout, data, workspace, hyper_z, z)
    energy = _kinetic(momentum) - workspace.task_density
    steps = 1 + int(rng.random() * longest)
    gradient = workspace.task_gradient
    leapfrog(world, layout, data, workspace, hyper_z, z, z, momentum, gradient, mass_factor, step_size, steps)
    energy -= _kinetic(momentum) - workspace.task_density
    for m in range(len(z)):
        chance = math.exp(min(0.0, energy[m])) if energy[m] > -np.inf else 0.0
        accepted[m] += chance
        if rng.random() < chance:
            _accept_trajectory(state, workspace, z, m)


@inner
def population_trajectories(rng, world, layout, data, state, tuning, longest, workspace, acceptance):
    """A trajectory of every population, whose tasks keep their z."""
    mass_factor, step_size, accepted = tuning.hyper_mass_factor, tuning.hyper_step_size, acceptance.hyper_trajectories
    hyper_z, task_z = state.hyper_z, state.task_z
    group_size = layout.group_size
    z = hyper_z.copy()
    momentum = _momenta(rng, z.shape)
    _restore_likelihoods(state, workspace)
    evaluate_again(layout, data, workspace, z, task_z)
    energy = _kinetic(momentum) - workspace.population_density
    steps = 1 + int(rng.random() * longest)
    gradient = workspace.population_gradient
    leapfrog(world, layout, data, workspace, z, task_z, z, momentum, gradient, mass_factor, step_size, steps)
    energy -= _kinetic(momentum) - workspace.population_density
    for g in range(len(z)):
        chance = math.exp(min(0.0, energy[g])) if energy[g] > -np.inf else 0.0
        accepted[g] += chance
        if rng.random() < chance:
            copy_row(hyper_z, g, z)
            copy_row(state.hyper, g, workspace.hyper)
            for m in range(g * group_size, (g + 1) * group_size):
                _accept_trajectory(state, workspace, task_z, m)


@inner
def leapfrog(world, layout, data, workspace, hyper_z, task_z, z, momentum, gradient, mass_factor, step_size, steps):
    """Leapfrog steps of z, which is `hyper_z` or `task_z`; `gradient` is where `workspace` has that of its log density.

    Two half steps of the momentum between two positions are taken as one.
    """
    _update_momentum(momentum, gradient, mass_factor, step_size, 0.5)
    for n in range(steps):
        _update_position(z, momentum, mass_factor, step_size)
        evaluate(world, layout, data, workspace, hyper_z, task_z)
        _update_momentum(momentum, gradient, mass_factor, step_size, 1.0 if n < steps - 1 else 0.5)


@inner
def _update_momentum(momentum, gradient, mass_factor, step_size, share):
    """r += share · ε · Fᵀ ∇."""
    count, size = momentum.shape
    for k in range(count):
        for i in range(size):
            force = share * step_size[k] * gradient[k, i]
            for j in range(i + 1):
                momentum[k, j] += mass_factor[k, i, j] * force


@inner_any_order
def _update_position(z, momentum, mass_factor, step_size):
    """z += ε · F r."""
    count, size = momentum.shape
    for k in range(count):
        for i in range(size):
            total = 0.0
            for j in range(i + 1):
                total += mass_factor[k, i, j] * momentum[k, j]
            z[k, i] += step_size[k] * total


@inner
def _momenta(rng, shape):
    """r ~ Normal(0, 1), one row for each trajectory."""
    momentum = np.empty(shape)
    for k in range(shape[0]):
        for i in range(shape[1]):
            momentum[k, i] = rng.standard_normal()
    return momentum


@inner
def _kinetic(momentum):
    """Kinetic energy r'r / 2 of each row."""
    energy = np.empty(len(momentum))
    for k in range(len(momentum)):
        total = 0.0
        for i in range(momentum.shape[1]):
            total += momentum[k, i] * momentum[k, i]
        energy[k] = 0.5 * total
    return energy


@inner
def _restore_likelihoods(state, workspace):
    """Log-likelihoods and their gradients at the chain's state, into the workspace."""
    found, before = workspace.log_likelihood, state.log_likelihood
    for m in range(len(before)):
        found[m] = before[m]
        copy_row(workspace.likelihood_gradient, m, state.likelihood_gradient)


@inner
def _accept_trajectory(state, workspace, task_z, m):
    """The end of task m's trajectory becomes its state."""
    plans = workspace.plans
    accept(
        state.tasks,
        state.task_z,
        state.value,
        state.actions,
        state.q,
        workspace.tasks,
        task_z,
        plans.value,
        plans.actions,
        plans.q,
        m,
        m,
    )
    state.log_likelihood[m] = workspace.log_likelihood[m]
    copy_row(state.likelihood_gradient, m, workspace.likelihood_gradient)
