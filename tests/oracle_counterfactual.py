"""Plain NumPy in place of the library: what agents with known rewards choose, visit and gain.

Everything is written out: values by iterating Bellman's equation until nothing moves, visits by one linear solve,
values of a policy by another. No code is shared with the library.
"""

import numpy as np


def choices(transitions, available, reward, discount, c, *, soft, terminal=(), lapse=0.0, depth=None):
    """π [S, A] of rewards [S] (received once in terminal states) or [S, A]; 0 where an action does not exist."""
    size, _ = available.shape
    on_pairs = np.ndim(reward) == 2
    here = np.array(reward, dtype=float) if on_pairs else np.array(reward, dtype=float)[:, None]
    ends = list(terminal)
    value = np.zeros(size)
    for _ in range(20_000 if depth is None else depth):
        q = np.where(available, here + discount * (transitions @ value), -np.inf)
        q[ends] = 0.0  # nothing is chosen there
        best = q.max(axis=1)
        new = best + np.log(np.exp(c * (q - best[:, None])).sum(axis=1)) / c if soft else best
        new[ends] = 0.0 if on_pairs else here[ends, 0]
        moved, value = np.abs(new - value).max(), new
        if depth is None and moved < 1e-13:
            break
    weight = np.exp(c * (q - q.max(axis=1, keepdims=True)))
    policy = weight / weight.sum(axis=1, keepdims=True)
    policy = (1 - lapse) * policy + lapse * available / np.maximum(available.sum(axis=1, keepdims=True), 1)
    policy[ends] = np.eye(1, policy.shape[1])
    return policy


def soft_value(transitions, available, reward, discount, c):
    """log Σ_a exp(c Q(s, a)) / c [S], where no state is terminal: by iterating until nothing moves."""
    here = np.array(reward, dtype=float) if np.ndim(reward) == 2 else np.array(reward, dtype=float)[:, None]
    value = np.zeros(len(available))
    for _ in range(20_000):
        q = np.where(available, here + discount * (transitions @ value), -np.inf)
        best = q.max(axis=1)
        new = best + np.log(np.exp(c * (q - best[:, None])).sum(axis=1)) / c
        moved, value = np.abs(new - value).max(), new
        if moved < 1e-13:
            return value
    raise AssertionError


def visits(transitions, policy, start, discount, terminal=()):
    """(1 − γ) Σ_t γᵗ P(s_t = s) [S]: shares of discounted time, which sum to one where no episode ends."""
    size = len(start)
    moves = np.zeros((size, size))
    for s in range(size):
        if s not in terminal:
            for a in range(policy.shape[1]):
                moves[s] += policy[s, a] * transitions[s, a]
    return (1 - discount) * np.linalg.solve((np.eye(size) - discount * moves).T, start)


def value(transitions, policy, reward, start, discount, terminal=()):
    """E Σ_t γᵗ r_t of a policy, from the start: by values of states, not by visits."""
    size = len(start)
    system, received = np.eye(size), np.zeros(size)
    for s in range(size):
        if s in terminal:
            received[s] = 0.0 if np.ndim(reward) == 2 else reward[s]
            continue
        for a in range(policy.shape[1]):
            received[s] += policy[s, a] * (reward[s, a] if np.ndim(reward) == 2 else reward[s])
            system[s] -= discount * policy[s, a] * transitions[s, a]
    return float(start @ np.linalg.solve(system, received))


def long_run(transitions, policy, start, terminal=()):
    """Shares [A] of all steps in the long run: limits of powers of the chain that stays where it is every other time.

    It has the same long-run shares as the chain itself, but no periods. Where an episode ends, another begins.
    """
    size, lives = len(start), np.setdiff1d(np.arange(len(start)), terminal)
    first = start[lives] / start[lives].sum()
    moves = np.zeros((len(lives), size))
    for row, s in enumerate(lives):
        for a in range(policy.shape[1]):
            moves[row] += policy[s, a] * transitions[s, a]
    ends = np.setdiff1d(np.arange(size), lives)
    chain = moves[:, lives] + moves[:, ends].sum(axis=1, keepdims=True) * first
    power = (np.eye(len(lives)) + chain) / 2
    for _ in range(50):
        power = power @ power
        power /= power.sum(axis=1, keepdims=True)
    return first @ power @ policy[lives]
