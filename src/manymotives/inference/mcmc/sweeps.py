"""One sweep of MRP's Markov chains, compiled: updates of tasks given their population, and of populations.

    random walk       u' = u + scale · F · normal; accepted with likelihood × prior                     `_walk`
    prior proposal    some u' ~ p(u | population); accepted with the ratio of likelihoods              `_prior_proposal`
    swap move         two rewards of a task exchanged                                                   `_swap`
    slice sampling    temperatures and lapse rates given all else (Gibbs)                               `_slice_choices`
    interweaving      hyperparameters given the tasks' z: the non-centred update (ASIS)                 `interweaving`
    collapsed update  a concentration, with negligible rewards integrated out (HMC)                     `collapsed`
    populations       hyperparameters given the tasks' u: the centred update                            `populations`
    trajectories      leapfrog trajectories of tasks, then of populations given their tasks' z (HMC)    `hamiltonian`

Tasks are independent given their population: many are updated at a time. `metropolis_draws` moves hyperparameters by
random walks; `gibbs_draws` draws them from their conditional distributions, and lapse rates and (where planning does
not depend on them) inverse temperatures too; `hamiltonian_draws` adds trajectories and collapsed updates.

Arrays are taken out of their tuples before any loop: each `state.tasks[m, d]` inside one would count two references up
and down, atomically, which costs more than the arithmetic.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from manymotives.families import BETA, draw, is_location_scale, location, log_kernel, natural, standardised
from manymotives.inference.mcmc.collapsed import collapsed_update
from manymotives.inference.mcmc.density import density_workspace, log_density_again, log_density_and_gradient
from manymotives.inference.mcmc.hamiltonian import population_trajectories, start_trajectories, task_trajectories
from manymotives.inference.mcmc.interweaving import interweave
from manymotives.inference.mcmc.populations import (
    DONE,
    SLICE_STEPS,
    STEP_LEFT,
    draw_population,
    draw_totals,
    next_on_slice,
    set_parameters,
    walk_population,
)
from manymotives.inference.mcmc.proposals import (
    accept,
    evaluate_proposals,
    proposal_log_likelihoods,
    proposal_workspace,
    start_proposals,
)
from manymotives.inference.mcmc.state import Data, empty_state
from manymotives.jit import compiled, inner
from manymotives.models.likelihood import (
    inverse_temperature,
    log_likelihood,
    shortfalls,
    softmax_log_likelihood,
    weights_workspace,
)
from manymotives.models.target import Target
from manymotives.planning.function_pointers import address_of, call
from manymotives.planning.simd import WIDTH
from manymotives.planning.warm_start import World

if TYPE_CHECKING:
    from manymotives.inference.mcmc.chains import MarkovChain

SWAPPED = 0.3  # share of prior proposals that are swap moves instead: another state's reward may explain as much
LARGEST_BATCH = 16 * WIDTH  # plans at a time: more would leave the caches


def data_of(target: Target, world: World, is_hamiltonian: bool) -> Data:
    """A target's choices, with function pointers; the functions are compiled here, if need be."""
    layout = target.layout
    offset = np.zeros((0 if target.effects is None else target.num_tasks, target.num_coordinates))
    data = Data(target.counts.copy(), target.fixed_temperature.copy(), target.fixed_lapse.copy(), offset, 0, 0)
    plans, proposed, _, found, owner = proposal_workspace(world, layout, target.num_tasks)
    taken = world, layout, data, plans, proposed, owner, 1, found
    data = data._replace(proposal_log_likelihoods=address_of(proposal_log_likelihoods, *taken))
    if is_hamiltonian or target.effects is not None:
        workspace = density_workspace(world, layout, target.num_tasks, target.num_groups)
        given = world, layout, data, workspace, workspace.hyper, workspace.tasks
        data = data._replace(log_density_and_gradient=address_of(log_density_and_gradient, *given))
        if is_hamiltonian:
            again = layout, workspace, workspace.hyper, workspace.tasks
            data = data._replace(
                log_density_again=address_of(log_density_again, *again),
                start_trajectories=address_of(start_trajectories, world, layout, data, empty_state(), workspace),
            )
    return data


