"""Tables on disk: CSV, TSV or Parquet in, environments and demonstrations out."""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import xarray as xr

from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.environments import Environments
from manymotives.data.features import features_from_frame
from manymotives.data.labels import Label
from manymotives.data.tables import MANY, Column
from manymotives.data.union_rows import environment_and_column, in_every_environment
from manymotives.errors import InputError, RowError, listed
from manymotives.io.columns import environment_name_column
from manymotives.io.text import TextForm, form_of

KINDS = (".csv", ".tsv", ".txt", ".parquet")
WHOLE = re.compile(r"(0|-?[1-9]\d{0,17})(\.0*)?")  # 7 and 7.0, as programs write whole numbers; 007 is a name
ZONE = r"[Tt ].*(?:[Zz]|[+-]\d\d(?::?\d\d)?)\s*$"  # at the end of a time
HEADER = 2  # the number of the first row below the header, as a spreadsheet counts


def read_environment(
    path: str | Path,
    *,
    discount: float,
    state: Column = "state",
    action: Column = "action",
    next_state: Column = "next_state",
    probability: str = "probability",
    terminal: Sequence[Label] = (),
    start: Any = None,
) -> Environment:
    """Read an environment from a long table in a file; see `Environment.from_frame`.

    Parameters
    ----------
    path
        A CSV or Parquet file.
    discount, state, action, next_state, probability, terminal, start
        As for `Environment.from_frame`.

    Returns
    -------
    Environment
        The environment in the file.
    """
    table = read_table(path, names=[[*_each(state), *_each(next_state)], _each(action)], others=[probability])
    with rows_of(path, table):
        return Environment.from_frame(
            table,
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
    environments: Environment | Mapping[Any, Environment] | None = None,
    *,
    task: Column | None = "task",
    state: Column = "state",
    action: Column = "action",
    episode: Column | None = None,
    step: str | None = None,
    next_state: Column | None = None,
    environment: Any = None,
) -> Demonstrations:
    """Read demonstrations from a table in a file; see `Demonstrations.from_frame`.

    A file does not say whether 7 is a number or a name: names are read as the environment has them.

    Parameters
    ----------
    path
        A CSV or Parquet file.
    environments, task, state, action, episode, step, next_state, environment
        As for `Demonstrations.from_frame`.

    Returns
    -------
    Demonstrations
        The demonstrations in the file.
    """
    is_given = environments is not None or environment is not None
    given, where = environment_and_column(environments, environment, columns_in(path)[0] if is_given else ())
    states = [*_each(state), *_each(next_state)]
    names = [states, _each(action), *([column] for column in [*_each(task), *_each(episode), *_each(where)])]
    table = read_table(path, names=names, others=_each(step))
    if given is not None:
        called = given.state_names if isinstance(given, Environments) and where is not None else given.states
        there = given.names if isinstance(given, Environments) else ()
        for columns, known in ((state, called), (next_state, called), (action, given.actions), (where, there)):
            if isinstance(columns, str) and columns in table:
                table[columns] = _spelled_as(table[columns], known)
    with rows_of(path, table):
        return Demonstrations.from_frame(
            table,
            given,
            environment=where,
            task=task,
            state=state,
            action=action,
            episode=episode,
            step=step,
            next_state=next_state,
        )


def read_features(
    path: str | Path,
    environment: Environment,
    *,
    state: Column = "state",
    action: Column | None = None,
    known_only: bool = False,
) -> xr.DataArray:
    """Read features (state[, action], feature) from a table in a file, for `GaussianReward(features=...)`.

    Every other column is a feature: a number for each state or, if `action` names a column, for each available
    state–action pair (`GaussianReward(..., on="state_action")`). Rows may be in any order.

    Parameters
    ----------
    path
        A CSV or Parquet file.
    environment
        The environment to whose states (and actions) the rows refer.
    state, action
        Columns with the names of states and of actions. With `action=None`, features of states.
    known_only
        Whether to ignore rows of states that the environment does not have, instead of raising an error;
        `attrs["left_out"]` is the number of such rows.

    Returns
    -------
    DataArray
        (state, feature), or (state, action, feature).
    """
    several = environment if isinstance(environment, Environments) else None
    where = environment_name_column(columns_in(path)[0], Path(path).name) if several is not None else None
    named = [*_each(state), *_each(action), *_each(where)]
    features = [column for column in columns_in(path)[0] if column and column not in named]
    groups = [_each(state), *([_each(action)] if action else []), *([_each(where)] if where else [])]
    table = read_table(path, names=groups, others=features)
    if several is not None and isinstance(state, str):
        table = in_every_environment(table, several, state, where)
    for column, known in ((state, environment.states), (action, environment.actions)):
        if isinstance(column, str):
            table[column] = _spelled_as(table[column], known)
    total = len(table)
    if known_only and isinstance(state, str):
        table = table[table[state].isin(environment.states) | table[state].isna()]
    with rows_of(path, table):
        found = features_from_frame(
            table, environment, features=features, state=state, action=action, kind=Path(path).name
        )
    return found.assign_attrs(left_out=total - len(table))


