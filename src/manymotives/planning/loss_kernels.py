"""The loss of many policies for many rewards, as compiled loops over blocks of WIDTH rewards.

    d_j(s, a) = V*_j(s) − Q*_j(s, a)                      what an action costs: not negative, known from planning
    V*_j − V^π_j = (I − γP_π)^{-1} Σ_a π(a|·) d_j(·, a)   (subtract the Bellman equations of π from those of V*)

so a policy needs one inverse, and each reward one product with it, of which only the largest entry is kept: nothing
of size policies × rewards × states is ever stored. All terms are non-negative, so nothing cancels: small losses have
all their digits, and the loss of an optimal policy is zero.
"""

import numpy as np

from manymotives.jit import compiled, inner
from manymotives.planning.simd import WIDTH, fused, load, spread, spread_from, store, where_greater

POLICIES = 16  # whose inverses are held in the cache while the rewards pass by


@compiled
def fill_losses(transitions, policies, regrets, begin, end, out):
    """Fill out[begin:end] of [K, tiles · WIDTH] with max_s V*_j(s) − V^π(s).

    transitions [S·A, S] are already multiplied by the discount; policies [K, S, A]; regrets [tiles, S·A, WIDTH].
    """
    num_tiles = regrets.shape[0]
    _, num_states, num_actions = policies.shape
    columns = (num_states + WIDTH - 1) // WIDTH
    inverses = np.empty((POLICIES, num_states, columns * WIDTH))
    gain = np.empty((num_states, WIDTH))
    for first in range(begin, end, POLICIES):
        last = min(first + POLICIES, end)
        for k in range(first, last):
            discounted_visits(transitions, policies, k, inverses, k - first, columns)
        for tile in range(num_tiles):
            for k in range(first, last):
                for s in range(num_states):
                    x = spread(0.0)
                    for a in range(num_actions):
                        pair = s * num_actions + a
                        cost = load(regrets, tile * num_states * num_actions + pair)
                        x = fused(spread_from(policies, k * num_states * num_actions + pair), cost, x)
                    store(gain, s, x)
                row = (k - first) * num_states * columns * WIDTH
                store(out, k * num_tiles + tile, largest_of_product(inverses, row, columns * WIDTH, gain))


@inner
def largest_of_product(matrices, begin, stride, x):
    """max_s (G x)(s), where G's rows begin at `begin` and lie `stride` apart; eight rows at a time, or four, or one."""
    num_states = x.shape[0]
    zero = spread(0.0)
    best = zero
    s = 0
    while s + 8 <= num_states:
        row = begin + s * stride
        y0, y1, y2, y3, y4, y5, y6, y7 = zero, zero, zero, zero, zero, zero, zero, zero
        for j in range(num_states):
            part = load(x, j)
            y0 = fused(spread_from(matrices, row + j), part, y0)
            y1 = fused(spread_from(matrices, row + stride + j), part, y1)
            y2 = fused(spread_from(matrices, row + 2 * stride + j), part, y2)
            y3 = fused(spread_from(matrices, row + 3 * stride + j), part, y3)
            y4 = fused(spread_from(matrices, row + 4 * stride + j), part, y4)
            y5 = fused(spread_from(matrices, row + 5 * stride + j), part, y5)
            y6 = fused(spread_from(matrices, row + 6 * stride + j), part, y6)
            y7 = fused(spread_from(matrices, row + 7 * stride + j), part, y7)
        best = larger(best, larger(larger(larger(y0, y1), larger(y2, y3)), larger(larger(y4, y5), larger(y6, y7))))
        s += 8
    while s + 4 <= num_states:
        row = begin + s * stride
        y0, y1, y2, y3 = zero, zero, zero, zero
        for j in range(num_states):
            part = load(x, j)
            y0 = fused(spread_from(matrices, row + j), part, y0)
            y1 = fused(spread_from(matrices, row + stride + j), part, y1)
            y2 = fused(spread_from(matrices, row + 2 * stride + j), part, y2)
            y3 = fused(spread_from(matrices, row + 3 * stride + j), part, y3)
        best = larger(best, larger(larger(y0, y1), larger(y2, y3)))
        s += 4
    while s < num_states:
        y0 = zero
        for j in range(num_states):
            y0 = fused(spread_from(matrices, begin + s * stride + j), load(x, j), y0)
        best = larger(best, y0)
        s += 1
    return best


@inner
def larger(a, b):
    return where_greater(a, b, a, b)


@inner
def discounted_visits(transitions, policies, k, inverses, slot, columns):
    """inverses[slot] = (I − γP_π)^{-1} for policy k, columns padded with zeros to whole lanes.

    Gauss–Jordan in place; the matrix is row diagonally dominant, so no pivoting is needed.
    """
    num_states, num_actions = policies.shape[1:]
    base = slot * num_states * columns
    for s in range(num_states):
        for j in range(num_states):
            total = 0.0
            for a in range(num_actions):
                total += policies[k, s, a] * transitions[s * num_actions + a, j]
            inverses[slot, s, j] = (1.0 if s == j else 0.0) - total
        for j in range(num_states, columns * WIDTH):
            inverses[slot, s, j] = 0.0
    for p in range(num_states):
        pivot = 1.0 / inverses[slot, p, p]
        inverses[slot, p, p] = 1.0
        for block in range(columns):
            position = base + p * columns + block
            store(inverses, position, load(inverses, position) * spread(pivot))
        for s in range(num_states):
            if s != p:
                factor = spread(-inverses[slot, s, p])
                inverses[slot, s, p] = 0.0
                for block in range(columns):
                    position = base + s * columns + block
                    cleared = fused(factor, load(inverses, base + p * columns + block), load(inverses, position))
                    store(inverses, position, cleared)
