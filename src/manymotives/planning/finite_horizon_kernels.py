"""Plans n steps ahead and their adjoint inside compiled samplers; `world` and `plans` are those of `warm_start`.

    V_0 = 0,   Q_k = r + T V_{k−1},   V_k = max_a Q_k (or log Σ exp(c Q_k) / c),      k = 1, …, n;      T is times γ
    w_{n−1} = Tᵀ g,   g_k = w_k π_k,   w_{k−1} = Tᵀ g_k                                          for g = ∂f/∂Q_n

and then ∂f/∂r = g + Σ g_k, with π_k greedy for Q_k, or softmax(c Q_k). As Q_k depends on γ and V_k on c,

    γ ∂f/∂γ = g · (Q_n − r) + Σ g_k · (Q_k − r),      ∂f/∂c = Σ w_k · (Σ_a π_k Q_k − V_k) / c          (by way of V)

Loops follow the non-zero transitions, whatever the size of the environment, and nothing is kept from plan to plan.
"""

import math

import numpy as np

from manymotives.jit import compiled


@compiled
def plan_again_ahead(world, plans, is_soft, count):
    """As `warm_start.plan_again`. V_0, …, V_{n−1} are left in `plans.layers` [N, n, S]."""
    indptr, indices, probabilities, forbidden = world.indptr, world.indices, world.probabilities, world.forbidden
    rewards, ratio, q, value, actions = plans.rewards, plans.ratio, plans.q, plans.value, plans.actions
    layers, temperature, residual = plans.layers, plans.temperature, plans.residual
    _, num_states, num_actions = q.shape
    per_state, depth = rewards.shape[2], world.depth
    for n in range(count):
        for s in range(num_states):
            layers[n, 0, s] = 0.0
        size = 0.0
        for k in range(1, depth + 1):
            for s in range(num_states):
                chosen, best = 0, -np.inf
                for a in range(num_actions):
                    pair = s * num_actions + a
                    total = 0.0
                    for i in range(indptr[pair], indptr[pair + 1]):
                        total += probabilities[i] * layers[n, k - 1, indices[i]]
                    total = rewards[n, s, a if per_state > 1 else 0] + ratio[n] * total
                    q[n, s, a] = -np.inf if forbidden[pair] else total
                    if q[n, s, a] > best:
                        chosen, best = a, total
                if is_soft:
                    weight = 1.0
                    for a in range(num_actions):
                        if a != chosen and q[n, s, a] > -np.inf:
                            weight += math.exp(temperature[n] * (q[n, s, a] - best))
                    best += math.log(weight) / temperature[n]
                if k < depth:
                    layers[n, k, s] = best
                else:
                    value[n, s], actions[n, s] = best, chosen
                    size += abs(best)
        residual[n] = 0.0 if size < np.inf else np.inf


@compiled
def adjoint_ahead(world, plans, policies, q_gradient, value_adjoint, count):
    """As `warm_start.adjoint`, but that gradients q_gradient [N, S, A] in Q_n become those in the rewards of pairs.

    So `value_adjoint` is 0. γ ∂f/∂γ, and ∂f/∂c by way of V, go into `plans.further` [N, 2].
    """
    indptr, indices, probabilities, forbidden = world.indptr, world.indices, world.probabilities, world.forbidden
    rewards, ratio, q, layers, further = plans.rewards, plans.ratio, plans.q, plans.layers, plans.further
    temperature, is_soft, depth = plans.temperature, world.is_soft, world.depth
    _, num_states, num_actions = q.shape
    per_state = rewards.shape[2]
    arrived, passed_on = np.zeros(num_states), np.zeros(num_states)  # w_k, w_{k−1}
    below, share = np.empty(num_actions), np.empty(num_actions)  # Q_k and π_k of one state
    for n in range(count):
        by_discount, by_temperature = 0.0, 0.0
        for s in range(num_states):
            value_adjoint[n, s] = arrived[s] = 0.0
        for k in range(depth, 0, -1):
            for s in range(num_states):
                passed_on[s] = 0.0
            for s in range(num_states):
                if k == depth:
                    for a in range(num_actions):
                        below[a], share[a] = q[n, s, a], q_gradient[n, s, a]
                elif arrived[s] == 0.0:
                    continue
                else:
                    chosen, best = 0, -np.inf
                    for a in range(num_actions):
                        pair = s * num_actions + a
                        total = 0.0
                        for i in range(indptr[pair], indptr[pair + 1]):
                            total += probabilities[i] * layers[n, k - 1, indices[i]]
                        total = rewards[n, s, a if per_state > 1 else 0] + ratio[n] * total
                        below[a], share[a] = -np.inf if forbidden[pair] else total, 0.0
                        if below[a] > best:
                            chosen, best = a, total
                    share[chosen] = 1.0
                    if is_soft:
                        weight, expected = 0.0, 0.0
                        for a in range(num_actions):
                            if below[a] > -np.inf:
                                share[a] = math.exp(temperature[n] * (below[a] - best))
                                weight += share[a]
                                expected += share[a] * (below[a] - best)
                        for a in range(num_actions):
                            share[a] /= weight
                        # Σ π Q − V, measured from the best
                        gap = expected / weight - math.log(weight) / temperature[n]
                        by_temperature += arrived[s] * gap / temperature[n]
                    for a in range(num_actions):
                        share[a] *= arrived[s]
                        q_gradient[n, s, a] += share[a]
                for a in range(num_actions):
                    if share[a] != 0.0:
                        pair = s * num_actions + a
                        by_discount += share[a] * (below[a] - rewards[n, s, a if per_state > 1 else 0])
                        for i in range(indptr[pair], indptr[pair + 1]):
                            passed_on[indices[i]] += ratio[n] * probabilities[i] * share[a]
            arrived, passed_on = passed_on, arrived
        further[n, 0], further[n, 1] = by_discount, by_temperature
