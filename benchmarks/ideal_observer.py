"""How well can the published grid be solved? By an observer who knows how its problems were made (an hour).

    python -m benchmarks.ideal_observer [--seeds 0:20]

The observer knows what no model in use does: 5 of 16 weights are uniform in [−1, 1], all others are 0, and experts
never err. What is not known is who shares a motive with whom: the prior of partitions is that of
`mm.FiniteNumber(mean=3)`, or the same given that there are three motives.

    Z_A = P(every choice of the tasks A is optimal), by sequential Monte Carlo over c = 0 … 300 in Π softmax(c Q*)

for the sets A of the six tasks, from small to large; a set is passed over when one of its subsets, or it itself, is
e⁹ times less probable than the same tasks apart. All 203 partitions are enumerated.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numba import njit
from scipy.special import logsumexp

import manymotives as mm
from benchmarks import mixture_problems
from benchmarks.partition_scores import adjusted_rand, best_match_f, mutual_information, pairwise_f
from manymotives.models.mixture import PartitionPrior
from manymotives.posterior.partitions import expected_distance

PARTICLES, MOVES, RUNS = 400, 8, 2
MOST = 300.0  # c at the end: choices are as good as certain
LESS = 9.0  # nats
NEVER = -1e4
WEIGHTS, USED = 16, 5
DISCOUNT, NOISE = 0.9, 0.3


@njit(cache=True)
def best_values(weights: np.ndarray, block: np.ndarray, ahead: np.ndarray, values: np.ndarray, q: np.ndarray) -> None:
    """Q* [S, A] by value iteration from the values that are given, which are overwritten."""
    states, actions = ahead.shape
    change = 1.0
    while change > 1e-7:
        change = 0.0
        for s in range(states):
            best, total = -np.inf, 0.0
            for a in range(actions):
                total += values[ahead[s, a]]
                best = max(best, values[ahead[s, a]])
            new = weights[block[s]] + DISCOUNT * (NOISE / actions * total + (1.0 - NOISE) * best)
            change = max(change, abs(new - values[s]))
            values[s] = new
    for s in range(states):
        total = 0.0
        for a in range(actions):
            total += values[ahead[s, a]]
        for a in range(actions):
            expected = NOISE / actions * total + (1.0 - NOISE) * values[ahead[s, a]]
            q[s, a] = weights[block[s]] + DISCOUNT * expected


@njit(cache=True)
def log_likelihood(q: np.ndarray, counts: np.ndarray, visited: np.ndarray, c: float) -> float:
    """Σ k log softmax(c Q)."""
    total = 0.0
    for s in visited:
        largest = q[s].max()
        normaliser = np.log(np.exp(c * (q[s] - largest)).sum())
        for a in range(q.shape[1]):
            total += counts[s, a] * (c * (q[s, a] - largest) - normaliser)
    return total


@njit(cache=True)
def propose(rng: np.random.Generator, weights: np.ndarray, scale: float) -> bool:
    """Another draw from the prior, or a step that leaves it as it is. False: outside its reach."""
    used = np.flatnonzero(weights != 0.0)
    kind = rng.integers(0, 3)
    if kind == 0:  # another weight is not zero
        unused = np.flatnonzero(weights == 0.0)
        old, new = used[rng.integers(0, len(used))], unused[rng.integers(0, len(unused))]
        weights[new] = weights[old] if rng.random() < 0.5 else rng.uniform(-1.0, 1.0)
        weights[old] = 0.0
    elif kind == 1:
        one = used[rng.integers(0, len(used))]
        weights[one] = rng.uniform(-1.0, 1.0) if rng.random() < 0.3 else rng.normal(weights[one], scale)
    else:
        for one in used:
            weights[one] = rng.normal(weights[one], 0.4 * scale)
    return np.abs(weights).max() <= 1.0


@njit(cache=True)
def next_temperature(
    q: np.ndarray, counts: np.ndarray, visited: np.ndarray, c: float, found: np.ndarray, gain: np.ndarray
) -> float:
    """The largest c at which half of the particles still count; `gain` becomes what it adds to log-likelihoods."""
    lower, upper = c, MOST
    tried = upper
    for n in range(40):
        for i in range(len(found)):
            gain[i] = log_likelihood(q[i], counts, visited, tried) - found[i]
        share = np.exp(gain - gain.max())
        if share.sum() ** 2 / (share**2).sum() >= 0.5 * len(found):
            lower = tried
            if n == 0 or upper - lower < 0.01 * (lower - c):
                return lower
        else:
            upper = tried
        tried = 0.5 * (lower + upper)
    return tried


@njit(cache=True)
def log_evidence(
    rng: np.random.Generator,
    block: np.ndarray,
    ahead: np.ndarray,
    counts: np.ndarray,
    visited: np.ndarray,
    floor: float,
) -> float:
    """log Z of the tasks whose choices are counted; `NEVER` where it is below the floor."""
    states, actions = ahead.shape
    weights, values = np.zeros((PARTICLES, WEIGHTS)), np.zeros((PARTICLES, states))
    q, found = np.zeros((PARTICLES, states, actions)), np.zeros(PARTICLES)
    for i in range(PARTICLES):
        weights[i, rng.permutation(WEIGHTS)[:USED]] = rng.uniform(-1.0, 1.0, USED)
        best_values(weights[i], block, ahead, values[i], q[i])
        found[i] = log_likelihood(q[i], counts, visited, 0.0)
    total, c, scale, gain = found[0], 0.0, 0.3, np.zeros(PARTICLES)
    while c < MOST:
        c = next_temperature(q, counts, visited, c, found, gain)
        share = np.exp(gain - gain.max())
        total += gain.max() + np.log(share.mean())
        if total < floor and c > 0.2 * MOST:
            return NEVER
        kept = np.searchsorted(np.cumsum(share / share.sum()), (rng.random() + np.arange(PARTICLES)) / PARTICLES)
        kept = np.minimum(kept, PARTICLES - 1)
        weights, values, q, found = weights[kept], values[kept], q[kept], (found + gain)[kept]
        accepted = 0
        for i in range(PARTICLES):
            for _ in range(MOVES):
                tried, tried_values, tried_q = weights[i].copy(), values[i].copy(), q[i].copy()
                if propose(rng, tried, scale):
                    best_values(tried, block, ahead, tried_values, tried_q)
                    new = log_likelihood(tried_q, counts, visited, c)
                    if np.log(rng.random()) < new - found[i]:
                        weights[i], values[i], q[i], found[i] = tried, tried_values, tried_q, new
                        accepted += 1
        scale = min(1.5, max(1e-3, scale * np.exp(accepted / (PARTICLES * MOVES) - 0.3)))
    return total


def evidences(seed: int) -> dict[frozenset[int], float]:
    """log Z of every set of tasks that can be."""
    counts = np.asarray(mixture_problems.grid(seed).demonstrations.counts, dtype=float)
    row, column = np.divmod(np.arange(64), 8)
    ahead = np.empty((64, 4), dtype=np.int64)
    for action, (down, right) in enumerate(mixture_problems.MOVES):
        inside = (row + down >= 0) & (row + down < 8) & (column + right >= 0) & (column + right < 8)
        ahead[:, action] = np.where(inside, (row + down) * 8 + column + right, np.arange(64))
    found: dict[frozenset[int], float] = {}
    for members in sorted(_subsets(len(counts)), key=len):
        parts = [(members - {m}, frozenset([m])) for m in members if len(members) > 1]
        if any(part not in found for part, _ in parts):
            continue
        floor = max((found[part] + found[alone] - LESS for part, alone in parts), default=-np.inf)
        of_set = counts[sorted(members)].sum(axis=0)
        visited = np.flatnonzero(of_set.sum(axis=1))
        code = sum(1 << m for m in members)
        streams = [np.random.default_rng([seed, code, run]) for run in range(RUNS)]
        runs = [log_evidence(rng, row // 2 * 4 + column // 2, ahead, of_set, visited, floor) for rng in streams]
        total = float(logsumexp(runs)) - np.log(RUNS)
        if total > 0.5 * NEVER:
            found[members] = total
    return found


def observed(seed: int) -> dict[str, float]:
    """What the observer finds in a problem."""
    begin = time.perf_counter()
    found, truth = evidences(seed), mixture_problems.grid(seed).groups
    size = len(truth)
    partitions = np.array(list(_partitions(size)))
    prior = PartitionPrior(mm.FiniteNumber(mean=3.0), size)
    log_p = np.array([prior.log_prior(np.bincount(each), 1.0) for each in partitions])
    for n, each in enumerate(partitions):
        blocks = [frozenset(np.flatnonzero(each == k).tolist()) for k in range(each.max() + 1)]
        log_p[n] += sum(found.get(block, NEVER) for block in blocks)
    share = np.exp(log_p - logsumexp(log_p))
    number = partitions.max(axis=1) + 1
    of_three = np.where(number == 3, share, 0.0) / share[number == 3].sum()
    best, best_of_three = (_closest(partitions, each) for each in (share, of_three))
    return {
        "seed": seed,
        "f": best_match_f(truth, best),
        "f_of_pairs": pairwise_f(truth, best),
        "nmi": mutual_information(truth, best),
        "exact": float(adjusted_rand(truth, best) > 1 - 1e-12),
        "three": float(np.bincount(number, weights=share).argmax() == 3),
        "f_of_three": best_match_f(truth, best_of_three),
        "seconds": time.perf_counter() - begin,
    }


def _closest(partitions: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The partition with the least expected variation of information."""
    return partitions[int(np.argmin([expected_distance(each, partitions, share) for each in partitions]))]


