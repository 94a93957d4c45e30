"""What is known of each task besides its choices: any table in, columns of numbers and of levels out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd

from manymotives.data.labels import unknown_names
from manymotives.data.tables import columns_of
from manymotives.errors import InputError, quoted
from manymotives.io.columns import task_column
from manymotives.io.records import Recorded

TABLE = "the table of covariates"


class Rows(NamedTuple):
    """Some rows of covariates, in order, with what messages call each of them."""

    where: tuple[str, ...]  # such as "task 'ann'"
    values: dict[str, tuple[Any, ...]]  # numbers or text, by column
    levels: dict[str, tuple[str, ...] | None]  # of columns of text, in order; None for numbers

    def is_text(self, column: str) -> bool:
        return self.levels[column] is not None

    def numbers(self, column: str) -> np.ndarray:
        """A column of numbers."""
        if self.is_text(column):
            raise InputError(f"column {quoted(column)} of covariates is text, such as {_example(self, column)}, and "
                             "numbers are needed here.")  # fmt: skip
        found = np.array(self.values[column], dtype=float)
        self.check(np.isfinite(found), f"column {quoted(column)} of covariates is infinite")
        return found

    def names(self, column: str) -> tuple[str, ...]:
        """The same column as names of levels."""
        return tuple(map(level_name, self.values[column]))

    def level_order(self, column: str) -> tuple[str, ...]:
        """The levels that occur: in their given order, else sorted."""
        given = self.levels[column]
        occurring = set(self.names(column))
        if given is None:
            given = tuple(dict.fromkeys(level_name(value) for value in sorted(set(self.values[column]))))
        return tuple(level for level in given if level in occurring)

    def check(self, good: np.ndarray, found: str) -> None:
        """Refuse rows that are not good, naming the first."""
        if not good.all():
            raise InputError(f"{found} for {self.where[int(np.argmin(good))]}. Correct it, or leave that task out.")


@dataclass(frozen=True)
class Covariates(Recorded):
    """The columns of a table that formulas use, as plain values that a file can hold."""

    tasks: tuple[str, ...]  # of each row
    names: tuple[str, ...]  # of columns
    values: tuple[tuple[Any, ...], ...]  # one tuple a column: numbers or text, None where missing
    levels: tuple[tuple[str, ...] | None, ...]  # of each column, in order; None for numbers

    def __post_init__(self) -> None:
        for name in ("tasks", "names", "values", "levels"):  # lists, where they come from a file
            object.__setattr__(self, name, _tuples(getattr(self, name)))
        if not self._fits():
            raise InputError("this file holds covariates whose parts are inconsistent.")

    def __repr__(self) -> str:
        return f"<covariates {', '.join(self.names)}: {len(self.tasks)} rows>"

    def _fits(self) -> bool:
        parts = (self.tasks, self.names, self.values, self.levels)
        if not all(isinstance(part, tuple) for part in parts) or not len(self.names) == len(self.values) == len(
            self.levels
        ):
            return False
        if not all(isinstance(name, str) for name in (*self.tasks, *self.names)):
            return False
        for values, levels in zip(self.values, self.levels):
            if not isinstance(values, tuple) or len(values) != len(self.tasks) or not isinstance(levels, tuple | None):
                return False
            known = {value for value in values if value is not None}
            if levels is not None and not known <= set(levels):
                return False
            kinds = (int, float) if levels is None else (str,)
            if any(isinstance(value, bool) or not isinstance(value, kinds) for value in (*known, *(levels or ()))):
                return False
        return True

    def only(self, used: Sequence[str]) -> "Covariates":
        """The same with these columns alone."""
        _check_known(used, self.names)
        places = [self.names.index(name) for name in used]
        return Covariates(
            self.tasks, tuple(used), tuple(self.values[k] for k in places), tuple(self.levels[k] for k in places)
        )

    @classmethod
    def of(cls, table: Any, used: Sequence[str], task: Any = None) -> "Covariates":
        """The columns that are used, each different row once. `task`: the column, or columns, that name tasks."""
        frame = _frame(table)
        columns = _column_names(frame)
        task = task_column(columns, TABLE) if task is None else task
        _check_known([task] if isinstance(task, str) or not hasattr(task, "__iter__") else list(task), columns)
        tasks = columns_of(frame, {"task": task}, TABLE)["task"]
        if tasks.isna().any():
            raise InputError(f"a row of {TABLE} names no task.")
        found = _found(frame, used)
        different = ~pd.concat([tasks, found], axis=1).set_axis(range(1 + len(used)), axis=1).duplicated()
        values, levels = _plain(found[different], _orders(frame))
        return cls(tuple(map(level_name, tasks[different])), tuple(used), values, levels)

    def rows(self, tasks: Iterable[Any], used: Sequence[str]) -> Rows:
        """One row for each task."""
        places: dict[str, list[int]] = {}
        for place, name in enumerate(self.tasks):
            places.setdefault(name, []).append(place)
        tasks = tuple(tasks)
        absent = [task for task in tasks if level_name(task) not in places]
        if absent:
            raise InputError(
                f"{TABLE} has no row for {len(absent)} of {len(tasks)} tasks: "
                f"{unknown_names(absent, list(places), 'task')} Add a row, or name the column of tasks with task=...."
            )
        chosen: dict[str, tuple[Any, ...]] = {}
        for column in used:
            values = self.values[self.names.index(column)]
            for task in tasks:
                found = list(dict.fromkeys(values[place] for place in places[level_name(task)]))
                if len(found) > 1:
                    raise InputError(
                        f"task {quoted(task)} has several values of {quoted(column)} in {TABLE}: "
                        f"{quoted(found[0])} and {quoted(found[1])}. A covariate must have one value for each "
                        "task."
                    )
            chosen[column] = tuple(values[places[level_name(task)][0]] for task in tasks)
        where = tuple(f"task {quoted(task)}" for task in tasks)
        return _complete(Rows(where, chosen, {name: self.levels[self.names.index(name)] for name in used}))


def new_rows(table: Any, used: Sequence[str]) -> Rows:
    """Every row of a table, in its order; it needs no column of tasks."""
    frame = _frame(table)
    values, levels = _plain(_found(frame, used), _orders(frame))
    where = tuple(f"row {row} (rows count from 0)" for row in range(len(frame)))
    return _complete(Rows(where, dict(zip(used, values)), dict(zip(used, levels))))


def level_name(value: Any) -> str:
    """What a level, or a task, is called: 3.0 is 3, which is how a column with empty cells holds it."""
    value = value.item() if isinstance(value, np.generic) else value
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def looks_like_numbers(names: Iterable[str]) -> bool:
    """Whether text is numbers that somebody's program took for text."""
    try:
        return all(np.isfinite(float(name)) for name in names)
    except ValueError:
        return False


