"""Tables on disk: CSV, TSV or Parquet in, environments and demonstrations out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow

from manymotives.demonstrations import Demonstrations
from manymotives.environment import Environment
from manymotives.errors import InputError
from manymotives.labels import Label


def read_environment(
    path: str | Path,
    *,
    discount: float,
    state: str = "state",
    action: str = "action",
    next_state: str = "next_state",
    probability: str = "probability",
    terminal: Sequence[Label] = (),
    start: Any = None,
) -> Environment:
    """An environment from a long table on disk; see `Environment.from_frame`."""
    return Environment.from_frame(
        read_table(path),
        discount=discount,
        state=state,
        action=action,
        next_state=next_state,
        probability=probability,
        terminal=terminal,
        start=start,
    )


def read_demonstrations(
    path: str | Path,
    environment: Environment | None = None,
    *,
    task: str | None = "task",
    state: str = "state",
    action: str = "action",
    episode: str | None = None,
    step: str | None = None,
    next_state: str | None = None,
) -> Demonstrations:
    """Demonstrations from a table on disk; see `Demonstrations.from_frame`."""
    return Demonstrations.from_frame(
        read_table(path),
        environment,
        task=task,
        state=state,
        action=action,
        episode=episode,
        step=step,
        next_state=next_state,
    )


def read_table(path: str | Path) -> pd.DataFrame:
    """A table by its ending: .csv, .tsv or .parquet. Only an empty cell is a missing value: "NA" is a name."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}.")
    if path.stat().st_size == 0:
        raise InputError(f"the file {str(path)!r} is empty.")
    kind = path.suffix.lower()
    if kind not in (".csv", ".tsv", ".parquet"):
        raise InputError(f"tables are .csv, .tsv or .parquet files; {str(path)!r} is none of these.")
    try:
        if kind == ".parquet":
            return pd.read_parquet(path)
        separator = "\t" if kind == ".tsv" else ","
        # utf-8-sig: spreadsheets put a byte-order mark in front
        # low_memory=False: one type for each column, or a long file holds 3 and "3" as two names
        return pd.read_csv(
            path, sep=separator, keep_default_na=False, na_values=[""], encoding="utf-8-sig", low_memory=False
        )
    except UnicodeDecodeError:
        raise InputError(f"the file {str(path)!r} is not UTF-8 text. Save it as UTF-8.") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"the file {str(path)!r} cannot be read as a table: {error}") from None
    except pyarrow.ArrowException:
        raise InputError(f"the file {str(path)!r} is not a Parquet file, or is damaged.") from None
