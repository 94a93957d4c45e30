"""The chain (Dearden et al. 1998): states in a row, a small reward at one end, a large one at the other."""

import numpy as np

from manymotives.data.environment import Environment
from manymotives.errors import InputError


def Chain(states: int = 5, slip: float = 0.2, discount: float = 0.95) -> Environment:
    """A chain of states with two actions.

    "forward" leads to the next state with probability 1 − slip and back to the first with probability slip; "back"
    leads to the first with probability 1 − slip and to the next with probability slip; from the last state, moving to
    the next means staying there. The reward is 0.2 in the first state, 1 in the last and 0 between. "back" is action 0,
    so that a planner that breaks all ties in favour of action 0 cannot look good by accident.

    Parameters
    ----------
    states
        The number of states.
    slip
        The probability that the other action happens.
    discount
        γ.

    Returns
    -------
    Environment
        With its own reward.
    """
    if states < 2:
        raise InputError(f"a chain must have at least 2 states; found {states}.")
    if not 0 <= slip <= 1:
        raise InputError(f"slip must be a probability; found {slip}.")
    transitions = np.zeros((states, 2, states))
    for state in range(states):
        onward = min(state + 1, states - 1)
        for action, back in enumerate((1 - slip, slip)):
            transitions[state, action, 0] += back
            transitions[state, action, onward] += 1 - back
    reward = np.zeros(states)
    reward[0], reward[-1] = 0.2, 1.0
    positions = np.column_stack([np.arange(states), np.zeros(states)])
    start = np.eye(states)[0]
    return Environment(
        transitions,
        discount=discount,
        actions=["back", "forward"],
        start=start,
        reward=reward,
    ).with_coordinates(positions)
