"""The planners behind `warm_start`, and their adjoints: each is compiled when an environment first needs it.

`plan_by_*` (world, plans, is_soft, count) and `adjoint_by_*` (world, plans, policies, q_gradient, value_adjoint, count)
are called by address (`function_pointers`): a sampler is compiled once for all of them.
"""

from typing import Any

import numpy as np

from manymotives.jit import compiled, inner
from manymotives.planning.blocks import EPSILON, FORBIDDEN
from manymotives.planning.factor_lanes import FEWEST, LANES, adjoint_lanes, plan_lanes
from manymotives.planning.factors import adjoint_by_factors, plan_by_factors
from manymotives.planning.function_pointers import call
from manymotives.planning.kernels import adjoint_batch, sparse_sweep
from manymotives.planning.problem import LIMIT
from manymotives.planning.simd import WIDTH
from manymotives.planning.updates import adjoint_by_updates, plan_by_updates

PRECISION = 1e-11  # of swept values, relative to the largest
SWEEP_LIMIT = 100_000
RESIDUAL = 1e-8  # a plan worse than this, relative to its values, is no plan


# ---- small environments: whole batches ----------------------------------------------------------------------------


@compiled
def plan_batches(world, plans, is_soft, count):
    """Optimal plans of whole batches, started from the policies that were optimal before."""
    count = _fill_lanes(plans, count)
    begin, limit = np.int64(0), np.int64(LIMIT)  # as numbers, not as literals, which are types of their own
    call(
        world.batch_planner,
        (
            world.transitions,
            world.forbidden,
            plans.rewards,
            plans.temperature[: count if is_soft else 0],
            plans.ratio[: count if world.discount == 1.0 else 0],
            plans.actions[: 0 if is_soft else count],  # soft plans begin from nothing
            3 + world.num_states // 6,
            limit,
            begin,
            count,
            plans.q,
            plans.value,
            plans.actions,
            plans.residual,
            plans.solves,
        ),
    )
    for n in range(count):
        largest = 1.0
        for s in range(world.num_states):
            largest = max(largest, abs(plans.value[n, s]))
        if not plans.residual[n] <= RESIDUAL * largest:
            plans.residual[n] = np.inf


def batch_arguments(world: Any, plans: Any) -> tuple[Any, ...]:
    """Examples of what `plan_batches` hands to `plan_batch`."""
    whole = 3 + world.num_states // 6, LIMIT, 0, len(plans.q)
    given = plans.rewards, plans.temperature, plans.ratio, plans.actions, *whole
    return world.transitions, world.forbidden, *given, plans.q, plans.value, plans.actions, plans.residual, plans.solves


