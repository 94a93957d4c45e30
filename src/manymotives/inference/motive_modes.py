"""Modes of motives given expected counts of choices, and how sure they are; populations given their motives.

Rows are motives (of units), each with coordinates u = mean + scale z. A mode of z given its population is climbed by
Fisher scoring, with steps from conjugate gradients (`fisher`), whatever the number of coordinates.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from manymotives.families import log_density_all, natural_all
from manymotives.inference.fisher import FisherInformation, conjugate_gradients
from manymotives.inference.laplace import likelihood_shape
from manymotives.models import Target
from manymotives.models.target import ParameterLayout

NUDGE = 1.0  # of a draw from the prior, by which motives differ at first
HALVINGS = 6
SCORING_PRODUCTS, SAMPLING_PRODUCTS = 12, 60  # with Fisher information, for a step and for a draw
DENSE = 2_000_000  # numbers in all information matrices; beyond, none is made
BOUNDS = np.log([1e-3, 1e3])  # of scales


class Population(NamedTuple):
    """What is known of each row's coordinates beforehand."""

    mean: Float[np.ndarray, "R D"]
    scale: Float[np.ndarray, "R D"]

    def coordinates(self, z: np.ndarray) -> np.ndarray:
        """u [..., R, D]."""
        return self.mean + self.scale * z


