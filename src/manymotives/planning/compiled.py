"""Planning for whole batches on the CPU: NumPy in, NumPy out, blocks of rewards spread over the cores."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from manymotives.data.environment import Environment
from manymotives.planning import kernels
from manymotives.planning.problem import LIMIT, Solution, allowed_actions, cores
from manymotives.planning.simd import WIDTH

MAX_STATES = 128  # past this the eliminations leave the caches, and the sparse planner wins …
MAX_DENSE_STATES = 512  # … unless transitions are dense
DENSE = 0.1  # of all transitions possible


def suits(environment: Environment) -> bool:
    """Whether this is the planner for an environment."""
    size = environment.num_states
    if size <= MAX_STATES:
        return True
    return size <= MAX_DENSE_STATES and environment.matrix.nnz >= DENSE * environment.num_actions * size**2


def plan_dense(
    environment: Environment,
    rewards: np.ndarray,  # [B, S, 1 or A]
    temperatures: np.ndarray | None,  # [B] inverse temperatures
    start: np.ndarray | None,  # [B, S] actions
    discounts: np.ndarray | None = None,  # [B] instead of the environment's
) -> Solution:
    """Plans of rewards in one small environment."""
    num_rewards, num_states, _ = rewards.shape
    num_actions = environment.num_actions
    rewards = _whole_blocks(rewards)
    inverse = np.empty(0) if temperatures is None else _whole_blocks(temperatures)
    first = np.empty((0, 0), dtype=np.int64) if start is None else _whole_blocks(start)
    padded = len(rewards)
    # one allocation for all results: the allocator then reuses it from call to call, where several smaller ones are
    # returned to the system and mapped anew, which at S = 5 costs more than planning
    widths = (num_states * num_actions, num_states, num_states, 1, 1)
    parts = np.split(np.empty(padded * sum(widths)), np.cumsum(widths)[:-1] * padded)
    q = parts[0].reshape(padded, num_states, num_actions)
    value = parts[1].reshape(padded, num_states)
    actions = parts[2].view(np.int64).reshape(padded, num_states)
    residual = parts[3]
    solves = parts[4].view(np.int64)
    transitions, ratios = _transitions_and_ratios(environment, discounts)
    forbidden = ~allowed_actions(environment).ravel()
    # a sweep costs A S² and spares part of a solve of S³/3: worth more the larger S (docs/decisions/appendix/0002)
    sweeps = 3 + num_states // 6

    def work(begin: int, end: int) -> None:
        kernels.plan_batch(
            transitions,
            forbidden,
            rewards,
            inverse,
            ratios,
            first,
            sweeps,
            LIMIT,
            begin,
            end,
            q,
            value,
            actions,
            residual,
            solves,
        )

    in_parallel(work, padded, cost=num_states**2 * (num_states + 8 * num_actions))
    return Solution(*(array[:num_rewards] for array in (q, value, actions, residual, solves)))


def evaluate_dense(
    environment: Environment, policies: np.ndarray, rewards: np.ndarray, discounts: np.ndarray | None = None
) -> np.ndarray:
    """V^π [B, S] of policies [B, S, A] for rewards [B, S, 1 or A]; with discounts [B], or the environment's."""
    num_policies, num_states, _ = policies.shape
    policies, rewards = _whole_blocks(policies), _whole_blocks(rewards)
    value = np.empty((len(policies), num_states))
    transitions, ratios = _transitions_and_ratios(environment, discounts)

    def work(begin: int, end: int) -> None:
        kernels.evaluate_batch(transitions, policies, rewards, ratios, begin, end, value)

    in_parallel(work, len(policies), cost=num_states**3)
    return value[:num_policies]


def _whole_blocks(array: np.ndarray) -> np.ndarray:
    """Contiguous, and as long as a whole number of blocks: the last entry is repeated.

    Writable too, though nobody writes: to Numba a read-only array is another type, compiled for again.
    """
    missing = -len(array) % WIDTH
    if missing == 0:
        return np.require(array, requirements=["C_CONTIGUOUS", "WRITEABLE"])
    return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)])


def _transitions_and_ratios(environment: Environment, discounts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Transitions [S·A, S] times a discount, and what each reward's own is of it, or nothing."""
    if discounts is None:
        return discounted(environment), np.empty(0)
    return discounted(environment, 1.0), _whole_blocks(np.asarray(discounts, dtype=float))


def discounted(environment: Environment, discount: float | None = None) -> np.ndarray:
    """Transitions [S·A, S] times a discount: the environment's, unless another is given."""
    discount = environment.discount if discount is None else discount
    return np.ascontiguousarray(discount * environment.tensor.reshape(-1, environment.num_states))


def in_parallel(work: Callable[[int, int], None], count: int, cost: int, block: int = WIDTH) -> None:
    """Run `work(begin, end)` over parts of range(count), on every core if that is worth a thread.

    `cost` is of one of them, in operations; parts begin at multiples of `block`.

    Threads, not Numba's parallel loops: the kernels release the lock, and may be called from many threads.
    """
    count_of_cores = cores()
    blocks = -(-count // block)
    if count_of_cores == 1 or blocks < 2 or count * cost < 2_000_000:  # about a millisecond of work
        work(0, count)
        return
    # several pieces a core, because rewards differ in how many solves they need and cores in what else they do
    pieces = min(blocks, 4 * count_of_cores)
    edges = [min(count, block * (blocks * piece // pieces)) for piece in range(pieces + 1)]
    list(_threads(count_of_cores).map(work, edges[:-1], edges[1:]))


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    """Threads kept from call to call: starting them takes as long as planning for some thousand small rewards."""
    return ThreadPoolExecutor(count, thread_name_prefix="manymotives")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # a forked process has none of its parent's threads
