"""Models and methods as plain dictionaries and back: what a file can hold and another version can read."""

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from manymotives.errors import InputError
from manymotives.optimality import NAMED


def record_of(thing: Any) -> Any:
    """Nested dictionaries, lists and numbers for a frozen object of settings."""
    if is_dataclass(thing) and not isinstance(thing, type):
        return {"kind": type(thing).__name__} | {
            field.name: record_of(getattr(thing, field.name)) for field in fields(thing)
        }
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


def from_record(record: Any, kinds: dict[str, type]) -> Any:
    """The object again; `kinds` names the classes that may occur."""
    if isinstance(record, dict):
        kind = record.get("kind")
        if kind not in kinds:
            raise InputError(f"this file holds a {kind!r}, which this version of manymotives does not know.")
        given = {name: from_record(value, kinds) for name, value in record.items() if name != "kind"}
        try:
            return kinds[kind](**given)
        except TypeError:
            raise InputError(
                f"this file holds a {kind} with settings that this version of manymotives does not know."
            ) from None
    if isinstance(record, list):
        return [from_record(each, kinds) for each in record]
    return record
