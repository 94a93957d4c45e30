"""Rewards of states as tidy tables: of each task, or differences between tasks or states."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from manymotives.data.labels import Label
from manymotives.posterior.tables import contrasts_of, described, selected, tidy
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
    reward = selected(posterior.by_state_name(values, canonical), "task", tasks)
    cells: list[str] = [dim for dim in ("state", "action") if dim in reward.dims]
    average = reward.mean(cells).stack(sample=("chain", "draw"))
    reward = selected(reward, "state", states).stack(sample=("chain", "draw"))
    if contrasts is not None:
        found = contrasts_of(reward, ["task"] if contrasts == "task" else cells, level)
        return found if contrasts == "task" else marked(found, posterior, canonical)
    table = described(reward, level)
    table["p_above_average"] = (reward > average).mean("sample").where(table["mean"].notnull())
    if not canonical:
        prior = posterior.by_state_name(posterior.data["prior"].dataset["reward"])
        table["prior_mean"], table["prior_sd"] = prior.mean(("chain", "draw")), prior.std(("chain", "draw"))
    return tidy(table, ["task", *cells])
