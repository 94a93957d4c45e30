"""The compiled moves of an unknown environment, given all tasks: what follows some pairs of state and action, anew.

A row of transition probabilities is x / Σ x with x ~ Gamma(α, 1) and α the belief's counts. Half-new rows are proposed
so that the belief is left as it is: of x only a part is kept, x B with B ~ Beta(κα, (1 − κ)α), and Gamma((1 − κ)α, 1)
is added. Old and new have that part in common and are otherwise independent, so the move is reversible under the
belief, and is accepted with the ratio of the choices' likelihoods, of all tasks together. The least κ is learnt in
warm-up, 0 draws a row anew; every other proposal keeps more, by chance, because rows that the choices have moved into
a tail of the belief leave it in small steps only.
"""

import math
from typing import NamedTuple

import numpy as np

from manymotives.families import BETA, GAMMA, draw, natural
from manymotives.inference.mcmc.proposals import begin_trials, judge_trials, keep, room_for
from manymotives.jit import compiled, inner
from manymotives.models.likelihood import inverse_temperature, log_likelihood_in

TRIES = 32  # proposals a sweep: where more rows are uncertain, several are moved at once


class Rows(NamedTuple):
    """The rows that are uncertain, as a chain has them."""

    pairs: np.ndarray  # [R] s·A + a
    concentration: np.ndarray  # [E] of all moves, in the order of the world's
    logs: np.ndarray  # [E] log x
    kept: np.ndarray  # [R] κ
    accepted: np.ndarray  # [R] how many proposals were
    tried: np.ndarray  # [R]


