"""Planning for one reward after another by Newton's method, with sparse LU factors that are kept: compiled.

    v = B(v),      B(v)(s) = max_a q(s, a), or log Σ_a exp(c q(s, a)) / c where choices are soft,      q = r + T v
    v ← v + (I − T_π)⁻¹ (B(v) − v)            Newton–Kantorovich; π greedy, or softmax(c q): policy iteration
    (I − T_π)ᵀ w = Tᵀ g                       the adjoint, for the policy of *this* plan, by iterative refinement

It converges quadratically, at any discount. A sampler's rewards change a little at a time, so the factors of I − T_π
of the plan before still reduce the residual many times over (chord steps): they are computed again where that costs
less than the steps that are left with them (`are_worn`).

I − T_π = L U by elimination without pivoting, which diagonal dominance allows in every symmetric order. The order (a
minimum-degree one, so that L and U stay sparse) and the pattern of non-zeros are those of all actions together, found
once for an environment (`elimination`). Many rewards at once: `factor_lanes`.

Factors stand in slots. Where memory for one slot per reward is lacking, several rewards share one: whoever comes
next computes its own factors there.
"""

import math

import numpy as np

from manymotives.jit import inner
from manymotives.planning.blocks import EPSILON
from manymotives.planning.simd import WIDTH, exponential, load, store

CHORDS = 20  # steps with kept factors at most; after these every step is a full Newton step, which always converges
CONTRACTION = 0.5  # of a residual by kept factors; where it is worse, they are computed again in any case
ROUNDING = 64.0 * EPSILON  # of values, relative to the largest: what a backup cannot tell apart
STALLED = 1e-8  # a residual that no longer falls is accepted up to here, relative to the largest value
REFINEMENTS = 30


@inner
def plan_by_factors(world, plans, is_soft, n, limit):
    """Plan for the n-th reward, from the values and the factors that stand there; residual inf where that fails."""
    value, residual, solves, factors, holder = plans.value, plans.residual, plans.solves, plans.factors, plans.holder
    num_states, slot = world.num_states, n % len(holder)
    policy = np.empty((num_states, world.num_actions))
    rest, work = np.empty(num_states), np.empty(num_states)
    temperature = plans.temperature[n] if is_soft else 0.0
    price = price_of_factors(world)
    residual[n] = np.inf
    solves[n] = 0
    before, are_new = np.inf, False
    for step in range(limit):
        gap, largest = _improve(world, plans, n, temperature, policy, rest)
        is_stalled = step > CHORDS and gap > 0.5 * before and gap <= STALLED * largest
        if gap <= ROUNDING * largest or is_stalled:
            residual[n] = gap
            for s in range(num_states):
                value[n, s] += rest[s]
            return
        if not gap < np.inf:
            break
        are_new = holder[slot] != n or step > CHORDS or are_worn(gap, before, largest, price, are_new)
        if are_new:
            factorise(world, plans.ratio[n], policy, factors, slot, work)
            holder[slot] = n
        solve(world, factors, slot, rest, work)
        solves[n] += 1
        for s in range(num_states):
            value[n, s] += rest[s]
        before = gap
    for s in range(num_states):  # the next plan begins from nothing
        value[n, s] = 0.0
    holder[slot] = -1


@inner
def are_worn(gap, before, largest, price, are_new):
    """Whether the steps that are left at this rate of contraction take longer than new factors and one step.

    The contraction of the first step with new factors says little of the next ones: they were made where it began.
    """
    if gap > CONTRACTION * before:
        return True
    if are_new or gap == 0.0 or not before < np.inf:
        return False
    return math.log(gap / (ROUNDING * largest)) > (price + 1.0) * math.log(before / gap)


@inner
def price_of_factors(world):
    """What a factorisation costs, in steps: from the number of entries, as if every row had the same."""
    entries, transitions, states = len(world.elimination.indices), len(world.indices), world.num_states
    step = entries + transitions + 10.0 * states * world.num_actions  # an exponential is worth ten multiplications
    return (entries * (1.0 + entries / (3.0 * states)) + transitions) / step


