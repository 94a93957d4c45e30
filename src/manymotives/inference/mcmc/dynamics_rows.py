"""Updates of uncertain transition probabilities given all tasks, compiled. For each row, of a state and an action:

    x ~ Gamma(α, 1),  T(·|s, a) = x / Σ x                                      α: the concentration of the belief
    proposal:  x' = B x + y,   B ~ Beta(κα, (1 − κ)α),   y ~ Gamma((1 − κ)α, 1)
    accepted with  min(1, Π_m p(choices_m | T') / p(choices_m | T))

x' and x share the part B x and are otherwise independent, so that the proposal is reversible under the belief, which
cancels. κ is adapted in warm-up (κ = 0 draws a row from the belief); every other proposal has a larger κ, drawn at
random, because rows that the choices have moved into a tail of the belief leave it in small steps only.
"""

import math
from typing import NamedTuple

import numpy as np

from manymotives.by_reference import by_reference
from manymotives.families import BETA, GAMMA, draw, natural
from manymotives.inference.mcmc.proposals import (
    accept,
    evaluate_proposals,
    start_proposals,
)
from manymotives.jit import compiled, inner
from manymotives.models.likelihood import inverse_temperature, log_likelihood_in

TRIES = 32  # proposals per sweep: where more rows are uncertain, several are updated at once


@by_reference
class Rows(NamedTuple):
    """The uncertain rows of transition probabilities, as a chain has them."""

    pairs: np.ndarray  # [R] s·A + a
    concentration: np.ndarray  # [E] of all transitions, in the order of the world's
    logs: np.ndarray  # [E] log x
    kept: np.ndarray  # [R] κ
    accepted: np.ndarray  # [R] how many proposals were
    tried: np.ndarray  # [R]


@compiled
def update_rows(rng, world, layout, data, state, rows, workspace):
    """A proposal for every uncertain row, in random order; world and state are changed where it is accepted."""
    num_tasks = len(state.tasks)
    plans, proposed, proposed_z = workspace.plans, workspace.proposed, workspace.proposed_z
    found, owner = workspace.found, workspace.owner
    tasks, value, actions, q, log_likelihoods = state.tasks, state.value, state.actions, state.q, state.log_likelihood
    task_z = state.task_z
    new_value, new_actions, new_q, age = plans.value, plans.actions, plans.q, plans.age
    old_logs, old_probabilities = rows.logs.copy(), world.probabilities.copy()
    order = rng.permutation(len(rows.pairs))
    together = -(-len(order) // TRIES)
    old_q, changes = np.empty((num_tasks, together)), np.empty(num_tasks)
    for begin in range(0, len(order), together):
        chosen = order[begin : begin + together]
        for r in chosen:
            _propose(rng, world, rows, r)
            set_row(world, rows.logs, rows.pairs[r])
        count, gain = _update_q(
            world, layout, data, state, rows.pairs, chosen, old_probabilities, old_q, changes, owner
        )
        if count > 0:
            start_proposals(state, plans, proposed, proposed_z, owner, count)
            age[:] = -1  # of inverses: they belong to other transitions
            evaluate_proposals(world, layout, data, plans, proposed, owner, count, found)
            for n in range(count):
                gain += found[n] - log_likelihoods[owner[n]]
        is_accepted = math.log1p(-rng.random()) < gain
        if is_accepted:
            for n in range(count):
                m = owner[n]
                log_likelihoods[m] = found[n]
                accept(tasks, task_z, value, actions, q, proposed, proposed_z, new_value, new_actions, new_q, n, m)
        _settle(world, state, rows, chosen, is_accepted, changes, old_q, old_logs, old_probabilities)


@inner
def _settle(world, state, rows, chosen, is_accepted, changes, old_q, old_logs, old_probabilities):
    """Keep the proposed rows, and the q that followed them, where they were accepted; else what was before."""
    q, log_likelihoods, logs, probabilities = state.q, state.log_likelihood, rows.logs, world.probabilities
    accepted, tried, pairs = rows.accepted, rows.tried, rows.pairs
    num_tasks, _, num_actions = q.shape
    for m in range(num_tasks):
        if changes[m] > -np.inf:
            if is_accepted:
                log_likelihoods[m] += changes[m]
            else:
                for i in range(len(chosen)):
                    q[m, pairs[chosen[i]] // num_actions, pairs[chosen[i]] % num_actions] = old_q[m, i]
    for r in chosen:
        tried[r] += 1.0
        accepted[r] += int(is_accepted)
        pair = pairs[r]
        for k in range(world.indptr[pair], world.indptr[pair + 1]):
            if is_accepted:
                old_logs[k], old_probabilities[k] = logs[k], probabilities[k]
            else:
                logs[k] = old_logs[k]
        if not is_accepted:
            set_row(world, logs, pair)


@inner
def _update_q(world, layout, data, state, pairs, chosen, old_probabilities, old_q, changes, owner):
    """Update q of tasks whose policy stays optimal though rows have changed.

    changes [M] is left with the changes of their log-likelihoods, −inf for tasks that have to plan again, which `owner`
    lists. Returns how many these are, and the sum of all other changes.
    """
    tasks, value, actions, q = state.tasks, state.value, state.actions, state.q
    indptr, indices, probabilities = world.indptr, world.indices, world.probabilities
    counts, temperatures, lapses = data.counts, data.temperature, data.lapse
    num_tasks, _, num_actions = q.shape
    rises = np.empty(len(chosen))
    count, gain = 0, 0.0
    for m in range(num_tasks):
        stays = not layout.is_soft
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
        if layout.temperature >= 0:
            temperature = inverse_temperature(tasks[m, layout.temperature])
        if layout.lapse >= 0:
            lapse = natural(BETA, tasks[m, layout.lapse])
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
