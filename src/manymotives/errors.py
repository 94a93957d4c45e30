"""The one kind of error a user's input can cause; its message says what was found, where, and what to do."""

from collections.abc import Iterable, Sequence
from typing import Any, SupportsInt

LONGEST = 60  # characters of a name that a message repeats


class InputError(ValueError):
    """Something given to the library cannot be used as it is."""


class RowError(InputError):
    """The same about rows of a table, by position; who knows what a reader calls them can say so (`named`)."""

    def __init__(self, before: str, rows: Sequence[SupportsInt], after: str) -> None:
        self.before, self.rows, self.after = before, tuple(int(row) for row in rows), after
        super().__init__(before + self._words(self.rows) + " (rows count from 0)" + after)

    def named(self, rows: Sequence[int], where: str) -> InputError:
        """The same sentence with the rows' own numbers, and with where they are."""
        return InputError(self.before + self._words(rows) + where + self.after)

    @staticmethod
    def _words(rows: Sequence[int]) -> str:
        *most, last = map(str, rows)
        return f"rows {', '.join(most)} and {last}" if most else f"row {last}"


def quoted(value: Any) -> str:
    """A name, or whatever else was found, as messages write it: its beginning and its end where it is long."""
    text = repr(value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value)
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 13]}…{text[-12:]} ({len(value if isinstance(value, str) else text):,} characters)"


def listed(values: Iterable[Any], most: int = 5) -> str:
    """Several of them, with commas between; of many the first ones, and how many more there are."""
    every = list(values)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(map(quoted, every[:most])) + more
