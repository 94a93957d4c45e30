"""What agents may do, whatever they want: prior distributions ξ of policies (paper, section 4)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from manymotives.errors import InputError
from manymotives.families import draw_all, log_density_all, log_gammas
from manymotives.io.records import Recorded
from manymotives.models.priors import Prior, check_parameter

POINTS = 2001  # of the grid on which a concentration's posterior is integrated
NEGLIGIBLE = 40.0  # below the peak, in logarithms: e^−40 of it is nothing


@dataclass(frozen=True, eq=False)
class DirichletPolicy(Recorded):
    """In each state, independently, the probabilities of the available actions are Dirichlet(a, …, a).

    Parameters
    ----------
    concentration
        a: at 1 all policies are equally likely; smaller values favour nearly deterministic policies, and larger ones
        nearly uniform policies. A number; or a prior such as `mm.Gamma(shape=1.0, rate=1.0)`, with which it is inferred
        from all tasks that share it.
    """

    concentration: Any = 1.0

    def __post_init__(self) -> None:
        check_parameter(self.concentration, "DirichletPolicy: concentration", "positive")
        if not isinstance(self.concentration, Prior) and np.ndim(self.concentration):
            raise InputError("DirichletPolicy: concentration must be a single number or a prior.")

    def draw_concentrations(
        self, rng: np.random.Generator, draws: int, counts: Float[np.ndarray, "M S A"], available: np.ndarray
    ) -> np.ndarray:
        """Draws [draws] of a given the choices of the tasks that share it.

        One number, so its posterior is integrated on a grid of log a rather than weighed by random draws: exact to the
        grid's spacing, and it cannot collapse however many tasks there are.
        """
        prior = self.concentration
        if not isinstance(prior, Prior):
            return np.full(draws, float(prior))
        kinds = np.array([prior.family])
        numbers = np.zeros((1, 1, 2))
        numbers[0, 0, : len(prior.parameters)] = [float(value) for value in prior.parameters]
        first = draw_all(rng, kinds, np.repeat(numbers, 4000, axis=0))[:, 0]
        likelihood = _DirichletMultinomial(counts, available)

        def log_posterior(u: np.ndarray) -> np.ndarray:
            density = log_density_all(kinds, np.ascontiguousarray(u[:, None]), np.repeat(numbers, len(u), axis=0))
            return density + likelihood(np.exp(u))

        low, high = first.min() - 5.0, first.max() + 5.0
        for _ in range(6):  # zoom in on where the mass is
            grid = np.linspace(low, high, POINTS)
            height = log_posterior(grid)
            inside = np.flatnonzero(height > height.max() - NEGLIGIBLE)
            low, high = grid[max(inside[0] - 1, 0)], grid[min(inside[-1] + 1, POINTS - 1)]
        density = np.exp(height - height.max())
        edges = np.append(0.0, np.cumsum((density[1:] + density[:-1]) / 2))
        return np.exp(np.interp(rng.random(draws) * edges[-1], edges, grid))

    @staticmethod
    def draw(
        rng: np.random.Generator, concentrations: np.ndarray, counts: Float[np.ndarray, "S A"], available: np.ndarray
    ) -> np.ndarray:
        """Policies [draws, S, A] given one task's choices, one for each concentration [draws]."""
        shapes = counts + concentrations[:, None, None]
        log_gamma = log_gammas(rng, shapes.reshape(len(shapes), -1)).reshape(shapes.shape)
        log_gamma = np.where(available, log_gamma, -np.inf)
        log_gamma[:, ~available.any(axis=1), 0] = 0.0  # a terminal state has the nominal action, the first
        policy = np.exp(log_gamma - log_gamma.max(axis=2, keepdims=True))
        return policy / policy.sum(axis=2, keepdims=True)


def log_evidence(counts: Float[np.ndarray, "M S A"], available: np.ndarray, concentration: float) -> np.ndarray:
    """log p(choices of each task | a) [M], in the order in which they were made."""
    a = np.array([concentration])
    return np.array([_DirichletMultinomial(own[None], available)(a)[0] for own in counts])


class _DirichletMultinomial:
    """log p(choices | a) as a function of a: a sum over the distinct counts, not over tasks and states."""

    def __init__(self, counts: np.ndarray, available: np.ndarray) -> None:
        self.cells, self.times = np.unique(counts[counts > 0], return_counts=True)
        totals = counts.sum(axis=2)
        actions = np.broadcast_to(available.sum(axis=1), totals.shape)
        pairs = np.stack([actions[totals > 0], totals[totals > 0]], axis=1)
        self.rows, self.row_times = np.unique(pairs, axis=0, return_counts=True)

    def __call__(self, a: np.ndarray) -> np.ndarray:
        column = a[:, None]
        cells = (gammaln(column + self.cells) - gammaln(column)) @ self.times
        whole = column * self.rows[:, 0]
        return cells - (gammaln(whole + self.rows[:, 1]) - gammaln(whole)) @ self.row_times
