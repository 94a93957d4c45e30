"""What log-likelihoods of tasks' rewards are like, where the rewards may lie given the motives in use: quadratics.

    L̂(u) = exp(hᵀu − uᵀΛu/2)                         by weighted least squares, while a chain is warming up
    ŵ(θ) = ∫ Normal(u; θ, σ) L̂(u) du = exp(c + gᵀθ − θᵀPθ/2),      P = (I + σ²Λ)⁻¹Λ,   g = (I + σ²Λ)⁻¹h
    Ẑ_m = ∫ Normal(θ; a, b) ŵ_m(θ) dθ                for a task alone

Points for least squares are drawn around motives, the more often the better they explain a task, and weighted by how
probable the choices are. Only proposals rest on L̂: whatever it gets wrong is accounted for.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import logsumexp

if TYPE_CHECKING:
    from manymotives.inference.mixture.chain import MixtureChain

MOST = 12  # coordinates of rewards, up to which least squares are affordable
POINTS = 24  # of them for each coefficient …
LEAST = 6.0  # … and effective ones, to which weights are levelled out
REACH = 1.5  # spreads around motives, from which points are drawn
FARTHEST = 4.0  # standard deviations of points
PASSED = 0.5  # weight of rewards that the chain has passed through, of all points
TEMPERED = 4.0  # log-likelihoods are divided by this, where motives are chosen for points
HALVINGS = 10


class Quadratics(NamedTuple):
    """What log-likelihoods of tasks' rewards are like."""

    linear: np.ndarray  # [M, R] h
    values: np.ndarray  # [M, R] eigenvalues of Λ, none negative …
    vectors: np.ndarray  # [M, R, R] … and its eigenvectors

    @classmethod
    def of(cls, slope: np.ndarray, curvature: np.ndarray, at: np.ndarray, around: np.ndarray) -> "Quadratics":
        """With slopes [M, R] at rewards `at` [M, R], and these curvatures [M, R, R].

        L̂ was fitted to points with covariances `around` [M, R, R]. Along no axis does it grow for more than `FARTHEST`
        of their standard deviations.
        """
        values, vectors = np.linalg.eigh(curvature)
        turned = vectors.swapaxes(1, 2)
        reach = FARTHEST * np.sqrt(np.maximum(np.diagonal(turned @ around @ vectors, 0, 1, 2), 1e-12))
        values = np.maximum(values, np.abs((turned @ slope[:, :, None])[..., 0]) / reach)
        bent = (vectors * values[:, None]) @ (turned @ at[:, :, None])
        return cls(slope + bent[..., 0], values, vectors)


class Alone(NamedTuple):
    """Of each task, if its motive is no other's."""

    log_evidence: np.ndarray  # [M] log Ẑ
    mean: np.ndarray  # [M, R] of what its motive wants …
    factor: np.ndarray  # [M, R, R] … and the Cholesky factor of the precision

    def log_density(self, motive: np.ndarray) -> float:
        """Of a motive [R], if it is that of any task, all equally likely."""
        away = (self.factor.swapaxes(1, 2) @ (motive - self.mean)[:, :, None])[:, :, 0]
        found = np.log(np.diagonal(self.factor, 0, 1, 2)).sum(axis=1) - 0.5 * (away**2).sum(axis=1)
        return float(logsumexp(found) - np.log(len(found)) - 0.5 * len(motive) * np.log(2.0 * np.pi))


