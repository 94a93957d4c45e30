"""Log-likelihoods of tasks at given rewards, and their gradients, by the compiled loops that all chains use.

Where tasks choose alike given their motive (no spread; temperature, lapse rate and discount known, and the same for
all), a motive needs one plan, and its members' choices enter as the sum of their counts. Otherwise each task is planned
for on its own.
"""

from collections.abc import Iterable

import numpy as np

from manymotives.families import log_density_each
from manymotives.inference.mcmc.evaluation import Evaluated, Evaluation
from manymotives.inference.mcmc.proposals import Proposals, proposal_log_likelihoods, proposal_workspace
from manymotives.inference.mcmc.state import Data
from manymotives.models import Target
from manymotives.models.target import FIXED, log_choice_probabilities
from manymotives.planning.warm_start import World, world_of

AT_ONCE = 64  # proposals that are planned for together


class Likelihoods:
    """Of one chain: what it writes to is its own."""

    def __init__(self, target: Target) -> None:
        assert target.partitions is not None
        layout = target.layout
        self.target, self.layout = target, layout.copied()
        self.num_rewards = layout.num_rewards
        self.has_own = has_own(target)
        self.by_motive = is_by_motive(target)
        self.counts = target.counts
        self.flat_counts = target.counts.reshape(target.num_tasks, -1)
        self.evaluation = Evaluation(target)
        self._proposals = self._proposal_room()

    def log_prior(self, rewards: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """log G₀ [N] of rewards [N, R], whose coordinates have these parameters [D or R, 2]."""
        size = self.num_rewards
        given = np.ascontiguousarray(parameters[:size])
        return log_density_each(self.layout.families[:size], np.ascontiguousarray(rewards), given)

    # ---- rows of coordinates, each with its own choices --------------------------------------------------------

    def evaluate(self, u: np.ndarray, counts: np.ndarray, tasks: np.ndarray) -> Evaluated:
        """At u [N, D], for choices [N, S, A]; known parameters are those of `tasks` [N]."""
        return self.evaluation(u, counts, tasks)

    def log_likelihood(self, u: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """Of u [N, D] for the choices of tasks `owner` [N]."""
        return self._propose(u, owner, self.counts)

    def _propose(self, u: np.ndarray, owner: np.ndarray, counts: np.ndarray) -> np.ndarray:
        world, data, (plans, proposed, _, found, _) = self._proposals
        data = data._replace(counts=counts)
        total = np.empty(len(u))
        for begin in range(0, len(u), AT_ONCE):
            part = slice(begin, min(begin + AT_ONCE, len(u)))
            n = part.stop - part.start
            proposed[:n] = u[part]
            whose = np.zeros(AT_ONCE, dtype=np.int64)
            whose[:n] = owner[part]
            proposal_log_likelihoods(world, self.layout, data, plans, proposed, whose, n, found)
            total[part] = found[:n]
        return total

    # ---- motives and their members ---------------------------------------------------------------------------

    def of_set(self, rewards: np.ndarray, members: np.ndarray, rest: np.ndarray, away: np.ndarray) -> np.ndarray:
        """log p(choices of members | their motive's rewards) [N], for rewards [N, R]; see `rows`."""
        if self.by_motive:
            return self.of_motive(rewards, members)
        u = self.rows(rewards[:, None], rest[members], away[members]).reshape(-1, self.target.num_coordinates)
        return self.log_likelihood(u, np.tile(members, len(rewards))).reshape(len(rewards), -1).sum(axis=1)

    def of_motive(self, rewards: np.ndarray, members: np.ndarray) -> np.ndarray:
        """The same where tasks choose alike given their motive."""
        together = self.counts[members].sum(axis=0, keepdims=True)
        return self._propose(rewards, np.zeros(len(rewards), dtype=np.int64), together)

    def gradient_of_set(self, rewards: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same where tasks choose alike given their motive, and its gradient [N, R]."""
        together = self.counts[members].sum(axis=0)
        found = self.evaluate(rewards, np.broadcast_to(together, (len(rewards), *together.shape)), members[:1])
        return found.log_likelihood, found.gradient

    def table(self, rewards: np.ndarray, rest: np.ndarray, away: np.ndarray) -> np.ndarray:
        """log p(choices of each task | each motive) [M, K], for rewards [K, R]."""
        num_tasks, count = self.target.num_tasks, len(rewards)
        if self.by_motive:
            first = np.zeros(count, dtype=np.int64)
            q = self.evaluate(rewards, np.zeros((count, *self.counts.shape[1:])), first).q
            temperature, lapse = self.target.fixed_temperature[first], self.target.fixed_lapse[first]
            log_policies = log_choice_probabilities(q, temperature, lapse).reshape(count, -1)
            return _times(self.flat_counts, log_policies)
        u = self.rows(rewards[None], rest[:, None], away[:, None]).reshape(-1, self.target.num_coordinates)
        return self.log_likelihood(u, np.repeat(np.arange(num_tasks), count)).reshape(num_tasks, count)

    def rows(self, rewards: np.ndarray, rest: np.ndarray, away: np.ndarray) -> np.ndarray:
        """Coordinates u [..., D] of tasks whose motive wants `rewards` [..., R].

        They lie `away` [..., R] from it, and their further coordinates are `rest` [..., D − R].
        """
        own = rewards + away
        return np.concatenate([own, np.broadcast_to(rest, (*own.shape[:-1], rest.shape[-1]))], axis=-1)

    def at_motives(self, rewards: np.ndarray, label: np.ndarray, rest: np.ndarray, away: np.ndarray) -> Evaluated:
        """Log-likelihoods [K] of the choices of each motive's members, and their gradients [K, R] in its rewards."""
        count = len(rewards)
        if self.by_motive:
            together = (label == np.arange(count)[:, None]) @ self.flat_counts
            together = together.reshape(count, *self.counts.shape[1:])
            found = self.evaluate(rewards, together, np.zeros(count, dtype=np.int64))
            return found._replace(gradient=found.gradient[:, : self.num_rewards])
        found = self.at_tasks(self.rows(rewards[label], rest, away))
        value = np.bincount(label, weights=found.log_likelihood, minlength=count)
        return found._replace(
            log_likelihood=value, gradient=_by_label(found.gradient[:, : self.num_rewards], label, count)
        )

    def at_tasks(self, u: np.ndarray) -> Evaluated:
        """The same of each task, at its own coordinates u [M, D]."""
        return self.evaluate(u, self.counts, np.arange(len(u)))

    # ---- workspaces --------------------------------------------------------------------------------------------

    def _proposal_room(self) -> tuple[World, Data, Proposals]:
        target = self.target
        world = world_of(target.environment, AT_ONCE, self.layout.is_soft, by_inverses=False, **self.evaluation.options)
        known = target.fixed_temperature.copy(), target.fixed_lapse.copy()
        data = Data(self.counts, *known, np.zeros((0, target.num_coordinates)), 0, 0)
        return world, data, proposal_workspace(world, self.layout, AT_ONCE)


def has_own(target: Target) -> bool:
    """Whether a temperature, a lapse rate or a discount is inferred for each task."""
    layout = target.layout
    return any(index != FIXED for index in (layout.discount, layout.temperature, layout.lapse))


def is_by_motive(target: Target) -> bool:
    """Whether tasks choose alike given their motive."""
    assert target.partitions is not None
    same = all(np.ptp(known) == 0 for known in (target.fixed_temperature, target.fixed_lapse) if len(known))
    return not has_own(target) and same and target.partitions.spread is None


def _times(counts: np.ndarray, log_policies: np.ndarray) -> np.ndarray:
    """Σ k log π [M, K], where what was never chosen may have probability 0."""
    with np.errstate(invalid="ignore"):
        finite = np.where(np.isfinite(log_policies), log_policies, 0.0)
    impossible = counts @ (~np.isfinite(log_policies)).astype(float).T
    return np.where(impossible > 0, -np.inf, counts @ finite.T)


def _by_label(values: np.ndarray, label: np.ndarray, count: int) -> np.ndarray:
    """Sums [K, ...] of rows by their label."""
    return (label == np.arange(count)[:, None]).astype(float) @ values


def members_of(label: np.ndarray, motives: Iterable[int]) -> list[np.ndarray]:
    """The tasks of each of these motives."""
    return [np.flatnonzero(label == k) for k in motives]
