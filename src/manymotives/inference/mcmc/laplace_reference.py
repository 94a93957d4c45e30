"""A Gaussian approximation of tasks given their population, for any population: what `laplace_chains` move around.

The log likelihood of a task's choices is replaced by a quadratic, with few rows W [R, D] (choices tell few directions),

    log L(u) ≈ βᵀ u − ½ |W u|²,              β = ∂ log L/∂u + Wᵀ W u,   Wᵀ W the Fisher information, at typical u

so that with u = a + b z, and z standard normal before the data,

    z | choices ≈ Normal(c, Λ⁻¹),            Λ = 1 + b Wᵀ W b,   c = Λ⁻¹ b (β − Wᵀ W a),

and y = Λ^½ (z − c) is about standard normal whatever the population is. With the eigenvectors U and eigenvalues λ of
W b² Wᵀ [R, R] every power of Λ is 1 + b Wᵀ U ((1 + λ)ᵖ − 1) / λ Uᵀ W b: thin products, and no D × D matrix.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from manymotives.inference.fisher import FisherInformation
from manymotives.models import Target

MOST_ROWS = 400  # of W
PRIOR_DRAWS = 10.0  # of variance 1, beside those that variances are learnt from
INDEPENDENT = 0.5  # share of draws
LEAST_VARIANCE = 0.05  # that few draws are trusted with
NEGLIGIBLE = 0.05  # of a prior's precision: what choices tell less of is left to the prior

Coordinates = Float[np.ndarray, "M D"]


class Quadratic(NamedTuple):
    """The log likelihoods of tasks as βᵀ u − ½ |W u|²."""

    rows: Float[np.ndarray, "M R D"]  # W; zeros behind those that there are
    slope: Coordinates  # β

    @property
    def trimmed(self) -> "Quadratic":
        """Without rows that are zero in all tasks."""
        return self._replace(rows=self.rows[:, : max(1, int(self.rows.any(axis=(0, 2)).sum()))])

    def averaged(self, other: "Quadratic", share: float, scale: Coordinates) -> "Quadratic":
        """The mean of this one and another, which has this share in it; W cut down to what matters at these b."""
        both = np.concatenate([np.sqrt(1 - share) * self.rows, np.sqrt(share) * other.rows], axis=1)
        rows = np.stack([_principal(each, b, self.rows.shape[1]) for each, b in zip(both, scale)])
        return Quadratic(rows, (1 - share) * self.slope + share * other.slope)

    def corrected(self, drawn: list[tuple[Coordinates, Coordinates, Coordinates]]) -> "Quadratic":
        """With the means and covariances that draws have: each of z of tasks, beside their population's a and b.

        Where the quadratic is right, y is standard normal in all of them. In the space of which choices tell, with the
        basis G^−½ W b, G = W b² Wᵀ, Λ is 1 + G; where y has the covariance C there, Λ becomes (1 + G)^½ C⁻¹ (1 + G)^½.
        """
        trimmed = self.trimmed
        seen = np.stack([Reference.of(trimmed, a, b).informed(z) for a, b, z in drawn])  # [n, M, R]
        mean, scale = (np.mean([each[part] for each in drawn], axis=0) for part in (0, 1))
        reference = Reference.of(trimmed, mean, scale)
        left = self.slope - trimmed.information(mean)
        by_scale = left - trimmed.information(scale * reference.centre)  # c / b
        rows, slope = np.zeros_like(self.rows), np.empty_like(self.slope)
        for m, mine in enumerate(trimmed.rows):
            values, turn = reference.values[m], reference.turn[m]
            root = (turn * np.sqrt(1.0 + values)) @ turn.T
            basis = (turn / np.sqrt(values)) @ turn.T @ mine
            precision = root @ np.linalg.inv(shrunk_covariance(seen[:, m])) @ root
            information, axes = np.linalg.eigh(precision - np.eye(len(mine)))
            kept = np.flatnonzero(information > NEGLIGIBLE)
            found = np.sqrt(information[kept])[:, None] * (axes[:, kept].T @ basis)
            rows[m, : len(kept)] = found
            by_scale[m] += np.linalg.solve(root, seen[:, m].mean(axis=0)) @ basis
            slope[m] = by_scale[m] + found.T @ (found @ (scale[m] ** 2 * by_scale[m] + mean[m]))
        return Quadratic(rows, slope)

    def information(self, x: Coordinates) -> Coordinates:
        """Wᵀ W x of each task."""
        return _times(self.rows, np.matmul(self.rows, x[:, :, None])[:, :, 0])

    def by_scale(self, mean: Coordinates, scale: Coordinates) -> Coordinates:
        """∂/∂b of log ∫ exp(βᵀ u − ½ |W u|²) p(u | a, b) du: (E z² − 1) / b, as in a step of EM; 0 where b is."""
        rows = self.rows * scale[:, None]
        told = np.linalg.solve(np.eye(rows.shape[1]) + np.matmul(rows, rows.transpose(0, 2, 1)), rows)
        left = self.slope - self.information(mean)
        by_scale = left - _times(self.rows, np.matmul(told, (scale * left)[:, :, None])[:, :, 0])  # c / b
        return scale * by_scale**2 - (self.rows * told).sum(axis=1)


def most_rows(target: Target) -> int:
    """How many rows W has at most: the same in all chains."""
    alternatives = np.maximum(target.environment.available.sum(axis=1) - 1, 0)
    informative = ((target.counts.sum(axis=2) > 0) * alternatives).sum(axis=1)
    return int(min(target.num_coordinates, max(1, informative.max()), MOST_ROWS))


def quadratic_at(target: Target, u: Coordinates, scale: Coordinates) -> Quadratic:
    """From the Fisher information at u; W cut down to what matters where tasks' scales are b."""
    fisher, most = FisherInformation(target, u), most_rows(target)
    rows = np.stack([_principal(fisher.rows(m), scale[m], most) for m in range(len(u))])
    found = Quadratic(rows, fisher.slope())
    return found._replace(slope=found.slope + found.information(u))


