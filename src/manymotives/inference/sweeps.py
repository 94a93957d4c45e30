"""The compiled moves of MRP's Markov chains: tasks given their population, the population given its tasks.

A sweep moves every task twice, many tasks at a time because they are independent given their population, and then the
population:

    walk        a random step in a task's coordinates; accept with the ratio of likelihood × prior
    refresh     some coordinates drawn anew from the prior given the population; accept with the ratio of likelihoods
    population  every hyperparameter, given the tasks' coordinates

`metropolis_draws` moves hyperparameters by random steps. `gibbs_draws` draws them exactly, from a conjugate density
where there is one and by slice sampling on the line otherwise, and does the same for lapse rates and, where planning
does not hang on them, inverse temperatures. Dirichlet rewards are x / Σ x with x ~ Gamma(α, 1): the population is
moved given the shares alone (Σ x integrated out), and then Σ x is drawn given the population.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from manymotives.families import (
    BETA,
    GAMMA,
    NORMAL,
    draw,
    log_density,
    log_gamma_draw,
    log_kernel,
    log_normaliser,
    natural,
    statistics,
)
from manymotives.models.likelihood import log_likelihood
from manymotives.models.target import COLDEST
from manymotives.planning.lanes import WIDTH
from manymotives.planning.warm import empty_plans, plan_again
from manymotives.rewards import NORMALISED

LARGEST_BATCH = 16 * WIDTH  # plans at a time: more would leave the caches
HYPER_ROUNDS = 2  # random steps of each hyperparameter in a sweep: next to planning they cost little
SLICE_WIDTH = 2.0
SLICE_STEPS = 50  # of stepping out; shrinking has its own cap

_compiled = njit(nogil=True, cache=True, error_model="numpy")


class State(NamedTuple):
    """Where a chain is."""

    tasks: np.ndarray  # [M, D] coordinates u
    hyper: np.ndarray  # [G, H] coordinates h
    q: np.ndarray  # [M, S, A]
    value: np.ndarray  # [M, S]
    actions: np.ndarray  # [M, S]
    log_likelihood: np.ndarray  # [M]


class Proposal(NamedTuple):
    """How far random steps go; fixed once warm-up is over."""

    factor: np.ndarray  # [M, d, d] lower triangles: steps are scale · factor · normal, in the first d coordinates
    scale: np.ndarray  # [M]
    hyper_scale: np.ndarray  # [G, H]


class Data(NamedTuple):
    counts: np.ndarray  # [M, S, A]
    temperature: np.ndarray  # [M] where it is known
    lapse: np.ndarray  # [M]


@_compiled
def metropolis_draws(rng, world, anatomy, data, state, proposal, thin, draws, accepted, hyper_accepted):
    """Fill draws (tasks [N, M, D], hyper [N, G, H], log-likelihoods [N, M]) with every thin-th sweep.

    What was accepted is added to accepted [M, 2] (walks, refreshments) and hyper_accepted [G, H].
    """
    plans, trial = _workspace(world, anatomy, len(state.tasks))
    for n in range(len(draws[0])):
        for _ in range(thin):
            _move_tasks(rng, world, anatomy, data, state, proposal, plans, trial, accepted)
            for g in range(len(state.hyper)):
                sums = _sums(anatomy, state, g)
                for _ in range(HYPER_ROUNDS):
                    for j in range(len(anatomy.hyper_families)):
                        here = state.hyper[g, j]
                        there = here + proposal.hyper_scale[g, j] * rng.standard_normal()
                        gain = _hyper_density(there, anatomy, state, sums, g, j) - _hyper_density(
                            here, anatomy, state, sums, g, j
                        )
                        if math.log1p(-rng.random()) < gain:
                            state.hyper[g, j] = there
                            hyper_accepted[g, j] += 1.0 / HYPER_ROUNDS
                _refresh_totals(rng, anatomy, state, g)
        _record(state, draws, n)


@_compiled
def gibbs_draws(rng, world, anatomy, data, state, proposal, thin, draws, accepted, hyper_accepted):
    """The same, with exact draws of all that random steps do not move."""
    plans, trial = _workspace(world, anatomy, len(state.tasks))
    exact_from = proposal.factor.shape[1]
    for n in range(len(draws[0])):
        for _ in range(thin):
            _move_tasks(rng, world, anatomy, data, state, proposal, plans, trial, accepted)
            for m in range(len(state.tasks)):
                for d in range(exact_from, len(anatomy.families)):
                    _slice_choice(rng, anatomy, data, state, m, d)
            for g in range(len(state.hyper)):
                sums = _sums(anatomy, state, g)
                for j in range(len(anatomy.hyper_families)):
                    _exact_hyper(rng, anatomy, state, sums, g, j)
                _refresh_totals(rng, anatomy, state, g)
        _record(state, draws, n)


@_compiled
def task_draws(rng, world, anatomy, data, state, proposal, thin, draws, accepted, hyper_accepted):
    """The same for a population that stays as it is."""
    plans, trial = _workspace(world, anatomy, len(state.tasks))
    for n in range(len(draws[0])):
        for _ in range(thin):
            _move_tasks(rng, world, anatomy, data, state, proposal, plans, trial, accepted)
            for g in range(len(state.hyper)):
                _refresh_totals(rng, anatomy, state, g)
        _record(state, draws, n)


# ---- tasks -------------------------------------------------------------------------------------------------


@_compiled
def _move_tasks(rng, world, anatomy, data, state, proposal, plans, trial, accepted):
    """A walk of every task, then a refreshment of every task, a batch at a time.

    The 2 M proposals stand in one line, cut into batches in which no task comes twice, so that few lanes stay idle.
    """
    num_tasks, size = state.tasks.shape
    walk_size = proposal.factor.shape[1]
    batch = min(len(trial), num_tasks)
    parameters = np.empty((size, 2))
    gain = np.empty(len(trial))
    group = -1
    for begin in range(0, 2 * num_tasks, batch):
        count = min(batch, 2 * num_tasks - begin)
        for n in range(count):
            m = (begin + n) % num_tasks
            if m // anatomy.group_size != group:
                group = m // anatomy.group_size
                _set_parameters(anatomy, state, group, parameters)
            if begin + n < num_tasks:
                gain[n] = _walk(rng, anatomy, state, proposal, parameters, trial, n, m, walk_size)
            else:
                gain[n] = _refresh(rng, anatomy, state, parameters, trial, n, m, walk_size)
            _set_rewards(anatomy, data, state, plans, trial, n, m)
        padded = -(-count // WIDTH) * WIDTH
        for n in range(count, padded):
            plans.rewards[n] = plans.rewards[0]
            plans.temperature[n] = plans.temperature[0]
            plans.actions[n] = plans.actions[0]
        plan_again(world, plans, anatomy.is_soft, padded)
        for n in range(count):
            m = (begin + n) % num_tasks
            found = -np.inf
            if plans.residual[n] < np.inf:
                lapse = data.lapse[m] if anatomy.lapse < 0 else natural(BETA, trial[n, anatomy.lapse])
                found = log_likelihood(plans.q, n, data.counts, m, plans.temperature[n], lapse)
            if math.log1p(-rng.random()) < found - state.log_likelihood[m] + gain[n]:
                accepted[m, (begin + n) // num_tasks] += 1.0
                state.log_likelihood[m] = found
                for d in range(walk_size):
                    state.tasks[m, d] = trial[n, d]
                for s in range(world.num_states):
                    state.value[m, s] = plans.value[n, s]
                    state.actions[m, s] = plans.actions[n, s]
                    for a in range(world.num_actions):
                        state.q[m, s, a] = plans.q[n, s, a]


@_compiled
def _walk(rng, anatomy, state, proposal, parameters, trial, n, m, walk_size):
    """A random step of task m as the n-th trial; the gain in log prior density."""
    size = len(anatomy.families)
    for d in range(size):
        trial[n, d] = state.tasks[m, d]
    for e in range(walk_size):
        step = proposal.scale[m] * rng.standard_normal()
        for d in range(e, walk_size):
            trial[n, d] += proposal.factor[m, d, e] * step
    gain = 0.0
    for d in range(walk_size):
        family = anatomy.families[d]
        first, second = statistics(family, trial[n, d])
        old_first, old_second = statistics(family, state.tasks[m, d])
        gain += log_kernel(family, first - old_first, second - old_second, parameters[d, 0], parameters[d, 1])
    return gain


@_compiled
def _refresh(rng, anatomy, state, parameters, trial, n, m, walk_size):
    """Some coordinates anew from their prior: one of them, or each with some probability. The prior cancels: gain 0."""
    for d in range(len(anatomy.families)):
        trial[n, d] = state.tasks[m, d]
    if rng.random() < 0.5:
        d = min(int(rng.random() * walk_size), walk_size - 1)
        trial[n, d] = draw(rng, anatomy.families[d], parameters[d, 0], parameters[d, 1])
    else:
        share = rng.random()
        for d in range(walk_size):
            if rng.random() < share:
                trial[n, d] = draw(rng, anatomy.families[d], parameters[d, 0], parameters[d, 1])
    return 0.0


@_compiled
def _set_rewards(anatomy, data, state, plans, trial, n, m):
    """The n-th trial's rewards and temperature, and task m's last plan to begin from, put where planning wants them."""
    size = anatomy.num_rewards
    _, num_states, per_state = plans.rewards.shape
    scale, largest = 1.0, 0.0
    if anatomy.link == NORMALISED:
        largest = trial[n, 0]
        for k in range(1, size):
            largest = max(largest, trial[n, k])
        total = 0.0
        for k in range(size):
            total += math.exp(trial[n, k] - largest)
        scale = 1.0 / total
    if anatomy.features.size > 0:
        for i in range(num_states * per_state):
            total = 0.0
            for k in range(size):
                total += anatomy.features[i, k] * trial[n, k]
            plans.rewards[n, i // per_state, i % per_state] = total
    else:
        for k in range(size):
            x = natural(anatomy.families[k], trial[n, k] - largest) * scale
            place = anatomy.places[k]
            plans.rewards[n, place // per_state, place % per_state] = x
    plans.temperature[n] = (
        data.temperature[m] if anatomy.temperature < 0 else math.exp(max(trial[n, anatomy.temperature], COLDEST))
    )
    for s in range(num_states):
        plans.actions[n, s] = state.actions[m, s]
        plans.value[n, s] = state.value[m, s]


@_compiled
def _slice_choice(rng, anatomy, data, state, m, d):
    """Inverse temperature or lapse rate of task m, exactly, given its action values: slice sampling."""
    group = m // anatomy.group_size
    a, b = _parameter(anatomy, state, group, d, 0), _parameter(anatomy, state, group, d, 1)
    here = state.tasks[m, d]
    level = _choice_density(here, anatomy, data, state, m, d, a, b) + math.log1p(-rng.random())
    left = here - SLICE_WIDTH * rng.random()
    right = left + SLICE_WIDTH
    left_steps = int(SLICE_STEPS * rng.random())
    right_steps = SLICE_STEPS - 1 - left_steps
    while left_steps > 0 and _choice_density(left, anatomy, data, state, m, d, a, b) > level:
        left -= SLICE_WIDTH
        left_steps -= 1
    while right_steps > 0 and _choice_density(right, anatomy, data, state, m, d, a, b) > level:
        right += SLICE_WIDTH
        right_steps -= 1
    there = here
    for _ in range(200):
        there = left + (right - left) * rng.random()
        if _choice_density(there, anatomy, data, state, m, d, a, b) > level:
            break
        if there < here:
            left = there
        else:
            right = there
        there = here
    state.tasks[m, d] = there
    state.log_likelihood[m] = _choice_likelihood(there, anatomy, data, state, m, d)


@_compiled
def _choice_density(value, anatomy, data, state, m, d, a, b):
    found = _choice_likelihood(value, anatomy, data, state, m, d) + log_density(anatomy.families[d], value, a, b)
    return -np.inf if math.isnan(found) else found


@_compiled
def _choice_likelihood(value, anatomy, data, state, m, d):
    """log p(d_m) with coordinate d, temperature or lapse rate, at `value`, and action values as they are."""
    temperature, lapse = data.temperature[m], data.lapse[m]
    if anatomy.temperature >= 0:
        u = value if d == anatomy.temperature else state.tasks[m, anatomy.temperature]
        temperature = math.exp(max(u, COLDEST))
    if anatomy.lapse >= 0:
        lapse = natural(BETA, value if d == anatomy.lapse else state.tasks[m, anatomy.lapse])
    return log_likelihood(state.q, m, data.counts, m, temperature, lapse)


# ---- populations -------------------------------------------------------------------------------------------


@_compiled
def _sums(anatomy, state, g):
    """[D, 2] sums of the statistics of the tasks in population g; of log shares where rewards are shares."""
    size = len(anatomy.families)
    sums = np.zeros((size, 2))
    for m in range(g * anatomy.group_size, (g + 1) * anatomy.group_size):
        shift = 0.0
        if anatomy.link == NORMALISED:
            shift = _log_total(anatomy, state, m)
        for d in range(size):
            if anatomy.link == NORMALISED and d < anatomy.num_rewards:
                sums[d, 0] += state.tasks[m, d] - shift
            else:
                first, second = statistics(anatomy.families[d], state.tasks[m, d])
                sums[d, 0] += first
                sums[d, 1] += second
    return sums


@_compiled
def _hyper_density(value, anatomy, state, sums, g, j):
    """log density of population g's j-th hyperparameter at coordinate `value`, given tasks and the others."""
    family = anatomy.hyper_families[j]
    x = natural(family, value)
    if math.isinf(x) or (x <= 0.0 and family != NORMAL):
        return -np.inf
    total = log_density(family, value, anatomy.hyper_constants[j, 0], anatomy.hyper_constants[j, 1])
    count = anatomy.group_size
    is_concentration = False
    for d in range(len(anatomy.families)):
        if anatomy.source[d, 0] != j and anatomy.source[d, 1] != j:
            continue
        a = x if anatomy.source[d, 0] == j else _parameter(anatomy, state, g, d, 0)
        if anatomy.link == NORMALISED and d < anatomy.num_rewards:
            is_concentration = True  # one factor of a Dirichlet density; what joins the factors follows below
            total += a * sums[d, 0] - count * math.lgamma(a)
        else:
            b = x if anatomy.source[d, 1] == j else _parameter(anatomy, state, g, d, 1)
            total += count * log_normaliser(anatomy.families[d], a, b)
            total += log_kernel(anatomy.families[d], sums[d, 0], sums[d, 1], a, b)
    if is_concentration:
        concentration = 0.0
        for k in range(anatomy.num_rewards):
            concentration += x if anatomy.source[k, 0] == j else _parameter(anatomy, state, g, k, 0)
        total += count * math.lgamma(concentration)
    return -np.inf if math.isnan(total) else total


