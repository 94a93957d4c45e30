"""Features given for several environments in, by environment or by name of a state; rows in their union's order out."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
import xarray as xr

from manymotives.data.alignment import aligned, is_labelled, labelled
from manymotives.data.environment import Environment
from manymotives.data.environments import Environments
from manymotives.data.labels import Label
from manymotives.errors import InputError, listed, quoted

WHAT = "GaussianReward: features"


def features_in(features: Any, environment: Environment, on: str, names: Any) -> Any:
    """Features as an environment needs them: of several, {name: [S, K]} is stacked, and names of states are looked up.

    Whatever is neither stays as it is: it has a row for each state of the union.
    """
    if not isinstance(environment, Environments):
        if isinstance(features, Mapping):
            raise InputError(f"{WHAT} are given for {listed(features)}, but there is only one environment.")
        return features
    if isinstance(features, Mapping):
        return _stacked(features, environment, on, names)
    if not is_labelled(features) or sp.issparse(features):
        return features
    values, _, labels = labelled(features, "state", *(["action"] if on == "state_action" else []), "feature")
    own = labels[0] if labels else None
    if own is None or set(map(str, own)) == set(map(str, environment.states)):
        return features
    wanted: list[Label] = [environment.state_names[name] for name in environment.state_name]
    pairs: list[Label] = [(environment.names[m], name) for m, name in zip(environment.member, wanted)]
    wanted = pairs if set(pairs) <= set(own) else wanted  # rows may be (environment, state)
    place = {str(label): position for position, label in enumerate(own)}
    missing = [label for label in wanted if str(label) not in place]
    if missing:
        raise InputError(f"{WHAT}: state {quoted(missing[0])} has none. Give every state of every environment a row.")
    rows = np.take(values, [place[str(label)] for label in wanted], axis=0)
    dims = ("state", "action", "feature") if on == "state_action" else ("state", "feature")
    if rows.ndim != len(dims):
        return rows
    coordinates = {dim: _objects(label) for dim, label in zip(dims[1:], labels[1:]) if label is not None}
    return xr.DataArray(rows, dims=dims, coords=coordinates)


def own_names(features: Any) -> list[Label] | None:
    """The names that features have themselves, along their last axis."""
    given = next(iter(features.values()), None) if isinstance(features, Mapping) else features
    return labelled(given).labels[-1] if is_labelled(given) else None


def _stacked(features: Mapping[Any, Any], environments: Environments, on: str, names: Any) -> Any:
    """One array, or one sparse array, from those of each environment."""
    unknown = [name for name in features if name not in environments.names]
    missing = [name for name in environments.names if name not in features]
    if unknown or missing:
        which = f"there is no environment {quoted(unknown[0])}" if unknown else f"{quoted(missing[0])} has none"
        raise InputError(f"{WHAT}: {which}. Give them for each of {listed(environments.names)}.")
    names = own_names(features) if names is None else names
    parts = []
    for name, each in _members(environments):
        table = _table(features[name], each, on, names, name)
        if on == "state_action":  # the union has more actions
            wide = np.zeros((each.num_states, environments.num_actions, table.shape[-1]))
            wide[:, [environments.actions.index(action) for action in each.actions]] = table
            table = wide
        parts.append(table)
    if len({table.shape[-1] for table in parts}) > 1:
        counts = ", ".join(f"{table.shape[-1]} for {quoted(n)}" for n, table in zip(environments.names, parts))
        raise InputError(f"{WHAT}: every environment needs the same number of them; found {counts}.")
    return np.concatenate(parts)


def _table(given: Any, environment: Environment, on: str, names: Any, name: Label) -> np.ndarray:
    axes: dict[str, Any] = {"state": environment.states}
    axes |= {"action": environment.actions} if on == "state_action" else {}
    size = tuple(len(labels) for labels in axes.values())
    if sp.issparse(given):
        given = given.toarray().reshape(*size, -1) if given.shape[0] == np.prod(size) else given.toarray()
    try:
        table = np.asarray(aligned(given, WHAT, **axes, feature=names), dtype=float)
    except InputError:
        raise
    except (TypeError, ValueError):
        raise InputError(f"{WHAT} must be numbers.") from None
    if table.ndim != len(size) + 1 or table.shape[:-1] != size:
        described = ", ".join(map(str, size))
        raise InputError(
            f"{WHAT} of {quoted(name)} must have the shape [{described}, number of features]; found "
            f"{list(table.shape)}."
        )
    return table


def _members(environments: Environments) -> Any:
    return zip(environments.names, environments.members)


def _objects(labels: list[Label]) -> np.ndarray:
    found = np.empty(len(labels), dtype=object)
    found[:] = labels
    return found
