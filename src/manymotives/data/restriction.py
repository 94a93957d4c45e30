"""An environment and a table of what may be done in; the same environment with other actions available out."""

from typing import Any

import numpy as np

from manymotives.data.environment import Environment
from manymotives.data.environments import Environments
from manymotives.errors import InputError, quoted


def with_available(environment: Environment, available: np.ndarray) -> Environment:
    """The same environment, or environments, in which these actions [S, A] exist and no others.

    Where an action leads is only known of those that exist already, so that actions can be taken away here and not
    added. Every state that is not terminal keeps at least one.
    """
    added = np.argwhere(available & ~environment.available & ~environment.is_terminal[:, None])
    if len(added):
        state, action = added[0]
        raise InputError(
            f"action {quoted(environment.actions[action])} does not exist in state "
            f"{quoted(environment.states[state])}, and it is not known where it would lead. Give an environment "
            "that has it, environment=…."
        )
    stuck = np.flatnonzero(~available.any(axis=1) & ~environment.is_terminal)
    if stuck.size:
        more = f" (and {stuck.size - 1} more)" if stuck.size > 1 else ""
        raise InputError(
            f"state {quoted(environment.states[stuck[0]])}{more} would be left without an action. Leave it at least "
            "one; if episodes end there, give an environment in which it is terminal, environment=…."
        )
    if not isinstance(environment, Environments):
        return _restricted(environment, available)
    members: dict[Any, Environment] = {}
    for m, (name, each) in enumerate(zip(environment.names, environment.members)):
        acts = [environment.actions.index(action) for action in each.actions]
        members[name] = _restricted(each, available[environment.member == m][:, acts])
    found = Environments(members)
    for word in ("warnings", "coordinates"):
        object.__setattr__(found, word, getattr(environment, word))
    return found


def _restricted(environment: Environment, available: np.ndarray) -> Environment:
    names = [state for state, ends in zip(environment.states, environment.is_terminal) if ends]
    found = Environment(
        environment.transitions,
        discount=environment.discount,
        states=environment.states,
        actions=environment.actions,
        available=available & environment.available,
        terminal=names,
        start=environment.start,
        reward=environment.reward,
    ).with_warnings(environment.warnings)
    if environment.coordinates is not None:
        found = found.with_coordinates(environment.coordinates)
    return found if environment.pairs is None else found.paired(environment.pairs)
