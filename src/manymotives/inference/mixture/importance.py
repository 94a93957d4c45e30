"""The evidence of a set of tasks, Z = ∫ G₀(θ) Π L_m(θ) dθ, by importance sampling from a t that was fitted to the set.

    q = t₅(mean, covariance)        at first the Laplace approximation; then, a few times, moments of weighted draws
    Ẑ = (1/N) Σ_n w(θ_n),  θ_n ~ q,  w = G₀ Π L_m / q

(Adaptive importance sampling: Cappé et al. 2004.) The estimate is unbiased, because q and N were found by draws that
depend on the set alone, before it is made. Where a posterior is far from any t, too few draws would count: such sets
are left to `annealing`.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from manymotives.inference.mixture.approximation import Approximation, Approximations
from manymotives.inference.mixture.likelihood import Likelihoods

ROUNDS = 3  # of adaptation
DRAWS = 400  # in each of them
HOPELESS = 25.0  # by how much log Z of a set has to be below that of its tasks alone for a rough estimate to do …
ROUGH = 64  # … of so many draws
LEAST = 80.0  # effective draws that moments are taken from: weights are levelled out until there are as many
WANTED = 150.0  # effective draws of an estimate
FEWEST, MOST = 300, 5_000  # draws of an estimate
KEPT = 150  # draws that are kept, resampled
HALVINGS = 12


class SetSample(NamedTuple):
    """What a run leaves: an estimate of log Z, particles θ [N, R] and their shares [N]."""

    log_evidence: float
    rewards: np.ndarray
    shares: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """[R]"""
        return self.shares @ self.rewards

    def drawn(self, rng: np.random.Generator) -> np.ndarray:
        """One of the particles."""
        n = np.searchsorted(np.cumsum(self.shares), rng.random() * self.shares.sum())
        return self.rewards[min(int(n), len(self.shares) - 1)]


class Proposal(NamedTuple):
    """Where draws come from, and how many a run needs."""

    approximation: Approximation
    draws: int

    @property
    def factor(self) -> np.ndarray:
        """[R, R] of the covariance."""
        return self.approximation.factor


class ImportanceSampling:
    """Runs for the sets of tasks of one target, whose prior of rewards is known."""

    def __init__(self, likelihoods: Likelihoods, approximations: Approximations) -> None:
        self.likelihoods, self.approximations = likelihoods, approximations
        self.parameters = approximations.reference.parameters[: likelihoods.num_rewards]
        self.alone: dict[int, float] = {}

    def tuned(self, members: np.ndarray) -> Proposal | None:
        """What to draw from for a set; None where more than `MOST` draws would be needed."""
        rng, found = np.random.default_rng([28, *members]), self.approximations.of(members)
        for n in range(ROUNDS):
            rewards, log_weight = self._drawn(rng, members, found, DRAWS)
            if n == 0 and len(members) > 1 and log_mean(log_weight) < self._apart(members) - HOPELESS:
                return Proposal(found, ROUGH)
            found = _closer(found, rewards, log_weight)
        effective = _effective(shares_of(self._drawn(rng, members, found, DRAWS)[1])[0])
        count = int(WANTED * DRAWS / effective)
        return Proposal(found, max(count, FEWEST)) if count <= MOST else None

    def _apart(self, members: np.ndarray) -> float:
        """About log Z of these tasks, each with a motive of its own."""
        for m in members:
            if m not in self.alone:
                alone, rng = np.array([m]), np.random.default_rng([29, m])
                self.alone[m] = log_mean(self._drawn(rng, alone, self.approximations.of(alone), DRAWS)[1])
        return sum(self.alone[m] for m in members)

    def run(self, rng: np.random.Generator, members: np.ndarray, proposal: Proposal) -> SetSample:
        """An estimate of log Z, and particles."""
        rewards, log_weight = self._drawn(rng, members, proposal.approximation, proposal.draws)
        kept = systematic(rng, shares_of(log_weight)[0], KEPT)
        return SetSample(log_mean(log_weight), rewards[kept], np.full(KEPT, 1.0 / KEPT))

    def _drawn(
        self, rng: np.random.Generator, members: np.ndarray, found: Approximation, count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """θ [count, R], and the logarithms of their weights."""
        rewards = found.draw(rng, count)
        log_weight = self.likelihoods.of_motive(rewards, members) - found.log_density(rewards)
        log_weight += self.likelihoods.log_prior(rewards, self.parameters)
        return rewards, np.where(np.isnan(log_weight), -np.inf, log_weight)


def _closer(found: Approximation, rewards: np.ndarray, log_weight: np.ndarray) -> Approximation:
    """Moments of weighted draws, joined with those that were drawn from by how many draws count."""
    share = _levelled(log_weight)
    effective = _effective(share)
    mean = share @ rewards
    centred = rewards - mean
    new = effective / (effective + 5.0 * rewards.shape[1])
    covariance = new * (share[:, None] * centred).T @ centred + (1.0 - new) * found.factor @ found.factor.T
    factor = np.linalg.cholesky(covariance)
    return found._replace(
        mode=found.mode + new * (mean - found.mode),
        factor=factor,
        log_determinant=float(np.log(np.diag(factor)).sum()),
    )


def _levelled(log_weight: np.ndarray) -> np.ndarray:
    """Shares of draws, raised to the largest power up to 1 at which about `LEAST` effective draws are left."""
    share = shares_of(log_weight)[0]
    if _effective(share) >= LEAST:
        return share
    lower, upper = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (lower + upper)
        enough = _effective(shares_of(middle * log_weight)[0]) >= LEAST
        lower, upper = (middle, upper) if enough else (lower, middle)
    return shares_of(upper * log_weight)[0]


def _effective(share: np.ndarray) -> float:
    """The number of equally weighted draws that would be as good."""
    return float(1.0 / (share**2).sum())


def shares_of(log_weight: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights that sum to 1, and the largest."""
    largest = float(log_weight.max())
    if not np.isfinite(largest):
        return np.full(len(log_weight), 1.0 / len(log_weight)), 0.0
    share = np.exp(log_weight - largest)
    return share / share.sum(), largest


def log_mean(log_weight: np.ndarray) -> float:
    """log of the mean weight."""
    return float(logsumexp(log_weight)) - float(np.log(len(log_weight)))


def systematic(rng: np.random.Generator, share: np.ndarray, count: int) -> np.ndarray:
    """Which draws are kept [count]: systematic resampling."""
    at = (rng.random() + np.arange(count)) / count
    return np.minimum(np.searchsorted(np.cumsum(share), at), len(share) - 1)
