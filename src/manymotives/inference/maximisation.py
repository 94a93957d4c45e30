"""Tasks and where to start in, the nearest maxima of their log likelihoods (or log posteriors) out: Newton's method.

In coordinates w, in which a step of 1 changes log-odds of choices by about 1 (`Chart`), each iteration maximises the
quadratic model

    m(p) = f + gᵀp − ½ pᵀ H p     subject to ‖p‖ ≤ Δ          p = (H + λ)⁻¹ g, with λ ≥ 0 from the eigenvalues of H

and adapts the radius Δ to how well m predicted f: a trust region, so that neither far starts nor an indefinite H do
harm. Gradients are exact (adjoints of warm-started plans); H is their difference quotient along the columns of the
chart, which costs one plan per coordinate. All tasks are climbed together, and their plans are computed in batches.

The search of a task has converged where the Newton step is below 1e-6 in w and promises a gain below 1e-14: both,
because where weights run off to infinity gains vanish while steps do not.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from manymotives.families import log_density_all
from manymotives.inference.laplace import prior_shape
from manymotives.inference.mcmc.evaluation import Evaluated, Evaluation
from manymotives.inference.progress import Progress
from manymotives.models import Target

ITERATIONS = 200
RADIUS, LARGEST_RADIUS, SMALLEST_RADIUS = 2.0, 100.0, 1e-9  # in units of log-odds
GAIN, STEP = 1e-14, 1e-6  # what a converged Newton step promises, and its length
ROUNDING = 1e-13  # of a log likelihood: differences below it, relatively, mean nothing
DIFFERENCE, CLOSE_DIFFERENCE = 1e-5, 1e-7  # step of difference quotients; the second where plans have kinks
AT_ONCE = 64  # rows of coordinates that are planned for together


class Chart(NamedTuple):
    """u = origin + basis w: which directions of a task's coordinates are free, and in which units."""

    basis: Float[np.ndarray, "M D F"]


@dataclass(frozen=True, eq=False)
class Objective:
    """What is maximised: log likelihoods of tasks, with the log density of a known prior added where there is one."""

    target: Target
    parameters: Float[np.ndarray, "M D 2"] | None  # of the prior; None: the likelihood alone
    evaluation: Evaluation

    def __call__(self, u: Float[np.ndarray, "N D"], owner: Int[np.ndarray, " N"]) -> Evaluated:
        """Values, gradients in u, and plans, for tasks `owner`."""
        parts = []
        for begin in range(0, len(u), AT_ONCE):
            part = slice(begin, begin + AT_ONCE)
            made = self.evaluation(u[part], self.target.counts[owner[part]], owner[part])
            parts.append(made._replace(q=made.q.copy(), actions=made.actions.copy()))
        found = Evaluated(*map(np.concatenate, zip(*parts)))
        if self.parameters is None:
            return found
        prior, known = self.parameters[owner], self.target.layout.families
        density = log_density_all(known, np.ascontiguousarray(u), np.ascontiguousarray(prior))
        slope, _ = prior_shape(known, u, prior)
        return found._replace(
            log_likelihood=found.log_likelihood + density,
            gradient=found.gradient + slope,
        )

    def curvature(
        self,
        u: Float[np.ndarray, "N D"],
        owner: Int[np.ndarray, " N"],
        directions: Float[np.ndarray, "N D F"],
        *,
        gradient: Float[np.ndarray, "N D"] | None = None,
    ) -> tuple[Float[np.ndarray, "N F F"], np.ndarray]:
        """−∂²f along the columns of `directions`, whose lengths are the steps; whether no greedy action changed there.

        With the gradient at u one-sided differences, else central ones.
        """
        count, size, free = directions.shape
        steps = directions.transpose(0, 2, 1).reshape(count * free, size)
        there, whose = np.repeat(u, free, axis=0), np.repeat(owner, free)
        above = self(there + steps, whose)
        if gradient is None:
            below = self(there - steps, whose)
            change, same = 0.5 * (above.gradient - below.gradient), (above.actions == below.actions).all(axis=1)
        else:
            change, same = above.gradient - np.repeat(gradient, free, axis=0), np.ones(count * free, dtype=bool)
        found = -change.reshape(count, free, size) @ directions
        return 0.5 * (found + found.transpose(0, 2, 1)), same.reshape(count, free).all(axis=1)


class Maximum(NamedTuple):
    """Where the searches of tasks ended."""

    u: Float[np.ndarray, "M D"]
    value: Float[np.ndarray, " M"]  # of the objective
    gradient: Float[np.ndarray, "M F"]  # in w
    curvature: Float[np.ndarray, "M F F"]  # minus second derivatives in w
    converged: np.ndarray  # [M]
    iterations: np.ndarray  # [M]


