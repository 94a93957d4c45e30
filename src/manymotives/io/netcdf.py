"""A tree of datasets to a netCDF file with a checksum; and back, if the file is as it was written.

The checksum is one line of text behind the HDF5 part: BLAKE2b of every byte before it. Programs that read netCDF do not
see it, those that change the file cut it off, and an attribute says that there must be one. It is compared before HDF5
looks at the file. A checksum finds damage, not malice: whoever writes a file can write a checksum. So links, storage,
types and declared sizes are looked at before anything is read.
"""

import hashlib
import math
import os
import struct
from typing import Any

import h5py
import numpy as np
import xarray as xr

from manymotives.errors import InputError
from manymotives.io.hdf5 import is_only_a_dimension, read_groups, write_groups

MARK = b"manymotives checksum"
ATTRIBUTE = "checksum"  # of the root: that the file has one
LINE = "\n{mark} of the {size:020d} bytes before this line: {digest}\n"
LENGTH = len(LINE.format(mark=MARK.decode(), size=0, digest="0" * 64))
SIGNATURE = b"\x89HDF\r\n\x1a\n"

LARGEST_EXPANSION = 2**30  # bytes that compressed variables may take beyond those of the file
DEFLATE = 1100  # no compression by zlib is better than 1032 to 1
MOST_OBJECTS, MOST_ATTRIBUTES = 2_000, 200  # ours have about a hundred, and ten each
HEAP = b"GCOL\x01\0\0\0"  # how a collection of texts begins
ENTRY = struct.Struct("<H6xQ")  # in it, before each text: its number, and how long it is
VLEN_BYTES = 16  # an entry of text in a file: its length, and where it is
FILTERS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE}
NUMBERS = {h5py.h5t.INTEGER, h5py.h5t.FLOAT, h5py.h5t.ENUM}


class _Refused(Exception):
    """What is wrong with a file, as the end of a sentence."""


def write_tree(data: xr.DataTree, path: str | os.PathLike[str], storage: dict[str, Any]) -> None:
    """Everything to one file, whose last line is its checksum; `storage` as for `write_groups`."""
    marked = data.copy()
    marked.attrs = dict(data.attrs) | {ATTRIBUTE: f"{MARK.decode()}: the last line of this file, after the HDF5 part"}
    write_groups(marked, path, storage)
    with open(path, "r+b") as file:
        digest = _digest(file)
        file.write(LINE.format(mark=MARK.decode(), size=file.tell(), digest=digest).encode())


def read_tree(path: str | os.PathLike[str]) -> tuple[xr.DataTree, bool]:
    """What `write_tree` wrote, all of it in memory; and whether it has a checksum: files of version 0.1 have none."""
    name = repr(str(path))
    with open(path, "rb") as file:
        if file.read(len(SIGNATURE)) != SIGNATURE:
            raise InputError(f"{name} is not a posterior saved by manymotives.")
        has_checksum = _compared(file, name)
    try:
        _check_heaps(path)
        with h5py.File(path, "r") as opened:
            _check_contents(opened, os.path.getsize(path), path)
            data = read_groups(opened)
    except _Refused as found:
        raise InputError(f"{name} is not read: {found}") from None
    except Exception as error:  # whatever HDF5, h5py and xarray say of bytes that nobody meant
        raise unreadable(path, error) from None
    data.attrs.pop(ATTRIBUTE, None)
    return data, has_checksum


def unreadable(path: str | os.PathLike[str], error: Exception) -> InputError:
    """The sentence for a file that holds something else than a run."""
    said = (str(error).strip().splitlines() or [""])[0][:200].rstrip(".")
    reason = said if isinstance(error, InputError) and said else f"{type(error).__name__}{f', {said}' if said else ''}"
    return InputError(f"{str(path)!r} is damaged, or is not a posterior saved by manymotives: {reason}.")


# ---- the checksum ------------------------------------------------------------------------------------------


