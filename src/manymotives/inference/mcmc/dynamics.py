"""An environment that a chain does not know: where it is, how it moves, what is kept of it."""

from typing import Any

import numpy as np

from manymotives.data.belief import DynamicsBelief
from manymotives.data.environment import Environment
from manymotives.families import log_gammas
from manymotives.inference.mcmc.dynamics_rows import Rows, move_rows, set_row
from manymotives.inference.mcmc.dynamics_swaps import exchange_states
from manymotives.planning.warm_start import World

TARGET = 0.3  # acceptance: between that of one dimension and that of many
EXCHANGES = 2  # of two states, after each move of all rows: a third of its time
MOST_KEPT = 0.99
LEAST_KEPT = 0.02  # below it, a row may as well be drawn anew


class Unknown:
    """The rows of transitions that are uncertain, in one chain; `world` is changed along with them."""

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
            self._tell_world()

    def begin(self, rng: np.random.Generator) -> Environment:
        """A start from the belief, and the environment that it is."""
        self.rows.logs[:] = log_gammas(rng, self.rows.concentration[None])[0]
        self._tell_world()
        return self.environment

    @property
    def environment(self) -> Environment:
        """As it is now."""
        return self.belief.environment(self.belief.normalised(self.rows.logs))

    def move(self, rng: np.random.Generator, anatomy: Any, data: Any, state: Any) -> None:
        """Every row, then states that change places; the state's plans and likelihoods change along."""
        move_rows(rng, self.world, anatomy, data, state, self.rows)
        for _ in range(EXCHANGES):
            exchange_states(rng, self.world, anatomy, data, state, self.rows)

    @property
    def moves(self) -> np.ndarray:
        """[E′] probabilities of the moves that are uncertain."""
        return self.belief.normalised(self.rows.logs)[self.belief.is_uncertain]

    @property
    def acceptance_rate(self) -> float:
        return float(self.rows.accepted.sum() / max(1.0, self.rows.tried.sum()))

    def adapt(self, gain: float) -> None:
        """Keep more of rows whose proposals were refused too often, less of others; count anew."""
        rate = self.rows.accepted / np.maximum(self.rows.tried, 1)
        kept = np.clip(self.rows.kept, LEAST_KEPT / 2, MOST_KEPT)
        odds = np.log(kept / (1 - kept)) + gain * (TARGET - rate)
        kept = np.minimum(1 / (1 + np.exp(-odds)), MOST_KEPT)
        self.rows.kept[:] = np.where(kept < LEAST_KEPT, 0.0, kept)
        self.forget()

    def forget(self) -> None:
        """Nothing counted yet."""
        self.rows.accepted[:] = 0
        self.rows.tried[:] = 0

    def saved(self) -> dict[str, np.ndarray]:
        """What is needed to go on."""
        return {"environment_logs": self.rows.logs.copy(), "environment_kept": self.rows.kept.copy()}

    def _tell_world(self) -> None:
        for pair in self.rows.pairs:
            set_row(self.world, self.rows.logs, pair)