def _complete(rows: Rows) -> Rows:
    for column, values in rows.values.items():
        rows.check(
            np.array([value is not None for value in values], dtype=bool),
            f"column {quoted(column)} of covariates is missing",
        )
    return rows


def _example(rows: Rows, column: str) -> str:
    return quoted(rows.values[column][0])


def _frame(table: Any) -> Any:
    """A data frame, also from a mapping of columns."""
    if isinstance(table, Mapping):
        try:
            return pd.DataFrame({name: list(values) for name, values in table.items()})
        except (TypeError, ValueError):
            raise InputError("covariates must be columns of one length, one value for each task.") from None
    try:
        nw.from_native(table, eager_only=True)
    except TypeError:
        raise InputError(
            f"covariates must be a data frame (pandas, polars, pyarrow, …) or a mapping of columns, not "
            f"{type(table).__name__}."
        ) from None
    return table


def _column_names(frame: Any) -> list[str]:
    return [str(name) for name in nw.from_native(frame, eager_only=True).columns]


def _check_known(wanted: Sequence[Any], columns: Sequence[str]) -> None:
    unknown = [name for name in wanted if name not in columns]
    if unknown:
        raise InputError(f"covariates: {unknown_names(unknown, columns, 'column')}")


def _found(frame: Any, used: Sequence[str]) -> pd.DataFrame:
    """The columns that are used, as pandas."""
    _check_known(used, _column_names(frame))
    return columns_of(frame, {name: name for name in used}, TABLE) if used else pd.DataFrame()


def _plain(
    found: pd.DataFrame, keeps_order: Callable[[str], bool]
) -> tuple[tuple[tuple[Any, ...], ...], tuple[tuple[str, ...] | None, ...]]:
    """Values and levels of columns."""
    read = [_column(found[name], name, keeps_order(name)) for name in map(str, found)]
    return tuple(values for values, _ in read), tuple(levels for _, levels in read)


def _orders(frame: Any) -> Callable[[str], bool]:
    """Whether the order of a column's categories is somebody's choice; in a polars Categorical it is an accident."""
    table = nw.from_native(frame, eager_only=True)
    is_pandas = table.implementation.is_pandas_like()
    return lambda name: is_pandas or isinstance(table.schema[name], nw.Enum)


def _column(column: pd.Series, name: str, keeps_order: bool) -> tuple[tuple[Any, ...], tuple[str, ...] | None]:
    """Plain values of a column, and its levels in order where it is no column of numbers."""
    missing = column.isna().to_numpy()
    is_category = isinstance(column.dtype, pd.CategoricalDtype)
    kind = pd.api.types.infer_dtype(column.astype(object) if is_category else column, skipna=True)
    if not is_category and kind in ("integer", "floating", "mixed-integer-float", "decimal"):
        plain = [float(value) if kind == "decimal" else _number(value) for value in column.where(~missing, 0)]
        return tuple(None if none else value for none, value in zip(missing, plain)), None
    if kind not in ("string", "boolean", "integer", "empty", "categorical", "floating"):
        raise InputError(
            f"column {quoted(name)} of covariates holds {kind.replace('64', '')} values. A covariate is a number, such "
            "as days since a date, or text that names a group."
        )
    texts = [None if none else level_name(value) for none, value in zip(missing, column)]
    if isinstance(column.dtype, pd.CategoricalDtype) and keeps_order:
        levels = tuple(map(level_name, column.cat.categories))
    else:
        levels = tuple(sorted({text for text in texts if text is not None}))
    return tuple(texts), levels


def _number(value: Any) -> int | float:
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, int) else float(value)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value
