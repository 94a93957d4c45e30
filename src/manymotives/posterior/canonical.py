"""Rewards in the one form that choices can tell."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from manymotives.planning import Identifiability, Plan, plan


def in_unit_range(
    known: Identifiability,
    reward: xr.DataArray,
    soft: np.ndarray | None,
    planned: Callable[[np.ndarray, np.ndarray | None], Plan] | None = None,
) -> tuple[xr.DataArray, xr.DataArray]:
    """Rewards [..., state(, action)] in canonical form, and the scale [...] that was taken out.

    `known`: what choices can show. `soft` [...]: inverse temperatures where agents foresee their own errors.
    `planned`: what plans for rewards and these, where not all of them are for this environment.
    """
    environment = known.environment
    if known.on == "state_action":
        values = reward.fillna(0.0).values
        found = (
            plan(environment, values, on="state_action", inverse_temperature=soft, depth=known.depth)
            if planned is None
            else planned(values, soft)
        )
        regret = np.where(environment.available, found.q - found.value[..., None], np.nan)
        reward = reward.copy(data=regret)
        over: Any = ("state", "action")
    else:
        over = ("state",)
        if not known.is_plain:
            reward = reward.transpose(..., "state")
            reward = reward.copy(data=known.reduced(reward.values))
    scale = reward.max(over) - reward.min(over)
    scale = scale.where(scale > 0, 1.0)
    has_constant = known.on == "state" and (known.is_plain or known.features is not None)
    if has_constant and not environment.is_terminal.any():  # elsewhere it is gone already
        reward = reward - reward.mean(over)
    return reward / scale, scale
