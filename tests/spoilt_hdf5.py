"""A sound run file in; the same with other contents out, by another program or by somebody who means harm."""

import hashlib
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import manymotives as mm
from manymotives.io.netcdf import LENGTH, LINE, MARK
from manymotives.io.records import record_of


def sealed(path: Path) -> None:
    """A right checksum for what is there: it is no secret how."""
    content = path.read_bytes()
    if content[-LENGTH:].startswith(b"\n" + MARK):
        content = content[:-LENGTH]
    digest = hashlib.blake2b(content, digest_size=32).hexdigest()
    path.write_bytes(content + LINE.format(mark=MARK.decode(), size=len(content), digest=digest).encode())


def in_hdf5(change: Callable[[np.random.Generator, h5py.File], Any], *, seal: bool = True) -> Callable[..., None]:
    """A change that knows what is in a file, and hides that there was one."""

    def spoil(rng: np.random.Generator, path: Path) -> None:
        with h5py.File(path, "r+") as file:
            change(rng, file)
        if seal:
            sealed(path)

    return spoil


def numbers_in(rng: np.random.Generator, file: h5py.File) -> str:
    """Some variable with real numbers that is always read."""
    found = [f"posterior/{name}" for name, kept in file["posterior"].items() if kept.dtype.kind == "f"]
    found += ["prior/reward", "log_likelihood/choices"]
    return str(rng.choice([name for name in found if file[name].shape and not h5py.h5ds.is_scale(file[name].id)]))


def needed_in(rng: np.random.Generator, file: h5py.File) -> str:
    """Some variable that no run is without."""
    constants = ["discount", "start", "is_terminal", "available", "transition_probability", "transition_row"]
    choices = ["task", "episode", "state", "action", "next_state", "step", "follows", "episodes", "warnings"]
    drawn = [
        f"posterior/{name}" for name in file["posterior"] if name in ("reward", "inverse_temperature", "policy_loss")
    ]
    return str(
        rng.choice(
            [*drawn, "prior/reward", "log_likelihood/choices", "observed_data/counts"]
            + [f"constant_data/{name}" for name in constants]
            + [f"demonstrations/{name}" for name in choices]
        )
    )


def remade(file: h5py.File, name: str, **given: Any) -> h5py.Dataset:
    """A variable anew, made in another way, with the dimensions that it had."""
    old = file[name]
    scales = [old.dims[k][0] if len(old.dims[k]) else None for k in range(old.ndim)]
    others = {word: value for word, value in old.attrs.items() if word.startswith("_")}
    del file[name]
    made = file.create_dataset(name, **given)
    for word, value in others.items():
        made.attrs[word] = value
    for k, scale in enumerate(scales[: made.ndim]):
        if scale is not None:
            made.dims[k].attach_scale(scale)
    return made


def elsewhere(rng: np.random.Generator, file: h5py.File) -> None:
    name, kind = numbers_in(rng, file), int(rng.integers(5))
    shape = file[name].shape
    if kind < 2:
        other = f"sound_{int(rng.integers(3))}.nc"
        del file[name]
        file[name] = h5py.ExternalLink(other, name) if kind else h5py.SoftLink("/prior/reward")
    elif kind == 2:
        remade(file, name, shape=shape, dtype="f8", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)])
    elif kind == 3:
        layout = h5py.VirtualLayout(shape=shape, dtype="f8")
        layout[...] = h5py.VirtualSource("sound_0.nc", name, shape=shape)
        del file[name]
        file.create_virtual_dataset(name, layout)
    else:
        file.move("posterior", "elsewhere")
        file["posterior"] = h5py.ExternalLink("sound_0.nc", "/posterior")


def huge(rng: np.random.Generator, file: h5py.File) -> None:
    name = numbers_in(rng, file)
    shape = (int(rng.choice([10**13, 10**9, 2**40])), *file[name].shape[1:])
    packed = {"chunks": (1000, *shape[1:]), "compression": "gzip"} if rng.random() < 0.5 else {}
    remade(file, name, shape=shape, dtype="f8", **packed)


def bomb(rng: np.random.Generator, file: h5py.File) -> None:
    """Eight gibibytes of zeros in eight megabytes."""
    width = 2**22
    made = remade(file, "demonstrations/state", shape=(256 * width,), dtype="i8", chunks=(width,), compression="gzip")
    chunk = zlib.compress(bytes(8 * width), 1)
    for k in range(256):
        made.id.write_direct_chunk((k * width,), chunk)