@compiled
def move_rows(rng, world, anatomy, data, state, rows):
    """A proposal for every uncertain row, in random order; world and state are changed where it is accepted."""
    num_tasks = len(state.tasks)
    plans, trial, trial_z, found, owner = room_for(world, anatomy, num_tasks)
    tasks, value, actions, q, log_likelihoods = state.tasks, state.value, state.actions, state.q, state.log_likelihood
    task_z = state.task_z
    new_value, new_actions, new_q, age = plans.value, plans.actions, plans.q, plans.age
    logs, probabilities, accepted, tried = rows.logs, world.probabilities, rows.accepted, rows.tried
    old_logs, old_probabilities = logs.copy(), probabilities.copy()
    order = rng.permutation(len(rows.pairs))
    together = -(-len(order) // TRIES)
    old_q, changes = np.empty((num_tasks, together)), np.empty(num_tasks)
    for begin in range(0, len(order), together):
        chosen = order[begin : begin + together]
        for r in chosen:
            _propose(rng, world, rows, r)
            set_row(world, logs, rows.pairs[r])
        count, gain = _go_along(
            world, anatomy, data, state, rows.pairs, chosen, old_probabilities, old_q, changes, owner
        )
        if count > 0:
            begin_trials(state, plans, trial, trial_z, owner, count)
            age[:] = -1  # of inverses: they belong to other transitions
            judge_trials(world, anatomy, data, plans, trial, owner, count, found)
            for n in range(count):
                gain += found[n] - log_likelihoods[owner[n]]
        is_accepted = math.log1p(-rng.random()) < gain
        if is_accepted:
            for n in range(count):
                log_likelihoods[owner[n]] = found[n]
                keep(tasks, task_z, value, actions, q, trial, trial_z, new_value, new_actions, new_q, n, owner[n])
        for m in range(num_tasks):
            if changes[m] > -np.inf:
                if is_accepted:
                    log_likelihoods[m] += changes[m]
                else:
                    for i in range(len(chosen)):
                        q[m, rows.pairs[chosen[i]] // q.shape[2], rows.pairs[chosen[i]] % q.shape[2]] = old_q[m, i]
        for r in chosen:
            tried[r] += 1.0
            accepted[r] += int(is_accepted)
            pair = rows.pairs[r]
            for k in range(world.indptr[pair], world.indptr[pair + 1]):
                if is_accepted:
                    old_logs[k], old_probabilities[k] = logs[k], probabilities[k]
                else:
                    logs[k] = old_logs[k]
            if not is_accepted:
                set_row(world, logs, pair)


@inner
def _go_along(world, anatomy, data, state, pairs, chosen, old_probabilities, old_q, changes, owner):
    """Change the action values of tasks whose plans stay what they are though rows have changed.

    changes [M] is left with what that changes of log-likelihoods, −inf for those who have to plan again: `owner` names
    them. The answer: how many they are, and the sum of all other changes.
    """
    tasks, value, actions, q = state.tasks, state.value, state.actions, state.q
    indptr, indices, probabilities = world.indptr, world.indices, world.probabilities
    counts, temperatures, lapses = data.counts, data.temperature, data.lapse
    num_tasks, _, num_actions = q.shape
    rises = np.empty(len(chosen))
    count, gain = 0, 0.0
    for m in range(num_tasks):
        stays = not anatomy.is_soft
        for i in range(len(chosen)):
            pair = pairs[chosen[i]]
            s, a = pair // num_actions, pair % num_actions
            rises[i] = 0.0
            for k in range(indptr[pair], indptr[pair + 1]):
                rises[i] += (probabilities[k] - old_probabilities[k]) * value[m, indices[k]]
            stays = stays and a != actions[m, s] and q[m, s, a] + rises[i] <= q[m, s, actions[m, s]]
        if not stays:
            owner[count] = m
            changes[m] = -np.inf
            count += 1
            continue
        temperature, lapse = temperatures[m], lapses[m]
        if anatomy.temperature >= 0:
            temperature = inverse_temperature(tasks[m, anatomy.temperature])
        if anatomy.lapse >= 0:
            lapse = natural(BETA, tasks[m, anatomy.lapse])
        changes[m] = 0.0
        for i in range(len(chosen)):
            pair = pairs[chosen[i]]
            s, a = pair // num_actions, pair % num_actions
            old_q[m, i] = q[m, s, a]
            changes[m] -= log_likelihood_in(s, q, m, counts, m, temperature, lapse)
            q[m, s, a] += rises[i]
            changes[m] += log_likelihood_in(s, q, m, counts, m, temperature, lapse)
        gain += changes[m]
    return count, gain


@inner
def _propose(rng, world, rows, r):
    """A row that has the part κ in common with what it was."""
    logs, concentration, kept, pair = rows.logs, rows.concentration, rows.kept[r], rows.pairs[r]
    if rng.random() < 0.5:
        kept += (1.0 - kept) * rng.random()
    for k in range(world.indptr[pair], world.indptr[pair + 1]):
        shape = concentration[k]
        fresh = draw(rng, GAMMA, (1.0 - kept) * shape, 1.0)
        if kept > 0.0:
            part, rest = draw(rng, GAMMA, kept * shape, 1.0), draw(rng, GAMMA, (1.0 - kept) * shape, 1.0)
            fresh = log_sum(logs[k] + part - log_sum(part, rest), fresh)
        logs[k] = fresh


@inner
def log_sum(x, y):
    """log(e^x + e^y)."""
    largest, smallest = max(x, y), min(x, y)
    return largest if largest == -np.inf else largest + math.log1p(math.exp(smallest - largest))


@compiled
def set_row(world, logs, pair):
    """The transitions of a pair of state and action, times γ, from log x."""
    transitions, indices, probabilities = world.transitions, world.indices, world.probabilities
    begin, end = world.indptr[pair], world.indptr[pair + 1]
    largest = logs[begin]
    for k in range(begin + 1, end):
        largest = max(largest, logs[k])
    total = 0.0
    for k in range(begin, end):
        probabilities[k] = math.exp(logs[k] - largest)
        total += probabilities[k]
    for k in range(begin, end):
        probabilities[k] *= world.discount / total
        if transitions.size > 0:
            transitions[pair, indices[k]] = probabilities[k]
