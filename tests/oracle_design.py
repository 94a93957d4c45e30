"""Expected information by brute force: all data that can be seen, and a grid of motives.

Shares no code with the library. Motives are two weights w ~ Normal(0, 1), on a grid of (w0 − w1)/√2 and (w0 + w1)/√2:
both are Normal(0, 1) and independent. Data are all paths of so many steps, with their probabilities under every motive.
"""

import numpy as np

GRID = np.linspace(-5.5, 5.5, 61)
MASS = np.exp(-0.5 * GRID**2) / np.exp(-0.5 * GRID**2).sum()


def motives():
    """Weights [n, 2] and masses [n]; the first index of the grid is that of the difference w0 − w1."""
    difference, total = (each.ravel() for each in np.meshgrid(GRID, GRID, indexing="ij"))
    weights = np.stack([total + difference, total - difference], axis=1) / np.sqrt(2.0)
    return weights, np.outer(MASS, MASS).ravel()


def policies(transitions, features, discount, temperature, weights, soft=False):
    """π [n, S, A], by value iteration."""
    rewards = weights @ features.T
    value = np.zeros_like(rewards)
    for _ in range(2000):
        q = rewards[:, :, None] + discount * np.einsum("sat,nt->nsa", transitions, value)
        new = np.log(np.exp(temperature * q).sum(axis=2)) / temperature if soft else q.max(axis=2)
        done = np.abs(new - value).max() < 1e-10
        value = new
        if done:
            break
    odds = np.exp(temperature * (q - q.max(axis=2, keepdims=True)))
    return odds / odds.sum(axis=2, keepdims=True)


def path_probabilities(transitions, policy, start, steps):
    """[paths, n]: of every path of so many choices from one state, under each policy."""
    found = []

    def walk(state, left, probability):
        if left == 0:
            found.append(probability)
            return
        for action in range(transitions.shape[1]):
            for following in np.flatnonzero(transitions[state, action]):
                chance = transitions[state, action, following] if left > 1 else 1.0  # the last move is not a choice
                walk(following, left - 1, probability * policy[:, state, action] * chance)
                if left == 1:
                    break

    walk(start, steps, np.ones(len(policy)))
    return np.array(found)


def information(probabilities, masses):
    """I(motive; path) in nats."""
    marginal = probabilities @ masses
    ratio = np.log(np.maximum(probabilities, 1e-300)) - np.log(np.maximum(marginal, 1e-300))[:, None]
    return float((probabilities * ratio @ masses).sum())


def information_about_difference(probabilities, groups=None):
    """I(w0 − w1; path), or that of its group, of so many with equal probability."""
    size = len(GRID)
    given = probabilities.reshape(-1, size, size) @ MASS  # [paths, difference]
    masses = MASS
    if groups is not None:
        above = np.concatenate([[0.0], np.cumsum(MASS)])
        edges = np.linspace(0.0, 1.0, groups + 1)
        # shares of each point of the grid that lie in each group
        low, high = np.maximum(above[:-1, None], edges[:-1]), np.minimum(above[1:, None], edges[1:])
        share = np.maximum(high - low, 0.0)
        masses = share.sum(axis=0)
        given = given @ (share / masses)
    return information(given, masses)
