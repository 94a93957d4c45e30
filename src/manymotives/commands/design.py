"""A run and candidate environments in; the candidates, ranked by what choices in them would tell, out."""

from pathlib import Path
from typing import Annotated

import typer

from manymotives.assessment.design import design as ranked
from manymotives.commands.common import JsonOption, Speaker
from manymotives.commands.options import in_options
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
        Path, typer.Argument(help="A run of the data so far, saved by `manymotives fit`.", show_default=False)
    ],
    environment: Annotated[
        list[str],
        typer.Option(
            help=("A candidate environment: a table of transitions, named after its file; repeat for each candidate."),
            show_default=False,
        ),
    ],
    steps: Annotated[int, typer.Option(help="Number of choices per episode.", min=1, show_default=False)],
    contrast: Annotated[
        str | None,
        typer.Option(
            help='The contrast of interest, such as "water - home": of states, features, or a parameter. '
            "Default: the whole motive.",
            show_default=False,
        ),
    ] = None,
    episodes: Annotated[int, typer.Option(help="Number of episodes.", min=1)] = 1,
    start: Annotated[
        list[str] | None,
        typer.Option(
            help="A starting state; if repeated, each environment is a candidate with each of them.", show_default=False
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="A subject who will be observed again. Default: a new subject.", show_default=False),
    ] = None,
    terminal: Annotated[
        list[str] | None, typer.Option(help="A state that ends an episode; may be repeated.", show_default=False)
    ] = None,
    rounds: Annotated[int, typer.Option(help="Number of candidates to choose, one after the other.", min=1)] = 1,
    draws: Annotated[int, typer.Option(help="Number of motives drawn from the run.", min=100)] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the simulated choices.", min=0)] = 0,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    store: StoreOption = None,
    out: Annotated[Path | None, typer.Option(help="File for the ranking as a table.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Rank candidate environments by how much choices in them would tell about what a subject wants."""
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
        speaker.say(f"! {in_options(note)}")
    speaker.say(str(found))
    speaker.say(found.table.round(4).to_string(index=False))
    if out is not None:
        speaker.say(str(out), style="bold")


def _named(text: str, names: tuple[Label, ...], option: str) -> Label:
    """A name as it is, from what was typed."""
    by_text = {str(name): name for name in names}
    if text not in by_text:
        raise InputError(f"{option} {text}: there is no such name.")
    return by_text[text]
