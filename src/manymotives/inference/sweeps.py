"""The compiled moves of MRP's Markov chains: tasks given their population, the population given its tasks.

A sweep moves every task twice, many tasks at a time because they are independent given their population, and then the
population, first together with its tasks and then without them:

    walk        a random step in a task's coordinates; accept with the ratio of likelihood × prior
    refresh     some coordinates drawn anew from the prior given the population; accept with the ratio of likelihoods
    carry       a hyperparameter of each population, which carries its tasks along: their coordinates keep their place
                in units of the population's spread; accept with the ratio of everything
    population  every hyperparameter, given the tasks' coordinates

Without `carry` the chains crawl: few choices leave a task's reward near its population, many tasks leave the population
near its tasks, and neither can move without the other.

`metropolis_draws` moves hyperparameters by random steps. `gibbs_draws` draws them exactly, from a conjugate density
where there is one and by slice sampling on the line otherwise, and does the same for lapse rates and, where planning
does not hang on them, inverse temperatures. Dirichlet rewards are x / Σ x with x ~ Gamma(α, 1): the population is
moved given the shares alone (Σ x integrated out), and then Σ x is drawn given the population.

Arrays are taken out of their tuples before any loop: each `state.tasks[m, d]` inside one would count two references up
and down, atomically, which costs more than the arithmetic.
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
    log_gamma_draw,
    log_kernel,
    log_normaliser,
    middle_and_spread,
    natural,
    statistics,
)
from manymotives.models.likelihood import log_likelihood
from manymotives.models.target import COLDEST
from manymotives.planning.lanes import WIDTH
from manymotives.planning.warm import empty_plans, plan_again
from manymotives.rewards import NORMALISED

LARGEST_BATCH = 16 * WIDTH  # plans at a time: more would leave the caches
SLICE_WIDTH = 2.0  # of hyperparameters
SLICE_STEPS = 500  # places looked at; a dozen are usual
STEP_LEFT, STEP_RIGHT, SHRINK, DONE = range(4)  # stages of slice sampling

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
    carry_scale: np.ndarray  # [G, H]
    slice_width: np.ndarray  # [M, D] first guess at how wide a slice is: any is right, a good one is quick


class Tally(NamedTuple):
    """What was tried and what accepted."""

    walks: np.ndarray  # [M] accepted, one tried a sweep
    refreshments: np.ndarray  # [M]
    hyper: np.ndarray  # [G, H]
    carries: np.ndarray  # [G, H]
    carries_tried: np.ndarray  # [G, H]


class Data(NamedTuple):
    counts: np.ndarray  # [M, S, A]
    temperature: np.ndarray  # [M] where it is known
    lapse: np.ndarray  # [M]


@_compiled
def metropolis_draws(rng, world, anatomy, data, state, proposal, thin, draws, tally):
    """Fill draws (tasks [N, M, D], hyper [N, G, H], log-likelihoods [N, M]) with every thin-th sweep."""
    room = _room(world, anatomy, len(state.tasks))
    for n in range(len(draws[0])):
        for _ in range(thin):
            _move_tasks(rng, world, anatomy, data, state, proposal, room, tally)
            _carry(rng, world, anatomy, data, state, proposal, room, tally)
            for g in range(len(state.hyper)):
                _move_population(rng, anatomy, state, proposal, g, tally)
                _refresh_totals(rng, anatomy, state, g)
        _record(state, draws, n)


@_compiled
def gibbs_draws(rng, world, anatomy, data, state, proposal, thin, draws, tally):
    """The same, with exact draws of all that random steps do not move."""
    room = _room(world, anatomy, len(state.tasks))
    for n in range(len(draws[0])):
        for _ in range(thin):
            _move_tasks(rng, world, anatomy, data, state, proposal, room, tally)
            _slice_choices(rng, anatomy, data, state, proposal)
            _carry(rng, world, anatomy, data, state, proposal, room, tally)
            for g in range(len(state.hyper)):
                _draw_population(rng, anatomy, state, g)
                _refresh_totals(rng, anatomy, state, g)
        _record(state, draws, n)


@_compiled
def task_draws(rng, world, anatomy, data, state, proposal, thin, draws, tally):
    """The same for a population that stays as it is."""
    room = _room(world, anatomy, len(state.tasks))
    for n in range(len(draws[0])):
        for _ in range(thin):
            _move_tasks(rng, world, anatomy, data, state, proposal, room, tally)
            for g in range(len(state.hyper)):
                _refresh_totals(rng, anatomy, state, g)
        _record(state, draws, n)


# ---- tasks -------------------------------------------------------------------------------------------------


@_compiled
def _move_tasks(rng, world, anatomy, data, state, proposal, room, tally):
    """A walk of every task, then a refreshment of every task, a batch at a time.

    The 2 M proposals stand in one line, cut into batches in which no task comes twice, so that few lanes stay idle.
    """
    plans, trial, found = room
    families, factor, scale, hyper = anatomy.families, proposal.factor, proposal.scale, state.hyper
    tasks, value, actions, q, log_likelihoods = state.tasks, state.value, state.actions, state.q, state.log_likelihood
    new_value, new_actions, new_q = plans.value, plans.actions, plans.q
    walks, refreshments = tally.walks, tally.refreshments
    num_tasks, size = tasks.shape
    group_size, walk_size = anatomy.group_size, factor.shape[1]
    batch = min(num_tasks, max(WIDTH, min(num_tasks // WIDTH * WIDTH, LARGEST_BATCH)))
    parameters = np.empty((size, 2))
    gain = np.zeros(batch)
    group = -1
    for begin in range(0, 2 * num_tasks, batch):
        count = min(batch, 2 * num_tasks - begin)
        first = begin % num_tasks
        _begin_trials(state, plans, trial, first, count)
        for n in range(count):
            m = (begin + n) % num_tasks
            if m // group_size != group:
                group = m // group_size
                _set_parameters(anatomy, hyper, group, parameters)
            gain[n] = 0.0
            if begin + n < num_tasks:
                gain[n] = _walk(rng, families, factor, scale, parameters, trial, n, m)
            else:  # drawn from the prior, which cancels
                _refresh(rng, families, parameters, trial, n, walk_size)
        _judge_trials(world, anatomy, data, plans, trial, first, count, found)
        for n in range(count):
            m = (begin + n) % num_tasks
            if math.log1p(-rng.random()) < found[n] - log_likelihoods[m] + gain[n]:
                log_likelihoods[m] = found[n]
                _keep(tasks, value, actions, q, trial, new_value, new_actions, new_q, n, m)
                if begin + n < num_tasks:
                    walks[m] += 1.0
                else:
                    refreshments[m] += 1.0


@_compiled
def _begin_trials(state, plans, trial, first, count):
    """Tasks first, first + 1, …, round and round, as trials, with their plans to begin from."""
    tasks, values, actions = state.tasks, state.value, state.actions
    new_values, new_actions = plans.value, plans.actions
    num_tasks, size = tasks.shape
    for n in range(count):
        m = (first + n) % num_tasks
        for d in range(size):
            trial[n, d] = tasks[m, d]
        for s in range(values.shape[1]):
            new_values[n, s] = values[m, s]
            new_actions[n, s] = actions[m, s]


@_compiled
def _judge_trials(world, anatomy, data, plans, trial, first, count, found):
    """Log-likelihoods of trials of tasks first, first + 1, …; −inf where planning failed."""
    counts, known_temperature, known_lapse = data.counts, data.temperature, data.lapse
    temperature_place, lapse_place = anatomy.temperature, anatomy.lapse
    rewards, temperature, actions, q, residual = (
        plans.rewards,
        plans.temperature,
        plans.actions,
        plans.q,
        plans.residual,
    )
    num_tasks = len(counts)
    _set_rewards(anatomy, trial, rewards, count)
    for n in range(count):
        temperature[n] = known_temperature[(first + n) % num_tasks]
        if temperature_place >= 0:
            temperature[n] = math.exp(max(trial[n, temperature_place], COLDEST))
    padded = -(-count // WIDTH) * WIDTH
    for n in range(count, padded):  # idle lanes repeat the first
        temperature[n] = temperature[0]
        for s in range(actions.shape[1]):
            actions[n, s] = actions[0, s]
            for a in range(rewards.shape[2]):
                rewards[n, s, a] = rewards[0, s, a]
    plan_again(world, plans, anatomy.is_soft, padded)
    for n in range(count):
        m = (first + n) % num_tasks
        found[n] = -np.inf
        if residual[n] < np.inf:
            lapse = known_lapse[m] if lapse_place < 0 else natural(BETA, trial[n, lapse_place])
            value = log_likelihood(q, n, counts, m, temperature[n], lapse)
            if not math.isnan(value):
                found[n] = value


@_compiled
def _keep(tasks, value, actions, q, trial, new_value, new_actions, new_q, n, m):
    """The n-th trial becomes the state of task m."""
    _, num_states, num_actions = q.shape
    for d in range(tasks.shape[1]):
        tasks[m, d] = trial[n, d]
    for s in range(num_states):
        value[m, s] = new_value[n, s]
        actions[m, s] = new_actions[n, s]
        for a in range(num_actions):
            q[m, s, a] = new_q[n, s, a]


@_compiled
def _walk(rng, families, factor, scale, parameters, trial, n, m):
    """Add a random step of task m to the n-th trial; the gain in log prior density."""
    size = factor.shape[1]
    gain = 0.0
    for d in range(size):
        first, second = statistics(families[d], trial[n, d])
        gain -= log_kernel(families[d], first, second, parameters[d, 0], parameters[d, 1])
    for e in range(size):
        step = scale[m] * rng.standard_normal()
        for d in range(e, size):
            trial[n, d] += factor[m, d, e] * step
    for d in range(size):
        first, second = statistics(families[d], trial[n, d])
        gain += log_kernel(families[d], first, second, parameters[d, 0], parameters[d, 1])
    return gain


@_compiled
def _refresh(rng, families, parameters, trial, n, size):
    """Some coordinates of the n-th trial anew from their prior: one of them, or each with some probability."""
    if rng.random() < 0.5:
        d = min(int(rng.random() * size), size - 1)
        trial[n, d] = draw(rng, families[d], parameters[d, 0], parameters[d, 1])
    else:
        share = rng.random()
        for d in range(size):
            if rng.random() < share:
                trial[n, d] = draw(rng, families[d], parameters[d, 0], parameters[d, 1])


@_compiled
def _set_rewards(anatomy, trial, rewards, count):
    """Rewards [N, S, 1 or A] of the first trials."""
    families, features, places, link = anatomy.families, anatomy.features, anatomy.places, anatomy.link
    size = anatomy.num_rewards
    _, num_states, per_state = rewards.shape
    x = np.empty(size)
    for n in range(count):
        if link == NORMALISED:
            largest = trial[n, 0]
            for k in range(1, size):
                largest = max(largest, trial[n, k])
            total = 0.0
            for k in range(size):
                x[k] = math.exp(trial[n, k] - largest)
                total += x[k]
            for k in range(size):
                x[k] /= total
        else:
            for k in range(size):
                x[k] = natural(families[k], trial[n, k])
        if features.size > 0:
            for i in range(num_states * per_state):
                total = 0.0
                for k in range(size):
                    total += features[i, k] * x[k]
                rewards[n, i // per_state, i % per_state] = total
        elif per_state == 1:
            for k in range(size):
                rewards[n, places[k], 0] = x[k]
        else:
            for k in range(size):
                rewards[n, places[k] // per_state, places[k] % per_state] = x[k]


@_compiled
def _slice_choices(rng, anatomy, data, state, proposal):
    """Inverse temperatures and lapse rates of all tasks, exactly, given their action values: slice sampling."""
    tasks, hyper, q, log_likelihoods = state.tasks, state.hyper, state.q, state.log_likelihood
    families, counts, widths, exact_from = anatomy.families, data.counts, proposal.slice_width, proposal.factor.shape[1]
    parameters = np.empty((len(families), 2))
    group = -1
    for m in range(len(tasks)):
        if m // anatomy.group_size != group:
            group = m // anatomy.group_size
            _set_parameters(anatomy, hyper, group, parameters)
        temperature, lapse = data.temperature[m], data.lapse[m]
        if anatomy.temperature >= 0:
            temperature = math.exp(max(tasks[m, anatomy.temperature], COLDEST))
        if anatomy.lapse >= 0:
            lapse = natural(BETA, tasks[m, anatomy.lapse])
        for d in range(exact_from, len(families)):
            is_lapse = d == anatomy.lapse
            family, a, b = families[d], parameters[d, 0], parameters[d, 1]
            here = tasks[m, d]
            first, second = statistics(family, here)
            likelihood = log_likelihoods[m]
            level = likelihood + log_kernel(family, first, second, a, b) + math.log1p(-rng.random())
            left = here - widths[m, d] * rng.random()
            right = left + widths[m, d]
            stage, there = STEP_LEFT, left
            steps = SLICE_STEPS
            while steps > 0:
                steps -= 1
                if is_lapse:
                    likelihood = log_likelihood(q, m, counts, m, temperature, natural(BETA, there))
                else:
                    likelihood = log_likelihood(q, m, counts, m, math.exp(max(there, COLDEST)), lapse)
                first, second = statistics(family, there)
                inside = likelihood + log_kernel(family, first, second, a, b) > level
                stage, there, left, right = _next_on_slice(rng, widths[m, d], stage, inside, here, there, left, right)
                if stage == DONE:
                    tasks[m, d] = there
                    log_likelihoods[m] = likelihood
                    if is_lapse:
                        lapse = natural(BETA, there)
                    else:
                        temperature = math.exp(max(there, COLDEST))
                    break


@_compiled
def _next_on_slice(rng, width, stage, inside, here, there, left, right):
    """Slice sampling (Neal 2003, figures 3 and 5) as a machine that is told whether `there` lies in the slice.

    Step left while inside, then right while inside, then draw between the two and shrink towards `here` until inside.
    The answer: the next stage, the next place to look at, and the two ends.
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