@_compiled
def _exact_hyper(rng, anatomy, state, sums, g, j):
    """Population g's j-th hyperparameter given all else: conjugate where it is, by slice sampling otherwise."""
    family = anatomy.hyper_families[j]
    first, second = anatomy.hyper_constants[j, 0], anatomy.hyper_constants[j, 1]
    count = anatomy.group_size
    for d in range(len(anatomy.families)):
        is_share = anatomy.link == NORMALISED and d < anatomy.num_rewards
        if anatomy.source[d, 1] == j and anatomy.families[d] == GAMMA and family == GAMMA and not is_share:
            # the rate of a Gamma has a Gamma
            shape = first + count * _parameter(anatomy, state, g, d, 0)
            state.hyper[g, j] = log_gamma_draw(rng, shape) - math.log(second + sums[d, 1])
            return
        if anatomy.source[d, 0] == j and anatomy.families[d] == NORMAL and family == NORMAL:
            # the mean of a Normal has a Normal
            scale = _parameter(anatomy, state, g, d, 1)
            precision = 1.0 / second**2 + count / scale**2
            mean = (first / second**2 + sums[d, 0] / scale**2) / precision
            state.hyper[g, j] = mean + rng.standard_normal() / math.sqrt(precision)
            return
    here = state.hyper[g, j]
    level = _hyper_density(here, anatomy, state, sums, g, j) + math.log1p(-rng.random())
    left = here - SLICE_WIDTH * rng.random()
    right = left + SLICE_WIDTH
    left_steps = int(SLICE_STEPS * rng.random())
    right_steps = SLICE_STEPS - 1 - left_steps
    while left_steps > 0 and _hyper_density(left, anatomy, state, sums, g, j) > level:
        left -= SLICE_WIDTH
        left_steps -= 1
    while right_steps > 0 and _hyper_density(right, anatomy, state, sums, g, j) > level:
        right += SLICE_WIDTH
        right_steps -= 1
    for _ in range(200):
        there = left + (right - left) * rng.random()
        if _hyper_density(there, anatomy, state, sums, g, j) > level:
            state.hyper[g, j] = there
            return
        if there < here:
            left = there
        else:
            right = there


