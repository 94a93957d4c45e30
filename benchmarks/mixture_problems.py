"""Problems with shared motives: a seed in; an environment, features, choices and the truth out.

`grid`      8 × 8 cells in blocks of 2 × 2, which are the 16 binary features. Four moves; the intended one with
            probability .7 + .3/4 = .775, each other one with .075; a move off the map stays. Discount .9, uniform
            start. 3 experts, each with 5 of 16 weights uniform in [−1, 1] and the others 0, act by a policy that is
            optimal for their reward (ties go to the first action). 2 trajectories of 40 choices each: 6 tasks, experts
            unknown. Published of Dirichlet-process inverse reinforcement learning: F .881, NMI .866, loss of value
            1.39.
`objects`   Levine's Objectworld (2011) on 10 × 10 cells: 12 objects in cells drawn at random, each with an outer and an
            inner colour out of 3. Five actions (four moves and staying); with probability .3 the action is drawn anew
            from all five. Discount .9, uniform start. A subject of type k is paid 1 where an object of outer colour k
            is within 3 cells and one of colour k + 1 within 2 (Euclidean), −1 where only the first is, 0 elsewhere:
            three types of behaviour, by optimal policies. 4 subjects of each type, 5 episodes of 10 choices each.
            Features: is an object of this outer (inner) colour nearer than d cells, d = 1, …, 5? Of these 30 binary
            features the reward is not a weighted sum, and the inner ones say nothing. Published with other problems of
            this kind: adjusted Rand index .55.
`many`      4 × 4 cells with slip .1, discount .9, 4 features drawn from Normal(0, 1) for each cell. 5 motives with
            weights Normal(0, 1); each task (of 200, or 1 000) acts on one of them, all equally likely, with weights
            Normal(motive's, .25). Softmax(3.0), which is known; 10 episodes of 20 choices a task.
`nobody`    3 × 3 cells with slip .1, discount .9, 3 features as above, one population of 20 subjects: weights
            Normal(μ, .5) around μ ~ Normal(0, 1), 60 choices each, Softmax(2.0), which is known. No groups.
"""

from typing import Any, NamedTuple

import numpy as np

import manymotives as mm

MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))


class Problem(NamedTuple):
    """What is known, and the truth."""

    environment: mm.Environment
    features: np.ndarray  # [S, K]
    demonstrations: mm.Demonstrations
    rewards: np.ndarray  # [M, S] the true reward of each task
    groups: np.ndarray  # [M] the true motive of each task


