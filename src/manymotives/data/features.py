"""A table of features in, one row a state or a pair of state and action; an array in an environment's order out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from manymotives.data.environment import Environment
from manymotives.data.labels import indices_of
from manymotives.data.tables import Column, column_name, columns_of, numbers_in
from manymotives.errors import InputError, RowError, quoted

KIND = "the table of features"
SHOWN = 5  # states without a row that a message names


def features_from_frame(
    frame: Any,
    environment: Environment,
    *,
    features: Sequence[str],
    state: Column = "state",
    action: Column | None = None,
    kind: str = KIND,
) -> xr.DataArray:
    """Features (state[, action], feature), for `GaussianReward(features=...)`, by the names in a data frame.

    Parameters
    ----------
    features
        The columns that hold them: numbers, one row for each state, in any order.
    state, action
        Columns with the names. With an action, a row for each state and action that is available there; rows of
        others are not used, and features are 0 there.
    kind
        What messages call the table.
    """
    if not features:
        raise InputError(f"{kind} has no column of features. Add a column of numbers for each feature.")
    wanted = {"state": state, "action": action} | {f"feature {name}": name for name in features}
    table = columns_of(frame, wanted, kind, optional=("action",))
    names, cells = _cells(table, environment, state, action, kind)
    values = np.zeros((len(names), len(features)))
    columns = [_numbers(table[f"feature {name}"], name) for name in features]
    values[cells] = np.column_stack(columns)
    shape: tuple[int, ...] = (environment.num_states,)
    coordinates: dict[str, Any] = {"state": _labels(environment.states)}
    if action is not None:
        values[~environment.available.ravel()] = 0.0
        shape += (environment.num_actions,)
        coordinates["action"] = _labels(environment.actions)
    return xr.DataArray(
        values.reshape(*shape, len(features)),
        dims=(*coordinates, "feature"),
        coords=coordinates | {"feature": _labels(features)},
    )


def _cells(
    table: pd.DataFrame, environment: Environment, state: Column, action: Column | None, kind: str
) -> tuple[list[str], np.ndarray]:
    """What each state, or each pair, is called in messages, and of which of them each row is."""
    cells = _indices(table["state"], environment.states, "state", state)
    names = [f"state {quoted(name)}" for name in environment.states]
    needed = np.ones(environment.num_states, dtype=bool)
    columns = [column_name(state)]
    if action is not None:
        cells = cells * environment.num_actions + _indices(table["action"], environment.actions, "action", action)
        names = [f"{where}, action {quoted(what)}" for where in names for what in environment.actions]
        needed = environment.available.ravel()
        columns.append(column_name(action))
    again = np.flatnonzero(pd.Series(cells).duplicated())
    if again.size:
        first = int(np.flatnonzero(cells == cells[again[0]])[0])
        where = f"column{'s' if len(columns) > 1 else ''} {' and '.join(map(quoted, columns))}, "
        raise RowError(where, (first, again[0]), f": both are for {names[cells[again[0]]]}. Keep one.")
    missing = np.setdiff1d(np.flatnonzero(needed), cells)
    if missing.size:
        some = "; ".join(names[cell] for cell in missing[:SHOWN])
        more = f"; and {len(missing) - SHOWN:,} more" if len(missing) > SHOWN else ""
        every = "state" if action is None else "available state-action pair"
        raise InputError(f"{kind} has no row for {some}{more}. Give every {every} one row.")
    return names, cells


def _indices(values: pd.Series, names: Sequence[Any], what: str, column: Column) -> np.ndarray:
    found = indices_of(values, names, what, column_name(column))
    if (found < 0).any():
        where = f"column {quoted(column_name(column))}, "
        raise RowError(where, (int(np.argmin(found)),), f": the {what} is missing. Name it, or delete the row.")
    return found


def _numbers(column: pd.Series, name: str) -> np.ndarray:
    """A feature's values, all of them finite numbers."""
    values = numbers_in(column)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        found = column.iloc[bad[0]]
        said = "this cell is empty" if pd.isna(found) else f"{quoted(found)} is not a finite number"
        raise RowError(
            f"column {quoted(name)}, ", (bad[0],), f": {said}. Write a number; write 0 if the feature is absent."
        )
    return values


def _labels(names: Sequence[Any]) -> np.ndarray:
    found = np.empty(len(names), dtype=object)
    found[:] = names
    return found
