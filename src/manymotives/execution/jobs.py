"""A unit of work: a function, its settings and a seed in, numbers by name out, whoever computes it."""

import hashlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
import xarray as xr

from manymotives.planning.problem import one_core

Numbers = dict[str, float]


class Unit(NamedTuple):
    """What is computed, stored, and never computed again."""

    study: str  # such as "power"
    variant: str
    cell: str  # one of the study's settings, in words
    fingerprint: str  # of all that its numbers depend on, except run and seed
    run: int
    seed: int  # the user's


@dataclass(frozen=True)
class Job:
    """A unit with all that is needed to compute it, in any process: `function` must be one that a module defines."""

    study: str
    cell: str
    fingerprint: str
    run: int
    seed: int
    function: Callable[[Any, int], Mapping[str, float]]
    setting: Any
    random_seed: int
    seconds: float = 1.0  # expected, for the first forecast of the time left
    variant: str = ""
    may_be_infinite: bool = False  # whether numbers may be infinite or NaN, and mean something

    @property
    def unit(self) -> Unit:
        return Unit(self.study, self.variant, self.cell, self.fingerprint, self.run, self.seed)


def computed(job: Job) -> tuple[Numbers, float]:
    """The numbers of a unit, and the seconds it took; a number that is not finite is an error, unless it may be."""
    begin = time.perf_counter()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"), one_core():  # a worker is one core's work
        numbers = {name: float(value) for name, value in job.function(job.setting, job.random_seed).items()}
    bad = [name for name, value in numbers.items() if not math.isfinite(value)]
    if bad and not job.may_be_infinite:
        raise ArithmeticError(f"{job.unit}: {', '.join(bad[:5])} are nan or infinite.")
    return numbers, time.perf_counter() - begin


def random_seed(seed: int, stream: str, run: int) -> int:
    """Where a run's random numbers begin, whoever computes it; cells of one stream share it, and are so paired."""
    digest = hashlib.sha256(f"{seed}/{stream}/{run}".encode()).digest()
    return int.from_bytes(digest[:6], "big")  # 48 bits: never the same twice in practice, and exact in any format


def fingerprint_of(*things: Any) -> str:
    """Sixteen characters that change with anything in settings, models, environments, tables and arrays."""
    digest = hashlib.sha256()
    for thing in things:
        _add(digest, thing)
    return digest.hexdigest()[:16]


def _add(digest: Any, thing: Any) -> None:
    """One thing after another, each with its kind and its length, so that none can be taken for another."""
    digest.update(f"{type(thing).__name__}:".encode())
    if thing is None or isinstance(thing, bool | int | float | str | bytes | np.generic):
        digest.update(f"{thing!r};".encode())
    elif is_dataclass(thing) and not isinstance(thing, type):
        for field in fields(thing):
            digest.update(f"{field.name}=".encode())
            _add(digest, getattr(thing, field.name))
    elif isinstance(thing, Mapping) and not isinstance(thing, xr.Dataset):
        digest.update(f"{len(thing)};".encode())
        for key, value in thing.items():
            _add(digest, key)
            _add(digest, value)
    elif isinstance(thing, list | tuple | range):
        digest.update(f"{len(thing)};".encode())
        for each in thing:
            _add(digest, each)
    elif sp.issparse(thing):
        rows = sp.csr_array(thing)
        _add(digest, (rows.shape, rows.data, rows.indices, rows.indptr))
    elif isinstance(thing, pd.DataFrame | pd.Series):
        frame = thing.to_frame() if isinstance(thing, pd.Series) else thing
        _add(digest, ([*map(str, frame.columns)], pd.util.hash_pandas_object(frame).to_numpy()))
    elif isinstance(thing, xr.DataArray | xr.Dataset):
        _add(digest, thing.to_dict())
    elif hasattr(thing, "__array__"):
        array = np.asarray(thing)
        digest.update(f"{array.dtype}{array.shape};".encode())
        if array.dtype == object:
            _add(digest, array.ravel().tolist())
        else:
            digest.update(np.ascontiguousarray(array).tobytes())
    elif callable(thing) and hasattr(thing, "__qualname__"):
        digest.update(f"{thing.__module__}.{thing.__qualname__};".encode())
    else:  # such as a distribution of scipy.stats
        digest.update(f"{thing!r};".encode())
