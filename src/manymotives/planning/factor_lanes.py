"""Plans of LANES rewards at once by Newton's method with kept sparse LU factors, one in each SIMD lane: compiled.

The mathematics of `factors`. Where transitions lie in memory is looked up once for all lanes, and a block of eight
takes as long as two rewards one after the other. All lanes get new factors when one of them needs them.

Factors are kept in float32: half the memory to hold and to read. They only reduce residuals, which are computed in
float64, so that plans and adjoints are as accurate as with others, unless the discount is so near 1 that factors in
float32 reduce nothing (`LARGEST_DISCOUNT`). Rewards that still have no plan are left to `factors`, one at a time.
"""

import numpy as np

from manymotives.jit import inner
from manymotives.planning.blocks import EPSILON, FORBIDDEN, lane_array
from manymotives.planning.factors import CHORDS, REFINEMENTS, ROUNDING, are_worn, price_of_factors
from manymotives.planning.simd import HALF, exponential, fused, logarithm, memory_of, where_greater

LANES = HALF  # sixteen take twice as long, and more of them would be idle
EIGHT = memory_of(LANES)
load, store, load_single, store_single = EIGHT.load, EIGHT.store, EIGHT.load_single, EIGHT.store_single
spread, spread_from = EIGHT.spread, EIGHT.spread_from
FEWEST = 2  # rewards that are worth a block: one is quicker alone
LARGEST_DISCOUNT = 0.9999  # errors of float32, 6e-8, over 1 − γ: a step leaves a thousandth of the residual
MOST_STEPS = 40


@inner
def plan_lanes(world, plans, is_soft, first, count):
    """Plan for rewards first, …, first + count − 1, from their values and factors; residual inf where that fails."""
    value, residual, solves, holder = plans.value, plans.residual, plans.solves, plans.lane_holder
    num_states, slot = world.num_states, first // LANES % len(holder)
    pairs = num_states * world.num_actions
    rewards, policy = lane_array(num_states * plans.rewards.shape[2], LANES), lane_array(pairs, LANES)
    v, rest, work = lane_array(num_states, LANES), lane_array(num_states, LANES), lane_array(num_states, LANES)
    ahead, scalars = lane_array(num_states, LANES), lane_array(4, LANES)  # ahead: values as they count a step before
    temperature, gap, largest, ratio = scalars[:1], scalars[1:2], scalars[2:3], scalars[3:4]
    before = np.full(LANES, np.inf)
    for lane in range(LANES):
        temperature[0, lane] = plans.temperature[_owner(first, count, lane)] if is_soft else 0.0
        ratio[0, lane] = plans.ratio[_owner(first, count, lane)]
    for s in range(num_states):
        for lane in range(LANES):
            n = _owner(first, count, lane)
            v[s, lane] = value[n, s]
            for a in range(plans.rewards.shape[2]):
                rewards[s * plans.rewards.shape[2] + a, lane] = plans.rewards[n, s, a]
    price, are_new = price_of_factors(world), False
    for lane in range(count):
        residual[first + lane] = np.inf
        solves[first + lane] = 0
    for step in range(MOST_STEPS):
        _improve_lanes(world, is_soft, rewards, temperature, ratio, v, ahead, policy, rest, gap, largest)
        is_done, is_slow = True, step > CHORDS or holder[slot] != first
        for lane in range(count):
            if not gap[0, lane] < np.inf:  # no numbers, and left to be found by `factors`
                continue
            if gap[0, lane] > ROUNDING * largest[0, lane]:
                is_done = False
                solves[first + lane] += 1
                is_slow = is_slow or are_worn(gap[0, lane], before[lane], largest[0, lane], price, are_new)
            before[lane] = gap[0, lane]
        if is_done or step == MOST_STEPS - 1:
            break
        if is_slow:
            _factorise_lanes(world, ratio, policy, plans.lane_factors, slot, work)
            holder[slot] = first
        are_new = is_slow
        _solve_lanes(world, plans.lane_factors, slot, rest, work)
        for s in range(num_states):
            store(v, s, load(v, s) + load(rest, s))
    for lane in range(count):
        n = first + lane
        if gap[0, lane] <= ROUNDING * largest[0, lane]:
            residual[n] = gap[0, lane]
        elif not gap[0, lane] < np.inf:
            holder[slot] = -1
    _store_plans(world, plans, first, count, rewards, v, ahead, rest)