@inner
def _improve(world, plans, n, temperature, policy, rest):
    """q, policy [S, A] and best actions for the values that stand there; rest = B(v) − v; max |rest|, max |v|."""
    rewards, q, value, actions = plans.rewards, plans.q, plans.value, plans.actions
    indptr, indices, probabilities, forbidden = world.indptr, world.indices, world.probabilities, world.forbidden
    num_actions, per_state, ratio = world.num_actions, rewards.shape[2], plans.ratio[n]
    gap, largest = 0.0, 1e-300
    for s in range(world.num_states):
        best, chosen = -np.inf, 0
        for a in range(num_actions):
            pair = s * num_actions + a
            total = -np.inf
            if not forbidden[pair]:
                total = rewards[n, s, a if per_state > 1 else 0]
                for k in range(indptr[pair], indptr[pair + 1]):
                    total += ratio * probabilities[k] * value[n, indices[k]]
            q[n, s, a] = total
            if total > best or total != total:  # what is no number stays, and is noticed below
                best, chosen = total, a
        actions[n, s] = chosen
        for a in range(num_actions):
            if temperature > 0.0:  # what an exponential is taken of below; the temperature may be infinite
                below = q[n, s, a] - best
                policy[s, a] = 0.0 if below == 0.0 else temperature * below
            else:
                policy[s, a] = 1.0 if a == chosen else 0.0
        rest[s] = best
    if temperature > 0.0:
        _exponentials(policy)
    for s in range(world.num_states):
        best, above = rest[s], 0.0  # of log Σ exp(c q) / c, beside the largest q: no product that could overflow
        if temperature > 0.0:
            weight = 0.0
            for a in range(num_actions):
                weight += policy[s, a]
            for a in range(num_actions):
                policy[s, a] /= weight
            above = math.log(weight) / temperature
        rest[s] = best + above - value[n, s]
        largest = max(largest, abs(value[n, s]), abs(best))
        if not abs(rest[s]) <= gap and gap == gap:
            gap = abs(rest[s])
    return gap, largest


@inner
def _exponentials(x):
    """Overwrite an array with its exponentials, WIDTH at a time."""
    numbers = x.reshape(-1)
    full = len(numbers) // WIDTH
    for i in range(full):
        store(numbers, i, exponential(load(numbers, i)))
    for i in range(full * WIDTH, len(numbers)):
        numbers[i] = math.exp(numbers[i])


@inner
def adjoint_by_factors(world, plans, policies, q_gradient, value_adjoint, n):
    """value_adjoint [N, S] as in `warm_start.adjoint`: (I − T_π)ᵀ w = Tᵀ g, by refinement with the factors."""
    indptr, indices, probabilities = world.indptr, world.indices, world.probabilities
    num_states, num_actions = world.num_states, world.num_actions
    factors, holder = plans.factors, plans.holder
    slot, ratio = n % len(holder), plans.ratio[n]
    arrived, rest, work = np.zeros(num_states), np.empty(num_states), np.empty(num_states)
    for s in range(num_states):
        value_adjoint[n, s] = 0.0
        for a in range(num_actions):
            flow = ratio * q_gradient[n, s, a]
            if flow != 0.0:
                for k in range(indptr[s * num_actions + a], indptr[s * num_actions + a + 1]):
                    arrived[indices[k]] += probabilities[k] * flow
    for s in range(num_states):
        rest[s] = arrived[s]
    before, price, are_new = np.inf, price_of_factors(world), holder[slot] != n
    if are_new:
        factorise(world, ratio, policies[n], factors, slot, work)
        holder[slot] = n
    for _ in range(REFINEMENTS):
        gap, largest = 0.0, 0.0
        for s in range(num_states):
            largest = max(largest, abs(value_adjoint[n, s]), abs(arrived[s]))
            if not abs(rest[s]) <= gap:
                gap = abs(rest[s])
        if gap <= 16.0 * EPSILON * largest or (gap > 0.5 * before and gap <= ROUNDING * largest):
            return
        if not are_new and are_worn(gap, before, largest, price, are_new):
            factorise(world, ratio, policies[n], factors, slot, work)
            are_new = True  # of this very policy: others would be no better
        before = gap
        solve_transposed(world, factors, slot, rest, work)
        for s in range(num_states):
            value_adjoint[n, s] += rest[s]
        for s in range(num_states):
            rest[s] = arrived[s] - value_adjoint[n, s]
        for s in range(num_states):
            for a in range(num_actions):
                flow = ratio * policies[n, s, a] * value_adjoint[n, s]
                if flow != 0.0:
                    for k in range(indptr[s * num_actions + a], indptr[s * num_actions + a + 1]):
                        rest[indices[k]] += probabilities[k] * flow


