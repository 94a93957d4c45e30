"""One block of WIDTH rewards, one in each SIMD lane: Bellman backups, policy improvement, linear solves; compiled.

For one lane:  p[s·A + a] = π(a|s),  r[s·A + a] = ρ(s, a),  T already times γ.

    backup        q = r + T v
    improvement   π greedy, or softmax(c q) with v = log Σ exp(c q) / c
    evaluation    (I − T_π) v = r_π + H(π) / c            by elimination without pivoting: row diagonally dominant
    adjoint       (I − T_π)ᵀ w = Tᵀ g                     column diagonally dominant

Forbidden actions have the reward FORBIDDEN and no transitions, so they need no special case; in terminal states one
nominal action is allowed and leads nowhere.

A lane may have a discount of its own, k times that in T: (I − k T_π) v = x is (I / k − T_π) (k v) = x, with another
diagonal alone, and its backup is that of k v. `diagonal` is 1 / k, and exactly 1 where no lane has one.
"""

import math

import numpy as np

from manymotives.jit import inner
from manymotives.planning.simd import (
    WIDTH,
    any_greater,
    fused,
    gather,
    load,
    scatter,
    spread,
    spread_from,
    store,
    where_greater,
)

FORBIDDEN = -1e300
EPSILON = 2.0**-52


@inner
def load_block(rewards, forbidden, first, r):
    """r[s·A + a, lane] = rewards[first + lane, s, a], or what the state gives where rewards lie on states."""
    _, num_states, per_state = rewards.shape
    num_actions = r.shape[0] // num_states
    width = num_states * per_state
    for s in range(num_states):
        x = gather(rewards, first * width + s * per_state, width)
        for a in range(num_actions):
            if per_state > 1:
                x = gather(rewards, first * width + s * per_state + a, width)
            store(r, s * num_actions + a, spread(FORBIDDEN) if forbidden[s * num_actions + a] else x)


@inner
def backup(transitions, r, v, q):
    """q = r + T v; four rows at a time, so that each value read serves four of them."""
    num_pairs, num_states = transitions.shape
    i = 0
    while i + 4 <= num_pairs:
        q0, q1, q2, q3 = load(r, i), load(r, i + 1), load(r, i + 2), load(r, i + 3)
        row0 = i * num_states
        row1, row2, row3 = row0 + num_states, row0 + 2 * num_states, row0 + 3 * num_states
        for j in range(num_states):
            x = load(v, j)
            q0 = fused(spread_from(transitions, row0 + j), x, q0)
            q1 = fused(spread_from(transitions, row1 + j), x, q1)
            q2 = fused(spread_from(transitions, row2 + j), x, q2)
            q3 = fused(spread_from(transitions, row3 + j), x, q3)
        store(q, i, q0)
        store(q, i + 1, q1)
        store(q, i + 2, q2)
        store(q, i + 3, q3)
        i += 4
    while i < num_pairs:
        q0 = load(r, i)
        for j in range(num_states):
            q0 = fused(spread_from(transitions, i * num_states + j), load(v, j), q0)
        store(q, i, q0)
        i += 1


@inner
def fill(v, number):
    """The same number everywhere."""
    for s in range(v.shape[0]):
        store(v, s, spread(number))


@inner
def scale(v, factor):
    """v times a factor of each lane."""
    for s in range(v.shape[0]):
        store(v, s, load(v, s) * load(factor, 0))


@inner
def best_values(q, v):
    """v(s) = max_a q(s, a)."""
    num_states = v.shape[0]
    num_actions = q.shape[0] // num_states
    for s in range(num_states):
        best = load(q, s * num_actions)
        for a in range(1, num_actions):
            x = load(q, s * num_actions + a)
            best = where_greater(x, best, x, best)
        store(v, s, best)


@inner
def first_greedy(q, v, p):
    """p one-hot at the first best action."""
    num_states = v.shape[0]
    num_actions = q.shape[0] // num_states
    zero, one = spread(0.0), spread(1.0)
    best_values(q, v)
    for s in range(num_states):
        best, left = load(v, s), one
        for a in range(num_actions):
            weight = where_greater(best, load(q, s * num_actions + a), zero, left)
            store(p, s * num_actions + a, weight)
            left = left - weight


