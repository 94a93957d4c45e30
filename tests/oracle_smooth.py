"""Rewards that are smooth over a graph, from their definition: densities, marginal priors, draws.

Plain NumPy and SciPy; nothing of the library is imported. With L = D − W of the graph's weights W,

    ρ ~ Normal(μ, c ((8 / range²) I + L)⁻²),    c such that the diagonal is scale² on average

Densities are those of rewards in an orthonormal basis, whichever it is: squared norms come from products with L itself,
determinants from its eigenvalues. With fewer eigenvectors than states the density is that on their span, which its
eigenvalues alone determine; where equal ones are cut apart, which span it is does not matter for the density, and
marginal variances are at most those returned.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats

from zoo_oracle import EPSILON, Distribution, Draws, Variable, draw, log_density


@dataclass(frozen=True, eq=False)
class Smooth:
    """As a user writes it, and the graph."""

    scale: Any  # a number or a Distribution
    range: Any
    mean: int | None  # None: under Hierarchical it is inferred; 0
    is_hierarchical: bool
    basis: int | None
    weights: np.ndarray  # [S, S]
    is_given: bool  # or else neighbours are those whom actions lead to
    is_sparse: bool = False

    def __str__(self) -> str:
        basis = "" if self.basis is None else f", {self.basis} eigenvectors"
        graph = ", graph given" if self.is_given else ""
        return f"scale={self.scale!r}, range={self.range!r}, mean={self.mean}{basis}{graph}"

    @property
    def has_mean(self) -> bool:
        return self.is_hierarchical and self.mean is None

    @cached_property
    def laplacian(self) -> np.ndarray:
        """[S, S]; loops from a state to itself do not count."""
        weights = self.weights - np.diag(np.diag(self.weights))
        return np.diag(weights.sum(axis=1)) - weights

    @property
    def count(self) -> int:
        """How many eigenvectors are used."""
        return self.basis or len(self.weights)

    @cached_property
    def eigen(self) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(self.laplacian)
        return np.where(values < 1e-11 * values[-1], 0.0, values), vectors

    @cached_property
    def is_in_span(self) -> np.ndarray:
        """[S] which eigenvectors may be used: those as smooth as the least smooth one that is."""
        values = self.eigen[0]
        return values <= values[self.count - 1] + 1e-9 * values[-1]

    def outside_span(self, fields: np.ndarray) -> float:
        """How much of fields [..., S] is rougher than any eigenvector that is used, relative to the largest."""
        rough = self.eigen[1][:, ~self.is_in_span]
        return float(np.abs(fields @ rough).max(initial=0.0) / max(np.abs(fields).max(), 1e-300))

    @property
    def median_range(self) -> float:
        """Which the population's mean has."""
        given = self.range
        if not isinstance(given, Distribution):
            return float(given)
        first, second = given.parameters[0], given.parameters[-1]
        if given.kind == "Gamma":
            return float(stats.gamma.median(first, scale=1 / second))
        if given.kind == "HalfNormal":
            return float(stats.halfnorm.median(scale=first))
        return float(np.exp(first))

    # ---- one field, or many ------------------------------------------------------------------------------------

    def _unit(self, scale: np.ndarray, distance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """c and the logarithm of the determinant, where (8 / range²) I + L is written as I + range² L / 8."""
        factors = 1 / (1 + distance[..., None] ** 2 * self.eigen[0][: self.count] / 8)
        unit = scale**2 * len(self.weights) / (factors**2).sum(axis=-1)
        return unit, self.count * np.log(unit) + 2 * np.log(factors).sum(axis=-1)

    def energies(self, fields: np.ndarray, scale: np.ndarray, distance: np.ndarray) -> np.ndarray:
        """(ρ − μ)ᵀ Σ⁻¹ (ρ − μ) [...] of fields ρ − μ [..., S]: chi-squared a priori."""
        white = fields + distance[..., None] ** 2 / 8 * (fields @ self.laplacian)
        return (white**2).sum(axis=-1) / self._unit(scale, distance)[0]

    def density(self, fields: np.ndarray, scale: np.ndarray, distance: np.ndarray, size: np.ndarray) -> Any:
        """log density [...] of fields ρ − μ, and what rounding of numbers as large as `size` may change in it."""
        unit, determinant = self._unit(scale, distance)
        energy = self.energies(fields, scale, distance)
        doubt = 4 * EPSILON * size * (1 + distance**2 / 8 * self.eigen[0][-1]) * np.sqrt(len(self.weights) / unit)
        found = -0.5 * (self.count * np.log(2 * np.pi) + determinant + energy)
        return found, doubt * (np.sqrt(energy) + doubt)

    def deviations(self, scale: np.ndarray, distance: np.ndarray) -> np.ndarray:
        """Marginal standard deviations [..., S] a priori, at most: see the top of this file."""
        values, vectors = self.eigen
        factors = self.is_in_span / (1 + distance[..., None] ** 2 * values / 8)
        variances = self._unit(scale, distance)[0][..., None] * (factors**2 @ (vectors**2).T)
        return np.maximum(np.sqrt(variances), 1e-12 * scale[..., None])  # 0 where a part has no eigenvector

    # ---- everything that is drawn ------------------------------------------------------------------------------

    def draw(self, size: int, tasks: int, groups: int, hyper: dict[str, np.ndarray], rng: Any) -> np.ndarray:
        """Rewards [n, M, S] from the prior; adds their hyperparameters."""
        for name, given in (("reward_scale", self.scale), ("reward_range", self.range)):
            if isinstance(given, Distribution):
                numbers = [np.full((size, groups), float(value)) for value in given.parameters]
                hyper[name] = draw(given.kind, numbers[0], numbers[-1], rng)
        scale, distance = (np.broadcast_to(each, (size, tasks)) for each in self._shared(hyper, size))
        centre = np.zeros((size, 1, len(self.weights)))
        if self.has_mean:
            one = np.ones((size, 1))
            centre = self._fields(one, self.median_range * one, rng)
            hyper["reward_mean"] = centre
        return centre + self._fields(scale, distance, rng)

    def _fields(self, scale: np.ndarray, distance: np.ndarray, rng: Any) -> np.ndarray:
        values, vectors = (each[..., : self.count] for each in self.eigen)
        factors = np.sqrt(self._unit(scale, distance)[0])[..., None] / (1 + distance[..., None] ** 2 * values / 8)
        return (factors * rng.standard_normal((*scale.shape, self.count))) @ vectors.T

    def _shared(self, hyper: dict[str, np.ndarray], size: int) -> list[np.ndarray]:
        """Scale and range [n, G], drawn or known."""
        both = (("reward_scale", self.scale), ("reward_range", self.range))
        return [hyper[name] if name in hyper else np.full((size, 1), float(given)) for name, given in both]

    def _parts(self, draws: Draws) -> list[tuple[str, np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Of each kind of field its name, values [n, M or 1, S], mean, scale and range [n, M or 1]."""
        hyper, rewards = draws.hyperparameters, draws.coordinates
        found, centre = [], np.zeros((len(draws), 1, rewards.shape[-1]))
        if self.has_mean:
            one = np.ones((len(draws), 1))
            found.append(("reward_mean", hyper["reward_mean"], centre, one, self.median_range * one))
            centre = hyper["reward_mean"]
        shared = (np.broadcast_to(each, rewards.shape[:2]) for each in self._shared(hyper, len(draws)))
        return [*found, ("reward", rewards, centre, *shared)]

    def variables(self, draws: Draws) -> list[Variable]:
        """Everything unknown, each with its marginal prior given its parents; energies say how rough fields are."""
        found = self._hyperparameters(draws)
        for name, values, centre, scale, distance in self._parts(draws):
            centre = np.broadcast_to(centre, values.shape)
            found.append(Variable(name, "Normal", values, centre, self.deviations(scale, distance)))
            energy = self.energies(values - centre, scale, distance)
            half = np.full(energy.shape, 0.5)
            found.append(Variable(f"{name} energy", "Gamma", energy, self.count * half, half))
        return found

    def _hyperparameters(self, draws: Draws) -> list[Variable]:
        found = []
        for name, given in (("reward_scale", self.scale), ("reward_range", self.range)):
            if isinstance(given, Distribution):
                values = draws.hyperparameters[name]
                numbers = [np.broadcast_to(float(value), values.shape) for value in given.parameters]
                found.append(Variable(name, given.kind, values, numbers[0], numbers[-1]))
        return found

    def log_prior(self, draws: Draws) -> tuple[np.ndarray, np.ndarray]:
        """log p [n] of log scale, log range and fields in an orthonormal basis, and what rounding may change."""
        parts = [log_density(variable) for variable in self._hyperparameters(draws)]
        for _, values, centre, scale, distance in self._parts(draws):
            size = np.maximum(np.abs(values), np.abs(centre)).max(axis=-1)
            parts.append(self.density(values - centre, scale, distance, size))
        total, error = (sum(part[k].reshape(len(draws), -1).sum(axis=1) for part in parts) for k in (0, 1))
        return total, error
