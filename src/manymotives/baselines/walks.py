"""The grid walk of `policy_walk`, compiled: one reward moves a little, and the policy that was optimal is tried again.

With W = (I − γ P_π)⁻¹ at hand, a reward that changes by δ in state k changes V^π by δ W(·, k), and one backup tells
whether π is still optimal. If not, another action in one state changes one row of I − γ P_π, and W by a product of two
vectors (Sherman & Morrison).
"""

import math

import numpy as np

from manymotives.jit import compiled, inner
from manymotives.models.likelihood import log_likelihood, weights_workspace

UNIFORM, GAUSSIAN, LAPLACIAN = range(3)
LIMIT = 1000  # improvements of a policy
TIED = 1e-11  # of the largest value: no action is better by less
EXACT = 1e-10  # of the largest value: how far V may be from its own backup before W is made anew


@compiled
def walk_on(
    world, counts, cells, per_state, spacing, limit, prior, scale, temperature, normalised, uniforms, thin, grid,
    actions, inverse, draws
):  # fmt: skip
    """Walk len(uniforms) steps from `grid` [C], whole numbers of `spacing` at `cells` [C] of the reward.

    actions [S] and inverse [S, S] are an optimal policy there and its W (any policy, and W of it, at first). Every
    `thin` steps the grid point is a row of draws [steps // thin, C]. counts [1, S, A]; uniforms [steps, 3]. Returns how
    many steps were taken.
    """
    num_states, num_actions = world.num_states, world.num_actions
    size = len(cells)
    reward = np.zeros((num_states, per_state))
    for k in range(size):
        reward[cells[k] // per_state, cells[k] % per_state] = spacing * grid[k]
    value, trial = np.zeros(num_states), np.zeros(num_states)
    q = np.zeros((1, num_states, num_actions))
    new_actions, new_inverse = actions.copy(), inverse.copy()
    _evaluate(reward, new_actions, new_inverse, trial)
    _improve(world, reward, new_actions, new_inverse, trial, q)
    _copy(new_actions, new_inverse, actions, inverse)
    for t in range(num_states):
        value[t] = trial[t]
    height = _height(q, counts, temperature, normalised)
    taken = 0
    for step in range(len(uniforms)):
        k = min(int(uniforms[step, 0] * size), size - 1)
        move = 1 if uniforms[step, 1] < 0.5 else -1
        if abs(grid[k] + move) <= limit:  # beyond the edge the prior is zero: stay
            s, a = cells[k] // per_state, cells[k] % per_state
            before, after = spacing * grid[k], spacing * (grid[k] + move)
            reward[s, a] = after
            is_played = per_state == 1 or actions[s] == a
            for t in range(num_states):
                trial[t] = value[t] + (after - before) * inverse[t, s] if is_played else value[t]
            backup(world, reward, trial, q)
            holds = _is_optimal(q, actions, trial)
            if not holds:
                _copy(actions, inverse, new_actions, new_inverse)
                planned = _improve(world, reward, new_actions, new_inverse, trial, q)
            found = _height(q, counts, temperature, normalised)
            gained = found - height
            if prior == GAUSSIAN:
                gained += (before * before - after * after) / (2.0 * scale * scale)
            elif prior == LAPLACIAN:
                gained += (abs(before) - abs(after)) / scale
            if (holds or planned) and (gained >= 0.0 or uniforms[step, 2] < math.exp(gained)):
                grid[k] += move
                height = found
                taken += 1
                for t in range(num_states):
                    value[t] = trial[t]
                if not holds:
                    _copy(new_actions, new_inverse, actions, inverse)
            else:
                reward[s, a] = before
        if (step + 1) % thin == 0:
            for c in range(size):
                draws[step // thin, c] = spacing * grid[c]
    return taken


@inner
def _copy(actions, inverse, to_actions, to_inverse):
    """A policy and its W; in loops, which compile in less time than assignments of whole arrays."""
    for s in range(len(actions)):
        to_actions[s] = actions[s]
        for t in range(len(actions)):
            to_inverse[s, t] = inverse[s, t]


@inner
def backup(world, reward, value, q):
    """q[0] = r + γ P v; −inf where an action does not exist."""
    per_state = reward.shape[1]
    for s in range(world.num_states):
        for a in range(world.num_actions):
            pair = s * world.num_actions + a
            if world.forbidden[pair]:
                q[0, s, a] = -np.inf
                continue
            total = reward[s, a if per_state > 1 else 0]
            for j in range(world.indptr[pair], world.indptr[pair + 1]):
                total += world.probabilities[j] * value[world.indices[j]]
            q[0, s, a] = total


@compiled
def invert(world, actions, inverse):
    """W = (I − γ P_π)⁻¹ by elimination; without pivots, since rows are dominated by their diagonal."""
    size = world.num_states
    matrix = np.eye(size)
    inverse[:] = 0.0
    for s in range(size):
        inverse[s, s] = 1.0
        pair = s * world.num_actions + actions[s]
        for j in range(world.indptr[pair], world.indptr[pair + 1]):
            matrix[s, world.indices[j]] -= world.probabilities[j]
    for p in range(size):
        pivot = matrix[p, p]
        for j in range(size):
            matrix[p, j] /= pivot
            inverse[p, j] /= pivot
        for i in range(size):
            factor = matrix[i, p]
            if i != p and factor != 0.0:
                for j in range(size):
                    matrix[i, j] -= factor * matrix[p, j]
                    inverse[i, j] -= factor * inverse[p, j]


@inner
def _improve(world, reward, actions, inverse, value, q):
    """Policy iteration from a policy and its W and values; q of the optimum. Whether it got there."""
    size, num_actions = world.num_states, world.num_actions
    moved = np.empty(size)
    for _ in range(LIMIT):
        backup(world, reward, value, q)
        largest, off = 1.0, 0.0
        for s in range(size):
            largest = max(largest, abs(value[s]))
            off = max(off, abs(value[s] - q[0, s, actions[s]]))
        if off > EXACT * largest:  # many products of vectors have left W inexact
            invert(world, actions, inverse)
            _evaluate(reward, actions, inverse, value)
            backup(world, reward, value, q)
        if _is_optimal(q, actions, value):
            return True
        for s in range(size):
            best = actions[s]
            for a in range(num_actions):
                if q[0, s, a] > q[0, s, best] and q[0, s, a] > q[0, s, actions[s]] + TIED * largest:
                    best = a
            if best == actions[s]:
                continue
            # row s of I − γ P_π changes by u = γ (P(·|s, old) − P(·|s, new)): W − W e_s (uᵀ W) / (1 + uᵀ W e_s)
            moved[:] = 0.0
            for sign, a in ((1.0, actions[s]), (-1.0, best)):
                pair = s * num_actions + a
                for j in range(world.indptr[pair], world.indptr[pair + 1]):
                    weight = sign * world.probabilities[j]
                    for t in range(size):
                        moved[t] += weight * inverse[world.indices[j], t]
            below = 1.0 + moved[s]
            for i in range(size):
                factor = inverse[i, s] / below
                if factor != 0.0:
                    for t in range(size):
                        inverse[i, t] -= factor * moved[t]
            actions[s] = best
        _evaluate(reward, actions, inverse, value)
    return False


@inner
def _evaluate(reward, actions, inverse, value):
    """V^π = W r_π."""
    size = len(value)
    per_state = reward.shape[1]
    for s in range(size):
        total = 0.0
        for t in range(size):
            total += inverse[s, t] * reward[t, actions[t] if per_state > 1 else 0]
        value[s] = total


@inner
def _is_optimal(q, actions, value):
    """Whether no action is better than the one taken."""
    largest = 1.0
    for s in range(len(value)):
        largest = max(largest, abs(value[s]))
    for s in range(len(value)):
        enough = q[0, s, actions[s]] + TIED * largest
        for a in range(q.shape[2]):
            if q[0, s, a] > enough:
                return False
    return True


@inner
def _height(q, counts, temperature, normalised):
    """The log-likelihood of the choices: normalised in each state, or literally c Σ n(s, a) Q*(s, a)."""
    if normalised:
        return log_likelihood(q, 0, counts, 0, temperature, 0.0, weights_workspace(counts.shape[1], counts.shape[2]))
    total = 0.0
    for s in range(q.shape[1]):
        for a in range(q.shape[2]):
            if counts[0, s, a] > 0.0:
                total += counts[0, s, a] * q[0, s, a]
    return temperature * total
