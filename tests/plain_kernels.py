"""Compiled loops as plain Python, with NUMBA_DISABLE_JIT=1: `make coverage` counts their lines so.

Without its compiler Numba has no intrinsics, in which vectors of lanes and calls by address are written. Here
these are a few lines of NumPy each; everything else that runs is the library's own.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

FUNCTIONS: list[Any] = []  # by their "address"


def install(package: Path) -> None:
    """Before anything else imports them: the modules that have intrinsics, with plain functions in their place."""
    for name, plain in (("simd", LANES), ("function_pointers", CALLS)):
        module = _loaded(f"manymotives.planning.{name}", package / "planning" / f"{name}.py")
        for function in plain:
            assert hasattr(module, function.__name__)
            setattr(module, function.__name__, function)
    simd: Any = sys.modules["manymotives.planning.simd"]
    for operation, plain in zip(simd.Memory._fields, memory_of(simd.WIDTH), strict=True):
        setattr(simd, operation, plain)


def _loaded(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def memory_of(width):
    places = np.arange(width)

    def load(array, row):
        return array.reshape(-1)[row * width : (row + 1) * width].astype(np.float64)

    def store(array, row, value):
        _flat(array)[row * width : (row + 1) * width] = value

    def gather(array, start, stride):
        return array.reshape(-1)[start + stride * places].astype(np.float64)

    def scatter(array, start, stride, value):
        _flat(array)[start + stride * places] = value

    def spread(number):
        return np.full(width, float(number))

    def spread_from(array, position):
        return np.full(width, float(array.reshape(-1)[position]))

    simd: Any = sys.modules["manymotives.planning.simd"]
    return simd.Memory(load, store, load, store, gather, scatter, spread, spread_from)


def fused(a, b, c):
    return a * b + c  # rounded twice


def exponential(x):
    with np.errstate(over="ignore"):
        return np.where(x < -708.0, 0.0, np.where(x > 709.0, np.inf, np.exp(x)))


def logarithm(x):
    return np.log(x)


def where_greater(a, b, yes, no):
    return np.where(a > b, yes, no)


def any_greater(a, b):
    return bool(np.any(a > b))


def address_of(function, *examples):
    if function not in FUNCTIONS:
        FUNCTIONS.append(function)
    return FUNCTIONS.index(function)


def call(address, arguments):
    FUNCTIONS[address](*arguments)


def _flat(array):
    flat = array.view()
    flat.shape = -1  # fails, rather than copying, where numbers do not follow each other
    return flat


LANES = memory_of, fused, exponential, logarithm, where_greater, any_greater
CALLS = (address_of, call)