def maximise(
    objective: Objective,
    chart: Chart,
    start: Float[np.ndarray, "M D"],
    owner: Int[np.ndarray, " M"],
    progress: Progress | None = None,
) -> Maximum:
    """The maximum that each task's search reaches from its row of `start`; rows belong to tasks `owner`."""
    count, free = len(start), chart.basis.shape[2]
    u, radius = np.array(start, dtype=float), np.full(count, RADIUS)
    found = objective(u, owner)
    value, gradient = found.log_likelihood.copy(), found.gradient.copy()
    curvature = np.zeros((count, free, free))
    converged, iterations = np.zeros(count, dtype=bool), np.zeros(count, dtype=int)
    active, needs = np.isfinite(value), np.ones(count, dtype=bool)  # `needs`: it has moved since its curvature
    length = DIFFERENCE if objective.target.layout.is_soft else CLOSE_DIFFERENCE
    with (progress or Progress(False)).of(ITERATIONS, "iterations") as report:
        for number in range(ITERATIONS):
            rows = np.flatnonzero(active)
            if len(rows) == 0:
                break
            fresh = rows[needs[rows]]
            if len(fresh):
                directions = length * chart.basis[fresh]
                made, _ = objective.curvature(u[fresh], owner[fresh], directions, gradient=gradient[fresh])
                curvature[fresh], needs[fresh] = made / length**2, False
            slope = np.einsum("mdf,md->mf", chart.basis[rows], gradient[rows])
            step, promised, is_newton = trust_region_step(slope, curvature[rows], radius[rows])
            proposed = u[rows] + np.einsum("mdf,mf->md", chart.basis[rows], step)
            there = objective(proposed, owner[rows])
            gained = there.log_likelihood - value[rows]
            size = np.linalg.norm(step, axis=1)
            # gains below rounding cannot be told: there the gradient decides
            blurred = promised <= ROUNDING * np.maximum(1.0, np.abs(value[rows]))
            slope_there = np.linalg.norm(np.einsum("mdf,md->mf", chart.basis[rows], there.gradient), axis=1)
            is_closer = (slope_there <= np.linalg.norm(slope, axis=1)) & (gained >= -promised - 1e-9)
            accepted = np.isfinite(there.log_likelihood) & np.where(blurred, is_closer, gained > 1e-4 * promised)
            ratio = np.where(blurred, accepted, gained / np.maximum(promised, 1e-300))
            is_last = is_newton & (promised <= GAIN) & (size <= STEP)
            radius[rows] = np.where(ratio < 0.25, 0.25 * size, radius[rows])
            grows = (ratio > 0.75) & ~is_newton
            radius[rows] = np.where(grows, np.minimum(2 * radius[rows], LARGEST_RADIUS), radius[rows])
            moved = rows[accepted]
            u[moved], value[moved] = proposed[accepted], there.log_likelihood[accepted]
            gradient[moved], needs[moved] = there.gradient[accepted], True
            iterations[rows] = number + 1
            is_stuck = ~accepted & ((radius[rows] < SMALLEST_RADIUS) | blurred)
            is_flat = blurred & (promised <= 1e-3 * ROUNDING * np.maximum(1.0, np.abs(value[rows])))
            ends = is_last | is_stuck | is_flat
            # a step that rounding forbids, as at discounts near 1, is a last step if it is short
            converged[rows[is_last | (ends & blurred & is_newton & (size <= STEP))]] = True
            active[rows[ends]] = False
            report.update(number + 1)
    slope = np.einsum("mdf,md->mf", chart.basis, gradient)
    return Maximum(u, value, slope, curvature, converged, iterations)


def trust_region_step(
    gradient: Float[np.ndarray, "M F"], curvature: Float[np.ndarray, "M F F"], radius: Float[np.ndarray, " M"]
) -> tuple[Float[np.ndarray, "M F"], Float[np.ndarray, " M"], np.ndarray]:
    """The step within the radius that gains most by the quadratic model, its gain, and whether it is Newton's."""
    values, vectors = np.linalg.eigh(curvature)
    slope = np.einsum("mfk,mf->mk", vectors, gradient)
    floor = 1e-14 * np.maximum(np.abs(values).max(axis=1, initial=0.0), 1e-300)[:, None]
    least = np.maximum(-values.min(axis=1, initial=np.inf), 0.0)[:, None] + floor

    def length(shift: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # next to a pole a step is infinitely long
            return np.nan_to_num(np.sqrt(((slope / (values + shift)) ** 2).sum(axis=1, keepdims=True)), nan=np.inf)

    is_newton = (values.min(axis=1, initial=np.inf) > floor[:, 0]) & (length(floor)[:, 0] <= radius)
    # ‖p(λ)‖ falls with λ: bisection on its logarithm, between just above the pole and what a short step needs
    low = np.log(least)
    high = np.log(least + np.linalg.norm(slope, axis=1, keepdims=True) / radius[:, None] + floor)
    for _ in range(60):
        middle = 0.5 * (low + high)
        is_long = length(np.exp(middle)) > radius[:, None]
        low, high = np.where(is_long, middle, low), np.where(is_long, high, middle)
    shift = np.where(is_newton[:, None], 0.0, np.exp(high))
    part = slope / np.where(values + shift == 0.0, 1e-300, values + shift)
    promised = (slope * part - 0.5 * values * part**2).sum(axis=1)
    return np.einsum("mfk,mk->mf", vectors, part), promised, is_newton
