"""The compiled moves of MRP's Markov chains: tasks given their population, the population given its tasks.

A sweep moves every task twice, many tasks at a time because they are independent given their population, and then the
population, first together with its tasks and then without them:

    walk        a random step in a task's coordinates; accept with the ratio of likelihood × prior
    refresh     some coordinates drawn anew from the prior given the population; accept with the ratio of likelihoods.
                Or two rewards change places
    carry       a hyperparameter of each population, or several that set a spread, which carries its tasks along: their
                coordinates keep about the quantile of the population they were at; accept with the ratio of everything
    population  every hyperparameter, given the tasks' coordinates
    faint       the concentration of a reward, with that reward in all tasks where it is too faint to be seen (`faint`)
    paths       a task, then a population with its tasks, follows the gradient (`paths`)

`metropolis_draws` moves hyperparameters by random steps. `gibbs_draws` draws them exactly, from a conjugate density
where there is one and by slice sampling on the line otherwise, and does the same for lapse rates and, where planning
does not hang on them, inverse temperatures. `hamiltonian_draws` adds the last two. Dirichlet rewards are x / Σ x with
x ~ Gamma(α, 1): the population is moved given the shares alone (Σ x integrated out), and then Σ x is drawn given the
population.

Arrays are taken out of their tuples before any loop: each `state.tasks[m, d]` inside one would count two references up
and down, atomically, which costs more than the arithmetic.
"""

import math
from typing import NamedTuple

import numpy as np

from manymotives.families import (
    BETA,
    draw,
    is_location_scale,
    location,
    log_kernel,
    natural,
    standardised,
)
from manymotives.inference.mcmc.collapsed import move_faint
from manymotives.inference.mcmc.density import latent_room, path_judge
from manymotives.inference.mcmc.hamiltonian import follow_populations, follow_tasks, prepare_paths
from manymotives.inference.mcmc.interweaving import carry
from manymotives.inference.mcmc.populations import (
    DONE,
    SLICE_STEPS,
    STEP_LEFT,
    draw_population,
    move_population,
    next_on_slice,
    refresh_totals,
    set_parameters,
)
from manymotives.inference.mcmc.proposals import begin_trials, judge_trials, keep, room_for, trial_judge
from manymotives.jit import compiled, inner
from manymotives.models.likelihood import (
    inverse_temperature,
    log_likelihood,
    shortfalls,
    softmax_log_likelihood,
    weights_workspace,
)
from manymotives.models.target import Target
from manymotives.planning.function_pointers import address_of
from manymotives.planning.simd import WIDTH
from manymotives.planning.warm_start import World

EXCHANGED = 0.3  # share of refreshments that exchange two rewards instead: another state may explain as much
LARGEST_BATCH = 16 * WIDTH  # plans at a time: more would leave the caches


class State(NamedTuple):
    """Where a chain is."""

    tasks: np.ndarray  # [M, D] coordinates u
    hyper: np.ndarray  # [G, H] coordinates h
    q: np.ndarray  # [M, S, A]
    value: np.ndarray  # [M, S]
    actions: np.ndarray  # [M, S]
    log_likelihood: np.ndarray  # [M]
    # non-centred: of location–scale families u = a + b z always; of others as paths have left them
    task_z: np.ndarray  # [M, D]
    hyper_z: np.ndarray  # [G, H]
    lift: np.ndarray  # [M, D] gradients of log-likelihoods in u, where paths begin


class Proposal(NamedTuple):
    """How far random steps go; fixed once warm-up is over."""

    factor: np.ndarray  # [M, d, d] lower triangles: steps are scale · factor · normal, in the first d coordinates
    scale: np.ndarray  # [M]
    hyper_scale: np.ndarray  # [G, H]
    carry_directions: np.ndarray  # [C, H] which hyperparameters carry tasks along together (`carry_directions`)
    carry_scale: np.ndarray  # [G, C]
    slice_width: np.ndarray  # [M, D] first guess at how wide a slice is: any is right, a good one is quick
    task_frame: np.ndarray  # [M, D, D] of paths: z = F y
    task_step: np.ndarray  # [M]
    hyper_frame: np.ndarray  # [G, H, H]
    hyper_step: np.ndarray  # [G]
    pace: np.ndarray  # [3] rounds of other moves between paths; steps of a task's path at most, of a population's


class Tally(NamedTuple):
    """What was tried and what accepted."""

    walks: np.ndarray  # [M] accepted, one tried a sweep
    refreshments: np.ndarray  # [M]
    hyper: np.ndarray  # [G, H]
    carries: np.ndarray  # [G, C]
    carries_tried: np.ndarray  # [G, C]
    jumps: np.ndarray  # [M, D] how far slice sampling went, summed
    task_paths: np.ndarray  # [M] probabilities of acceptance, summed
    hyper_paths: np.ndarray  # [G]