def texts(rng: np.random.Generator, path: Path) -> None:
    """A hundred thousand texts of a megabyte, which are all the same one."""
    with h5py.File(path, "r+") as file:
        made = remade(file, "demonstrations/episodes", shape=(100_000,), dtype=h5py.string_dtype())
        made[0] = "x" * 2**20
        made.dims[0].attach_scale(file["demonstrations/row"])
        begin = made.id.get_offset()
    content = bytearray(path.read_bytes())
    content[begin : begin + 16 * 100_000] = content[begin : begin + 16] * 100_000
    path.write_bytes(content)
    sealed(path)


def endless(rng: np.random.Generator, path: Path) -> None:
    """A collection of texts with an entry of no length, behind which HDF5 2.0 looks for the next one."""
    content = bytearray(path.read_bytes())
    begins = [at for at in range(0, len(content), 8) if content[at : at + 4] == b"GCOL"]
    begin = int(rng.choice(begins)) + 16
    content[begin : begin + 64] = bytes(64)
    path.write_bytes(content)
    sealed(path)


def other_type(rng: np.random.Generator, file: h5py.File) -> None:
    name, kind = numbers_in(rng, file), int(rng.integers(5))
    shape = file[name].shape
    if kind == 0:
        remade(file, name, data=np.full(shape, "1.0", dtype=object), dtype=h5py.string_dtype())
    elif kind == 1:
        remade(file, name, shape=shape, dtype=np.dtype([("a", "f8"), ("b", "i4")]))[...] = 0
    elif kind == 2:
        remade(file, name, shape=shape, dtype=h5py.vlen_dtype(np.float64))
    elif kind == 3:
        remade(file, name, shape=shape, dtype=h5py.ref_dtype)
    else:
        file[name].attrs["units"] = "days since 2000-01-01"


def missing(rng: np.random.Generator, file: h5py.File) -> None:
    name = needed_in(rng, file)
    if rng.random() < 0.5:
        file.move(name, f"{name}_2")
    else:
        del file[name]


def no_group(rng: np.random.Generator, file: h5py.File) -> None:
    del file[rng.choice(["posterior", "prior", "observed_data", "constant_data", "log_likelihood", "sampler"])]


def other_shape(rng: np.random.Generator, file: h5py.File) -> None:
    name = numbers_in(rng, file)
    shape = list(file[name].shape)
    k = int(rng.integers(2, len(shape))) if len(shape) > 2 else 0
    shape[k] += int(rng.choice([-1, 1, 1000]))
    remade(file, name, data=np.ones(shape))


def lying_dimension(rng: np.random.Generator, file: h5py.File) -> None:
    """A dimension longer than what is along it: readers may fill up the rest."""
    made = file["posterior"].create_dataset("long", shape=(10 ** int(rng.integers(5, 13)),), dtype=">f4")
    stop = "." if rng.random() < 0.7 else ""  # without it, it is a variable
    made.make_scale(f"This is a netCDF dimension but not a netCDF variable{stop}{made.size:10}")
    name = numbers_in(rng, file)
    k = int(rng.integers(file[name].ndim))
    file[name].dims[k].detach_scale(file[name].dims[k][0])
    file[name].dims[k].attach_scale(made)


def growing(rng: np.random.Generator, file: h5py.File) -> None:
    name = numbers_in(rng, file)
    remade(file, name, data=file[name][()], maxshape=(None,) * file[name].ndim)


def other_filter(rng: np.random.Generator, file: h5py.File) -> None:
    name = numbers_in(rng, file)
    remade(file, name, data=file[name][()], **[{"compression": "lzf"}, {"fletcher32": True}][int(rng.integers(2))])


def no_numbers(rng: np.random.Generator, file: h5py.File) -> None:
    values = file[numbers_in(rng, file)]
    flat = values[()].ravel()
    known = np.flatnonzero(np.isfinite(flat))
    is_likelihood = values.name.startswith("/log_likelihood") or values.name.endswith("gap")
    flat[rng.choice(known, size=int(rng.choice([1, len(known)])))] = rng.choice(
        [np.nan] if is_likelihood else [np.nan, np.inf, -np.inf]
    )
    values[...] = flat.reshape(values.shape)


