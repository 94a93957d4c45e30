"""What log-likelihoods of tasks' rewards are like, where the rewards may lie given the motives in use: quadratics.

    L̂(u) = exp(hᵀu − uᵀΛu/2)                         by weighted least squares, while a chain is warming up
    ŵ(θ) = ∫ Normal(u; θ, σ) L̂(u) du = exp(c + gᵀθ − θᵀPθ/2),      P = (I + σ²Λ)⁻¹Λ,   g = (I + σ²Λ)⁻¹h
    Ẑ_A = ∫ Normal(θ; a, b) Π_{m ∈ A} ŵ_m(θ) dθ       for a set of tasks

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
TEMPERED = 4.0  # log-likelihoods are divided by this, where motives are chosen for points
HALVINGS = 10


class Quadratics(NamedTuple):
    """What log-likelihoods of tasks' rewards are like."""

    linear: np.ndarray  # [M, R] h
    curvature: np.ndarray  # [M, R, R] Λ


class Alone(NamedTuple):
    """Of each task alone."""

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
    constant: np.ndarray  # [M] c
    slope: np.ndarray  # [M, R] g
    precision: np.ndarray  # [M, R, R] P
    mean: np.ndarray  # [R] a
    tightness: np.ndarray  # [R] 1 / b²
    variance: float  # σ²

    @classmethod
    def of(cls, chain: "MixtureChain", log_spread: float | None = None) -> "Normals":
        """As the chain is now, or with this spread."""
        size = chain.likelihoods.num_rewards
        given = chain.parameters[:size]
        variance = float(np.exp(2.0 * (chain.log_spread if log_spread is None else log_spread)))
        linear, curvature = chain.quadratics
        follows = np.linalg.inv(np.eye(size) + variance * curvature)
        slope, precision = (follows @ linear[:, :, None])[:, :, 0], follows @ curvature
        constant = 0.5 * np.linalg.slogdet(follows)[1] + 0.5 * variance * (linear * slope).sum(axis=1)
        return cls(linear, curvature, follows, constant, slope, precision, given[:, 0], given[:, 1] ** -2.0, variance)

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

    def factor(self) -> np.ndarray:
        """[M, R, R] lower triangular, of the covariance of tasks' rewards given their motive and L̂."""
        return np.linalg.cholesky(self.variance * 0.5 * (self.follows + self.follows.swapaxes(1, 2)))

    def of_set(self, tasks: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """log Ẑ of a set; mean [R] and Cholesky factor [R, R] of the precision of what its motive wants."""
        sums = self.constant[tasks].sum(), self.slope[tasks].sum(axis=0), self.precision[tasks].sum(axis=0)
        found, mean, factor = self._integrated(*(each[None] for each in sums))
        return float(found[0]), mean[0], factor[0]

    def of_each(self) -> "Alone":
        """The same of each task alone."""
        return Alone(*self._integrated(self.constant, self.slope, self.precision))

    def _integrated(
        self, constant: np.ndarray, slope: np.ndarray, precision: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        factor = np.linalg.cholesky(precision + np.diag(self.tightness))
        linear = slope + self.tightness * self.mean
        half = np.linalg.solve(factor, linear[..., None])
        found = constant + 0.5 * (half**2).sum(axis=(1, 2)) - np.log(np.diagonal(factor, 0, 1, 2)).sum(axis=1)
        found = found + 0.5 * (np.log(self.tightness) - self.tightness * self.mean**2).sum()
        return found, np.linalg.solve(factor.swapaxes(1, 2), half)[..., 0], factor

    def expected(self, motives: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        """Rewards [N, R] of tasks, on average, given motives [N, R] and L̂."""
        return (self.follows[tasks] @ (motives + self.variance * self.linear[tasks])[:, :, None])[:, :, 0]

    def moved(self, rewards: np.ndarray, tasks: np.ndarray, by: np.ndarray) -> np.ndarray:
        """Rewards [N, R] of tasks whose motives moved by so much [N, R]."""
        return rewards + (self.follows[tasks] @ by[:, :, None])[:, :, 0]


def fitted(chain: "MixtureChain", slope: np.ndarray, information: np.ndarray) -> Quadratics:
    """About where the chain is now; of very many coordinates by slopes [M, R] and information [M, R, R] there."""
    size = chain.likelihoods.num_rewards
    at = chain.motives[chain.label] + chain.away
    if size > MOST:
        return Quadratics(slope + (information @ at[:, :, None])[:, :, 0], information)
    rng, num_tasks, columns = chain.rng, len(at), np.triu_indices(size)
    coefficients = 1 + size + len(columns[0])
    count = POINTS * coefficients
    table = chain.likelihoods.table(chain.motives, chain.rest, np.zeros_like(chain.away))
    table = np.nan_to_num(table - np.nanmax(table, axis=1, keepdims=True), nan=-1e300, neginf=-1e300) / TEMPERED
    motive = np.argmax(table[:, None] + rng.gumbel(size=(num_tasks, count, len(chain.motives))), axis=2)
    motive[:, : count // 4] = chain.label[:, None]
    away = REACH * np.exp(chain.log_spread) * rng.standard_normal((num_tasks, count, size))
    u = chain.likelihoods.rows(chain.motives[motive], chain.rest[:, None], away)
    found = chain.likelihoods.log_likelihood(u.reshape(-1, u.shape[-1]), np.repeat(np.arange(num_tasks), count))
    found = np.nan_to_num(found.reshape(num_tasks, count), nan=-1e300, neginf=-1e300)
    found -= found.max(axis=1, keepdims=True)
    weight = _levelled(found, LEAST * coefficients)
    points = u[..., :size]
    centre = (weight[:, :, None] * points).sum(axis=1)
    x = points - centre[:, None]
    basis = np.concatenate([np.ones((num_tasks, count, 1)), x, x[..., columns[0]] * x[..., columns[1]]], axis=2)
    weighted = basis * weight[:, :, None]
    squares = weighted.swapaxes(1, 2) @ basis
    squares += 1e-9 * np.trace(squares, axis1=1, axis2=2)[:, None, None] * np.eye(coefficients)
    solved = np.linalg.solve(squares, (weighted.swapaxes(1, 2) @ found[:, :, None]))[..., 0]
    curvature = np.zeros((num_tasks, size, size))
    curvature[:, columns[0], columns[1]] = -solved[:, 1 + size :]
    curvature += curvature.swapaxes(1, 2)
    values, vectors = np.linalg.eigh(curvature)
    curvature = (vectors * np.maximum(values, 0.0)[:, None]) @ vectors.swapaxes(1, 2)
    return Quadratics(solved[:, 1 : 1 + size] + (curvature @ centre[:, :, None])[..., 0], curvature)


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
