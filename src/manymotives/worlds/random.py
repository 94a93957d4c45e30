"""Random environments: nothing but states, actions and chance."""

import numpy as np

from manymotives.data.environment import Environment
from manymotives.errors import InputError


def RandomMDP(
    states: int = 8, actions: int = 4, spread: float = 0.01, seed: int = 0, discount: float = 0.95
) -> Environment:
    """A random environment in which every action mostly leads to one state, of weight 1; `spread` is added to the
    weight of every state.

    With the default, 0.01, it is nearly deterministic; `DirichletMDP` is dense.

    Parameters
    ----------
    states, actions
        The number of states and of actions.
    spread
        The weight added to every next state.
    seed
        Seed of the random numbers.
    discount
        γ.

    Returns
    -------
    Environment
        With names for states and actions.
    """
    _check_size(states, actions)
    if not (np.isfinite(spread) and spread >= 0):
        raise InputError(f"spread must be finite and not negative; found {spread}.")
    favourite = np.random.default_rng(seed).integers(states, size=(states, actions))
    weights = spread + np.eye(states)[favourite]
    return Environment(weights / weights.sum(axis=-1, keepdims=True), discount=discount)


def DirichletMDP(
    states: int = 8, actions: int = 4, concentration: float = 1.0, seed: int = 0, discount: float = 0.95
) -> Environment:
    """A random environment whose next-state probabilities are drawn from a symmetric Dirichlet distribution.

    Parameters
    ----------
    states, actions
        The number of states and of actions.
    concentration
        The parameter of the Dirichlet distribution; if it is small, few next states are probable.
    seed
        Seed of the random numbers.
    discount
        γ.

    Returns
    -------
    Environment
        With names for states and actions.
    """
    _check_size(states, actions)
    if not (np.isfinite(concentration) and concentration > 0):
        raise InputError(f"concentration must be finite and positive; found {concentration}.")
    draws = np.random.default_rng(seed).dirichlet(np.full(states, concentration), size=(states, actions))
    return Environment(draws, discount=discount)


def _check_size(states: int, actions: int) -> None:
    if states < 1 or actions < 1:
        raise InputError(f"an environment needs at least one state and one action; found {states} and {actions}.")
