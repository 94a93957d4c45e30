"""How well runs predict what they have not seen, beside the plain baselines."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from manymotives.commands.common import JsonOption, Speaker
from manymotives.commands.options import in_options
from manymotives.commands.workers import SchedulerOption, StoreOption, WorkersOption, executor_of
from manymotives.errors import InputError
from manymotives.fitting.fit import load
from manymotives.inference import HMC, EmpiricalBayes, Gibbs, Metropolis
from manymotives.inference.progress import Logged
from manymotives.scoring import Score, score
from manymotives.scoring.contenders import contenders_of


class HoldOut(StrEnum):
    EPISODES = "episodes"
    SUBJECTS = "subjects"


class Refits(StrEnum):
    AS_RUN = "as-run"
    EMPIRICAL_BAYES = "empirical-bayes"
    HMC = "hmc"
    GIBBS = "gibbs"
    METROPOLIS = "metropolis"
    NONE = "none"


METHODS: dict[Refits, Any] = {
    Refits.EMPIRICAL_BAYES: EmpiricalBayes(),
    Refits.HMC: HMC(),
    Refits.GIBBS: Gibbs(),
    Refits.METROPOLIS: Metropolis(),
}


SHORT = {"RP": "complete pooling", "MRP": "partial pooling", "MPO": "policy-optimality model"}


class Beside(StrEnum):
    MODELS = "models"
    COUNTS = "counts"


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run files written by `manymotives fit`, all of the same data.")],
    hold_out: Annotated[HoldOut, typer.Option(help="What to hold out: episodes, or whole subjects.")] = (
        HoldOut.EPISODES
    ),
    folds: Annotated[int, typer.Option(help="For episodes: number of folds.", min=2, max=1000)] = 5,
    first: Annotated[
        str,
        typer.Option(help="For subjects: number of a new subject's own episodes to learn from first, such as 0,1,4."),
    ] = "0",
    own_past: Annotated[
        bool,
        typer.Option(
            "--own-past",
            help="For subjects: also predict with models that learn, choice by choice, from what the new subject "
            "did before.",
        ),
    ] = False,
    method: Annotated[
        Refits,
        typer.Option(
            help=(
                "How training sets are fitted: by the method of the run, by another method, or not at all. In "
                "the last case the run is reweighted, which is quick, and refused if it is unreliable."
            )
        ),
    ] = Refits.AS_RUN,
    beside: Annotated[
        Beside,
        typer.Option(
            help="What to compare with: choice counts and models with complete pooling (RP), with partial pooling "
            "(MRP) and of policies and their optimality (MPO); or choice counts only."
        ),
    ] = Beside.MODELS,
    seed: Annotated[int, typer.Option(help="Seed of the folds and of the draws.", min=0)] = 0,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    store: StoreOption = None,
    out: Annotated[
        Path | None, typer.Option(help="File to save the score in: .json (everything) or .csv (the table).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Score how well runs predict held-out choices, compared with simple baselines."""
    speaker = Speaker(as_json)
    with speaker.failures(out):
        if out is not None and out.suffix.lower() not in (".json", ".csv"):
            raise InputError(f"--out {out}: the name must end in .json or .csv.")
        executor = executor_of(workers, scheduler)
        what = _held_out(hold_out, folds, _numbers(first), own_past)
        loaded = [load(path) for path in runs]
        names = _names(runs)
        asked: Any = loaded[0] if len(loaded) == 1 else dict(zip(names, loaded))
        others = None if beside is Beside.MODELS and method is not Refits.NONE else ()
        contenders, _ = contenders_of(asked, METHODS.get(method), others)
        speaker.say(announced([each.name for each in contenders], hold_out, folds, method, alone=executor is None))
        found = score(
            asked,
            method="psis" if method is Refits.NONE else METHODS.get(method),
            hold_out=what,
            beside=others,
            seed=seed,
            executor=executor,
            store=store,
            progress=Logged(not as_json),
        )
        if out is not None:
            found.save(out)
    speaker.result(found.to_dict())
    if as_json:
        return
    console = Console()
    show(console, found)
    if out is not None:
        console.print(f"[bold]{out}[/bold]  the score", soft_wrap=True)


