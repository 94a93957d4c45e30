"""What a run found, as one HTML page."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from manymotives.commands.common import Speaker
from manymotives.commands.options import in_options
from manymotives.commands.whatif import NEW, new_environment
from manymotives.fitting.fit import load
from manymotives.reporting import report as write_report
from manymotives.scoring import Score


def report(
    run: Annotated[
        Path, typer.Argument(help="A run saved by `manymotives fit` or `posterior.save`.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="File for the page.")] = Path("report.html"),
    score: Annotated[
        list[Path] | None,
        typer.Option(help="Held-out prediction saved by `manymotives compare`; may be repeated."),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(help=f"{NEW} Adds a section on what subjects would do there.", show_default=False),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default=False)] = None,
) -> None:
    """Write a report as one self-contained HTML page: what each subject wants, with its uncertainty, and what choices
    cannot identify.
    """
    console = Console()
    with Speaker().failures(out):
        posterior = load(run)
        scores = [Score.load(path) for path in score or []]
        place = new_environment(what_if or [], posterior.environment.discount, [])
        asked = None if place is None else posterior.counterfactual(environment=place)
        written = write_report(posterior, out, score=scores, title=title, counterfactual=asked)
    for warning in posterior.warnings:
        console.print(f"! {in_options(warning)}", markup=False, soft_wrap=True)
    console.print(str(written), style="bold", markup=False, soft_wrap=True)