@dataclass(frozen=True, eq=False)
class Motives:
    """Modes of motives given expected counts, and how sure they are; rows are motives (of units)."""

    target: Target  # its counts are those that are expected

    @property
    def group(self) -> np.ndarray:
        return self.target.group

    def population(self, hyper: np.ndarray) -> Population:
        """Of each row, from hyperparameters' coordinates [G, H]."""
        found = self.target.parameters(hyper)[self.group]
        return Population(found[..., 0], found[..., 1])

    def log_likelihood(self, u: np.ndarray) -> np.ndarray:
        """Of expected counts [R]."""
        found = self.target.log_likelihood(u, np.arange(len(u)))
        return np.where(np.isfinite(found), found, -np.inf)

    def diagonal(self, u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Of the Fisher information in u [R, D], about."""
        return FisherInformation(self.target, u).diagonal(rng)

    def scored(self, z: np.ndarray, population: Population, diagonal: np.ndarray) -> np.ndarray:
        """A step of Fisher scoring of each row, its population held."""
        scale = population.scale
        fisher = FisherInformation(self.target, population.coordinates(z))
        step = conjugate_gradients(
            lambda x: x + scale * fisher.times(scale * x),
            scale * fisher.slope() - z,
            1 + scale**2 * diagonal,
            SCORING_PRODUCTS,
        )

        def height(z: np.ndarray) -> np.ndarray:
            return self.log_likelihood(population.coordinates(z)) - 0.5 * (z**2).sum(axis=1)

        return _uphill(z, step, height)

    def shifted(self, z: np.ndarray, hyper: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
        """A step of Fisher scoring of the means of populations, their tasks' z held; hyper [G, H]."""
        source, prior = self._means()
        inferred, spread = source >= 0, prior[:, 1]
        if not inferred.any():
            return hyper
        fisher = FisherInformation(self.target, self.population(hyper).coordinates(z))

        def by_group(rows: np.ndarray) -> np.ndarray:
            found = np.zeros((self.target.num_groups, *rows.shape[1:]))
            np.add.at(found, self.group, rows)
            return found

        def product(x: np.ndarray) -> np.ndarray:
            return x + spread * by_group(fisher.times((spread * x)[self.group]))

        def hyper_at(away: np.ndarray) -> np.ndarray:
            found = hyper.copy()
            found[:, source[inferred]] = (prior[:, 0] + spread * away)[:, inferred]
            return found

        def height(away: np.ndarray) -> np.ndarray:
            found = self.log_likelihood(self.population(hyper_at(away)).coordinates(z))
            return by_group(found) - 0.5 * (away**2).sum(axis=1)

        start = np.zeros((len(hyper), len(source)))
        start[:, inferred] = (hyper[:, source[inferred]] - prior[inferred, 0]) / spread[inferred]
        right = spread * by_group(fisher.slope()) - start
        step = conjugate_gradients(product, right, 1 + spread**2 * by_group(diagonal), SCORING_PRODUCTS)
        return hyper_at(_uphill(start, step, height))

    def nudged(self, z: np.ndarray, hyper: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The same, apart by a draw from the prior: of the means of populations, or else of all tasks of each alike."""
        source, prior = self._means()
        inferred = source >= 0
        if not inferred.any():
            return z + NUDGE * rng.standard_normal((self.target.num_groups, z.shape[1]))[self.group], hyper
        found = hyper.copy()
        found[:, source[inferred]] += NUDGE * prior[inferred, 1] * rng.standard_normal((len(hyper), inferred.sum()))
        return z, found

    def _means(self) -> tuple[np.ndarray, np.ndarray]:
        """Which hyperparameter is the mean of each coordinate [D], and mean and scale of its prior; 0 where none is."""
        layout = self.target.layout
        source = layout.source[:, 0]
        prior = np.zeros((len(source), 2))
        prior[source >= 0] = layout.hyper_constants[source[source >= 0]]
        return source, prior

    def spread(self, z: np.ndarray, population: Population, rng: np.random.Generator, draws: int) -> np.ndarray:
        """Draws [draws, R, D] of z about the mode, from the Laplace approximation."""
        scale, u = population.scale, population.coordinates(z)
        if z.size * z.shape[1] <= DENSE:
            _, information = likelihood_shape(self.target, u, np.arange(len(u)))
            precision = np.eye(u.shape[1]) + scale[:, :, None] * information * scale[:, None, :]
            factor = np.linalg.cholesky(np.linalg.inv(precision))
            return np.einsum("rde,nre->nrd", factor, rng.standard_normal((draws, *z.shape)))
        fisher = FisherInformation(self.target, u)
        diagonal = 1 + scale**2 * fisher.diagonal(rng)
        found = np.empty((draws, *z.shape))
        for number in range(draws):
            noise = scale * fisher.draw(rng) + rng.standard_normal(z.shape)
            found[number] = conjugate_gradients(
                lambda x: x + scale * fisher.times(scale * x), noise, diagonal, SAMPLING_PRODUCTS
            )
        return found

    def rescaled(self, z: np.ndarray, hyper: np.ndarray, diagonal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Likelier scales of populations, and z of the same u under them.

        From E (u − mean)², with variances as of independent coordinates (mean field). They are smaller than Laplace's,
        so that scales shrink more, which predicts better where motives are many (`docs/decisions/0018`).
        """
        layout = self.target.layout
        source = layout.source[:, 1]
        inferred = np.flatnonzero(source >= 0)
        if len(inferred) == 0:
            return z, hyper
        scale = self.population(hyper).scale
        total, number = np.zeros_like(hyper), np.zeros_like(hyper)
        where = self.group[:, None], source[inferred]
        np.add.at(total, where, (scale**2 * (z**2 + 1 / (1 + scale**2 * diagonal)))[:, inferred])
        np.add.at(number, where, 1.0)
        chosen = np.unique(source[inferred])
        found = hyper.copy()
        found[:, chosen] = _likeliest_scales(layout, chosen, total[:, chosen], number[:, chosen])
        return scale * z / np.maximum(self.population(found).scale, 1e-300), found


def _uphill(start: np.ndarray, step: np.ndarray, height: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Each row a step further, or a half, or a quarter, …, so that its height does not fall; else as it was."""
    before = height(start)
    found, left = start.copy(), np.ones(len(start), dtype=bool)
    for halving in range(HALVINGS):
        proposed = np.where(left[:, None], start + 0.5**halving * step, found)
        better = left & (height(proposed) >= before)
        found[better], left = proposed[better], left & ~better
        if not left.any():
            break
    return found


def _likeliest_scales(layout: ParameterLayout, chosen: np.ndarray, total: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Coordinates of scales [G, chosen] of so many normal deviations with this sum of squares; golden sections."""

    def height(h: np.ndarray) -> np.ndarray:
        found = np.empty_like(h)
        for k, j in enumerate(chosen):
            kind, constants = layout.hyper_families[j : j + 1], layout.hyper_constants[j]
            column = np.ascontiguousarray(h[:, k : k + 1])
            scale = natural_all(kind, column)[:, 0]
            prior = log_density_all(kind, column, np.broadcast_to(constants, (len(h), 1, 2)).copy())
            found[:, k] = prior - number[:, k] * np.log(scale) - 0.5 * total[:, k] / scale**2
        return found

    share = (np.sqrt(5) - 1) / 2
    low, high = (np.full_like(total, bound) for bound in BOUNDS)
    for _ in range(50):
        left, right = high - share * (high - low), low + share * (high - low)
        is_left = height(left) > height(right)
        low, high = np.where(is_left, low, left), np.where(is_left, right, high)
    return (low + high) / 2