def _subsets(size: int) -> Iterator[frozenset[int]]:
    for code in range(1, 1 << size):
        yield frozenset(m for m in range(size) if code >> m & 1)


def _partitions(size: int) -> Iterator[list[int]]:
    """Numbered as they appear."""
    if size == 0:
        yield []
        return
    for each in _partitions(size - 1):
        for group in range(max(each, default=-1) + 2):
            yield [*each, group]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0:20", help="from:to, without the last")
    parser.add_argument("--out", type=Path, default=Path("build/ideal_observer.jsonl"))
    given = parser.parse_args()
    first, last = map(int, given.seeds.split(":"))
    rows = []
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with given.out.open("w", encoding="utf-8") as out:
        for seed in range(first, last):
            rows.append(observed(seed))
            out.write(json.dumps(rows[-1]) + "\n")
            print(", ".join(f"{name} {value:.3g}" for name, value in rows[-1].items()), flush=True)
    for name, words in (("f", "F of best matches"), ("f_of_pairs", "F of pairs")):
        f = np.array([row[name] for row in rows])
        print(f"{words} {f.mean():.3f} ± {f.std() / np.sqrt(len(f)):.3f}", end=", ")
    print(f"of best matches with three motives given {np.mean([row['f_of_three'] for row in rows]):.3f}", end="; ")
    print(f"normalised mutual information {np.mean([row['nmi'] for row in rows]):.3f}", end="; ")
    print(f"of {len(rows)} partitions {sum(row['exact'] for row in rows):.0f} exact", end=", ")
    print(f"three the likeliest number in {sum(row['three'] for row in rows):.0f}")


if __name__ == "__main__":
    main()
