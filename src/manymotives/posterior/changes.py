"""What a counterfactual question changes in; the environment afterwards, and what is added to rewards there, out.

Names are those of the environment after the change. A state's amount is received in that state whatever is done there;
a pair's amount only for that action; a feature's amount is added to everybody's weight of it.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from manymotives.data.alignment import aligned, aligned_numbers
from manymotives.data.environment import Environment
from manymotives.data.environments import environment_of
from manymotives.data.labels import Label, unknown_names
from manymotives.data.restriction import with_available
from manymotives.errors import InputError, quoted
from manymotives.posterior.by_name import own_names
from manymotives.posterior.transfer import checked_place, features_in_place, positions


class Change(NamedTuple):
    """A counterfactual question, checked."""

    place: Environment  # after the change, with the discount after it
    is_elsewhere: bool  # rewards are carried over to other states, or made of other features
    features: Any  # of the place, where they were given
    on_states: np.ndarray | None  # [S] added to the rewards of states, or …
    on_pairs: np.ndarray | None  # … [S, A] of pairs
    function: Callable[[Any], Any] | None  # instead: rewards before in, rewards after out
    sets_discount: bool  # everybody has the place's discount, also where discounts were inferred
    words: tuple[str, ...]  # what changes, as clauses of a sentence

    @property
    def changes_rewards(self) -> bool:
        return self.on_states is not None or self.on_pairs is not None or self.function is not None


def change_of(posterior: Any, environment: Any, rewards: Any, available: Any, discount: Any, features: Any) -> Change:
    """The question behind the arguments of `counterfactual`."""
    if all(each is None for each in (environment, rewards, available, discount, features)):
        raise InputError(
            "nothing is changed. Give at least one of environment=, rewards=, available=, discount= and features=."
        )
    words = []
    fitted = posterior.environment
    if environment is None:
        place = fitted
        if features is not None:
            words.append("features have other values")
    else:
        place = _place(posterior, environment, discount)
        words.append("the environment is replaced")
    if features is not None and not posterior.has_features:
        raise InputError("the rewards of this model are not made of features. Leave out features=.")
    if available is not None:
        allowed = _available(place, available)
        words.append(_removed(place, allowed))
        place = with_available(place, allowed)
    if discount is not None:
        words.append(f"everybody's discount is {discount:g}" if _is_number(discount) else "")
        place = place.with_discount(discount)
    on_states = on_pairs = function = None
    if callable(rewards):
        function = rewards
        words.append("rewards are changed by a function")
    elif rewards is not None:
        on_states, on_pairs, said = _amounts(posterior, place, rewards, features)
        words.append(said)
    is_elsewhere = environment is not None or features is not None
    return Change(place, is_elsewhere, features, on_states, on_pairs, function, discount is not None, tuple(words))


def _place(posterior: Any, environment: Any, discount: Any) -> Environment:
    """Another environment with the discount of the fit, whatever it becomes later."""
    place = environment_of(environment)
    if not isinstance(place, Environment):
        return checked_place(posterior, place)  # says what it should be
    known = posterior.environment.discount
    infers = bool(getattr(posterior.model, "infers_discount", False))
    if discount is None and not infers and place.discount != known:
        raise InputError(
            f"the fit has the discount {known:g} and this environment has {place.discount:g}. Give it the discount "
            f"of the fit, environment.with_discount({known:g}), or say that it changes as well: "
            f"discount={place.discount:g}."
        )
    return checked_place(posterior, place.with_discount(known))


# ---- which actions exist -----------------------------------------------------------------------------------------


def _available(place: Environment, given: Any) -> np.ndarray:
    """[S, A] which actions exist: from {state: actions}, {(state, action): whether it exists}, or a table."""
    if not isinstance(given, Mapping):
        table = np.asarray(aligned(given, "available", state=place.states, action=place.actions))
        if table.shape != place.available.shape or table.dtype != bool:
            raise InputError(
                f"available must be a mapping from states to the actions that are left, such as {{'junction': "
                f"['left']}}, or a boolean array of shape {list(place.available.shape)} (states, actions); found "
                f"{table.dtype} of shape {list(table.shape)}."
            )
        return table & ~place.is_terminal[:, None]
    found = place.available.copy()
    for key, value in given.items():
        pair = _pair(place, key, "available")
        if pair is not None:
            if not isinstance(value, bool | np.bool_):
                raise InputError(
                    f"available: the pair {quoted(key)} is available or not, True or False; found {quoted(value)}."
                )
            found[pair] = value
            continue
        rows = _states(place, key, "available")
        names = [value] if isinstance(value, str) or not hasattr(value, "__iter__") else list(value)
        found[rows] = False
        for name in names:
            found[rows, _action(place, name, "available")] = True
    return found


def _removed(place: Environment, allowed: np.ndarray) -> str:
    """The clause that says which actions are gone."""
    gone = np.argwhere(place.available & ~allowed)
    if not len(gone):
        return "the same actions exist as before"
    named = [f"{place.actions[a]} in {place.states[s]}" for s, a in gone]
    more = f" and {len(gone) - 5} more" if len(gone) > 5 else ""
    return f"{'this action is' if len(gone) == 1 else 'these actions are'} removed: {', '.join(named[:5])}{more}"


# ---- what is added to rewards ------------------------------------------------------------------------------------


def _amounts(
    posterior: Any, place: Environment, given: Any, features: Any
) -> tuple[np.ndarray | None, np.ndarray | None, str]:
    """Amounts on states [S], amounts on pairs [S, A], and the clause that says so."""
    on = posterior.model.reward.on
    size = place.available.shape
    if not isinstance(given, Mapping):
        states, pairs = _from_array(place, given)
        said = "these amounts are added to rewards"
    else:
        states, pairs, parts = np.zeros(size[0]), np.zeros(size), []
        for key, amount in given.items():
            if not _is_number(amount) or not np.isfinite(amount):
                raise InputError(
                    f"rewards: the amount added to {quoted(key)} must be a number; found {quoted(amount)}."
                )
            parts.append(f"{amount:+g} for {_where(key)}")
            pair = _pair(place, key, "rewards")
            if pair is not None:
                if not place.available[pair].all():
                    raise InputError(
                        f"rewards: an amount is added to {quoted(key)}, but that action is not available there."
                    )
                pairs[pair] += amount
            elif (column := _feature(posterior, place, key)) is not None:
                parts[-1] = f"{amount:+g} to the weight of {quoted(key)}"
                made_of = features_in_place(posterior, place, features)[:, column]
                if on == "state":
                    states += amount * made_of
                else:
                    pairs += amount * made_of.reshape(size)
            else:
                states[_states(place, key, "rewards")] += amount
        said = f"the following is added to rewards: {', '.join(parts[:6])}" + (
            f" and {len(parts) - 6} more" if len(parts) > 6 else ""
        )
    if on == "state_action":
        ends = np.flatnonzero((states != 0) & place.is_terminal)
        if ends.size:
            raise InputError(
                f"state {quoted(place.states[ends[0]])} is terminal, so no action is taken there, and the rewards "
                "of this model are received for actions. Add the amount to the actions that lead there."
            )
        return None, np.where(place.available, pairs + states[:, None], 0.0), said
    if not pairs.any():
        return states, None, said
    if place.is_terminal.any() and posterior.model.depth is not None:
        raise InputError(
            "amounts for actions cannot be added to rewards on states if episodes end and subjects plan a given "
            "number of steps ahead. Add them to states instead."
        )
    return states, np.where(place.available, pairs, 0.0), said


def _from_array(place: Environment, given: Any) -> tuple[np.ndarray, np.ndarray]:
    size = place.available.shape
    axes = {"state": place.states} | ({"action": place.actions} if np.ndim(given) == 2 else {})
    values = aligned_numbers(given, "rewards", **axes)
    if values.shape not in ((size[0],), size) or not np.isfinite(values).all():
        raise InputError(
            "rewards must be the amounts to add: a mapping such as {'water': 1.0}, finite numbers of shape "
            f"[{size[0]}] (states) or {list(size)} (states, actions), or a function of rewards; found the shape "
            f"{list(values.shape)}."
        )
    if values.ndim == 1:
        return values, np.zeros(size)
    return np.zeros(size[0]), np.where(place.available, values, 0.0)


# ---- names -------------------------------------------------------------------------------------------------------


def _states(place: Environment, name: Label, what: str) -> np.ndarray:
    """States of this name: in several environments "maze A: s1", or "s1" for all that are called so."""
    found = positions([name], place.states)[0]
    if found >= 0:
        return np.array([found])
    here = [s for s, own in enumerate(own_names(place)) if own == name or str(own) == str(name)]
    if not here:
        raise InputError(f"{what}: {unknown_names([name], place.states, 'state')} Use one of these.")
    return np.array(here)


def _pair(place: Environment, key: Any, what: str) -> Any:
    """An index of a pair (state, action); None where the key is something else."""
    if not isinstance(key, tuple) or len(key) != 2 or key in place.states:
        return None
    return _states(place, key[0], what), _action(place, key[1], what)


def _action(place: Environment, name: Label, what: str) -> int:
    found = positions([name], place.actions)[0]
    if found < 0:
        raise InputError(f"{what}: {unknown_names([name], place.actions, 'action')} Use one of these.")
    return found


def _feature(posterior: Any, place: Environment, name: Label) -> int | None:
    """The number of a feature; None where the name is a state's."""
    if not posterior.has_features:
        return None
    found = positions([name], posterior.data["posterior"].dataset["feature"].values.tolist())[0]
    if found < 0:
        return None
    if positions([name], [*place.states, *own_names(place)])[0] >= 0:
        raise InputError(
            f"rewards: {quoted(name)} is the name of a state and of a feature. Give an array of amounts instead."
        )
    return found


def _where(key: Any) -> str:
    return f"{key[1]} in {key[0]}" if isinstance(key, tuple) and len(key) == 2 else str(key)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
