"""Updates of effects of covariates, compiled (`effects` says why there are three):

tasks keep u       B and the population mean | u                normal: a regression, in units of the prior
                   one coefficient of each other coordinate | u, then τ | z, u           slice sampling
B is kept          τ | B                                                                 slice sampling
tasks keep v       z, log τ | v, choices                                                 a Hamiltonian trajectory
"""

import math
from typing import NamedTuple

import numpy as np

from manymotives.by_reference import by_reference
from manymotives.families import is_location_scale, location, log_kernel
from manymotives.inference.mcmc.density import evaluate, find_noncentred
from manymotives.inference.mcmc.effect_regression import SLICE_STEPS, SLICE_WIDTH, regress
from manymotives.inference.mcmc.populations import DONE, STEP_LEFT, next_on_slice, set_parameters
from manymotives.jit import compiled, inner

MOST_STEPS = 12  # of a trajectory; fewer where they are short, and get nowhere: regression is quick there
SMALLEST_LOG = -600.0  # of τ: smaller is zero for all that choices could show
COEFFICIENT, SPREAD, CENTRED_SPREAD = range(3)  # what moves along a slice


@by_reference
class Columns(NamedTuple):
    """What is known: `models.effects.Effects` for compiled loops."""

    columns: np.ndarray  # [E + 1, M] the last is 1: the population mean's
    products: np.ndarray  # [E + 1, E + 1] of columns
    applies: np.ndarray  # [E, D]
    slope: np.ndarray  # [E] k of a member's column, −1 of the population's
    has_slope: np.ndarray  # [K, D]
    scale: float
    mean: np.ndarray  # [D] the hyperparameter that is a normal coordinate's mean, and of no other; −1: none
    own_scale: np.ndarray  # [D] the same of its scale


@by_reference
class EffectState(NamedTuple):
    """Where a chain is with its effects, and how it moves them."""

    z: np.ndarray  # [E, D]
    log_spread: np.ndarray  # [K, D] log τ
    width: np.ndarray  # [E + K, D] standard deviations, tasks' v given, as far as known: units of trajectories
    step_size: np.ndarray  # []


@compiled
def update_effects(rng, world, layout, data, state, known, effects, slopes, workspace):
    """One update of each kind; `data.offset` and the chain's state follow.

    The acceptance probability of the trajectory; slopes [M, D] of log-likelihoods in u, where the chain is.
    """
    parameters = np.empty((len(layout.families), 2))
    set_parameters(layout, state.hyper, 0, parameters)
    regress(rng, layout, data, state, known, effects, parameters)
    _slice_others(rng, layout, data, state, known, effects, parameters)
    _slice_spreads(rng, layout, data, state, known, effects, parameters)
    _set_offset(known, effects.z, effects.log_spread, data.offset)  # as a chain that resumes begins: sums round
    return _trajectory(rng, world, layout, data, state, known, effects, slopes, workspace)


@compiled
def set_offset(known, effects, offset):
    """offset [M, D] = Σ_e X_me B_e."""
    _set_offset(known, effects.z, effects.log_spread, offset)


@inner
def _set_offset(known, z, log_spread, offset):
    columns, applies = known.columns, known.applies
    offset[:] = 0.0
    for e in range(len(applies)):
        for d in range(applies.shape[1]):
            if applies[e, d]:
                b = _scale_of(known, log_spread, e, d) * z[e, d]
                for m in range(len(offset)):
                    offset[m, d] += columns[e, m] * b


@inner
def _scale_of(known, log_spread, e, d):
    """The prior standard deviation of a coefficient."""
    k = known.slope[e]
    return known.scale if k < 0 else math.exp(log_spread[k, d])


# ---- tasks keep u --------------------------------------------------------------------------------------------------