@inner
def greedy_improvement(q, p, v, tolerance, gap):
    """Switch to the best action where it beats the one taken by more than rounding; else keep it.

    Keeping the action in ties is what stops equal actions from taking turns for ever. Says whether any lane
    switched, leaves v(s) = max_a q(s, a), and in `gap` the Bellman residual of the v that made q.
    """
    num_states = v.shape[0]
    num_actions = q.shape[0] // num_states
    zero, one = spread(0.0), spread(1.0)
    slack = load(tolerance, 0)
    switched = False
    largest = zero
    for s in range(num_states):
        best, taken = load(q, s * num_actions), zero
        for a in range(num_actions):
            x = load(q, s * num_actions + a)
            best = where_greater(x, best, x, best)
            taken = fused(x, load(p, s * num_actions + a), taken)
        if any_greater(best, taken + slack):
            switched = True
            left = one
            for a in range(num_actions):
                i = s * num_actions + a
                weight = where_greater(best, load(q, i), zero, left)
                left = left - weight
                store(p, i, where_greater(best, taken + slack, weight, load(p, i)))
        off = best - load(v, s)
        off = where_greater(off, zero, off, zero - off)
        largest = where_greater(off, largest, off, largest)
        store(v, s, best)
    store(gap, 0, largest)
    return switched


@inner
def soft_improvement(q, c, p, v, bonus, gap):
    """π = softmax(c q), v = log Σ exp(c q) / c, bonus = H(π) / c; in `gap` the change of v."""
    num_states = v.shape[0]
    num_actions = q.shape[0] // num_states
    for lane in range(WIDTH):
        gap[0, lane] = 0.0
        for s in range(num_states):
            pair = s * num_actions
            best = q[pair, lane]
            for a in range(1, num_actions):
                best = max(best, q[pair + a, lane])
            total = 0.0
            for a in range(num_actions):
                below = q[pair + a, lane] - best
                weight = 1.0 if below == 0.0 else math.exp(c[lane] * below)  # c may be infinite
                p[pair + a, lane] = weight
                total += weight
            expected = 0.0  # of q above `best`: entropy without cancelling large numbers
            for a in range(num_actions):
                p[pair + a, lane] /= total
                if p[pair + a, lane] > 0:
                    expected += p[pair + a, lane] * (q[pair + a, lane] - best)
            above = math.log(total) / c[lane]
            bonus[s, lane] = above - expected
            gap[0, lane] = max(gap[0, lane], abs(best + above - v[s, lane]))
            v[s, lane] = best + above


@inner
def evaluate_block(transitions, r, p, bonus, diagonal, upper, v):
    """Solve (diagonal − T_π) v = r_π + bonus by elimination, row by row; `upper` is scratch [S·S, WIDTH]."""
    num_states = v.shape[0]
    num_actions = transitions.shape[0] // num_states
    zero, one = spread(0.0), load(diagonal, 0)
    for i in range(num_states):
        row, pair = i * num_states, i * num_actions
        rhs = load(bonus, i)
        for a in range(num_actions):
            rhs = fused(load(p, pair + a), load(r, pair + a), rhs)
        store(v, i, rhs)
        for j in range(num_states):
            x = zero
            for a in range(num_actions):
                x = fused(load(p, pair + a), spread_from(transitions, (pair + a) * num_states + j), x)
            store(upper, row + j, zero - x)
        store(upper, row + i, load(upper, row + i) + one)
        clear_row(upper, v, i)
    substitute_back(upper, v)


