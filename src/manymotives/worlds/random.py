"""Random environments: nothing but states, actions and chance."""

import numpy as np

from manymotives.data.environment import Environment
from manymotives.errors import InputError


def RandomMDP(
    states: int = 8, actions: int = 4, spread: float = 0.01, seed: int = 0, discount: float = 0.95
) -> Environment:
    """Every action mostly leads to one random state, of weight 1; `spread` is the weight added to every state.

    0.01, the default, is nearly deterministic; `DirichletMDP` is dense.

    Parameters
    ----------
    states, actions
        How many.
    spread
        The weight added to every next state.
    seed
        Another number, another environment.
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
    """Next-state probabilities drawn from a symmetric Dirichlet distribution with this parameter.

    Parameters
    ----------
    states, actions
        How many.
    concentration
        Of the Dirichlet distribution: small ones make few next states probable.
    seed
        Another number, another environment.
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
