"""From coordinates u to rewards ρ, and the gradient back, compiled.

shares      ρ_k = exp(u_k) / Σ_j exp(u_j)       ∂f/∂u_k = ρ_k (∂f/∂ρ_k − Σ_j ρ_j ∂f/∂ρ_j)
others      x_k = natural(u_k)                  ∂f/∂u_k = ∂f/∂x_k · dx_k/du_k
features    ρ_i = Σ_k Φ_ik x_k                  ∂f/∂x_k = Σ_i Φ_ik ∂f/∂ρ_i
"""

import math

import numpy as np

from manymotives.families import BETA, NORMAL, natural
from manymotives.jit import inner, inner_any_order
from manymotives.models.rewards import NORMALISED


@inner
def set_rewards(layout, proposed, rewards, count):
    """Rewards [N, S, 1 or A] of the first proposals."""
    families, features, reward_index, link = layout.families, layout.features, layout.reward_index, layout.link
    size = layout.num_rewards
    _, num_states, per_state = rewards.shape
    if features.is_dense:
        _set_dense_rewards(features.value, size, proposed, rewards, count)
        return
    x = np.empty(size)
    for n in range(count):
        if link == NORMALISED:
            largest = proposed[n, 0]
            for k in range(1, size):
                largest = max(largest, proposed[n, k])
            total = 0.0
            for k in range(size):
                x[k] = math.exp(proposed[n, k] - largest)
                total += x[k]
            for k in range(size):
                x[k] /= total
        else:
            for k in range(size):
                x[k] = natural(families[k], proposed[n, k])
        if len(features.begin) > 1:
            for i in range(num_states * per_state):
                total = 0.0
                for j in range(features.begin[i], features.begin[i + 1]):
                    total += features.value[j] * x[features.column[j]]
                rewards[n, i // per_state, i % per_state] = total
        elif per_state == 1:
            for k in range(size):
                rewards[n, reward_index[k], 0] = x[k]
        else:
            for k in range(size):
                rewards[n, reward_index[k] // per_state, reward_index[k] % per_state] = x[k]


@inner
def reward_gradient(layout, workspace, tasks):
    """From the gradient in rewards of pairs, which `q_gradient` [N, S, A] is by now, to that in the tasks' u [N, D]."""
    families, features, reward_index, link = layout.families, layout.features, layout.reward_index, layout.link
    q_gradient, rewards = workspace.q_gradient, workspace.plans.rewards
    likelihood_gradient = workspace.likelihood_gradient
    size = layout.num_rewards
    _, num_states, per_state = rewards.shape
    num_actions = q_gradient.shape[2]
    if features.is_dense:
        _dense_gradient(features.value, size, q_gradient, likelihood_gradient)
        return
    table = np.empty(num_states * per_state)
    into = np.empty(size)
    for m in range(len(likelihood_gradient)):
        for s in range(num_states):
            if per_state == 1:
                total = 0.0
                for a in range(num_actions):
                    total += q_gradient[m, s, a]
                table[s] = total
            else:
                for a in range(num_actions):
                    table[s * per_state + a] = q_gradient[m, s, a]
        if len(features.begin) > 1:
            for k in range(size):
                into[k] = 0.0
            for i in range(num_states * per_state):
                for j in range(features.begin[i], features.begin[i + 1]):
                    into[features.column[j]] += features.value[j] * table[i]
        else:
            for k in range(size):
                into[k] = table[reward_index[k]]
        if link == NORMALISED:
            mean = 0.0
            for k in range(size):
                mean += rewards[m, reward_index[k] // per_state, reward_index[k] % per_state] * into[k]
            for k in range(size):
                likelihood_gradient[m, k] = rewards[m, reward_index[k] // per_state, reward_index[k] % per_state] * (
                    into[k] - mean
                )
        else:
            for k in range(size):
                x = natural(families[k], tasks[m, k])
                by_coordinate = 1.0 if families[k] == NORMAL else x * (1.0 - x) if families[k] == BETA else x
                likelihood_gradient[m, k] = into[k] * by_coordinate


# ---- features without zeros, on states: weights are normal, u = x ----------------------------------------------------


@inner_any_order
def _set_dense_rewards(features, size, proposed, rewards, count):
    """Rewards [N, S, 1] of the first proposals; each row of features is read once for all of them."""
    for s in range(rewards.shape[1]):
        row = s * size
        for n in range(count):
            total = 0.0
            for k in range(size):
                total += features[row + k] * proposed[n, k]
            rewards[n, s, 0] = total


@inner_any_order
def _dense_gradient(features, size, q_gradient, likelihood_gradient):
    """The gradient in weights from that in rewards of pairs [N, S, A]."""
    num_states, num_actions = q_gradient.shape[1:]
    for m in range(len(likelihood_gradient)):
        for k in range(size):
            likelihood_gradient[m, k] = 0.0
    for s in range(num_states):
        row = s * size
        for m in range(len(likelihood_gradient)):
            total = 0.0
            for a in range(num_actions):
                total += q_gradient[m, s, a]
            for k in range(size):
                likelihood_gradient[m, k] += features[row + k] * total
