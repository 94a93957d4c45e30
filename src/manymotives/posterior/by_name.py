"""Rewards of states in, rewards of names of states out: in several environments one name has one reward."""

from typing import Any

import numpy as np
import xarray as xr

from manymotives.data.environment import Environment
from manymotives.data.environments import Environments
from manymotives.data.labels import Label
from manymotives.models.rewards import RewardSet
from manymotives.models.shared_rewards import reward_names
from manymotives.posterior.labelling.common import coordinate_of


def are_by_name(reward: Any, environment: Environment) -> bool:
    """Whether states with one name have one reward: not where features or sets of rewards say otherwise."""
    is_free = getattr(reward, "features", None) is None and not isinstance(reward, RewardSet)
    return is_free and isinstance(environment, Environments)


def by_name(values: xr.DataArray, environment: Environment) -> xr.DataArray:
    """Values (..., state[, action]) with one entry for each name of a state, that of its first environment."""
    if not isinstance(environment, Environments):
        return values
    labels = coordinate_of(environment.state_names)
    if "action" not in values.dims:
        first = reward_names(environment, "state").first
        return values.isel(state=first).assign_coords(state=labels)
    values = values.transpose(..., "state", "action")
    state, action = np.divmod(reward_names(environment, "state_action").first, environment.num_actions)
    table = np.full((*values.shape[:-2], len(labels), environment.num_actions), np.nan)
    table[..., environment.state_name[state], action] = values.values[..., state, action]
    coordinates = {name: values[name] for name in values.dims if name != "state" and name in values.coords}
    return xr.DataArray(table, dims=values.dims, coords=coordinates | {"state": labels}, name=values.name)


def names_in(environment: Environment) -> tuple[Label, ...]:
    """What states are called: in several environments, by their own names there."""
    return environment.state_names if isinstance(environment, Environments) else environment.states


def own_names(environment: Environment) -> list[Label]:
    """[S] what each state is called in its own environment."""
    names = names_in(environment)
    return [names[k] for k in environment.state_name] if isinstance(environment, Environments) else list(names)
