"""Tables out, as CSV files that appear whole or not at all and that no spreadsheet takes for programs."""

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

FORMULA = re.compile(r"^\s*[=+\-@\t\r]")  # with these a spreadsheet begins to calculate
NUMBER = re.compile(r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$")


def write_table(table: pd.DataFrame, path: Path) -> None:
    """A table as CSV in UTF-8, in place of what was there; names that look like formulas get an apostrophe in front."""
    safe = table.rename(columns=harmless)
    for place, column in enumerate(safe.columns):
        if not pd.api.types.is_numeric_dtype(safe.dtypes.iloc[place]):
            safe = safe.assign(**{column: [harmless(value) for value in safe.iloc[:, place]]})
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    os.close(handle)
    try:
        safe.to_csv(temporary, index=False)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # as any new file, not private as temporary ones
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def harmless(value: Any) -> Any:
    """Text that a spreadsheet shows instead of running: `=1+1` becomes `'=1+1`."""
    if isinstance(value, str) and FORMULA.match(value) and not NUMBER.match(value):
        return "'" + value
    return value