def columns_in(path: str | Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a table's columns, and what to know about its form."""
    path = _checked_path(path)
    if path.suffix.lower() == ".parquet":
        with _readable(path):
            return tuple(pyarrow.parquet.read_schema(path).names), ()
    with _readable(path):
        form = form_of(path)
    return form.columns, form.notes


def read_table(
    path: str | Path, *, names: Sequence[Sequence[str]] | None = None, others: Sequence[str] = ()
) -> pd.DataFrame:
    """A table by its ending: .csv, .tsv, .txt or .parquet. Only an empty cell is a missing value: "NA" is a name.

    Parameters
    ----------
    names
        Groups of columns that hold names from one vocabulary: whole numbers where all of them are, else text. Only
        these columns and `others` are read. None: everything, as numbers, times or text.

    The index of a text table counts rows as a spreadsheet does: the header is row 1.
    """
    path = _checked_path(path)
    named = list(dict.fromkeys(column for group in names or () for column in group))
    with _readable(path):
        if path.suffix.lower() == ".parquet":
            _check_columns(path, [*named, *others], pyarrow.parquet.read_schema(path).names)
            return pd.read_parquet(path, columns=None if names is None else [*dict.fromkeys([*named, *others])])
        form = form_of(path)
        _check_columns(path, [*named, *others], form.columns)
        table = _text_table(path, form, None if names is None else {*named, *others})
    if len(table) == 0:
        raise InputError(f"{path.name} has no rows below its header. Write one row for each step or transition.")
    made: dict[str, pd.Series] = {}
    for group in names or ():
        made |= _as_names({column: table[column] for column in dict.fromkeys(group)})
    made |= {str(name): _as_numbers(column) for name, column in table.items() if name not in made}
    return pd.DataFrame(made, index=table.index)


@contextmanager
def rows_of(path: str | Path, table: pd.DataFrame) -> Iterator[None]:
    """Errors about rows, with their numbers in this file."""
    try:
        yield
    except RowError as error:
        path = Path(path)
        text = path.suffix.lower() != ".parquet"
        where = f" of {path.name}" if text else f" of {path.name} (rows count from 0)"
        raise error.named([int(table.index[row]) for row in error.rows], where) from None


def _check_columns(path: Path, wanted: Sequence[str], known: Sequence[str]) -> None:
    missing = [column for column in dict.fromkeys(wanted) if column not in known]
    if missing:
        raise InputError(
            f"{path.name} has no column{'s' if len(missing) > 1 else ''} {listed(missing, MANY)}. Its columns are "
            f"{listed(known, MANY) or 'none'}. Rename one of them, or name another."
        )


def _checked_path(path: str | Path) -> Path:
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}. Correct its name or its folder.")
    if path.stat().st_size == 0:
        raise InputError(f"the file {str(path)!r} is empty. Write a header and one row for each step or transition.")
    kind = path.suffix.lower()
    if kind not in KINDS:
        cure = "Save the sheet as CSV UTF-8." if kind in (".xlsx", ".xls", ".ods") else "Save it as one."
        raise InputError(f"tables are .csv, .tsv, .txt or .parquet files; {str(path)!r} is none of these. {cure}")
    return path


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """What can be wrong with a file as a sentence."""
    try:
        yield
    except OSError as error:
        if isinstance(error, pyarrow.ArrowException) or error.strerror is None:  # Arrow's are both
            raise InputError(
                f"the file {str(path)!r} is not a Parquet file, or is damaged. Save it again, or as CSV."
            ) from None
        raise InputError(
            f"the file {str(path)!r} cannot be read: {error.strerror}. Change its permissions, or copy it elsewhere."
        ) from None
    except pyarrow.ArrowException:
        raise InputError(
            f"the file {str(path)!r} is not a Parquet file, or is damaged. Save it again, or as CSV."
        ) from None