@inner
def _fill_lanes(plans, count):
    """Idle lanes repeat the first plan; the number of lanes."""
    rewards, temperature, ratio, actions = plans.rewards, plans.temperature, plans.ratio, plans.actions
    padded = -(-count // WIDTH) * WIDTH
    for n in range(count, padded):
        temperature[n] = temperature[0]
        ratio[n] = ratio[0]
        for s in range(actions.shape[1]):
            actions[n, s] = actions[0, s]
            for a in range(rewards.shape[2]):
                rewards[n, s, a] = rewards[0, s, a]
    return padded


@compiled
def adjoint_batches(world, plans, policies, q_gradient, value_adjoint, count):
    padded = -(-count // WIDTH) * WIDTH
    ratios = plans.ratio[: padded if world.discount == 1.0 else 0]
    adjoint_batch(world.transitions, ratios, policies, q_gradient, padded, value_adjoint)


# ---- greedy plans of few rewards: updated inverses ----------------------------------------------------------------


@compiled
def plan_all_by_updates(world, plans, is_soft, count):
    for n in range(count):
        plan_by_updates(world, plans, n, LIMIT)


@compiled
def adjoint_all_by_updates(world, plans, policies, q_gradient, value_adjoint, count):
    for n in range(count):
        adjoint_by_updates(world, plans, q_gradient, value_adjoint, n)


# ---- sparse factors ------------------------------------------------------------------------------------------------


@compiled
def plan_all_by_factors(world, plans, is_soft, count):
    for first in range(0, count, LANES):
        together = min(LANES, count - first)
        by_lanes = together >= FEWEST and len(plans.lane_holder) > 0
        if by_lanes:
            plan_lanes(world, plans, is_soft, first, together)
        for n in range(first, first + together):
            if not by_lanes or not plans.residual[n] < np.inf:
                plan_by_factors(world, plans, is_soft, n, LIMIT)


@compiled
def adjoint_all_by_factors(world, plans, policies, q_gradient, value_adjoint, count):
    for first in range(0, count, LANES):
        together = min(LANES, count - first)
        by_lanes = together >= FEWEST and len(plans.lane_holder) > 0
        if not (by_lanes and adjoint_lanes(world, plans, policies, q_gradient, value_adjoint, first, together)):
            for n in range(first, first + together):
                adjoint_by_factors(world, plans, policies, q_gradient, value_adjoint, n)


# ---- sweeps --------------------------------------------------------------------------------------------------------


@compiled
def plan_all_by_sweeps(world, plans, is_soft, count):
    table = np.empty((world.num_states, world.num_actions))
    before = np.empty(world.num_states)
    for n in range(count):
        _sweep(world, plans, is_soft, n, table, before)


@inner
def _sweep(world, plans, is_soft, n, table, before):
    """Gauss–Seidel value iteration, forwards and backwards, until a sweep hardly changes the values."""
    num_states, num_actions = world.num_states, world.num_actions
    per_state = plans.rewards.shape[2]
    for s in range(num_states):
        for a in range(num_actions):
            reward = plans.rewards[n, s, a if per_state > 1 else 0]
            table[s, a] = FORBIDDEN if world.forbidden[s * num_actions + a] else reward
    temperature, ratio = plans.temperature[n] if is_soft else 0.0, plans.ratio[n]
    value = plans.value[n]
    plans.residual[n] = np.inf
    for sweep in range(SWEEP_LIMIT):
        for s in range(num_states):
            before[s] = value[s]
        forwards = sweep % 2 == 0
        sparse_sweep(world.indptr, world.indices, world.probabilities, ratio, table, temperature, value, forwards)
        change, largest = 0.0, 0.0
        for s in range(num_states):
            change = max(change, abs(value[s] - before[s]))
            largest = max(largest, abs(value[s]))
        if change <= max(PRECISION * (1.0 - ratio * world.discount), 4.0 * EPSILON) * largest:
            plans.residual[n] = change
            break
    q, actions = plans.q, plans.actions
    for s in range(num_states):
        best = -np.inf
        for a in range(num_actions):
            pair = s * num_actions + a
            total = table[s, a]
            for k in range(world.indptr[pair], world.indptr[pair + 1]):
                total += ratio * world.probabilities[k] * value[world.indices[k]]
            q[n, s, a] = -np.inf if world.forbidden[pair] else total
            if q[n, s, a] > best:
                best = q[n, s, a]
                actions[n, s] = a


@compiled
def adjoint_all_by_sweeps(world, plans, policies, q_gradient, value_adjoint, count):
    arrived = np.empty(world.num_states)
    for n in range(count):
        _adjoint_by_sweeps(world, plans.ratio[n], policies, q_gradient, value_adjoint, n, arrived)


@inner
def _adjoint_by_sweeps(world, ratio, policies, q_gradient, value_adjoint, n, arrived):
    """The same for a large environment, by Gauss–Seidel sweeps: what reaches a state is added to it and passed on."""
    num_states, num_actions = world.num_states, world.num_actions
    indptr, indices, probabilities = world.indptr, world.indices, world.probabilities
    for s in range(num_states):
        arrived[s] = 0.0
    for s in range(num_states):
        value_adjoint[n, s] = 0.0
        for a in range(num_actions):
            for k in range(indptr[s * num_actions + a], indptr[s * num_actions + a + 1]):
                arrived[indices[k]] += ratio * probabilities[k] * q_gradient[n, s, a]
    largest = 0.0
    for s in range(num_states):
        largest += abs(arrived[s])
    for sweep in range(SWEEP_LIMIT):
        left = 0.0
        for i in range(num_states):
            s = i if sweep % 2 == 0 else num_states - 1 - i
            here = 0.0
            for a in range(num_actions):
                if policies[n, s, a] > 0.0:
                    for k in range(indptr[s * num_actions + a], indptr[s * num_actions + a + 1]):
                        if indices[k] == s:
                            here += policies[n, s, a] * (ratio * probabilities[k])
            credit = arrived[s] / (1.0 - here)
            arrived[s] = 0.0
            value_adjoint[n, s] += credit
            for a in range(num_actions):
                if policies[n, s, a] > 0.0:
                    for k in range(indptr[s * num_actions + a], indptr[s * num_actions + a + 1]):
                        if indices[k] != s:
                            arrived[indices[k]] += policies[n, s, a] * (ratio * probabilities[k]) * credit
        for s in range(num_states):
            left += abs(arrived[s])
        if left <= PRECISION * (1.0 - ratio * world.discount) * largest:
            break
