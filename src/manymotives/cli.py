"""The command line: `manymotives COMMAND --help` says what each does. A command is imported when it is run."""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from manymotives import interruption

SUMMARIES = {  # the first sentences of the commands' docstrings
    "compare": "Score how well runs predict held-out choices, compared with simple baselines.",
    "demo": (
        "Simulate subjects with different motives, infer what each wants, and compare it with the truth in a report."
    ),
    "design": "Rank candidate environments by how much choices in them would tell about what a subject wants.",
    "export": "Write all estimates and contrasts as CSV files.",
    "fit": "Infer what each subject wants from a table of choices.",
    "power": (
        "Estimate statistical power: simulate experiments of several sizes from a pilot and count how often "
        "each detects a contrast."
    ),
    "report": (
        "Write a report as one self-contained HTML page: what each subject wants, with its uncertainty, "
        "and what choices cannot identify."
    ),
    "reproduce": "Run the paper's experiments and compare each of its claims with the results.",
    "simulate": (
        "Simulate subjects with different motives; write choices.csv, environment.csv, coordinates.csv and truth.csv."
    ),
    "whatif": "Predict what subjects would do after a change, and say whether choices can identify the answer.",
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
    help="Infer what many agents want from what they do.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def main() -> None:
    """What many agents want, inferred from what they do."""
    interruption.release()
