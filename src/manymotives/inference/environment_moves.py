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
from numba import njit

from manymotives.families import GAMMA, draw
from manymotives.inference.trials import begin_trials, judge_trials, keep, room_for

TRIES = 32  # proposals a sweep: where more rows are uncertain, several are moved at once

_compiled = njit(nogil=True, cache=True, error_model="numpy")


class Rows(NamedTuple):
    """The rows that are uncertain, as a chain has them."""

    pairs: np.ndarray  # [R] s·A + a
    concentration: np.ndarray  # [E] of all moves, in the order of the world's
    logs: np.ndarray  # [E] log x
    kept: np.ndarray  # [R] κ
    accepted: np.ndarray  # [R] how many proposals were
    tried: np.ndarray  # [R]


@_compiled
def move_rows(rng, world, anatomy, data, state, rows):
    """A proposal for every uncertain row, in random order; world and state are changed where it is accepted."""
    num_tasks = len(state.tasks)
    plans, trial, found, owner = room_for(world, anatomy, num_tasks)
    tasks, value, actions, q, log_likelihoods = state.tasks, state.value, state.actions, state.q, state.log_likelihood
    new_value, new_actions, new_q, age = plans.value, plans.actions, plans.q, plans.age
    logs, accepted, tried = rows.logs, rows.accepted, rows.tried
    before = logs.copy()
    order = rng.permutation(len(rows.pairs))
    together = -(-len(order) // TRIES)
    for begin in range(0, len(order), together):
        chosen = order[begin : begin + together]
        for r in chosen:
            _propose(rng, world, rows, r)
            set_row(world, logs, rows.pairs[r])
        begin_trials(state, plans, trial, owner, num_tasks)
        age[:] = -1  # of inverses: they belong to other transitions
        judge_trials(world, anatomy, data, plans, trial, owner, num_tasks, found)
        gain = 0.0
        for m in range(num_tasks):
            gain += found[m] - log_likelihoods[m]
        is_accepted = math.log1p(-rng.random()) < gain
        if is_accepted:
            for m in range(num_tasks):
                log_likelihoods[m] = found[m]
                keep(tasks, value, actions, q, trial, new_value, new_actions, new_q, m, m)
        for r in chosen:
            tried[r] += 1.0
            pair = rows.pairs[r]
            if is_accepted:
                accepted[r] += 1.0
                for k in range(world.indptr[pair], world.indptr[pair + 1]):
                    before[k] = logs[k]
            else:
                for k in range(world.indptr[pair], world.indptr[pair + 1]):
                    logs[k] = before[k]
                set_row(world, logs, pair)


@_compiled
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
            fresh = _log_sum(logs[k] + part - _log_sum(part, rest), fresh)
        logs[k] = fresh


@_compiled
def _log_sum(x, y):
    largest, smallest = max(x, y), min(x, y)
    return largest + math.log1p(math.exp(smallest - largest))


@_compiled
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
