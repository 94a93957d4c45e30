"""Exact planning for many rewards in one environment, compiled, a block of WIDTH rewards at a time (`blocks`).

    backup      q = r + T v                                  one Bellman backup; T is times γ
    improve     π greedy, or softmax(c q)                    policy improvement
    evaluate    (I − T_π) v = r_π + H(π) / c                 one linear solve

repeated until no action is better than the one taken by more than rounding. For greedy optimality this is policy
iteration; for soft optimality (H is the entropy, c the inverse temperature) it is Newton's method on the soft Bellman
equation. A few sweeps of value iteration first spare most of the linear solves. The adjoint of a plan,

    (I − T_π)ᵀ w = Tᵀ g,

gives the gradient g + w π in the rewards of a function of q with gradient g.
"""

import numpy as np

from manymotives.jit import compiled, inner
from manymotives.planning.blocks import (
    adjoint_block,
    backup,
    best_values,
    evaluate_block,
    fill,
    first_greedy,
    greedy_improvement,
    lane_array,
    load_block,
    rounding,
    scale,
    soft_improvement,
    store_block,
)
from manymotives.planning.simd import WIDTH, any_greater, gather, load, scatter, spread, store


@compiled
def plan_batch(
    transitions,
    forbidden,
    rewards,
    temperatures,
    ratios,
    first_policy,
    sweeps,
    limit,
    begin,
    end,
    q,
    value,
    actions,
    residual,
    solves,
):
    """Fill q [N, S, A], value [N, S], actions [N, S], residual [N], solves [N] for rewards [N, S, 1 or A].

    N is a multiple of WIDTH.
    transitions [S·A, S] are already multiplied by the discount; ratios [B] are what the discounts of rewards are of it,
    or empty where they have none of their own; temperatures [B] are inverse temperatures, or an empty array for greedy
    optimality; first_policy [B, S] holds actions to start from, or is empty. Only rewards
    begin, …, end − 1 are planned for, so that threads can share the arrays; begin is a multiple of WIDTH.
    """
    _, num_states, _ = rewards.shape
    num_pairs = forbidden.size
    num_actions = num_pairs // num_states
    soft = temperatures.size > 0
    warm = first_policy.size > 0
    own_discounts = ratios.size > 0
    r = lane_array(num_pairs)
    p = lane_array(num_pairs)
    block_q = lane_array(num_pairs)
    v = lane_array(num_states)
    bonus = lane_array(num_states)
    fill(bonus, 0.0)
    upper = lane_array(num_states * num_states)
    c = np.ones(WIDTH)
    tolerance = lane_array(1)
    gap = lane_array(1)
    ratio, diagonal = lane_array(1), lane_array(1)
    fill(diagonal, 1.0)
    for first in range(begin, end, WIDTH):
        load_block(rewards, forbidden, first, r)
        if soft:
            for lane in range(WIDTH):
                c[lane] = temperatures[first + lane]
        if own_discounts:
            for lane in range(WIDTH):
                ratio[0, lane] = ratios[first + lane]
                diagonal[0, lane] = 1.0 / ratio[0, lane]
        if warm:
            fill(bonus, 0.0)  # a given policy is deterministic
            for s in range(num_states):
                for a in range(num_actions):
                    for lane in range(WIDTH):
                        p[s * num_actions + a, lane] = 1.0 if first_policy[first + lane, s] == a else 0.0
        else:
            best_values(r, v)
            for _ in range(sweeps):
                if own_discounts:
                    scale(v, ratio)
                backup(transitions, r, v, block_q)
                best_values(block_q, v)
            if own_discounts:
                scale(v, ratio)
            backup(transitions, r, v, block_q)
            if soft:
                soft_improvement(block_q, c, p, v, bonus, gap)
            else:
                first_greedy(block_q, v, p)
        store(gap, 0, spread(np.inf))  # nothing known yet, should the loop not run at all
        used = 0
        while used < limit:
            used += 1
            evaluate_block(transitions, r, p, bonus, diagonal, upper, v)
            backup(transitions, r, v, block_q)
            if own_discounts:
                scale(v, diagonal)
            rounding(v, tolerance)
            if soft:
                soft_improvement(block_q, c, p, v, bonus, gap)
                if not any_greater(load(gap, 0), load(tolerance, 0)):
                    break
            elif not greedy_improvement(block_q, p, v, tolerance, gap):
                break
        scatter(residual, first, 1, load(gap, 0))
        for lane in range(WIDTH):
            solves[first + lane] = used
        store_block(block_q, v, forbidden, tolerance, first, q, value, actions)


