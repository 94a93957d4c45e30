"""What a motive wants if it is that of a given set of tasks, approximately: proposals for new motives, mass matrices.

    q_A(θ) = t₅(mode, covariance)             the Laplace approximation of G₀(θ) Π_{m ∈ A} L_m(θ), with heavier tails
    Z_A ≈ (1/N) Σ_n w(θ_n),  θ_n ~ q_A,       w(θ) = G₀(θ) Π_{m ∈ A} L_m(θ) / q_A(θ)

Rewards drawn from the prior hardly ever explain what a task did; those drawn from q_A mostly do. Any q_A is right: w
accounts for what it gets wrong. What choices say, a slope and a curvature, depends on the tasks of a set and on a
reference for all else, and so is kept; where rewards are normal it is joined with the prior as it is now.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from manymotives.families import NORMAL
from manymotives.inference.laplace import likelihood_shape, prior_shape
from manymotives.inference.mixture.likelihood import Likelihoods

STEPS = 15  # of Fisher scoring, at most
HALVINGS = 6
SETTLED = 1e-2  # gain in log density at which a search ends
KEPT = 20_000  # sets whose approximation is remembered


class Approximation(NamedTuple):
    """q of a set of tasks."""

    mode: np.ndarray  # [R]
    factor: np.ndarray  # [R, R] lower triangular, of the covariance
    log_determinant: float  # of the factor
    slope: np.ndarray  # [R] of the log-likelihood at the mode …
    information: np.ndarray  # [R, R] … and minus its expected curvature
    freedom: float = 5.0  # degrees of freedom of q
    wider: float = 1.1  # than normal with this covariance

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """θ [count, R]."""
        return self.mode + self._away(rng, count)

    def draw_pairs(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """The same by antithetic pairs, on either side of the mode: weighted means of θ vary less."""
        away = self._away(rng, -(-count // 2))
        return np.concatenate([self.mode + away, self.mode - away])[:count]

    def log_density(self, rewards: np.ndarray) -> np.ndarray:
        """log q [N] of θ [N, R]."""
        size, freedom = len(self.mode), self.freedom
        away = np.linalg.solve(self.factor, (rewards - self.mode).T) / self.wider
        constant = gammaln(0.5 * (freedom + size)) - gammaln(0.5 * freedom) - 0.5 * size * np.log(freedom * np.pi)
        constant -= self.log_determinant + size * np.log(self.wider)
        return constant - 0.5 * (freedom + size) * np.log1p((away**2).sum(axis=0) / freedom)

    def _away(self, rng: np.random.Generator, count: int) -> np.ndarray:
        normal = rng.standard_normal((count, len(self.mode)))
        stretch = np.sqrt(self.freedom / rng.chisquare(self.freedom, size=(count, 1)))
        return self.wider * stretch * (normal @ self.factor.T)

    def with_prior(self, parameters: np.ndarray) -> "Approximation":
        """The same under another normal prior, whose means and scales are `parameters` [R, 2]."""
        tightness = 1.0 / parameters[:, 1] ** 2
        precision = self.information + np.diag(tightness)
        mean = np.linalg.solve(precision, self.information @ self.mode + self.slope + tightness * parameters[:, 0])
        factor = np.linalg.cholesky(np.linalg.inv(precision))
        return self._replace(mode=mean, factor=factor, log_determinant=float(np.log(np.diag(factor)).sum()))


class Reference(NamedTuple):
    """What approximations take as given."""

    parameters: np.ndarray  # [D, 2] of the prior of coordinates
    rest: np.ndarray  # [M, D − R] coordinates of tasks behind their rewards


class Approximations:
    """Of the sets of tasks that a chain has met."""

    def __init__(self, likelihoods: Likelihoods, reference: Reference) -> None:
        self.likelihoods, self.reference = likelihoods, reference
        self.kept: dict[bytes, Approximation] = {}
        kinds = likelihoods.layout.families[: likelihoods.num_rewards]
        self.follows_prior = likelihoods.target.num_hyper > 0 and bool(np.all(kinds == NORMAL))

    def given(self, members: np.ndarray, parameters: np.ndarray) -> Approximation:
        """q of the set of these tasks, in increasing order, under the prior as it is now."""
        found = self.of(members)
        return found.with_prior(parameters[: len(found.mode)]) if self.follows_prior else found

    def of(self, members: np.ndarray, start: np.ndarray | None = None) -> Approximation:
        """The same under the prior of the reference; searched for from `start` [R], or from where members lie."""
        key = members.tobytes()
        found = self.kept.get(key)
        if found is None:
            if len(self.kept) >= KEPT:
                self.kept.clear()
            found = self._fitted(members, start)
            self.kept[key] = found
        return found

    def _fitted(self, members: np.ndarray, start: np.ndarray | None) -> Approximation:
        """By Fisher scoring."""
        size, reference = self.likelihoods.num_rewards, self.reference
        kinds = self.likelihoods.layout.families[:size]
        parameters = reference.parameters[:size]
        mode = self._start(members, kinds, parameters) if start is None else start
        height = self._height(mode, members, parameters)
        for _ in range(STEPS):
            slope, curvature, seen = self._shape(mode, members, kinds, parameters)
            step, best = np.linalg.solve(curvature, slope), height
            for halving in range(HALVINGS):
                tried = mode + 0.5**halving * step
                height = self._height(tried, members, parameters)
                if height > best:
                    mode = tried
                    break
            if not height - best > SETTLED:
                break
        slope, curvature, seen = self._shape(mode, members, kinds, parameters)
        factor = np.linalg.cholesky(np.linalg.inv(curvature))
        return Approximation(mode, factor, float(np.log(np.diag(factor)).sum()), *seen)

    def _start(self, members: np.ndarray, kinds: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Where the search begins: the average of members' own modes, or the prior's location."""
        if len(members) > 1:
            return np.mean([self.of(members[n : n + 1]).mode for n in range(min(len(members), 20))], axis=0)
        slope, curvature = prior_shape(kinds, np.zeros((1, len(kinds))), parameters[None])
        return np.clip(slope / curvature, -3.0, 3.0)[0]

    def _height(self, rewards: np.ndarray, members: np.ndarray, parameters: np.ndarray) -> float:
        """Log density of θ given the set."""
        away = np.zeros((self.likelihoods.target.num_tasks, len(rewards)))
        found = self.likelihoods.of_set(rewards[None], members, self.reference.rest, away)[0]
        height = float(found + self.likelihoods.log_prior(rewards[None], parameters)[0])
        return height if np.isfinite(height) else -np.inf

    def _shape(
        self, rewards: np.ndarray, members: np.ndarray, kinds: np.ndarray, parameters: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
        """Gradient of the log density of θ given the set, minus its expected curvature; and the same of choices."""
        likelihoods, size = self.likelihoods, len(rewards)
        target = likelihoods.target
        if likelihoods.by_motive:
            together = likelihoods.counts[members].sum(axis=0, keepdims=True)
            target = replace(target, tasks=target.tasks[:1], counts=together)
            u, owner = rewards[None], np.zeros(1, dtype=np.int64)
        else:
            rest = self.reference.rest[members]
            u, owner = likelihoods.rows(rewards, rest, np.zeros((len(members), size))), members
        with np.errstate(all="ignore"):
            slopes, information = likelihood_shape(target, u, owner)
        prior_slope, prior_curvature = prior_shape(kinds, rewards[None], parameters[None])
        seen = np.nan_to_num(slopes[:, :size].sum(axis=0)), np.nan_to_num(information[:, :size, :size].sum(axis=0))
        return seen[0] + prior_slope[0], seen[1] + np.diag(prior_curvature[0]), seen


def importance(rng: np.random.Generator, log_weight: np.ndarray) -> tuple[float, int]:
    """log of the mean weight, and one of them drawn by its weight."""
    largest = log_weight.max()
    if not np.isfinite(largest):
        return -np.inf, 0
    share = np.exp(log_weight - largest)
    chosen = int(min(np.searchsorted(np.cumsum(share), rng.random() * share.sum()), len(share) - 1))
    return float(largest + np.log(share.mean())), chosen
