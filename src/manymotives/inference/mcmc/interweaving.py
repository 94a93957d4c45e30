"""Interweaving (ASIS), compiled: the non-centred update of populations, beside the centred ones of `populations`.

Centred updates of h hold the tasks' u fixed; this one holds their z fixed, with u = T(z; a(h), b(h)), so that all tasks
of a population move with it:

    h' = h + scale · normal · direction,    u'_m = T(z_m; a(h'), b(h'))
    accepted with  min(1, p(h') Π_m p(u'_m | h') |du'/dz| p(choices_m | u'_m) / the same at h)

With few choices a task's reward is near its population, and with many tasks a population is near its tasks: neither
can move without the other, and without this update chains mix slowly (Yu & Meng 2011).
"""

import math

import numpy as np

from manymotives.families import (
    BETA,
    GAMMA,
    HALF_NORMAL,
    NORMAL,
    is_location_scale,
    location,
    log_kernel,
    log_normaliser,
    natural,
)
from manymotives.inference.mcmc.noncentred import centred, noncentred, same_quantile
from manymotives.inference.mcmc.populations import put, set_parameters
from manymotives.inference.mcmc.proposals import accept, copy_row, evaluate_proposals, start_proposals
from manymotives.jit import inner
from manymotives.models.rewards import NORMALISED
from manymotives.models.target import ParameterLayout

MANY_TASKS, SMALL_SHAPE = 300, 3.0  # from which number on, and below which shape, tasks keep their exact quantile


def interweaving_directions(layout: ParameterLayout) -> np.ndarray:
    """[C, H] which hyperparameters change together: each alone; and those whose common factor changes spreads alone.

    These are all concentrations of a Dirichlet, and both parameters of a Gamma or Beta.
    """
    source, num_hyper = layout.source, len(layout.hyper_families)
    together = []
    shares = layout.num_rewards if layout.link == NORMALISED else 0
    if shares:
        together.append(np.unique(source[:shares, 0]))
    for d in range(shares, len(source)):
        if layout.families[d] in (GAMMA, BETA):
            together.append(np.unique(source[d]))
    rows = [np.eye(num_hyper, dtype=bool)]
    for several in together:
        is_scale = (several >= 0).all() and not np.isin(layout.hyper_families[several], (NORMAL, BETA)).any()
        if is_scale and len(several) > 1:
            rows.append(np.isin(np.arange(num_hyper), several)[None])
    return np.unique(np.concatenate(rows), axis=0)


@inner
def interweave(rng, world, layout, data, state, tuning, workspace, acceptance):
    """A non-centred random walk of one hyperparameter of each population, or of some together: tasks keep their z."""
    hyper = state.hyper
    num_groups, num_hyper = hyper.shape
    if num_hyper == 0:
        return
    plans, proposed, proposed_z = workspace.plans, workspace.proposed, workspace.proposed_z
    found, owner = workspace.found, workspace.owner
    tasks, value, actions, q, log_likelihoods = state.tasks, state.value, state.actions, state.q, state.log_likelihood
    task_z, new_value, new_actions, new_q = state.task_z, plans.value, plans.actions, plans.q
    num_tasks, size = tasks.shape
    group_size = layout.group_size
    chosen = np.empty(num_groups, dtype=np.int64)
    goal = hyper.copy()
    gain = np.zeros(num_groups)
    before, after = np.empty((size, 2)), np.empty((size, 2))
    for m in range(num_tasks):
        owner[m] = m
    start_proposals(state, plans, proposed, proposed_z, owner, num_tasks)
    for g in range(num_groups):
        set_parameters(layout, hyper, g, before)
        set_parameters(layout, hyper, g, after)
        chosen[g], gain[g] = _step_population(rng, layout, tuning, hyper, g, goal, after)
        if gain[g] > -np.inf:
            for d in range(size):
                if before[d, 0] != after[d, 0] or before[d, 1] != after[d, 1]:
                    group = slice(g * group_size, (g + 1) * group_size)
                    gain[g] += _keep_noncentred(
                        layout.families[d], proposed[group], proposed_z[group], d, before[d], after[d]
                    )
    evaluate_proposals(world, layout, data, plans, proposed, owner, num_tasks, found)
    for g in range(num_groups):
        acceptance.interweaving_tried[g, chosen[g]] += 1.0
        for m in range(g * group_size, (g + 1) * group_size):
            gain[g] += found[m] - log_likelihoods[m]
        if math.log1p(-rng.random()) < gain[g]:
            acceptance.interweaving[g, chosen[g]] += 1.0
            copy_row(hyper, g, goal)
            for m in range(g * group_size, (g + 1) * group_size):
                log_likelihoods[m] = found[m]
                accept(tasks, task_z, value, actions, q, proposed, proposed_z, new_value, new_actions, new_q, m, m)


@inner
def _step_population(rng, layout, tuning, hyper, g, goal, after):
    """A step of population g, left in goal [G, H], and its tasks' parameters there, in after [D, 2].

    Returns the direction, and the gain in log p(h): −inf where there is no such population.
    """
    scale, directions = tuning.interweaving_scale, tuning.interweaving_directions
    families, constants = layout.hyper_families, layout.hyper_constants
    chosen = min(int(rng.random() * len(directions)), len(directions) - 1)
    step = scale[g, chosen] * rng.standard_normal()
    gain = 0.0
    for j in range(len(families)):
        if directions[chosen, j]:
            goal[g, j] = hyper[g, j] + step
            family, a, b = families[j], constants[j, 0], constants[j, 1]
            x = natural(family, goal[g, j])
            if math.isinf(x) or (x <= 0.0 and family != NORMAL):
                return chosen, -np.inf
            centre = location(family, a, b)
            gain += log_kernel(family, goal[g, j] - centre, a, b) - log_kernel(family, hyper[g, j] - centre, a, b)
            put(layout, goal, g, after, j, x, 0, len(after))
    return chosen, gain


@inner
def _keep_noncentred(family, proposed, proposed_z, d, before, after):
    """Coordinate d of proposals [N, D] at the z, in the population after a step, which it had before.

    Returns the gain in log p(u | a, b) + log du/dz: zero where T is exact. Where it is not, many tasks with small
    shapes would hold their population fast by what T approximates: they keep their exact quantile instead. (Both
    shapes must be small: a step and the step back must use the same map, or the update would not be reversible.)
    """
    a, b, new_a, new_b = before[0], before[1], after[0], after[1]
    if is_location_scale(family):
        for m in range(len(proposed)):
            proposed[m, d] = new_a + new_b * proposed_z[m, d]
        return 0.0
    if family == HALF_NORMAL:
        for m in range(len(proposed)):
            proposed[m, d] += math.log(new_a) - math.log(a)
        return 0.0
    if family == GAMMA and len(proposed) >= MANY_TASKS and max(a, new_a) < SMALL_SHAPE:
        for m in range(len(proposed)):
            proposed[m, d] = same_quantile(proposed[m, d] + math.log(b), a, new_a) - math.log(new_b)
        return 0.0
    gain = len(proposed) * (log_normaliser(family, new_a, new_b) - log_normaliser(family, a, b))
    centre, new_centre = location(family, a, b), location(family, new_a, new_b)
    z = 0.0
    for m in range(len(proposed)):
        z = noncentred(family, proposed[m, d], a, b, z)
        gain -= math.log(centred(family, z, a, b)[1]) + log_kernel(family, proposed[m, d] - centre, a, b)
        there, slope = centred(family, z, new_a, new_b)
        proposed[m, d] = there
        gain += math.log(slope) + log_kernel(family, there - new_centre, new_a, new_b)
    return gain
