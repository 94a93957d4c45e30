"""The grid walk of `policy_walk`, compiled: many walkers at once, each planning again from the policy it had.

Reads `planning/warm.py` and `models/likelihood.py`: touch this file after a change there.
"""

import math

import numpy as np
from numba import njit

from manymotives.models.likelihood import log_likelihood
from manymotives.planning.warm import empty_plans, plan_again

UNIFORM, GAUSSIAN, LAPLACIAN = range(3)

_compiled = njit(nogil=True, cache=True, error_model="numpy")


@_compiled
def new_walkers(world, count, per_state):
    """Plans to walk with."""
    return empty_plans(world, count, per_state)


@_compiled
def grid_walk(
    world, plans, actions, grid, height, counts, places, spacing, limit, prior, scale, temperature, normalised,
    uniforms, thin, draws, accepted
):  # fmt: skip
    """Walk len(uniforms[0]) steps; every `thin` of them the grid point is a draw.

    plans, actions [N, S]: what is optimal for `grid` [N, C], whole numbers of `spacing` at the cells `places` [C] of
    the reward; height [N] its log-likelihood, +inf at first: not known. counts [N, S, A], uniforms [N, steps, 3],
    draws [N, steps // thin, C].
    """
    num_walkers, steps, _ = uniforms.shape
    size = len(places)
    per_state = plans.rewards.shape[2]
    which = np.zeros(num_walkers, dtype=np.int64)
    moved = np.zeros(num_walkers, dtype=np.int64)
    if height[0] == np.inf:
        for n in range(num_walkers):
            for k in range(size):
                plans.rewards[n, places[k] // per_state, places[k] % per_state] = spacing * grid[n, k]
        plan_again(world, plans, False, num_walkers)
        for n in range(num_walkers):
            height[n] = _height(plans.q, n, counts, temperature, normalised)
            actions[n] = plans.actions[n]
    for step in range(steps):
        for n in range(num_walkers):
            k = min(int(uniforms[n, step, 0] * size), size - 1)
            which[n] = k
            moved[n] = 1 if uniforms[n, step, 1] < 0.5 else -1
            if abs(grid[n, k] + moved[n]) > limit:
                moved[n] = 0  # beyond the edge the prior is zero: stay
            plans.rewards[n, places[k] // per_state, places[k] % per_state] = spacing * (grid[n, k] + moved[n])
            for s in range(world.num_states):
                plans.actions[n, s] = actions[n, s]
        plan_again(world, plans, False, num_walkers)
        for n in range(num_walkers):
            k = which[n]
            if moved[n] != 0:
                found = _height(plans.q, n, counts, temperature, normalised)
                before, after = spacing * grid[n, k], spacing * (grid[n, k] + moved[n])
                gained = found - height[n]
                if prior == GAUSSIAN:
                    gained += (before * before - after * after) / (2.0 * scale * scale)
                elif prior == LAPLACIAN:
                    gained += (abs(before) - abs(after)) / scale
                planned = plans.residual[n] < np.inf
                if planned and (gained >= 0.0 or uniforms[n, step, 2] < math.exp(gained)):
                    grid[n, k] += moved[n]
                    height[n] = found
                    accepted[n] += 1
                    for s in range(world.num_states):
                        actions[n, s] = plans.actions[n, s]
                else:
                    plans.rewards[n, places[k] // per_state, places[k] % per_state] = before
            if (step + 1) % thin == 0:
                for c in range(size):
                    draws[n, step // thin, c] = spacing * grid[n, c]


@_compiled
def _height(q, n, counts, temperature, normalised):
    """The log-likelihood of the choices: normalised in each state, or literally c Σ n(s, a) Q*(s, a)."""
    if normalised:
        return log_likelihood(q, n, counts, n, temperature, 0.0)
    total = 0.0
    for s in range(q.shape[1]):
        for a in range(q.shape[2]):
            if counts[n, s, a] > 0.0:
                total += counts[n, s, a] * q[n, s, a]
    return temperature * total
