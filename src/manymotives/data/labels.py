"""Names in, indices out: states, actions and tasks are named by their users and numbered by the library."""

import difflib
from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd

from manymotives.errors import InputError, RowError, quoted

Label = Hashable
MISSING = ("na", "n/a", "nan", "null", "none", "missing", ".", "-", "?")  # what people write for "nothing here"


def checked_labels(names: Sequence[Label] | None, count: int, what: str) -> tuple[Label, ...]:
    """The names of `count` things of one kind; 0, 1, 2, … where none are given."""
    if names is None:
        return tuple(range(count))
    # numpy's scalars print and compare oddly in messages; plain Python ones do not
    labels = tuple(name.item() if isinstance(name, np.generic) else name for name in names)
    if len(labels) != count:
        raise InputError(f"the {count} {what}s need {count} names; found {len(labels)}.")
    repeated = first_repeated(labels)
    if repeated is not None:
        raise InputError(f"the name {quoted(repeated)} stands for more than one {what}. Names must differ.")
    return labels


def first_repeated(labels: Sequence[Label]) -> Label | None:
    seen: set[Label] = set()
    for label in labels:
        if label in seen:
            return label
        seen.add(label)
    return None


def index_of(label: Label, names: Sequence[Label], what: str) -> int:
    """Where one name stands among `names`."""
    try:
        return names.index(label)
    except ValueError:
        raise InputError(f"{unknown_names([label], names, what)} Use one of these.") from None


def indices_of(values: pd.Series, names: Sequence[Label], what: str, column: str) -> np.ndarray:
    """Where each value of a column stands among `names`; −1 where the value is missing."""
    codes, found = pd.factorize(values)  # each distinct name is looked up once, however long the table
    numbers = {name: number for number, name in enumerate(names)}
    unknown = [name for name in found if name not in numbers]
    if unknown:
        first = values.index[np.flatnonzero(codes == list(found).index(unknown[0]))[0]]
        nothing = str(unknown[0]).strip().lower() in MISSING
        cure = (
            "Leave cells empty where nothing was recorded."
            if nothing
            else "Correct it in the table, or use the same names in the environment."
        )
        raise RowError(f"column {quoted(column)}, ", (first,), f": {unknown_names(unknown, names, what)} {cure}")
    lookup = np.array([numbers[name] for name in found] + [-1], dtype=np.int64)
    return lookup[codes]  # factorize codes a missing value as −1, the last entry of the lookup


def unknown_names(unknown: Sequence[Label], names: Sequence[Label], what: str) -> str:
    """The sentence that lists unknown names, each with the known one it resembles most."""
    by_text = {str(name): name for name in names}
    listed = []
    for name in unknown[:5]:
        name = name.item() if isinstance(name, np.generic) else name
        if str(name) in by_text:  # 7 and "7" look alike in most messages, and are not
            listed.append(f"{quoted(name)} ({type(name).__name__}; did you mean {quoted(by_text[str(name)])}?)")
            continue
        close = difflib.get_close_matches(str(name), by_text, n=1, cutoff=0.5)
        listed.append(f"{quoted(name)} (did you mean {quoted(by_text[close[0]])}?)" if close else quoted(name))
    more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
    known = ", ".join(quoted(name) for name in names[:8]) + (", …" if len(names) > 8 else "")
    plural = "" if len(unknown) == 1 else "s"
    return f"unknown {what}{plural} {', '.join(listed)}{more}. The {what}s are {known}."


def sorted_labels(column: pd.Series) -> tuple[Label, ...]:
    """The different names in a column, sorted."""
    names = checked_labels(list(pd.unique(column.dropna())), column.nunique(), "name")
    try:
        return tuple(sorted(names))  # type: ignore[type-var]
    except TypeError:  # names of several types have no order of their own
        return tuple(sorted(names, key=str))