def _compared(file: Any, name: str) -> bool:
    """Whether a file has a checksum, if it is the right one."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - LENGTH))
    line = file.read()
    if not line.startswith(b"\n" + MARK):
        file.seek(0)
        if not _positions(file, MARK):
            return False
        raise _changed(name, "has lost its checksum")
    file.seek(0)
    digest = _digest(file, size - LENGTH)
    if line != LINE.format(mark=MARK.decode(), size=size - LENGTH, digest=digest).encode():
        raise _changed(name, "no longer matches its checksum")
    return True


def _changed(name: str, what: str) -> InputError:
    return InputError(
        f"{name} is damaged, or was changed after it was written: it {what}. Use an unchanged copy, or fit again."
    )


def _digest(file: Any, size: int | None = None) -> str:
    """BLAKE2b of the bytes of a file from where it stands; of the first so many."""
    made, left = hashlib.blake2b(digest_size=32), math.inf if size is None else size
    while left > 0 and (part := file.read(int(min(left, 2**20)))):
        made.update(part)
        left -= len(part)
    return made.hexdigest()


# ---- what is in it -----------------------------------------------------------------------------------------


def _check_heaps(path: str | os.PathLike[str]) -> None:
    """Raise unless every entry of a collection of texts ends behind its beginning: HDF5 2.0 would search forever."""
    with open(path, "rb") as file:
        for begin in _positions(file, HEAP):
            file.seek(begin + len(HEAP))
            size = int.from_bytes(file.read(8), "little") - 16
            content = file.read(min(size, LARGEST_EXPANSION)) if size > 0 else b""
            position = 0
            while position + ENTRY.size <= len(content):
                number, length = ENTRY.unpack_from(content, position)
                step = ENTRY.size + -(-length // 8) * 8 if number else length  # what is free counts its own entry
                if step < ENTRY.size or position + step > len(content):
                    raise _Refused("its texts are damaged.")
                position += step


def _positions(file: Any, mark: bytes) -> list[int]:
    """Where some bytes occur in a file."""
    found, begin, before = [], 0, b""
    while part := file.read(2**20):
        content = before + part
        position = content.find(mark)
        while position >= 0:
            found.append(begin - len(before) + position)
            position = content.find(mark, position + 1)
        begin, before = begin + len(part), content[1 - len(mark) :]
    return found


def _check_contents(file: h5py.File, size: int, path: Any) -> None:
    """Raise unless groups, variables and attributes are such as a run has, and fit in the file."""
    groups, variables = [(file.id, "/")], []
    for group, position in groups:  # grows: the root's groups, and no further
        if group.get_num_objs() > MOST_OBJECTS:
            raise _Refused(f"group {position!r} has {group.get_num_objs():,} members.")
        for link in group:
            where = position + link.decode(errors="replace")
            if group.links.get_info(link).type != h5py.h5l.TYPE_HARD:
                raise _Refused(f"{where!r} is a link to another place or file. Copy its contents into the file.")
            kind = h5py.h5o.get_info(group, link).type
            if kind == h5py.h5o.TYPE_DATASET and position != "/":
                variables.append((h5py.h5d.open(group, link), where))
            elif kind == h5py.h5o.TYPE_GROUP and position == "/":
                groups.append((h5py.h5g.open(group, link), f"{where}/"))
            else:
                raise _Refused(f"{where!r} is not part of a run file, which has groups and variables within them.")
            if len(groups) + len(variables) > MOST_OBJECTS:
                raise _Refused(f"it has more than {MOST_OBJECTS:,} groups and variables.")
    text = plain = packed = 0
    with open(path, "rb") as raw:
        for variable, where in variables:
            found = _checked_variable(variable, where, size)
            text += _bytes_of_text(variable, where, raw)
            plain, packed = plain + found[0], packed + found[1]
    text += sum(_bytes_of_attributes(each, where, size) for each, where in (*groups, *variables))
    if plain > size or text > size:
        raise _Refused(
            f"its variables overlap: together they declare {plain + text:,} bytes, but the file has {size:,}."
        )
    if packed > LARGEST_EXPANSION:
        raise _Refused(f"its compressed variables would take {packed:,} bytes; the most is {LARGEST_EXPANSION:,}.")


def _checked_variable(variable: Any, where: str, size: int) -> tuple[int, int]:
    """Bytes of a variable that lie in the file as they are, and bytes of one that is compressed."""
    made, kind, shape = variable.get_create_plist(), variable.get_type(), variable.shape
    if made.get_layout() == h5py.h5d.VIRTUAL or made.get_external_count():
        raise _Refused(f"the numbers of {where!r} lie in another file. Copy them into this one.")
    filters = {made.get_filter(k)[0] for k in range(made.get_nfilters())}
    if not filters <= FILTERS:
        raise _Refused(f"{where!r} is compressed in a way that is not used in run files.")
    if kind.get_class() not in NUMBERS | {h5py.h5t.STRING}:
        raise _Refused(f"{where!r} has neither numbers nor text.")
    space = variable.get_space()
    if space.get_simple_extent_type() == h5py.h5s.NULL:
        raise _Refused(f"{where!r} is empty.")
    if space.get_simple_extent_dims(True) != shape:
        raise _Refused(f"{where!r} has an unlimited length, which is not used in run files.")
    if shape and not (h5py.h5a.exists(variable, b"CLASS") or h5py.h5a.exists(variable, b"DIMENSION_LIST")):
        raise _Refused(f"{where!r} has dimensions without names.")
    declared, stored = math.prod(shape) * kind.get_size(), variable.get_storage_size()
    if is_only_a_dimension(variable):
        return 0, 0
    if filters:
        if declared > DEFLATE * stored + 2**16 or any(c > n for c, n in zip(made.get_chunk(), shape)):
            raise _Refused(f"{where!r} declares {declared:,} bytes, and {stored:,} compressed bytes cannot hold them.")
        return 0, declared
    if declared > min(stored, size):
        raise _Refused(f"{where!r} declares {declared:,} bytes, and the file has {min(stored, size):,} for them.")
    return declared, 0


def _bytes_of_text(variable: Any, where: str, raw: Any) -> int:
    """How long all texts of a variable are together, from the lengths in the file: several may share one place."""
    kind = variable.get_type()
    if kind.get_class() != h5py.h5t.STRING or not kind.is_variable_str():
        return 0
    count, begin = math.prod(variable.shape), variable.get_offset()
    if count == 0:
        return 0
    if begin is None:
        raise _Refused(f"{where!r} has text in a form that is not used in run files.")
    raw.seek(begin)
    entries = raw.read(count * VLEN_BYTES)
    if len(entries) < count * VLEN_BYTES:
        raise _Refused(f"{where!r} lies beyond the end of the file.")
    return int(np.frombuffer(entries, dtype="<u4").reshape(count, -1)[:, 0].sum(dtype=np.int64))


def _bytes_of_attributes(owner: Any, where: str, size: int) -> int:
    """How long all attributes of a group or variable are together, each of them small enough to be read."""
    count, length = h5py.h5a.get_num_attrs(owner), 0
    if count > MOST_ATTRIBUTES:
        raise _Refused(f"{where!r} has {count:,} attributes.")
    for k in range(count):
        attribute = h5py.h5a.open(owner, index=k)
        stored = attribute.get_storage_size()
        if stored > size:
            raise _Refused(f"an attribute of {where!r} declares {stored:,} bytes, and the file has {size:,}.")
        length += stored
        if stored % VLEN_BYTES:
            continue
        kind = attribute.get_type()
        if kind.get_class() == h5py.h5t.STRING and kind.is_variable_str():
            if stored != VLEN_BYTES:
                raise _Refused(f"an attribute of {where!r} is a list of texts, which is not used in run files.")
            found = np.empty(attribute.shape, dtype=attribute.dtype)
            attribute.read(found)
            length += len(found.item() or b"")
    return length