def announced(names: list[str], hold_out: HoldOut, folds: int, method: Refits, *, alone: bool = True) -> str:
    """What will be fitted, before it is, and what would take less time."""
    if method is Refits.NONE:
        what = "episode" if hold_out is HoldOut.EPISODES else "subject"
        return f"Nothing is fitted anew: draws are reweighted to leave out each {what} in turn."
    named = [f"{name}: {SHORT[name]}" if name in SHORT else name for name in names]
    some = f"{len(names)} model{'s' if len(names) > 1 else ''} ({'; '.join(named)})"
    if hold_out is HoldOut.EPISODES:
        line = f"Fitting {some}, each to {folds} training sets at most: up to {len(names) * folds} fits."
    else:
        line = f"Fitting {some}, and again without a subject wherever one fit cannot be reweighted."
    faster = ["--beside counts (only the runs and counts of choices)"] if len(names) > 1 else []
    faster += ["--method empirical-bayes (approximate)"] if method is not Refits.EMPIRICAL_BAYES else []
    faster += ["--workers"] if alone else []
    return f"{line} Faster: {', '.join(faster)}." if faster else line


def show(console: Console, found: Score) -> None:
    """The comparison as a table, and how to read it."""
    whole = found.table
    experiences = sorted(map(int, whole["own_episodes"].unique())) if "own_episodes" in whole else [None]
    for experience in experiences:
        part = whole if experience is None else whole[whole["own_episodes"] == experience]
        first = part.iloc[0]
        table = Table(title=_title(found, experience, int(first["choices"]), int(first["tasks"])))
        for heading in ("", "nats a choice", "± error", f"against {escape(found.model)}", "± error"):
            table.add_column(heading, justify="right" if heading else "left")
        for row in part.to_dict("records"):
            is_it = row["model"] == found.model
            table.add_row(
                f"[bold]{escape(row['model'])}[/]" if is_it else escape(row["model"]),
                f"{row['log_likelihood']:.4f}",
                f"{row['standard_error']:.4f}",
                "" if is_it else f"{row['difference']:+.4f}",
                "" if is_it else f"{row['difference_se']:.4f}",
            )
        console.print(table)
    if found.note is not None:
        console.print(escape(found.note), soft_wrap=True, highlight=False)
    if found.abbreviations is not None:
        console.print(escape(found.abbreviations), soft_wrap=True, highlight=False)
    if found.basis is not None:
        console.print(f"Computed from {escape(str(found.basis))}.", soft_wrap=True, highlight=False)
    console.print(
        "How to read it: each number is the mean log probability of a held-out choice; 0 would be certainty, and "
        "higher (closer to 0) is better. A model that does not beat the counts has found no motives that help to "
        f'predict. "against {escape(found.model)}" is the difference from that model: more than twice its '
        "standard error is unlikely to be chance. Standard errors are by subject.",
        soft_wrap=True,
    )
    for warning in found.warnings:
        console.print(f"[yellow]![/] {escape(in_options(warning))}", soft_wrap=True, highlight=False)
    done = found.how.value_counts(["model", "how"], sort=False).reset_index()
    words = [f"{row['model']}: {row['count']} {row['how']}" for row in done.to_dict("records")]
    console.print(f"How predictions were made: {escape('; '.join(words))}.", soft_wrap=True, highlight=False)


def _title(found: Score, experience: int | None, choices: int, tasks: int) -> str:
    counted = f"{choices:,} choices of {tasks} subjects"
    if found.hold_out == "episodes":
        return f"Held-out episodes: {counted}"
    if experience == 0:
        at_first = " at first" if found.settings.get("own_past") else ""
        return f"New subjects, without any choices of their own{at_first}: {counted}"
    return f"New subjects, after their first {'episode' if experience == 1 else f'{experience} episodes'}: {counted}"


def _held_out(
    hold_out: HoldOut, folds: int, first: tuple[int, ...], own_past: bool
) -> tuple[str, int | str | tuple[int, ...]]:
    """What `score` is to hold out."""
    if own_past and hold_out is not HoldOut.SUBJECTS:
        raise InputError("--own-past is for predicting new subjects: add --hold-out subjects.")
    if own_past and first != (0,):
        raise InputError(
            f"--own-past and --first {','.join(map(str, first))} cannot be combined: with --own-past a new "
            "subject is predicted from its first choice on. Leave one of them out."
        )
    if hold_out is HoldOut.EPISODES:
        return "episodes", folds
    return "tasks", "own past" if own_past else first


def _names(runs: list[Path]) -> list[str]:
    """Runs by the names of their files, or by their paths where files are named alike."""
    stems = [path.stem for path in runs]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in runs]


def _numbers(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise InputError(f"--first takes numbers of episodes separated by commas, such as 0,1,4; found {text!r}.")
    return tuple(map(int, parts))
