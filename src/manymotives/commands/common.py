"""What all commands share: where they print, and how they fail."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console

from manymotives.errors import InputError

INPUT_ERROR = 2  # exit code when what was given cannot be used


@contextmanager
def input_errors(console: Console) -> Iterator[None]:
    """What is wrong with the input as one sentence in red and exit code 2, never a traceback."""
    try:
        yield
    except InputError as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        raise typer.Exit(INPUT_ERROR) from None


@contextmanager
def writing_to(console: Console, out: Path) -> Iterator[None]:
    """The same for a place that cannot be written to."""
    try:
        yield
    except OSError as error:
        console.print(f"Cannot write to {out}: {error.strerror}.", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(INPUT_ERROR) from None
