"""Any data frame (pandas, polars, pyarrow, …) in, the wanted columns as pandas out; and back."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow

from manymotives.errors import InputError, RowError, listed, quoted

Backend = Literal["pandas", "polars", "pyarrow"]


Column = str | Sequence[str]  # the name of a column, or of several that are read as one
LARGEST_WHOLE = 2.0**53  # beyond, float64 cannot tell whole numbers apart
EARLIEST, LATEST = np.datetime64("0001-01-02"), np.datetime64("9999-12-30")  # a day within, for any time zone
MANY = 20  # columns that a message lists
BETWEEN = ", "  # the values of several columns, read as one


def columns_of(
    frame: Any, wanted: Mapping[str, Column | None], kind: str, optional: Collection[str] = ()
) -> pd.DataFrame:
    """The columns a reader needs, renamed to the reader's own words (`wanted`: our word -> their column).

    Several columns become one whose values are named by theirs: "kitchen, morning". Those that are `optional` may be
    None.
    """
    named = {ours: _names(ours, theirs) for ours, theirs in wanted.items() if theirs is not None}
    named = {ours: theirs for ours, theirs in named.items() if theirs}
    absent = [ours for ours in wanted if ours not in named and ours not in optional]
    if absent:
        raise InputError(f"{absent[0]} must be the name of a column of {kind}; found {quoted(wanted[absent[0]])}.")
    asked = dict.fromkeys(column for columns in named.values() for column in columns)
    try:
        table = nw.from_native(_without_repeated(frame, asked, kind), eager_only=True)
    except TypeError:
        raise InputError(
            f"{kind} must be a data frame (pandas, polars, pyarrow, …), not {type(frame).__name__}."
        ) from None
    missing = [column for column in asked if column not in table.columns]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        other = next((column for column in table.columns if not isinstance(column, str)), None)
        text = "" if other is None else f" Names of columns must be text, and {quoted(other)} is not."
        raise InputError(
            f"{kind} has no column{plural} {listed(missing, MANY)}. Its columns are "
            f"{listed(table.columns, MANY) or 'none'}.{text} Rename one of them, or name another."
        )
    if len(table) == 0:
        raise InputError(f"{kind} has no rows. Write one row for each step or transition.")
    columns = {column: _column(table[column], column) for column in asked}
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
            each, position = divmod(each, len(values))
            words.append(str(values[position]))
        texts.append(BETWEEN.join(reversed(words)))
    known = [text for text in texts if text is not None]
    if len(set(known)) < len(known):
        repeated = next(text for number, text in enumerate(known) if text in known[:number])
        raise InputError(
            f"columns {listed(names)} give the same name {quoted(repeated)} to different values. Remove the "
            "commas from their values."
        )
    categories = pd.Index(known, dtype=object)
    positions = np.cumsum([text is not None for text in texts]) - 1
    positions[[text is None for text in texts]] = -1
    return pd.Series(pd.Categorical.from_codes(positions[codes], categories=categories))


def _names(ours: str, theirs: Any) -> list[str]:
    """The columns that are read as one."""
    names = [theirs] if isinstance(theirs, str) or not hasattr(theirs, "__iter__") else list(theirs)
    for name in names:
        if not isinstance(name, str):
            raise InputError(
                f"{ours} must be the name of a column, or several names; found {quoted(name)}. Names of columns "
                "must be text: rename them, in pandas by frame.columns = frame.columns.map(str)."
            )
    return names


def _without_repeated(frame: Any, asked: Collection[str], kind: str) -> Any:
    """The frame with one column of each name; an error where it matters which."""
    if isinstance(frame, pd.DataFrame):
        names = list(frame.columns)
    elif isinstance(frame, pyarrow.Table | pyarrow.RecordBatch):
        names = list(frame.schema.names)
    else:
        return frame  # others do not allow it
    repeated = {name for name in asked if names.count(name) > 1}
    if repeated:
        raise InputError(
            f"{kind} has {names.count(min(repeated))} columns {quoted(min(repeated))}. Rename all but the one that is "
            "meant."
        )
    if len(set(names)) == len(names):
        return frame
    kept = [position for position, name in enumerate(names) if name in asked]
    return frame.iloc[:, kept] if isinstance(frame, pd.DataFrame) else frame.select(kept)


def whole_numbers(values: Sequence[Any]) -> Any:
    """Whole numbers, some of them missing, in the narrowest of pandas' types that holds them all.

    By their ranges: pandas itself would pass through floating-point numbers, where 2⁶³ + 1 is 2⁶³.
    """
    missing = np.array([bool(pd.isna(value)) for value in values], dtype=bool)
    numbers = [0 if is_missing else int(value) for value, is_missing in zip(values, missing)]
    for kind in (np.int64, np.uint64):
        if np.iinfo(kind).min <= min(numbers, default=0) and max(numbers, default=0) <= np.iinfo(kind).max:
            return pd.arrays.IntegerArray(np.array(numbers, dtype=kind), missing)
    return pd.array(values, dtype=object)


def numbers_in(column: pd.Series) -> np.ndarray:
    """A column as floating-point numbers; NaN where there is none, or something else."""
    if column.dtype.kind not in "biufOSU" and not isinstance(column.dtype, pd.CategoricalDtype | pd.StringDtype):
        return np.full(len(column), np.nan)  # times and complex numbers are none
    try:
        found = pd.to_numeric(column, errors="coerce")
        if found.dtype.kind != "c":
            return found.to_numpy(dtype=float, na_value=np.nan)
        return np.array([_number(value) for value in column])
    except (TypeError, ValueError, OverflowError):
        return np.array([_number(value) for value in column])


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _column(series: nw.Series[Any], name: str) -> pd.Series:
    """A column as pandas, where whole numbers stay whole numbers beside an empty cell (3 is a name, 3.0 is not)."""
    if isinstance(series.dtype, nw.List | nw.Array | nw.Struct):
        _check_labels(pd.Series(series.to_list(), dtype=object), name)
    if series.dtype.is_integer() and (series.null_count() > 0 or isinstance(series.dtype, nw.Int128 | nw.UInt128)):
        return pd.Series(whole_numbers(series.to_list()))
    column = series.to_pandas().reset_index(drop=True)
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        _check_times(column, name)
    if column.dtype == object and pd.api.types.infer_dtype(column, skipna=True).startswith(("mixed", "unknown")):
        _check_labels(column, name)
    if pd.api.types.is_float_dtype(column.dtype) and column.isna().any():
        filled = column.dropna()
        if (filled == filled.round()).all() and (filled.abs() < LARGEST_WHOLE).all():
            return column.astype("Int64")
    return column


def _check_times(column: pd.Series, name: str) -> None:
    """Refuse times that only pandas can hold: they can be neither written nor moved to another zone."""
    stamps = column.to_numpy(dtype=f"datetime64[{column.dt.unit}]")  # in UTC, where there is a zone
    seconds = stamps.astype("datetime64[s]")  # the years 1 and 9999 have no number in nanoseconds
    outside = np.flatnonzero((seconds < EARLIEST) | (seconds > LATEST))
    if outside.size:
        year = stamps[outside[0]].astype("datetime64[Y]").astype(int) + 1970
        raise RowError(
            f"column {quoted(name)}, ",
            (int(outside[0]),),
            f": a time in the year {year}. Times are from the years 1 to 9999; is this another number?",
        )


def _check_labels(column: pd.Series, name: str) -> None:
    """Refuse cells that hold several things: what cannot be a name, because it can change."""
    for row, value in enumerate(column):
        if not pd.api.types.is_hashable(value):
            raise RowError(
                f"column {quoted(name)}, ",
                (row,),
                f": {quoted(value)} is a {type(value).__name__}, but a cell must be one name or number. Write it "
                "as text, or split it into several columns and name them all, such as state=['room', 'hour'].",
            )


def frame_of(columns: Mapping[str, Sequence[Any] | Any], backend: Backend) -> Any:
    """A new data frame of the wanted library: "pandas", "polars" or "pyarrow"."""
    frame = pd.DataFrame({name: _filled(values) for name, values in columns.items()})
    if backend == "pandas":
        return frame
    try:
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError, OverflowError):
        raise InputError(
            f"names of several types, or numbers of more than 64 bits, cannot be stored in one {backend} column. "
            "Write a pandas table, or use text for names."
        ) from None
    return table if backend == "pyarrow" else nw.DataFrame.from_arrow(table, backend=backend).to_native()


def _filled(values: Sequence[Any] | Any) -> Any:
    """Values with whole numbers kept whole beside missing ones."""
    if isinstance(values, np.ndarray):
        return values
    present = [value for value in values if value is not None]
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in present)
    if present and whole and len(present) < len(values):
        return whole_numbers(values)
    return values
