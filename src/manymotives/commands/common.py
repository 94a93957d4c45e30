"""What all commands share: how they speak, to people or to machines, and how they fail."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from manymotives.commands.options import in_options
from manymotives.errors import InputError
from manymotives.interruption import INTERRUPTED

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]
INPUT_ERROR = 2  # exit code when what was given cannot be used


@dataclass(frozen=True)
class Speaker:
    """Says things to people, as text; or to machines, as one JSON object on standard output and nothing else."""

    as_json: bool = False

    def say(self, text: str, style: str = "") -> None:
        """A line for people."""
        if not self.as_json:
            Console().print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        """A warning for people, in the terms of the command line."""
        self.say(f"! {in_options(text)}", "yellow")

    def result(self, record: dict[str, Any]) -> None:
        """What machines want to know."""
        if self.as_json:
            typer.echo(json.dumps(record, ensure_ascii=False, default=str))

    def fail(self, message: str, code: int) -> typer.Exit:
        """The reason why a command ends here, in the terms of the command line."""
        message = in_options(message)
        if self.as_json:
            self.result({"error": message, "exit_code": code})
        else:
            Console(stderr=True).print(message, style="red", markup=False, highlight=False, soft_wrap=True)
        return typer.Exit(code)

    @contextmanager
    def failures(self, out: Path | None, after_stopping: Callable[[], str] = str) -> Iterator[None]:
        """Bad input, a place that cannot be written to and Ctrl-C as a sentence and an exit code.

        `after_stopping`: what to add where somebody pressed Ctrl-C.
        """
        try:
            yield
        except InputError as error:
            raise self.fail(str(error), INPUT_ERROR) from None
        except OSError as error:
            raise self.fail(
                f"Cannot write to {out or error.filename}: {error.strerror or error}.", INPUT_ERROR
            ) from None
        except KeyboardInterrupt:
            raise self.fail(f"Interrupted. {after_stopping()}".strip(), INTERRUPTED) from None
