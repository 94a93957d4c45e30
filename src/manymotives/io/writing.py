"""Tables out, as CSV files that appear whole or not at all and that no spreadsheet takes for programs."""

import re
from pathlib import Path
from typing import Any

import pandas as pd

from manymotives.io.atomic import whole_file

FORMULA = re.compile(r"^\s*[=+\-@\t\r]")  # with these a spreadsheet begins to calculate
NUMBER = re.compile(r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$")


def write_table(table: pd.DataFrame, path: Path) -> None:
    """A table as CSV in UTF-8, in place of what was there; names that look like formulas get an apostrophe in front."""
    safe = table.rename(columns=harmless)
    for position, column in enumerate(safe.columns):
        if not pd.api.types.is_numeric_dtype(safe.dtypes.iloc[position]):
            safe = safe.assign(**{column: [harmless(value) for value in safe.iloc[:, position]]})
    with whole_file(path) as temporary:
        safe.to_csv(temporary, index=False)


def harmless(value: Any) -> Any:
    """Text that a spreadsheet shows instead of running: `=1+1` becomes `'=1+1`."""
    if isinstance(value, str) and FORMULA.match(value) and not NUMBER.match(value):
        return "'" + value
    return value
