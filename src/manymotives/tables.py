"""Any data frame (pandas, polars, pyarrow, …) in, the wanted columns as pandas out; and back."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import narwhals as nw
import pandas as pd

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
    selected = {ours: table[theirs].to_pandas().reset_index(drop=True) for ours, theirs in named.items()}
    return pd.DataFrame(selected)


def frame_of(columns: Mapping[str, Sequence[Any] | Any], backend: Backend) -> Any:
    """A new data frame of the wanted library: "pandas", "polars" or "pyarrow"."""
    if backend == "pandas":
        return pd.DataFrame(dict(columns))
    series = {name: list(values) for name, values in columns.items()}
    return nw.from_dict(series, backend=backend).to_native()