@inner
def _owner(first, count, lane):
    """The reward of a lane; idle lanes repeat the first."""
    return first + lane if lane < count else first


@inner
def _store_plans(world, plans, first, count, rewards, v, ahead, rest):
    """Where a plan was found: q and best actions from the values before the last backup, and the values after it."""
    indptr, indices, probabilities, forbidden = world.indptr, world.indices, world.probabilities, world.forbidden
    residual, all_q, value, actions = plans.residual, plans.q, plans.value, plans.actions
    num_states, num_actions, per_state = world.num_states, world.num_actions, plans.rewards.shape[2]
    block = lane_array(num_actions, LANES)
    for s in range(num_states):
        for a in range(num_actions):
            pair = s * num_actions + a
            q = spread(-np.inf)
            if not forbidden[pair]:
                q = load(rewards, s * per_state + a if per_state > 1 else s)
                for k in range(indptr[pair], indptr[pair + 1]):
                    q = fused(spread_from(probabilities, k), load(ahead, indices[k]), q)
            store(block, a, q)
        for lane in range(count):
            n = first + lane
            if residual[n] < np.inf:
                best = -np.inf
                for a in range(num_actions):
                    all_q[n, s, a] = block[a, lane]
                    if block[a, lane] > best:
                        best = block[a, lane]
                        actions[n, s] = a
                value[n, s] = v[s, lane] + rest[s, lane]


@inner
def _improve_lanes(world, is_soft, rewards, temperature, ratio, v, ahead, policy, rest, gap, largest):
    """policy [S·A] for values v, rest = B(v) − v, and max |rest| and max |v| of each lane; gap is no number if q is."""
    indptr, indices, probabilities, forbidden = world.indptr, world.indices, world.probabilities, world.forbidden
    num_states, num_actions = world.num_states, world.num_actions
    per_state = len(rewards) // num_states
    zero, one, c, own = spread(0.0), spread(1.0), load(temperature, 0), load(ratio, 0)
    most, size, broken = zero, spread(1e-300), zero
    for s in range(num_states):
        store(ahead, s, own * load(v, s))
    for s in range(num_states):
        pair = s * num_actions
        best, here = spread(FORBIDDEN), load(v, s)
        for a in range(num_actions):
            q = spread(FORBIDDEN)
            if not forbidden[pair + a]:
                q = load(rewards, s * per_state + a if per_state > 1 else s)
                for k in range(indptr[pair + a], indptr[pair + a + 1]):
                    q = fused(spread_from(probabilities, k), load(ahead, indices[k]), q)
                broken = fused(q, zero, broken)  # 0 · q is 0 if q is a finite number
            store(policy, pair + a, q)
            best = where_greater(q, best, q, best)
        if is_soft:
            total = zero
            for a in range(num_actions):
                below = load(policy, pair + a) - best
                share = where_greater(zero, below, exponential(c * below), one)  # c may be infinite
                store(policy, pair + a, share)
                total = total + share
            inverse = one / total
            for a in range(num_actions):
                store(policy, pair + a, load(policy, pair + a) * inverse)
            best = best + logarithm(total) / c
        else:
            left = one
            for a in range(num_actions):
                weight = where_greater(best, load(policy, pair + a), zero, left)
                store(policy, pair + a, weight)
                left = left - weight
        off = best - here
        store(rest, s, off)
        off = where_greater(off, zero, off, zero - off)
        most = where_greater(off, most, off, most)
        size = where_greater(here, size, here, where_greater(zero - here, size, zero - here, size))
        size = where_greater(best, size, best, where_greater(zero - best, size, zero - best, size))
    store(gap, 0, most + broken)
    store(largest, 0, size)


