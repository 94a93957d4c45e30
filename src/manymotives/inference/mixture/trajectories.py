"""Hamiltonian trajectories of motives given their members, and of what is each task's own."""

import numpy as np

from manymotives.families import NORMAL, log_density_all
from manymotives.inference.laplace import prior_shape

LONGEST = 10  # leapfrog steps of a trajectory, at most
WANTED = 0.8  # acceptance rate
FIRST_STEP = 0.5
MOTIVES, TASKS = 0, 1


class StepSizes:
    """Of both kinds of trajectories; adapted in warm-up by stochastic approximation, averaged over its second half."""

    def __init__(self) -> None:
        self.values = np.full(2, FIRST_STEP)
        self.is_adapting = False
        self.count = np.zeros(2)
        self.recent = float("nan")

    def note(self, kind: int, accepted: float) -> None:
        self.recent = accepted if np.isnan(self.recent) else 0.95 * self.recent + 0.05 * accepted
        if self.is_adapting:
            self.count[kind] += 1
            rate = 1.0 / (5.0 + self.count[kind]) ** 0.6
            self.values[kind] = np.clip(self.values[kind] * np.exp(rate * 2.0 * (accepted - WANTED)), 1e-4, 1.5)


def move_motives(chain) -> None:
    """A trajectory of every motive's rewards; its members keep their distance from it."""
    rng, likelihoods, parameters = chain.rng, chain.likelihoods, chain.parameters
    kinds = likelihoods.layout.families[: likelihoods.num_rewards]
    factors = np.stack(
        [chain.approximations.of(np.flatnonzero(chain.label == k)).factor for k in range(len(chain.motives))]
    )
    given = np.broadcast_to(parameters[: likelihoods.num_rewards], (*chain.motives.shape, 2))

    def density(rewards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = likelihoods.at_motives(rewards, chain.label, chain.rest, chain.away)
        slope = prior_slope(kinds, rewards, given)
        return found.log_likelihood + likelihoods.log_prior(rewards, parameters), found.gradient + slope

    chain.motives, accepted = _trajectory(rng, chain.motives, factors, chain.steps.values[MOTIVES], density)
    chain.steps.note(MOTIVES, accepted)


def move_tasks(chain) -> None:
    """A trajectory of every task's own coordinates: all with a spread, else those behind its rewards."""
    likelihoods, parameters = chain.likelihoods, chain.parameters
    size, kinds = likelihoods.num_rewards, likelihoods.layout.families
    has_spread = chain.spread_prior is not None
    first = 0 if has_spread else size
    u = chain.tasks
    centre = chain.motives[chain.label]
    given = np.repeat(parameters[None], len(u), axis=0)
    if has_spread:
        given[:, :size, 0], given[:, :size, 1] = centre, np.exp(chain.log_spread)
    given = np.ascontiguousarray(given[:, first:])
    families = np.ascontiguousarray(kinds[first:])
    _, curvature = prior_shape(families, u[:, first:], given)
    if not has_spread or u.shape[1] > size:  # where curvature differs from place to place, that of the reference
        rest = np.hstack([centre, chain.approximations.reference.rest])[:, first:]
        _, curvature = prior_shape(families, rest, given)
    precision = chain.information[:, first:, first:] + curvature[:, :, None] * np.eye(u.shape[1] - first)
    factors = np.linalg.cholesky(np.linalg.inv(precision))

    def density(moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = likelihoods.at_tasks(np.hstack([u[:, :first], moved]))
        slope = prior_slope(families, moved, given)
        prior = log_density_all(families, np.ascontiguousarray(moved), given)
        return found.log_likelihood + prior, found.gradient[:, first:] + slope

    moved, accepted = _trajectory(chain.rng, u[:, first:], factors, chain.steps.values[TASKS], density)
    if has_spread:
        chain.away = moved[:, :size] - centre
    chain.rest = np.ascontiguousarray(moved[:, size - first :])
    chain.steps.note(TASKS, accepted)


def prior_slope(kinds, u, parameters):
    """Of each coordinate's log density."""
    if np.all(kinds == NORMAL):
        return (parameters[..., 0] - u) / parameters[..., 1] ** 2
    return prior_shape(kinds, u, parameters)[0]


def _trajectory(rng, start, factors, step_size, density):
    """Rows [N, D] after a trajectory of each, accepted each for itself; and the mean acceptance probability.

    `density`: log densities [N] and gradients [N, D] of rows; `factors` F: momenta are those of y, x = F y.
    """
    momentum = rng.standard_normal(start.shape)
    value, gradient = density(start)
    energy = value - 0.5 * (momentum**2).sum(axis=1)
    steps = 1 + int(rng.integers(LONGEST))
    size = step_size * np.exp(0.2 * rng.standard_normal())
    x, transposed = start.copy(), factors.swapaxes(1, 2)
    with np.errstate(all="ignore"):
        momentum = momentum + 0.5 * size * (transposed @ gradient[..., None])[..., 0]
        for n in range(steps):
            x = x + size * (factors @ momentum[..., None])[..., 0]
            x = np.where(np.isfinite(x), x, start)
            value, gradient = density(x)
            gradient = np.where(np.isfinite(gradient), gradient, 0.0)
            momentum = momentum + (1.0 if n < steps - 1 else 0.5) * size * (transposed @ gradient[..., None])[..., 0]
        change = value - 0.5 * (momentum**2).sum(axis=1) - energy
    chance = np.exp(np.minimum(0.0, np.where(np.isnan(change), -np.inf, change)))
    accepted = rng.random(len(x)) < chance
    return np.where(accepted[:, None], x, start), float(chance.mean())
