"""The main job on an embedded example, with the truth known."""

from pathlib import Path
from typing import Annotated

import matplotlib
import typer
from rich.console import Console
from rich.table import Table

from manymotives.commands.common import Speaker
from manymotives.demo import simulated_field
from manymotives.fitting.compilation import SECONDS


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report, the tables and the figures.")] = Path("demo"),
    tasks: Annotated[int, typer.Option(help="Number of subjects to simulate.", min=1, max=1000)] = 10,
    steps: Annotated[int, typer.Option(help="Number of choices per subject.", min=1, max=1_000_000)] = 60,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.", min=0)] = 0,
) -> None:
    """Simulate subjects with different motives, infer what each wants, and compare it with the truth in a report."""
    console = Console()
    speaker = Speaker()
    with speaker.failures(out):
        out.mkdir(parents=True, exist_ok=True)  # before the work, not after it
    console.print(
        f"{tasks} simulated subjects walk in an open field of 3 × 3 places, {steps} steps each. Each of them "
        "prefers some places to others, and we infer which from the steps alone. (Compilation takes about "
        f"{SECONDS} s, and only the first time.)",
        soft_wrap=True,
    )
    result = simulated_field(tasks=tasks, steps=steps, seed=seed)
    found = result.table
    table = Table(title=f"What {tasks} subjects want, inferred from {steps} steps each")
    for heading in ("subject", "wants most", "inferred", "probability", "its own loss", "if copied", "as inferred"):
        table.add_column(heading, justify="right", no_wrap=heading == "subject")
    for row in found.head(20).to_dict("records"):
        right = row["wants_most"] == row["inferred"]
        table.add_row(
            row["task"],
            row["wants_most"],
            f"[green]{row['inferred']}[/]" if right else f"[red]{row['inferred']}[/]",
            f"{row['probability']:.0%}",
            f"{row['loss_demonstrator']:.2f}",
            f"{row['loss_copied']:.2f}",
            f"{row['loss_inferred']:.2f}",
        )
    console.print(table)
    if tasks > 20:
        console.print(f"… and {tasks - 20} more subjects, in {out / 'subjects.csv'}")
    own, copied, inferred = (found[f"loss_{way}"].mean() for way in ("demonstrator", "copied", "inferred"))
    console.print(
        f"The favourite place was inferred correctly for {(found['wants_most'] == found['inferred']).sum()} of "
        f"{tasks} subjects. The last three columns are losses: the value (the expected discounted sum of rewards) that "
        f"is lost against the optimal policy, summed over places. Subjects make errors and lose {own:.2f} on average; "
        f"copying their observed choices loses {copied:.2f}; the policy that is best for their inferred rewards loses "
        f"{inferred:.2f}.",
        soft_wrap=True,
    )
    for warning in result.posterior.warnings:
        console.print(f"[yellow]![/] {warning}", soft_wrap=True)
    matplotlib.use("Agg")  # pictures go to files; a screen may not be there
    with speaker.failures(out):
        files = result.write(out)
    for path, what in files:
        console.print(f"[bold]{path}[/bold]  {what}")
