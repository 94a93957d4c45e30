"""Centred updates of a population given its tasks' u, compiled: each hyperparameter on its line, all others fixed.

    p(h_j | rest) ∝ p(h_j) Π_m p(u_m | a(h), b(h))      conjugate (Normal mean, Gamma rate), else slice sampling (Neal
                                                        2003) or a random walk
    Dirichlet rewards:  p(α | rest) ∝ p(α) Π_m Dirichlet(x_m / Σ x_m | α),  then Σ x_m ~ Gamma(Σ α, 1)  (`draw_totals`)

The density sees the tasks only through two numbers for each coordinate (`families.summary`): a thousand tasks cost as
little as two once they are summarised. u stays fixed, so z of location–scale families follows the population
(`_keep_standardised`).
"""

import math

import numpy as np

from manymotives.families import (
    GAMMA,
    NORMAL,
    group_kernel,
    is_location_scale,
    location,
    log_gamma_draw,
    log_kernel,
    log_normaliser,
    natural,
    standardised,
    summary,
)
from manymotives.jit import inner
from manymotives.models.rewards import NORMALISED
from manymotives.models.smooth_scales import set_scales

SLICE_WIDTH = 2.0  # of hyperparameters
SLICE_STEPS = 500  # evaluations at most; a dozen are usual
STEP_LEFT, STEP_RIGHT, SHRINK, DONE = range(4)  # stages of slice sampling


@inner
def walk_population(rng, layout, state, tuning, g, acceptance):
    """A random walk of population g's hyperparameters, one after the other."""
    hyper, scale, accepted = state.hyper, tuning.hyper_scale, acceptance.hyper
    parameters = np.empty((len(layout.families), 2))
    set_parameters(layout, hyper, g, parameters)
    before = parameters.copy()
    summaries = _summaries(layout, state.tasks, state.task_z, parameters, g)
    reach = _reach(layout)
    for j in range(hyper.shape[1]):
        here = hyper[g, j]
        there = here + scale[g, j] * rng.standard_normal()
        loss = _hyper_density(here, layout, hyper, g, summaries, before, parameters, j, reach)
        gain = _hyper_density(there, layout, hyper, g, summaries, before, parameters, j, reach) - loss
        if math.log1p(-rng.random()) < gain:
            hyper[g, j] = there
            accepted[g, j] += 1.0
        else:
            put(layout, hyper, g, parameters, j, natural(layout.hyper_families[j], here), reach[j, 0], reach[j, 1])
    _keep_standardised(layout, state.task_z, g, before, parameters)


@inner
def draw_population(rng, layout, state, g):
    """Population g's hyperparameters given all else: conjugate where it is, by slice sampling otherwise."""
    hyper, families, source = state.hyper, layout.families, layout.source
    hyper_families, constants = layout.hyper_families, layout.hyper_constants
    count = layout.group_size
    shares = layout.num_rewards if layout.link == NORMALISED else 0
    parameters = np.empty((len(families), 2))
    set_parameters(layout, hyper, g, parameters)
    before = parameters.copy()
    summaries = _summaries(layout, state.tasks, state.task_z, parameters, g)
    reach = _reach(layout)
    for j in range(len(hyper_families)):
        conjugate = False
        for d in range(max(shares, reach[j, 0]), reach[j, 1]):
            if source[d, 1] == j and families[d] == GAMMA and hyper_families[j] == GAMMA:
                # the rate of a Gamma has a Gamma; Σ x is count · e^where
                shape = constants[j, 0] + count * parameters[d, 0]
                rate = _log_sum(math.log(constants[j, 1]), math.log(count) + summaries[d, 0])
                hyper[g, j] = log_gamma_draw(rng, shape) - rate
                conjugate = True
            if source[d, 0] == j and is_location_scale(families[d]) and hyper_families[j] == NORMAL:
                # the mean of a Normal has a Normal
                error, spread = parameters[d, 1] / math.sqrt(count), constants[j, 1]
                both = math.hypot(error, spread)
                shift = summaries[d, 0] * (spread / both) ** 2 + (constants[j, 0] - before[d, 0]) * (error / both) ** 2
                hyper[g, j] = before[d, 0] + (shift + error * (spread / both) * rng.standard_normal())
                conjugate = True
        if not conjugate:
            here = hyper[g, j]
            level = _hyper_density(here, layout, hyper, g, summaries, before, parameters, j, reach)
            level += math.log1p(-rng.random())
            left = here - SLICE_WIDTH * rng.random()
            right = left + SLICE_WIDTH
            stage, there = STEP_LEFT, left
            for _ in range(SLICE_STEPS):
                inside = _hyper_density(there, layout, hyper, g, summaries, before, parameters, j, reach) > level
                stage, there, left, right = next_on_slice(rng, SLICE_WIDTH, stage, inside, here, there, left, right)
                if stage == DONE:
                    hyper[g, j] = there
                    break
        put(layout, hyper, g, parameters, j, natural(hyper_families[j], hyper[g, j]), reach[j, 0], reach[j, 1])
    _keep_standardised(layout, state.task_z, g, before, parameters)