@inner
def adjoint_block(transitions, g, p, diagonal, upper, w):
    """Solve (diagonal − T_π)ᵀ w = Tᵀ g: then g + w π is the gradient in r of a function of q with gradient g."""
    num_states = w.shape[0]
    num_pairs = transitions.shape[0]
    num_actions = num_pairs // num_states
    zero, one = spread(0.0), load(diagonal, 0)
    for i in range(num_states):
        row = i * num_states
        rhs = zero
        for j in range(num_states):
            pair = j * num_actions
            x = zero
            for a in range(num_actions):
                t = spread_from(transitions, (pair + a) * num_states + i)
                x = fused(load(p, pair + a), t, x)
                rhs = fused(load(g, pair + a), t, rhs)
            store(upper, row + j, zero - x)
        store(upper, row + i, load(upper, row + i) + one)
        store(w, i, rhs)
        clear_row(upper, w, i)
    substitute_back(upper, w)


@inner
def clear_row(upper, v, i):
    """Clear row i of a system by all earlier rows (two at a time: half the traffic) and invert its pivot."""
    num_states = v.shape[0]
    row = i * num_states
    zero, one = spread(0.0), spread(1.0)
    rhs = load(v, i)
    k = 0
    while k + 2 <= i:
        row0, row1 = k * num_states, (k + 1) * num_states
        f0 = zero - load(upper, row + k) * load(upper, row0 + k)
        entry = fused(f0, load(upper, row0 + k + 1), load(upper, row + k + 1))
        f1 = zero - entry * load(upper, row1 + k + 1)
        for j in range(k + 2, num_states):
            x = fused(f0, load(upper, row0 + j), load(upper, row + j))
            store(upper, row + j, fused(f1, load(upper, row1 + j), x))
        rhs = fused(f1, load(v, k + 1), fused(f0, load(v, k), rhs))
        k += 2
    if k < i:
        row0 = k * num_states
        f0 = zero - load(upper, row + k) * load(upper, row0 + k)
        for j in range(k + 1, num_states):
            store(upper, row + j, fused(f0, load(upper, row0 + j), load(upper, row + j)))
        rhs = fused(f0, load(v, k), rhs)
    store(v, i, rhs)
    store(upper, row + i, one / load(upper, row + i))


@inner
def substitute_back(upper, v):
    """v from the cleared system."""
    num_states = v.shape[0]
    zero = spread(0.0)
    for i in range(num_states - 1, -1, -1):
        row = i * num_states
        x = load(v, i)
        for j in range(i + 1, num_states):
            x = fused(zero - load(upper, row + j), load(v, j), x)
        store(v, i, x * load(upper, row + i))


@inner
def rounding(v, tolerance):
    """What float64 cannot tell apart in a backup of v: the error bound of a dot product, S ε max|v|, twice."""
    largest = spread(0.0)
    for s in range(v.shape[0]):
        x = load(v, s)
        x = where_greater(x, spread(0.0), x, spread(0.0) - x)
        largest = where_greater(x, largest, x, largest)
    store(tolerance, 0, largest * spread(EPSILON * max(64.0, 2.0 * v.shape[0])))


@inner
def store_block(block_q, v, forbidden, tolerance, first, q, value, actions):
    """Write one block's results; of actions that rounding cannot tell apart, the one with the lowest index."""
    num_states = v.shape[0]
    num_pairs = forbidden.size
    num_actions = num_pairs // num_states
    slack = load(tolerance, 0)
    for s in range(num_states):
        best = load(block_q, s * num_actions)
        for a in range(1, num_actions):
            x = load(block_q, s * num_actions + a)
            best = where_greater(x, best, x, best)
        chosen = spread(0.0)
        for a in range(num_actions - 1, -1, -1):
            i = s * num_actions + a
            x = load(block_q, i)
            chosen = where_greater(best - slack, x, chosen, spread(float(a)))
            scatter(q, first * num_pairs + i, num_pairs, spread(-np.inf) if forbidden[i] else x)
        scatter(value, first * num_states + s, num_states, load(v, s))
        scatter(actions, first * num_states + s, num_states, chosen)


@inner
def lane_array(rows, width=WIDTH):
    """Scratch [rows, width] that begins on a cache line, so that no vector straddles two."""
    raw = np.empty(rows * width + 8)
    skip = (-(raw.ctypes.data // 8)) % 8
    return raw[skip : skip + rows * width].reshape(rows, width)
