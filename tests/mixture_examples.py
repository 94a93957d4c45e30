"""Small problems with shared motives, for `oracle_mixture`: three states, a few tasks, two or three true motives."""

from typing import Any

import numpy as np

import manymotives as mm
from oracle_mixture import Problem


def problem(
    seed: int = 0,
    *,
    tasks: int = 6,
    actions: int = 2,
    features: int = 1,
    choices: int = 12,
    inverse_temperature: float = 2.0,
    is_soft: bool = False,
    on_pairs: bool = False,
    spread: float = 0.0,
) -> Problem:
    """Choices at random states by tasks that take turns at the motives −1.5, 1 and, of six tasks, 0.2 for one."""
    rng = np.random.default_rng([27, seed])
    transitions = rng.dirichlet(np.full(3, 0.4), size=(3, actions))
    shape = (3, actions, features) if on_pairs else (3, features)
    empty = Problem(
        transitions=transitions,
        discount=0.8,
        features=rng.normal(size=shape),
        counts=np.zeros((tasks, 3, actions)),
        inverse_temperature=inverse_temperature,
        is_soft=is_soft,
    )
    motive = np.array([-1.5, 1.0])[np.arange(tasks) % 2]
    motive[5:] = 0.2
    weights = motive[:, None] * np.ones(features) + spread * rng.normal(size=(tasks, features))
    one_each = np.eye(3 * actions).reshape(-1, 3, actions)
    policies = np.exp(_with_counts(empty, one_each).log_likelihoods(weights)).reshape(tasks, 3, actions)
    visits = rng.multinomial(choices, np.full(3, 1 / 3), size=tasks)
    return _with_counts(empty, rng.multinomial(visits, policies).astype(float))


def _with_counts(empty: Problem, counts: np.ndarray) -> Problem:
    return Problem(
        empty.transitions, empty.discount, empty.features, counts, empty.inverse_temperature, empty.is_soft,
    )  # fmt: skip


def library_inputs(problem: Problem, sharing: Any) -> tuple[mm.RewardPolicyModel, mm.Environment, mm.Demonstrations]:
    """The same as a model, an environment and demonstrations of tasks 0, 1, …: what `mm.fit` takes."""
    environment = mm.Environment(problem.transitions, discount=problem.discount)
    rule = (mm.SoftOptimal if problem.is_soft else mm.Softmax)(problem.inverse_temperature)
    on = "state" if problem.features.ndim == 2 else "state_action"
    reward = mm.GaussianReward(problem.features, mean=problem.mean, scale=problem.scale, on=on)
    chosen = np.repeat(np.argwhere(problem.counts > 0), problem.counts[problem.counts > 0].astype(int), axis=0)
    demonstrations = mm.Demonstrations.from_lists(
        [([int(state)], [int(action)]) for _, state, action in chosen], environment, tasks=chosen[:, 0].tolist()
    )
    return mm.RewardPolicyModel(reward, rule, sharing), environment, demonstrations
