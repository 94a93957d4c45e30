"""Estimates of the evidence of sets of tasks, each made once and kept until it is refreshed."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from manymotives.inference.mixture.importance import SetSample


class Estimator(Protocol):
    """A way to estimate an evidence without bias."""

    def tuned(self, members: np.ndarray) -> Any | None:
        """Settings for a set of tasks, which depend on it alone; with `factor` [R, R]. None: not for this set."""

    def run(self, rng: np.random.Generator, members: np.ndarray, tuned: Any) -> SetSample:
        """An estimate."""


class Evidences:
    """Runs that one chain keeps: one for each set of tasks that it has met, until it is refreshed.

    Chains of even and of odd number begin with runs of their own, which each half shares: where runs are too noisy,
    the halves disagree. Every run is determined by its seed: a chain that is resumed makes the same again.
    """

    def __init__(self, estimators: Sequence[Estimator], shared: dict[Any, Any], half: int) -> None:
        self.estimators, self.shared, self.half = estimators, shared, half
        self.seeds: dict[bytes, int] = {}  # of sets that were refreshed
        self.met: set[bytes] = set()  # by this chain: what others have met depends on who is faster
        self.kept: dict[bytes, SetSample] = {}

    def of(self, members: np.ndarray) -> SetSample:
        """The run of a set."""
        key = members.tobytes()
        self.met.add(key)
        if key in self.kept:
            return self.kept[key]
        if key in self.seeds:
            self.kept[key] = self.run(members, self.seeds[key])
            return self.kept[key]
        if (self.half, key) not in self.shared:
            self.shared[self.half, key] = self.run(members, self.half)
        return self.shared[self.half, key]

    def has(self, members: np.ndarray) -> bool:
        """Whether this chain has met the set."""
        return members.tobytes() in self.met

    def run(self, members: np.ndarray, seed: int) -> SetSample:
        """Another run of a set."""
        key = members.tobytes()
        if key not in self.shared:
            self.shared[key] = self._tuned(members)
        which, tuned = self.shared[key]
        return self.estimators[which].run(np.random.default_rng([1, seed, *members]), members, tuned)

    def _tuned(self, members: np.ndarray) -> tuple[int, Any]:
        """The first estimator that can, and its settings."""
        found = ((n, each.tuned(members)) for n, each in enumerate(self.estimators))
        return next((n, tuned) for n, tuned in found if tuned is not None)

    def factor(self, members: np.ndarray) -> np.ndarray:
        """[R, R] of the covariance of particles, for mass matrices."""
        self.of(members)
        return self.shared[members.tobytes()][1].factor

    def refresh(self, members: np.ndarray, seed: int, found: SetSample) -> None:
        """Another run in the place of the one that was kept."""
        key = members.tobytes()
        self.seeds[key], self.kept[key] = seed, found
