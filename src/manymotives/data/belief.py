"""What is not known of the environment: a belief ω over its transitions, one Dirichlet for each state and action."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy import special

from manymotives.data.belief_parts import parts_of_demonstrations, parts_of_table
from manymotives.data.belief_rows import dirichlet_rows
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.labels import Label
from manymotives.data.tables import Column
from manymotives.data.transitions import handy
from manymotives.errors import InputError, quoted
from manymotives.families import log_gammas

SELDOM = 5  # times seen, below which the prior still matters
DERIVED = ("matrix", "tensor", "is_absorbing")  # what an environment has computed from its transitions


@dataclass(frozen=True, eq=False, init=False, repr=False)
class DynamicsBelief:
    """A belief about an environment with unknown transitions.

    The next states of each state–action pair have a Dirichlet distribution, independently of other pairs. A belief
    replaces the `Environment` in `fit`, `plan` and `calibrate`.

    Parameters
    ----------
    counts
        How often each next state was observed: [S, A, S], or a scipy.sparse matrix [S·A, S] as in `Environment`.
    discount, states, actions, terminal, start
        As in `Environment`.
    prior
        Pseudo-counts before any observation: one number for each state–action pair as a whole, spread evenly over the
        next states that are possible; or an array [S, A, S]. The default is 1, the weight of a single observation.
    possible
        Boolean [S, A, S]: transitions that are possible at all (default: all). Other transitions never happen, nor do
        those with a prior count of 0 that were not observed; an action without possible next states does not exist. Or
        [S, A]: which actions exist in which state.
    """

    mean: Environment  # the expected transitions; names, discount and all that is known
    concentration: sp.csr_array  # [S·A, S] parameters of the Dirichlets; 0 where a move is impossible
    seen: np.ndarray  # [S·A] how often each pair was

    def __init__(
        self,
        counts: Any,
        *,
        discount: float,
        prior: Any = 1.0,
        possible: Any = None,
        states: Sequence[Label] | None = None,
        actions: Sequence[Label] | None = None,
        terminal: Sequence[Label] = (),
        start: Any = None,
    ) -> None:
        rows, concentration, exists = dirichlet_rows(counts, prior, possible, states, actions, terminal)
        total = np.asarray(concentration.sum(axis=1)).ravel()
        frequency = sp.csr_array(sp.diags_array(1 / np.where(total > 0, total, 1)) @ concentration)
        frequency.sort_indices()
        seen = np.asarray(rows.sum(axis=1)).ravel()
        mean = Environment(
            handy(frequency),
            discount=discount,
            states=states,
            actions=actions,
            available=exists,
            terminal=terminal,
            start=start,
        )
        _freeze(self, mean, concentration, seen)

    # ---- from what there is ----------------------------------------------------------------------------------

    @classmethod
    def from_demonstrations(
        cls,
        demonstrations: Demonstrations,
        *,
        discount: float,
        prior: float = 1.0,
        possible: Any = None,
        terminal: Sequence[Label] = (),
        start: Any = None,
    ) -> "DynamicsBelief":
        """The belief after observing the transitions of all tasks together.

        An action exists in a state if somebody took it there; states in which nobody acted are terminal. Unless
        `possible` says otherwise, a state may be followed, after any action, by every state that was observed to follow
        it, and by any state if none was. Episodes begin where they were observed to begin.

        Parameters
        ----------
        demonstrations
            The demonstrations of all tasks.
        discount
            γ in [0, 1).
        prior
            Pseudo-count added to each state–action pair, spread evenly over its possible transitions.
        possible
            Boolean [S, A, S] (or sparse [S·A, S]): which transitions are possible.
        terminal
            Names of states that end an episode.
        start
            Where episodes begin. If None, where they were observed to begin.

        Returns
        -------
        DynamicsBelief
            The belief after these demonstrations.
        """
        return cls(**parts_of_demonstrations(demonstrations, possible, terminal, start), discount=discount, prior=prior)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        discount: float,
        state: Column = "state",
        action: Column = "action",
        next_state: Column = "next_state",
        count: str = "count",
        prior: float = 0.0,
        start: Any = None,
    ) -> "DynamicsBelief":
        """Read a belief from a long table with one row for each possible transition and its count, which need not be
        whole.

        Transitions and actions without a row are impossible. States after which nothing is listed are terminal.

        Parameters
        ----------
        frame
            The table.
        discount
            γ in [0, 1).
        state, action, next_state, count
            Names of the columns.
        prior
            Pseudo-count added to each state–action pair, spread evenly over its listed transitions.
        start
            As for `Environment`.

        Returns
        -------
        DynamicsBelief
            A belief with the names of the table.
        """
        columns: dict[str, Column] = {"state": state, "action": action, "next_state": next_state, "count": count}
        return cls(**parts_of_table(frame, columns), discount=discount, prior=prior, start=start)

    @classmethod
    def around(cls, environment: Environment, weight: float) -> "DynamicsBelief":
        """The belief after a given number of observations of each state–action pair that match an environment exactly.

        Parameters
        ----------
        environment
            The mean of the belief.
        weight
            The number of observations of each state–action pair.

        Returns
        -------
        DynamicsBelief
            A belief with these counts.
        """
        if not (np.isfinite(weight) and weight > 0):
            raise InputError(f"weight must be a positive number of observations; found {quoted(weight)}.")
        concentration = sp.csr_array(environment.matrix * float(weight))
        return cls.of_parts(environment, concentration, np.asarray(concentration.sum(axis=1)).ravel())

    @classmethod
    def of_parts(cls, mean: Environment, concentration: sp.csr_array, seen: np.ndarray) -> "DynamicsBelief":
        """From what a belief holds, not checked again."""
        made = object.__new__(cls)
        concentration.eliminate_zeros()
        concentration.sort_indices()
        _freeze(made, mean, concentration, seen)
        return made

    def after(self, demonstrations: Demonstrations) -> "DynamicsBelief":
        """The belief updated by further demonstrations, whose transitions are added to the counts.

        Parameters
        ----------
        demonstrations
            The further demonstrations.

        Returns
        -------
        DynamicsBelief
            A new belief.
        """
        known = self.mean
        if demonstrations.states != known.states or demonstrations.actions != known.actions:
            raise InputError(
                "the demonstrations have other states or actions than the belief. Read them with it: "
                "Demonstrations.from_frame(frame, belief.mean, ...)."
            )
        counts = demonstrations.transition_counts().astype(float)
        surprise = counts - counts * (self.concentration > 0)
        surprise.eliminate_zeros()
        if surprise.nnz:
            row, there = (int(part[0]) for part in surprise.nonzero())
            here, act = divmod(row, known.num_actions)
            raise InputError(
                f"state {quoted(known.states[here])} with action {quoted(known.actions[act])} was followed by "
                f"{quoted(known.states[there])}, which is impossible under this belief."
            )
        concentration = sp.csr_array(self.concentration + counts)
        concentration.sort_indices()
        total = np.asarray(concentration.sum(axis=1)).ravel()
        frequency = sp.csr_array(sp.diags_array(1 / np.where(total > 0, total, 1)) @ concentration)
        frequency.sort_indices()
        seen = self.seen + np.asarray(counts.sum(axis=1)).ravel()
        return self.of_parts(self._like(frequency), concentration, seen)

    def with_coordinates(self, coordinates: Any) -> "DynamicsBelief":
        """The same belief, drawn with each state at its (x, y); see `Environment.with_coordinates`."""
        return self.of_parts(self.mean.with_coordinates(coordinates), self.concentration, self.seen)

    # ---- what it says --------------------------------------------------------------------------------------

    def draws(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Probabilities [count, E] of the possible moves, in the order of `concentration`."""
        shapes = np.broadcast_to(self.concentration.data, (count, self.concentration.nnz))
        return self.normalised(log_gammas(rng, np.ascontiguousarray(shapes)))

    def normalised(self, logs: np.ndarray) -> np.ndarray:
        """Probabilities [..., E] from logarithms of gamma variables [..., E]."""
        begins = self.concentration.indptr[:-1][self._filled]
        row = np.repeat(np.arange(len(begins)), np.diff(self.concentration.indptr)[self._filled])
        largest = np.maximum.reduceat(logs, begins, axis=-1)
        weight = np.exp(logs - largest[..., row])
        return weight / np.add.reduceat(weight, begins, axis=-1)[..., row]

    def complete(self, uncertain: np.ndarray) -> np.ndarray:
        """Probabilities [..., E] of all possible moves from those [..., E′] of the uncertain ones."""
        full = np.ones((*uncertain.shape[:-1], self.concentration.nnz))
        full[..., self.is_uncertain] = uncertain
        return full

    def environment(self, probabilities: np.ndarray) -> Environment:
        """The environment in which the possible moves have these probabilities [E]."""
        known = self.concentration
        return self._like(sp.csr_array((probabilities, known.indices, known.indptr), shape=known.shape))

    def sample(self, count: int, seed: int = 0) -> list[Environment]:
        """Draw environments from the belief.

        Parameters
        ----------
        count
            The number of environments.
        seed
            Seed of the random numbers.

        Returns
        -------
        list of Environment
            Independent draws.
        """
        if count < 1:
            raise InputError(f"count must be at least 1; found {count}.")
        return [self.environment(each) for each in self.draws(count, np.random.default_rng(seed))]

    def to_frame(self, level: float = 0.95) -> pd.DataFrame:
        """A table of all possible transitions: mean probability, exact equal-tailed interval, and Dirichlet parameter.

        Parameters
        ----------
        level
            Probability of the intervals.

        Returns
        -------
        DataFrame
            One row for each transition.
        """
        if not 0 < level < 1:
            raise InputError(f"level must be between 0 and 1; found {quoted(level)}.")
        known, index = self.mean, self.transition_index
        alpha = self.concentration.data
        total = np.asarray(self.concentration.sum(axis=1)).ravel()[index[:, 0] * known.num_actions + index[:, 1]]
        rest = total - alpha
        is_certain = rest <= 0
        low, high = (
            np.where(is_certain, 1.0, special.betaincinv(alpha, np.where(is_certain, 1.0, rest), tail))
            for tail in ((1 - level) / 2, (1 + level) / 2)
        )
        return pd.DataFrame(
            {
                "state": [known.states[s] for s in index[:, 0]],
                "action": [known.actions[a] for a in index[:, 1]],
                "next_state": [known.states[s] for s in index[:, 2]],
                "mean": alpha / total,
                "lower": low,
                "upper": high,
                "concentration": alpha,
            }
        )

    @cached_property
    def transition_index(self) -> np.ndarray:
        """[E, 3] state, action and next state of each possible move."""
        rows = np.repeat(np.arange(self.concentration.shape[0]), np.diff(self.concentration.indptr))
        return np.stack([*np.divmod(rows, self.mean.num_actions), self.concentration.indices], axis=1)

    @cached_property
    def is_uncertain(self) -> np.ndarray:
        """[E] whether a move's probability is not known: several are possible after the same state and action."""
        return np.repeat(np.diff(self.concentration.indptr) > 1, np.diff(self.concentration.indptr))

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What to be careful about."""
        known, said = self.mean, []
        seen = self.seen.reshape(known.available.shape)
        never, seldom = known.available & (seen == 0), known.available & (seen > 0) & (seen < SELDOM)
        for which, words in (
            (never, "was never observed, so its next states are determined by the prior alone"),
            (seldom, f"was observed fewer than {SELDOM} times, so the prior influences its next states"),
        ):
            if which.any():
                state, action = np.argwhere(which)[0]
                said.append(
                    f"{which.sum()} of {known.available.sum()} state-action pairs, such as "
                    f"{quoted(known.actions[action])} in {quoted(known.states[state])}: each {words}."
                )
        arrived = np.zeros(known.num_states, dtype=bool)
        index = self.transition_index
        arrived[index[index[:, 0] != index[:, 2], 2]] = True
        lost = np.flatnonzero(~arrived & (known.start == 0))
        if lost.size:
            more = f" and {lost.size - 1} more" if lost.size > 1 else ""
            said.append(
                f"state {quoted(known.states[lost[0]])}{more} cannot be reached, so choices say nothing about its "
                "reward."
            )
        return tuple(said)

    def __repr__(self) -> str:
        known = self.mean
        uncertain = int((np.diff(self.concentration.indptr) > 1).sum())
        return (
            f"DynamicsBelief({known.num_states} states, {known.num_actions} actions, discount {known.discount:g}; "
            f"next states are uncertain for {uncertain} of {known.available.sum()} state-action pairs, "
            f"{self.seen.sum():g} transitions observed)" + "".join(f"\n  ! {warning}" for warning in self.warnings)
        )

    # ---- inside --------------------------------------------------------------------------------------------

    @cached_property
    def _filled(self) -> np.ndarray:
        return np.diff(self.concentration.indptr) > 0

    def _like(self, matrix: sp.csr_array) -> Environment:
        """The mean environment with other transitions."""
        made = copy(self.mean)
        for name in DERIVED:
            made.__dict__.pop(name, None)
        object.__setattr__(made, "transitions", matrix if sp.issparse(self.mean.transitions) else handy(matrix))
        return made


EnvironmentOrBelief = Environment | DynamicsBelief  # what agents acted in, as far as it is known


def known_part(dynamics: EnvironmentOrBelief) -> Environment:
    """An environment as it is; of a belief, its mean: names, which actions exist where, and what to expect."""
    return dynamics.mean if isinstance(dynamics, DynamicsBelief) else dynamics


def split_environment(dynamics: EnvironmentOrBelief) -> tuple[DynamicsBelief | None, Environment]:
    """What is not known of the environment, if anything is uncertain, and what is."""
    belief = dynamics if isinstance(dynamics, DynamicsBelief) and dynamics.is_uncertain.any() else None
    return belief, known_part(dynamics)


def _freeze(belief: DynamicsBelief, mean: Environment, concentration: sp.csr_array, seen: np.ndarray) -> None:
    for name, value in (("mean", mean), ("concentration", concentration), ("seen", seen)):
        object.__setattr__(belief, name, value)