@inner
def adjoint_lanes(world, plans, policies, q_gradient, value_adjoint, first, count):
    """value_adjoint as in `warm_start.adjoint` for first, …, first + count − 1; whether all lanes have converged."""
    indptr, indices, probabilities = world.indptr, world.indices, world.probabilities
    num_states, num_actions = world.num_states, world.num_actions
    factors, holder = plans.lane_factors, plans.lane_holder
    slot = first // LANES % len(holder)
    policy, w = lane_array(num_states * num_actions, LANES), lane_array(num_states, LANES)
    work = lane_array(num_states, LANES)
    arrived, rest, ratio = lane_array(num_states, LANES), lane_array(num_states, LANES), lane_array(1, LANES)
    before, sizes, has_converged = np.full(LANES, np.inf), lane_array(3, LANES), np.zeros(LANES, dtype=np.bool_)
    for lane in range(LANES):
        ratio[0, lane] = plans.ratio[_owner(first, count, lane)]
    for s in range(num_states):
        store(arrived, s, spread(0.0))
    for pair in range(len(policy)):
        s, a = pair // num_actions, pair % num_actions
        for lane in range(LANES):
            n = _owner(first, count, lane)
            policy[pair, lane] = policies[n, s, a]
            flow = ratio[0, lane] * q_gradient[n, s, a]
            if flow != 0.0:
                for k in range(indptr[pair], indptr[pair + 1]):
                    arrived[indices[k], lane] += probabilities[k] * flow
    for s in range(num_states):
        store(rest, s, load(arrived, s))
        store(w, s, spread(0.0))
    is_done, price, are_new = False, price_of_factors(world), holder[slot] != first
    if are_new:
        _factorise_lanes(world, ratio, policy, factors, slot, work)
        holder[slot] = first
    for _ in range(REFINEMENTS):
        is_done, is_slow = True, False
        for row, x in enumerate((rest, w, arrived)):
            _largest(x, sizes, row)
        for lane in range(count):
            gap, largest = sizes[0, lane], max(sizes[1, lane], sizes[2, lane])
            # once it is: residuals at rounding rise and fall, and hardly ever all at the same time
            is_small = gap <= 16.0 * EPSILON * largest or (gap > 0.5 * before[lane] and gap <= ROUNDING * largest)
            has_converged[lane] = has_converged[lane] or is_small
            if not has_converged[lane]:
                is_done = False
                is_slow = is_slow or are_worn(gap, before[lane], largest, price, are_new)
            before[lane] = gap
        if is_done:
            break
        if is_slow and not are_new:
            _factorise_lanes(world, ratio, policy, factors, slot, work)
            are_new = True  # of these very policies: others would be no better
        _solve_transposed_lanes(world, factors, slot, rest, work)
        for s in range(num_states):
            store(w, s, load(w, s) + load(rest, s))
            store(rest, s, load(arrived, s) - load(w, s))
        for s in range(num_states):
            for a in range(num_actions):
                flow = load(ratio, 0) * load(policy, s * num_actions + a) * load(w, s)
                for k in range(indptr[s * num_actions + a], indptr[s * num_actions + a + 1]):
                    j = indices[k]
                    store(rest, j, fused(spread_from(probabilities, k), flow, load(rest, j)))
    for lane in range(count):
        for s in range(num_states):
            value_adjoint[first + lane, s] = w[s, lane]
    return is_done


@inner
def _largest(x, sizes, row):
    """max |x| of each lane, into a row of `sizes`; no number where one of x is none."""
    zero = spread(0.0)
    most, broken = zero, zero
    for s in range(len(x)):
        one = load(x, s)
        broken = fused(one, zero, broken)
        one = where_greater(one, zero, one, zero - one)
        most = where_greater(one, most, one, most)
    store(sizes, row, most + broken)