# ---- populations -------------------------------------------------------------------------------------------


@_compiled
def _carry(rng, world, anatomy, data, state, proposal, room, tally):
    """A random step of one hyperparameter in each population, its tasks' coordinates carried along.

    u = middle + spread · z keeps z. The map has the Jacobian spread' / spread for each task's coordinate.
    """
    hyper, families, source, scale = state.hyper, anatomy.families, anatomy.source, proposal.carry_scale
    hyper_families, constants = anatomy.hyper_families, anatomy.hyper_constants
    num_groups, num_hyper = hyper.shape
    if num_hyper == 0:
        return
    plans, trial, found = room
    tasks, value, actions, q, log_likelihoods = state.tasks, state.value, state.actions, state.q, state.log_likelihood
    new_value, new_actions, new_q = plans.value, plans.actions, plans.q
    num_tasks, size = tasks.shape
    group_size = anatomy.group_size
    moved = np.empty(num_groups, dtype=np.int64)
    there = np.empty(num_groups)
    gain = np.zeros(num_groups)
    before, after = np.empty((size, 2)), np.empty((size, 2))
    _begin_trials(state, plans, trial, 0, num_tasks)
    for g in range(num_groups):
        j = min(int(rng.random() * num_hyper), num_hyper - 1)
        moved[g], there[g] = j, hyper[g, j] + scale[g, j] * rng.standard_normal()
        family, a, b = hyper_families[j], constants[j, 0], constants[j, 1]
        x = natural(family, there[g])
        if math.isinf(x) or (x <= 0.0 and family != NORMAL):
            gain[g] = -np.inf
            continue
        first, second = statistics(family, there[g])
        old_first, old_second = statistics(family, hyper[g, j])
        gain[g] = log_kernel(family, first, second, a, b) - log_kernel(family, old_first, old_second, a, b)
        _set_parameters(anatomy, hyper, g, before)
        after[:] = before
        _put(anatomy, after, j, x)
        for d in range(size):
            if source[d, 0] != j and source[d, 1] != j:
                continue
            family = families[d]
            middle, spread = middle_and_spread(family, before[d, 0], before[d, 1])
            new_middle, new_spread = middle_and_spread(family, after[d, 0], after[d, 1])
            ratio = new_spread / spread
            gain[g] += group_size * (
                math.log(ratio)
                + log_normaliser(family, after[d, 0], after[d, 1])
                - log_normaliser(family, before[d, 0], before[d, 1])
            )
            for m in range(g * group_size, (g + 1) * group_size):
                old_first, old_second = statistics(family, trial[m, d])
                trial[m, d] = new_middle + ratio * (trial[m, d] - middle)
                first, second = statistics(family, trial[m, d])
                gain[g] += log_kernel(family, first, second, after[d, 0], after[d, 1])
                gain[g] -= log_kernel(family, old_first, old_second, before[d, 0], before[d, 1])
    _judge_trials(world, anatomy, data, plans, trial, 0, num_tasks, found)
    for g in range(num_groups):
        j = moved[g]
        tally.carries_tried[g, j] += 1.0
        for m in range(g * group_size, (g + 1) * group_size):
            gain[g] += found[m] - log_likelihoods[m]
        if math.log1p(-rng.random()) < gain[g]:
            tally.carries[g, j] += 1.0
            hyper[g, j] = there[g]
            for m in range(g * group_size, (g + 1) * group_size):
                log_likelihoods[m] = found[m]
                _keep(tasks, value, actions, q, trial, new_value, new_actions, new_q, m, m)


