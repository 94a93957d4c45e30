"""Models and methods as plain dictionaries and back: what a file can hold and another version can read."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import xarray as xr

from manymotives.data.alignment import is_labelled, labelled
from manymotives.errors import InputError

NAMED = "distribution: "  # in a file, before the name of something that it cannot hold
LABELLED, SPARSE, BY_NAME = "labelled array", "sparse array", "by name"
SPARSE_PARTS = (("data", float), ("indices", np.int64), ("indptr", np.int64))
ADDED_LATER = {"added later": True}  # of a field: left out where it is the default, so that older files are the same
RENAMED = {("HMC", "patience"): "max_rounds"}  # settings as files of earlier versions call them, and as they are called


class Recorded:
    """A frozen object of settings that files can hold: every subclass is found again by its name."""

    _subclasses: ClassVar[dict[str, type]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        Recorded._subclasses.setdefault(cls.__name__, cls)


def recorded_kinds() -> dict[str, type]:
    """The classes that a file may name."""
    return {name: kind for name, kind in Recorded._subclasses.items() if is_dataclass(kind)}


def record_of(thing: Any) -> Any:
    """Nested dictionaries, lists and numbers for a frozen object of settings."""
    if is_dataclass(thing) and not isinstance(thing, type):
        return {"kind": type(thing).__name__} | {
            field.name: record_of(getattr(thing, field.name))
            for field in fields(thing)
            if not (field.metadata == ADDED_LATER and getattr(thing, field.name) == field.default)
        }
    if is_labelled(thing):
        values, dims, labels = labelled(thing)
        if any(names is not None for names in labels):
            return {
                "kind": LABELLED,
                "values": values.tolist(),
                "dims": list(dims),
                "labels": [None if names is None else list(map(_plain, names)) for names in labels],
            }
    if isinstance(thing, Mapping) and not is_labelled(thing):  # such as features of each environment
        return {"kind": BY_NAME, "names": [_plain(name) for name in thing], "of": [*map(record_of, thing.values())]}
    if sp.issparse(thing):
        rows = sp.csr_array(thing)
        parts = {name: getattr(rows, name).tolist() for name in ("data", "indices", "indptr")}
        return {"kind": SPARSE, "shape": list(rows.shape)} | parts
    if hasattr(thing, "__array__") and not isinstance(thing, np.generic):  # NumPy, pandas, JAX
        return np.asarray(thing).tolist()
    if isinstance(thing, np.generic):
        return thing.item()
    if isinstance(thing, list | tuple):
        return [record_of(each) for each in thing]
    if thing is None or isinstance(thing, str | int | float):
        return thing
    return NAMED + name_of(thing)


def name_of(thing: Any) -> str:
    """What a file holds of something that it cannot hold, such as a function."""
    if hasattr(thing, "dist") and hasattr(thing, "kwds"):  # a frozen distribution of scipy.stats
        given = [*map(repr, thing.args), *(f"{word}={value!r}" for word, value in thing.kwds.items())]
        return f"scipy.stats.{thing.dist.name}({', '.join(given)})"
    return str(getattr(thing, "__qualname__", repr(thing)))


def from_record(record: Any) -> Any:
    """The object again."""
    if isinstance(record, dict):
        kind = record.get("kind")
        if kind == LABELLED:
            return _labelled(record)
        if kind == SPARSE:
            return _sparse(record)
        if kind == BY_NAME:
            return dict(zip(record["names"], map(from_record, record["of"])))
        kinds = recorded_kinds()
        if kind not in kinds:
            raise InputError(f"this file holds a {kind!r}, which this version of manymotives does not know.")
        given = {
            RENAMED.get((kind, name), str(name)): from_record(value) for name, value in record.items() if name != "kind"
        }
        try:
            return kinds[kind](**given)
        except TypeError:
            raise InputError(
                f"this file holds a {kind} with settings that this version of manymotives does not know."
            ) from None
    if isinstance(record, list):
        return [from_record(each) for each in record]
    return record


def _labelled(record: dict[str, Any]) -> xr.DataArray:
    """An array with the labels that it had; labels of several parts are lists in a file."""
    dims = [dim or f"axis_{position}" for position, dim in enumerate(record["dims"])]
    coordinates = {}
    for dim, labels in zip(dims, record["labels"]):
        if labels is not None:
            coordinates[dim] = np.empty(len(labels), dtype=object)
            coordinates[dim][:] = [tuple(label) if isinstance(label, list) else label for label in labels]
    return xr.DataArray(np.asarray(record["values"], dtype=float), dims=dims, coords=coordinates)


def _sparse(record: dict[str, Any]) -> sp.csr_array:
    """A sparse array again; what is none is refused."""
    try:
        parts = tuple(np.asarray(record[name], dtype=kind) for name, kind in SPARSE_PARTS)
        found = sp.csr_array(parts, shape=tuple(record["shape"]))
        found.check_format(full_check=True)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError("this file holds a sparse array whose parts do not fit together.") from None
    return found


def _plain(label: Any) -> Any:
    """A label as a file can hold it; what is no text, number or tuple of them, as text."""
    if isinstance(label, tuple):
        return list(map(_plain, label))
    return label if label is None or isinstance(label, str | int | float) else str(label)