def _text_table(path: Path, form: TextForm, wanted: set[str] | None) -> pd.DataFrame:
    """The wanted columns of a text table, as categories: each distinct text is kept once, however long the table."""
    positions = [position for position, name in enumerate(form.columns) if name and (wanted is None or name in wanted)]
    labels = [str(position) for position in range(len(form.columns))]  # names may be missing; positions are not
    skipped: list[int] = []

    def not_a_row(row: Any) -> str:
        if not row.text.strip():
            skipped.append(row.number)  # an empty line
            return "skip"
        return "error"

    try:
        table = pyarrow.csv.read_csv(
            path,
            pyarrow.csv.ReadOptions(
                use_threads=False,  # or rows have no numbers
                encoding=form.encoding.removesuffix("-sig"),
                skip_rows=form.header_lines,
                column_names=labels,
            ),
            pyarrow.csv.ParseOptions(
                delimiter=form.separator,
                newlines_in_values=True,
                ignore_empty_lines=False,  # or rows would be miscounted
                invalid_row_handler=not_a_row,
            ),
            pyarrow.csv.ConvertOptions(
                include_columns=[labels[position] for position in positions],
                column_types=dict.fromkeys(labels, pyarrow.dictionary(pyarrow.int32(), pyarrow.string())),
                null_values=[""],  # "NA" is a name
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        ).to_pandas(self_destruct=True, split_blocks=True)  # or the table is held twice
    except pyarrow.ArrowInvalid as error:
        if "Empty CSV file" in str(error) or "Could not skip initial" in str(error):  # nothing below the header
            table = pd.DataFrame({labels[position]: pd.Categorical([]) for position in positions})
        else:
            raise InputError(_damage(path, form, str(error))) from None
    pyarrow.default_memory_pool().release_unused()
    table.columns = pd.Index([form.columns[position] for position in positions])
    # what was skipped, as places among the rows that were not
    rows = np.delete(np.arange(len(table) + len(skipped)), np.array(skipped, dtype=int) - HEADER)
    table.index = pd.Index(rows + HEADER) if skipped else pd.RangeIndex(HEADER, HEADER + len(table))
    empty = (
        np.logical_and.reduce([column.isna().to_numpy() for _, column in table.items()]) if positions else np.array([])
    )
    return table[~empty] if empty.any() else table


def _damage(path: Path, form: TextForm, complaint: str) -> str:
    """What cannot be read, in our words."""
    if found := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", complaint):
        return (
            f"row {int(found[1])} of {path.name} has {found[3]} cell{'s' if found[3] != '1' else ''} and the header "
            f"has {found[2]}. Put names that contain the separator in quotation marks, close every quotation mark, and "
            "end no row with a separator."
        )
    complaint = complaint.strip().rstrip(".")
    return f"the file {str(path)!r} cannot be read as a table: {complaint}. Save it again as CSV UTF-8."


def _as_names(columns: dict[str, pd.Series]) -> dict[str, pd.Series]:
    """Columns that share a vocabulary: as whole numbers if every name in them is one, as text otherwise."""
    texts = {name: [str(text).strip() for text in column.cat.categories] for name, column in columns.items()}
    whole = all(not text or WHOLE.fullmatch(text) for each in texts.values() for text in each)
    made = {}
    for name, column in columns.items():
        # blanks around a name, and 7.0 for 7, make no other name
        values = [int(text.partition(".")[0]) if whole and text else text for text in texts[name]]
        names = list(dict.fromkeys(value for value in values if value != ""))
        number = {value: position for position, value in enumerate(names)} | {"": -1}
        codes = np.array([*(number[value] for value in values), -1], dtype=np.int32)[column.cat.codes.to_numpy()]
        kind = np.int64 if whole and names else object
        made[name] = pd.Series(
            pd.Categorical.from_codes(codes, categories=pd.Index(names, dtype=kind)), index=column.index
        )
    return made


def _as_numbers(column: pd.Series) -> pd.Series:
    """Texts as numbers or times where all of them are, as text otherwise."""
    texts = column.cat.categories
    values: Any = pd.to_numeric(pd.Series(texts), errors="coerce")
    if values.isna().any():
        values = _as_times(pd.Series(texts))
        if values is None:
            return column.astype(object)
    return pd.Series(values.reindex(column.cat.codes).to_numpy(), index=column.index)


def _as_times(texts: pd.Series) -> pd.Series | None:
    """Texts as times, in UTC where they have a zone; None where not all of them are times.

    Where only some have a zone, each is left with what it has: whoever needs their order says that it is not known.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of times without a zone among others
        values = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
        if values.isna().any():
            return None
        bare = values.dt.tz_localize(None)
    zoned = texts.str.contains(ZONE)
    if zoned.all() or not zoned.any():
        return bare
    return pd.Series([time if has else time.tz_localize(None) for time, has in zip(values, zoned)], dtype=object)


def _spelled_as(column: pd.Series, names: Sequence[Label]) -> pd.Series:
    """The same names with the environment's types: a file cannot tell 7 from "7"."""
    codes, values = pd.factorize(column)
    by_text, known = {str(name): name for name in names}, set(names)
    meant = [value if value in known else by_text.get(str(value), value) for value in values.tolist()]
    if len(by_text) < len(names) or meant == values.tolist():
        return column
    spelled = np.empty(len(meant) + 1, dtype=object)
    spelled[:-1], spelled[-1] = meant, None
    return pd.Series(spelled[codes], index=column.index)


def _each(column: Column | None) -> list[str]:
    return [] if column is None else [column] if isinstance(column, str) else list(column)
