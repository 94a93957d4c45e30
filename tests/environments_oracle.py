"""Choices in several environments by plain loops: value iteration in each alone, with one reward for each state name.

Shares no code with the library. An environment is a dictionary: names of states and actions, `moves[state][action]` =
{next state: probability} for actions that exist (none in a terminal state), and a discount.
"""

import itertools

import numpy as np

ROUNDS = 2000  # of value iteration: 0.9 ** 2000 is nothing


def random_world(rng, states, actions, *, discount=0.9, terminal=()):
    """A random environment in which some actions do not exist somewhere, as a dictionary."""
    moves = {}
    for state in states:
        moves[state] = {}
        kept = [action for action in actions if rng.random() < 0.8] or [actions[0]]
        for action in () if state in terminal else kept:
            shares = rng.dirichlet(np.full(len(states), 0.4))
            moves[state][action] = {there: float(p) for there, p in zip(states, shares / shares.sum())}
    return {"states": list(states), "actions": list(actions), "moves": moves, "discount": discount}


def action_values(world, reward, temperature=None):
    """Q[state][action] by value iteration; soft with a temperature. `reward(state, action)`; None: at an end."""
    value = {state: 0.0 for state in world["states"]}
    q = {}
    for _ in range(ROUNDS):
        q = {
            state: {
                action: reward(state, action)
                + world["discount"] * sum(p * value[there] for there, p in world["moves"][state][action].items())
                for action in world["moves"][state]
            }
            for state in world["states"]
        }
        before = value
        value = {state: _value(q[state], reward(state, None), temperature) for state in world["states"]}
        if max(abs(value[state] - before[state]) for state in value) < 1e-14:
            break
    return q


def log_likelihood(worlds, reward, counts, temperature, *, soft=False, lapse=0.0):
    """Σ over environments, states and actions of counts[environment][state, action] · log p(action | state)."""
    total = 0.0
    for name, world in worlds.items():
        q = action_values(world, reward, temperature if soft else None)
        for (state, action), count in counts[name].items():
            top = max(q[state].values())
            weights = {each: np.exp(temperature * (value - top)) for each, value in q[state].items()}
            chance = weights[action] / sum(weights.values())
            total += count * np.log((1 - lapse) * chance + lapse / len(weights))
    return total


def random_counts(rng, worlds, most=6):
    """How often each action was taken in each state of each environment."""
    return {
        name: {
            (state, action): int(rng.integers(0, most))
            for state, action in itertools.product(world["states"], world["actions"])
            if action in world["moves"][state]
        }
        for name, world in worlds.items()
    }


def _value(q, at_end, temperature):
    if not q:
        return at_end
    top = max(q.values())
    if temperature is None:
        return top
    return top + np.log(sum(np.exp(temperature * (each - top)) for each in q.values())) / temperature