@compiled
def evaluate_batch(transitions, policies, rewards, ratios, begin, end, value):
    """Fill value [N, S] with V^π for policies [N, S, A] and rewards [N, S, 1 or A]; N is a multiple of WIDTH.

    `ratios` as for `plan_batch`.
    """
    _, num_states, num_actions = policies.shape
    num_pairs = num_states * num_actions
    all_allowed = np.zeros(num_pairs, dtype=np.bool_)  # a policy plays nothing forbidden
    r = lane_array(num_pairs)
    p = lane_array(num_pairs)
    v = lane_array(num_states)
    bonus = lane_array(num_states)
    fill(bonus, 0.0)
    upper = lane_array(num_states * num_states)
    diagonal = lane_array(1)
    fill(diagonal, 1.0)
    for first in range(begin, end, WIDTH):
        load_block(rewards, all_allowed, first, r)
        load_block(policies, all_allowed, first, p)
        if ratios.size > 0:
            for lane in range(WIDTH):
                diagonal[0, lane] = 1.0 / ratios[first + lane]
        evaluate_block(transitions, r, p, bonus, diagonal, upper, v)
        if ratios.size > 0:
            scale(v, diagonal)
        for s in range(num_states):
            scatter(value, first * num_states + s, num_states, load(v, s))


@inner
def adjoint_batch(transitions, ratios, policies, q_gradient, end, value_adjoint):
    """Fill value_adjoint [N, S], w above, of functions of q with gradients q_gradient [N, S, A]."""
    _, num_states, num_actions = policies.shape
    num_pairs = num_states * num_actions
    g = lane_array(num_pairs)
    p = lane_array(num_pairs)
    w = lane_array(num_states)
    upper = lane_array(num_states * num_states)
    diagonal = lane_array(1)
    fill(diagonal, 1.0)
    for first in range(0, end, WIDTH):
        if ratios.size > 0:
            for lane in range(WIDTH):
                diagonal[0, lane] = 1.0 / ratios[first + lane]
        for i in range(num_pairs):
            store(g, i, gather(q_gradient, first * num_pairs + i, num_pairs))
            store(p, i, gather(policies, first * num_pairs + i, num_pairs))
        adjoint_block(transitions, g, p, diagonal, upper, w)
        for s in range(num_states):
            scatter(value_adjoint, first * num_states + s, num_states, load(w, s))


@compiled
def sparse_sweep(indptr, indices, probabilities, ratio, rewards, temperature, value, forwards):
    """One Gauss–Seidel sweep of value iteration, in place, over transitions in CSR form (times γ / ratio).

    rewards [S, A]; temperature 0 stands for greedy optimality.
    """
    num_states, num_actions = rewards.shape
    q = np.empty(num_actions)
    for n in range(num_states):
        s = n if forwards else num_states - 1 - n
        best = -np.inf
        for a in range(num_actions):
            i = s * num_actions + a
            elsewhere, here = rewards[s, a], 0.0
            for k in range(indptr[i], indptr[i + 1]):
                if indices[k] == s:
                    here += ratio * probabilities[k]
                else:
                    elsewhere += ratio * probabilities[k] * value[indices[k]]
            # greedy: a state's own value is solved for, not waited for
            q[a] = elsewhere + here * value[s] if temperature > 0 else elsewhere / (1.0 - here)
            best = max(best, q[a])
        if temperature > 0:
            total = 0.0
            for a in range(num_actions):
                total += 1.0 if q[a] == best else np.exp(temperature * (q[a] - best))  # it may be infinite
            best += np.log(total) / temperature
        value[s] = best