@_compiled
def _refresh_totals(rng, anatomy, state, g):
    """Σ x of each task given its shares and the population: Gamma(Σ α, 1)."""
    if anatomy.link != NORMALISED:
        return
    concentration = 0.0
    for k in range(anatomy.num_rewards):
        concentration += _parameter(anatomy, state, g, k, 0)
    for m in range(g * anatomy.group_size, (g + 1) * anatomy.group_size):
        shift = log_gamma_draw(rng, concentration) - _log_total(anatomy, state, m)
        for k in range(anatomy.num_rewards):
            state.tasks[m, k] += shift


@_compiled
def _log_total(anatomy, state, m):
    """log Σ x of task m."""
    largest = state.tasks[m, 0]
    for k in range(1, anatomy.num_rewards):
        largest = max(largest, state.tasks[m, k])
    total = 0.0
    for k in range(anatomy.num_rewards):
        total += math.exp(state.tasks[m, k] - largest)
    return largest + math.log(total)


@_compiled
def _set_parameters(anatomy, state, g, parameters):
    """parameters [D, 2] of the coordinates of population g's tasks."""
    for d in range(len(anatomy.families)):
        for column in range(2):
            parameters[d, column] = _parameter(anatomy, state, g, d, column)


@_compiled
def _parameter(anatomy, state, g, d, column):
    j = anatomy.source[d, column]
    if j < 0:
        return anatomy.constants[d, column]
    return natural(anatomy.hyper_families[j], state.hyper[g, j])


# ---- room to work in ---------------------------------------------------------------------------------------


@_compiled
def _workspace(world, anatomy, num_tasks):
    """Plans, and coordinates [N, D], of the proposals made at a time."""
    whole = max(1, min(num_tasks // WIDTH, LARGEST_BATCH // WIDTH))
    per_state = world.num_actions if anatomy.on_pairs else 1
    return empty_plans(world, whole * WIDTH, per_state), np.empty((whole * WIDTH, len(anatomy.families)))


@_compiled
def _record(state, draws, n):
    """The state as the n-th draw."""
    for m in range(state.tasks.shape[0]):
        draws[2][n, m] = state.log_likelihood[m]
        for d in range(state.tasks.shape[1]):
            draws[0][n, m, d] = state.tasks[m, d]
    for g in range(state.hyper.shape[0]):
        for j in range(state.hyper.shape[1]):
            draws[1][n, g, j] = state.hyper[g, j]
