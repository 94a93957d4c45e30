"""The command line: `manymotives COMMAND --help` says what each does."""

import typer

from manymotives import commands, interruption

app = typer.Typer(
    help="What many agents want, inferred from what they do.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def main() -> None:
    """What many agents want, inferred from what they do."""
    interruption.release()


for name in commands.__all__:
    app.command()(getattr(commands, name))
