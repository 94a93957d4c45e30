"""Effects on normal coordinates given tasks' u, compiled: a regression, with the scales of all that is random.

    u = mean + X B + b · normal          mean ~ Normal(c, spread),   B ~ Normal(0, s or τ)

In units of the prior, C = (τ, s or spread) ∘ (X, 1) and y = u − c:

    p(u | b, τ) = Normal(y | 0, b² + C Cᵀ)          b, then each τ, by slice sampling: B and the mean integrated out
    B, mean | u, b, τ                               exact, Normal(A⁻¹ Cᵀ y, b² A⁻¹),  A = Cᵀ C + b²

With B given instead, b and τ would each move only as far as the other leaves room. Members' columns stand before the
population's: of one level they do not overlap, so that most of A and of its Cholesky factor is 0, and skipped.
"""

import math

import numpy as np

from manymotives.families import is_location_scale, location, log_kernel, natural
from manymotives.inference.mcmc.populations import DONE, STEP_LEFT, next_on_slice
from manymotives.jit import inner

SLICE_WIDTH = 1.0
SLICE_STEPS = 500  # evaluations at most; a dozen are usual
FARTHEST = 30.0  # log τ / s where B is integrated out; beyond, `effect_kernels` moves it with B or z kept
NARROW = 1e-8  # b² beside the squares of columns, from which on these may seem to repeat each other


@inner
def regress(rng, layout, data, state, known, effects, parameters):
    """Scales, B and population means of normal coordinates, u kept."""
    hyper, constants, z, log_spread = state.hyper, layout.hyper_constants, effects.z, effects.log_spread
    size = len(known.applies)
    which, scale, here = np.empty(size + 1, dtype=np.int64), np.empty(size + 1), np.empty(size + 1)
    for d in range(len(parameters)):
        if not is_location_scale(layout.families[d]) or not known.applies[:, d].any():
            continue
        number, j = 0, known.mean[d]
        for of_members in (True, False):
            for e in range(size):
                if known.applies[e, d] and (known.slope[e] >= 0) == of_members:
                    which[number] = e
                    scale[number] = math.exp(log_spread[known.slope[e], d]) if of_members else known.scale
                    number += 1
        centre = parameters[d, 0]
        if j >= 0:
            centre, which[number], scale[number] = constants[j, 0], size, constants[j, 1]
            number += 1
        _draw_scales(rng, layout, data, state, known, effects, parameters, d, centre, which[:number], scale[:number])
        for i in range(number):
            here[i] = (hyper[0, j] - constants[j, 0]) / constants[j, 1] if which[i] == size else z[which[i], d]
        _draw_coefficients(rng, data, state, known, effects, parameters, d, which[:number], scale[:number], here)


# ---- scales --------------------------------------------------------------------------------------------------------


@inner
def _draw_scales(rng, layout, data, state, known, effects, parameters, d, centre, which, scale):
    """b, where it is a hyperparameter of this coordinate alone, and τ; u and B kept as they are, but integrated out."""
    columns, task_z, hyper, log_spread = known.columns, state.task_z, state.hyper, effects.log_spread
    number, count, j = len(which), len(state.tasks), known.own_scale[d]
    squares, products = 0.0, np.zeros(number)  # yᵀ y and Xᵀ y
    for m in range(count):
        y = data.offset[m, d] + state.tasks[m, d] - centre
        squares += y**2
        for i in range(number):
            products[i] += columns[which[i], m] * y
    lower, first = np.empty((number, number)), np.empty(number, dtype=np.int64)
    for k in range(-1, len(log_spread)):
        if (j < 0) if k < 0 else not known.has_slope[k, d]:
            continue
        here = hyper[0, j] if k < 0 else log_spread[k, d]
        level = _log_marginal(
            k, here, layout, known, j, parameters[d, 1], count, squares, products, which, scale, lower, first
        )
        found = here
        if level > -np.inf:
            level += math.log1p(-rng.random())
            left = here - SLICE_WIDTH * rng.random()
            right = left + SLICE_WIDTH
            stage, there = STEP_LEFT, left
            for _ in range(SLICE_STEPS):
                height = _log_marginal(
                    k, there, layout, known, j, parameters[d, 1], count, squares, products, which, scale, lower, first
                )
                stage, there, left, right = next_on_slice(
                    rng, SLICE_WIDTH, stage, height > level, here, there, left, right
                )
                if stage == DONE:
                    found = there
                    break
        if k < 0:
            before = parameters[d, 1]
            if found != here:
                hyper[0, j], parameters[d, 1] = found, natural(layout.hyper_families[j], found)
                for m in range(count):
                    task_z[m, d] *= before / parameters[d, 1]
        else:
            log_spread[k, d] = found
            for i in range(number):
                if which[i] < len(known.slope) and known.slope[which[i]] == k:
                    scale[i] = math.exp(found)
                    effects.z[which[i], d] *= math.exp(here - found)


