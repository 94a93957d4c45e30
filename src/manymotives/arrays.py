"""Whether an array is JAX's, without importing JAX: importing it takes a second, and whoever has such an array has done
so.
"""

import sys
from types import ModuleType
from typing import Any

import numpy as np


def is_jax(*values: Any) -> bool:
    """Whether any of these is an array of JAX, or stands for one while a function is traced."""
    jax = _imported_jax()
    return jax is not None and any(isinstance(value, jax.Array) for value in values)


def is_traced(value: Any) -> bool:
    """Whether this stands for an array of JAX while a function is traced, so that its numbers are not known."""
    jax = _imported_jax()
    return jax is not None and isinstance(value, jax.core.Tracer)


def _imported_jax() -> Any:
    """JAX, once it is imported. Other libraries leave a module in its place that imports it when it is looked at."""
    jax = sys.modules.get("jax")
    return jax if type(jax) is ModuleType and {"Array", "core", "numpy"} <= vars(jax).keys() else None


def numerics(*values: Any) -> Any:
    """The module of array functions for these: `jax.numpy` if any is an array of JAX, or else `numpy`."""
    return sys.modules["jax"].numpy if is_jax(*values) else np
