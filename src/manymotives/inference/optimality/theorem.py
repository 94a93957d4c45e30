"""The paper's Theorem 1: how far the value of anything, averaged over K sampled policies, is from its expectation.

For rewards in [0, 1] values lie in [0, 1 / (1 − γ)]. Hoeffding's inequality for one state, with probability δ = 2 / √K
of failing, gives the bound as printed,

    E |V(s) − V̂(s)| ≤ (2 + √(ln K) / 2) / ((1 − γ) √K).

The paper states it for the largest error over states. That needs a union over S states, δ / S each, which adds to the
root:  (2 + √(ln K + 2 ln S) / 2) / ((1 − γ) √K).
"""

import math
from typing import Any

import numpy as np

from manymotives.errors import InputError


def theorem_bound(draws: Any, discount: Any, states: Any = None) -> float:
    """The bound of Theorem 1 on the expected error of a value function that is estimated from `draws` policies.

    It holds for a finite set of rewards between 0 and 1, and does not include the error of drawing a random set.

    Parameters
    ----------
    draws
        K, the number of policies.
    discount
        γ.
    states
        If None, the bound as printed, which holds for each state. With a number, a bound on the largest error over that
        many states.

    Returns
    -------
    float
        The bound, in the unit of rewards, which lie between 0 and 1.
    """
    _check(draws, discount, states)
    spread = math.log(draws) + (0.0 if states is None else 2.0 * math.log(states))
    return (2.0 + 0.5 * math.sqrt(spread)) / ((1.0 - discount) * math.sqrt(draws))


def draws_needed(accuracy: Any, discount: Any, states: Any = None) -> int:
    """The smallest number of policies for which `theorem_bound` is at most `accuracy`.

    Parameters
    ----------
    accuracy
        The desired bound.
    discount
        γ.
    states
        As for `theorem_bound`.

    Returns
    -------
    int
        K.
    """
    if not isinstance(accuracy, int | float | np.floating) or not 1e-100 < accuracy < math.inf:
        raise InputError(f"accuracy must be a positive number; found {accuracy!r}.")
    _check(1, discount, states)
    low, high = 0, 1
    while theorem_bound(high, discount, states) > accuracy:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if theorem_bound(middle, discount, states) > accuracy:
            low = middle
        else:
            high = middle
    return high


def _check(draws: Any, discount: Any, states: Any) -> None:
    for word, value in (("draws", draws), ("states", 1 if states is None else states)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            raise InputError(f"{word} must be a whole number of at least 1; found {value!r}.")
    if not isinstance(discount, int | float | np.floating) or not 0 <= discount < 1:
        raise InputError(f"discount must be in [0, 1); found {discount!r}.")