@_compiled
def _sums(anatomy, tasks, g):
    """[D, 2] sums of the statistics of the tasks in population g; of log shares where rewards are shares."""
    families, num_rewards = anatomy.families, anatomy.num_rewards
    size = len(families)
    shares = num_rewards if anatomy.link == NORMALISED else 0
    sums = np.zeros((size, 2))
    for m in range(g * anatomy.group_size, (g + 1) * anatomy.group_size):
        shift = _log_total(tasks, m, shares)
        for d in range(shares):
            sums[d, 0] += tasks[m, d] - shift
        for d in range(shares, size):
            first, second = statistics(families[d], tasks[m, d])
            sums[d, 0] += first
            sums[d, 1] += second
    return sums


@_compiled
def _move_population(rng, anatomy, state, proposal, g, tally):
    """Random steps of population g's hyperparameters, one after the other."""
    hyper, scale, accepted = state.hyper, proposal.hyper_scale, tally.hyper
    sums = _sums(anatomy, state.tasks, g)
    parameters = np.empty((len(anatomy.families), 2))
    _set_parameters(anatomy, hyper, g, parameters)
    for j in range(hyper.shape[1]):
        here = hyper[g, j]
        there = here + scale[g, j] * rng.standard_normal()
        before = _hyper_density(here, anatomy, sums, parameters, j)
        gain = _hyper_density(there, anatomy, sums, parameters, j) - before
        if math.log1p(-rng.random()) < gain:
            hyper[g, j] = there
            accepted[g, j] += 1.0
        else:
            _put(anatomy, parameters, j, natural(anatomy.hyper_families[j], here))


