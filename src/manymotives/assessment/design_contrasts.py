"""What a contrast such as "water - home" means: its values in draws of a motive, and as weights of named rewards."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from manymotives.assessment.beliefs import FURTHER, Beliefs
from manymotives.data.labels import Label, unknown_names
from manymotives.errors import InputError, quoted


class Contrast(NamedTuple):
    """A number that follows from a motive."""

    words: str
    values: np.ndarray  # [N] in each draw
    weights: np.ndarray | None  # [K] of named rewards, or features; None where it is of something else


def contrast_of(beliefs: Beliefs, given: Any) -> Contrast:
    """A contrast by its name, such as "water", "water - home" or "discount"; or weights of names, {"water": 1, …}."""
    if isinstance(given, str) and given in FURTHER and given not in map(str, beliefs.names):
        word = "temperature" if given == "inverse_temperature" else given
        values = getattr(beliefs, word)
        if values is None or np.ptp(values) == 0:
            raise InputError(
                f"design: the {given.replace('_', ' ')} is known in this model, so there is nothing to learn about it."
            )
        return Contrast(given.replace("_", " "), values, None)
    weights = np.zeros(len(beliefs.names))
    if isinstance(given, Mapping):
        for name, weight in given.items():
            weights[_position(beliefs, name)] += _number(weight)
        words = " ".join(_term(name, weights[_position(beliefs, name)]) for name in given).removeprefix("+ ")
    else:
        is_pair = isinstance(given, tuple) and len(given) == 2 and given not in beliefs.names
        plus, minus = (_position(beliefs, name) for name in given) if is_pair else _two_names(beliefs, given)
        weights[plus] += 1.0
        words = _text(beliefs.names[plus])
        if minus is not None:
            weights[minus] -= 1.0
            words += f" - {_text(beliefs.names[minus])}"
    values = beliefs.values @ weights
    if np.ptp(values) == 0:
        raise InputError(
            f"design: the contrast {quoted(given)} is the same in every draw, so there is nothing to learn about it."
        )
    return Contrast(words, values, weights)


def _two_names(beliefs: Beliefs, given: Any) -> tuple[int, int | None]:
    """Where two names stand that " - " separates, or one; names may have such a sign in them."""
    texts = [_text(name) for name in beliefs.names]
    if not isinstance(given, str) or given in texts:
        return _position(beliefs, given), None
    parts = given.split(" - ")
    for cut in range(1, len(parts)):
        plus, minus = " - ".join(parts[:cut]).strip(), " - ".join(parts[cut:]).strip()
        if plus in texts and minus in texts:
            return texts.index(plus), texts.index(minus)
    if len(parts) == 1:
        return _position(beliefs, given), None
    for name in (parts[0].strip(), parts[-1].strip()):
        _position(beliefs, name)
    raise InputError(f'design: a contrast must be one name or two, such as "water - home"; found {quoted(given)}.')


def _position(beliefs: Beliefs, name: Label) -> int:
    texts = [_text(each) for each in beliefs.names]
    if name in beliefs.names:
        return beliefs.names.index(name)
    if _text(name) in texts:
        return texts.index(_text(name))
    raise InputError(f"design: contrast: {unknown_names([_text(name)], texts, 'reward')} Use one of these.")


def _text(name: Label) -> str:
    """A name as a contrast writes it; of a state and an action, both."""
    return ", ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _term(name: Label, weight: float) -> str:
    size = "" if abs(weight) == 1 else f"{abs(weight):g} "
    return f"{'-' if weight < 0 else '+'} {size}{_text(name)}"


def _number(weight: Any) -> float:
    try:
        value = float(weight)
    except (TypeError, ValueError):
        value = float("nan")
    if not np.isfinite(value):
        raise InputError(f"design: weights of a contrast must be numbers; found {quoted(weight)}.")
    return value
