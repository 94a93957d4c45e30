"""Particles: roughly what a set of tasks may want, so that a proposal can be fitted to them.

    a task alone    from the prior to the posterior, while its choices are given more and more weight (annealing: Del
                    Moral, Doucet & Jasra 2006), so that modes which lie far apart are all found
    several         half of them drawn from the Laplace approximation; half taken from the particles of each task alone,
                    those that explain best what the others did

and then moved by HMC. Where rewards have many coordinates and choices are nearly certain, Laplace approximations alone
are too far off, and there are more moments than weighted draws could find. Nothing here needs to be exact: weights
account for what a proposal gets wrong.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from manymotives.families import draw_all
from manymotives.inference.mixture.leapfrog import prior_slope, trajectory
from manymotives.inference.mixture.likelihood import Likelihoods

FIRST = 2.0  # weight of choices at first, times their number …
GROWTH = 1.7  # … and by how much it grows with each trajectory
LEAPFROG = 5  # steps of a trajectory
FIRST_STEP = 0.3
ACCEPTANCE = 0.75  # wanted
LEAST = 40.0  # effective draws that particles begin with: weights are levelled out until there are as many
HALVINGS = 12


class Particles(NamedTuple):
    """Rewards, and how well they explain the choices of a set of tasks."""

    rewards: np.ndarray  # [N, R]
    log_likelihood: np.ndarray  # [N]
    gradient: np.ndarray  # [N, R]

    def of(self, which: np.ndarray) -> "Particles":
        """Some of them, or the same one more than once."""
        return Particles(*(each[which] for each in self))


class Mover:
    """Of the particles of one set of tasks."""

    def __init__(self, likelihoods: Likelihoods, parameters: np.ndarray, members: np.ndarray, rng: np.random.Generator):
        self.likelihoods, self.parameters, self.members, self.rng = likelihoods, parameters, members, rng
        self.kinds = np.ascontiguousarray(likelihoods.layout.families[: likelihoods.num_rewards])
        self.step_size = FIRST_STEP

    def at(self, rewards: np.ndarray) -> Particles:
        """Particles at these rewards [N, R]."""
        return Particles(rewards, *self.likelihoods.gradient_of_set(rewards, self.members))

    def moved(self, particles: Particles, factor: np.ndarray, power: float = 1.0) -> Particles:
        """After a trajectory of each, at G₀ Π L_m^power."""
        given = np.broadcast_to(self.parameters, (*particles.rewards.shape, 2))
        last = particles

        def tempered(at: Particles) -> tuple[np.ndarray, np.ndarray]:
            value = power * at.log_likelihood + self.likelihoods.log_prior(at.rewards, self.parameters)
            return value, power * at.gradient + prior_slope(self.kinds, at.rewards, given)

        def density(rewards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            nonlocal last
            last = self.at(rewards)
            return tempered(last)

        known, start = tempered(particles), particles.rewards
        _, is_accepted, chance = trajectory(self.rng, start, factor, self.step_size, density, LEAPFROG, known)
        self.step_size = float(np.clip(self.step_size * np.exp(1.5 * (chance - ACCEPTANCE)), 0.02, 1.2))
        number = np.arange(len(start))
        both = Particles(*(np.concatenate(pair) for pair in zip(particles, last)))
        return both.of(np.where(is_accepted, len(start) + number, number))

    def annealed(self, count: int) -> Particles:
        """From the prior to the posterior."""
        given = np.broadcast_to(self.parameters, (count, *self.parameters.shape))
        particles = self.at(draw_all(self.rng, self.kinds, np.ascontiguousarray(given)))
        before, power = 0.0, min(FIRST / max(float(self.likelihoods.counts[self.members].sum()), FIRST), 1.0)
        while before < 1.0:
            share = shares_of((power - before) * without_nan(particles.log_likelihood))
            particles = particles.of(systematic(self.rng, share, count))
            particles = self.moved(particles, np.linalg.cholesky(moments(particles.rewards)[1]), power)
            before, power = power, min(GROWTH * power, 1.0)
        return particles

    def chosen(self, alone: Sequence[np.ndarray], count: int) -> np.ndarray:
        """Those [count, R] of the particles of each task alone that explain best what the others did."""
        fit = []
        for n, particles in enumerate(alone):
            found = without_nan(self.likelihoods.of_motive(particles, np.delete(self.members, n)))
            fit.append(found - max(found.max(), -1e300))
        return np.concatenate(alone)[systematic(self.rng, levelled(np.concatenate(fit)), count)]


def moments(particles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean [R], and covariance [R, R], drawn towards a diagonal one where particles are few."""
    count, size = particles.shape
    covariance = np.atleast_2d(np.cov(particles.T))
    own, few = np.diag(np.diag(covariance) + 1e-8), size / (count + size)
    return particles.mean(axis=0), (1.0 - few) * covariance + few * own


def levelled(log_weight: np.ndarray) -> np.ndarray:
    """Shares of draws, raised to the largest power up to 1 at which about `LEAST` effective draws are left."""
    share = shares_of(log_weight)
    if effective(share) >= LEAST:
        return share
    lower, upper = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (lower + upper)
        enough = effective(shares_of(middle * log_weight)) >= LEAST
        lower, upper = (middle, upper) if enough else (lower, middle)
    return shares_of(upper * log_weight)


def effective(share: np.ndarray) -> float:
    """The number of equally weighted draws that would be as good."""
    return float(1.0 / (share**2).sum())


def shares_of(log_weight: np.ndarray) -> np.ndarray:
    """Weights that sum to 1."""
    largest = float(log_weight.max())
    if not np.isfinite(largest):
        return np.full(len(log_weight), 1.0 / len(log_weight))
    share = np.exp(log_weight - largest)
    return share / share.sum()


def log_mean(log_weight: np.ndarray) -> float:
    """log of the mean weight."""
    return float(logsumexp(log_weight)) - float(np.log(len(log_weight)))


def without_nan(log_weight: np.ndarray) -> np.ndarray:
    """What is not a number has no weight."""
    return np.where(np.isnan(log_weight), -np.inf, log_weight)


def systematic(rng: np.random.Generator, share: np.ndarray, count: int) -> np.ndarray:
    """Which draws are kept [count]: systematic resampling."""
    at = (rng.random() + np.arange(count)) / count
    return np.minimum(np.searchsorted(np.cumsum(share), at), len(share) - 1)
