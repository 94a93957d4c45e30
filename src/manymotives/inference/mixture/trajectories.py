"""Hamiltonian trajectories of motives given their members, and of what is each task's own."""

from typing import TYPE_CHECKING

import numpy as np

from manymotives.families import log_density_all
from manymotives.inference.laplace import prior_shape
from manymotives.inference.mixture.evidences import set_of
from manymotives.inference.mixture.leapfrog import prior_slope, trajectory
from manymotives.inference.mixture.likelihood import members_of

if TYPE_CHECKING:
    from manymotives.inference.mixture.chain import MixtureChain

MOTIVES, TASKS = 0, 1  # kinds of step sizes
# Leapfrog steps where a trajectory begins at one of a run's draws, of which there are few: about a quarter of a turn,
# so that motives hardly depend on which draws the run happens to have.
QUARTER = (2, 5)


def move_motives(chain: "MixtureChain") -> None:
    """A trajectory of every motive's rewards; its members keep their distance from it."""
    rng, likelihoods, parameters = chain.rng, chain.likelihoods, chain.parameters
    kinds = likelihoods.layout.families[: likelihoods.num_rewards]
    sets = members_of(chain.label, range(len(chain.motives)))
    if chain.is_collapsed:
        factors = np.stack([chain.evidences.factor(set_of(members)) for members in sets])
    elif len(chain.information[0]):  # of tasks' choices, where each is planned for on its own
        size = likelihoods.num_rewards
        of_members = np.stack([chain.information[members, :size, :size].sum(axis=0) for members in sets])
        _, curvature = prior_shape(
            kinds, chain.reference_motives(sets), np.broadcast_to(parameters[:size], (len(sets), size, 2))
        )
        factors = np.linalg.cholesky(np.linalg.inv(of_members + curvature[:, :, None] * np.eye(size)))
    else:
        factors = np.stack([chain.approximations.given(members, parameters).factor for members in sets])
    given = np.broadcast_to(parameters[: likelihoods.num_rewards], (*chain.motives.shape, 2))

    def density(rewards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = likelihoods.at_motives(rewards, chain.label, chain.rest, chain.away)
        slope = prior_slope(kinds, rewards, given)
        return found.log_likelihood + likelihoods.log_prior(rewards, parameters), found.gradient + slope

    steps = int(rng.integers(*QUARTER)) if chain.is_collapsed else None
    chain.motives, _, accepted = trajectory(rng, chain.motives, factors, chain.steps.values[MOTIVES], density, steps)
    chain.steps.note(MOTIVES, accepted)


def move_tasks(chain: "MixtureChain") -> None:
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

    moved, _, accepted = trajectory(chain.rng, u[:, first:], factors, chain.steps.values[TASKS], density)
    if has_spread:
        chain.away = moved[:, :size] - centre
    chain.rest = np.ascontiguousarray(moved[:, size - first :])
    chain.steps.note(TASKS, accepted)
