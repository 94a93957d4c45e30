"""Concentrations moved together with the rewards that are too faint to be seen: compiled.

Where rewards are sparse, x ~ Gamma(α, 1) with α ≪ 1 makes most log x hugely negative, each about −1/α: twenty tasks pin
α down by numbers that no choice depends on. So those are integrated out. For one state, x_m is *faint* where it is less
than e^−FAINT times the largest of the task's other rewards. α is drawn given which are faint and what the others are,

    p(α) · Π over the others p(x_m | α) · Π over the faint P(x_m < limit_m | α),

and then the faint ones from p(x_m | α, x_m < limit_m). Had choices not depended on them at all, that would be an exact
draw; as they do a little, it is accepted with the ratio of likelihoods.
"""

import math

import numpy as np

from manymotives.families import location, log_kernel, natural
from manymotives.inference.mcmc.populations import DONE, SLICE_STEPS, SLICE_WIDTH, STEP_LEFT, next_on_slice
from manymotives.inference.mcmc.proposals import begin_trials, judge_trials, keep
from manymotives.jit import inner
from manymotives.models.rewards import NORMALISED

FAINT = 8.0  # on the logarithmic scale
TERMS = 60  # of a series for x ≤ 1, where a dozen are enough
TRIES = 1000  # for a draw that is accepted with probability 1/e at least


@inner
def move_faint(rng, world, anatomy, data, state, room):
    """The concentration of one state in each population, with that state's faint rewards."""
    hyper, source, hyper_families = state.hyper, anatomy.source, anatomy.hyper_families
    num_groups, num_hyper = hyper.shape
    if num_hyper == 0 or anatomy.link != NORMALISED or anatomy.num_rewards < 2:
        return
    plans, trial, trial_z, found, owner = room
    tasks, value, actions, q, log_likelihoods = state.tasks, state.value, state.actions, state.q, state.log_likelihood
    task_z, new_value, new_actions, new_q = state.task_z, plans.value, plans.actions, plans.q
    num_tasks, group_size = len(tasks), anatomy.group_size
    goal, gain = np.empty(num_groups), np.zeros(num_groups)
    moved, is_moved = np.empty(num_groups, dtype=np.int64), np.zeros(num_groups, dtype=np.bool_)
    limits, is_faint = np.empty(num_tasks), np.zeros(num_tasks, dtype=np.bool_)
    for g in range(num_groups):
        d = min(int(rng.random() * anatomy.num_rewards), anatomy.num_rewards - 1)
        moved[g] = -1 if _shared(source, d) else d
        if moved[g] >= 0:
            j = source[d, 0]
            group = slice(g * group_size, (g + 1) * group_size)
            seen = _find_faint(tasks[group], d, anatomy.num_rewards, limits[group], is_faint[group])
            goal[g] = _draw_concentration(rng, anatomy, hyper[g, j], j, seen, limits[group], is_faint[group])
    count = 0
    for m in range(num_tasks):
        if is_faint[m]:
            owner[count] = m
            count += 1
    begin_trials(state, plans, trial, trial_z, owner, count)
    for n in range(count):
        m = owner[n]
        d = moved[m // group_size]
        shape = natural(hyper_families[source[d, 0]], goal[m // group_size])
        trial[n, d] = _draw_below(rng, shape, limits[m])
    if count > 0:
        judge_trials(world, anatomy, data, plans, trial, owner, count, found)
    for n in range(count):
        gain[owner[n] // group_size] += found[n] - log_likelihoods[owner[n]]
    for g in range(num_groups):
        is_moved[g] = moved[g] >= 0 and math.log1p(-rng.random()) < gain[g]
        if is_moved[g]:
            hyper[g, source[moved[g], 0]] = goal[g]
    for n in range(count):
        m = owner[n]
        if is_moved[m // group_size]:
            log_likelihoods[m] = found[n]
            keep(tasks, task_z, value, actions, q, trial, trial_z, new_value, new_actions, new_q, n, m)


@inner
def _shared(source, d):
    """Whether the concentration of coordinate d is known, or a parameter of anything else."""
    if source[d, 0] < 0:
        return True
    for other in range(len(source)):
        for column in range(2):
            if source[other, column] == source[d, 0] and (other != d or column != 0):
                return True
    return False


@inner
def _find_faint(tasks, d, size, limits, is_faint):
    """limits [group] of log x, and which lie below; the sum of log x over those that do not, and how many they are."""
    total, count = 0.0, 0
    for m in range(len(tasks)):
        largest = -np.inf
        for k in range(size):
            if k != d:
                largest = max(largest, tasks[m, k])
        limits[m] = min(largest - FAINT, 0.0)
        is_faint[m] = tasks[m, d] < limits[m]
        if not is_faint[m]:
            total += tasks[m, d]
            count += 1
    return total, count


@inner
def _draw_concentration(rng, anatomy, here, j, seen, limits, is_faint):
    """The j-th hyperparameter's coordinate by slice sampling, given what is seen and how many rewards are faint."""
    level = _density(anatomy, here, j, seen, limits, is_faint) + math.log1p(-rng.random())
    left = here - SLICE_WIDTH * rng.random()
    right = left + SLICE_WIDTH
    stage, there = STEP_LEFT, left
    for _ in range(SLICE_STEPS):
        inside = _density(anatomy, there, j, seen, limits, is_faint) > level
        stage, there, left, right = next_on_slice(rng, SLICE_WIDTH, stage, inside, here, there, left, right)
        if stage == DONE:
            return there
    return here


@inner
def _density(anatomy, h, j, seen, limits, is_faint):
    """Its log density at coordinate h, up to a constant."""
    family, constants = anatomy.hyper_families[j], anatomy.hyper_constants
    shape = natural(family, h)
    if not 0.0 < shape < np.inf:
        return -np.inf
    a, b = constants[j, 0], constants[j, 1]
    total = log_kernel(family, h - location(family, a, b), a, b)
    total += shape * seen[0] - seen[1] * math.lgamma(shape)
    faint = len(limits) - seen[1]
    if faint > 0:
        total -= faint * math.lgamma(shape + 1.0)
        for i in range(len(limits)):
            if is_faint[i]:
                total += shape * limits[i] + _log_series(shape, math.exp(limits[i]))
    return total


@inner
def _log_series(shape, x):
    """log of P(shape, x) Γ(shape + 1) / x^shape, for x ≤ 1: e^−x Σ x^n / ((shape + 1) … (shape + n))."""
    total, term = 1.0, 1.0
    for n in range(1, TERMS):
        term *= x / (shape + n)
        total += term
        if term < 1e-17:
            break
    return math.log(total) - x


@inner
def _draw_below(rng, shape, limit):
    """log x with x ~ Gamma(shape, 1), given that it is below `limit` ≤ 0."""
    u = limit
    for _ in range(TRIES):
        u = limit + math.log1p(-rng.random()) / shape
        if rng.random() < math.exp(-math.exp(u)):
            break
    return u