def workspaces_of(chain: "MarkovChain") -> tuple[Any, ...]:
    """What a chain's kernel computes in: proposals and, for trajectories, densities."""
    world, layout, target = chain.world, chain.layout, chain.target
    proposals = proposal_workspace(world, layout, target.num_tasks)
    if not chain.is_hamiltonian:
        return (proposals,)
    return proposals, density_workspace(world, layout, target.num_tasks, target.num_groups)


@compiled
def metropolis_draws(rng, world, layout, data, state, tuning, thin, draws, acceptance, workspace):
    """Fill draws with every thin-th sweep."""
    for n in range(len(draws.tasks)):
        for _ in range(thin):
            _move_tasks(rng, world, layout, data, state, tuning, workspace, acceptance)
            interweave(rng, world, layout, data, state, tuning, workspace, acceptance)
            for g in range(len(state.hyper)):
                walk_population(rng, layout, state, tuning, g, acceptance)
                draw_totals(rng, layout, state, g)
        _record(state, draws, n)


@compiled
def gibbs_draws(rng, world, layout, data, state, tuning, thin, draws, acceptance, workspace):
    """The same, with exact conditional draws of everything that random walks do not move."""
    for n in range(len(draws.tasks)):
        for _ in range(thin):
            _move_tasks(rng, world, layout, data, state, tuning, workspace, acceptance)
            _slice_choices(rng, layout, data, state, tuning, acceptance)
            interweave(rng, world, layout, data, state, tuning, workspace, acceptance)
            for g in range(len(state.hyper)):
                draw_population(rng, layout, state, g)
                draw_totals(rng, layout, state, g)
        _record(state, draws, n)


@compiled
def hamiltonian_draws(rng, world, layout, data, state, tuning, thin, draws, acceptance, workspace, hmc_workspace):
    """The same, with Hamiltonian trajectories of tasks and of populations, and collapsed updates."""
    has_population = state.hyper.shape[1] > 0
    between, longest, longest_of_population = tuning.schedule
    for n in range(len(draws.tasks)):
        for _ in range(thin):
            for _ in range(between):
                _move_tasks(rng, world, layout, data, state, tuning, workspace, acceptance)
                interweave(rng, world, layout, data, state, tuning, workspace, acceptance)
                collapsed_update(rng, world, layout, data, state, workspace)
                for g in range(len(state.hyper)):
                    draw_population(rng, layout, state, g)
                    draw_totals(rng, layout, state, g)
            call(data.start_trajectories, (world, layout, data, state, hmc_workspace))
            task_trajectories(rng, world, layout, data, state, tuning, longest, hmc_workspace, acceptance)
            if has_population:
                population_trajectories(
                    rng, world, layout, data, state, tuning, longest_of_population, hmc_workspace, acceptance
                )
                for g in range(len(state.hyper)):
                    draw_population(rng, layout, state, g)
                    draw_totals(rng, layout, state, g)
        _record(state, draws, n)


@compiled
def task_draws(rng, world, layout, data, state, tuning, thin, draws, acceptance, workspace):
    """The same for a population that stays as it is."""
    for n in range(len(draws.tasks)):
        for _ in range(thin):
            _move_tasks(rng, world, layout, data, state, tuning, workspace, acceptance)
            for g in range(len(state.hyper)):
                draw_totals(rng, layout, state, g)
        _record(state, draws, n)


# ---- tasks -------------------------------------------------------------------------------------------------