class Data(NamedTuple):
    """The choices, what is known beside them, and where the functions lie that judge by them."""

    counts: np.ndarray  # [M, S, A]
    temperature: np.ndarray  # [M] where it is known
    lapse: np.ndarray  # [M]
    trial_judge: int  # addresses of `trials.trial_judge` …
    path_judge: int  # … and `latent.path_judge`; 0 where no path is followed


def data_of(target: Target, world: World, follows_paths: bool) -> Data:
    """A target's choices, with the addresses of what judges by them; compiled here, if need be."""
    anatomy = target.anatomy
    data = Data(target.counts.copy(), target.fixed_temperature.copy(), target.fixed_lapse.copy(), 0, 0)
    plans, trial, _, found, owner = room_for(world, anatomy, target.num_tasks)
    data = data._replace(trial_judge=address_of(trial_judge, world, anatomy, data, plans, trial, owner, 1, found))
    if follows_paths:
        room = latent_room(world, anatomy, target.num_tasks, target.num_groups)
        data = data._replace(path_judge=address_of(path_judge, world, anatomy, data, room, room.hyper, room.tasks))
    return data


@compiled
def metropolis_draws(rng, world, anatomy, data, state, proposal, thin, draws, tally):
    """Fill draws (tasks [N, M, D], hyper [N, G, H], log-likelihoods [N, M]) with every thin-th sweep."""
    room = room_for(world, anatomy, len(state.tasks))
    for n in range(len(draws[0])):
        for _ in range(thin):
            _move_tasks(rng, world, anatomy, data, state, proposal, room, tally)
            carry(rng, world, anatomy, data, state, proposal, room, tally)
            for g in range(len(state.hyper)):
                move_population(rng, anatomy, state, proposal, g, tally)
                refresh_totals(rng, anatomy, state, g)
        _record(state, draws, n)


@compiled
def gibbs_draws(rng, world, anatomy, data, state, proposal, thin, draws, tally):
    """The same, with exact draws of all that random steps do not move."""
    room = room_for(world, anatomy, len(state.tasks))
    for n in range(len(draws[0])):
        for _ in range(thin):
            _move_tasks(rng, world, anatomy, data, state, proposal, room, tally)
            _slice_choices(rng, anatomy, data, state, proposal, tally)
            carry(rng, world, anatomy, data, state, proposal, room, tally)
            for g in range(len(state.hyper)):
                draw_population(rng, anatomy, state, g)
                refresh_totals(rng, anatomy, state, g)
        _record(state, draws, n)


@compiled
def hamiltonian_draws(rng, world, anatomy, data, state, proposal, thin, draws, tally):
    """The same, with paths of tasks and of populations that carry them along."""
    room = room_for(world, anatomy, len(state.tasks))
    paths = latent_room(world, anatomy, len(state.tasks), len(state.hyper))
    has_population = state.hyper.shape[1] > 0
    between, longest, longest_together = proposal.pace
    for n in range(len(draws[0])):
        for _ in range(thin):
            for _ in range(between):
                _move_tasks(rng, world, anatomy, data, state, proposal, room, tally)
                carry(rng, world, anatomy, data, state, proposal, room, tally)
                move_faint(rng, world, anatomy, data, state, room)
                for g in range(len(state.hyper)):
                    draw_population(rng, anatomy, state, g)
                    refresh_totals(rng, anatomy, state, g)
            prepare_paths(world, anatomy, data, state, paths)
            frame, step = proposal.task_frame, proposal.task_step
            follow_tasks(rng, world, anatomy, data, state, frame, step, longest, paths, tally.task_paths)
            if has_population:
                frame, step = proposal.hyper_frame, proposal.hyper_step
                follow_populations(
                    rng, world, anatomy, data, state, frame, step, longest_together, paths, tally.hyper_paths
                )
                for g in range(len(state.hyper)):
                    draw_population(rng, anatomy, state, g)
                    refresh_totals(rng, anatomy, state, g)
        _record(state, draws, n)


@compiled
def task_draws(rng, world, anatomy, data, state, proposal, thin, draws, tally):
    """The same for a population that stays as it is."""
    room = room_for(world, anatomy, len(state.tasks))
    for n in range(len(draws[0])):
        for _ in range(thin):
            _move_tasks(rng, world, anatomy, data, state, proposal, room, tally)
            for g in range(len(state.hyper)):
                refresh_totals(rng, anatomy, state, g)
        _record(state, draws, n)


# ---- tasks -------------------------------------------------------------------------------------------------


