"""A sound run file in; the same damaged by accident, or written by somebody who means harm."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from manymotives.io.netcdf import LENGTH, MARK
from spoilt_hdf5 import (
    bomb,
    edited,
    elsewhere,
    endless,
    enormous,
    growing,
    huge,
    in_hdf5,
    lying_dimension,
    missing,
    no_group,
    no_numbers,
    other_filter,
    other_model,
    other_prior,
    other_shape,
    other_type,
    sampler,
    sealed,
    tangled,
    texts,
    words,
    wrong_numbers,
)

REFUSED, SAME, ANY = "refused", "refused, or as it was", "refused, or read"  # what must come of a file


class Case(NamedTuple):
    """One way to spoil a file."""

    spoil: Callable[[np.random.Generator, Path], None]
    must: str


# ---- damaged by accident -----------------------------------------------------------------------------------


def in_bytes(change: Callable[[np.random.Generator, bytearray], bytearray | None]) -> Callable[..., None]:
    """Damage that knows nothing of what is in a file."""

    def spoil(rng: np.random.Generator, path: Path) -> None:
        content = bytearray(path.read_bytes())
        path.write_bytes(change(rng, content) or content)

    return spoil


def place(rng: np.random.Generator, content: bytearray, width: int) -> slice:
    """Somewhere; often among the names and sizes at the beginning, or at the end."""
    most = max(1, len(content) - width)
    begin = int(rng.choice([rng.integers(most), rng.integers(min(most, 20_000)), most - rng.integers(min(most, 300))]))
    return slice(begin, begin + width)


def flip(rng: np.random.Generator, content: bytearray) -> None:
    for _ in range(int(rng.choice([1, 1, 3]))):
        content[place(rng, content, 1).start] ^= 1 << int(rng.integers(8))


def zero(rng: np.random.Generator, content: bytearray) -> None:
    width = int(rng.choice([1, 8, 64, 512, 4096, 65536]))
    content[place(rng, content, width)] = bytes(width)


def scribble(rng: np.random.Generator, content: bytearray) -> None:
    width = int(rng.choice([4, 64, 512, 4096]))
    content[place(rng, content, width)] = rng.bytes(width)


def truncate(rng: np.random.Generator, content: bytearray) -> bytearray:
    return content[: int(rng.choice([rng.integers(len(content)), len(content) - rng.integers(1, 2 * LENGTH)]))]


def swap(rng: np.random.Generator, content: bytearray) -> None:
    width = int(rng.choice([64, 512, 4096]))
    one, other = (width * int(k) for k in rng.choice(len(content) // width, size=2, replace=False))
    first, second = content[one : one + width], content[other : other + width]
    content[one : one + width], content[other : other + width] = second, first


def drop(rng: np.random.Generator, content: bytearray) -> None:
    del content[place(rng, content, int(rng.choice([1, 512, 4096])))]


def append(rng: np.random.Generator, content: bytearray) -> bytearray:
    return content + rng.bytes(int(rng.choice([1, LENGTH, 5000])))


def last_line(rng: np.random.Generator, content: bytearray) -> bytearray:
    """Without its checksum, as a program that changes the file would leave it."""
    return content[:-LENGTH]


# ---- damaged on purpose: contents (`spoilt_hdf5.py`), or bytes under a checksum that is right ---------------


def resealed(rng: np.random.Generator, path: Path) -> None:
    """Damage under a right checksum: HDF5 sees it all. It may be to numbers, which nobody can tell."""
    in_bytes([flip, zero, scribble, swap][int(rng.integers(4))])(rng, path)
    sealed(path)


def old_and_damaged(rng: np.random.Generator, path: Path) -> None:
    """The same in a file of version 0.1, which has no checksum."""
    path.write_bytes(path.read_bytes()[:-LENGTH].replace(MARK, bytes(len(MARK))))
    in_bytes([flip, zero, scribble, truncate][int(rng.integers(4))])(rng, path)


BY_ACCIDENT = {
    name: Case(in_bytes(change), SAME)
    for name, change in {
        "bits flipped": flip,
        "a block of zeros": zero,
        "a block of anything": scribble,
        "truncated": truncate,
        "blocks swapped": swap,
        "a block missing": drop,
        "more at the end": append,
        "no checksum": last_line,
    }.items()
}
ON_PURPOSE = {
    "links and storage elsewhere": Case(in_hdf5(elsewhere), REFUSED),
    "huge sizes": Case(in_hdf5(huge), REFUSED),
    "a bomb": Case(in_hdf5(bomb), REFUSED),
    "a bomb of texts": Case(texts, REFUSED),
    "texts without end": Case(endless, REFUSED),
    "other types": Case(in_hdf5(other_type), REFUSED),
    "variables missing": Case(in_hdf5(missing), REFUSED),
    "a group missing": Case(in_hdf5(no_group), REFUSED),
    "other shapes": Case(in_hdf5(other_shape), REFUSED),
    "dimensions that lie": Case(in_hdf5(lying_dimension), REFUSED),
    "sizes that grow": Case(in_hdf5(growing), REFUSED),
    "other filters": Case(in_hdf5(other_filter), REFUSED),
    "not a number": Case(in_hdf5(no_numbers), REFUSED),
    "indices that lead astray": Case(in_hdf5(wrong_numbers), REFUSED),
    "attributes": Case(in_hdf5(words), REFUSED),
    "another model": Case(in_hdf5(other_model), REFUSED),
    "another prior": Case(in_hdf5(other_prior), REFUSED),
    "the sampler": Case(in_hdf5(sampler), REFUSED),
    "tangled": Case(in_hdf5(tangled), REFUSED),
    "enormous": Case(in_hdf5(enormous), ANY),
    "edited": Case(in_hdf5(edited, seal=False), REFUSED),
    "damaged under a right checksum": Case(resealed, ANY),
    "old and damaged": Case(old_and_damaged, ANY),
}
CASES = BY_ACCIDENT | ON_PURPOSE


def cases_of(files: int) -> Iterator[str]:
    """Kinds of damage: half of it by accident, and every kind of harm in turn."""
    accidents, harms = list(BY_ACCIDENT), list(ON_PURPOSE)
    for k in range(files):
        yield accidents[k // 2 % len(accidents)] if k % 2 else harms[k // 2 % len(harms)]