@_compiled
def _draw_population(rng, anatomy, state, g):
    """Population g's hyperparameters given all else: conjugate where it is, by slice sampling otherwise."""
    hyper, families, source = state.hyper, anatomy.families, anatomy.source
    hyper_families, constants = anatomy.hyper_families, anatomy.hyper_constants
    count = anatomy.group_size
    shares = anatomy.num_rewards if anatomy.link == NORMALISED else 0
    sums = _sums(anatomy, state.tasks, g)
    parameters = np.empty((len(families), 2))
    _set_parameters(anatomy, hyper, g, parameters)
    for j in range(len(hyper_families)):
        conjugate = False
        for d in range(shares, len(families)):
            if source[d, 1] == j and families[d] == GAMMA and hyper_families[j] == GAMMA:
                # the rate of a Gamma has a Gamma
                shape = constants[j, 0] + count * parameters[d, 0]
                hyper[g, j] = log_gamma_draw(rng, shape) - math.log(constants[j, 1] + sums[d, 1])
                conjugate = True
            if source[d, 0] == j and families[d] == NORMAL and hyper_families[j] == NORMAL:
                # the mean of a Normal has a Normal
                weight, own = count / parameters[d, 1] ** 2, 1.0 / constants[j, 1] ** 2
                mean = (constants[j, 0] * own + sums[d, 0] / parameters[d, 1] ** 2) / (own + weight)
                hyper[g, j] = mean + rng.standard_normal() / math.sqrt(own + weight)
                conjugate = True
        if not conjugate:
            here = hyper[g, j]
            level = _hyper_density(here, anatomy, sums, parameters, j) + math.log1p(-rng.random())
            left = here - SLICE_WIDTH * rng.random()
            right = left + SLICE_WIDTH
            stage, there = STEP_LEFT, left
            for _ in range(SLICE_STEPS):
                inside = _hyper_density(there, anatomy, sums, parameters, j) > level
                stage, there, left, right = _next_on_slice(rng, SLICE_WIDTH, stage, inside, here, there, left, right)
                if stage == DONE:
                    hyper[g, j] = there
                    break
        _put(anatomy, parameters, j, natural(hyper_families[j], hyper[g, j]))


