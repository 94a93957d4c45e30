"""Rewards of states as tidy tables: of each task, or differences between tasks or states."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from manymotives.data.labels import Label
from manymotives.models.moments import reward_moments
from manymotives.models.target import Target
from manymotives.posterior.tables import contrasts_of, described, p_highest, rounded, selected, tidy
from manymotives.posterior.unidentified import marked


def rewards_table(
    posterior: Any,
    contrasts: str | None,
    tasks: Sequence[Label] | None,
    states: Sequence[Label] | None,
    canonical: bool,
    level: float,
) -> pd.DataFrame:
    """As `Posterior.table`, of states."""
    values = posterior.canonical()["reward"] if canonical else posterior.rewards
    every = posterior.by_state_name(values, canonical)
    reward = selected(every, "task", tasks)
    cells: list[str] = [dim for dim in ("state", "action") if dim in reward.dims]
    average = reward.mean(cells).stack(sample=("chain", "draw"))
    reward = selected(reward, "state", states).stack(sample=("chain", "draw"))
    if contrasts is not None:
        found = contrasts_of(reward, ["task"] if contrasts == "task" else cells, level)
        return found if contrasts == "task" else marked(found, posterior, canonical)
    table = described(reward, level)
    table["p_above_average"] = (reward > average).mean("sample").where(table["mean"].notnull())
    if not posterior.model.is_pooled and every.sizes["task"] > 1:
        table["p_highest"] = p_highest(selected(every, "state", states).stack(sample=("chain", "draw")))
    if not canonical:
        table["prior_mean"], table["prior_sd"] = prior_of_rewards(posterior)
    return tidy(table, ["task", *cells])


def prior_of_rewards(posterior: Any) -> tuple[xr.DataArray, xr.DataArray]:
    """Mean and sd of each task's rewards before the data: exact if they have a closed form, otherwise from draws."""
    drawn = posterior.by_state_name(posterior.data["prior"].dataset["reward"])
    target = getattr(posterior, "target", None)
    known = reward_moments(target) if isinstance(target, Target) else None
    if known is None:
        return rounded(drawn, ("chain", "draw"))
    like = posterior.mean_reward
    shape = (len(known.mean), *(like.sizes[name] for name in like.dims if name != "task"))
    whole = [np.broadcast_to(each.reshape(shape), like.shape) for each in (known.mean, np.sqrt(known.variance))]
    made = [posterior.by_state_name(like.copy(data=each).where(like.notnull())) for each in whole]
    return made[0], made[1]
