"""A tree of datasets as netCDF-4, written and read with h5py alone.

xarray and h5netcdf look up every dimension by its path, again and again: for the hundred small variables of a run they
take ten times as long. What xarray makes of times, texts and missing values (the CF conventions) is left to it.
"""

from typing import Any

import h5py
import numpy as np
import xarray as xr
from xarray.conventions import cf_encoder, encode_dataset_coordinates

NOT_A_VARIABLE = b"This is a netCDF dimension but not a netCDF variable."  # only a name and a length
INTERNAL = {  # attributes by which netCDF-4 says what belongs together
    *("CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST"),
    *("_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties", "_nc3_strict"),
}


def write_groups(data: xr.DataTree, path: Any, storage: dict[str, Any]) -> None:
    """The root's attributes, and each of its children as a group.

    `storage` has what h5py is told of how variables are kept: `{"/group": {"variable": {"compression": "gzip"}}}`.
    """
    number = 0
    with h5py.File(path, "w", track_order=True) as file:
        file.attrs["_NCProperties"] = np.bytes_(f"version=2,hdf5={h5py.version.hdf5_version},h5py={h5py.__version__}")
        _set_attributes(file, data.attrs)
        for node in data.children.values():
            group = file.create_group(node.path, track_order=True)
            number += _write_group(group, node.to_dataset(inherit=False), storage.get(node.path, {}), number)


def _write_group(group: Any, data: xr.Dataset, storage: dict[str, Any], first: int) -> int:
    """Variables and their dimensions, which are counted through the file from `first` on; how many they are."""
    variables, attributes = cf_encoder(*encode_dataset_coordinates(data))
    _set_attributes(group, attributes)
    written = {name: _written(group, name, each, storage.get(name, {})) for name, each in variables.items()}
    scales = {}
    for number, (name, length) in enumerate(data.sizes.items(), first):
        if name in written and variables[name].dims != (name,):
            raise ValueError(f"{name!r} is a dimension, and a variable with others")
        scale = written.get(name) or group.create_dataset(name, (length,), ">f4", track_order=True)
        scale.make_scale(name if name in written else NOT_A_VARIABLE + f"{length:10}".encode())
        scale.attrs["_Netcdf4Dimid"] = np.int32(number)
        scales[name] = number, scale
    for name, variable in variables.items():
        if variable.dims:
            written[name].attrs["_Netcdf4Coordinates"] = np.array(
                [scales[dimension][0] for dimension in variable.dims], np.int32
            )
        for axis, dimension in enumerate(variable.dims if name not in scales else ()):
            h5py.h5ds.attach_scale(written[name].id, scales[dimension][1].id, axis)
    return len(scales)


def _written(group: Any, name: Any, variable: xr.Variable, storage: dict[str, Any]) -> Any:
    """One variable with its attributes, but without its dimensions."""
    values = np.asarray(variable.values)
    is_text = values.dtype.kind in "OUT"
    made = group.create_dataset(
        name,
        data=values.astype(object) if is_text else values,
        dtype=h5py.string_dtype() if is_text else values.dtype,
        fillvalue=variable.attrs.get("_FillValue"),
        track_order=True,
        **(storage if values.size else {}),
    )
    _set_attributes(made, variable.attrs)
    return made


def _set_attributes(owner: Any, attributes: Any) -> None:
    for name, value in attributes.items():
        owner.attrs[name] = value if isinstance(value, str) else np.atleast_1d(value)


def read_groups(file: h5py.File) -> xr.DataTree:
    """What `write_groups` wrote, all of it in memory."""
    found = {"/": xr.Dataset(attrs=_attributes(file))}
    for place, group in file.items():
        variables = {
            name: xr.Variable(_dimensions(stored), _values(stored), _attributes(stored))
            for name, stored in group.items()
            if not is_only_a_dimension(stored.id)
        }
        found[f"/{place}"] = xr.decode_cf(xr.Dataset(variables, attrs=_attributes(group))).load()
    return xr.DataTree.from_dict(found)


def is_only_a_dimension(variable: Any) -> bool:
    """Whether something in a file is a name and a length, and nothing else; takes h5py's low-level object."""
    if not h5py.h5a.exists(variable, b"NAME"):
        return False
    name = h5py.h5a.open(variable, b"NAME")
    if name.get_type().get_class() != h5py.h5t.STRING or name.get_type().is_variable_str() or name.shape != ():
        raise ValueError("the name of a dimension is not text")
    found = np.empty((), dtype=name.dtype)
    name.read(found)
    return bool(found.item().startswith(NOT_A_VARIABLE))


def _dimensions(stored: h5py.Dataset) -> tuple[str, ...]:
    """Their names: a variable with a scale's name is its own dimension, any other points to its scales."""
    where, _, itself = stored.name.rpartition("/")
    if h5py.h5ds.is_scale(stored.id):
        return (itself,)
    dimensions = []
    for axis, length in enumerate(stored.shape):
        scale = stored.dims[axis][0]
        folder, _, name = scale.name.rpartition("/")
        if folder != where or scale.shape != (length,):
            raise ValueError(f"{stored.name!r} has the shape {stored.shape}, dimension {scale.name!r} {scale.shape}")
        dimensions.append(name)
    return tuple(dimensions)


def _values(stored: h5py.Dataset) -> Any:
    kind = h5py.check_string_dtype(stored.dtype)
    return stored[()] if kind is None else np.asarray(stored.asstr()[()], dtype=str)


def _attributes(owner: Any) -> dict[str, Any]:
    """As netCDF has them: a list of one is that one."""
    found = {name: owner.attrs[name] for name in owner.attrs if name not in INTERNAL}
    return {
        name: value[0] if isinstance(value, np.ndarray) and value.shape == (1,) else value
        for name, value in found.items()
    }
