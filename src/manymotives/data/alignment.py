"""Arrays with labels in (pandas, xarray, any data frame), arrays in the library's order out; others go by position."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow
import xarray as xr

from manymotives.data.labels import Label, unknown_names
from manymotives.errors import InputError, quoted


class Labelled(NamedTuple):
    """An array, what its axes are called, and the names along each; None where positions are all there is."""

    values: np.ndarray
    dims: tuple[str | None, ...]
    labels: tuple[list[Label] | None, ...]


def aligned(values: Any, what: str, **axes: Sequence[Label] | None) -> Any:
    """Values whose last axes are in the order of `axes`, by the labels they have: `state=…, action=…`.

    A pandas index other than 0, 1, 2, …, columns of a data frame and coordinates of xarray are labels; they must be the
    same as those asked for, in any order (numbers may be written as text). Dimensions of xarray are found by name.
    What has no labels, JAX's arrays among it, is returned as it is. None: this axis may have any labels. A single task
    needs no axis `task`.
    """
    if isinstance(values, list | tuple) and any(map(is_labelled, values)):
        return np.stack([np.asarray(aligned(each, what, **axes)) for each in values])
    if not is_labelled(values):
        return values
    array, _, labels = labelled(values, *axes)
    if array.ndim == len(axes) - 1 and "task" in axes:
        axes.pop("task")  # a single task
    if array.ndim < len(axes):
        return array  # too few axes: whoever asked says so
    for position, (name, wanted) in enumerate(axes.items(), array.ndim - len(axes)):
        theirs = labels[position]
        if wanted is None or theirs is None:
            continue
        order = order_of(theirs, wanted, name, what, others=[each for each in labels if each is not theirs])
        array = array if order is None else np.take(array, order, axis=position)
    return array


def aligned_numbers(values: Any, what: str, **axes: Sequence[Label] | None) -> np.ndarray:
    """The same as an array of floating-point numbers of our own."""
    try:
        return np.array(aligned(values, what, **axes), dtype=np.float64)
    except InputError:
        raise
    except (TypeError, ValueError):
        raise InputError(f"{what} must be numbers, in an array or in lists of equal lengths.") from None


def order_of(
    labels: Sequence[Label], wanted: Sequence[Label], name: str, what: str, others: Sequence[Any] = ()
) -> np.ndarray | None:
    """Where each wanted label stands among those found; None where these are just 0, 1, 2, … of other things."""
    if len(set(labels)) < len(labels):
        twice = next(label for number, label in enumerate(labels) if label in labels[:number])
        raise InputError(f"{what}: the label {quoted(twice)} stands for more than one {name}. Labels must differ.")
    for form in (lambda label: label, str):
        number = {form(label): position for position, label in enumerate(labels)}
        if len(number) == len(labels) == len(wanted) and all(form(label) in number for label in wanted):
            return np.array([number[form(label)] for label in wanted])
    if list(labels) == list(range(len(labels))):
        return None
    texts = set(map(str, wanted))
    hint = ""
    if any(each is not None and set(map(str, each)) == texts for each in others):
        hint = " Another axis has these labels; transpose the array."
    unknown = [label for label in labels if str(label) not in texts]
    if unknown:
        found = unknown_names(unknown, wanted, name)
    else:
        missing = next(label for label in wanted if str(label) not in set(map(str, labels)))
        found = f"the {name} {quoted(missing)} has no label."
    raise InputError(
        f"{what}: {found}{hint} Use the environment's names as labels, or give numbers without labels "
        "(.to_numpy()) in its order."
    )


def labelled(values: Any, *last: str) -> Labelled:
    """Any of the things that have labels, taken apart; dimensions of these names come last."""
    if isinstance(values, xr.DataArray):
        named = [dim for dim in last if dim in values.dims]
        if named and set(last) - {"task"} <= set(named):
            values = values.transpose(..., *named)
        dims = tuple(map(str, values.dims))
        labels = tuple(_plain(values.indexes[dim]) if dim in values.indexes else None for dim in values.dims)
        return Labelled(values.values, dims, labels)
    if not isinstance(values, pd.Series | pd.DataFrame):
        names = [str(name) for name in getattr(values, "column_names", None) or values.columns]
        if hasattr(values, "rename_columns"):  # of Arrow's tables, which allow names that come twice
            values = values.rename_columns([str(position) for position in range(len(names))])
        nameless = names == [f"column_{position}" for position in range(len(names))]  # as polars calls them
        return Labelled(_cells(values), (None, None), (None, None if nameless else list[Label](names)))
    axes = (values.index,) if isinstance(values, pd.Series) else (values.index, values.columns)
    return Labelled(
        _cells(values), (None,) * len(axes), tuple(None if is_default(axis) else _plain(axis) for axis in axes)
    )


def _cells(frame: Any) -> np.ndarray:
    """What stands in a data frame of any library, or in a series of pandas."""
    try:
        if not isinstance(frame, pd.Series | pd.DataFrame):
            frame = nw.from_native(frame, eager_only=True).to_pandas()
        return np.asarray(frame.to_numpy())
    except (pyarrow.ArrowException, ValueError, OverflowError):  # such as times that no calendar has
        raise InputError(
            "a data frame has a column of a type that cannot be read as numbers. Convert it to Float64."
        ) from None


def is_default(index: pd.Index) -> bool:
    """Whether pandas made this index itself: 0, 1, 2, …"""
    return isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1


def is_labelled(values: Any) -> bool:
    """Whether something may have names along its axes."""
    if isinstance(values, float | int | list | tuple | np.ndarray):
        return False
    return isinstance(values, pd.Series | pd.DataFrame | xr.DataArray) or nw.dependencies.is_into_dataframe(values)


def _plain(index: pd.Index) -> list[Label]:
    return [name.item() if isinstance(name, np.generic) else name for name in index]
