"""The log density of the posterior and its gradient in non-centred coordinates z, compiled.

For a population's h and its tasks' u:

    h_j = T(z_j; constants),   u_md = T(z_md; a_d(h), b_d(h))                                    (`noncentred`)
    log p(z, choices) = Σ_j log p(z_j) + Σ_m [Σ_d log p(z_md | a_d, b_d) + log p(choices_m | u_m)]

    ∂/∂z_md = ∂ log p(z_md)/∂z + g_md ∂u/∂z,                           g_m = ∂ log p(choices_m | u_m)/∂u
    ∂/∂z_j  = ∂ log p(z_j)/∂z + ∂x_j/∂z Σ_{m,d} (g_md ∂u/∂a + ∂ log p(z_md | a, b)/∂a)    for the a (or b) that is x_j,
                                                          times ∂b/∂x_j where b is a function of it (`smooth_scales`)

with x_j the hyperparameter itself. T resembles a quantile function: before the data z is nearly standard normal, and
tasks keep their z when their population moves. The Jacobian of T is part of log p(z), so that T has to be good, not
exact. g goes back from choices to q, by one adjoint solve to rewards, and on to u. With G the gradient in rewards of
pairs, q = r + γ P v makes that in the discount Σ G P v, and in its logit (1 − γ) Σ G (q − r). Where agents look some
steps ahead only, `planning.finite_horizon_kernels` has both.
"""

import math
from typing import NamedTuple

import numpy as np

from manymotives.by_reference import by_reference
from manymotives.families import BETA, NORMAL, is_location_scale, natural
from manymotives.inference.mcmc.noncentred import (
    noncentred,
    noncentred_constants,
    noncentred_density,
    noncentred_normaliser,
)
from manymotives.inference.mcmc.proposals import plan_proposals, shifted
from manymotives.inference.mcmc.rewards import reward_gradient
from manymotives.jit import compiled, inner
from manymotives.models.gradient import likelihood_and_gradient
from manymotives.models.likelihood import LARGEST_LOG_C, LARGEST_LOGIT, SMALLEST_LOG_C, weights_workspace
from manymotives.models.smooth_scales import set_range_slopes, set_scales
from manymotives.models.target import ParameterLayout
from manymotives.planning.function_pointers import call
from manymotives.planning.simd import WIDTH
from manymotives.planning.warm_start import Plans, World, adjoint, empty_plans

FARTHEST = 30.0  # a standard normal is never so far from 0


@by_reference
class Workspace(NamedTuple):
    """Densities, gradients and what they are computed from. `plans` stay: the next ones start from them."""

    plans: Plans
    policies: np.ndarray  # [N, S, A]
    q_gradient: np.ndarray  # [N, S, A] of log-likelihoods in q, then in rewards
    value_adjoint: np.ndarray  # [N, S] their derivatives in v (`warm_start.adjoint`)
    owner: np.ndarray  # [N] the task of each lane
    hyper: np.ndarray  # [G, H] h
    values: np.ndarray  # [G, H] the hyperparameters themselves
    tasks: np.ndarray  # [N, D] u
    log_likelihood: np.ndarray  # [M]
    likelihood_gradient: np.ndarray  # [M, D] its gradient in u
    task_density: np.ndarray  # [M] log p(choices, z_m | population)
    population_density: np.ndarray  # [G] log p of a population and its tasks
    task_gradient: np.ndarray  # [M, D] of `task_density` in the tasks' z
    population_gradient: np.ndarray  # [G, H] of `population_density` in the populations' z
    u_by_z: np.ndarray  # [M, D] ∂u/∂z
    u_by_a: np.ndarray  # [M, D] ∂u/∂a
    u_by_b: np.ndarray  # [M, D] ∂u/∂b
    density_by_a: np.ndarray  # [M, D] ∂ log p(z | a, b)/∂a
    density_by_b: np.ndarray  # [M, D] ∂ log p(z | a, b)/∂b
    hyper_by_z: np.ndarray  # [G, H] derivatives of the hyperparameters themselves in their z


