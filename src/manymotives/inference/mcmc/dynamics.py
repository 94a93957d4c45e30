"""Transition probabilities as part of a chain's state, where dynamics are uncertain: start, update, adapt, resume."""

from typing import Any

import numpy as np

from manymotives.data.belief import DynamicsBelief
from manymotives.data.environment import Environment
from manymotives.families import log_gammas
from manymotives.inference.mcmc.dynamics_rows import Rows, set_row, update_rows
from manymotives.inference.mcmc.dynamics_swaps import swap_states
from manymotives.inference.mcmc.proposals import proposal_workspace
from manymotives.planning.warm_start import World

TARGET = 0.3  # acceptance rate: between that of one dimension and that of many
SWAPS = 2  # swap moves after each update of all rows: a third of its time
MOST_KEPT = 0.99
LEAST_KEPT = 0.02  # below it, a row may as well be drawn from the belief


class DynamicsSampler:
    """The uncertain rows of transition probabilities in one chain; `world` always has their current values."""

    def __init__(self, belief: DynamicsBelief, world: World, saved: dict[str, Any] | None = None) -> None:
        self.belief, self.world = belief, world
        pairs = np.flatnonzero(np.diff(belief.concentration.indptr) > 1)
        size, count = belief.concentration.nnz, len(pairs)
        self.rows = Rows(
            pairs=pairs,
            concentration=belief.concentration.data.astype(float),
            logs=np.zeros(size) if saved is None else np.array(saved["environment_logs"], dtype=float),
            kept=np.full(count, 0.5) if saved is None else np.array(saved["environment_kept"], dtype=float),
            accepted=np.zeros(count),
            tried=np.zeros(count),
        )
        if saved is not None:
            self._update_world()

    def begin(self, rng: np.random.Generator) -> Environment:
        """Start from a draw of the belief; the environment that it is."""
        self.rows.logs[:] = log_gammas(rng, self.rows.concentration[None])[0]
        self._update_world()
        return self.environment

    @property
    def environment(self) -> Environment:
        """As it is now."""
        return self.belief.environment(self.belief.normalised(self.rows.logs))

    def update(self, rng: np.random.Generator, layout: Any, data: Any, state: Any) -> None:
        """Update every row, then swap states; the state's plans and log-likelihoods follow."""
        workspaces = [proposal_workspace(self.world, layout, len(state.tasks)) for _ in range(1 + 2 * SWAPS)]
        update_rows(rng, self.world, layout, data, state, self.rows, workspaces.pop())
        for _ in range(SWAPS):
            swap_states(rng, self.world, layout, data, state, self.rows, workspaces.pop(), workspaces.pop())

    @property
    def transition_probabilities(self) -> np.ndarray:
        """[E′] the transition probabilities that are uncertain."""
        return self.belief.normalised(self.rows.logs)[self.belief.is_uncertain]

    @property
    def acceptance_rate(self) -> float:
        return float(self.rows.accepted.sum() / max(1.0, self.rows.tried.sum()))

    def adapt(self, gain: float) -> None:
        """Raise κ of rows whose proposals were refused too often, lower it for others; start counting again."""
        rate = self.rows.accepted / np.maximum(self.rows.tried, 1)
        kept = np.clip(self.rows.kept, LEAST_KEPT / 2, MOST_KEPT)
        odds = np.log(kept / (1 - kept)) + gain * (TARGET - rate)
        kept = np.minimum(1 / (1 + np.exp(-odds)), MOST_KEPT)
        self.rows.kept[:] = np.where(kept < LEAST_KEPT, 0.0, kept)
        self.reset_counts()

    def reset_counts(self) -> None:
        """Acceptance counts of zero."""
        self.rows.accepted[:] = 0
        self.rows.tried[:] = 0

    def saved(self) -> dict[str, np.ndarray]:
        """What is needed to resume."""
        return {"environment_logs": self.rows.logs.copy(), "environment_kept": self.rows.kept.copy()}

    def _update_world(self) -> None:
        for pair in self.rows.pairs:
            set_row(self.world, self.rows.logs, pair)