@_compiled
def _hyper_density(value, anatomy, sums, parameters, j):
    """log density, up to a constant, of the j-th hyperparameter at `value`, given the tasks' sums and all others.

    Leaves its value in `parameters` [D, 2].
    """
    families, source, family = anatomy.families, anatomy.source, anatomy.hyper_families[j]
    constants = anatomy.hyper_constants
    shares = anatomy.num_rewards if anatomy.link == NORMALISED else 0
    x = natural(family, value)
    if math.isinf(x) or (x <= 0.0 and family != NORMAL):
        return -np.inf
    first, second = statistics(family, value)
    total = log_kernel(family, first, second, constants[j, 0], constants[j, 1])
    count = anatomy.group_size
    concentration, is_concentration = 0.0, False
    for d in range(len(families)):
        for column in range(2):
            if source[d, column] == j:
                parameters[d, column] = x
        if d < shares:
            concentration += parameters[d, 0]
            if source[d, 0] == j:  # one factor of a Dirichlet density; what joins the factors follows below
                is_concentration = True
                total += x * sums[d, 0] - count * math.lgamma(x)
        elif source[d, 0] == j or source[d, 1] == j:
            a, b = parameters[d, 0], parameters[d, 1]
            total += count * log_normaliser(families[d], a, b) + log_kernel(families[d], sums[d, 0], sums[d, 1], a, b)
    if is_concentration:
        total += count * math.lgamma(concentration)
    return -np.inf if math.isnan(total) else total


