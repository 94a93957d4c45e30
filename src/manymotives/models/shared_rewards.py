"""Which rewards are one: in several environments, those of states (or of pairs) with one name.

Coordinate k of a prior is the reward of name k; ρ = Φ x with an indicator Φ [cells, K], whatever the link. Dirichlet
rewards sum to one over names.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from manymotives.data.environment import Environment
from manymotives.data.environments import Environments
from manymotives.data.labels import Label
from manymotives.errors import InputError, listed


class RewardNames(NamedTuple):
    """What has a reward of its own, and which cells of the reward table [S·(1 or A)] have it."""

    labels: tuple[Label, ...]  # [K] states, or pairs of state and action
    cells: np.ndarray  # [n] that exist, in order
    owner: np.ndarray  # [n] the coordinate of each
    num_cells: int

    @property
    def are_shared(self) -> bool:
        """Whether one coordinate is the reward of several cells."""
        return len(self.labels) < len(self.cells)

    @property
    def first(self) -> np.ndarray:
        """[K] the first cell of each."""
        _, position = np.unique(self.owner, return_index=True)
        return self.cells[position]

    @property
    def matrix(self) -> sp.csr_array:
        """Φ [cells, K]."""
        shape = (self.num_cells, len(self.labels))
        return sp.csr_array((np.ones(len(self.cells)), (self.cells, self.owner)), shape=shape)


def reward_names(environment: Environment, on: str) -> RewardNames:
    """One reward for each state (or available pair); in several environments, for each name of one."""
    actions = environment.actions
    several = isinstance(environment, Environments)
    names = environment.state_names if isinstance(environment, Environments) else environment.states
    name = environment.state_name if isinstance(environment, Environments) else np.arange(environment.num_states)
    if on == "state":
        return RewardNames(names, np.arange(environment.num_states), name, environment.num_states)
    cells = np.flatnonzero(environment.available)
    state, action = np.divmod(cells, len(actions))
    owner, labels = np.arange(len(cells)), [(environment.states[s], actions[a]) for s, a in zip(state, action)]
    if several:
        keys, first, found = np.unique(name[state] * len(actions) + action, return_index=True, return_inverse=True)
        order = np.argsort(first)
        owner = np.argsort(order)[found.ravel()]  # in order of appearance
        labels = [(names[key // len(actions)], actions[key % len(actions)]) for key in keys[order]]
    return RewardNames(tuple(labels), cells, owner, environment.available.size)


def check_some_are_shared(environment: Environment, found: RewardNames) -> None:
    """Without a name in common, what is learnt in one environment says nothing about another."""
    if isinstance(environment, Environments) and len(environment.members) > 1 and not found.are_shared:
        raise InputError(
            f"environments {listed(environment.names)} have no state in common, so nothing learnt in one applies "
            "to another. Give corresponding states the same name, or give features of states: "
            "GaussianReward(features=...)."
        )
