"""Draws of who shares a motive with whom in; one partition that is closest to them all out, with how far they are.

The distance of two partitions of M tasks is the variation of information (Meilă 2007), in nats:

    d(a, b) = [Σ_k f(n_k) + Σ_l f(n_l) − 2 Σ_kl f(n_kl)] / M        f(n) = n log n; n_kl tasks in part k of a and l of b

The partition with the least expected distance from draws (Wade & Ghahramani 2018) is looked for among the draws and
those between them: from the best of them, tasks are moved and parts merged as long as that brings it closer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform
from scipy.special import xlogy

from manymotives.data.labels import Label
from manymotives.models.mixture import first_seen

STARTS = 8  # partitions from which the search for a better one begins
SEARCHED = 200_000  # tasks times draws, at most, that the search looks at; 100 draws at least
LARGEST = 10_000_000  # numbers in the table of how parts of a partition meet those of all draws
WORK = 40_000_000  # tasks of draws, times partitions, that are compared before the search
MOST_MERGED = 64  # parts, beyond which none are merged
ROUNDS = 100
GAIN = 1e-10  # nats per task


@dataclass(frozen=True, eq=False, repr=False)
class Partition:
    """Who shares a motive with whom: the partition that is closest to all draws.

    No single draw, and not the truth: `expected_distance` and `probability` say how sure it is.
    """

    groups: pd.Series  # task → the number of its motive: 1, 2, …, the one with most tasks first
    expected_distance: float  # variation of information of draws from it, in nats: 0 where all draws are this partition
    probability: float  # of exactly this partition
    sureness: pd.Series  # task → how probable it is, on average, that it shares a motive with the others of its group

    @property
    def number(self) -> int:
        """How many motives this partition has."""
        return int(self.groups.max())

    @cached_property
    def members(self) -> dict[int, tuple[Label, ...]]:
        """The tasks of each motive."""
        return {k: tuple(self.groups.index[self.groups == k]) for k in range(1, self.number + 1)}

    @property
    def table(self) -> pd.DataFrame:
        """One row for each motive: its tasks, and how sure it is that they share it."""
        rows = [
            (k, len(tasks), float(self.sureness[self.groups == k].mean()), listed(tasks))
            for k, tasks in self.members.items()
        ]
        return pd.DataFrame(rows, columns=["motive", "tasks", "together", "members"]).set_index("motive")

    def __repr__(self) -> str:
        head = (
            f"{self.number} motive{'s' if self.number > 1 else ''} of {len(self.groups)} tasks; the mean distance "
            f"of draws is {self.expected_distance:.3g} nats, and {self.probability:.0%} of them are this partition"
        )
        return f"{head}\n{self.table.round(3).to_string(max_colwidth=60, max_rows=20)}"


def partition_of(labels: np.ndarray, tasks: pd.Index, together: np.ndarray) -> Partition:
    """From draws [S, M] of the motives of tasks, and how often each two share one [M, M]."""
    groups, distance = closest_partition(labels, together)
    sizes = np.bincount(groups)
    rank = np.argsort(np.argsort(-sizes, kind="stable"))  # groups are numbered as they appear: so are those of one size
    groups = rank[groups]
    same = (groups[:, None] == groups) & ~np.eye(len(groups), dtype=bool)
    alone = 1.0 - _ever_shared(labels)
    with np.errstate(invalid="ignore"):
        sureness = np.where(same.any(axis=1), (together * same).sum(axis=1) / same.sum(axis=1), alone)
    return Partition(
        groups=pd.Series(groups + 1, index=tasks, name="motive"),
        expected_distance=distance,
        probability=float((labels == first_seen(groups)).all(axis=1).mean()),
        sureness=pd.Series(sureness, index=tasks, name="sureness"),
    )


def in_order(partition: Partition) -> np.ndarray:
    """[M] tasks by motive, and in each those that belong to it most surely first."""
    return np.lexsort((-partition.sureness.to_numpy(), partition.groups.to_numpy()))


def listed(tasks: Sequence[Label]) -> str:
    """Names of tasks in one line; those of episodes have commas inside."""
    names = [str(name) for name in tasks]
    return ("; " if any("," in name for name in names) else ", ").join(names)


def together_of(labels: np.ndarray) -> np.ndarray:
    """[M, M] the share of draws [S, M] in which each two tasks have the same motive."""
    draws, tasks = labels.shape
    found = np.zeros((tasks, tasks))
    step = max(1, LARGEST // (tasks * (int(labels.max()) + 1)))
    for begin in range(0, draws, step):
        part = labels[begin : begin + step]
        members = (part[..., None] == np.arange(part.max() + 1)).transpose(1, 0, 2).reshape(tasks, -1)
        found += members.astype(np.float32) @ members.T.astype(np.float32)
    return found / draws


def closest_partition(labels: np.ndarray, together: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    """The partition [M] with the least expected variation of information from draws [S, M], and that distance.

    Labels of draws are numbered as they appear, and so are those of the partition.
    """
    unique, weight = _counted(labels)
    draws, share = unique, weight
    if unique.size > SEARCHED:
        draws, share = _counted(_evenly(labels, max(100, SEARCHED // labels.shape[1])))
    together = together_of(labels) if together is None else together
    candidates = list(_candidates(unique, together, max(20, WORK // draws.size)))
    distances = [expected_distance(each, draws, share) for each in candidates]
    best = [candidates[n] for n in np.argsort(distances, kind="stable")[:STARTS]]
    improved = [_improved(each, draws, share) for each in best]
    ends = list({each.tobytes(): each for each in (*best[:1], *improved)}.values())
    exact = [expected_distance(each, unique, weight) for each in ends]
    n = int(np.argmin(exact))
    return ends[n], exact[n]


def expected_distance(groups: np.ndarray, draws: np.ndarray, share: np.ndarray) -> float:
    """E d of a partition [M] from draws [S, M], which count by their share [S]."""
    f = _f(len(groups))
    meet = _meeting(groups, draws, int(groups.max()) + 1)
    each = f[np.bincount(groups)].sum() + f[meet.sum(axis=1)].sum(axis=1) - 2 * f[meet].sum(axis=(1, 2))
    return max(0.0, float(share @ each)) / len(groups)


def _candidates(unique: np.ndarray, together: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """Partitions to begin with: draws, the most frequent first; cuts of a tree by how often tasks are together."""
    tasks = unique.shape[1]
    yield from _evenly(unique, most)
    if tasks > 1:
        tree = linkage(squareform(1.0 - together, checks=False).clip(0.0), method="average")
        counts = np.arange(1, min(tasks, 2 * int(unique.max()) + 3) + 1)
        yield from (first_seen(cut) for cut in cut_tree(tree, n_clusters=counts).T)


def _improved(groups: np.ndarray, draws: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The partition at which no task's move, and no merger of two parts, brings it closer to draws."""
    tasks = len(groups)
    room = (tasks + 1) * (int(draws.max()) + 1) if tasks <= 100 else (2 * int(groups.max()) + 20) * int(draws.max() + 1)
    draws, share = (_evenly(each, max(1, LARGEST // room)) for each in (draws, share))
    share = share / share.sum()
    growth = np.diff(_f(tasks + 1))  # f(n + 1) − f(n)
    groups = groups.copy()
    for _ in range(ROUNDS):
        moved = _move_tasks(groups, draws, share, growth)
        merged = _merge(groups, draws, share)
        if not (moved or merged):
            break
    return first_seen(groups)


def _move_tasks(groups: np.ndarray, draws: np.ndarray, share: np.ndarray, growth: np.ndarray) -> bool:
    """Every task in turn to the part, or the new one, where it brings the partition closest; whether any moved."""
    tasks, rows = len(groups), np.arange(len(draws))
    has_moved = False
    groups[:] = first_seen(groups)
    meet = _meeting(groups, draws, int(groups.max()) + 2)  # the last part is empty: a new one
    sizes = np.bincount(groups, minlength=meet.shape[1])
    for m in range(tasks):
        k, theirs = groups[m], draws[:, m]
        meet[rows, k, theirs] -= 1
        sizes[k] -= 1
        # f of its part, less twice f of where it meets the parts of draws
        cost = growth[sizes] - 2 * (share @ growth[meet[rows, :, theirs]])
        best = int(cost.argmin())
        if cost[best] < cost[k] - GAIN * tasks:
            groups[m], has_moved, k = best, True, best
        meet[rows, k, theirs] += 1
        sizes[k] += 1
        if sizes[-1]:  # the new part is in use: there must be an empty one
            meet = np.concatenate([meet, np.zeros_like(meet[:, :1])], axis=1)
            sizes = np.append(sizes, 0)
    return has_moved


def _merge(groups: np.ndarray, draws: np.ndarray, share: np.ndarray) -> bool:
    """Merge the two parts whose union brings the partition closest, if any does."""
    groups[:] = first_seen(groups)
    count = int(groups.max()) + 1
    if not 1 < count <= MOST_MERGED:
        return False
    f, meet, sizes = _f(len(groups)), _meeting(groups, draws, count), np.bincount(groups)
    apart = share @ f[meet].sum(axis=2)  # [K]
    best, pair = -GAIN * len(groups), None
    for k in range(count - 1):
        both = f[meet[:, k : k + 1] + meet[:, k + 1 :]].sum(axis=2)
        change = f[sizes[k] + sizes[k + 1 :]] - f[sizes[k]] - f[sizes[k + 1 :]]
        change -= 2 * (share @ both - apart[k] - apart[k + 1 :])
        if change.min() < best:
            best, pair = float(change.min()), (k, k + 1 + int(change.argmin()))
    if pair is None:
        return False
    groups[groups == pair[1]] = pair[0]
    return True


def _meeting(groups: np.ndarray, draws: np.ndarray, parts: int) -> np.ndarray:
    """[S, parts, L] how many tasks are in each part of a partition and each part of each draw."""
    count, width = len(draws), int(draws.max()) + 1
    index = (np.arange(count)[:, None] * parts + groups) * width + draws
    return np.bincount(index.ravel(), minlength=count * parts * width).reshape(count, parts, width)


def _f(most: int) -> np.ndarray:
    """n log n of 0, 1, …, `most`."""
    return np.asarray(xlogy(np.arange(most + 1.0), np.arange(most + 1.0)))


def _counted(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different draws, the most frequent first, and the share [S] of each."""
    unique, times = np.unique(labels, axis=0, return_counts=True)
    order = np.argsort(-times, kind="stable")
    return unique[order], times[order] / len(labels)


def _evenly(rows: np.ndarray, most: int) -> np.ndarray:
    """At most so many of them, evenly spread."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(int)]


def _ever_shared(labels: np.ndarray) -> np.ndarray:
    """[M] the share of draws in which a task shares its motive with anybody."""
    draws, tasks = labels.shape
    index = labels + np.arange(draws)[:, None] * tasks
    sizes = np.bincount(index.ravel(), minlength=draws * tasks)
    return (sizes[index] > 1).mean(axis=0)
