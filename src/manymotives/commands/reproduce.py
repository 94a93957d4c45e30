"""The paper's figures and claims, again."""

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from manymotives.commands.common import JsonOption, Speaker
from manymotives.commands.workers import SchedulerOption, executor_of
from manymotives.experiments import PANELS
from manymotives.experiments import reproduce as reproduced

UNTIL_THEN = "Finished work is kept; the same command resumes from it."


def reproduce(
    panels: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PANEL]...", help=f"Panels to run: {', '.join(PANELS)}. Default: all."),
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Runs per panel. Default: the paper's 1000 or 100.", min=1)] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A few runs of every panel, in about four minutes.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the tasks and demonstrations.", min=0)] = 0,
    readings: Annotated[
        str, typer.Option(help='Readings of what the paper leaves open: "default", "all", or the name of one.')
    ] = "default",
    workers: Annotated[
        int | None, typer.Option(help="Number of processes on this machine. Default: one for each core.", min=1)
    ] = None,
    scheduler: SchedulerOption = None,
    out: Annotated[Path, typer.Option(help="Folder for results, tables, figures and the page.")] = Path("reproduction"),
    as_json: JsonOption = False,
) -> None:
    """Run the paper's experiments and compare each of its claims with the results.

    The same command resumes a run that was interrupted or killed.
    """
    speaker = Speaker(as_json)
    with speaker.failures(out, lambda: UNTIL_THEN):
        page = reproduced(
            panels or (),
            out=out,
            runs=runs,
            quick=quick,
            seed=seed,
            readings=readings,
            workers=executor_of(workers, scheduler),
            progress=not as_json,
        )
        claims = pd.read_csv(out / "reproduction" / "claims.csv")
        told = claims[(claims["kind"] == "paper") & (claims["runs_of"] == "all runs")]
        for _, row in told.iterrows():
            speaker.say(f"{row['verdict']:>14}  {row['panel']}, {row['reading']}: {row['claim']}")
        speaker.say(f"Page: {page}")
        verdicts = told["verdict"].value_counts().to_dict()
        speaker.result({"page": str(page), "claims": str(out / "reproduction" / "claims.csv"), "verdicts": verdicts})