class Reference(NamedTuple):
    """z = c + Λ^−½ y of tasks whose populations are given."""

    rows: Float[np.ndarray, "M R D"]  # W b
    turn: Float[np.ndarray, "M R R"]  # eigenvectors of W b² Wᵀ …
    values: Float[np.ndarray, "M R"]  # … and its eigenvalues λ
    centre: Coordinates  # c
    scale: Coordinates  # b

    @classmethod
    def of(cls, quadratic: Quadratic, mean: Coordinates, scale: Coordinates) -> "Reference":
        """For tasks' parameters a and b."""
        rows = quadratic.rows * scale[:, None]
        values, turn = np.linalg.eigh(np.matmul(rows, rows.transpose(0, 2, 1)))
        reference = cls(rows, turn, np.maximum(values, 1e-12), np.zeros_like(mean), scale)
        return reference.centred_for(quadratic, mean)

    def centred_for(self, quadratic: Quadratic, mean: Coordinates) -> "Reference":
        """The same for other a."""
        return self._replace(centre=self.power(self.scale * (quadratic.slope - quadratic.information(mean)), -1.0))

    def power(self, x: Coordinates, exponent: float) -> Coordinates:
        """Λᵖ x of each task."""
        gain = np.expm1(exponent * np.log1p(self.values)) / self.values
        told = np.matmul(self.rows, x[:, :, None])[:, :, 0]
        return x + _times(self.rows, np.matmul(self.turn, (gain * _times(self.turn, told))[:, :, None])[:, :, 0])

    def informed(self, z: Coordinates) -> Float[np.ndarray, "M R"]:
        """y in the space of which choices tell, in the basis (W b² Wᵀ)^−½ W b."""
        told = _times(self.turn, np.matmul(self.rows, (z - self.centre)[:, :, None])[:, :, 0])
        return np.matmul(self.turn, (np.sqrt(1.0 + 1.0 / self.values) * told)[:, :, None])[:, :, 0]

    @property
    def log_determinant(self) -> Float[np.ndarray, " M"]:
        """Of Λ^−½."""
        return -0.5 * np.log1p(self.values).sum(axis=1)


def shrunk_covariance(draws: Float[np.ndarray, "n R"]) -> Float[np.ndarray, "R R"]:
    """The covariance of R near-standard variables from few dependent draws: variances, and directions that stand out.

    Eigenvalues ℓ of the correlations of n independent draws of independent variables lie within (1 ± √γ)², γ = R / n.
    One outside is of a direction with variance x, ℓ = x (1 + γ / (x − 1)) (Baik & Silverstein 2006), solved for x.
    """
    number = INDEPENDENT * len(draws)
    away = draws - draws.mean(axis=0)
    variance = (away**2).mean(axis=0)
    shrunk = (number * variance + PRIOR_DRAWS) / (number + PRIOR_DRAWS)
    away /= np.sqrt(np.maximum(variance, 1e-300))
    correlation = away.T @ away / len(draws)
    np.fill_diagonal(correlation, 1.0)  # also of what never moved
    values, axes = np.linalg.eigh(correlation)
    ratio = away.shape[1] / number
    above, below = values > (1.0 + np.sqrt(ratio)) ** 2, (values < (1.0 - np.sqrt(ratio)) ** 2) & (ratio < 1.0)
    out = above | below
    far, sign = values[out] + 1.0 - ratio, np.where(above[out], 1.0, -1.0)
    found = 0.5 * (far + sign * np.sqrt(np.maximum(far**2 - 4.0 * values[out], 0.0)))
    excess = np.maximum(found, LEAST_VARIANCE) - 1.0
    correlation = np.eye(len(values)) + (axes[:, out] * excess) @ axes[:, out].T
    deviation = np.sqrt(shrunk)
    return deviation[:, None] * correlation * deviation


def _principal(rows: np.ndarray, scale: np.ndarray, most: int) -> np.ndarray:
    """[most, D] rows with the same information as these, but for what is negligible at these scales."""
    found = np.zeros((most, rows.shape[1]))
    rows = rows[rows.any(axis=1)]
    scaled = rows * scale
    if len(scaled) <= scaled.shape[1]:
        values, turn = np.linalg.eigh(scaled @ scaled.T)
        kept = np.flatnonzero(values > NEGLIGIBLE)[::-1][:most]
        found[: len(kept)] = turn[:, kept].T @ rows
        return found
    values, turn = np.linalg.eigh(scaled.T @ scaled)
    kept = np.flatnonzero(values > NEGLIGIBLE)[::-1][:most]
    found[: len(kept)] = (scaled @ turn[:, kept] / np.sqrt(values[kept])).T @ rows  # no division by a scale near 0
    return found


def _times(rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    """rowsᵀ x [M, D] of rows [M, R, D] and x [M, R]."""
    return np.matmul(x[:, None, :], rows)[:, 0]
