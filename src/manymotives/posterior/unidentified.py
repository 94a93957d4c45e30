"""What no choice can show of a posterior's rewards: which differences these are, and what they are in words."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from manymotives.data.labels import Label
from manymotives.errors import InputError
from manymotives.models.rewards import RewardSet
from manymotives.models.shared_rewards import reward_names
from manymotives.planning import Identifiability, identifiability
from manymotives.posterior.by_name import are_by_name, own_names

DIRECTIONS, GROUPS = 3, 6  # at most so many are spelt out
NEGLIGIBLE = 1e-7  # of an amount: rounding


class Shown(NamedTuple):
    """Of `Identifiability`, the part about states that sentences name: one of each name."""

    groups: np.ndarray  # [n]
    directions: np.ndarray  # [n, directions]


def identifiability_of(posterior: Any) -> Identifiability:
    """For the rewards that its model can make, in states that can be reached from the start or from those observed."""
    reward, environment = posterior.model.reward, posterior.environment
    if isinstance(reward, RewardSet):  # what one of them has more than another
        some = reward.for_environment(environment).reshape(len(reward.rewards), -1)
        features = (some[1:] - some[0]).T if 1 < len(some) <= some.shape[1] else None
    elif getattr(reward, "residual_scale", None) is not None:
        own = reward_names(environment, reward.on)
        features = own.matrix.toarray() if own.are_shared else None  # every reward is free
    else:
        made_of, own = reward.features_for(environment), reward_names(environment, reward.on)
        if made_of is None and own.are_shared:  # one reward for states of one name
            made_of = own.matrix
        features = None if made_of is None else made_of.toarray()
    if features is not None and reward.on == "state_action":
        features = features.reshape(environment.num_states, environment.num_actions, -1)
    visited = posterior.data["observed_data"].dataset["counts"].values.sum(axis=(0, 2))
    known = posterior.belief is None
    how: Any = {"visited": visited, "known": known, "depth": posterior.model.depth}
    return identifiability(environment, on=reward.on, features=features, **how)


def comparable(posterior: Any, *, canonical: bool) -> np.ndarray:
    """[S] or [S·A] numbers that are equal where choices can show a difference, negative where they can show none."""
    known = posterior.identifiability
    if canonical and known.on == "state_action":  # what an action costs against the best, wherever one acts
        return np.where(known.exists, 0, -1)
    return known.groups


def marked(table: pd.DataFrame, posterior: Any, canonical: bool) -> pd.DataFrame:
    """Contrasts between states, and whether choices can show them; without that where it cannot be computed."""
    try:
        groups = comparable(posterior, canonical=canonical)
    except InputError:  # rewards on very many pairs
        return table
    counts = posterior.data["observed_data"].dataset["counts"].sum("task")
    cells = counts if posterior.model.reward.on == "state_action" else counts.isel(action=0, drop=True)
    shown = posterior.by_state_name(cells.copy(data=groups.astype(float).reshape(cells.shape)), canonical)
    names = shown["state"].values.tolist()
    if "action" in shown.dims:
        names = [f"{state}–{action}" for state in names for action in shown["action"].values.tolist()]
    group = dict(zip(names, shown.values.ravel().tolist()))
    first, second = (np.array([group[name] for name in table[column]]) for column in table.columns[:2])
    return table.assign(identified=(first == second) & (first >= 0))


def unidentified(posterior: Any) -> list[str]:
    """Sentences about what choices cannot show beyond a constant; none where they can show everything else."""
    known, reward = posterior.identifiability, posterior.model.reward
    environment, on_states = known.environment, known.on == "state"
    states = list(environment.states)
    said = []
    has_weights = getattr(reward, "features", None) is not None and getattr(reward, "residual_scale", None) is None
    if has_weights and known.features is not None and (on_states or known.left_out is None):
        said += _weights(known, reward.feature_names(known.features.shape[1]))
    if on_states and not known.is_plain:
        is_constant_within = known.directions.shape[1] == len(np.unique(known.groups[known.groups >= 0]))
        shared = are_by_name(reward, environment)
        cells = reward_names(environment, "state").first if shared else np.arange(len(states))
        shown = Shown(known.groups[cells], known.directions[cells])
        names = [own_names(environment)[s] for s in cells] if shared else states
        if (known.features is None or shared) and not is_constant_within:
            said += _directions(shown, names)
        said += _groups(shown, names, is_constant_within)
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
    return said


def named(labels: Sequence[Label], most: int = 6) -> str:
    """Names in a sentence, in quotes."""
    shown = [f"“{text if len(text) <= 40 else text[:39] + '…'}”" for text in map(str, labels[:most])]
    if len(labels) > most:
        return ", ".join(shown) + f" and {len(labels) - most:,} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _directions(known: Shown, states: list[Label]) -> list[str]:
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


def _groups(known: Shown, states: list[Label], is_constant_within: bool) -> list[str]:
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


def _weights(known: Identifiability, names: Sequence[Label]) -> list[str]:
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