@inner
def _factorise_lanes(world, ratio, policy, factors, slot, work):
    """As `factors.factorise`, for policies [S·A] of all lanes."""
    indptr, probabilities, num_actions = world.indptr, world.probabilities, world.num_actions
    elimination = world.elimination
    order, columns, starts = elimination.order, elimination.columns, elimination.indptr
    indices, diagonal, is_nested = elimination.indices, elimination.diagonal, elimination.is_nested
    row = factors[slot]
    zero, one = spread(0.0), spread(1.0)
    for i in range(world.num_states):
        begin, end, middle = starts[i], starts[i + 1], diagonal[i]
        for e in range(begin, end):
            store(work, indices[e], zero)
        store(work, i, one)
        for pair in range(order[i] * num_actions, (order[i] + 1) * num_actions):
            share = zero - load(ratio, 0) * load(policy, pair)
            for k in range(indptr[pair], indptr[pair + 1]):
                j = columns[k]
                store(work, j, fused(share, spread_from(probabilities, k), load(work, j)))
        e = begin
        while e < middle:
            k = indices[e]
            f0 = load(work, k) * load_single(row, diagonal[k])
            store_single(row, e, f0)
            f0 = zero - f0
            at0 = diagonal[k] + 1
            if e + 1 == middle or not is_nested[k]:
                for f in range(at0, starts[k + 1]):
                    j = indices[f]
                    store(work, j, fused(f0, load_single(row, f), load(work, j)))
                e += 1
                continue
            at1 = diagonal[k + 1] + 1
            f1 = fused(f0, load_single(row, at0), load(work, k + 1)) * load_single(row, at1 - 1)
            store_single(row, e + 1, f1)
            f1 = zero - f1
            if e + 3 >= middle or not (is_nested[k + 1] and is_nested[k + 2]):
                for f in range(starts[k + 2] - at1):
                    j = indices[at1 + f]
                    total = fused(f0, load_single(row, at0 + 1 + f), load(work, j))
                    store(work, j, fused(f1, load_single(row, at1 + f), total))
                e += 2
                continue
            at2, at3 = diagonal[k + 2] + 1, diagonal[k + 3] + 1
            total = fused(f0, load_single(row, at0 + 1), load(work, k + 2))
            f2 = fused(f1, load_single(row, at1), total) * load_single(row, at2 - 1)
            store_single(row, e + 2, f2)
            f2 = zero - f2
            total = fused(f0, load_single(row, at0 + 2), load(work, k + 3))
            total = fused(f2, load_single(row, at2), fused(f1, load_single(row, at1 + 1), total))
            f3 = total * load_single(row, at3 - 1)
            store_single(row, e + 3, f3)
            f3 = zero - f3
            at0, at1, at2 = at0 + 3, at1 + 2, at2 + 1
            for f in range(starts[k + 4] - at3):
                j = indices[at3 + f]
                total = fused(f0, load_single(row, at0 + f), load(work, j))
                total = fused(f1, load_single(row, at1 + f), total)
                total = fused(f2, load_single(row, at2 + f), total)
                store(work, j, fused(f3, load_single(row, at3 + f), total))
            e += 4
        store_single(row, middle, one / load(work, i))
        for e in range(middle + 1, end):
            store_single(row, e, load(work, indices[e]))


@inner
def _solve_lanes(world, factors, slot, x, work):
    """x becomes (L U)⁻¹ x in every lane."""
    elimination = world.elimination
    order, starts = elimination.order, elimination.indptr
    indices, diagonal = elimination.indices, elimination.diagonal
    row, num_states = factors[slot], world.num_states
    zero = spread(0.0)
    for i in range(num_states):
        total = zero
        for e in range(starts[i], diagonal[i]):
            total = fused(load_single(row, e), load(work, indices[e]), total)
        store(work, i, load(x, order[i]) - total)
    for i in range(num_states - 1, -1, -1):
        total = zero
        for e in range(diagonal[i] + 1, starts[i + 1]):
            total = fused(load_single(row, e), load(work, indices[e]), total)
        total = (load(work, i) - total) * load_single(row, diagonal[i])
        store(work, i, total)
        store(x, order[i], total)


@inner
def _solve_transposed_lanes(world, factors, slot, x, work):
    """x becomes ((L U)ᵀ)⁻¹ x in every lane."""
    elimination = world.elimination
    order, starts = elimination.order, elimination.indptr
    indices, diagonal = elimination.indices, elimination.diagonal
    row, num_states = factors[slot], world.num_states
    zero = spread(0.0)
    for i in range(num_states):
        store(work, i, load(x, order[i]))
    for i in range(num_states):
        share = load(work, i) * load_single(row, diagonal[i])
        store(work, i, share)
        share = zero - share
        for e in range(diagonal[i] + 1, starts[i + 1]):
            j = indices[e]
            store(work, j, fused(load_single(row, e), share, load(work, j)))
    for i in range(num_states - 1, -1, -1):
        share = load(work, i)
        store(x, order[i], share)
        share = zero - share
        for e in range(starts[i], diagonal[i]):
            j = indices[e]
            store(work, j, fused(load_single(row, e), share, load(work, j)))
