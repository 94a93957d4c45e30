"""Estimates of the evidence of sets of tasks, each made once and kept until it is refreshed.

A set of tasks is a whole number here, whose bit m says whether task m belongs to it.
"""

from collections.abc import Iterable

import numpy as np

from manymotives.inference.mixture.importance import ImportanceSampling, SetSample, made_once

NEVER = -1e12  # log evidence of a set whose choices no draw could have made


class Evidences:
    """Runs that one chain keeps: one for each set of tasks that it has met, until it is refreshed.

    Chains of even and of odd number begin with runs of their own, which each half shares: where runs are too noisy,
    the halves disagree. Every run is determined by its seed: a chain that is resumed makes the same again.
    """

    def __init__(self, estimator: ImportanceSampling, chain: int) -> None:
        self.estimator, self.chain = estimator, chain
        self.seeds: dict[int, int] = {}  # of sets that were refreshed
        self.met: set[int] = set()  # by this chain: what others have met depends on who is faster
        self.kept: dict[int, SetSample] = {}

    def of(self, tasks: int) -> SetSample:
        """The run of a set."""
        found = self.kept.get(tasks)
        if found is None:
            self.met.add(tasks)
            found = self._refreshed_or_shared(tasks)
            self.kept[tasks] = found
        return found

    def log_evidence(self, tasks: int) -> float:
        """log Z of a set, as its run estimates it."""
        return max(self.of(tasks).log_evidence, NEVER)

    def has(self, tasks: int) -> bool:
        """Whether this chain has met the set."""
        return tasks in self.met

    def run(self, tasks: int, seed: int) -> SetSample:
        """Another run of a set."""
        members = tasks_in(tasks)
        return self.estimator.run(np.random.default_rng([1, seed, *members]), members)

    def factor(self, tasks: int) -> np.ndarray:
        """[R, R] of the covariance of what a set may want, for mass matrices."""
        return self.estimator.proposal(tasks_in(tasks)).approximation.factor

    def refresh(self, tasks: int, seed: int, found: SetSample) -> None:
        """Another run in the place of the one that was kept."""
        self.seeds[tasks], self.kept[tasks] = seed, found
        self.estimator.shared[self.chain, "refreshed", tasks] = seed, found

    def saved(self) -> dict[str, int | None]:
        """Seeds of runs, by the tasks of sets, as `restore` takes them; None: that of all chains of this half."""
        return {tasks_in(each).tobytes().hex(): self.seeds.get(each) for each in sorted(self.met)}

    def restore(self, seeds: dict[str, int | None], chain: int) -> None:
        """As a chain was when it was saved."""
        of_sets = {set_of(np.frombuffer(bytes.fromhex(tasks), dtype=np.int64)): seed for tasks, seed in seeds.items()}
        self.met, self.chain = set(of_sets), chain
        self.seeds = {tasks: seed for tasks, seed in of_sets.items() if seed is not None}

    def _refreshed_or_shared(self, tasks: int) -> SetSample:
        shared, half = self.estimator.shared, self.chain % 2
        if tasks not in self.seeds:
            return made_once(shared, (half, tasks), lambda: self.run(tasks, half))
        seed, found = shared.get((self.chain, "refreshed", tasks), (None, None))
        return found if seed == self.seeds[tasks] else self.run(tasks, self.seeds[tasks])


def set_of(tasks: Iterable[int] | np.ndarray) -> int:
    """The number that stands for these tasks."""
    return sum(1 << int(m) for m in tasks)


def tasks_in(tasks: int) -> np.ndarray:
    """The tasks of a set, in increasing order."""
    return np.array([m for m in range(tasks.bit_length()) if tasks >> m & 1], dtype=np.int64)
