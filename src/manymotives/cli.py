"""The command line: `manymotives COMMAND --help` says what each does. A command is imported when it is run."""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from manymotives import interruption

SUMMARIES = {  # the first sentences of the commands' docstrings
    "compare": "How well do runs predict choices they have not seen, and does a plain count of choices do as well?",
    "demo": "Simulate subjects with different motives, infer what each wants, and report it beside the truth.",
    "design": "Which environment would tell most about what a subject wants, given what was seen so far?",
    "export": "Write every estimate and contrast as CSV.",
    "fit": "Infer what each subject wants from a table of choices.",
    "power": "Simulate experiments of several sizes whose truths are drawn from a pilot, and see how "
    "often each would tell.",
    "report": "Write one self-contained HTML page: what each subject wants, how sure that is, and what "
    "cannot be known.",
    "reproduce": "Run the paper's experiments, and hold each of its sentences against what comes out.",
    "simulate": "Simulate subjects with different motives: choices.csv, environment.csv, coordinates.csv, "
    "and truth.csv.",
    "whatif": "What would subjects do if something changed? Says first whether choices could ever tell.",
}


class LazyGroup(TyperGroup):
    """Commands by name. Their summaries are known here, so that `--help` need not import what takes seconds."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(SUMMARIES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return TyperCommand(cmd_name, help=SUMMARIES[cmd_name]) if cmd_name in SUMMARIES else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, known, rest = super().resolve_command(ctx, args)
        return name, known if name is None or known is None else command(name), rest


def command(name: str) -> Any:
    """A command, imported."""
    alone = typer.Typer(add_completion=False)
    alone.command(name)(getattr(import_module(f"manymotives.commands.{name}"), name))
    return get_command(alone)


app = typer.Typer(
    cls=LazyGroup,
    help="What many agents want, inferred from what they do.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def main() -> None:
    """What many agents want, inferred from what they do."""
    interruption.release()