@inner
def _keep_standardised(layout, task_z, g, before, parameters):
    """z of the tasks in population g where parameters [D, 2] are no longer what they were, and u is."""
    for d in range(len(parameters)):
        a, b, new_a, new_b = before[d, 0], before[d, 1], parameters[d, 0], parameters[d, 1]
        if is_location_scale(layout.families[d]) and (a != new_a or b != new_b):
            for m in range(g * layout.group_size, (g + 1) * layout.group_size):
                task_z[m, d] = standardised(task_z[m, d], a, b, new_a, new_b)


@inner
def _log_sum(x, y):
    """log(e^x + e^y)."""
    return max(x, y) + math.log1p(math.exp(-abs(x - y)))


@inner
def draw_totals(rng, layout, state, g):
    """Σ x of each task given its shares and the population: Gamma(Σ α, 1)."""
    if layout.link != NORMALISED:
        return
    tasks, size = state.tasks, layout.num_rewards
    parameters = np.empty((len(layout.families), 2))
    set_parameters(layout, state.hyper, g, parameters)
    concentration = parameters[:size, 0].sum()
    for m in range(g * layout.group_size, (g + 1) * layout.group_size):
        shift = log_gamma_draw(rng, concentration) - _log_total(tasks, m, size)
        for k in range(size):
            tasks[m, k] += shift


@inner
def _hyper_density(value, layout, hyper, g, summaries, before, parameters, j, reach):
    """log density, up to a constant, of population g's j-th hyperparameter at `value`, given all others and the tasks.

    Leaves its value in `parameters` [D, 2]; summaries were made under `before`.
    """
    families, source, family = layout.families, layout.source, layout.hyper_families[j]
    constants = layout.hyper_constants
    shares = layout.num_rewards if layout.link == NORMALISED else 0
    x = natural(family, value)
    if math.isinf(x) or (x <= 0.0 and family != NORMAL):
        return -np.inf
    total = log_kernel(
        family, value - location(family, constants[j, 0], constants[j, 1]), constants[j, 0], constants[j, 1]
    )
    count = layout.group_size
    is_concentration = False
    put(layout, hyper, g, parameters, j, x, reach[j, 0], reach[j, 1])
    is_smooth = j == layout.smooth.scale_index or j == layout.smooth.range_index  # of all coordinates it reaches
    for d in range(reach[j, 0], reach[j, 1]):
        where, spread = summaries[d, 0], summaries[d, 1]
        if d < shares:
            if source[d, 0] == j:  # one factor of a Dirichlet density; what joins the factors follows below
                is_concentration = True
                total += x * where - count * math.lgamma(x)
        elif is_smooth or source[d, 0] == j or source[d, 1] == j:
            a, b = parameters[d, 0], parameters[d, 1]
            total += count * log_normaliser(families[d], a, b)
            total += group_kernel(families[d], count, where, spread, before[d, 0], a, b)
    if is_concentration:
        concentration = 0.0
        for d in range(shares):
            concentration += parameters[d, 0]
        total += count * math.lgamma(concentration)
    return total if abs(total) < np.inf else -np.inf


