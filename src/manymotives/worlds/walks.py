"""Step by step through an environment, as compiled loops: uniform numbers in, rows of what happened out."""

import numpy as np

from manymotives.jit import compiled, inner
from manymotives.planning.kernels import plan_batch
from manymotives.planning.simd import WIDTH


@compiled
def walk(indptr, next_states, cumulative, policy, available, is_terminal, start, uniforms):
    """One task under a fixed policy (running sums over actions): rows of (episode, state, action, next state)."""
    num_episodes, length, _ = uniforms.shape
    rows = np.empty((num_episodes * (length - 1), 4), dtype=np.int64)
    made = 0
    for episode in range(num_episodes):
        state = _first(start, uniforms[episode, 0, 0])
        for t in range(1, length):
            if is_terminal[state]:
                break
            action = _chosen(policy, available, state, uniforms[episode, t, 0])
            following = _reached(indptr, next_states, cumulative, available, state, action, uniforms[episode, t, 1])
            rows[made, 0], rows[made, 1], rows[made, 2], rows[made, 3] = episode, state, action, following
            made += 1
            state = following
    return rows[:made]


@compiled
def switching_walk(moves, policies, chances, available, is_terminal, start, uniforms, turns):
    """The same where motives switch: policies [K, S, A] and chances of motives [S, K + 1, K], as running sums.

    `moves`: indptr, next states, running sums. `turns` [episode, step]: uniform numbers that decide on motives. Rows
    have a fifth number, the motive.
    """
    indptr, next_states, cumulative = moves
    num_episodes, length, _ = uniforms.shape
    num_motives = len(policies)
    rows = np.empty((num_episodes * (length - 1), 5), dtype=np.int64)
    made = 0
    for episode in range(num_episodes):
        state = _first(start, uniforms[episode, 0, 0])
        left, motive = state, num_motives  # no motive yet: the last row of chances
        for t in range(1, length):
            if is_terminal[state]:
                break
            motive = min(np.searchsorted(chances[left, motive], turns[episode, t - 1], side="right"), num_motives - 1)
            action = _chosen(policies[motive], available, state, uniforms[episode, t, 0])
            following = _reached(indptr, next_states, cumulative, available, state, action, uniforms[episode, t, 1])
            rows[made, 0], rows[made, 1], rows[made, 2], rows[made, 3] = episode, state, action, following
            rows[made, 4] = motive
            made += 1
            left, state = state, following
    return rows[:made]


@inner
def _first(start, uniform):
    """The state in which an episode begins."""
    return min(np.searchsorted(start, uniform, side="right"), len(start) - 1)


@inner
def _chosen(policy, available, state, uniform):
    """An action, by a policy's running sums."""
    action = np.searchsorted(policy[state], uniform, side="right")
    while action >= policy.shape[1] or not available[state, action]:  # rounding at the very top
        action -= 1
    return action


@inner
def _reached(indptr, next_states, cumulative, available, state, action, uniform):
    """The state that follows."""
    row = state * available.shape[1] + action
    begin, end = indptr[row], indptr[row + 1]
    move = begin + np.searchsorted(cumulative[begin:end], uniform, side="right")
    return next_states[min(move, end - 1)]


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
                for j in range(num_states):
                    model[s * num_actions + a, j] = discount / num_states
    seen = np.full(rewards.shape, weight)
    total = np.full(rewards.shape, weight * mean)
    believed = np.full((WIDTH, num_states, per_state), mean)
    for s in range(num_states):
        if per_state > 1 and is_terminal[s]:  # no pair is ever chosen there
            believed[:, s] = 0.0
    forbidden = ~allowed.ravel()
    q = np.empty((WIDTH, num_states, num_actions))
    value = np.empty((WIDTH, num_states))
    actions = np.zeros((WIDTH, num_states), dtype=np.int64)
    for s in range(num_states):
        while not allowed[s, actions[0, s]]:
            for lane in range(WIDTH):
                actions[lane, s] += 1
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
        plan_batch(
            model, forbidden, believed, cold, cold, before, sweeps, limit, first, last, q, value, actions, gap, solves
        )
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
        visits = counts[state, action].sum()
        for j in range(num_states):
            model[row, j] = discount * counts[state, action, j] / visits
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
