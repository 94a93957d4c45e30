"""Collapsed update of concentrations, with the rewards that are too small to matter integrated out: compiled.

For Dirichlet rewards x / Σ x, x_m ~ Gamma(α, 1), and one state: x_m is *negligible* where it is below a limit ℓ_m, e^−8
times the largest of the task's other rewards. Where α ≪ 1 nearly all are, each log x_m is about −1/α, and numbers that
no choice depends on fix α. So they are integrated out,

    p(α | rest) ∝ p(α) · Π_{not negligible} p(x_m | α) · Π_{negligible} P(x < ℓ_m | α),

α is drawn by slice sampling, and then the negligible ones from p(x_m | α, x_m < ℓ_m). This would be an exact draw if
choices did not depend on them at all; since they do a little, it is accepted with the ratio of likelihoods.
"""

import math

import numpy as np

from manymotives.families import location, log_kernel, natural
from manymotives.inference.mcmc.populations import DONE, SLICE_STEPS, SLICE_WIDTH, STEP_LEFT, next_on_slice
from manymotives.inference.mcmc.proposals import accept, evaluate_proposals, start_proposals
from manymotives.jit import inner
from manymotives.models.rewards import NORMALISED

NEGLIGIBLE = 8.0  # how far log x is below the largest of a task's other rewards
TERMS = 60  # of a series for x ≤ 1, where a dozen are enough
TRIES = 1000  # for a draw that is accepted with probability 1/e at least


@inner
def collapsed_update(rng, world, layout, data, state, workspace):
    """The concentration of one state in each population, with that state's negligible rewards integrated out."""
    hyper, source, hyper_families = state.hyper, layout.source, layout.hyper_families
    num_groups, num_hyper = hyper.shape
    if num_hyper == 0 or layout.link != NORMALISED or layout.num_rewards < 2:
        return
    plans, proposed, proposed_z = workspace.plans, workspace.proposed, workspace.proposed_z
    found, owner = workspace.found, workspace.owner
    tasks, value, actions, q, log_likelihoods = state.tasks, state.value, state.actions, state.q, state.log_likelihood
    task_z, new_value, new_actions, new_q = state.task_z, plans.value, plans.actions, plans.q
    num_tasks, group_size = len(tasks), layout.group_size
    goal, gain = np.empty(num_groups), np.zeros(num_groups)
    moved, is_moved = np.empty(num_groups, dtype=np.int64), np.zeros(num_groups, dtype=np.bool_)
    limits, is_negligible = np.empty(num_tasks), np.zeros(num_tasks, dtype=np.bool_)
    for g in range(num_groups):
        d = min(int(rng.random() * layout.num_rewards), layout.num_rewards - 1)
        moved[g] = -1 if _shared(source, d) else d
        if moved[g] >= 0:
            j = source[d, 0]
            group = slice(g * group_size, (g + 1) * group_size)
            seen = _find_negligible(tasks[group], d, layout.num_rewards, limits[group], is_negligible[group])
            goal[g] = _draw_concentration(rng, layout, hyper[g, j], j, seen, limits[group], is_negligible[group])
    count = 0
    for m in range(num_tasks):
        if is_negligible[m]:
            owner[count] = m
            count += 1
    start_proposals(state, plans, proposed, proposed_z, owner, count)
    for n in range(count):
        m = owner[n]
        d = moved[m // group_size]
        shape = natural(hyper_families[source[d, 0]], goal[m // group_size])
        proposed[n, d] = _draw_below(rng, shape, limits[m])
    if count > 0:
        evaluate_proposals(world, layout, data, plans, proposed, owner, count, found)
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
            accept(tasks, task_z, value, actions, q, proposed, proposed_z, new_value, new_actions, new_q, n, m)


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
def _find_negligible(tasks, d, size, limits, is_negligible):
    """limits [group] of log x, and which lie below; the sum of log x over those that do not, and how many they are."""
    total, count = 0.0, 0
    for m in range(len(tasks)):
        largest = -np.inf
        for k in range(size):
            if k != d:
                largest = max(largest, tasks[m, k])
        limits[m] = min(largest - NEGLIGIBLE, 0.0)
        is_negligible[m] = tasks[m, d] < limits[m]
        if not is_negligible[m]:
            total += tasks[m, d]
            count += 1
    return total, count


@inner
def _draw_concentration(rng, layout, here, j, seen, limits, is_negligible):
    """The j-th hyperparameter's coordinate by slice sampling, given the others and how many rewards are negligible."""
    level = _density(layout, here, j, seen, limits, is_negligible) + math.log1p(-rng.random())
    left = here - SLICE_WIDTH * rng.random()
    right = left + SLICE_WIDTH
    stage, there = STEP_LEFT, left
    for _ in range(SLICE_STEPS):
        inside = _density(layout, there, j, seen, limits, is_negligible) > level
        stage, there, left, right = next_on_slice(rng, SLICE_WIDTH, stage, inside, here, there, left, right)
        if stage == DONE:
            return there
    return here


@inner
def _density(layout, h, j, seen, limits, is_negligible):
    """Its log density at coordinate h, up to a constant."""
    family, constants = layout.hyper_families[j], layout.hyper_constants
    shape = natural(family, h)
    if not 0.0 < shape < np.inf:
        return -np.inf
    a, b = constants[j, 0], constants[j, 1]
    total = log_kernel(family, h - location(family, a, b), a, b)
    total += shape * seen[0] - seen[1] * math.lgamma(shape)
    negligible = len(limits) - seen[1]
    if negligible > 0:
        total -= negligible * math.lgamma(shape + 1.0)
        for i in range(len(limits)):
            if is_negligible[i]:
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
