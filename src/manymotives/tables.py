"""Any data frame (pandas, polars, pyarrow, …) in, the wanted columns as pandas out; and back."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow

from manymotives.errors import InputError

Backend = Literal["pandas", "polars", "pyarrow"]


def columns_of(frame: Any, wanted: Mapping[str, str | None], kind: str) -> pd.DataFrame:
    """The columns a reader needs, renamed to the reader's own words (`wanted`: our word -> their column)."""
    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError:
        raise InputError(
            f"{kind} must be a data frame (pandas, polars, pyarrow, …), not {type(frame).__name__}."
        ) from None
    named = {ours: theirs for ours, theirs in wanted.items() if theirs is not None}
    missing = [theirs for theirs in named.values() if theirs not in table.columns]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise InputError(
            f"{kind} has no column{plural} {', '.join(map(repr, missing))}. Its columns are "
            f"{', '.join(map(repr, table.columns)) or 'none'}."
        )
    if len(table) == 0:
        raise InputError(f"{kind} has no rows.")
    return pd.DataFrame({ours: _column(table[theirs]) for ours, theirs in named.items()})


def _column(series: nw.Series[Any]) -> pd.Series:
    """A column as pandas, where whole numbers stay whole numbers beside an empty cell (3 is a name, 3.0 is not)."""
    if series.null_count() > 0 and series.dtype.is_integer():
        return pd.Series(pd.array(series.to_list(), dtype="Int64"))
    column = series.to_pandas().reset_index(drop=True)
    if pd.api.types.is_float_dtype(column.dtype) and column.isna().any():
        filled = column.dropna()
        if (filled == filled.round()).all():
            return column.astype("Int64")
    return column


def frame_of(columns: Mapping[str, Sequence[Any] | Any], backend: Backend) -> Any:
    """A new data frame of the wanted library: "pandas", "polars" or "pyarrow"."""
    frame = pd.DataFrame({name: _filled(values) for name, values in columns.items()})
    if backend == "pandas":
        return frame
    try:
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError):
        raise InputError(
            f"names of several types cannot stand in one {backend} column. Write a pandas table, or use text for names."
        ) from None
    return table if backend == "pyarrow" else nw.DataFrame.from_arrow(table, backend=backend).to_native()


def _filled(values: Sequence[Any] | Any) -> Any:
    """Values with whole numbers kept whole beside missing ones."""
    if isinstance(values, np.ndarray):
        return values
    present = [value for value in values if value is not None]
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in present)
    if present and whole and len(present) < len(values):
        return pd.array(values, dtype="Int64")
    return values
