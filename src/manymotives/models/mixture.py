"""Tasks that share motives: each acts on one of several, whose number may be unknown; priors on partitions of tasks.

p(z) = V(t) Π_c Γ(a + n_c) / Γ(a)        t motives in use, n_c tasks on each

a number of motives K        V(t) = K! / (K − t)! · Γ(a K) / Γ(a K + M),        a = 1
`FiniteNumber`               the same, averaged over K − 1 ~ Poisson(mean − 1)  (Miller & Harrison 2018)
`DirichletProcess`           V(t) = αᵗ Γ(α) / Γ(α + M), a → 0: Γ(n_c) for each  (the Chinese restaurant process)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from manymotives.errors import InputError, quoted
from manymotives.families import draw_all, log_density_all
from manymotives.io.records import Recorded
from manymotives.models.priors import Gamma, Prior, check_parameter

TASK, EPISODE = "task", "episode"
MOST = 10_000  # motives that a prior of their number looks at


@dataclass(frozen=True, eq=False)
class DirichletProcess(Recorded):
    """A Dirichlet process: however many tasks there are, the next one may have a new motive.

    The expected number of motives grows with the number of tasks, as concentration · log(tasks), so that a finite
    number is not recovered however much data there are. To ask how many motives there are, use `FiniteNumber`.

    Parameters
    ----------
    concentration
        α: larger values give more motives. A number, or a prior, with which it is inferred.
    """

    concentration: Any = Gamma(shape=1.0, rate=1.0)

    def __post_init__(self) -> None:
        check_parameter(self.concentration, "DirichletProcess: concentration", "positive")
        _check_one_number(self.concentration, "DirichletProcess: concentration")


@dataclass(frozen=True, eq=False)
class FiniteNumber(Recorded):
    """A finite, unknown number of motives: K − 1 ~ Poisson(mean − 1), a mixture of finite mixtures.

    Parameters
    ----------
    mean
        The expected number of motives a priori; above 1.
    concentration
        How evenly the motives are used: their shares are Dirichlet(concentration, …, concentration). At 1, all shares
        are equally likely.
    """

    mean: float = 3.0
    concentration: float = 1.0

    def __post_init__(self) -> None:
        for word, least in (("mean", 1.0), ("concentration", 0.0)):
            value = getattr(self, word)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least < value < np.inf:
                raise InputError(f"FiniteNumber: {word} must be a number above {least:g}; found {quoted(value)}.")


@dataclass(frozen=True, eq=False)
class Mixture(Recorded):
    """Each task has one of several motives, and tasks with the same motive have the same reward.

    Which tasks share a motive is inferred, and so is the number of motives, unless it is given. Inverse temperature,
    lapse rate and discount, if they are inferred, are separate for each task.

    Parameters
    ----------
    motives
        `FiniteNumber()`, the default: a finite, unknown number; `DirichletProcess()`; or the number of motives, of
        which some may remain unused.
    spread
        If None, tasks with the same motive have exactly the same reward. With a prior such as `HalfNormal(scale=0.5)`,
        or a number, their rewards are Normal(the motive's, spread), with one spread for all weights: a mixture of
        populations. For `GaussianReward` only.
    by
        "task": each task has one motive. "episode": each episode of a task has one, so that a subject may have
        different motives on different days; the results are then by episode.
    """

    motives: Any = FiniteNumber()
    spread: Any = None
    by: str = TASK

    def __post_init__(self) -> None:
        is_number = isinstance(self.motives, int | np.integer) and not isinstance(self.motives, bool)
        if not isinstance(self.motives, FiniteNumber | DirichletProcess) and not (is_number and self.motives >= 1):
            raise InputError(
                "Mixture: motives must be FiniteNumber(...), DirichletProcess(...), or a whole number of at least 1; "
                f"found {quoted(self.motives)}."
            )
        if self.spread is not None:
            check_parameter(self.spread, "Mixture: spread", "positive")
            _check_one_number(self.spread, "Mixture: spread")
        if self.by not in (TASK, EPISODE):
            raise InputError(f'Mixture: by must be "task" or "episode"; found {quoted(self.by)}.')


class OnePrior(NamedTuple):
    """The prior of one positive number, by its logarithm; or the number, where it is known."""

    known: float  # NaN where it is inferred
    family: int = 0
    parameters: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, given: Any) -> "OnePrior":
        if not isinstance(given, Prior):
            return cls(float(given))
        first, *more = map(float, given.parameters)
        return cls(float("nan"), given.family, (first, more[0] if more else 0.0))

    @property
    def is_known(self) -> bool:
        return not np.isnan(self.known)

    def log_density(self, log_value: float) -> float:
        """log p of the logarithm; 0 where it is known."""
        if self.is_known:
            return 0.0
        return float(
            log_density_all(np.array([self.family]), np.array([[log_value]]), np.array([[self.parameters]]))[0]
        )

    def draw(self, rng: np.random.Generator) -> float:
        """A number from the prior."""
        if self.is_known:
            return self.known
        return float(np.exp(draw_all(rng, np.array([self.family]), np.array([[self.parameters]]))[0, 0]))


class PartitionPrior:
    """p(z) of M tasks, and what a sampler asks of it."""

    def __init__(self, motives: Any, num_tasks: int) -> None:
        self.motives, self.num_tasks = motives, num_tasks
        self.is_process = isinstance(motives, DirichletProcess)
        self.alpha = OnePrior.of(motives.concentration if self.is_process else 1.0)
        self.shared: dict[Any, Any] = {}  # what chains share: evidences of sets (`inference.mixture.evidences`)
        self.share = 0.0 if self.is_process else getattr(motives, "concentration", 1.0)  # a

    @cached_property
    def log_v(self) -> np.ndarray:
        """[M + 2] log V(t) for t = 0, …; −inf where there cannot be as many."""
        if isinstance(self.motives, FiniteNumber):
            number = np.arange(1, min(MOST, int(50 * self.motives.mean) + self.num_tasks + 200) + 1)
            rate = self.motives.mean - 1.0
            log_p = (number - 1) * np.log(rate) - rate - gammaln(number)
        else:
            number, log_p = np.array([int(self.motives)]), np.zeros(1)
        a, size = float(self.share), self.num_tasks
        rising = gammaln(a * number + size) - gammaln(a * number)
        found = np.full(size + 2, -np.inf)
        for t in range(1, size + 2):
            can = number >= t
            if can.any():
                fewer = gammaln(number[can] + 1) - gammaln(number[can] - t + 1)
                found[t] = logsumexp(log_p[can] + fewer - rising[can])
        return found

    def log_in_use(self, t: int, alpha: float) -> float:
        """log V(t)."""
        if self.is_process:
            return float(t * np.log(alpha) + gammaln(alpha) - gammaln(alpha + self.num_tasks))
        return float(self.log_v[t])

    def log_prior(self, sizes: Sequence[int] | np.ndarray, alpha: float = 1.0) -> float:
        """log p(z) of a partition into motives of these sizes."""
        sizes = np.asarray(sizes, dtype=float)
        each = gammaln(sizes) if self.is_process else gammaln(self.share + sizes) - gammaln(self.share)
        return self.log_in_use(len(sizes), alpha) + float(each.sum())

    def log_join(self, sizes: np.ndarray) -> np.ndarray:
        """What another task on motives of these sizes adds to log p(z), but for V."""
        return np.log(np.asarray(sizes, dtype=float) + self.share)

    def log_join_all(self, size: int) -> float:
        """What a motive of so many tasks adds to log p(z), but for V."""
        return float(gammaln(size) if self.is_process else gammaln(self.share + size) - gammaln(self.share))

    def log_start(self, t: int, alpha: float) -> float:
        """What another task with a motive of its own adds to log p(z), where t are in use, relative to `log_join`."""
        if self.is_process:
            return float(np.log(alpha))
        return float(self.log_v[t + 1] - self.log_v[t] + np.log(self.share))

    def log_starts(self, alpha: float) -> np.ndarray:
        """[M + 1] the same for t = 0, …; 0 where there are none yet, −inf where there cannot be another."""
        if self.is_process:
            found = np.full(self.num_tasks + 1, np.log(alpha))
        else:
            with np.errstate(invalid="ignore"):
                found = np.nan_to_num(np.diff(self.log_v), nan=-np.inf, neginf=-np.inf) + np.log(self.share)
        found[0] = 0.0
        return found

    def log_joins(self) -> np.ndarray:
        """[M + 1] `log_join` for sizes 0, …; −inf for a motive on which nobody acts."""
        return np.append(-np.inf, self.log_join(np.arange(1, self.num_tasks + 1)))

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """Motives [M] of tasks, numbered as they appear, and α."""
        alpha, sizes, label = self.alpha.draw(rng), np.zeros(0), np.zeros(self.num_tasks, dtype=np.int64)
        if not self.is_process:
            number = int(self.motives) if not isinstance(self.motives, FiniteNumber) else 0
            number = number or 1 + int(rng.poisson(self.motives.mean - 1.0))
            drawn = rng.choice(number, size=self.num_tasks, p=rng.dirichlet(np.full(number, self.share)))
            return first_seen(drawn), alpha
        for m in range(self.num_tasks):
            weight = np.append(sizes, alpha)
            label[m] = rng.choice(len(weight), p=weight / weight.sum())
            sizes = np.append(sizes, 0.0) if label[m] == len(sizes) else sizes
            sizes[label[m]] += 1
        return label, alpha


class Partitions(NamedTuple):
    """A `Mixture` bound to data."""

    prior: PartitionPrior
    spread: OnePrior | None  # None: there is none


def first_seen(label: np.ndarray) -> np.ndarray:
    """The same partition, its parts numbered as they appear."""
    number: dict[int, int] = {}
    return np.array([number.setdefault(each, len(number)) for each in label.tolist()], dtype=np.int64)


def _check_one_number(value: Any, what: str) -> None:
    parts = value.parameters if isinstance(value, Prior) else (value,)
    if any(np.ndim(part) > 0 for part in parts):
        raise InputError(f"{what} must be one number, or one prior; found {quoted(value)}.")
