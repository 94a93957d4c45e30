"""The evidence of a set of tasks, Z = ∫ G₀(θ) Π L_m(θ) dθ, by sequential Monte Carlo from the prior to the posterior.

    θ_n ~ G₀;   for β = β_1 < … < β_T = 1:   w_n ← w_n Π L_m(θ_n)^(β − β before);  resample;  HMC at G₀ Π L_m^β

(Del Moral, Doucet & Jasra 2006). The estimate of Z is unbiased, because nothing adapts while it is made: mass
matrices and step sizes come from a run before it, which depends on the set alone. Where rewards have many coordinates
and choices are nearly certain, their posterior is far from normal, and no simpler approximation finds it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from manymotives.families import draw_all
from manymotives.inference.mixture.importance import SetSample, shares_of, systematic
from manymotives.inference.mixture.leapfrog import prior_slope, trajectory
from manymotives.inference.mixture.likelihood import Likelihoods

PARTICLES = 48
LEAPFROG = 5  # steps at each temperature
GROWTH = 1.7  # of β from one to the next
FIRST = 2.0  # β_1 times the number of choices
WANTED = 0.75  # acceptance


class Level(NamedTuple):
    """One temperature, and how particles move there."""

    power: float  # β
    factor: np.ndarray  # [R, R]
    step_size: float


class Levels(NamedTuple):
    """All temperatures of a set."""

    levels: tuple[Level, ...]

    @property
    def factor(self) -> np.ndarray:
        """[R, R] of the covariance."""
        return self.levels[-1].factor


class Annealing:
    """Runs for the sets of tasks of one target, whose prior of rewards is known."""

    def __init__(self, likelihoods: Likelihoods, parameters: np.ndarray) -> None:
        self.likelihoods, self.parameters = likelihoods, np.ascontiguousarray(parameters[: likelihoods.num_rewards])
        self.kinds = np.ascontiguousarray(likelihoods.layout.families[: likelihoods.num_rewards])

    def tuned(self, members: np.ndarray) -> Levels:
        """How particles move for a set; by a run with random numbers that depend on the set alone."""
        choices = max(float(self.likelihoods.counts[members].sum()), 1.0)
        count = 1 + int(np.ceil(np.log(max(choices / FIRST, 1.0)) / np.log(GROWTH)))
        powers = [GROWTH ** (n + 1 - count) for n in range(count)]
        levels: list[Level] = []
        self._run(np.random.default_rng([27, *members]), members, powers, levels)
        return Levels(tuple(levels))

    def run(self, rng: np.random.Generator, members: np.ndarray, tuned: Levels) -> SetSample:
        """An estimate of log Z, and particles."""
        return self._run(rng, members, [level.power for level in tuned.levels], list(tuned.levels))

    def _run(
        self, rng: np.random.Generator, members: np.ndarray, powers: Sequence[float], levels: list[Level]
    ) -> SetSample:
        """With these levels; where there are none yet, they are found on the way, and added."""
        is_tuning, size = not levels, len(self.kinds)
        given = np.broadcast_to(self.parameters, (PARTICLES, size, 2))
        x = draw_all(rng, self.kinds, np.ascontiguousarray(given))
        found = self.likelihoods.gradient_of_set(x, members)[0]
        log_weight, total, before, step_size = np.zeros(PARTICLES), 0.0, 0.0, 0.3
        for n, power in enumerate(powers):
            log_weight = log_weight + (power - before) * found
            log_weight = np.where(np.isnan(log_weight), -np.inf, log_weight)
            before = power
            share, level = shares_of(log_weight)
            if 1.0 / (share**2).sum() < 0.5 * PARTICLES:
                total += level + np.log(np.exp(log_weight - level).mean())
                x = x[systematic(rng, share, PARTICLES)]
                log_weight, share = np.zeros(PARTICLES), np.full(PARTICLES, 1.0 / PARTICLES)
            if is_tuning:
                levels.append(Level(power, _factor(x, share, self._prior_scales()), step_size))
            x, found, accepted = self._moved(rng, x, members, levels[n], given)
            if is_tuning:
                step_size = float(np.clip(step_size * np.exp(1.5 * (accepted - WANTED)), 0.02, 1.2))
        share, level = shares_of(log_weight)
        return SetSample(total + level + float(np.log(np.exp(log_weight - level).mean())), x, share)

    def _moved(
        self, rng: np.random.Generator, x: np.ndarray, members: np.ndarray, level: Level, given: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float]:
        seen: dict[str, np.ndarray] = {}

        def density(rewards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            value, gradient = self.likelihoods.gradient_of_set(rewards, members)
            seen.setdefault("first", value)
            seen["last"] = value
            prior = self.likelihoods.log_prior(rewards, self.parameters)
            slope = prior_slope(self.kinds, rewards, given)
            return prior + level.power * value, level.power * gradient + slope

        factors = np.broadcast_to(level.factor, (len(x), *level.factor.shape))
        moved, accepted = trajectory(rng, x, factors, level.step_size, density, LEAPFROG)
        stayed = (moved == x).all(axis=1)
        return moved, np.where(stayed, seen["first"], seen["last"]), accepted

    def _prior_scales(self) -> np.ndarray:
        drawn = draw_all(
            np.random.default_rng(0),
            self.kinds,
            np.ascontiguousarray(np.broadcast_to(self.parameters, (200, *self.parameters.shape))),
        )
        return drawn.std(axis=0)


def _factor(x: np.ndarray, share: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Cholesky factor of the particles' covariance, drawn towards a diagonal one, as they are few."""
    centred = x - share @ x
    covariance = (share[:, None] * centred).T @ centred
    own = np.maximum(np.diag(covariance), 1e-4 * scales**2)
    mixed = 0.6 * covariance + 0.4 * np.diag(own) + 1e-8 * np.diag(scales**2)
    return np.linalg.cholesky(mixed)