def grid(seed: int, experts: int = 3, trajectories: int = 2, steps: int = 40) -> Problem:
    """The published grid."""
    rng = np.random.default_rng([27, 1, seed])
    environment = mm.Environment(_moves(8, MOVES, noise=0.3), discount=0.9)
    row, column = np.divmod(np.arange(64), 8)
    features = np.eye(16)[row // 2 * 4 + column // 2]
    weights = np.zeros((experts, 16))
    for expert in weights:
        expert[rng.choice(16, size=5, replace=False)] = rng.uniform(-1.0, 1.0, size=5)
    return _by_experts(environment, features, weights @ features.T, trajectories, 1, steps, rng)


def objects(seed: int, subjects: int = 4, episodes: int = 5, steps: int = 10, number: int = 12) -> Problem:
    """Objectworld with a type of behaviour for each colour."""
    colours = 3
    rng = np.random.default_rng([27, 2, seed])
    environment = mm.Environment(_moves(10, (*MOVES, (0, 0)), noise=0.3), discount=0.9)
    cells = np.stack(np.divmod(np.arange(100), 10), axis=1)
    where = cells[rng.choice(100, size=number, replace=False)]
    colour = rng.integers(colours, size=(2, number))  # outer, inner
    colour[0, :colours] = colour[1, :colours] = np.arange(colours)  # each is there
    away = np.sqrt(((cells[:, None] - where) ** 2).sum(axis=2))
    nearest = np.stack([[away[:, each == k].min(axis=1) for k in range(colours)] for each in colour])  # [2, colour, S]
    features = (nearest[..., None] < np.arange(1, 6)).transpose(2, 0, 1, 3).reshape(100, -1).astype(float)
    outer = nearest[0]
    rewards = np.stack(
        [np.where(outer[k] <= 3, np.where(outer[(k + 1) % colours] <= 2, 1.0, -1.0), 0.0) for k in range(colours)]
    )
    return _by_experts(environment, features, rewards, subjects, episodes, steps, rng)


def many(seed: int, tasks: int = 200, motives: int = 5, episodes: int = 10, steps: int = 20) -> Problem:
    """Many tasks around a few motives."""
    rng = np.random.default_rng([27, 3, seed])
    centres = rng.normal(size=(motives, 4))
    groups = rng.integers(motives, size=tasks)
    weights = centres[groups] + 0.25 * rng.normal(size=(tasks, 4))
    return _by_softmax((4, 4), weights, groups, mm.Softmax(3.0), episodes, steps, rng, seed)


def nobody(seed: int, subjects: int = 20, steps: int = 60) -> Problem:
    """One population, no groups."""
    rng = np.random.default_rng([27, 4, seed])
    weights = rng.normal(size=3) + 0.5 * rng.normal(size=(subjects, 3))
    return _by_softmax((3, 3), weights, np.zeros(subjects, dtype=int), mm.Softmax(2.0), 1, steps, rng, seed)


def _by_softmax(
    size: tuple[int, int],
    weights: np.ndarray,
    groups: np.ndarray,
    rule: mm.Softmax,
    episodes: int,
    steps: int,
    rng: np.random.Generator,
    seed: int,
) -> Problem:
    environment = mm.worlds.GridWorld(size, slip=0.1, discount=0.9)
    features = rng.normal(size=(environment.num_states, weights.shape[1]))
    rewards = weights @ features.T
    demonstrations: Any = mm.simulate(environment, rewards, rule, steps=steps, episodes=episodes, seed=seed)
    return Problem(environment, features, demonstrations, rewards, groups)


def _by_experts(
    environment: mm.Environment,
    features: np.ndarray,
    rewards: np.ndarray,  # [motive, S]
    each: int,
    episodes: int,
    steps: int,
    rng: np.random.Generator,
) -> Problem:
    """So many tasks of each motive, by optimal policies; in an order from which nothing is to be learnt."""
    best = np.asarray(mm.plan(environment, rewards).actions)
    groups = rng.permutation(np.repeat(np.arange(len(rewards)), each))
    walks = [_walk(environment.tensor, best[group], steps, rng) for group in groups for _ in range(episodes)]
    names = np.repeat(np.arange(len(groups)), episodes).tolist()
    demonstrations = mm.Demonstrations.from_lists(walks, environment, tasks=names)
    return Problem(environment, features, demonstrations, rewards[groups], groups)


def _walk(
    transitions: np.ndarray, policy: np.ndarray, steps: int, rng: np.random.Generator
) -> tuple[list[int], list[int]]:
    """States and actions from a uniform start."""
    size = len(transitions)
    states = [int(rng.integers(size))]
    for _ in range(steps - 1):
        states.append(int(rng.choice(size, p=transitions[states[-1], policy[states[-1]]])))
    return states, [int(policy[state]) for state in states]


def _moves(side: int, moves: tuple[tuple[int, int], ...], noise: float) -> np.ndarray:
    """[S, A, S] of an open square; with probability `noise` the action is drawn anew from all of them."""
    cells = np.stack(np.divmod(np.arange(side * side), side), axis=1)
    intended = np.zeros((side * side, len(moves), side * side))
    for action, move in enumerate(moves):
        ahead = cells + move
        inside = ((ahead >= 0) & (ahead < side)).all(axis=1)
        target = np.where(inside, ahead @ [side, 1], np.arange(side * side))
        intended[np.arange(side * side), action, target] = 1.0
    return (1 - noise) * intended + noise * intended.mean(axis=1, keepdims=True)
