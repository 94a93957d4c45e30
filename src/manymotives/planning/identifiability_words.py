"""What no choice can show, in sentences: of an environment by itself, and of the rewards of a posterior."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from manymotives.data.labels import Label

DIRECTIONS, GROUPS = 3, 6  # at most so many are spelt out
NEGLIGIBLE = 1e-7  # of an amount: rounding


class Shown(NamedTuple):
    """Of `Identifiability`, the part about states that sentences name: one of each name."""

    groups: np.ndarray  # [n]
    directions: np.ndarray  # [n, directions]


class Sentences(list[str]):
    """Sentences; shown one on each line and, where there are none, with what that means."""

    def __init__(self, said: Iterable[str], if_none: str) -> None:
        super().__init__(said)
        self.if_none = if_none

    def __repr__(self) -> str:
        return "\n".join(self) or self.if_none


def described(known: Any) -> str:
    """An `Identifiability` as text: what it is of, and what choices cannot show."""
    cells = f"{known.environment.num_states:,} states" if known.on == "state" else "state–action pairs"
    what = f"rewards on {cells}"
    numbers = None
    if known.features is not None:
        numbers = tuple(f"feature {number}" for number in range(known.features.shape[1]))
        what += f", made of {len(numbers)} feature{'s' if len(numbers) > 1 else ''}"
    said = sentences(known, numbers, Shown(known.groups, known.directions) if known.on == "state" else None)
    return "\n".join([f"What choices can identify of {what}:", *(f"  {each}" for each in said or [said.if_none])])


def sentences(
    known: Any,
    features: Sequence[Label] | None,
    shown: Shown | None,
    names: Sequence[Label] | None = None,
    *,
    are_by_name: bool = False,
) -> Sentences:
    """What choices cannot show beyond a constant; `features`: names of weights; `shown`: of states, by these names."""
    environment, on_states = known.environment, known.on == "state"
    states = list(environment.states)
    said: list[str] = []
    if features is not None and known.features is not None and (on_states or known.left_out is None):
        said += weights_said(known, features)
    if shown is not None and not known.is_plain:
        is_constant_within = known.directions.shape[1] == len(np.unique(known.groups[known.groups >= 0]))
        labels = states if names is None else list(names)
        if (known.features is None or are_by_name) and not is_constant_within:
            said += directions_said(shown, labels)
        said += groups_said(shown, labels, is_constant_within)
    if known.left_out is not None and (on_states or known.features is not None):
        said.append(
            f"Which differences choices can identify was not computed in full, because {known.left_out}: some may "
            "rest on the prior alone without being marked."
        )
    lost = np.flatnonzero(~known.reachable)
    if lost.size:
        said.append(
            f"No sequence of actions leads to {named([states[s] for s in lost])} from where episodes begin or "
            "choices were observed, so no choice depends on the rewards there."
        )
    forced = np.flatnonzero(known.forced)
    if forced.size:
        reason = "there is only one action"
        if (environment.available.sum(axis=1)[forced] > 1).any():
            reason += ", or all actions lead to the same next states"
        said.append(
            f"In {named([states[s] for s in forced])} {reason}, so choices there carry no information by themselves."
        )
    return Sentences(said, _nothing_more(known, features))


def _nothing_more(known: Any, features: Sequence[Label] | None) -> str:
    """What it means that there is no sentence."""
    if features is not None and known.features is not None:
        return "Choices in this environment can identify the weights of all features."
    if known.on == "state":
        return "Choices in this environment can identify every difference between the rewards of two states" + (
            "; what they cannot identify is a constant added to all of them." if known.directions.shape[1] else "."
        )
    return (
        "Choices in this environment can identify rewards on state–action pairs up to potential shaping: one "
        "direction for each state that is not terminal."
    )


def named(labels: Sequence[Label], most: int = 6) -> str:
    """Names in a sentence, in quotes."""
    shown = [f"“{text if len(text) <= 40 else text[:39] + '…'}”" for text in map(str, labels[:most])]
    if len(labels) > most:
        return ", ".join(shown) + f" and {len(labels) - most:,} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def directions_said(known: Shown, states: list[Label]) -> list[str]:
    """Ways of changing rewards that change no choice."""
    numbers = np.unique(known.groups[known.groups >= 0])
    members = [np.flatnonzero(known.groups == number) for number in numbers]
    count = known.directions.shape[1]
    if count > DIRECTIONS or len(members) > GROUPS:
        involved = int((np.abs(known.directions) > NEGLIGIBLE).any(axis=1).sum())
        return [
            f"There are {count:,} independent ways of changing the rewards of {involved:,} states that change no "
            "choice in this environment."
        ]
    amounts = np.array([known.directions[some[0]] for some in members]).T
    ways = []
    for row in echelon(amounts, np.argsort([-len(some) for some in members], kind="stable")):
        moved = [(value, [states[s] for s in some]) for value, some in zip(row, members) if value != 0]
        if len(moved) == 1:
            ways.append(f"Adding the same amount to {_rewards_of(moved[0][1])}")
        else:
            ways.append(
                "Adding " + " together with ".join(f"{value:.4g} to {_rewards_of(some)}" for value, some in moved)
            )
    return [f"{way} changes no choice in this environment." for way in ways]


def _rewards_of(states: list[Label]) -> str:
    return f"the reward{'s' if len(states) > 1 else ''} of {named(states)}"


def groups_said(known: Shown, states: list[Label], is_constant_within: bool) -> list[str]:
    """Which rewards choices can compare."""
    numbers, sizes = np.unique(known.groups[known.groups >= 0], return_counts=True)
    several = numbers[sizes > 1]
    alone = np.flatnonzero(np.isin(known.groups, numbers[sizes == 1]))
    if len(several) == 0 and is_constant_within:
        return ["Choices in this environment carry no information about rewards on states: the posterior is the prior."]
    if len(several) == 0:
        return [
            "Choices cannot identify the difference between the rewards of any two states: each depends on the "
            "prior too."
        ]
    listed = [named([states[s] for s in np.flatnonzero(known.groups == number)]) for number in several[:GROUPS]]
    more = f"; and {len(several) - GROUPS:,} more groups" if len(several) > GROUPS else ""
    among = f"among {listed[0]}" if len(several) == 1 else "within each of these groups: " + "; ".join(listed) + more
    rest = f" They cannot compare {_rewards_of([states[s] for s in alone])} with any other." if alone.size else ""
    why = (
        " Adding the same amount to every reward of one of them changes no choice in this environment."
        if is_constant_within and len(several) > 1
        else ""
    )
    return [
        f"Choices can identify differences between rewards {among}.{why}{rest} Every other difference between two "
        "states rests on the prior alone."
    ]


def weights_said(known: Any, names: Sequence[Label]) -> list[str]:
    """Ways of changing weights of features that change no choice."""
    count, size = known.weights.shape[1], len(known.weights)
    if count == 0:
        return []
    if count > DIRECTIONS or size > GROUPS:
        return [
            f"There are {count:,} independent ways of changing the {size:,} weights of features that change no "
            "choice in this environment: in these directions, weights rest on the prior alone."
        ]
    said = []
    for row in echelon(known.weights.T, np.arange(size)):
        moved = [f"{value:.4g} to that of {named([name])}" for value, name in zip(row, names) if value != 0]
        moved[0] = moved[0].replace("that of", "the weight of")
        said.append(
            f"Adding {' together with '.join(moved)} changes no choice: in this direction weights rest on the prior "
            "alone."
        )
    return said


def echelon(rows: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The same span, each row with a 1 where the others have 0: Gauss and Jordan, columns tried in this order."""
    left = rows / np.abs(rows).max()
    done = 0
    for column in order:
        if done == len(left):
            break
        pivot = done + int(np.abs(left[done:, column]).argmax())
        if abs(left[pivot, column]) <= NEGLIGIBLE:
            continue
        left[[done, pivot]] = left[[pivot, done]]
        left[done] /= left[done, column]
        others = np.arange(len(left)) != done
        left[others] -= np.outer(left[others, column], left[done])
        done += 1
    left = left[:done]
    return np.where(np.abs(left) <= NEGLIGIBLE * np.abs(left).max(axis=1, keepdims=True), 0.0, left)
