"""What the exact tests of baselines share: small worlds, discounted visits and losses by plain sums."""

import sys

import numpy as np

import manymotives as mm
import oracles

CHAIN = mm.worlds.Chain()
SMALL = mm.worlds.DirichletMDP(states=3, actions=3, concentration=0.7, seed=4, discount=0.8)
DOUBLE = mm.worlds.DirichletMDP(states=2, actions=2, concentration=0.5, seed=1, discount=0.7)


def module_of(name):
    """Of a baseline, which has its name; under tests `__globals__` of the function are those of a type checker."""
    return sys.modules[f"manymotives.baselines.{name}"]


def problem_of(environment, rewards):
    """The six arguments every oracle takes, for rewards on states."""
    return {
        "transitions": environment.tensor,
        "available": environment.available,
        "terminal": environment.is_terminal,
        "rewards": np.repeat(np.asarray(rewards)[:, None], environment.num_actions, axis=1),
        "terminal_value": np.where(environment.is_terminal, rewards, 0.0),
        "discount": environment.discount,
    }


def loss_of(environment, policy, rewards):
    """Σ_s V*(s) − V^π(s), by value iteration and by substitution."""
    problem = problem_of(environment, rewards)
    best, _ = oracles.best_by_value_iteration(**problem)
    return float((best - oracles.policy_value(**problem, policy=policy)).sum())


def visits_of(environment, policy, start):
    """Σ_t γ^t P(s_t = s), term by term; a terminal state is visited and left for nowhere."""
    now, total = np.array(start, dtype=float), np.zeros(environment.num_states)
    weight = 1.0
    while weight > 1e-16:
        total += weight * now
        following = np.zeros_like(now)
        for s in range(environment.num_states):
            if not environment.is_terminal[s]:
                for a in range(environment.num_actions):
                    following += now[s] * policy[s][a] * environment.tensor[s, a]
        now, weight = following, weight * environment.discount
    return total


def frequencies(environment, counts):
    """What the choices say: their shares, evenly where there are none."""
    shares = np.zeros(counts.shape)
    for s in range(environment.num_states):
        exists = environment.available[s]
        if counts[s].sum() > 0:
            shares[s] = counts[s] / counts[s].sum()
        elif exists.any():
            shares[s] = exists / exists.sum()
        else:
            shares[s, 0] = 1.0
    return shares


def beginnings(demonstrations, task):
    """Where the episodes of a task begin."""
    frame = demonstrations.to_frame()
    firsts = frame[frame["task"] == task].groupby("episode")["state"].first()
    return np.array([(firsts == state).mean() for state in demonstrations.states])
