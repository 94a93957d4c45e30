"""Planning for one reward after another, with the inverse of I − T_π kept and updated: compiled.

    v = (I − T_π)⁻¹ r_π,      q = r + T v,      π ← greedy                                     (policy iteration)
    (A + e_s dᵀ)⁻¹ = A⁻¹ − A⁻¹ e_s dᵀ A⁻¹ / (1 + dᵀ A⁻¹ e_s)                                   (Sherman–Morrison)
    w = ((I − T_π)⁻¹)ᵀ Tᵀ g                                                                    (adjoint)

A sampler's rewards change a little at a time, and their optimal policies in few states, if at all. A state s with
another action changes one row of I − T_π, by d: S² operations where a new solution takes S³ / 3. Rounding errors add
up, so the inverse is computed again after MOST_UPDATES updates, and wherever the Bellman equation does not hold.
"""

import numpy as np

from manymotives.jit import inner, inner_any_order
from manymotives.planning.blocks import EPSILON

MOST_UPDATES = 1000  # before the inverse is computed again
RESIDUAL = 1e-10  # of values, relative to the largest: beyond it a new inverse is made

# sums in any order, so that they fill vector registers; BLAS would wake its own threads for these, under ours


@inner
def plan_by_updates(world, plans, n, limit):
    """Plan greedily for the n-th reward, from the policy of the inverse that stands there."""
    rewards, q, value, actions = plans.rewards, plans.q, plans.value, plans.actions
    inverse, taken, age, residual = plans.inverse, plans.taken, plans.age, plans.residual
    num_states, num_actions, per_state = world.num_states, world.num_actions, rewards.shape[2]
    known = np.empty(num_states)  # r_π
    if age[n] < 0:  # no inverse yet
        for s in range(num_states):
            taken[n, s] = actions[n, s]
            while world.forbidden[s * num_actions + taken[n, s]]:  # one is allowed everywhere
                taken[n, s] = (taken[n, s] + 1) % num_actions
        _invert(world, inverse, taken, age, n)
    residual[n] = np.inf
    for _ in range(limit):
        for s in range(num_states):
            known[s] = rewards[n, s, taken[n, s] if per_state > 1 else 0]
        _values(inverse, known, value, n)
        slack, gap = _back_up(world, plans, n)
        if not gap <= RESIDUAL * slack / EPSILON:
            if age[n] == 0:
                return  # not even a fresh inverse does
            _invert(world, inverse, taken, age, n)
            continue
        slack *= max(64.0, 2.0 * num_states)
        changes = 0
        for s in range(num_states):
            if q[n, s, actions[n, s]] > q[n, s, taken[n, s]] + slack:
                changes += 1
        if changes == 0:
            residual[n] = gap
            for s in range(num_states):
                value[n, s] = q[n, s, actions[n, s]]
                actions[n, s] = taken[n, s]
            return
        for s in range(num_states):
            if q[n, s, actions[n, s]] > q[n, s, taken[n, s]] + slack:
                if 3 * changes < num_states and age[n] < MOST_UPDATES:
                    _change_row(world, inverse, n, s, taken[n, s], actions[n, s])
                    age[n] += 1
                else:
                    age[n] = MOST_UPDATES
                taken[n, s] = actions[n, s]
        if age[n] >= MOST_UPDATES:
            _invert(world, inverse, taken, age, n)


@inner
def adjoint_by_updates(world, plans, q_gradient, value_adjoint, n):
    """value_adjoint [N, S] as in `warm_start.adjoint`, at the policy of the n-th plan: ((I − T_π)⁻¹)ᵀ Tᵀ g."""
    indptr, indices, probabilities = world.indptr, world.indices, world.probabilities
    num_states, num_actions = world.num_states, world.num_actions
    inverse = plans.inverse
    arrived = np.zeros(num_states)
    for s in range(num_states):
        for a in range(num_actions):
            flow = q_gradient[n, s, a]
            if flow != 0.0:
                for k in range(indptr[s * num_actions + a], indptr[s * num_actions + a + 1]):
                    arrived[indices[k]] += probabilities[k] * flow
    for s in range(num_states):
        value_adjoint[n, s] = 0.0
    for j in range(num_states):
        flow = arrived[j]
        for s in range(num_states):
            value_adjoint[n, s] += inverse[n, j, s] * flow


@inner_any_order
def _values(inverse, known, value, n):
    """v = (I − T_π)⁻¹ r_π."""
    size = len(known)
    for i in range(size):
        total = 0.0
        for j in range(size):
            total += inverse[n, i, j] * known[j]
        value[n, i] = total


@inner
def _back_up(world, plans, n):
    """q and the best actions for the values that stand there; rounding of values, and by how much they miss q_π."""
    rewards, q, value, actions, taken = plans.rewards, plans.q, plans.value, plans.actions, plans.taken
    indptr, indices, probabilities, forbidden = world.indptr, world.indices, world.probabilities, world.forbidden
    num_states, num_actions = world.num_states, world.num_actions
    per_state = rewards.shape[2]
    largest, gap = 1e-300, 0.0
    for s in range(num_states):
        best, chosen = -np.inf, taken[n, s]
        for a in range(num_actions):
            pair = s * num_actions + a
            total = -np.inf
            if not forbidden[pair]:
                total = rewards[n, s, a if per_state > 1 else 0]
                for k in range(indptr[pair], indptr[pair + 1]):
                    total += probabilities[k] * value[n, indices[k]]
            q[n, s, a] = total
            if total > best:
                best, chosen = total, a
        actions[n, s] = chosen
        largest = max(largest, abs(value[n, s]))
        off = abs(q[n, s, taken[n, s]] - value[n, s])
        if not off <= gap:
            gap = off
    return EPSILON * largest, gap


@inner
def _invert(world, inverse, taken, age, n):
    """Compute the inverse at the policy taken: Gauss–Jordan, without pivoting (see `blocks`)."""
    indptr, indices, probabilities = world.indptr, world.indices, world.probabilities
    size = world.num_states
    for s in range(size):
        for j in range(size):
            inverse[n, s, j] = 1.0 if j == s else 0.0
        pair = s * world.num_actions + taken[n, s]
        for k in range(indptr[pair], indptr[pair + 1]):
            inverse[n, s, indices[k]] -= probabilities[k]
    for k in range(size):
        pivot = 1.0 / inverse[n, k, k]
        inverse[n, k, k] = 1.0
        for j in range(size):
            inverse[n, k, j] *= pivot
        for i in range(size):
            factor = inverse[n, i, k]
            if i != k and factor != 0.0:
                inverse[n, i, k] = 0.0
                for j in range(size):
                    inverse[n, i, j] -= factor * inverse[n, k, j]
    age[n] = 0


@inner
def _change_row(world, inverse, n, s, before, after):
    """The inverse when state s takes another action."""
    indptr, indices, probabilities = world.indptr, world.indices, world.probabilities
    size, num_actions = world.num_states, world.num_actions
    row, column = np.zeros(size), np.empty(size)
    for pair, sign in ((s * num_actions + before, 1.0), (s * num_actions + after, -1.0)):
        for k in range(indptr[pair], indptr[pair + 1]):
            weight = sign * probabilities[k]
            for j in range(size):
                row[j] += weight * inverse[n, indices[k], j]
    scale = 1.0 / (1.0 + row[s])
    for i in range(size):
        column[i] = inverse[n, i, s] * scale
    for i in range(size):
        factor = column[i]
        for j in range(size):
            inverse[n, i, j] -= factor * row[j]
