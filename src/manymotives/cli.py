"""The command line: `manymotives COMMAND --help` says what each does."""

from pathlib import Path
from typing import Annotated

import matplotlib
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from manymotives.demo import simulated_chain_tasks

app = typer.Typer(
    help="What many agents want, inferred from what they do.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
INPUT_ERROR = 2  # exit code when what was given cannot be used


@app.callback()
def main() -> None:
    """What many agents want, inferred from what they do."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the tables and the picture.")] = Path("demo"),
    tasks: Annotated[int, typer.Option(help="How many tasks to simulate.", min=1, max=1000)] = 10,
    steps: Annotated[int, typer.Option(help="Choices in each task.", min=1, max=1_000_000)] = 50,
    seed: Annotated[int, typer.Option(help="Another number, other data.", min=0)] = 0,
) -> None:
    """Simulate tasks with different motives on a chain, and show what can be said of them."""
    console = Console()
    with console.status("Simulating (compiling takes a few seconds the first time) …"):
        result = simulated_chain_tasks(tasks=tasks, steps=steps, seed=seed)

    table = Table(title=f"{tasks} tasks on a chain of 5 states, {steps} choices each")
    for heading in ("task", "wants most", "states visited", "best action chosen", "loss", "loss if copied"):
        table.add_column(heading, justify="right")
    shown = result.table.head(20)
    for row in shown.to_dict("records"):
        table.add_row(
            row["task"],
            f"state {row['wants_most']}",
            f"{row['states_visited']} of {result.environment.num_states}",
            f"{row['best_action_share']:.0%}",
            f"{row['loss']:.2f}",
            f"{row['loss_if_copied']:.2f}",
        )
    console.print(table)
    if tasks > len(shown):
        console.print(f"… and {tasks - len(shown)} more tasks, in {out / 'tasks.csv'}")
    console.print(
        "Each task has a reward of its own, and acts on it with errors: on average it loses "
        f"{np.mean(result.losses):.2f} in value against the best it could do, summed over the five states. Copying "
        f"what it was seen to do loses {np.mean(result.copied_losses):.2f}: {steps} choices show a policy only "
        "roughly. Inferring what it wants, and doing that, can be better than either: that is what this library is "
        "for.",
        soft_wrap=True,
    )
    matplotlib.use("Agg")  # pictures go to files; a screen may not be there
    try:
        files = result.write(out)
    except OSError as error:
        console.print(f"Cannot write to {out}: {error.strerror}.", style="red")
        raise typer.Exit(INPUT_ERROR) from None
    for path, what in files:
        console.print(f"[bold]{path}[/bold]  {what}")
