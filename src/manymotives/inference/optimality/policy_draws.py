"""Policies of a task from their posterior, in chunks that have streams of random numbers of their own."""

import zlib

import numpy as np

from manymotives.models import OptimalityTarget

AT_A_TIME = 2_000_000  # losses of one block
CHUNK = 100  # policies that share a stream
LARGEST_POLICIES = 20_000_000  # numbers, of all policies drawn: beyond it only their means are kept


def block_size(numbers: int, each: int) -> int:
    """How many policies make so many numbers: whole chunks."""
    return CHUNK * max(1, numbers // each // CHUNK)


def draw_policies(
    target: OptimalityTarget, concentration: np.ndarray, task: int | None, seed: int, part: slice
) -> tuple[np.ndarray, list[np.random.Generator]]:
    """Policies `part` of a task (None: of nobody's choices) and the streams they came from, one a chunk.

    The same policies whatever the blocks they are asked for in, and whoever else is there: a task's streams have its
    name.
    """
    position = 0 if task is None else 1 + zlib.crc32(str(target.tasks[task]).encode())
    tables, rngs = [], []
    for begin in range(part.start, part.stop, CHUNK):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(5, position, begin // CHUNK)))
        tables.append(target.draw_policies(rng, concentration[begin : min(begin + CHUNK, part.stop)], task))
        rngs.append(rng)
    return np.concatenate(tables), rngs


def log_likelihood(policies: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Σ n(s, a) log π(a|s) [K] of policies [K, S, A]."""
    seen = counts > 0
    with np.errstate(divide="ignore"):
        return np.log(policies[:, seen]) @ counts[seen]