@inner
def _move_tasks(rng, world, anatomy, data, state, proposal, room, tally):
    """A walk of every task, then a refreshment of every task, a batch at a time.

    The 2 M proposals stand in one line, cut into batches in which no task comes twice, so that few lanes stay idle.
    """
    plans, trial, trial_z, found, owner = room
    families, factor, scale, hyper = anatomy.families, proposal.factor, proposal.scale, state.hyper
    tasks, value, actions, q, log_likelihoods = state.tasks, state.value, state.actions, state.q, state.log_likelihood
    task_z = state.task_z
    new_value, new_actions, new_q = plans.value, plans.actions, plans.q
    walks, refreshments = tally.walks, tally.refreshments
    num_tasks, size = tasks.shape
    group_size, walk_size = anatomy.group_size, factor.shape[1]
    batch = min(num_tasks, max(WIDTH, min(num_tasks // WIDTH * WIDTH, LARGEST_BATCH)))
    parameters, centre, step = np.empty((size, 2)), np.empty(size), np.empty(size)
    gain = np.zeros(batch)
    group = -1
    for begin in range(0, 2 * num_tasks, batch):
        count = min(batch, 2 * num_tasks - begin)
        for n in range(count):
            owner[n] = (begin + n) % num_tasks
        begin_trials(state, plans, trial, trial_z, owner, count)
        for n in range(count):
            m = owner[n]
            if m // group_size != group:
                group = m // group_size
                set_parameters(anatomy, hyper, group, parameters)
                for d in range(size):
                    centre[d] = location(families[d], parameters[d, 0], parameters[d, 1])
            gain[n] = 0.0
            if begin + n < num_tasks:
                gain[n] = _walk(rng, families, factor, scale, parameters, centre, step, trial, trial_z, n, m)
            elif anatomy.num_rewards > 1 and rng.random() < EXCHANGED:
                gain[n] = _exchange(rng, families, parameters, centre, trial, trial_z, n, anatomy.num_rewards)
            else:  # drawn from the prior, which cancels
                _refresh(rng, families, parameters, trial, trial_z, n, walk_size)
        judge_trials(world, anatomy, data, plans, trial, owner, count, found)
        for n in range(count):
            m = owner[n]
            if math.log1p(-rng.random()) < found[n] - log_likelihoods[m] + gain[n]:
                log_likelihoods[m] = found[n]
                keep(tasks, task_z, value, actions, q, trial, trial_z, new_value, new_actions, new_q, n, m)
                if begin + n < num_tasks:
                    walks[m] += 1.0
                else:
                    refreshments[m] += 1.0


@inner
def _walk(rng, families, factor, scale, parameters, centre, step, trial, trial_z, n, m):
    """Add a random step of task m to the n-th trial; the gain in log prior density."""
    size = factor.shape[1]
    gain = 0.0
    for d in range(size):
        step[d] = 0.0
    for e in range(size):
        normal = scale[m] * rng.standard_normal()
        for d in range(e, size):
            step[d] += factor[m, d, e] * normal
    for d in range(size):
        gain += _moved(families[d], parameters[d, 0], parameters[d, 1], centre[d], trial, trial_z, n, d, step[d])
    return gain


@inner
def _moved(family, a, b, centre, trial, trial_z, n, d, step):
    """Move coordinate d of the n-th trial by a step; the gain in log prior density."""
    if is_location_scale(family):
        before = trial_z[n, d]
        trial_z[n, d] = before + step / b
        trial[n, d] = a + b * trial_z[n, d]
        return 0.5 * (before - trial_z[n, d]) * (before + trial_z[n, d])
    before = log_kernel(family, trial[n, d] - centre, a, b)
    trial[n, d] += step
    return log_kernel(family, trial[n, d] - centre, a, b) - before


@inner
def _refresh(rng, families, parameters, trial, trial_z, n, size):
    """Some coordinates of the n-th trial anew from their prior: one of them, or each with some probability."""
    if rng.random() < 0.5:
        d = min(int(rng.random() * size), size - 1)
        _draw_anew(rng, families[d], parameters[d, 0], parameters[d, 1], trial, trial_z, n, d)
    else:
        share = rng.random()
        for d in range(size):
            if rng.random() < share:
                _draw_anew(rng, families[d], parameters[d, 0], parameters[d, 1], trial, trial_z, n, d)


@inner
def _draw_anew(rng, family, a, b, trial, trial_z, n, d):
    """Coordinate d of the n-th trial from its prior."""
    if is_location_scale(family):
        trial_z[n, d] = rng.standard_normal()
        trial[n, d] = a + b * trial_z[n, d]
    else:
        trial[n, d] = draw(rng, family, a, b)


@inner
def _exchange(rng, families, parameters, centre, trial, trial_z, n, size):
    """Two rewards of the n-th trial change places; the gain in log prior density."""
    d = min(int(rng.random() * size), size - 1)
    e = (d + 1 + min(int(rng.random() * (size - 1)), size - 2)) % size
    here, there = trial[n, d], trial[n, e]
    z, other_z = trial_z[n, d], trial_z[n, e]
    a, b, other_a, other_b = parameters[d, 0], parameters[d, 1], parameters[e, 0], parameters[e, 1]
    trial[n, d], trial[n, e] = there, here
    if is_location_scale(families[d]):  # all rewards are of one family
        trial_z[n, d] = standardised(other_z, other_a, other_b, a, b)
        trial_z[n, e] = standardised(z, a, b, other_a, other_b)
        return 0.5 * (z**2 + other_z**2 - trial_z[n, d] ** 2 - trial_z[n, e] ** 2)
    family, own, other = families[d], centre[d], centre[e]
    gain = log_kernel(family, there - own, a, b) + log_kernel(family, here - other, other_a, other_b)
    return gain - log_kernel(family, here - own, a, b) - log_kernel(family, there - other, other_a, other_b)


@inner
def _slice_choices(rng, anatomy, data, state, proposal, tally):
    """Inverse temperatures and lapse rates of all tasks, exactly, given their action values: slice sampling."""
    tasks, task_z, hyper, q, log_likelihoods = state.tasks, state.task_z, state.hyper, state.q, state.log_likelihood
    jumps = tally.jumps
    families, counts, widths, exact_from = anatomy.families, data.counts, proposal.slice_width, proposal.factor.shape[1]
    parameters = np.empty((len(families), 2))
    _, num_states, num_actions = counts.shape
    weights, shortfall = weights_workspace(num_states, num_actions), weights_workspace(num_states, num_actions)
    made = np.empty(num_states)
    states, chosen = 0, 0.0
    group = -1
    for m in range(len(tasks)):
        if m // anatomy.group_size != group:
            group = m // anatomy.group_size
            set_parameters(anatomy, hyper, group, parameters)
        temperature, lapse = data.temperature[m], data.lapse[m]
        if anatomy.temperature >= 0:
            temperature = inverse_temperature(tasks[m, anatomy.temperature])
        if anatomy.lapse >= 0:
            lapse = natural(BETA, tasks[m, anatomy.lapse])
        for d in range(exact_from, len(families)):
            is_lapse = d == anatomy.lapse
            if lapse == 0.0:
                states, chosen = shortfalls(q, m, counts, m, shortfall, made)
            family, a, b = families[d], parameters[d, 0], parameters[d, 1]
            here = tasks[m, d]
            # how far u is from where deviations are taken from: b z of location–scale families, exactly
            off = b * task_z[m, d] if is_location_scale(family) else here - location(family, a, b)
            likelihood = log_likelihoods[m]
            level = likelihood + log_kernel(family, off, a, b) + math.log1p(-rng.random())
            left = here - widths[m, d] * rng.random()
            right = left + widths[m, d]
            stage, there = STEP_LEFT, left
            steps = SLICE_STEPS
            while steps > 0:
                steps -= 1
                if is_lapse:
                    likelihood = log_likelihood(q, m, counts, m, temperature, natural(BETA, there), weights)
                elif lapse == 0.0:
                    likelihood = softmax_log_likelihood(
                        inverse_temperature(there), shortfall, made, states, chosen, num_actions - 1, weights
                    )
                else:
                    likelihood = log_likelihood(q, m, counts, m, inverse_temperature(there), lapse, weights)
                inside = likelihood + log_kernel(family, off + (there - here), a, b) > level
                stage, there, left, right = next_on_slice(rng, widths[m, d], stage, inside, here, there, left, right)
                if stage == DONE:
                    jumps[m, d] += abs(there - here)
                    tasks[m, d] = there
                    if is_location_scale(family):
                        task_z[m, d] = (off + (there - here)) / b
                    log_likelihoods[m] = likelihood
                    if is_lapse:
                        lapse = natural(BETA, there)
                    else:
                        temperature = inverse_temperature(there)
                    break


@inner
def _record(state, draws, n):
    """The state as the n-th draw."""
    all_tasks, all_hyper, all_likelihoods = draws
    tasks, hyper, log_likelihoods = state.tasks, state.hyper, state.log_likelihood
    for m in range(len(tasks)):
        all_likelihoods[n, m] = log_likelihoods[m]
        for d in range(tasks.shape[1]):
            all_tasks[n, m, d] = tasks[m, d]
    for g in range(len(hyper)):
        for j in range(hyper.shape[1]):
            all_hyper[n, g, j] = hyper[g, j]