@inner
def _slice_others(rng, layout, data, state, known, effects, parameters):
    """One coefficient of each coordinate that is not normal, its tasks' u kept."""
    column = np.empty(len(state.tasks))
    for d in range(len(parameters)):
        number = known.applies[:, d].sum()
        if number == 0 or is_location_scale(layout.families[d]):
            continue
        chosen, e = min(int(rng.random() * number), number - 1), -1
        while chosen >= 0:
            e += 1
            if known.applies[e, d]:
                chosen -= 1
        scale = _scale_of(known, effects.log_spread, e, d)
        for m in range(len(column)):
            column[m] = scale * known.columns[e, m]
        here = effects.z[e, d]
        there = _on_slice(rng, COEFFICIENT, here, layout, state, known, parameters, d, column, 0.0, 0)
        effects.z[e, d] = there
        _shift(layout, data, state, parameters, d, there - here, column)


@inner
def _slice_spreads(rng, layout, data, state, known, effects, parameters):
    """log τ: with z and tasks' u kept, then with B kept."""
    columns, slope, z, log_spread = known.columns, known.slope, effects.z, effects.log_spread
    column = np.empty(len(state.tasks))
    for k in range(len(log_spread)):
        for d in range(len(parameters)):
            if not known.has_slope[k, d]:
                continue
            column[:] = 0.0
            count, squares = 0, 0.0
            for e in range(len(slope)):
                if slope[e] == k and known.applies[e, d]:
                    count += 1
                    squares += z[e, d] ** 2
                    for m in range(len(column)):
                        column[m] += columns[e, m] * z[e, d]
            here = log_spread[k, d]
            there = _on_slice(rng, SPREAD, here, layout, state, known, parameters, d, column, squares, count)
            _shift(layout, data, state, parameters, d, math.exp(there) - math.exp(here), column)
            here = there
            there = _on_slice(rng, CENTRED_SPREAD, here, layout, state, known, parameters, d, column, squares, count)
            log_spread[k, d] = there
            for e in range(len(slope)):
                if slope[e] == k and known.applies[e, d]:
                    z[e, d] *= math.exp(here - there)


@inner
def _shift(layout, data, state, parameters, d, times, column):
    """So many times a column from tasks' v to their offsets, u kept."""
    tasks, task_z, offset = state.tasks, state.task_z, data.offset
    a, b = parameters[d, 0], parameters[d, 1]
    is_normal = is_location_scale(layout.families[d])
    for m in range(len(tasks)):
        by = times * column[m]
        offset[m, d] += by
        if is_normal:
            task_z[m, d] -= by / b
            tasks[m, d] = a + b * task_z[m, d]
        else:
            tasks[m, d] -= by


@inner
def _on_slice(rng, kind, here, layout, state, known, parameters, d, column, squares, count):
    """The next point of a coefficient or of log τ, by slice sampling (Neal 2003)."""
    level = _height(kind, here, here, layout, state, known, parameters, d, column, squares, count)
    level += math.log1p(-rng.random())
    left = here - SLICE_WIDTH * rng.random()
    right = left + SLICE_WIDTH
    stage, there = STEP_LEFT, left
    for _ in range(SLICE_STEPS):
        inside = _height(kind, there, here, layout, state, known, parameters, d, column, squares, count) > level
        stage, there, left, right = next_on_slice(rng, SLICE_WIDTH, stage, inside, here, there, left, right)
        if stage == DONE:
            return there
    return here


@inner
def _height(kind, there, here, layout, state, known, parameters, d, column, squares, count):
    """The log density, up to a constant, `there` instead of `here`."""
    if kind == COEFFICIENT:
        return _given_u(layout, state, parameters, d, there - here, column) - 0.5 * there**2
    if not SMALLEST_LOG < there < -SMALLEST_LOG:
        return -np.inf
    ratio = there - math.log(known.scale)
    prior = ratio - 0.5 * math.exp(2.0 * ratio)
    if kind == CENTRED_SPREAD:
        return prior - 0.5 * squares * math.exp(2.0 * (here - there)) - count * there
    return prior + _given_u(layout, state, parameters, d, math.exp(there) - math.exp(here), column)


