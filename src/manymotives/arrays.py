"""Whether an array is JAX's, without importing JAX: importing it takes a second, and whoever has such an array has done
so.
"""

import sys
from typing import Any

import numpy as np


def is_jax(*values: Any) -> bool:
    """Whether any of these is an array of JAX, or stands for one while a function is traced."""
    jax = sys.modules.get("jax")
    return jax is not None and any(isinstance(value, jax.Array) for value in values)


def is_traced(value: Any) -> bool:
    """Whether this stands for an array of JAX while a function is traced, so that its numbers are not known."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def numerics(*values: Any) -> Any:
    """The module of array functions for these: `jax.numpy` if any is an array of JAX, or else `numpy`."""
    return sys.modules["jax"].numpy if is_jax(*values) else np
