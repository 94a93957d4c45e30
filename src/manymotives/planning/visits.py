"""Policies in, discounted visits out: how often each state is visited, soon counting more than late."""

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl

from manymotives.data.environment import Environment
from manymotives.planning.compiled import suits


def discounted_visits(
    environment: Environment, policies: np.ndarray, starts: np.ndarray, discounts: np.ndarray | None = None
) -> np.ndarray:
    """d [M, S] of policies [M, S, A] from start weights [M, S]: d = start + γ P_πᵀ d.

    A terminal state is visited once, and what follows does not count. `discounts` [M]: one for each policy; None: the
    environment's.
    """
    each = np.full(len(policies), environment.discount) if discounts is None else discounts
    if suits(environment):
        chains = (policies[:, :, None, :] @ environment.tensor)[:, :, 0].swapaxes(1, 2)  # P_πᵀ
        system = np.eye(environment.num_states) - each[:, None, None] * chains
        return np.linalg.solve(system, starts[..., None])[..., 0]
    return np.stack(
        [
            spl.spsolve(chain_system(environment, policy, discount).T.tocsc(), start)
            for policy, start, discount in zip(policies, starts, each, strict=True)
        ]
    )


def chain_system(environment: Environment, policy: np.ndarray, discount: float | None = None) -> sp.csr_array:
    """I − γ P_π, sparse."""
    num_states, num_actions = environment.num_states, environment.num_actions
    pairs = np.arange(num_states * num_actions)
    chosen = sp.csr_array((policy.ravel(), (pairs // num_actions, pairs)), shape=(num_states, pairs.size))
    factor = environment.discount if discount is None else discount
    return sp.eye_array(num_states, format="csr") - factor * (chosen @ environment.matrix)