@inner
def _move_tasks(rng, world, layout, data, state, tuning, workspace, acceptance):
    """A random walk of every task, then a prior proposal (or a swap move) for every task, a batch at a time.

    The 2 M proposals stand in one line, cut into batches in which no task comes twice, so that few lanes stay idle.
    """
    plans, proposed, proposed_z = workspace.plans, workspace.proposed, workspace.proposed_z
    found, owner = workspace.found, workspace.owner
    families, factor, scale, hyper = layout.families, tuning.factor, tuning.scale, state.hyper
    tasks, value, actions, q, log_likelihoods = state.tasks, state.value, state.actions, state.q, state.log_likelihood
    task_z = state.task_z
    new_value, new_actions, new_q = plans.value, plans.actions, plans.q
    random_walks, prior_proposals = acceptance.random_walks, acceptance.prior_proposals
    num_tasks, size = tasks.shape
    group_size, walk_size = layout.group_size, factor.shape[1]
    batch = min(num_tasks, max(WIDTH, min(num_tasks // WIDTH * WIDTH, LARGEST_BATCH)))
    parameters, centre, step = np.empty((size, 2)), np.empty(size), np.empty(size)
    gain = np.zeros(batch)
    group = -1
    for begin in range(0, 2 * num_tasks, batch):
        count = min(batch, 2 * num_tasks - begin)
        for n in range(count):
            owner[n] = (begin + n) % num_tasks
        start_proposals(state, plans, proposed, proposed_z, owner, count)
        for n in range(count):
            m = owner[n]
            if m // group_size != group:
                group = m // group_size
                set_parameters(layout, hyper, group, parameters)
                for d in range(size):
                    centre[d] = location(families[d], parameters[d, 0], parameters[d, 1])
            gain[n] = 0.0
            if begin + n < num_tasks:
                gain[n] = _walk(rng, families, factor, scale, parameters, centre, step, proposed, proposed_z, n, m)
            elif layout.num_rewards > 1 and rng.random() < SWAPPED:
                gain[n] = _swap(rng, families, parameters, centre, proposed, proposed_z, n, layout.num_rewards)
            else:  # drawn from the prior, which cancels
                _prior_proposal(rng, families, parameters, proposed, proposed_z, n, walk_size)
        evaluate_proposals(world, layout, data, plans, proposed, owner, count, found)
        for n in range(count):
            m = owner[n]
            if math.log1p(-rng.random()) < found[n] - log_likelihoods[m] + gain[n]:
                log_likelihoods[m] = found[n]
                accept(tasks, task_z, value, actions, q, proposed, proposed_z, new_value, new_actions, new_q, n, m)
                if begin + n < num_tasks:
                    random_walks[m] += 1.0
                else:
                    prior_proposals[m] += 1.0


@inner
def _walk(rng, families, factor, scale, parameters, centre, step, proposed, proposed_z, n, m):
    """Random walk of task m, in the n-th proposal; the gain in log prior density."""
    size = factor.shape[1]
    gain = 0.0
    for d in range(size):
        step[d] = 0.0
    for e in range(size):
        normal = scale[m] * rng.standard_normal()
        for d in range(e, size):
            step[d] += factor[m, d, e] * normal
    for d in range(size):
        gain += _moved(families[d], parameters[d, 0], parameters[d, 1], centre[d], proposed, proposed_z, n, d, step[d])
    return gain


@inner
def _moved(family, a, b, centre, proposed, proposed_z, n, d, step):
    """Add a step to coordinate d of the n-th proposal; the gain in log prior density."""
    if is_location_scale(family):
        before = proposed_z[n, d]
        proposed_z[n, d] = before + step / b
        proposed[n, d] = a + b * proposed_z[n, d]
        return 0.5 * (before - proposed_z[n, d]) * (before + proposed_z[n, d])
    before = log_kernel(family, proposed[n, d] - centre, a, b)
    proposed[n, d] += step
    return log_kernel(family, proposed[n, d] - centre, a, b) - before


@inner
def _prior_proposal(rng, families, parameters, proposed, proposed_z, n, size):
    """Prior proposal: some coordinates of the n-th proposal drawn from p(u | population): one, or each by a coin."""
    if rng.random() < 0.5:
        d = min(int(rng.random() * size), size - 1)
        _draw_from_prior(rng, families[d], parameters[d, 0], parameters[d, 1], proposed, proposed_z, n, d)
    else:
        share = rng.random()
        for d in range(size):
            if rng.random() < share:
                _draw_from_prior(rng, families[d], parameters[d, 0], parameters[d, 1], proposed, proposed_z, n, d)


@inner
def _draw_from_prior(rng, family, a, b, proposed, proposed_z, n, d):
    """Coordinate d of the n-th proposal from its prior."""
    if is_location_scale(family):
        proposed_z[n, d] = rng.standard_normal()
        proposed[n, d] = a + b * proposed_z[n, d]
    else:
        proposed[n, d] = draw(rng, family, a, b)


@inner
def _swap(rng, families, parameters, centre, proposed, proposed_z, n, size):
    """Swap move: two rewards of the n-th proposal exchanged; the gain in log prior density."""
    d = min(int(rng.random() * size), size - 1)
    e = (d + 1 + min(int(rng.random() * (size - 1)), size - 2)) % size
    here, there = proposed[n, d], proposed[n, e]
    z, other_z = proposed_z[n, d], proposed_z[n, e]
    a, b, other_a, other_b = parameters[d, 0], parameters[d, 1], parameters[e, 0], parameters[e, 1]
    proposed[n, d], proposed[n, e] = there, here
    if is_location_scale(families[d]):  # all rewards are of one family
        proposed_z[n, d] = standardised(other_z, other_a, other_b, a, b)
        proposed_z[n, e] = standardised(z, a, b, other_a, other_b)
        return 0.5 * (z**2 + other_z**2 - proposed_z[n, d] ** 2 - proposed_z[n, e] ** 2)
    family, own, other = families[d], centre[d], centre[e]
    gain = log_kernel(family, there - own, a, b) + log_kernel(family, here - other, other_a, other_b)
    return gain - log_kernel(family, here - own, a, b) - log_kernel(family, there - other, other_a, other_b)


@inner
def _slice_choices(rng, layout, data, state, tuning, acceptance):
    """Inverse temperatures and lapse rates of all tasks, exactly, given their action values: slice sampling."""
    tasks, task_z, hyper, q, log_likelihoods = state.tasks, state.task_z, state.hyper, state.q, state.log_likelihood
    slice_jumps = acceptance.slice_jumps
    families, counts, widths, exact_from = layout.families, data.counts, tuning.slice_width, tuning.factor.shape[1]
    offset, shift = data.offset, np.zeros(len(layout.families))
    parameters = np.empty((len(families), 2))
    _, num_states, num_actions = counts.shape
    weights, shortfall = weights_workspace(num_states, num_actions), weights_workspace(num_states, num_actions)
    made = np.empty(num_states)
    states, chosen = 0, 0.0
    group = -1
    for m in range(len(tasks)):
        if m // layout.group_size != group:
            group = m // layout.group_size
            set_parameters(layout, hyper, group, parameters)
        if len(offset) > 0:
            for d in range(len(families)):
                shift[d] = offset[m, d]
        temperature, lapse = data.temperature[m], data.lapse[m]
        if layout.temperature >= 0:
            temperature = inverse_temperature(tasks[m, layout.temperature] + shift[layout.temperature])
        if layout.lapse >= 0:
            lapse = natural(BETA, tasks[m, layout.lapse] + shift[layout.lapse])
        for d in range(exact_from, len(families)):
            is_lapse = d == layout.lapse
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
                    likelihood = log_likelihood(q, m, counts, m, temperature, natural(BETA, there + shift[d]), weights)
                elif lapse == 0.0:
                    likelihood = softmax_log_likelihood(
                        inverse_temperature(there + shift[d]), shortfall, made, states, chosen, num_actions - 1, weights
                    )
                else:
                    likelihood = log_likelihood(q, m, counts, m, inverse_temperature(there + shift[d]), lapse, weights)
                inside = likelihood + log_kernel(family, off + (there - here), a, b) > level
                stage, there, left, right = next_on_slice(rng, widths[m, d], stage, inside, here, there, left, right)
                if stage == DONE:
                    slice_jumps[m, d] += abs(there - here)
                    tasks[m, d] = there
                    if is_location_scale(family):
                        task_z[m, d] = (off + (there - here)) / b
                    log_likelihoods[m] = likelihood
                    if is_lapse:
                        lapse = natural(BETA, there + shift[d])
                    else:
                        temperature = inverse_temperature(there + shift[d])
                    break


@inner
def _record(state, draws, n):
    """The state as the n-th draw."""
    all_tasks, all_hyper, all_likelihoods = draws.tasks, draws.hyper, draws.log_likelihood
    all_q, visited = draws.q, draws.visited
    tasks, hyper, log_likelihoods, q = state.tasks, state.hyper, state.log_likelihood, state.q
    for m in range(len(tasks)):
        all_likelihoods[n, m] = log_likelihoods[m]
        for d in range(tasks.shape[1]):
            all_tasks[n, m, d] = tasks[m, d]
    for g in range(len(hyper)):
        for j in range(hyper.shape[1]):
            all_hyper[n, g, j] = hyper[g, j]
    for v in range(len(visited)):
        for a in range(q.shape[2]):
            all_q[n, v, a] = q[visited[v, 0], visited[v, 1], a]
