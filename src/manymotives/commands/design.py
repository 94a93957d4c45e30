"""A run and candidate environments in; the candidates, ranked by what choices in them would tell, out."""

from pathlib import Path
from typing import Annotated

import typer

from manymotives.assessment.design import design as ranked
from manymotives.commands.common import Speaker
from manymotives.commands.several import read_environments
from manymotives.commands.workers import SchedulerOption, StoreOption, WorkersOption, executor_of
from manymotives.data.labels import Label
from manymotives.errors import InputError
from manymotives.fitting.fit import load
from manymotives.inference.progress import Logged
from manymotives.io.files import read_environment
from manymotives.io.writing import write_table


def design(
    run: Annotated[
        Path, typer.Argument(help="A run of what was seen so far, saved by `manymotives fit`.", show_default=False)
    ],
    environment: Annotated[
        list[str],
        typer.Option(
            help="A candidate: a table of transitions, called as its file is; give several.", show_default=False
        ),
    ],
    steps: Annotated[int, typer.Option(help="Choices an episode.", min=1, show_default=False)],
    contrast: Annotated[
        str | None,
        typer.Option(
            help='What to learn about, such as "water - home": states, features, or a parameter. Left out: the whole '
            "motive.",
            show_default=False,
        ),
    ] = None,
    episodes: Annotated[int, typer.Option(help="Episodes of the subject.", min=1)] = 1,
    start: Annotated[
        list[str] | None,
        typer.Option(help="Let episodes begin here; several: each is a candidate with each.", show_default=False),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="The subject to be seen again. Left out: a new one.", show_default=False)
    ] = None,
    terminal: Annotated[
        list[str] | None, typer.Option(help="A state in which episodes end; several may be given.", show_default=False)
    ] = None,
    rounds: Annotated[int, typer.Option(help="How many candidates to choose, one after the other.", min=1)] = 1,
    draws: Annotated[int, typer.Option(help="Motives that are drawn from the run.", min=100)] = 1000,
    seed: Annotated[int, typer.Option(help="Another number, other simulated choices.", min=0)] = 0,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    store: StoreOption = None,
    out: Annotated[Path | None, typer.Option(help="Also write the ranking as a table.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, for machines.")] = False,
) -> None:
    """Which environment would tell most about what a subject wants, given what was seen so far?"""
    speaker = Speaker(as_json)
    with speaker.failures(out):
        posterior = load(run)
        discount = posterior.environment.discount
        places, notes = read_environments(
            environment,
            lambda name, ends: (read_environment(Path(name), discount=discount, terminal=ends), ()),
            terminal or (),
            None,
        )
        candidates = dict(zip(places.names, places.members))
        states = places.state_names
        found = ranked(
            candidates,
            posterior,
            contrast,
            steps=steps,
            episodes=episodes,
            starts=None if not start else [_named(text, states, "--start") for text in start],
            rounds=rounds,
            task=None if task is None else _named(task, posterior.tasks, "--task"),
            draws=draws,
            seed=seed,
            executor=executor_of(workers, scheduler),
            store=store,
            progress=Logged(not as_json),
        )
        if out is not None:
            write_table(found.table, out)
    speaker.result(
        {
            "best": found.best,
            "contrast": found.contrast,
            "draws": found.draws,
            "can_tell": found.can_tell,
            "table": found.table.to_dict("records"),
            "sequence": found.sequence.to_dict("records"),
        }
    )
    for note in notes:
        speaker.say(f"! {note}")
    speaker.say(str(found))
    speaker.say(found.table.round(4).to_string(index=False))
    if out is not None:
        speaker.say(str(out), style="bold")


def _named(text: str, names: tuple[Label, ...], option: str) -> Label:
    """A name as it is, from what was typed."""
    by_text = {str(name): name for name in names}
    if text not in by_text:
        raise InputError(f"{option} {text}: there is nothing of that name.")
    return by_text[text]
