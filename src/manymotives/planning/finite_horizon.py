"""Planning n steps ahead: n Bellman backups, from nothing after the last step; whole batches, any environment.

    V_0 = 0,   Q_k = r + γ P V_{k−1},   V_k = max_a Q_k (or log Σ exp(c Q_k) / c),      k = 1, …, n

Choices are made by Q_n at every step: the horizon moves along with the agent. The same inside compiled samplers, and
its adjoint: `finite_horizon_kernels`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from manymotives.data.environment import Environment
from manymotives.errors import InputError, quoted
from manymotives.planning.problem import Solution, allowed_actions, rounding

DEEPEST = 1000  # steps; beyond, the last ones no longer matter at any ordinary discount


def checked_depth(depth: Any, what: str) -> int | None:
    """A number of steps, or None: for ever."""
    if depth is None:
        return None
    is_whole = isinstance(depth, int | np.integer) and not isinstance(depth, bool)
    if not is_whole or not 1 <= depth <= DEEPEST:
        raise InputError(
            f"{what} must be a whole number of steps from 1 to {DEEPEST}; found {quoted(depth)}. For an infinite "
            "horizon, leave it out."
        )
    return int(depth)


def plan_ahead(
    environment: Environment,
    rewards: np.ndarray,  # [B, S, 1 or A]
    temperatures: np.ndarray | None,  # [B] inverse temperatures
    discounts: np.ndarray | None,  # [B] instead of the environment's
    depth: int,
) -> Solution:
    """Q_n and V_n of rewards. They are exact: nothing is solved, and no residual is left."""
    *_, q = backups(environment, rewards, temperatures, discounts, depth)
    value = values_of(q, temperatures)
    longest = int(np.diff(environment.matrix.indptr).max(initial=0))
    slack = rounding(np.abs(value).max(axis=1), longest, np.finfo(float).eps)
    actions = (q >= (q.max(axis=2) - slack[:, None])[..., None]).argmax(axis=2)
    return Solution(q, value, actions, np.zeros(len(q)), np.zeros(len(q), dtype=np.int64))


def backups(
    environment: Environment,
    rewards: np.ndarray,
    temperatures: np.ndarray | None,
    discounts: np.ndarray | None,
    depth: int,
) -> Iterator[np.ndarray]:
    """Q_1, …, Q_n [B, S, A], one after the other; −inf where an action does not exist."""
    allowed = allowed_actions(environment)
    here = np.where(allowed, rewards, -np.inf)
    discount: Any = environment.discount if discounts is None else discounts[:, None, None]
    q = here
    for step in range(depth):
        if step > 0:
            later = (environment.matrix @ values_of(q, temperatures).T).T.reshape(here.shape)
            q = here + discount * later
        yield q


def values_of(q: np.ndarray, temperatures: np.ndarray | None) -> np.ndarray:
    """V [B, S] of action values [B, S, A]: the largest, or what agents who foresee their errors expect."""
    best = q.max(axis=2)
    if temperatures is None:
        return best
    with np.errstate(over="ignore"):  # of what does not exist, or is never done at this temperature
        total = np.exp(temperatures[:, None, None] * (q - best[..., None])).sum(axis=2)
    return best + np.log(total) / temperatures[:, None]
