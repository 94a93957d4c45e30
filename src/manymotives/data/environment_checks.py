"""What an environment is made with, checked: discount, start, its own reward, coordinates; in this order."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from manymotives.data.alignment import aligned_numbers, is_labelled, labelled
from manymotives.data.labels import Label, index_of
from manymotives.data.transitions import ROW_SUM_TOLERANCE, read_only
from manymotives.errors import InputError, quoted


def checked_discount(discount: float) -> float:
    if not (isinstance(discount, (int, float, np.number)) and 0 <= discount < 1):
        raise InputError(
            f"discount must be at least 0 and below 1; found {quoted(discount)}. For agents who look far "
            "ahead, use 0.99."
        )
    return float(discount)


def checked_start(start: Any, is_terminal: np.ndarray, states: tuple[Label, ...]) -> np.ndarray:
    if start is None:
        if is_terminal.all():
            raise InputError(
                "every state is terminal, so nothing can ever be chosen. Leave at least one state that is not."
            )
        return read_only(~is_terminal / (~is_terminal).sum())
    if isinstance(start, Mapping):
        probabilities = np.zeros(len(states))
        for name, probability in start.items():
            probabilities[index_of(name, states, "state")] = probability
    else:
        probabilities = aligned_numbers(start, "start", state=states)
    if probabilities.shape != (len(states),):
        raise InputError(
            f"start must have one probability for each of the {len(states)} states; found the shape "
            f"{list(probabilities.shape)}."
        )
    if not (np.isfinite(probabilities).all() and (probabilities >= 0).all()):
        raise InputError("start contains a probability that is negative or not finite.")
    if abs(probabilities.sum() - 1) > ROW_SUM_TOLERANCE:
        raise InputError(f"start sums to {probabilities.sum():.10g}, not 1.")
    return read_only(probabilities / probabilities.sum())


def checked_own_reward(reward: Any, states: tuple[Label, ...], actions: tuple[Label, ...]) -> np.ndarray | None:
    if reward is None:
        return None
    on_pairs = len(labelled(reward).labels) == 2 if is_labelled(reward) else np.ndim(reward) == 2
    axes = {"state": states} | ({"action": actions} if on_pairs else {})
    values = aligned_numbers(reward, "reward", **axes)
    num_states, num_actions = len(states), len(actions)
    if values.shape not in ((num_states,), (num_states, num_actions)):
        raise InputError(
            f"reward must have the shape [{num_states}] (states) or [{num_states}, {num_actions}] (states, "
            f"actions); found {list(values.shape)}."
        )
    if not np.isfinite(values).all():
        raise InputError("reward contains a value that is not finite.")
    return read_only(values)


def checked_coordinates(coordinates: Any, states: tuple[Label, ...]) -> np.ndarray:
    positions = aligned_numbers(coordinates, "coordinates", state=states, axis=("x", "y"))
    num_states = len(states)
    if positions.shape != (num_states, 2) or not np.isfinite(positions).all():
        raise InputError(
            f"coordinates must be finite numbers of shape [{num_states}, 2]; found {list(positions.shape)}."
        )
    return read_only(positions)
