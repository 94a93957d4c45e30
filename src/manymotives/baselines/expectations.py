"""Where policies go and what they collect there: discounted visits, features, mixtures of policies.

    visits       d(s)  = Σ_t γ^t P(s_t = s), from a start distribution; a terminal state is visited once
    expectations μ(π)  = (1 − γ) Σ_s d(s) Σ_a π(a|s) φ(s, a), so that w · μ(π) = (1 − γ) E_start V^π for ρ = φ w
A demonstrator's μ is that of the policy its choices show, from where its episodes begin: it uses every choice, needs no
episode to be long, and is the same measure as that of every policy held against it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl

from manymotives.data.alignment import aligned
from manymotives.data.environment import Environment
from manymotives.errors import InputError
from manymotives.planning.compiled import suits
from manymotives.planning.visits import chain_system
from manymotives.posterior.labelling.common import coordinate_of


@dataclass(frozen=True, eq=False)
class Features:
    """What rewards are made of: ρ = φ w, on states or on pairs."""

    environment: Environment
    matrix: sp.csr_array  # [S or S·A, K]
    on: str
    names: np.ndarray  # [K]

    @property
    def size(self) -> int:
        return self.matrix.shape[1]

    @property
    def span(self) -> float:
        """Between the smallest feature and the largest, of all: a policy's expectations of two differ by no more."""
        return float(self.matrix.max() - self.matrix.min())

    @property
    def sizes(self) -> np.ndarray:
        """The largest value [K] of each, whatever its sign; 1 where it is nothing."""
        largest = abs(self.matrix).max(axis=0).toarray().ravel()
        return np.where(largest > 0, largest, 1.0)

    def rewards(self, weights: np.ndarray) -> np.ndarray:
        """ρ [..., S] or [..., S, A] of weights [..., K]."""
        environment = self.environment
        shape = (environment.num_states, environment.num_actions)[: 1 if self.on == "state" else 2]
        flat = (self.matrix @ weights.reshape(-1, self.size).T).T
        return flat.reshape(*weights.shape[:-1], *shape)

    def collected(self, visits: np.ndarray, policies: np.ndarray) -> np.ndarray:
        """Σ_s d(s) Σ_a π(a|s) φ(s, a) [M, K] of visits [M, S] and policies [M, S, A]."""
        if self.on == "state":
            return (self.matrix.T @ visits.T).T
        pairs = (visits[..., None] * policies).reshape(len(visits), -1)
        return (self.matrix.T @ pairs.T).T

    def on_pairs(self) -> np.ndarray:
        """φ [S, A, K], dense: for methods that need how each weight moves each value."""
        num_states, num_actions = self.environment.num_states, self.environment.num_actions
        dense = self.matrix.toarray()
        if self.on == "state":
            return np.repeat(dense[:, None, :], num_actions, axis=1)
        return dense.reshape(num_states, num_actions, -1)


def checked_features(environment: Environment, features: Any, on: str) -> Features:
    """Features [S, K] or [S, A, K]; None: one for each state, or for each pair that exists."""
    if on not in ("state", "state_action"):
        raise InputError(f'on must be "state" or "state_action"; found {on!r}.')
    num_states, num_actions = environment.num_states, environment.num_actions
    if features is None:
        if on == "state":
            return Features(environment, sp.eye_array(num_states, format="csr"), on, coordinate_of(environment.states))
        exists = np.flatnonzero(environment.available)
        matrix = sp.eye_array(num_states * num_actions, format="csc")[:, exists].tocsr()
        names = [f"{environment.states[p // num_actions]}–{environment.actions[p % num_actions]}" for p in exists]
        return Features(environment, matrix, on, np.array(names, dtype=object))
    size = (num_states,) if on == "state" else (num_states, num_actions)
    try:
        axes = {"state": environment.states} | ({"action": environment.actions} if on == "state_action" else {})
        values = np.asarray(aligned(features, "features", **axes, feature=None), dtype=float)
    except InputError:
        raise
    except (TypeError, ValueError):
        raise InputError("features must be numbers.") from None
    if values.ndim != len(size) + 1 or values.shape[:-1] != size or values.shape[-1] == 0:
        hint = ' For features of pairs pass on="state_action".' if on == "state" and values.ndim == 3 else ""
        raise InputError(
            f"features on {on.replace('_', '–')}s must have the shape [{', '.join(map(str, size))}, number of "
            f"features]; found {list(values.shape)}.{hint}"
        )
    if not np.isfinite(values).all():
        raise InputError("features must be finite.")
    if on == "state_action":  # nothing is earned by what cannot be done
        values = values * environment.available[..., None]
    return Features(environment, sp.csr_array(values.reshape(-1, values.shape[-1])), on, np.arange(values.shape[-1]))


def value_slopes(environment: Environment, policy: np.ndarray, on_pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How the values of a fixed policy move with weights: ∂V/∂w [S, K], ∂Q/∂w [S, A, K], from φ [S, A, K].

    V = φ_π w + γ P_π V and Q = φ w + γ P V. For soft optimality (log Σ exp) these are the slopes of the optimal values
    too, with π the soft policy: that is the envelope theorem.
    """
    received = np.einsum("sa,sak->sk", policy, on_pairs)
    if suits(environment):
        chain = (policy[:, None, :] @ environment.tensor)[:, 0]
        value = np.linalg.solve(np.eye(environment.num_states) - environment.discount * chain, received)
    else:
        value = spl.splu(chain_system(environment, policy).tocsc()).solve(received)
    return value, on_pairs + environment.discount * (environment.matrix @ value).reshape(on_pairs.shape)


@dataclass(frozen=True, eq=False)
class Mixture:
    """Play one of several stationary policies from beginning to end, drawn once with these weights."""

    policies: np.ndarray  # [N, S, A]
    weights: np.ndarray  # [N]
    visits: np.ndarray  # [N, S] of each

    def stationary(self) -> np.ndarray:
        """The one stationary policy [S, A] that visits every pair as often.

        π(a|s) = Σ_n w_n d_n(s) π_n(a|s) / Σ_n w_n d_n(s); where nothing ever arrives, the policies' own average.
        """
        arrivals = self.weights[:, None] * self.visits
        total = arrivals.sum(axis=0)
        shares = np.where(total > 0, arrivals / np.where(total > 0, total, 1.0), self.weights[:, None])
        policy = np.einsum("ns,nsa->sa", shares, self.policies)
        return policy / policy.sum(axis=1, keepdims=True)


def padded(mixtures: list[Mixture]) -> tuple[np.ndarray, np.ndarray]:
    """Policies [M, N, S, A] and weights [M, N] of mixtures of different sizes; what is not there has no weight."""
    longest = max(len(mixture.weights) for mixture in mixtures)
    policies, weights = [], []
    for mixture in mixtures:
        missing = longest - len(mixture.weights)
        policies.append(np.concatenate([mixture.policies, np.repeat(mixture.policies[-1:], missing, axis=0)]))
        weights.append(np.append(mixture.weights, np.zeros(missing)))
    return np.stack(policies), np.stack(weights)


def one_hot(actions: np.ndarray, num_actions: int) -> np.ndarray:
    """Policies [..., S, A] that take these actions [..., S]."""
    return (actions[..., None] == np.arange(num_actions)).astype(float)
