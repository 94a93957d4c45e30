"""What agents act in: a controlled Markov process ν = (S, A, T), checked once here and trusted afterwards."""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from manymotives.data.alignment import aligned
from manymotives.data.environment_checks import (
    checked_coordinates,
    checked_discount,
    checked_own_reward,
    checked_start,
)
from manymotives.data.environment_table import check_moves
from manymotives.data.labels import Label, checked_labels, index_of, indices_of
from manymotives.data.tables import Backend, Column, column_name, columns_of, frame_of, numbers_in
from manymotives.data.transitions import (
    ROW_SUM_TOLERANCE,
    checked_available,
    checked_rows,
    handy,
    read_only,
    read_only_matrix,
    transition_rows,
)
from manymotives.errors import InputError, RowError, quoted

DENSE_BYTES = 2 * 2**30  # a dense [S, A, S] array past this is refused, not attempted


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Environment:
    """A controlled Markov process with its discount, start distribution and names.

    `with_coordinates` gives states positions for plots.

    Parameters
    ----------
    transitions
        Probabilities of the next state: an array [S, A, S], or a scipy.sparse matrix [S·A, S] whose row s·A + a belongs
        to action a in state s. It is kept in the form given.
    discount
        γ in [0, 1). The meaning of a reward depends on it, so it has no default.
    states, actions
        Names; by default 0, 1, 2, ….
    available
        Boolean [S, A]: which actions exist in which state (default: all). Rows of other actions are ignored.
    terminal
        Names of the states that end an episode. Their reward is received once, V = ρ. (An *absorbing* state, by
        contrast, is an ordinary one that leads to itself: V = ρ / (1 − γ).)
    start
        Where episodes begin: probabilities [S], or a mapping from names of states to probabilities. By default, all
        states that are not terminal are equally likely.
    reward
        The true reward if there is one, [S] or [S, A]. It is used for simulation and evaluation, never for inference.
    """

    transitions: Float[np.ndarray, "S A S"] | sp.csr_array
    discount: float
    states: tuple[Label, ...]
    actions: tuple[Label, ...]
    available: Bool[np.ndarray, "S A"]
    is_terminal: Bool[np.ndarray, " S"]
    start: Float[np.ndarray, " S"]
    reward: Float[np.ndarray, " S"] | Float[np.ndarray, "S A"] | None
    coordinates: Float[np.ndarray, "S 2"] | None
    warnings: tuple[str, ...]  # what a careful reader would want to know, such as that it was estimated
    pairs: Int[np.ndarray, "S 2"] | None  # (previous, current) state, where states are such pairs; see `with_memory`

    def __init__(
        self,
        transitions: Any,
        *,
        discount: float,
        states: Sequence[Label] | None = None,
        actions: Sequence[Label] | None = None,
        available: Any = None,
        terminal: Sequence[Label] = (),
        start: Any = None,
        reward: Any = None,
    ) -> None:
        transitions = aligned(transitions, "transitions", state=states, action=actions, next_state=states)
        rows, num_states, num_actions = transition_rows(transitions)
        state_names = checked_labels(states, num_states, "state")
        action_names = checked_labels(actions, num_actions, "action")

        is_terminal = np.zeros(num_states, dtype=bool)
        is_terminal[[index_of(name, state_names, "state") for name in terminal]] = True
        available = aligned(available, "available", state=state_names, action=action_names)
        exists = checked_available(available, is_terminal, state_names, num_actions)
        rows = checked_rows(rows, exists, state_names, action_names)

        sparse = sp.issparse(transitions)
        freeze = object.__setattr__
        freeze(self, "transitions", rows if sparse else rows.reshape(num_states, num_actions, num_states))
        freeze(self, "discount", checked_discount(discount))
        freeze(self, "states", state_names)
        freeze(self, "actions", action_names)
        freeze(self, "available", read_only(exists))
        freeze(self, "is_terminal", read_only(is_terminal))
        freeze(self, "start", checked_start(start, is_terminal, state_names))
        freeze(self, "reward", checked_own_reward(reward, state_names, action_names))
        freeze(self, "coordinates", None)
        freeze(self, "warnings", ())
        freeze(self, "pairs", None)

    # ---- from tables and back ------------------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        discount: float,
        state: Column = "state",
        action: Column = "action",
        next_state: Column = "next_state",
        probability: str = "probability",
        terminal: Sequence[Label] = (),
        start: Any = None,
    ) -> "Environment":
        """Read an environment from a long table, with one row for each possible (state, action, next state).

        State–action pairs without a row do not exist. A row with a state and nothing else declares that state terminal,
        as does `terminal`. States and actions are in the order in which they first appear.

        Parameters
        ----------
        frame
            The table, from pandas, polars, pyarrow, …
        discount
            γ in [0, 1).
        state, action, next_state, probability
            Names of the columns; several, such as `state=["room", "hour"]`, are combined into one.
        terminal
            Names of the states that end an episode.
        start
            Where episodes begin, as for `Environment`.

        Returns
        -------
        Environment
            An environment with the names of the table.
        """
        wanted: dict[str, Column] = {
            "state": state,
            "action": action,
            "next_state": next_state,
            "probability": probability,
        }
        table = columns_of(frame, wanted, "the environment table")
        table = table.dropna(how="all")  # an empty line says nothing
        is_end = table[["action", "next_state", "probability"]].isna().all(axis=1)
        ends, moves = table["state"][is_end], table[~is_end]
        for word, column in wanted.items():
            holes = np.flatnonzero(moves[word].isna())
            if holes.size:
                raise RowError(
                    f"column {quoted(column_name(column))}, ",
                    (moves.index[holes[0]],),
                    ": this cell is empty. Fill it in; a row with a state and nothing else declares that state "
                    "terminal.",
                )
        probabilities = numbers_in(moves["probability"])
        if np.isnan(probabilities).any():
            row = moves.index[np.flatnonzero(np.isnan(probabilities))[0]]
            raise RowError(
                f"column {quoted(probability)}, ",
                (row,),
                f": {quoted(table['probability'][row])} is not a number. Write it with a decimal point, such as 0.25.",
            )
        states = list(dict.fromkeys([*table["state"], *moves["next_state"]]))
        actions = list(dict.fromkeys(moves["action"]))
        if not actions:
            raise InputError(
                "the environment table has no actions: every row declares a terminal state. Write one row for "
                "each possible transition."
            )
        here = indices_of(moves["state"], states, "state", column_name(state))
        act = indices_of(moves["action"], actions, "action", column_name(action))
        there = indices_of(moves["next_state"], states, "state", column_name(next_state))
        lasting = [*dict.fromkeys([*ends, *terminal])]
        check_moves(moves, (here, act, there), probabilities, lasting, column_name(next_state), probability)

        num_states, num_actions = len(states), len(actions)
        rows = here * num_actions + act
        shape = (num_states * num_actions, num_states)
        matrix = sp.csr_array((probabilities, (rows, there)), shape=shape)
        available = np.zeros((num_states, num_actions), dtype=bool)
        available[here, act] = True
        return cls(
            handy(matrix),
            discount=discount,
            states=states,
            actions=actions,
            available=available,
            terminal=lasting,
            start=start,
        )

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """The environment as a long table, which `from_frame` reads.

        Parameters
        ----------
        backend
            The library of the data frame: "pandas", "polars" or "pyarrow".

        Returns
        -------
        DataFrame
            A data frame of that library.
        """
        entries = self.matrix.tocoo()
        kept = np.flatnonzero(entries.data > 0)
        kept = kept[np.lexsort((entries.col[kept], entries.row[kept]))]
        here, act = np.divmod(entries.row[kept], self.num_actions)
        ends = [self.states[s] for s in np.flatnonzero(self.is_terminal)]
        blank = [None] * len(ends)
        return frame_of(
            {
                "state": [self.states[s] for s in here] + ends,
                "action": [self.actions[a] for a in act] + blank,
                "next_state": [self.states[s] for s in entries.col[kept]] + blank,
                "probability": [*map(float, entries.data[kept]), *blank],
            },
            backend,
        )

    # ---- derived -------------------------------------------------------------------------------------------

    @property
    def num_states(self) -> int:
        return len(self.states)

    @property
    def num_actions(self) -> int:
        return len(self.actions)

    @cached_property
    def is_absorbing(self) -> Bool[np.ndarray, " S"]:
        """States that every available action leads back to, for ever."""
        rows = np.arange(self.num_states * self.num_actions)
        stays = np.asarray(self.matrix[rows, rows // self.num_actions]).reshape(self.available.shape)
        leads_back = np.where(self.available, stays >= 1 - ROW_SUM_TOLERANCE, True).all(axis=1)
        return read_only(~self.is_terminal & leads_back)

    @cached_property
    def matrix(self) -> sp.csr_array:
        """Transitions as a sparse matrix [S·A, S], row s·A + a; zero rows where an action does not exist."""
        if sp.issparse(self.transitions):
            return self.transitions
        return read_only_matrix(sp.csr_array(self.transitions.reshape(-1, self.num_states)))

    @cached_property
    def tensor(self) -> Float[np.ndarray, "S A S"]:
        """Transitions as a dense array [S, A, S]; zero rows where an action does not exist."""
        if not sp.issparse(self.transitions):
            return self.transitions
        shape = (self.num_states, self.num_actions, self.num_states)
        if 8 * math.prod(shape) > DENSE_BYTES:
            raise InputError(
                f"a dense transition array {list(shape)} would take {8 * math.prod(shape) / 2**30:.0f} GiB. "
                "Pass rewards as NumPy arrays: planning is then sparse."
            )
        return read_only(self.matrix.toarray().reshape(shape))

    def with_memory(self, firsts: Sequence[Label] | None = None) -> "Environment":
        """The same environment with pairs (previous state, state) as its states.

        A policy with one step of memory in this environment is an ordinary policy in the new one. Only pairs that can
        occur exist; the first step of an episode has no previous state, and its pair is named "→state". `pairs`
        contains the two indices ((−1, s) for first steps), so `reward[environment.pairs[:, 1]]` turns a reward of
        states into one of pairs.

        Parameters
        ----------
        firsts
            States that may have no previous one; those in which episodes can start are always included. If None, all
            states.

        Returns
        -------
        Environment
            An environment with one state for each pair.
        """
        moves = self.matrix.tocoo()
        possible = moves.data > 0
        follows = np.unique(np.stack([moves.row[possible] // self.num_actions, moves.col[possible]], axis=1), axis=0)
        begun = self.start > 0
        begun[[index_of(name, self.states, "state") for name in (self.states if firsts is None else firsts)]] = True
        first = np.stack([np.full(int(begun.sum()), -1), np.flatnonzero(begun)], axis=1)
        pairs = np.concatenate([first, follows]).astype(np.int64)
        number = {(int(before), int(now)): index for index, (before, now) in enumerate(pairs)}

        # (previous, s) moves under action a to (s, s'), wherever s moves to s' under a
        current = pairs[:, 1]
        rows = (current[:, None] * self.num_actions + np.arange(self.num_actions)).ravel()
        lifted = self.matrix[rows].tocoo()
        sources = current[lifted.row // self.num_actions]
        columns = np.array([number[int(s), int(t)] for s, t in zip(sources, lifted.col)], dtype=np.int64)
        matrix = sp.csr_array((lifted.data, (lifted.row, columns)), shape=(rows.size, len(pairs)))
        names = [f"→{self.states[s]}" if p < 0 else f"{self.states[p]}→{self.states[s]}" for p, s in pairs]
        start = np.zeros(len(pairs))
        start[: len(first)] = self.start[begun]
        remembering = Environment(
            matrix if sp.issparse(self.transitions) else handy(matrix),
            discount=self.discount,
            states=names,
            actions=self.actions,
            available=self.available[current],
            terminal=[names[index] for index in np.flatnonzero(self.is_terminal[current])],
            start=start,
            reward=None if self.reward is None else self.reward[current],
        ).with_warnings(self.warnings)
        if self.coordinates is not None:
            remembering = remembering.with_coordinates(self.coordinates[current])
        return remembering.paired(pairs)

    def with_discount(self, discount: float) -> "Environment":
        """The same environment with another discount.

        Parameters
        ----------
        discount
            γ in [0, 1).

        Returns
        -------
        Environment
            A copy.
        """
        known = copy(self)
        object.__setattr__(known, "discount", checked_discount(discount))
        return known

    def paired(self, pairs: Int[np.ndarray, "S 2"]) -> "Environment":
        """The same environment, whose states are these pairs of (previous, current) ones; see `with_memory`."""
        known = copy(self)
        object.__setattr__(known, "pairs", read_only(np.array(pairs, dtype=np.int64)))
        return known

    def with_coordinates(self, coordinates: Any) -> "Environment":
        """The same environment, with the position (x, y) of each state for plots.

        Parameters
        ----------
        coordinates
            An array [S, 2], or a mapping from names of states.

        Returns
        -------
        Environment
            A copy.
        """
        if isinstance(coordinates, Mapping):
            missing = [name for name in self.states if name not in coordinates]
            if missing:
                more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
                raise InputError(f"state {quoted(missing[0])}{more} has no coordinates. Give every state its x and y.")
            coordinates = [coordinates[name] for name in self.states]
        other = copy(self)
        object.__setattr__(other, "coordinates", checked_coordinates(coordinates, self.states))
        return other

    def with_warnings(self, warnings: Sequence[str]) -> "Environment":
        """The same environment, with these warnings alone; posteriors pass them on."""
        warned = copy(self)
        object.__setattr__(warned, "warnings", tuple(warnings))
        return warned

    def __repr__(self) -> str:
        form = "sparse" if sp.issparse(self.transitions) else "dense"
        ends = f", {self.is_terminal.sum()} terminal" if self.is_terminal.any() else ""
        own = ", with its own reward" if self.reward is not None else ""
        return (
            f"Environment({self.num_states} states{ends}, {self.num_actions} actions, "
            f"discount {self.discount:g}, {form} transitions{own})"
            + "".join(f"\n  ! {warning}" for warning in self.warnings)
        )
