"""What `laplace_chains` needs of populations beside gradients, compiled."""

import math

import numpy as np

from manymotives.families import BETA, NORMAL, natural
from manymotives.inference.mcmc.density import find_noncentred
from manymotives.inference.mcmc.noncentred import noncentred_constants, noncentred_density
from manymotives.inference.mcmc.populations import draw_population
from manymotives.jit import compiled


@compiled
def draw_populations(rng, layout, state):
    """Hyperparameters of every population from their conditional distributions, tasks' u as they are."""
    for g in range(len(state.hyper)):
        draw_population(rng, layout, state, g)


@compiled
def find_hyper_z(layout, state):
    """z of populations, in `state`, from their h."""
    find_noncentred(layout, state.hyper, state.tasks, state.hyper_z, state.task_z)


@compiled
def populations_at(layout, hyper_z):
    """h and the hyperparameters themselves [G, H] at z of populations; log p(z) [G], its gradient, and dx/dz [G, H]."""
    families, constants = layout.hyper_families, layout.hyper_constants
    num_groups, num_hyper = hyper_z.shape
    hyper, values = np.empty((num_groups, num_hyper)), np.empty((num_groups, num_hyper))
    gradient, slope = np.empty((num_groups, num_hyper)), np.empty((num_groups, num_hyper))
    density = np.zeros(num_groups)
    for g in range(num_groups):
        for j in range(num_hyper):
            family, a, b = families[j], constants[j, 0], constants[j, 1]
            shift, spread, centre = noncentred_constants(family, a, b)
            h, one, by_z, _, _, h_z, _, _ = noncentred_density(family, hyper_z[g, j], a, b, shift, spread, centre)
            x = natural(family, h)
            hyper[g, j], values[g, j], gradient[g, j] = h, x, by_z
            slope[g, j] = h_z * (1.0 if family == NORMAL else x * (1.0 - x) if family == BETA else x)
            density[g] += one
            if math.isinf(x) or math.isnan(x) or (x <= 0.0 and family != NORMAL):
                density[g] = -np.inf
    return hyper, values, density, gradient, slope
