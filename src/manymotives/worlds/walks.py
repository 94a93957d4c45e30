"""Step by step through an environment, as compiled loops: uniform numbers in, rows of what happened out."""

import numpy as np

from manymotives.jit import compiled
from manymotives.planning.kernels import plan_batch
from manymotives.planning.simd import WIDTH


@compiled
def walk(indptr, next_states, cumulative, policy, available, is_terminal, start, uniforms):
    """One task under a fixed policy (running sums over actions): rows of (episode, state, action, next state)."""
    num_episodes, length, _ = uniforms.shape
    rows = np.empty((num_episodes * (length - 1), 4), dtype=np.int64)
    made = 0
    last = len(start) - 1
    for episode in range(num_episodes):
        state = min(np.searchsorted(start, uniforms[episode, 0, 0], side="right"), last)
        for t in range(1, length):
            if is_terminal[state]:
                break
            action = np.searchsorted(policy[state], uniforms[episode, t, 0], side="right")
            while action >= policy.shape[1] or not available[state, action]:  # rounding at the very top
                action -= 1
            row = state * policy.shape[1] + action
            begin, end = indptr[row], indptr[row + 1]
            move = begin + np.searchsorted(cumulative[begin:end], uniforms[episode, t, 1], side="right")
            following = next_states[min(move, end - 1)]
            rows[made, 0], rows[made, 1], rows[made, 2], rows[made, 3] = episode, state, action, following
            made += 1
            state = following
    return rows[:made]


@compiled
def learning_walk(
    indptr, next_states, cumulative, rewards, allowed, is_terminal, start, discount, settings, uniforms, limit
):
    """One learner's steps: rows of (episode, state, action, next state).

    rewards [S, 1 or A]; `cumulative` holds each row's running sum of probabilities; uniforms [steps, 4] decide where
    to start, whether to explore, what to try and what happens; settings are the learner's numbers.
    """
    epsilon, transition_prior, mean, weight = settings
    num_states, num_actions = allowed.shape
    per_state = rewards.shape[1]
    counts = np.full((num_states, num_actions, num_states), transition_prior)
    model = np.zeros((num_states * num_actions, num_states))
    for s in range(num_states):
        for a in range(num_actions):
            if allowed[s, a] and not is_terminal[s]:
                model[s * num_actions + a] = discount / num_states
    seen = np.full(rewards.shape, weight)
    total = np.full(rewards.shape, weight * mean)
    believed = np.full((WIDTH, num_states, per_state), mean)
    if per_state > 1:
        believed[:, is_terminal] = 0.0  # no pair is ever chosen there
    forbidden = ~allowed.ravel()
    q = np.empty((WIDTH, num_states, num_actions))
    value = np.empty((WIDTH, num_states))
    actions = np.zeros((WIDTH, num_states), dtype=np.int64)
    for s in range(num_states):
        while not allowed[s, actions[0, s]]:
            actions[:, s] += 1
    gap = np.empty(WIDTH)
    solves = np.empty(WIDTH, dtype=np.int64)
    cold = np.empty(0)
    sweeps, first, last = np.int64(0), np.int64(0), np.int64(WIDTH)  # not literals: see warm_start.py

    num_steps = len(uniforms)
    rows = np.empty((num_steps, 4), dtype=np.int64)
    episode, state = -1, -1
    for t in range(num_steps):
        if state < 0 or is_terminal[state]:
            episode += 1
            state = min(np.searchsorted(start, uniforms[t, 0], side="right"), num_states - 1)
        before = actions.copy()
        plan_batch(model, forbidden, believed, cold, before, sweeps, limit, first, last, q, value, actions, gap, solves)
        action = actions[0, state]
        if uniforms[t, 1] < epsilon:
            left = int(uniforms[t, 2] * allowed[state].sum())
            for a in range(num_actions):
                if allowed[state, a]:
                    if left == 0:
                        action = a
                        break
                    left -= 1
        row = state * num_actions + action
        begin, end = indptr[row], indptr[row + 1]
        move = min(begin + np.searchsorted(cumulative[begin:end], uniforms[t, 3], side="right"), end - 1)
        following = next_states[move]
        rows[t, 0], rows[t, 1], rows[t, 2], rows[t, 3] = episode, state, action, following

        # what it has learnt from this step
        counts[state, action, following] += 1
        model[row] = discount * counts[state, action] / counts[state, action].sum()
        column = action if per_state > 1 else 0
        seen[state, column] += 1
        total[state, column] += rewards[state, column]
        believed[:, state, column] = total[state, column] / seen[state, column]
        if is_terminal[following] and per_state == 1:
            seen[following, 0] += 1
            total[following, 0] += rewards[following, 0]
            believed[:, following, 0] = total[following, 0] / seen[following, 0]
        state = following
    return rows