def density_workspace(world: World, layout: ParameterLayout, num_tasks: int, num_groups: int) -> Workspace:
    """Room for so many tasks and populations."""
    count = -(-num_tasks // WIDTH) * WIDTH
    size, num_hyper = len(layout.families), len(layout.hyper_families)
    per_state = world.num_actions if layout.on_pairs else 1
    table = (count, world.num_states, world.num_actions)
    return Workspace(
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
        np.zeros((num_tasks, size)),
        np.zeros((num_tasks, size)),
        np.zeros((num_tasks, size)),
        np.zeros((num_tasks, size)),
        np.zeros((num_tasks, size)),
        np.zeros((num_groups, num_hyper)),
    )


@inner
def find_noncentred(layout, hyper, tasks, hyper_z, task_z):
    """Overwrite z of populations h [G, H] and of tasks u [M, D]; the values before are the first guess.

    z of tasks' location–scale coordinates is left as it is: where their population is narrow, u does not determine it.
    """
    families, hyper_families, constants = layout.families, layout.hyper_families, layout.hyper_constants
    num_groups, num_hyper = hyper.shape
    num_tasks, size = tasks.shape
    for g in range(num_groups):
        for j in range(num_hyper):
            hyper_z[g, j] = noncentred(hyper_families[j], hyper[g, j], constants[j, 0], constants[j, 1], hyper_z[g, j])
    parameters, values = np.empty((size, 2)), np.empty(num_hyper)
    for m in range(num_tasks):
        if m % layout.group_size == 0:
            g = m // layout.group_size
            for j in range(num_hyper):
                values[j] = natural(hyper_families[j], hyper[g, j])
            set_parameters_at(layout, values, parameters)
        for d in range(size):
            if not is_location_scale(families[d]):
                task_z[m, d] = noncentred(families[d], tasks[m, d], parameters[d, 0], parameters[d, 1], task_z[m, d])


@compiled
def noncentred_draws(layout, hyper, tasks):
    """z of populations [N, G, H] and tasks [N, M, D], for draws of both.

    z of location–scale coordinates is (u − a) / b: beyond FARTHEST this is rounding error, and set to 0.
    """
    hyper_z, task_z = np.zeros_like(hyper), np.zeros_like(tasks)
    parameters, values = np.empty((tasks.shape[2], 2)), np.empty(hyper.shape[2])
    for n in range(len(tasks)):
        find_noncentred(layout, hyper[n], tasks[n], hyper_z[n], task_z[n])
        for m in range(tasks.shape[1]):
            g = m // layout.group_size
            for j in range(len(values)):
                values[j] = natural(layout.hyper_families[j], hyper[n, g, j])
            set_parameters_at(layout, values, parameters)
            for d in range(len(parameters)):
                if is_location_scale(layout.families[d]):
                    z = (tasks[n, m, d] - parameters[d, 0]) / parameters[d, 1]
                    task_z[n, m, d] = z if abs(z) < FARTHEST else 0.0
    return hyper_z, task_z


@inner
def set_parameters_at(layout, values, parameters):
    """parameters [D, 2] of the coordinates of a population's tasks, from its hyperparameters [H] themselves."""
    source, constants = layout.source, layout.constants
    for d in range(len(source)):
        for column in range(2):
            j = source[d, column]
            parameters[d, column] = constants[d, column] if j < 0 else values[j]
    smooth = layout.smooth
    if len(smooth.eigenvalues) > 0:
        scale = smooth.known_scale if smooth.scale_index < 0 else values[smooth.scale_index]
        distance = smooth.known_range if smooth.range_index < 0 else values[smooth.range_index]
        set_scales(smooth.eigenvalues, smooth.num_states, scale, distance, parameters)


@inner
def evaluate(world, layout, data, workspace, hyper_z, task_z):
    """Log densities and gradients at z of populations [G, H] and tasks [M, D], left in `workspace`; −inf outside."""
    call(data.log_density_and_gradient, (world, layout, data, workspace, hyper_z, task_z))


@compiled
def log_density_and_gradient(world, layout, data, workspace, hyper_z, task_z):
    _transform(layout, workspace, hyper_z, task_z)
    _choice_likelihoods(world, layout, data, workspace)
    _add_likelihood(layout, workspace)


@inner
def evaluate_again(layout, data, workspace, hyper_z, task_z):
    """The same where u is unchanged: the log-likelihoods in `workspace` and their gradients in u are used again."""
    call(data.log_density_again, (layout, workspace, hyper_z, task_z))


@compiled
def log_density_again(layout, workspace, hyper_z, task_z):
    _transform(layout, workspace, hyper_z, task_z)
    _add_likelihood(layout, workspace)


@inner
def _transform(layout, workspace, hyper_z, task_z):
    """z → h and u, with derivatives; densities and gradients of the prior."""
    families, hyper_families, constants = layout.families, layout.hyper_families, layout.hyper_constants
    hyper, values, tasks = workspace.hyper, workspace.values, workspace.tasks
    task_gradient, population_gradient = workspace.task_gradient, workspace.population_gradient
    u_by_z, u_by_a, u_by_b, hyper_by_z = workspace.u_by_z, workspace.u_by_a, workspace.u_by_b, workspace.hyper_by_z
    density_by_a, density_by_b = workspace.density_by_a, workspace.density_by_b
    task_density, population_density = workspace.task_density, workspace.population_density
    group_size = layout.group_size
    num_groups, num_hyper = hyper.shape
    size = len(families)
    parameters, shared = np.empty((size, 2)), np.empty((size, 3))
    for g in range(num_groups):
        exists = True
        population_density[g] = 0.0
        for j in range(num_hyper):
            family, a, b = hyper_families[j], constants[j, 0], constants[j, 1]
            shift, spread, centre = noncentred_constants(family, a, b)
            h, density, by_z, _, _, h_z, _, _ = noncentred_density(family, hyper_z[g, j], a, b, shift, spread, centre)
            x = natural(family, h)
            hyper[g, j], values[g, j] = h, x
            population_density[g] += density + noncentred_normaliser(family, a, b)[0]
            population_gradient[g, j] = by_z
            hyper_by_z[g, j] = h_z * (1.0 if family == NORMAL else x * (1.0 - x) if family == BETA else x)
            exists = exists and not math.isinf(x) and (x > 0.0 or family == NORMAL)
        if not exists:
            population_density[g] = -np.inf
        set_parameters_at(layout, values[g], parameters)
        for d in range(size):
            shared[d, 0], shared[d, 1], shared[d, 2] = noncentred_constants(
                families[d], parameters[d, 0], parameters[d, 1]
            )
        for m in range(g * group_size, (g + 1) * group_size):
            total = 0.0
            for d in range(size):
                a, b = parameters[d, 0], parameters[d, 1]
                shift, spread, centre = shared[d, 0], shared[d, 1], shared[d, 2]
                u, density, by_z, by_a, by_b, u_z, u_a, u_b = noncentred_density(
                    families[d], task_z[m, d], a, b, shift, spread, centre
                )
                total += density
                tasks[m, d] = u
                task_gradient[m, d] = by_z
                u_by_z[m, d], u_by_a[m, d], u_by_b[m, d] = u_z, u_a, u_b
                density_by_a[m, d], density_by_b[m, d] = by_a, by_b
            task_density[m] = total


@inner
def _add_likelihood(layout, workspace):
    """Add the log-likelihood of choices to densities, and its gradient to gradients by the chain rule."""
    families, source = layout.families, layout.source
    values, found, likelihood_gradient = workspace.values, workspace.log_likelihood, workspace.likelihood_gradient
    u_by_z, u_by_a, u_by_b, hyper_by_z = workspace.u_by_z, workspace.u_by_a, workspace.u_by_b, workspace.hyper_by_z
    density_by_a, density_by_b = workspace.density_by_a, workspace.density_by_b
    task_gradient, population_gradient = workspace.task_gradient, workspace.population_gradient
    task_density, population_density = workspace.task_density, workspace.population_density
    group_size = layout.group_size
    num_groups, num_hyper = values.shape
    size = len(families)
    parameters = np.empty((size, 2))
    into = np.empty(num_hyper)  # gradient in the hyperparameters themselves
    eigenvalues, scale_index, range_index = (
        layout.smooth.eigenvalues,
        layout.smooth.scale_index,
        layout.smooth.range_index,
    )
    range_slopes = np.empty(len(eigenvalues))
    for g in range(num_groups):
        set_parameters_at(layout, values[g], parameters)
        for j in range(num_hyper):
            into[j] = 0.0
        if range_index >= 0:
            set_range_slopes(eigenvalues, values[g, range_index], range_slopes)
        normaliser = 0.0
        for d in range(size):
            one, by_a, by_b = noncentred_normaliser(families[d], parameters[d, 0], parameters[d, 1])
            normaliser += one
            by_a, by_b = group_size * by_a, group_size * by_b
            for m in range(g * group_size, (g + 1) * group_size):
                by_a += likelihood_gradient[m, d] * u_by_a[m, d] + density_by_a[m, d]
                by_b += likelihood_gradient[m, d] * u_by_b[m, d] + density_by_b[m, d]
                task_gradient[m, d] += likelihood_gradient[m, d] * u_by_z[m, d]
            if source[d, 0] >= 0:
                into[source[d, 0]] += by_a
            if source[d, 1] >= 0:
                into[source[d, 1]] += by_b
            if scale_index >= 0 and d < len(eigenvalues):
                into[scale_index] += by_b * parameters[d, 1] / values[g, scale_index]
            if range_index >= 0 and d < len(eigenvalues):
                into[range_index] += by_b * parameters[d, 1] * range_slopes[d]
        for j in range(num_hyper):
            population_gradient[g, j] += hyper_by_z[g, j] * into[j]
        for m in range(g * group_size, (g + 1) * group_size):
            task_density[m] += normaliser + found[m]
            if not task_density[m] < np.inf:
                task_density[m] = -np.inf
            population_density[g] += task_density[m]
        if not population_density[g] < np.inf:
            population_density[g] = -np.inf


@inner
def _choice_likelihoods(world, layout, data, workspace):
    """Log-likelihoods of the tasks and their gradients in u."""
    counts, known_lapse = data.counts, data.lapse
    temperature_index, lapse_index, is_soft = layout.temperature, layout.lapse, layout.is_soft
    discount_index, rewards = layout.discount, workspace.plans.rewards
    tasks, found, likelihood_gradient = workspace.tasks, workspace.log_likelihood, workspace.likelihood_gradient
    policies, q_gradient, value_adjoint = workspace.policies, workspace.q_gradient, workspace.value_adjoint
    plans = workspace.plans
    temperature, actions, q, value, residual = plans.temperature, plans.actions, plans.q, plans.value, plans.residual
    num_tasks = len(likelihood_gradient)
    num_states, num_actions, per_state = world.num_states, world.num_actions, rewards.shape[2]
    tasks = shifted(data, tasks, workspace.owner, num_tasks)
    plan_proposals(world, layout, data, plans, tasks, workspace.owner, num_tasks)
    by_temperature, weights = np.zeros(num_tasks), weights_workspace(num_states, num_actions)
    for m in range(num_tasks):
        for d in range(likelihood_gradient.shape[1]):
            likelihood_gradient[m, d] = 0.0
        if not residual[m] < np.inf:
            found[m] = -np.inf
            for s in range(num_states):
                for a in range(num_actions):
                    q_gradient[m, s, a] = policies[m, s, a] = 0.0
            continue
        lapse = known_lapse[m] if lapse_index < 0 else natural(BETA, tasks[m, lapse_index])
        found[m], by_temperature[m], by_lapse = likelihood_and_gradient(
            q, m, counts, m, temperature[m], lapse, is_soft, actions, policies, q_gradient, weights
        )
        if lapse_index >= 0:
            likelihood_gradient[m, lapse_index] = by_lapse * lapse * (1.0 - lapse)
    adjoint(world, plans, policies, q_gradient, value_adjoint, num_tasks)
    for m in range(num_tasks):
        if temperature_index >= 0 and SMALLEST_LOG_C < tasks[m, temperature_index] < LARGEST_LOG_C:
            by_temperature[m] += plans.further[m, 1]
            if is_soft and world.depth == 0:  # v = log Σ exp(c q) / c depends on c, with q held
                for s in range(num_states):
                    expected = 0.0
                    for a in range(num_actions):
                        if policies[m, s, a] > 0.0:
                            expected += policies[m, s, a] * q[m, s, a]
                    by_temperature[m] += value_adjoint[m, s] * (expected - value[m, s]) / temperature[m]
            likelihood_gradient[m, temperature_index] = by_temperature[m] * temperature[m]
        for s in range(num_states):
            for a in range(num_actions):
                q_gradient[m, s, a] += value_adjoint[m, s] * policies[m, s, a]
        if discount_index >= 0 and abs(tasks[m, discount_index]) < LARGEST_LOGIT:
            total = plans.further[m, 0]
            for s in range(num_states if world.depth == 0 else 0):
                for a in range(num_actions):
                    if q[m, s, a] > -np.inf:
                        total += q_gradient[m, s, a] * (q[m, s, a] - rewards[m, s, a if per_state > 1 else 0])
            likelihood_gradient[m, discount_index] = (1.0 - plans.ratio[m]) * total
    reward_gradient(layout, workspace, tasks)
