"""Demonstrations, and where a sampler stands, as few small variables that a file can hold; and both again."""

import json
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from manymotives.data.demonstrations import Demonstrations
from manymotives.data.labels import Label
from manymotives.errors import InputError

GROUP = "demonstrations"  # of a posterior's data
WHOLE = ("task", "episode", "state", "action", "next_state")  # one small whole number a row


def plain_labels(labels: tuple[Label, ...]) -> list[Any]:
    """Labels that JSON can hold."""
    values = [label.item() if isinstance(label, np.generic) else label for label in labels]
    return [value if isinstance(value, str | int | float | bool) else str(value) for value in values]


def stored_demonstrations(demonstrations: Demonstrations) -> xr.Dataset:
    """One variable a column, one entry a step."""
    made: dict[str, Any] = {name: (("row",), _small(getattr(demonstrations, name))) for name in WHOLE}
    steps = demonstrations.step
    if steps.dtype == object:  # times with a time zone: as they are in Greenwich
        steps = pd.DatetimeIndex(pd.to_datetime(steps, utc=True)).tz_localize(None).to_numpy()
    kind = str(steps.dtype) if steps.dtype.kind in "mM" else ""
    made["step"] = (("row",), _small(steps.astype(np.int64)) if steps.dtype.kind in "mMiu" else steps, {"kind": kind})
    made["follows"] = (("row",), demonstrations.follows)
    # as text of any length: attributes of a file may not be long
    made["episodes"] = ((), json.dumps(plain_labels(demonstrations.episodes)))
    made["warnings"] = ((), json.dumps(demonstrations.warnings))
    return xr.Dataset(made)


def restored_demonstrations(data: xr.DataTree) -> Demonstrations:
    """What was fitted, with the names that the file has."""
    if GROUP not in data.children:
        raise InputError(
            "this posterior was saved by an earlier version, which kept the counts of choices but not the choices "
            "themselves. Fit again, and save that."
        )
    stored = data[GROUP].dataset
    step = stored["step"].values
    if kind := stored["step"].attrs["kind"]:
        step = step.astype(np.int64).astype(kind)
    elif step.dtype.kind in "iu":
        step = step.astype(np.int64)
    names: dict[str, Any] = {name: tuple(json.loads(data.attrs[name])) for name in ("tasks", "states", "actions")}
    columns: dict[str, Any] = {name: stored[name].values.astype(np.int64) for name in WHOLE}
    return Demonstrations(
        **names,
        **columns,
        episodes=tuple(json.loads(str(stored["episodes"].values))),
        step=step,
        follows=stored["follows"].values.astype(bool),
        warnings=tuple(json.loads(str(stored["warnings"].values))),
    )


def packed_state(state: dict[str, np.ndarray]) -> xr.Dataset:
    """Where a sampler stands, as one row of bytes: writing and reading a file takes as long as it has variables."""
    if not state:
        return xr.Dataset()
    arrays = {name: np.asarray(value) for name, value in state.items()}
    contents = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    everything = b"".join(array.tobytes() for array in arrays.values())
    return xr.Dataset(
        {"bytes": (("byte",), np.frombuffer(everything, dtype=np.uint8)), "contents": ((), json.dumps(contents))}
    )


def unpacked_state(stored: xr.Dataset) -> dict[str, np.ndarray]:
    """The same again; nothing, where nothing was stored."""
    if "bytes" not in stored:  # as earlier versions have it: a variable each
        return {str(name): np.asarray(values.values) for name, values in stored.data_vars.items()}
    everything, state, begin = stored["bytes"].values.tobytes(), {}, 0
    for name, kind, shape in json.loads(str(stored["contents"].values)):
        count = int(np.prod(shape))
        state[name] = np.frombuffer(everything, dtype=kind, count=count, offset=begin).reshape(shape).copy()
        begin += count * np.dtype(kind).itemsize
    if begin != len(everything):
        raise InputError("the state of the sampler has the wrong number of values")
    return state


def compressed(data: xr.DataTree) -> dict[str, Any]:
    """How to write them: long runs of equal numbers shrink to nearly nothing."""
    if GROUP not in data.children:
        return {}
    rows = [name for name, values in data[GROUP].data_vars.items() if values.dims]
    return {f"/{GROUP}": {name: {"compression": "gzip", "compression_opts": 4, "shuffle": True} for name in rows}}


def is_computed(values: xr.DataArray) -> bool:
    """Whether values are computed when they are read."""
    return values.chunks is not None


def without_computed(data: xr.DataTree) -> xr.DataTree:
    """What a file holds."""
    drawn = data["posterior"].to_dataset()
    computed = [name for name, values in drawn.data_vars.items() if is_computed(values)]
    if not computed:
        return data
    found = data.copy()
    found["posterior"] = xr.DataTree(drawn.drop_vars(computed))
    return found


def _small(values: np.ndarray) -> np.ndarray:
    """Whole numbers in the smallest type that has room for them."""
    if values.size == 0:
        return values.astype(np.int8)
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= values.min() and values.max() <= np.iinfo(kind).max:
            return values.astype(kind)
    return values.astype(np.int64)