@inner
def factorise(world, ratio, policy, factors, slot, work):
    """L (below the diagonal, which is 1) and U of I − T_π for a policy [S, A]; of U's diagonal the reciprocals.

    T is the world's transitions times `ratio`.

    Row by row, each cleared by the rows before it: up to four at a time, where their patterns are nested, so that the
    row is read and written a quarter as often.
    """
    indptr, probabilities, num_actions = world.indptr, world.probabilities, world.num_actions
    elimination = world.elimination
    order, columns, starts = elimination.order, elimination.columns, elimination.indptr
    indices, diagonal, is_nested = elimination.indices, elimination.diagonal, elimination.is_nested
    row = factors[slot]
    for i in range(world.num_states):
        begin, end, middle = starts[i], starts[i + 1], diagonal[i]
        for e in range(begin, end):
            work[indices[e]] = 0.0
        work[i] = 1.0
        for a in range(num_actions):
            share = ratio * policy[order[i], a]
            if share != 0.0:
                pair = order[i] * num_actions + a
                for k in range(indptr[pair], indptr[pair + 1]):
                    work[columns[k]] -= share * probabilities[k]
        e = begin
        while e < middle:
            k = indices[e]
            f0 = work[k] * row[diagonal[k]]
            row[e] = f0
            at0 = diagonal[k] + 1
            if e + 1 == middle or not is_nested[k]:
                if f0 != 0.0:
                    for f in range(at0, starts[k + 1]):
                        work[indices[f]] -= f0 * row[f]
                e += 1
                continue
            at1 = diagonal[k + 1] + 1
            f1 = (work[k + 1] - f0 * row[at0]) * row[at1 - 1]
            row[e + 1] = f1
            if e + 3 >= middle or not (is_nested[k + 1] and is_nested[k + 2]):
                if f0 != 0.0 or f1 != 0.0:
                    for f in range(starts[k + 2] - at1):
                        work[indices[at1 + f]] -= f0 * row[at0 + 1 + f] + f1 * row[at1 + f]
                e += 2
                continue
            at2, at3 = diagonal[k + 2] + 1, diagonal[k + 3] + 1
            f2 = (work[k + 2] - f0 * row[at0 + 1] - f1 * row[at1]) * row[at2 - 1]
            f3 = (work[k + 3] - f0 * row[at0 + 2] - f1 * row[at1 + 1] - f2 * row[at2]) * row[at3 - 1]
            row[e + 2], row[e + 3] = f2, f3
            at0, at1, at2 = at0 + 3, at1 + 2, at2 + 1
            if f0 != 0.0 or f1 != 0.0 or f2 != 0.0 or f3 != 0.0:
                for f in range(starts[k + 4] - at3):
                    change = f0 * row[at0 + f] + f1 * row[at1 + f] + f2 * row[at2 + f] + f3 * row[at3 + f]
                    work[indices[at3 + f]] -= change
            e += 4
        row[middle] = 1.0 / work[i]
        for e in range(middle + 1, end):
            row[e] = work[indices[e]]


@inner
def solve(world, factors, slot, x, work):
    """x becomes (L U)⁻¹ x; states as they are, the order of elimination stays inside."""
    elimination = world.elimination
    order, starts = elimination.order, elimination.indptr
    indices, diagonal = elimination.indices, elimination.diagonal
    row, num_states = factors[slot], world.num_states
    for i in range(num_states):
        total = x[order[i]]
        for e in range(starts[i], diagonal[i]):
            total -= row[e] * work[indices[e]]
        work[i] = total
    for i in range(num_states - 1, -1, -1):
        total = work[i]
        for e in range(diagonal[i] + 1, starts[i + 1]):
            total -= row[e] * work[indices[e]]
        work[i] = total * row[diagonal[i]]
        x[order[i]] = work[i]


@inner
def solve_transposed(world, factors, slot, x, work):
    """x becomes ((L U)ᵀ)⁻¹ x."""
    elimination = world.elimination
    order, starts = elimination.order, elimination.indptr
    indices, diagonal = elimination.indices, elimination.diagonal
    row, num_states = factors[slot], world.num_states
    for i in range(num_states):
        work[i] = x[order[i]]
    for i in range(num_states):
        share = work[i] * row[diagonal[i]]
        work[i] = share
        for e in range(diagonal[i] + 1, starts[i + 1]):
            work[indices[e]] -= row[e] * share
    for i in range(num_states - 1, -1, -1):
        share = work[i]
        for e in range(starts[i], diagonal[i]):
            work[indices[e]] -= row[e] * share
        x[order[i]] = share
