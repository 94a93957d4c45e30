"""The one kind of error a user's input can cause; its message says what was found, where, and what to do."""

from collections.abc import Sequence
from typing import SupportsInt


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
