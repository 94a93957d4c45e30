"""Any data frame (pandas, polars, pyarrow, …) in, the wanted columns as pandas out; and back."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow

from manymotives.errors import InputError

Backend = Literal["pandas", "polars", "pyarrow"]


Column = str | Sequence[str]  # the name of a column, or of several that are read as one
LARGEST_WHOLE = 2.0**53  # beyond, float64 cannot tell whole numbers apart
BETWEEN = ", "  # the values of several columns, read as one


def columns_of(frame: Any, wanted: Mapping[str, Column | None], kind: str) -> pd.DataFrame:
    """The columns a reader needs, renamed to the reader's own words (`wanted`: our word -> their column).

    Several columns become one whose values are named by theirs: "kitchen, morning".
    """
    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError:
        raise InputError(
            f"{kind} must be a data frame (pandas, polars, pyarrow, …), not {type(frame).__name__}."
        ) from None
    named = {ours: [theirs] if isinstance(theirs, str) else list(theirs) for ours, theirs in wanted.items() if theirs}
    asked = dict.fromkeys(column for columns in named.values() for column in columns)
    missing = [column for column in asked if column not in table.columns]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise InputError(
            f"{kind} has no column{plural} {', '.join(map(repr, missing))}. Its columns are "
            f"{', '.join(map(repr, table.columns)) or 'none'}. Rename one of them, or name another."
        )
    if len(table) == 0:
        raise InputError(f"{kind} has no rows. Write one row for each step or move.")
    columns = {column: _column(table[column]) for column in asked}
    return pd.DataFrame({ours: _joined([columns[each] for each in theirs], theirs) for ours, theirs in named.items()})


def column_name(column: Column | None) -> str:
    """What messages call it."""
    return column if isinstance(column, str) else BETWEEN.join(column or ())


def _joined(columns: list[pd.Series], names: list[str]) -> pd.Series:
    """Several columns as one of text; empty where any of them is."""
    if len(columns) == 1:
        return columns[0]
    parts = [pd.factorize(column) for column in columns]
    key, missing = np.zeros(len(columns[0]), dtype=np.int64), np.zeros(len(columns[0]), dtype=bool)
    for codes, values in parts:
        key, missing = key * len(values) + codes, missing | (codes < 0)
    codes, keys = pd.factorize(np.where(missing, -1, key), use_na_sentinel=False)
    texts: list[str | None] = []
    for each in keys.tolist():
        if each < 0:
            texts.append(None)
            continue
        words = []
        for _, values in reversed(parts):
            each, place = divmod(each, len(values))
            words.append(str(values[place]))
        texts.append(BETWEEN.join(reversed(words)))
    known = [text for text in texts if text is not None]
    if len(set(known)) < len(known):
        repeated = next(text for number, text in enumerate(known) if text in known[:number])
        raise InputError(
            f"columns {', '.join(map(repr, names))} give the same name {repeated!r} to different values. Take the "
            "commas out of their values."
        )
    categories = pd.Index(known, dtype=object)
    places = np.cumsum([text is not None for text in texts]) - 1
    places[[text is None for text in texts]] = -1
    return pd.Series(pd.Categorical.from_codes(places[codes], categories=categories))


def _column(series: nw.Series[Any]) -> pd.Series:
    """A column as pandas, where whole numbers stay whole numbers beside an empty cell (3 is a name, 3.0 is not)."""
    if series.null_count() > 0 and series.dtype.is_integer():
        return pd.Series(pd.array(series.to_list(), dtype="Int64"))
    column = series.to_pandas().reset_index(drop=True)
    if pd.api.types.is_float_dtype(column.dtype) and column.isna().any():
        filled = column.dropna()
        if (filled == filled.round()).all() and (filled.abs() < LARGEST_WHOLE).all():
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
