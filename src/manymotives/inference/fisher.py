"""Fisher information of choices as a linear operator: products with it and draws from it, never the matrix itself.

With rewards ρ = Φ u, logits ℓ = c Q and one policy π to follow (soft, or greedy), for each task

    dℓ = J du,   J = c K_π Φ,   K_π x = x + γ P (I − γ P_π)⁻¹ Π x          (on states x counts for every action)
    I  = Jᵀ W J,   W(s) = N(s) Cᵀ diag(π m²) C,   C = 1 − 1 pᵀ,   m = (1 − ε) p / π,   π = (1 − ε) p + ε / |A(s)|

where p = softmax(ℓ), N(s) choices were made in s, and ε is the lapse rate. Both J x and Jᵀ y cost one sparse solve. In
standardised coordinates z = (u − mean) / scale the posterior's curvature is H = 1 + scale I scale: systems with it are
solved by conjugate gradients, and H⁻¹ (scale Jᵀ W^½ ε₁ + ε₂) with standard normal ε is a draw from Normal(0, H⁻¹),
the Laplace approximation (perturb, then optimise: Papandreou and Yuille 2010).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from jaxtyping import Float

from manymotives.models import Target
from manymotives.planning.compiled import suits
from manymotives.planning.sparse import systems_of

PROBES = 8  # draws from which the diagonal is estimated, for preconditioning
EXACT = 1e-3  # residual of a solution, relative

Coordinates = Float[np.ndarray, "R D"]


class FisherInformation:
    """Of the choices of R tasks in their coordinates, at u [R, D]."""

    def __init__(self, target: Target, u: Coordinates) -> None:
        environment, layout = target.environment, target.layout
        every = np.arange(target.num_tasks)
        self.shape = (len(u), environment.num_states, environment.num_actions)
        self.on_pairs, known = layout.on_pairs, layout.features
        # as an array where it has no zeros: products with sparse rows take ten times as long there
        self.features: Any = None if not known.exist else known.array if known.is_dense else known.matrix
        self.reward_index = layout.reward_index
        self.temperature = target.felt_temperatures(u, every)[:, None, None]
        lapse = target.lapses(u, every)[:, None, None]
        found = target.planned(u, every)
        exists = np.isfinite(found.q)
        above = np.where(exists, found.q - found.q.max(axis=-1, keepdims=True), 0.0)
        weight = np.where(exists, np.exp(self.temperature * above), 0.0)
        self.intended = weight / weight.sum(axis=-1, keepdims=True)
        policy = (1 - lapse) * self.intended + lapse * exists / exists.sum(axis=-1, keepdims=True)
        meant = np.where(exists, (1 - lapse) * self.intended / np.maximum(policy, 1e-300), 0.0)
        if not lapse.any():  # also where both are too small to be told from 0
            meant = exists.astype(float)
        self.followed = self.intended if layout.is_soft else found.policy
        self.scored = target.counts * meant
        self.root = np.sqrt(target.counts.sum(axis=2, keepdims=True) * policy) * meant  # W^½, before it is centred
        self.transitions = environment.discount * environment.matrix
        self.has_future = environment.discount > 0
        self.inverses: np.ndarray | None = None  # [R, S, S] of I − γ P_π, in small environments …
        self.solvers: list[Any] = []  # … and their factors in large ones
        if self.has_future and suits(environment):
            chain = np.einsum("rsa,sat->rst", self.followed, environment.discount * environment.tensor)
            self.inverses = np.linalg.inv(np.eye(environment.num_states) - chain)
        elif self.has_future:
            options = {"SymmetricMode": True}  # diagonally dominant: no pivoting needed (see `planning.sparse`)
            self.solvers = [
                spl.splu(system.tocsc(), diag_pivot_thresh=0.0, options=options)
                for system in systems_of(environment, self.followed)
            ]

    def slope(self) -> Coordinates:
        """The gradient of log likelihoods."""
        return self._back(self._centred(self.scored))

    def times(self, x: Coordinates) -> Coordinates:
        """I x of each task."""
        logits = self._logits(x)
        logits -= (self.intended * logits).sum(axis=2, keepdims=True)
        return self._back(self._centred(self.root**2 * logits))

    def draw(self, rng: np.random.Generator) -> Coordinates:
        """Normal(0, I), of each task."""
        return self._back(self._centred(self.root * rng.standard_normal(self.shape)))

    def diagonal(self, rng: np.random.Generator) -> Coordinates:
        """An estimate, within some tens of per cent."""
        return np.mean([self.draw(rng) ** 2 for _ in range(PROBES)], axis=0)

    def rows(self, task: int) -> Float[np.ndarray, "N D"]:
        """W^½ J of one task, whose Fisher information is (W^½ J)ᵀ W^½ J: a row for each action where it chose."""
        _, num_states, num_actions = self.shape
        states = np.flatnonzero((self.root[task] > 0).sum(axis=1) > 1)
        pairs = (states[:, None] * num_actions + np.arange(num_actions)).ravel()
        cells = num_states * (num_actions if self.on_pairs else 1)
        here = pairs if self.on_pairs else pairs // num_actions
        slopes: Any = sp.csr_array((np.ones(len(pairs)), (np.arange(len(pairs)), here)), shape=(len(pairs), cells))
        features: Any = self._features()
        if not self.has_future:
            slopes = slopes @ features
        elif len(pairs) <= features.shape[1]:  # as many transposed systems as there are rows, or else …
            values = self._solved_many(task, self.transitions[pairs].toarray().T, "T").T
            if self.on_pairs:
                values = (values[:, :, None] * self.followed[task]).reshape(len(pairs), cells)
            slopes = (slopes + values) @ features
        else:  # … as many as there are coordinates
            received = features
            if self.on_pairs:
                rows = np.arange(cells)
                received = sp.csr_array((self.followed[task].ravel(), (rows // num_actions, rows))) @ features
            values = self._solved_many(task, _dense(received), "N")
            slopes = slopes @ features + self.transitions[pairs] @ values
        shape = (len(states), num_actions, features.shape[1])  # in full: a task may have made no choice
        slopes = self.temperature[task, 0, 0] * _dense(slopes).reshape(shape)
        slopes -= np.einsum("sa,sad->sd", self.intended[task, states], slopes)[:, None]
        return (self.root[task, states][:, :, None] * slopes).reshape(len(pairs), shape[2])

    def _features(self) -> Any:
        """Φ [S·(1 or A), D]."""
        if self.features is not None:
            return self.features
        cells, size = self.shape[1] * (self.shape[2] if self.on_pairs else 1), len(self.reward_index)
        return sp.csr_array((np.ones(size), (self.reward_index, np.arange(size))), shape=(cells, size))

    def _solved_many(self, task: int, x: np.ndarray, transposed: str) -> np.ndarray:
        """The same as `_solved` for many x [S, n] of one task."""
        if self.inverses is not None:
            return (self.inverses[task] if transposed == "N" else self.inverses[task].T) @ x
        return self.solvers[task].solve(np.ascontiguousarray(x), trans=transposed)

    def _centred(self, y: np.ndarray) -> np.ndarray:
        return y - self.intended * y.sum(axis=2, keepdims=True)

    def _logits(self, x: np.ndarray) -> np.ndarray:
        """J x [R, S, A]."""
        rewards = self._rewards(x)
        if self.on_pairs:
            here = rewards.reshape(self.shape)
            received = (self.followed * here).sum(axis=2)
        else:
            here, received = np.broadcast_to(rewards[:, :, None], self.shape), rewards
        if self.has_future:
            values = self._solved(received, "N")
            here = here + (self.transitions @ values.T).T.reshape(self.shape)
        return self.temperature * here

    def _back(self, y: np.ndarray) -> np.ndarray:
        """Jᵀ y [R, D]."""
        y = self.temperature * y
        table = y if self.on_pairs else y.sum(axis=2)
        if self.has_future:
            values = self._solved((self.transitions.T @ y.reshape(len(y), -1).T).T, "T")
            table = table + (self.followed * values[:, :, None] if self.on_pairs else values)
        flat = table.reshape(len(y), -1)
        return flat[:, self.reward_index] if self.features is None else (self.features.T @ flat.T).T

    def _solved(self, x: np.ndarray, transposed: str) -> np.ndarray:
        """(I − γ P_π)⁻¹ x of each task [R, S], or with "T" that of the transpose."""
        if self.inverses is not None:
            return np.einsum("rst,rt->rs" if transposed == "N" else "rts,rt->rs", self.inverses, x)
        return np.stack([solver.solve(each, trans=transposed) for solver, each in zip(self.solvers, x)])

    def _rewards(self, x: np.ndarray) -> np.ndarray:
        """Φ x [R, S·(1 or A)]."""
        if self.features is not None:
            return (self.features @ x.T).T
        table = np.zeros((len(x), self.shape[1] * (self.shape[2] if self.on_pairs else 1)))
        table[:, self.reward_index] = x
        return table


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


def conjugate_gradients(
    product: Callable[[Coordinates], Coordinates], right: Coordinates, diagonal: Coordinates, most: int
) -> Coordinates:
    """H⁻¹ `right` of each row, for positive definite H with about this diagonal; by so many products at most.

    Ended early it is still a direction in which ½ xᵀ H x − xᵀ `right` falls.
    """
    x, left = np.zeros_like(right), right.copy()
    scaled = left / diagonal
    direction = scaled.copy()
    height = (left * scaled).sum(axis=1)
    enough = EXACT**2 * height
    for _ in range(most):
        active = height > enough
        if not active.any():
            break
        moved = product(direction)
        step = np.where(active, height / np.maximum((direction * moved).sum(axis=1), 1e-300), 0.0)[:, None]
        x += step * direction
        left -= step * moved
        scaled = left / diagonal
        before, height = height, np.where(active, (left * scaled).sum(axis=1), height)
        direction = scaled + (height / np.maximum(before, 1e-300))[:, None] * direction
    return x