class Normals(NamedTuple):
    """Of tasks, given the spread and the prior of motives."""

    linear: np.ndarray  # [M, R] h
    curvature: np.ndarray  # [M, R, R] Λ
    follows: np.ndarray  # [M, R, R] (I + σ²Λ)⁻¹: how rewards move along with a motive
    factor: np.ndarray  # [M, R, R] F, F Fᵀ = σ² (I + σ²Λ)⁻¹: covariance of tasks' rewards given their motive and L̂
    inverse: np.ndarray  # [M, R, R] F⁻¹
    constant: np.ndarray  # [M] c
    slope: np.ndarray  # [M, R] g
    precision: np.ndarray  # [M, R, R] P
    mean: np.ndarray  # [R] a
    tightness: np.ndarray  # [R] 1 / b²
    variance: float  # σ²

    @classmethod
    def of(cls, chain: "MixtureChain", log_spread: float | None = None) -> "Normals":
        """As the chain is now, or with this spread."""
        given = chain.parameters[: chain.likelihoods.num_rewards]
        variance = float(np.exp(2.0 * (chain.log_spread if log_spread is None else log_spread)))
        linear, values, vectors = chain.quadratics
        turned, shrunk = vectors.swapaxes(1, 2), 1.0 / (1.0 + variance * values)
        follows = (vectors * shrunk[:, None]) @ turned
        scale = np.sqrt(variance * shrunk)
        slope = (follows @ linear[:, :, None])[:, :, 0]
        constant = 0.5 * np.log(shrunk).sum(axis=1) + 0.5 * variance * (linear * slope).sum(axis=1)
        return cls(
            linear=linear,
            curvature=(vectors * values[:, None]) @ turned,
            follows=follows,
            factor=vectors * scale[:, None],
            inverse=turned / scale[:, :, None],
            constant=constant,
            slope=slope,
            precision=(vectors * (shrunk * values)[:, None]) @ turned,
            mean=given[:, 0],
            tightness=given[:, 1] ** -2.0,
            variance=variance,
        )

    def likelihood(self, rewards: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        """log L̂ [N] of rewards [N, R] of tasks [N]."""
        bent = (self.curvature[tasks] @ rewards[:, :, None])[:, :, 0]
        return ((self.linear[tasks] - 0.5 * bent) * rewards).sum(axis=1)

    def weight(self, motives: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        """log ŵ [N, K] of tasks [N] at motives [K, R]."""
        squares = (motives[:, :, None] * motives[:, None]).reshape(len(motives), -1)
        bent = self.precision[tasks].reshape(len(tasks), -1) @ squares.T
        return self.constant[tasks, None] + self.slope[tasks] @ motives.T - 0.5 * bent

    def each(self, motives: np.ndarray) -> np.ndarray:
        """log ŵ [M] of each task at a motive of its own [M, R]."""
        bent = (self.precision @ motives[:, :, None])[:, :, 0]
        return self.constant + ((self.slope - 0.5 * bent) * motives).sum(axis=1)

    def alone(self) -> "Alone":
        """Of each task, if its motive is no other's."""
        factor = np.linalg.cholesky(self.precision + np.diag(self.tightness))
        half = np.linalg.solve(factor, (self.slope + self.tightness * self.mean)[..., None])
        found = self.constant + 0.5 * (half**2).sum(axis=(1, 2)) - np.log(np.diagonal(factor, 0, 1, 2)).sum(axis=1)
        found += 0.5 * (np.log(self.tightness) - self.tightness * self.mean**2).sum()
        return Alone(found, np.linalg.solve(factor.swapaxes(1, 2), half)[..., 0], factor)

    def expected(self, motives: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        """Rewards [N, R] of tasks, on average, given motives [N, R] and L̂."""
        return (self.follows[tasks] @ (motives + self.variance * self.linear[tasks])[:, :, None])[:, :, 0]


def fitted(chain: "MixtureChain", passed: np.ndarray, slope: np.ndarray, information: np.ndarray) -> Quadratics:
    """About where the chain is, and has been: rewards `passed` [M, N, R].

    Of very many coordinates by slopes [M, R] and information [M, R, R] where it is now.
    """
    size = chain.likelihoods.num_rewards
    at = chain.motives[chain.label] + chain.away
    if size > MOST:
        tightness = np.diag(chain.parameters[:size, 1] ** -2.0)
        return Quadratics.of(slope, information, at, np.linalg.inv(information + tightness))
    points = np.concatenate([_around_motives(chain, POINTS * _coefficients(size)), passed], axis=1)
    num_tasks, count = points.shape[:2]
    u = chain.likelihoods.rows(points, chain.rest[:, None], np.zeros(size)).reshape(num_tasks * count, -1)
    found = chain.likelihoods.log_likelihood(u, np.repeat(np.arange(num_tasks), count)).reshape(num_tasks, count)
    found = np.nan_to_num(found, nan=-1e300, neginf=-1e300)
    found -= found.max(axis=1, keepdims=True)
    drawn = count - passed.shape[1]
    weight = np.full((num_tasks, count), PASSED / max(count - drawn, 1))
    weight[:, :drawn] = (1.0 - PASSED) * _levelled(found[:, :drawn], LEAST * _coefficients(size))
    weight /= weight.sum(axis=1, keepdims=True)
    centre = (weight[:, :, None] * points).sum(axis=1)
    x, columns = points - centre[:, None], np.triu_indices(size)
    basis = np.concatenate([np.ones((num_tasks, count, 1)), x, x[..., columns[0]] * x[..., columns[1]]], axis=2)
    weighted = basis * weight[:, :, None]
    squares = weighted.swapaxes(1, 2) @ basis
    squares += 1e-9 * np.trace(squares, axis1=1, axis2=2)[:, None, None] * np.eye(basis.shape[2])
    solved = np.linalg.solve(squares, (weighted.swapaxes(1, 2) @ found[:, :, None]))[..., 0]
    curvature = np.zeros((num_tasks, size, size))
    curvature[:, columns[0], columns[1]] = -solved[:, 1 + size :]
    curvature += curvature.swapaxes(1, 2)
    around = (x * weight[:, :, None]).swapaxes(1, 2) @ x
    return Quadratics.of(solved[:, 1 : 1 + size], curvature, centre, around)


def _coefficients(size: int) -> int:
    """Of a quadratic."""
    return 1 + size + size * (size + 1) // 2


def _around_motives(chain: "MixtureChain", count: int) -> np.ndarray:
    """Points [M, N, R] around motives, more of them around those that explain a task well, and around its own."""
    rng, size = chain.rng, chain.likelihoods.num_rewards
    table = chain.likelihoods.table(chain.motives, chain.rest, np.zeros_like(chain.away))
    table = np.nan_to_num(table - np.nanmax(table, axis=1, keepdims=True), nan=-1e300, neginf=-1e300) / TEMPERED
    motive = np.argmax(table[:, None] + rng.gumbel(size=(len(table), count, len(chain.motives))), axis=2)
    motive[:, : count // 4] = chain.label[:, None]
    away = REACH * np.exp(chain.log_spread) * rng.standard_normal((len(table), count, size))
    return chain.motives[motive] + away


def _levelled(log_weight: np.ndarray, least: float) -> np.ndarray:
    """Shares [M, N] of points, raised to the largest power up to 1 at which so many effective points are left."""

    def shares(power: np.ndarray) -> np.ndarray:
        weight = np.exp(power[:, None] * log_weight)
        return weight / weight.sum(axis=1, keepdims=True)

    lower, upper = np.zeros(len(log_weight)), np.ones(len(log_weight))
    for _ in range(HALVINGS):
        middle = 0.5 * (lower + upper)
        enough = 1.0 / (shares(middle) ** 2).sum(axis=1) >= least
        lower, upper = np.where(enough, middle, lower), np.where(enough, upper, middle)
    return shares(upper)