@_compiled
def _put(anatomy, parameters, j, x):
    """The j-th hyperparameter's value wherever it is a parameter."""
    source = anatomy.source
    for d in range(len(source)):
        for column in range(2):
            if source[d, column] == j:
                parameters[d, column] = x


@_compiled
def _refresh_totals(rng, anatomy, state, g):
    """Σ x of each task given its shares and the population: Gamma(Σ α, 1)."""
    if anatomy.link != NORMALISED:
        return
    tasks, size = state.tasks, anatomy.num_rewards
    parameters = np.empty((len(anatomy.families), 2))
    _set_parameters(anatomy, state.hyper, g, parameters)
    concentration = parameters[:size, 0].sum()
    for m in range(g * anatomy.group_size, (g + 1) * anatomy.group_size):
        shift = log_gamma_draw(rng, concentration) - _log_total(tasks, m, size)
        for k in range(size):
            tasks[m, k] += shift


@_compiled
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


@_compiled
def _set_parameters(anatomy, hyper, g, parameters):
    """parameters [D, 2] of the coordinates of population g's tasks."""
    source, constants, hyper_families = anatomy.source, anatomy.constants, anatomy.hyper_families
    for d in range(len(source)):
        for column in range(2):
            j = source[d, column]
            parameters[d, column] = constants[d, column] if j < 0 else natural(hyper_families[j], hyper[g, j])


# ---- room to work in ---------------------------------------------------------------------------------------


@_compiled
def _room(world, anatomy, num_tasks):
    """Plans, coordinates [N, D] and log-likelihoods [N] of trials, one for each task and more to fill the lanes."""
    count = -(-num_tasks // WIDTH) * WIDTH
    per_state = world.num_actions if anatomy.on_pairs else 1
    return empty_plans(world, count, per_state), np.empty((count, len(anatomy.families))), np.empty(count)


@_compiled
def _record(state, draws, n):
    """The state as the n-th draw."""
    draws[0][n] = state.tasks
    draws[1][n] = state.hyper
    draws[2][n] = state.log_likelihood
