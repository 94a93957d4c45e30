"""The posterior of a model whose motives switch in; tables of when each is active and of how agents switch out.

Each draw has a sequence of motives, whose shares and switches are counted. Rows of the transition matrix are
everybody's or those of tasks, and of states where `by="state"`.
"""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from manymotives.errors import InputError
from manymotives.posterior.tables import described, tidy


def shares(posterior: Any, level: float) -> pd.DataFrame:
    """One row for each task and motive: its share of the task's steps."""
    return _table(posterior.data["posterior"].dataset["motive_share"], ["task", "motive"], level)


def switches(posterior: Any, level: float) -> pd.DataFrame:
    """One row for each task: how many steps it has, and how often it switched between motives along them."""
    table = _table(posterior.data["posterior"].dataset["switches"], ["task"], level)
    seen = posterior.demonstrations
    table.insert(1, "steps", np.bincount(seen.task, minlength=seen.num_tasks))
    return table


def transitions(posterior: Any, level: float) -> pd.DataFrame:
    """One row for each pair of motives, of each task and state where these have rows of their own."""
    rows = posterior.data["posterior"].dataset["motive_transition"]
    places = [word for word in ("task", "state") if word in rows.dims]
    return _table(rows, [*places, "motive", "next_motive"], level)


def average_transitions(posterior: Any, *, by_task: bool = False, by_state: bool = False) -> xr.DataArray:
    """Draws (chain, draw[, task][, state], motive, next_motive), averaged over what is not asked for.

    Tasks and states count by how many steps were followed by another. What was never left counts as the others do.
    """
    rows = posterior.data["posterior"].dataset["motive_transition"]
    left = steps_left(posterior)
    kept = [word for word, wanted in (("task", by_task), ("state", by_state)) if wanted and word in rows.dims]
    over: Any = [word for word in ("task", "state") if word in rows.dims and word not in kept]
    if not over:
        return rows
    weight = left.sum([word for word in ("task", "state") if word not in rows.dims])
    total = weight.sum(over)
    weight = xr.where(total > 0, weight / total.where(total > 0, 1.0), 1.0 / np.prod([rows.sizes[d] for d in over]))
    return (rows * weight).sum(over).transpose("chain", "draw", *kept, "motive", "next_motive")


def steps_left(posterior: Any) -> xr.DataArray:
    """How many steps (task, state) were followed by another: those after which a motive could change."""
    seen, known = posterior.demonstrations, posterior.data["observed_data"].dataset["counts"]
    before = np.flatnonzero(np.append(seen.follows[1:], False))
    shape = (seen.num_tasks, len(seen.states))
    flat = np.ravel_multi_index((seen.task[before], seen.state[before]), shape)
    counted = np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape).astype(float)
    return xr.DataArray(counted, dims=("task", "state"), coords={word: known[word] for word in ("task", "state")})


def leaving(posterior: Any, level: float) -> pd.DataFrame:
    """One row for each motive and each state that was left: how probable it is that the motive is left there.

    `p_above_average`: that it is left there more easily than in the states visited, on average.
    """
    if posterior.model.switching.by != "state":
        raise InputError(
            'in this model the probability of switching is the same in all states. Fit Switching(by="state").'
        )
    apart = {"by_task": posterior.model.is_separate}
    left = 1.0 - _staying(average_transitions(posterior, by_state=True, **apart)).stack(sample=("chain", "draw"))
    usual = 1.0 - _staying(average_transitions(posterior, **apart)).stack(sample=("chain", "draw"))
    table = described(left, level)
    table["p_above_average"] = (left > usual).mean("sample")
    counted = steps_left(posterior)
    table["steps"] = counted if "task" in left.dims else counted.sum("task")
    keys: list[str] = [word for word in ("task", "motive", "state") if word in left.dims]
    frame = tidy(table, keys)
    return frame[frame["steps"] > 0].astype({"steps": int}).reset_index(drop=True)


def _staying(rows: xr.DataArray) -> xr.DataArray:
    """The diagonal of transition matrices (…, motive)."""
    count = rows.sizes["motive"]
    same = xr.DataArray(np.eye(count), dims=("motive", "next_motive"))
    return (rows * same).sum("next_motive")


def _table(values: xr.DataArray, keys: list[str], level: float) -> pd.DataFrame:
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1; found {level!r}.")
    return tidy(described(values.stack(sample=("chain", "draw")), level), keys)