@inner
def _given_u(layout, state, parameters, d, times, column):
    """log p(v) of tasks where so many times a column goes from their v to their offset."""
    tasks, task_z = state.tasks, state.task_z
    family, a, b = layout.families[d], parameters[d, 0], parameters[d, 1]
    total = 0.0
    if is_location_scale(family):
        for m in range(len(tasks)):
            total -= 0.5 * (task_z[m, d] - times * column[m] / b) ** 2
        return total
    centre = location(family, a, b)
    for m in range(len(tasks)):
        total += log_kernel(family, tasks[m, d] - times * column[m] - centre, a, b)
    return total


# ---- tasks keep v --------------------------------------------------------------------------------------------------


@inner
def _trajectory(rng, world, layout, data, state, known, effects, slopes, workspace):
    """z and log τ, tasks' v kept; the acceptance probability."""
    step, width, offset = effects.step_size[()], effects.width, data.offset
    size, (count, dimensions) = len(effects.z), slopes.shape
    plans = workspace.plans
    plans.value[:count], plans.actions[:count] = state.value, state.actions
    find_noncentred(layout, state.hyper, state.tasks, state.hyper_z, state.task_z)
    evaluate(world, layout, data, workspace, state.hyper_z, state.task_z)
    slopes[:] = workspace.likelihood_gradient
    before, x, gradient = offset.copy(), np.empty(width.shape), np.zeros(width.shape)
    x[:size], x[size:] = effects.z, effects.log_spread
    momentum = np.zeros(width.shape)
    for i in range(len(x)):
        for d in range(dimensions):
            if known.applies[i, d] if i < size else known.has_slope[i - size, d]:
                momentum[i, d] = rng.standard_normal()
    energy = 0.5 * (momentum**2).sum() - _log_density(known, workspace, x, gradient)
    ended = energy
    for _ in range(1 + int(rng.random() * min(max(round(30.0 * step), 1), MOST_STEPS))):
        momentum += 0.5 * step * width * gradient
        x += step * width * momentum
        if not np.all(np.abs(x[size:]) < -SMALLEST_LOG):
            return _rejected(offset, before)
        _set_offset(known, x[:size], x[size:], offset)
        evaluate(world, layout, data, workspace, state.hyper_z, state.task_z)
        density = _log_density(known, workspace, x, gradient)
        momentum += 0.5 * step * width * gradient
        ended = 0.5 * (momentum**2).sum() - density
        if not ended < np.inf:  # a trajectory that ran away
            return _rejected(offset, before)
    chance = math.exp(min(0.0, energy - ended))
    if rng.random() >= chance:
        _rejected(offset, before)
        return chance
    effects.z[:], effects.log_spread[:] = x[:size], x[size:]
    slopes[:] = workspace.likelihood_gradient
    state.log_likelihood[:] = workspace.log_likelihood
    state.value[:], state.actions[:], state.q[:] = plans.value[:count], plans.actions[:count], plans.q[:count]
    return chance


@inner
def _rejected(offset, before):
    offset[:] = before
    return 0.0


@inner
def _log_density(known, workspace, x, gradient):
    """log p(choices, z, log τ | v), up to a constant, where tasks' likelihoods were evaluated; its gradient."""
    columns, applies, slope, has_slope = known.columns, known.applies, known.slope, known.has_slope
    by_u, size = workspace.likelihood_gradient, len(applies)
    total = workspace.log_likelihood.sum()
    for k in range(len(has_slope)):
        for d in range(has_slope.shape[1]):
            if has_slope[k, d]:
                ratio = math.exp(2.0 * (x[size + k, d] - math.log(known.scale)))
                total += x[size + k, d] - 0.5 * ratio
                gradient[size + k, d] = 1.0 - ratio
    for e in range(size):
        for d in range(applies.shape[1]):
            if applies[e, d]:
                by = 0.0
                for m in range(len(by_u)):
                    by += columns[e, m] * by_u[m, d]
                by *= _scale_of(known, x[size:], e, d)
                total -= 0.5 * x[e, d] ** 2
                gradient[e, d] = by - x[e, d]
                if slope[e] >= 0:
                    gradient[size + slope[e], d] += x[e, d] * by
    return total
