"""How many subjects, how many steps? A pilot's run and a contrast in; a table, a picture and sentences out."""

from pathlib import Path
from typing import Annotated

import matplotlib.pyplot as plt
import typer

from manymotives import plots
from manymotives.assessment.power import power as planned
from manymotives.commands.common import JsonOption, Speaker
from manymotives.commands.workers import SchedulerOption, WorkersOption, executor_of
from manymotives.errors import InputError, quoted
from manymotives.fitting.fit import load
from manymotives.io.atomic import whole_file

UNTIL_THEN = "Finished work is kept; the same command resumes from it."
STORE, RESULT, TABLE, PICTURE = "results.sqlite", "power.json", "power.csv", "power.png"


def power(
    pilot: Annotated[Path, typer.Argument(help="A run saved by `manymotives fit`.", show_default=False)],
    contrast: Annotated[
        str,
        typer.Option(
            help='The contrast, such as "water: restricted - free", "water - food" or "water".', show_default=False
        ),
    ],
    subjects: Annotated[str, typer.Option(help="Numbers of subjects to try.")] = "8,16,32",
    steps: Annotated[str, typer.Option(help="Numbers of choices per episode to try.")] = "50,200",
    episodes: Annotated[
        int | None, typer.Option(help="Episodes per subject; required if episodes can end.", min=1)
    ] = None,
    replications: Annotated[int, typer.Option(help="Simulated experiments of each size.", min=2)] = 100,
    rule: Annotated[str, typer.Option(help='Decision rule: "direction", "interval" or "equivalence".')] = "direction",
    level: Annotated[
        float | None,
        typer.Option(help="Probability that the rule requires. Default: .975 for direction, .95 otherwise."),
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="For equivalence: the largest difference that counts as none.")
    ] = None,
    effect: Annotated[
        float | None, typer.Option(help="True value of the contrast. Default: drawn from the pilot.")
    ] = None,
    target: Annotated[float, typer.Option(help="Desired power.")] = 0.8,
    stop: Annotated[
        float | None, typer.Option(help="Distance from the target at which a size is decided early.")
    ] = 0.05,
    all_replications: Annotated[
        bool, typer.Option("--all-replications", help="Run all simulated experiments, without stopping early.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the simulated experiments.", min=0)] = 0,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    out: Annotated[Path, typer.Option(help="Folder for the table, the figure and all experiments.")] = Path("power"),
    as_json: JsonOption = False,
) -> None:
    """Estimate statistical power: simulate experiments of several sizes from a pilot and count how often each detects a
    contrast.

    The same command resumes a run that was interrupted or killed.
    """
    speaker = Speaker(as_json)
    with speaker.failures(out, lambda: UNTIL_THEN):
        executor = executor_of(workers, scheduler)
        sizes = _numbers(subjects, "--subjects"), _numbers(steps, "--steps")
        run = load(pilot)
        out.mkdir(parents=True, exist_ok=True)
        found = planned(
            run,
            contrast=contrast,
            subjects=sizes[0],
            steps=sizes[1],
            episodes=episodes,
            replications=replications,
            rule=rule,
            level=level,
            margin=margin,
            effect=effect,
            target=target,
            stop=None if all_replications else stop,
            seed=seed,
            executor=executor,
            store=out / STORE,
            progress=not as_json,
        )
        found.save(out / RESULT)
        found.save(out / TABLE)
        figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
        plots.power(found, axes=axes)
        with whole_file(out / PICTURE) as temporary:
            figure.savefig(temporary, dpi=150, format="png")
        plt.close(figure)
        speaker.say(str(found))
        speaker.say(f"Table: {out / TABLE}; figure: {out / PICTURE}")
        smallest = found.smallest[["subjects", "steps", "power"]].to_dict("records")
        speaker.result(
            {
                "table": str(out / TABLE),
                "picture": str(out / PICTURE),
                "result": str(out / RESULT),
                "smallest": smallest,
                "not_converged": int(found.table["not_converged"].sum()),
                "warnings": list(found.warnings),
            }
        )


def _numbers(text: str, option: str) -> list[int]:
    """Whole numbers with commas between."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{option} must be whole numbers separated by commas, such as 8,16; found {quoted(text)}."
        ) from None