def wrong_numbers(rng: np.random.Generator, file: h5py.File) -> None:
    """Indices and probabilities that lead out of their arrays."""
    name = str(
        rng.choice(
            [f"constant_data/{name}" for name in ("transition_next_state", "transition_row", "transition_probability")]
            + ["constant_data/discount", "constant_data/start", "observed_data/counts"]
            + [f"demonstrations/{name}" for name in ("task", "episode", "state", "action", "next_state")]
        )
    )
    values = file[name][()]
    wrong = rng.choice([np.nan, 2.0, -1.0]) if values.dtype.kind == "f" else rng.choice([100, -5, 127])
    if values.shape:
        values[int(rng.integers(len(values)))] = wrong
    else:
        values = values.dtype.type(wrong)
    file[name][...] = values


def words(rng: np.random.Generator, file: h5py.File) -> None:
    """Attributes that are not what they say."""
    name = str(rng.choice(["model", "method", "tasks", "states", "actions", "warnings"]))
    known = file.attrs[name]
    kind = int(rng.integers(7))
    if kind == 0:
        del file.attrs[name]
    else:
        file.attrs[name] = [
            None,
            known[: len(known) // 2],
            "[" * 100_000,
            '{"kind": "Softmax", "lapse": {"kind": "Nobody"}}',
            "7",
            7.5,
            '["ann", "ann", "ann", "ann"]' if name != "warnings" else "[1, 2]",
        ][kind]


def other_model(rng: np.random.Generator, file: h5py.File) -> None:
    """The description of one model, the numbers of another."""
    is_mpo = json.loads(file.attrs["model"])["kind"] == "PolicyOptimalityModel"
    model = mm.RewardPolicyModel() if is_mpo else mm.PolicyOptimalityModel()
    method = mm.HMC() if is_mpo else mm.OptimalityMonteCarlo()
    file.attrs["model"] = json.dumps(record_of(model))
    if rng.random() < 0.5:
        file.attrs["method"] = json.dumps(record_of(method))


def other_prior(rng: np.random.Generator, file: h5py.File) -> None:
    """The same model in another form, which has other variables."""
    file.attrs["model"] = json.dumps(record_of(mm.RewardPolicyModel(mm.BetaReward(), mm.SoftOptimal(), mm.Separate())))


def sampler(rng: np.random.Generator, file: h5py.File) -> None:
    """Where the sampler stands, with other sizes and types than there are bytes for."""
    if "contents" not in file["sampler"]:
        return other_model(rng, file)
    contents = json.loads(file["sampler/contents"].asstr()[()])
    entry = contents[int(rng.integers(len(contents)))]
    kind = int(rng.integers(4))
    entry[kind % 3 if kind < 3 else 2] = ["lost", "O", [10**12], [-1, 3]][kind]
    if kind == 0:
        contents.append(["more", "<f8", [3]])
    file["sampler/contents"][...] = json.dumps(contents)
    return None


def tangled(rng: np.random.Generator, file: h5py.File) -> None:
    """Links in circles, groups in groups, thousands of members."""
    kind = int(rng.integers(6))
    if kind == 0:
        file["posterior/again"] = file["/"]
    elif kind == 1:
        file["posterior/again"] = h5py.SoftLink("/posterior/again")
    elif kind == 2:
        group = file["posterior"]
        for _ in range(600):
            group = group.create_group("in")
    elif kind == 3:
        for k in range(3000):
            file["prior"].create_group(f"g{k}")
    elif kind == 4:
        for k in range(500):
            file["prior"].attrs[f"a{k}"] = k
    else:
        file["posterior/kind"] = np.dtype("f8")


def enormous(rng: np.random.Generator, file: h5py.File) -> None:
    """Attributes of megabytes, or in one more group: odd, but readable."""
    kind = int(rng.integers(3))
    if kind == 0:
        file.attrs["note"] = "x" * 20_000_000
    elif kind == 1:
        file.attrs.create("many", np.zeros(8000))
    else:
        file.create_group("extra").attrs["note"] = "hello"


def edited(rng: np.random.Generator, file: h5py.File) -> None:
    """What a person might do, with the best of intentions."""
    if rng.random() < 0.5:
        file.attrs["note"] = "a good run"
    else:
        file["posterior/reward"][0, 0] = 0.5
