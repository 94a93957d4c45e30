"""The evidence of a set of tasks, Z = ∫ G₀(θ) Π L_m(θ) dθ, by importance sampling from a t that was fitted to the set.

    q = t₃₀(mean, covariance)       of `particles`
    Ẑ = (1/N) Σ_n w(θ_n),  θ_n ~ q,  w = G₀ Π L_m / q

The estimate is unbiased, because q and N were found by draws that depend on the set alone, before it is made.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np

from manymotives.inference.mixture.approximation import Approximation, Approximations
from manymotives.inference.mixture.likelihood import Likelihoods
from manymotives.inference.mixture.particles import (
    Mover,
    effective,
    levelled,
    log_mean,
    moments,
    shares_of,
    systematic,
    without_nan,
)

DRAWS = 200  # by which a proposal is judged
# By how much log Z of a set has to be below that of its tasks alone for a rough estimate to do: at first, and once
# particles have moved …
HOPELESS, LOST = 25.0, 15.0
ROUGH = 64  # … of so many draws
UNLIKELY = 6.0  # the same for one of `SOME` draws
SOME = 400
WANTED, PRECISE = 150.0, 300.0  # effective draws of all others; `PRECISE` where tasks are likelier together than apart
FEWEST, MOST = 200, 10_000  # draws of an estimate
PARTICLES = 64
MOVES = 5  # trajectories between looks at how good the proposal has become …
LOOKS = 4  # … which is good enough once this share of its draws is effective, or after so many looks
GOOD = 0.1
POOLED = 12  # trajectories, the latest ones, after which particles are counted in moments
FREEDOM, WIDER = 30.0, 1.05  # of the t
KEPT = 400  # draws that are kept, resampled
Made = TypeVar("Made")


class SetSample(NamedTuple):
    """What a run leaves: an estimate of log Z, and draws [N, R] of what the set may want."""

    log_evidence: float
    rewards: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """[R]"""
        return self.rewards.mean(axis=0)

    def drawn(self, rng: np.random.Generator) -> np.ndarray:
        """One of the draws."""
        return self.rewards[rng.integers(len(self.rewards))]


class Proposal(NamedTuple):
    """Of a set: where draws come from, and how many a run needs."""

    approximation: Approximation
    draws: int
    log_evidence: float  # about
    particles: np.ndarray  # [N, R]


class ImportanceSampling:
    """Runs for the sets of tasks of one target, whose prior of rewards is known."""

    def __init__(self, likelihoods: Likelihoods, approximations: Approximations, shared: dict[Any, Any]) -> None:
        self.likelihoods, self.approximations, self.shared = likelihoods, approximations, shared
        self.parameters = np.ascontiguousarray(approximations.reference.parameters[: likelihoods.num_rewards])

    def proposal(self, members: np.ndarray) -> Proposal:
        """Of a set of tasks; made once for all chains."""
        return made_once(self.shared, members.tobytes(), lambda: self._tuned(members))

    def run(self, rng: np.random.Generator, members: np.ndarray) -> SetSample:
        """An estimate of log Z, and draws."""
        proposal = self.proposal(members)
        rewards, log_weight = self._drawn(rng, members, proposal.approximation, proposal.draws)
        return SetSample(log_mean(log_weight), rewards[systematic(rng, shares_of(log_weight), KEPT)])

    def _tuned(self, members: np.ndarray) -> Proposal:
        """By random numbers that depend on the set alone."""
        rng = np.random.default_rng([28, *members])
        mover = Mover(self.likelihoods, self.parameters, members, rng)
        if len(members) == 1:
            particles, apart = mover.annealed(PARTICLES), -np.inf
            found = self.approximations.of(members, particles.rewards.mean(axis=0))
        else:
            alone = [self.proposal(members[n : n + 1]) for n in range(len(members))]
            apart = sum(each.log_evidence for each in alone)
            found = self.approximations.of(members, _between([each.approximation for each in alone]))
            rewards, log_weight = self._drawn(rng, members, found, DRAWS)
            if log_mean(log_weight) < apart - HOPELESS:
                return Proposal(found, ROUGH, log_mean(log_weight), rewards[:0])
            first = rewards[systematic(rng, levelled(log_weight), PARTICLES // 2)]
            others = mover.chosen([each.particles for each in alone], PARTICLES // 2)
            particles = mover.at(np.concatenate([first, others]))
        seen: list[np.ndarray] = []
        for _ in range(LOOKS):
            for _ in range(MOVES):
                particles = mover.moved(particles, found.factor)
                seen = [*seen, particles.rewards][-POOLED:]
                found = _fitted(found, np.concatenate(seen[len(seen) // 3 :]))
            log_weight = self._drawn(rng, members, found, DRAWS)[1]
            log_evidence, share = log_mean(log_weight), effective(shares_of(log_weight)) / DRAWS
            if log_evidence < apart - UNLIKELY:
                draws = SOME if log_evidence > apart - LOST else ROUGH
                return Proposal(found, draws, log_evidence, particles.rewards)
            if share > GOOD:
                break
        wanted = PRECISE if log_evidence > apart else WANTED
        return Proposal(found, int(np.clip(wanted / share, FEWEST, MOST)), log_evidence, particles.rewards)

    def _drawn(
        self, rng: np.random.Generator, members: np.ndarray, found: Approximation, count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """θ [count, R], and the logarithms of their weights."""
        rewards = found.draw_pairs(rng, count)
        log_weight = self.likelihoods.of_motive(rewards, members) - found.log_density(rewards)
        return rewards, without_nan(log_weight + self.likelihoods.log_prior(rewards, self.parameters))


def made_once(shared: dict[Any, Any], key: Any, make: Callable[[], Made]) -> Made:
    """What chains share under a key, made by the first that asks; those that ask meanwhile wait."""
    if key not in shared:
        with shared.setdefault((made_once, key), Lock()):
            if key not in shared:
                shared[key] = make()
    return shared[key]


def _between(found: Sequence[Approximation]) -> np.ndarray:
    """[R] the mean of modes, weighted by precisions."""
    precisions = [np.linalg.inv(each.factor @ each.factor.T) for each in found]
    weighted = sum(precision @ each.mode for precision, each in zip(precisions, found))
    return np.linalg.solve(sum(precisions), weighted)


def _fitted(found: Approximation, particles: np.ndarray) -> Approximation:
    """A t with the moments of particles."""
    mean, covariance = moments(particles)
    factor = np.linalg.cholesky(covariance)
    log_determinant = float(np.log(np.diag(factor)).sum())
    return found._replace(mode=mean, factor=factor, log_determinant=log_determinant, freedom=FREEDOM, wider=WIDER)
