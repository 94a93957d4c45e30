"""A demonstrator that acts on one of several motives at a time, and switches between them as a Markov chain does."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from manymotives.errors import InputError
from manymotives.models.choice import ChoiceRule

AXES = {"transitions": ("state", "motive", "next motive"), "start": ("state", "motive")}


@dataclass(frozen=True, eq=False)
class SwitchingAgent:
    """An agent with several motives, each with a reward; it follows one motive at each step, and the motives form a
    Markov chain.

    Parameters
    ----------
    rule
        How it chooses, given its motive: `Softmax(...)` or `SoftOptimal(...)`, with one inverse temperature for all
        motives or one for each.
    transitions
        The probability of each next motive: [motive, next motive]; or [state, motive, next motive] if it depends on the
        state that the agent leaves; or [task, state, motive, next motive] if it differs between tasks, with a state
        axis of length 1 if it does not depend on the state.
    start
        The probability of each motive at the beginning of an episode: [motive], [state, motive] or [task, state,
        motive]. By default, all motives are equally likely.
    """

    rule: ChoiceRule
    transitions: Any
    start: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.rule, type) or not isinstance(self.rule, ChoiceRule):
            raise InputError(f"SwitchingAgent: rule must be Softmax(...) or SoftOptimal(...); found {self.rule!r}.")
        transitions = _checked("transitions", self.transitions)
        if transitions.shape[-2] != transitions.shape[-1]:
            raise InputError(
                "SwitchingAgent: transitions must have as many rows as columns, one for each motive; found "
                f"{list(transitions.shape)}."
            )
        if self.start is not None and _checked("start", self.start).shape[-1] != self.num_motives:
            raise InputError(
                f"SwitchingAgent: start must have a probability for each of {self.num_motives} motives; found "
                f"{list(np.shape(self.start))}."
            )

    @property
    def num_motives(self) -> int:
        return int(np.shape(self.transitions)[-1])

    def rows(self, num_tasks: int, num_states: int) -> np.ndarray:
        """Probabilities [task, state, K + 1, K] of motives: after each motive, and last when an episode begins."""
        count = self.num_motives
        start = np.full(count, 1.0 / count) if self.start is None else self.start
        found = np.empty((num_tasks, num_states, count + 1, count))
        found[:, :, :-1] = _for_all("transitions", self.transitions, found[:, :, :-1].shape)
        found[:, :, -1] = _for_all("start", start, found[:, :, -1].shape)
        return found


def _checked(word: str, values: Any) -> np.ndarray:
    """Rows of probabilities, with the axes that they may have."""
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"SwitchingAgent: {word} must be numbers, in an array or in lists of equal lengths.") from None
    axes = AXES[word]
    if not len(axes) - 1 <= numbers.ndim <= len(axes) + 1 or numbers.size == 0:
        raise InputError(
            f"SwitchingAgent: {word} must be [{', '.join(axes[1:])}], [{', '.join(axes)}] or [task, "
            f"{', '.join(axes)}]; found an array of shape {list(numbers.shape)}."
        )
    total = numbers.sum(axis=-1)
    wrong = np.argwhere(~((numbers >= 0).all(axis=-1) & (np.abs(total - 1) <= 1e-6)))
    if len(wrong):
        row = numbers[tuple(wrong[0])].tolist()
        raise InputError(f"SwitchingAgent: each row of {word} must be probabilities that sum to 1; found {row}.")
    return numbers


def _for_all(word: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The same for each task and state."""
    numbers = np.asarray(values, dtype=float)
    try:
        return np.broadcast_to(numbers / numbers.sum(axis=-1, keepdims=True), shape)
    except ValueError:
        raise InputError(
            f"SwitchingAgent: {word} of shape {list(numbers.shape)} do not fit {shape[0]} tasks and {shape[1]} states."
        ) from None
