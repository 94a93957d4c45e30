"""Choices sorted into cells (who, where, coming from where), so that any set of them is a small table of counts."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.steps import NONE


@dataclass(frozen=True, eq=False)
class Cells:
    """A cell is a task, a state and the state before it; cells are all that occur in the data, train or test."""

    available: Bool[np.ndarray, "S A"]
    cell: Int[np.ndarray, " choices"]  # of each choice …
    action: Int[np.ndarray, " choices"]  # … what it was …
    row: Int[np.ndarray, " choices"]  # … and its row of the demonstrations
    task: Int[np.ndarray, " cells"]
    state: Int[np.ndarray, " cells"]
    own_state: Int[np.ndarray, " cells"]  # number of the pair (task, state)
    context: Int[np.ndarray, " cells"]  # number of the pair (previous state, state)

    @classmethod
    def of(cls, environment: Environment, demonstrations: Demonstrations) -> "Cells":
        row = np.flatnonzero(demonstrations.action != NONE)
        before = np.where(demonstrations.follows, np.roll(demonstrations.state, 1), NONE)[row]
        num_states = len(demonstrations.states)
        contexts, context = np.unique((before + 1) * num_states + demonstrations.state[row], return_inverse=True)
        keys, cell = np.unique(demonstrations.task[row] * len(contexts) + context, return_inverse=True)
        task, context = np.divmod(keys, len(contexts))
        state = contexts[context] % num_states
        _, own_state = np.unique(task * num_states + state, return_inverse=True)
        return cls(environment.available, cell, demonstrations.action[row], row, task, state, own_state, context)

    def counts(self, rows: Bool[np.ndarray, " rows"]) -> Float[np.ndarray, "cells A"]:
        """How often each action was chosen in each cell, in these rows of the demonstrations."""
        num_actions = self.available.shape[1]
        flat = (self.cell * num_actions + self.action)[rows[self.row]]
        return np.bincount(flat, minlength=len(self.task) * num_actions).reshape(-1, num_actions).astype(float)

    def summed(self, counts: Float[np.ndarray, "cells A"], over: Int[np.ndarray, " cells"]) -> np.ndarray:
        """Counts [groups, A] of cells that share a number."""
        found = np.zeros((int(over.max()) + 1, counts.shape[1]))
        np.add.at(found, over, counts)
        return found

    def by_task(
        self, log_probability: Float[np.ndarray, "cells A"], tested: Float[np.ndarray, "cells A"], num_tasks: int
    ) -> Float[np.ndarray, " task"]:
        """Σ log p of the tested choices of each task."""
        terms = np.where(tested > 0, tested * np.where(tested > 0, log_probability, 0.0), 0.0).sum(axis=1)
        return np.bincount(self.task, weights=terms, minlength=num_tasks)
