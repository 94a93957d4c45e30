"""An environment in, the directions of reward that no choice can show out: the null space of policies in the reward.

Choices depend on a reward ρ only through differences Q(s, a) − Q(s, b) between available actions, where

    Q(s, a) = ρ(s, a) + γ Σ P(s'|s, a) V(s'),   ρ(s, a) = ρ(s) where rewards lie on states,
    V(s) = ρ(s) in a terminal state (0 where rewards lie on pairs).

Move ρ along δ. Let π be optimal, or soft-optimal; in both cases dV(s) = Σ π(a|s) dQ(s, a). No choice changes if and
only if dQ(s, a) is the same number φ(s) for every available action, and then dV(s) = φ(s) too, so that

    δ(s, a) = φ(s) − γ Σ P(s'|s, a) φ(s')   for every available a,   δ(s) = φ(s) in a terminal state (pairs: φ(s) = 0).

This is potential-based shaping (Ng, Harada & Russell 1999). π is gone: the same directions are invisible at every
reward, for both choice rules and every temperature, and not only to first order. It remains to find the potentials φ:

    pairs     every φ with φ = 0 in terminal states: one direction for each state that is not terminal
    states    δ(s, a) may not depend on a: γ Σ (P(s'|s, a) − P(s'|s, b)) φ(s') = 0 for all s, a, b   (D φ = 0)
    features  the weights w with Φ w among the directions above, or Φ w = 0

φ ↦ δ is one to one, so that there are as many directions as potentials. φ = 1 is always one of them on states: δ is
then a constant or, where episodes end, 1 − γ in every state and 1 in terminal ones. Only states that can be
reached count: choices in the others are never made, and their rewards are never received.

Where agents look n steps ahead, potentials differ from step to step, and the last is 0. No choice changes if δ(s, a)
is the same δ(s) for every available action, and D φ_k = 0 with φ_k = δ + γ P_b φ_{k−1} for k = 1, …, n − 1, that is, if
D (γ P_b)ʲ δ = 0 for j = 0, …, n − 2, with b the first available action, and P_b = 0 in terminal states; on pairs too.

A difference between two rewards can be shown by choices if and only if every invisible direction changes both alike.
This puts rewards into groups: differences within a group can be shown, differences between groups rest on the prior.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike
from scipy.sparse.linalg import splu

from manymotives.data.environment import Environment
from manymotives.errors import InputError
from manymotives.planning.finite_horizon import checked_depth
from manymotives.planning.identifiability_words import described
from manymotives.planning.potentials import (
    NUMBERS,
    SINGULAR,
    differences_of,
    normalised,
    potentials_of,
    reachable_states,
    unseen_ahead,
)
from manymotives.planning.problem import check_known

ALIKE = 1e-9  # entries of unit vectors that differ by less are equal
ZERO = 1e-12  # of a reward's size: what a projection leaves of nothing


@dataclass(frozen=True, eq=False)
class Identifiability:
    """Which rewards choices in an environment can distinguish; returned by `identifiability`."""

    environment: Environment
    on: str
    features: Float[np.ndarray, "cells K"] | None  # rewards are Φ w: then only such directions count
    reachable: Bool[np.ndarray, " S"]
    left_out: str | None  # why only the direction that every environment has was looked at, where that is so
    potentials: Any  # [S, n] whose columns span all φ; None where rewards lie on pairs: every φ is one
    depth: int | None = None  # how many steps ahead agents look; then `potentials` span all δ instead

    @cached_property
    def exists(self) -> Bool[np.ndarray, " cells"]:
        """Whether a state, or a state and an action, has a reward that any choice could be about."""
        if self.on == "state":
            return self.reachable
        return (self.environment.available & self.reachable[:, None]).ravel()

    @cached_property
    def directions(self) -> Float[np.ndarray, "cells n"]:
        """Orthonormal columns that span what no choice can show, of rewards [S] or [S·A] in states that can be reached.

        With features, of rewards that they can make, in all states.
        """
        if self.features is not None:
            return self._made_of_features
        if self.on == "state":
            return self._basis
        if self.left_out is not None:
            raise InputError(
                "the directions of rewards on pairs that choices cannot identify are not listed, because "
                f"{self.left_out}. There is one for each state that is not terminal (potential shaping)."
            )
        return np.linalg.qr(self._shaping.toarray())[0]

    @cached_property
    def weights(self) -> Float[np.ndarray, "K n"]:
        """With features, orthonormal columns that span the weights no choice can show."""
        if self.features is None:
            raise InputError("these rewards have no features; `directions` has what choices cannot identify.")
        sizes = np.linalg.norm(self.features, axis=0)
        sizes = np.where(sizes > 0, sizes, 1.0)
        seen = self._without_shaping(np.where(self.exists[:, None], self.features / sizes, 0.0))
        _, singular, right = np.linalg.svd(seen, full_matrices=len(seen) < len(sizes))
        rank = int((singular > SINGULAR).sum())
        return np.linalg.qr(right[rank:].T / sizes[:, None])[0]

    @cached_property
    def _made_of_features(self) -> np.ndarray:
        assert self.features is not None
        terms = np.linalg.norm(np.abs(self.features) @ np.abs(self.weights), axis=0)  # what might cancel
        left, singular, _ = np.linalg.svd(
            self.features @ self.weights / np.where(terms > 0, terms, 1.0), full_matrices=False
        )
        return left[:, singular > SINGULAR]

    @cached_property
    def groups(self) -> Int[np.ndarray, " cells"]:
        """Rewards whose differences choices can show have one number; −1 where there is no reward to speak of."""
        changes = self._shaping if self.features is None else self._made_of_features
        # equal rows have equal projections, and others have not, with probability one
        shadows = changes @ np.random.default_rng(0).normal(size=(changes.shape[1], 2))
        labels = np.zeros(shadows.shape, dtype=int)
        for column, shadow in enumerate(shadows.T):
            order = np.argsort(shadow, kind="stable")
            labels[order[1:], column] = np.cumsum(np.diff(shadow[order]) > ALIKE)
        known = np.ones(len(labels), dtype=bool) if self.features is not None else self.exists
        found = np.full(len(labels), -1)
        if known.any():
            _, first, number = np.unique(labels[known], axis=0, return_index=True, return_inverse=True)
            found[known] = np.argsort(np.argsort(first))[number.ravel()]  # in order of appearance
        return found

    def can_show(self, first: Any, second: Any) -> Any:
        """Whether choices can identify the difference between two rewards, given by number: that of a state, or s·A +
        a.

        Parameters
        ----------
        first, second
            Numbers of two rewards, or arrays of them.

        Returns
        -------
        bool
            Whether choices can identify the difference; an array if the numbers are arrays.
        """
        return (self.groups[first] == self.groups[second]) & (self.groups[first] >= 0)

    def __repr__(self) -> str:
        return described(self)

    @property
    def is_plain(self) -> bool:
        """Whether all differences between rewards can be shown."""
        return bool((self.groups == 0).all())

    @cached_property
    def forced(self) -> Bool[np.ndarray, " S"]:
        """Where nothing is chosen: one action, or, with rewards on states, several that all lead to the same."""
        some = self.environment.available.sum(axis=1)
        alike = some == 1
        if self.on == "state":
            num_actions = self.environment.num_actions
            rows, owner = differences_of(self.environment, np.ones(len(some), dtype=bool))
            differs = np.zeros(len(some), dtype=bool)
            differs[owner[np.diff(rows.indptr) > 0] // num_actions] = True
            alike = (some > 0) & ~differs
        return self.reachable & alike

    def reduced(self, rewards: Any) -> np.ndarray:
        """Rewards [..., S(, A)] without what choices cannot identify: of all rewards with the same choices, the one
        with the least sum of squares.

        Rewards with the same choices (at the same temperature) become equal; rewards on which no choice depends become
        0.

        Parameters
        ----------
        rewards
            [..., S] or [..., S, A], or weights of features.

        Returns
        -------
        ndarray
            Rewards of the same shape.
        """
        values = np.asarray(rewards, dtype=float)
        cells = values.reshape(*values.shape[: values.ndim - (1 if self.on == "state" else 2)], -1)
        if self.features is None:
            left = self._without_shaping(np.where(self.exists, cells, 0.0).reshape(-1, cells.shape[-1]).T).T
        else:
            left = cells - (cells @ self.directions) @ self.directions.T
        left = left.reshape(cells.shape)
        size = np.abs(cells).max(axis=-1, keepdims=True, initial=0.0)
        return np.where(np.abs(left) <= ZERO * size, 0.0, left).reshape(values.shape)

    @cached_property
    def _shaping(self) -> Any:
        """[cells, n] δ of every potential, 0 in states that cannot be reached; sparse where rewards lie on pairs."""
        environment, discount = self.environment, self.environment.discount
        num_states, num_actions = environment.available.shape
        if self.depth is not None:
            if self.on == "state":
                return self.potentials
            return sp.csr_array(np.repeat(self.potentials, num_actions, axis=0) * self.exists[:, None])
        rows = np.flatnonzero(environment.available & self.reachable[:, None])
        if self.on == "state":
            ends = np.flatnonzero(self.reachable & environment.is_terminal)
            states, first = np.unique(rows // num_actions, return_index=True)
            change = np.zeros((num_states, self.potentials.shape[1]))
            moves = normalised(environment.matrix[rows[first]])
            change[states] = self.potentials[states] - discount * (moves @ self.potentials)
            change[ends] = self.potentials[ends]
            return change
        lives = np.flatnonzero(self.reachable & ~environment.is_terminal)
        here = sp.csr_array((np.ones(len(rows)), (np.arange(len(rows)), rows // num_actions)), (len(rows), num_states))
        change = (here - discount * normalised(environment.matrix[rows]))[:, lives].tocoo()
        return sp.csr_array((change.data, (rows[change.row], change.col)), (num_states * num_actions, len(lives)))

    @cached_property
    def _basis(self) -> np.ndarray:
        """The same on states, orthonormal: δ is one to one with φ, so that columns are independent."""
        return np.linalg.qr(self._shaping)[0]

    @cached_property
    def _solve(self) -> Any:
        """On pairs: what solves the normal equations of a projection."""
        return splu(sp.csc_array(self._shaping.T @ self._shaping)).solve

    def _without_shaping(self, columns: np.ndarray) -> np.ndarray:
        """[cells, k] without their projections on δ of any potential."""
        if self._shaping.shape[1] == 0:
            return columns
        for _ in range(2):  # the second time takes away what rounding left
            if self.on == "state":
                columns = columns - self._basis @ (self._basis.T @ columns)
            else:
                columns = columns - self._shaping @ self._solve(self._shaping.T @ columns)
        return columns


def identifiability(
    environment: Environment,
    *,
    on: str = "state",
    features: ArrayLike | None = None,
    visited: ArrayLike | None = None,
    known: bool = True,
    depth: int | None = None,
) -> Identifiability:
    """What choices in an environment can and cannot identify about rewards, whatever the reward and the choice rule.

    Parameters
    ----------
    environment
        The environment. States count if they can be reached from its start, or from the visited states.
    on
        What has a reward: "state" or "state_action".
    features
        [S, K] or [S, A, K]: rewards are weighted sums of these. If None, rewards are arbitrary.
    visited
        [S]: states in which choices were observed, wherever episodes begin.
    known
        False if transitions are unknown; then only what holds in every environment counts.
    depth
        The number of steps that agents look ahead. If None, an infinite horizon.

    Returns
    -------
    Identifiability
        `directions` that change no choice, `groups` of states that can be compared, `can_show(state, other)` and
        `reduced(rewards)`.
    """
    check_known(environment)
    if on not in ("state", "state_action"):
        raise InputError(f'on must be "state" or "state_action"; found {on!r}.')
    size = environment.num_states if on == "state" else environment.available.size
    if features is not None:
        table = _numbers(features, "features")
        features = table.reshape(-1, table.shape[-1]) if table.ndim == (2 if on == "state" else 3) else None
        if features is None or len(features) != size or not np.isfinite(features).all():
            described = ", ".join(map(str, environment.available.shape[: 1 if on == "state" else 2]))
            raise InputError(
                f"features on {on.replace('_', '–')}s must be finite and have the shape [{described}, number of "
                f"features]; found {list(table.shape)}."
            )
    start = environment.start > 0
    if visited is not None:
        counts = _numbers(visited, "visited")
        if counts.shape != start.shape:
            raise InputError(
                f"visited must hold one number for each of {len(start)} states; found {list(counts.shape)}."
            )
        start = start | (counts > 0)
    reachable = reachable_states(environment, start) if known else np.ones(environment.num_states, dtype=bool)
    left_out = None if known else "transitions are not known"
    potentials, steps = None, checked_depth(depth, "identifiability: depth")
    if steps is not None:
        potentials = unseen_ahead(environment, reachable, steps, on) if known else None
        if potentials is None:
            left_out = left_out or f"there are {environment.num_states:,} states"
            potentials = np.zeros((environment.num_states, 0))
    elif on == "state":
        potentials = potentials_of(environment, reachable.tobytes()) if known else None
        if potentials is None:
            left_out = left_out or f"there are {environment.num_states:,} states"
            potentials = reachable[:, None].astype(float)
    elif environment.available.size * environment.num_states > NUMBERS:
        left_out = left_out or f"there are {environment.num_states:,} states"
    return Identifiability(environment, on, features, reachable, left_out, potentials, steps)


def _numbers(values: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{what} must be numbers, in an array or in lists of equal lengths.") from None