@inner
def _log_marginal(k, there, layout, known, j, b, count, squares, products, which, scale, lower, first):
    """log p(u, log τ_k | b), or log p(u, b | τ) where k is −1, up to a constant; −inf where b is too narrow."""
    if k < 0:
        family, one, other = layout.hyper_families[j], layout.hyper_constants[j, 0], layout.hyper_constants[j, 1]
        b = natural(family, there)
        total = log_kernel(family, there - location(family, one, other), one, other)
    else:
        ratio = there - math.log(known.scale)
        if not abs(ratio) < FARTHEST:
            return -np.inf
        total = ratio - 0.5 * math.exp(2.0 * ratio)
        for i in range(len(which)):
            if which[i] < len(known.slope) and known.slope[which[i]] == k:
                scale[i] = math.exp(there)
    if not _factorise(known.products, which, scale, b, lower, first):
        return -np.inf
    solved = np.empty(len(which))
    explained = 0.0
    for i in range(len(which)):
        rest = scale[i] * products[i]
        for n in range(first[i], i):
            rest -= lower[i, n] * solved[n]
        solved[i] = rest / lower[i, i]
        explained += solved[i] ** 2
        total -= math.log(lower[i, i])
    total -= (count - len(which)) * math.log(b) + 0.5 * (squares - explained) / b**2
    return total if total < np.inf else -np.inf


# ---- coefficients --------------------------------------------------------------------------------------------------


@inner
def _draw_coefficients(rng, data, state, known, effects, parameters, d, which, scale, here):
    """B and the population mean, b and u kept."""
    columns, task_z, tasks, offset = known.columns, state.task_z, state.tasks, data.offset
    number, count, b = len(which), len(tasks), parameters[d, 1]
    right = np.empty(number)
    for i in range(number):
        total = 0.0
        for m in range(count):
            total += columns[which[i], m] * task_z[m, d]
        right[i] = b * scale[i] * total - b**2 * here[i]
    moved = _normal(rng, known.products, which, scale, b, right)
    if not np.isfinite(moved).all():
        return
    for i in range(number):
        step = scale[i] * moved[i]
        for m in range(count):
            task_z[m, d] -= columns[which[i], m] * (step / b)
        if which[i] < len(effects.z):
            effects.z[which[i], d] += moved[i]
            for m in range(count):
                offset[m, d] += columns[which[i], m] * step
        else:
            state.hyper[0, known.mean[d]] += step
            parameters[d, 0] += step
    for m in range(count):
        tasks[m, d] = parameters[d, 0] + b * task_z[m, d]


@inner
def _normal(rng, products, which, scale, b, right):
    """A draw from Normal(A⁻¹ right, b² A⁻¹); no number where b² is 0.

    By eigenvectors where b is next to nothing and columns may repeat each other, or the intercept.
    """
    number = len(right)
    drawn, lower, first = np.empty(number), np.empty((number, number)), np.empty(number, dtype=np.int64)
    for i in range(number):
        drawn[i] = b * rng.standard_normal()
    if _factorise(products, which, scale, b, lower, first):
        for i in range(number):
            for k in range(first[i], i):
                right[i] -= lower[i, k] * right[k]
            right[i] /= lower[i, i]
        for i in range(number - 1, -1, -1):
            drawn[i] = (right[i] + drawn[i]) / lower[i, i]
            for k in range(first[i], i):
                drawn[k] -= lower[i, k] * drawn[i]
        return drawn
    square = np.empty((number, number))
    for i in range(number):
        for k in range(number):
            square[i, k] = scale[i] * scale[k] * products[which[i], which[k]]
    values, turn = np.linalg.eigh(square)
    found = np.zeros(number)
    for i in range(number):
        size = b**2 + max(values[i], 0.0)
        along = drawn[i] / math.sqrt(size)
        for k in range(number):
            along += turn[k, i] * right[k] / size
        for k in range(number):
            found[k] += turn[k, i] * along
    return found


@inner
def _factorise(products, which, scale, b, lower, first):
    """The Cholesky factor of A into `lower`, whose row i is 0 before first[i]; False where b is next to nothing."""
    number, trace = len(which), 0.0
    for i in range(number):
        trace += scale[i] ** 2 * products[which[i], which[i]]
    if not NARROW * trace < b**2 < np.inf:
        return False
    for i in range(number):
        first[i] = 0
        while first[i] < i and products[which[i], which[first[i]]] == 0.0:
            first[i] += 1
        for k in range(first[i], i + 1):
            total = scale[i] * scale[k] * products[which[i], which[k]]
            for n in range(max(first[i], first[k]), k):
                total -= lower[i, n] * lower[k, n]
            if k < i:
                lower[i, k] = total / lower[k, k]
            elif total + b**2 > 0.0:
                lower[i, i] = math.sqrt(total + b**2)
            else:
                return False
    return True
