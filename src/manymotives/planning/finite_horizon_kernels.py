"""Plans n steps ahead and their adjoint inside compiled samplers; `world` and `plans` are those of `warm_start`.

    V_0 = 0,   Q_k = r + T V_{k−1},   V_k = max_a Q_k (or log Σ exp(c Q_k) / c),      k = 1, …, n;      T is times γ
    w_{n−1} = Tᵀ g,   g_k = w_k π_k,   w_{k−1} = Tᵀ g_k                                          for g = ∂f/∂Q_n

and then ∂f/∂r = g + Σ g_k, with π_k greedy for Q_k, or softmax(c Q_k). As Q_k depends on γ and V_k on c,

    γ ∂f/∂γ = g · (Q_n − r) + Σ g_k · (Q_k − r),      ∂f/∂c = Σ w_k · (Σ_a π_k Q_k − V_k) / c          (by way of V)

Loops follow the non-zero transitions, whatever the size of the environment, and nothing is kept from plan to plan.
"""

import math

import numpy as np

from manymotives.jit import compiled, inner


@compiled
def plan_again_ahead(world, plans, is_soft, count):
    """As `warm_start.plan_again`. V_0, …, V_{n−1} are left in `plans.layers` [N, n, S]."""
    q, value, actions, layers = plans.q, plans.value, plans.actions, plans.layers
    num_states, depth = world.num_states, world.depth
    for n in range(count):
        c = plans.temperature[n] if is_soft else 0.0
        for s in range(num_states):
            layers[n, 0, s] = 0.0
        for k in range(1, depth):
            for s in range(num_states):
                _back_up(world, plans, n, s, k - 1, q, n, s)
                layers[n, k, s] = _value(q, n, s, c)[0]
        size = 0.0
        for s in range(num_states):
            _back_up(world, plans, n, s, depth - 1, q, n, s)
            value[n, s], actions[n, s], _ = _value(q, n, s, c)
            size += abs(value[n, s])
        plans.residual[n] = 0.0 if size < np.inf else np.inf


@compiled
def adjoint_ahead(world, plans, policies, q_gradient, value_adjoint, count):
    """As `warm_start.adjoint`, but that gradients q_gradient [N, S, A] in Q_n become those in the rewards of pairs.

    So `value_adjoint` is 0. γ ∂f/∂γ, and ∂f/∂c by way of V, go into `plans.further` [N, 2].
    """
    num_states, num_actions = world.num_states, world.num_actions
    q, further = plans.q, plans.further
    arrived, passed_on = np.zeros(num_states), np.zeros(num_states)  # w_k, w_{k−1}
    lower = np.empty((1, 1, num_actions))  # Q_k of one state
    for n in range(count):
        c = plans.temperature[n] if world.is_soft else 0.0
        further[n, 0] = further[n, 1] = 0.0
        for s in range(num_states):
            passed_on[s] = value_adjoint[n, s] = 0.0
        for s in range(num_states):
            for a in range(num_actions):
                _pass_on(world, plans, n, s, a, q_gradient[n, s, a], q[n, s, a], passed_on)
        for k in range(world.depth - 1, 0, -1):
            arrived, passed_on = passed_on, arrived
            for s in range(num_states):
                passed_on[s] = 0.0
            for s in range(num_states):
                if arrived[s] == 0.0:
                    continue
                _back_up(world, plans, n, s, k - 1, lower, 0, 0)
                value, chosen, weight = _value(lower, 0, 0, c)
                if not world.is_soft:
                    q_gradient[n, s, chosen] += arrived[s]
                    _pass_on(world, plans, n, s, chosen, arrived[s], lower[0, 0, chosen], passed_on)
                    continue
                expected, best = 0.0, lower[0, 0, chosen]
                for a in range(num_actions):
                    if lower[0, 0, a] > -np.inf:
                        share = math.exp(c * (lower[0, 0, a] - best)) / weight
                        expected += share * lower[0, 0, a]
                        q_gradient[n, s, a] += arrived[s] * share
                        _pass_on(world, plans, n, s, a, arrived[s] * share, lower[0, 0, a], passed_on)
                further[n, 1] += arrived[s] * (expected - value) / c


@inner
def _pass_on(world, plans, n, s, a, flow, action_value, passed_on):
    """A gradient in Q_k(s, a) goes on to V_{k−1} of where the action leads, and to the discount."""
    if flow == 0.0:
        return
    indptr, indices, probabilities, rewards = world.indptr, world.indices, world.probabilities, plans.rewards
    pair = s * world.num_actions + a
    plans.further[n, 0] += flow * (action_value - rewards[n, s, a if rewards.shape[2] > 1 else 0])
    for i in range(indptr[pair], indptr[pair + 1]):
        passed_on[indices[i]] += plans.ratio[n] * probabilities[i] * flow


@inner
def _back_up(world, plans, n, s, k, into, i, j):
    """Q_{k+1} of state s, from V_k, into `into[i, j]`."""
    indptr, indices, probabilities = world.indptr, world.indices, world.probabilities
    rewards, layers, ratio = plans.rewards, plans.layers, plans.ratio
    per_state = rewards.shape[2]
    for a in range(world.num_actions):
        pair = s * world.num_actions + a
        total = 0.0
        for m in range(indptr[pair], indptr[pair + 1]):
            total += probabilities[m] * layers[n, k, indices[m]]
        into[i, j, a] = rewards[n, s, a if per_state > 1 else 0] + ratio[n] * total
        if world.forbidden[pair]:
            into[i, j, a] = -np.inf


@inner
def _value(q, i, j, c):
    """V of action values q[i, j], the first best action, and, where c > 0 and V is soft, Σ exp(c (q − max q))."""
    chosen = 0
    for a in range(1, q.shape[2]):
        if q[i, j, a] > q[i, j, chosen]:
            chosen = a
    best, weight = q[i, j, chosen], 1.0
    if c == 0.0:
        return best, chosen, weight
    for a in range(q.shape[2]):
        if a != chosen and q[i, j, a] > -np.inf:
            weight += math.exp(c * (q[i, j, a] - best))
    return best + math.log(weight) / c, chosen, weight
