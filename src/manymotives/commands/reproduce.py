"""The paper's figures and claims, again."""

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from manymotives.commands.common import Speaker
from manymotives.commands.workers import SchedulerOption, executor_of
from manymotives.experiments import PANELS
from manymotives.experiments import reproduce as reproduced

UNTIL_THEN = "What is finished is kept: the same command goes on from there."


def reproduce(
    panels: Annotated[
        list[str] | None, typer.Argument(metavar="[PANEL]...", help=f"Which: {', '.join(PANELS)}. Default: all.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(help="Runs of every panel, in place of the paper's 1000 or 100.", min=1)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A few runs of everything: four minutes.")] = False,
    seed: Annotated[int, typer.Option(help="Another number, other tasks and demonstrations.", min=0)] = 0,
    readings: Annotated[
        str, typer.Option(help='Of what the paper leaves open: "default", "all", or the name of one.')
    ] = "default",
    workers: Annotated[
        int | None, typer.Option(help="Processes of this machine. Default: one for each core.", min=1)
    ] = None,
    scheduler: SchedulerOption = None,
    out: Annotated[Path, typer.Option(help="Folder for results, tables, pictures and the page.")] = Path(
        "reproduction"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output, nothing else.")] = False,
) -> None:
    """Run the paper's experiments, and hold each of its sentences against what comes out.

    A run that was stopped, or killed, goes on where it was with the same command.
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
        speaker.say(f"The page: {page}")
        verdicts = told["verdict"].value_counts().to_dict()
        speaker.result({"page": str(page), "claims": str(out / "reproduction" / "claims.csv"), "verdicts": verdicts})