@inner
def _reach(layout):
    """[H, 2] from which coordinate to before which each hyperparameter is a parameter."""
    source = layout.source
    reach = np.zeros((len(layout.hyper_families), 2), dtype=np.int64)
    for d in range(len(source)):
        for column in range(2):
            j = source[d, column]
            if j >= 0:
                if reach[j, 1] == 0:
                    reach[j, 0] = d
                reach[j, 1] = d + 1
    for j in (layout.smooth.scale_index, layout.smooth.range_index):
        if j >= 0:
            reach[j, 1] = len(layout.smooth.eigenvalues)
    return reach


@inner
def _summaries(layout, tasks, task_z, parameters, g):
    """[D, 2] summaries of the tasks in population g, given its parameters; of shares, sums of logarithms."""
    families = layout.families
    size = len(families)
    begin, end = g * layout.group_size, (g + 1) * layout.group_size
    shares = layout.num_rewards if layout.link == NORMALISED else 0
    summaries = np.zeros((size, 2))
    if shares > 0:
        for m in range(begin, end):
            shift = _log_total(tasks, m, shares)
            for d in range(shares):
                summaries[d, 0] += tasks[m, d] - shift
    for d in range(shares, size):
        summaries[d, 0], summaries[d, 1] = summary(families[d], tasks, task_z, begin, end, d, parameters[d, 1])
    return summaries


@inner
def put(layout, hyper, g, parameters, j, x, begin, end):
    """Population g's j-th hyperparameter set to x wherever it is a parameter, from coordinate `begin` to before `end`.

    Of h [G, H] only the others are read, where parameters are functions of several.
    """
    source, smooth = layout.source, layout.smooth
    if j == smooth.scale_index or j == smooth.range_index:
        scale = x if j == smooth.scale_index else _value(layout, hyper, g, smooth.scale_index, smooth.known_scale)
        distance = x if j == smooth.range_index else _value(layout, hyper, g, smooth.range_index, smooth.known_range)
        set_scales(smooth.eigenvalues, smooth.num_states, scale, distance, parameters)
    for d in range(begin, end):
        for column in range(2):
            if source[d, column] == j:
                parameters[d, column] = x


@inner
def set_parameters(layout, hyper, g, parameters):
    """parameters [D, 2] of the coordinates of population g's tasks."""
    source, constants, hyper_families = layout.source, layout.constants, layout.hyper_families
    for d in range(len(source)):
        for column in range(2):
            j = source[d, column]
            parameters[d, column] = constants[d, column] if j < 0 else natural(hyper_families[j], hyper[g, j])
    smooth = layout.smooth
    if len(smooth.eigenvalues) > 0:
        scale = _value(layout, hyper, g, smooth.scale_index, smooth.known_scale)
        distance = _value(layout, hyper, g, smooth.range_index, smooth.known_range)
        set_scales(smooth.eigenvalues, smooth.num_states, scale, distance, parameters)


@inner
def _value(layout, hyper, g, j, known):
    """Population g's j-th hyperparameter itself; what is known where there is none."""
    return known if j < 0 else natural(layout.hyper_families[j], hyper[g, j])


@inner
def _log_total(tasks, m, size):
    """log Σ exp over the first coordinates of task m; 0 if there are none."""
    if size == 0:
        return 0.0
    largest = tasks[m, 0]
    for k in range(1, size):
        largest = max(largest, tasks[m, k])
    total = 0.0
    for k in range(size):
        total += math.exp(tasks[m, k] - largest)
    return largest + math.log(total)


@inner
def next_on_slice(rng, width, stage, inside, here, there, left, right):
    """Slice sampling (Neal 2003, figures 3 and 5) as a state machine, given whether `there` lies in the slice.

    Step left while inside, then right while inside, then draw between the two and shrink towards `here` until inside.
    Returns the next stage, the next point to evaluate, and the two ends.
    """
    if stage == STEP_LEFT:
        if inside:
            left = there - width
            return STEP_LEFT, left, left, right
        return STEP_RIGHT, right, left, right
    if stage == STEP_RIGHT:
        if inside:
            right = there + width
            return STEP_RIGHT, right, left, right
        return SHRINK, left + (right - left) * rng.random(), left, right
    if inside:
        return DONE, there, left, right
    if there < here:
        left = there
    else:
        right = there
    return SHRINK, left + (right - left) * rng.random(), left, right
