"""The compiled move of a population that carries its tasks along, by one hyperparameter or by several at once.

Without it chains crawl: few choices leave a task's reward near its population, many tasks leave the population near its
tasks, and neither can move without the other.
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
from manymotives.inference.mcmc.noncentred import carried, latent, placed
from manymotives.inference.mcmc.populations import put, set_parameters
from manymotives.inference.mcmc.proposals import begin_trials, copy_row, judge_trials, keep
from manymotives.jit import inner
from manymotives.models.rewards import NORMALISED
from manymotives.models.target import Anatomy

MANY_TASKS, SMALL_SHAPE = 300, 3.0  # from which number on, and below which shape, tasks are carried by exact quantiles


def carry_directions(anatomy: Anatomy) -> np.ndarray:
    """[C, H] each hyperparameter by itself; and together those whose common factor changes a spread and no mean.

    These are all concentrations of a Dirichlet, and both parameters of a Gamma or Beta.
    """
    source, num_hyper = anatomy.source, len(anatomy.hyper_families)
    together = []
    shares = anatomy.num_rewards if anatomy.link == NORMALISED else 0
    if shares:
        together.append(np.unique(source[:shares, 0]))
    for d in range(shares, len(source)):
        if anatomy.families[d] in (GAMMA, BETA):
            together.append(np.unique(source[d]))
    rows = [np.eye(num_hyper, dtype=bool)]
    for several in together:
        is_scale = (several >= 0).all() and not np.isin(anatomy.hyper_families[several], (NORMAL, BETA)).any()
        if is_scale and len(several) > 1:
            rows.append(np.isin(np.arange(num_hyper), several)[None])
    return np.unique(np.concatenate(rows), axis=0)


@inner
def carry(rng, world, anatomy, data, state, proposal, room, tally):
    """A random step of one hyperparameter in each population, or of some together, its tasks carried along."""
    hyper, source, scale, directions = state.hyper, anatomy.source, proposal.carry_scale, proposal.carry_directions
    hyper_families, constants = anatomy.hyper_families, anatomy.hyper_constants
    num_groups, num_hyper = hyper.shape
    if num_hyper == 0:
        return
    plans, trial, trial_z, found, owner = room
    tasks, value, actions, q, log_likelihoods = state.tasks, state.value, state.actions, state.q, state.log_likelihood
    task_z, new_value, new_actions, new_q = state.task_z, plans.value, plans.actions, plans.q
    num_tasks, size = tasks.shape
    group_size = anatomy.group_size
    chosen = np.empty(num_groups, dtype=np.int64)
    goal = hyper.copy()
    gain = np.zeros(num_groups)
    before, after = np.empty((size, 2)), np.empty((size, 2))
    for m in range(num_tasks):
        owner[m] = m
    begin_trials(state, plans, trial, trial_z, owner, num_tasks)
    for g in range(num_groups):
        chosen[g] = min(int(rng.random() * len(directions)), len(directions) - 1)
        step = scale[g, chosen[g]] * rng.standard_normal()
        set_parameters(anatomy, hyper, g, before)
        set_parameters(anatomy, hyper, g, after)
        for j in range(num_hyper):
            if directions[chosen[g], j]:
                goal[g, j] = hyper[g, j] + step
                family, a, b = hyper_families[j], constants[j, 0], constants[j, 1]
                x = natural(family, goal[g, j])
                if math.isinf(x) or (x <= 0.0 and family != NORMAL):
                    gain[g] = -np.inf
                    break
                centre = location(family, a, b)
                gain[g] += log_kernel(family, goal[g, j] - centre, a, b) - log_kernel(
                    family, hyper[g, j] - centre, a, b
                )
                put(source, after, j, x, 0, size)
        if gain[g] > -np.inf:
            for d in range(size):
                if before[d, 0] != after[d, 0] or before[d, 1] != after[d, 1]:
                    group = slice(g * group_size, (g + 1) * group_size)
                    gain[g] += _carry_tasks(anatomy.families[d], trial[group], trial_z[group], d, before[d], after[d])
    judge_trials(world, anatomy, data, plans, trial, owner, num_tasks, found)
    for g in range(num_groups):
        tally.carries_tried[g, chosen[g]] += 1.0
        for m in range(g * group_size, (g + 1) * group_size):
            gain[g] += found[m] - log_likelihoods[m]
        if math.log1p(-rng.random()) < gain[g]:
            tally.carries[g, chosen[g]] += 1.0
            copy_row(hyper, g, goal)
            for m in range(g * group_size, (g + 1) * group_size):
                log_likelihoods[m] = found[m]
                keep(tasks, task_z, value, actions, q, trial, trial_z, new_value, new_actions, new_q, m, m)


@inner
def _carry_tasks(family, trial, trial_z, d, before, after):
    """Coordinate d of trials [N, D] at about the quantile, in a population after a step, at which it was before it.

    The answer: the gain in log density. u = T(z; a, b) keeps z (`noncentred.placed`); where T is exact, nothing is
    gained or lost. Small shapes of many tasks, which may be anything over a wide range, are kept in place by what each
    z tells of them: there quantiles are exact. (Both shapes must be small: a step and the step back are carried in the
    same way, or the move would not be reversible.)
    """
    a, b, new_a, new_b = before[0], before[1], after[0], after[1]
    if is_location_scale(family):
        for m in range(len(trial)):
            trial[m, d] = new_a + new_b * trial_z[m, d]
        return 0.0
    if family == HALF_NORMAL:
        for m in range(len(trial)):
            trial[m, d] += math.log(new_a) - math.log(a)
        return 0.0
    if family == GAMMA and len(trial) >= MANY_TASKS and max(a, new_a) < SMALL_SHAPE:
        for m in range(len(trial)):
            trial[m, d] = carried(trial[m, d] + math.log(b), a, new_a) - math.log(new_b)
        return 0.0
    gain = len(trial) * (log_normaliser(family, new_a, new_b) - log_normaliser(family, a, b))
    centre, new_centre = location(family, a, b), location(family, new_a, new_b)
    z = 0.0
    for m in range(len(trial)):
        z = latent(family, trial[m, d], a, b, z)
        gain -= math.log(placed(family, z, a, b)[1]) + log_kernel(family, trial[m, d] - centre, a, b)
        there, slope = placed(family, z, new_a, new_b)
        trial[m, d] = there
        gain += math.log(slope) + log_kernel(family, there - new_centre, new_a, new_b)
    return gain
