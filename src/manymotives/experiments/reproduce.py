"""The verb: which panels, how many runs, who computes; units are computed, stored, drawn and judged."""

import os
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

from manymotives.errors import InputError
from manymotives.execution import Job, WorkerPool, cores
from manymotives.execution.compute import compute_missing, versions
from manymotives.execution.store import Store, opened
from manymotives.experiments import efficiency, gain, models, samplers, tasks, temperature
from manymotives.experiments.figures import draw
from manymotives.experiments.page import page, versions_text
from manymotives.experiments.panel import Panel, jobs_of
from manymotives.experiments.results import claims, curves, gathered
from manymotives.io.atomic import whole_file
from manymotives.io.writing import write_table

PANELS: dict[str, Panel] = {
    panel.name: panel
    for panel in (
        samplers.PANEL,
        models.PANEL,
        gain.PANEL,
        efficiency.SHORT,
        efficiency.LONG,
        temperature.PANEL,
        tasks.PANEL,
    )
}
STORE = "results.sqlite"
DEFAULT, EVERY = "default", "all"


def reproduce(
    panels: Sequence[str | Panel] = (),
    *,
    out: str | os.PathLike[str],
    runs: int | None = None,
    quick: bool = False,
    seed: int = 0,
    readings: str = DEFAULT,
    workers: int | str | Executor | None = None,
    progress: bool = True,
) -> Path:
    """The paper's panels, their claims and a page about them, in a folder; the path of the page.

    Parameters
    ----------
    panels
        Names of panels, such as "samplers", or panels of your own; all of the paper's by default.
    out
        Folder for results.sqlite, reproduction.md and reproduction/. What is finished there is not computed again; the
        page shows all that is there.
    runs
        Of every panel and reading. Default: the paper's for default readings, a tenth or a third for others.
    quick
        A few runs of everything, to see that it works.
    seed
        Another number, other tasks and demonstrations.
    readings
        "default"; "all", every reading of what the paper leaves open; or the name of one.
    workers
        Who computes: so many processes of this machine (default: one for each core); a Dask cluster, by the address of
        its scheduler, such as "tcp://node1:8786"; or any `concurrent.futures.Executor`.
    """
    chosen = _chosen(panels)
    if runs is not None and runs < 1:
        raise InputError(f"runs must be at least 1; found {runs}.")
    if isinstance(workers, int) and workers < 1:
        raise InputError(f"workers must be at least 1; found {workers}.")
    jobs = [job for panel in chosen for job in _jobs(panel, readings, runs, quick, seed)]
    jobs.sort(key=lambda job: job.run)  # what is there when it is stopped is some runs of everything
    if not jobs:
        known = sorted({repr(name) for panel in chosen for name in panel.readings})
        raise InputError(f"there is no reading {readings!r} of these panels. There are: {', '.join(known)}.")
    folder = Path(out)
    (folder / "reproduction").mkdir(parents=True, exist_ok=True)
    used = versions()
    with opened(folder / STORE, used) as store:
        if len(store.finished(job.unit for job in jobs)) < len(jobs):
            with WorkerPool(cores() if workers is None else workers) as pool:
                compute_missing(jobs, pool, store, progress)
        shown = tuple({panel.name: panel for panel in (*PANELS.values(), *chosen)}.values())
        return _written(folder, store, shown, seed, used, _command(panels, runs, quick, seed, readings))


def _chosen(panels: Sequence[str | Panel]) -> tuple[Panel, ...]:
    unknown = [name for name in panels if not isinstance(name, Panel) and name not in PANELS]
    if unknown:
        raise InputError(f"there is no panel {unknown[0]!r}. There are: {', '.join(PANELS)}.")
    return tuple(panel if isinstance(panel, Panel) else PANELS[panel] for panel in (panels or PANELS))


def _jobs(panel: Panel, readings: str, runs: int | None, quick: bool, seed: int) -> list[Job]:
    names = {DEFAULT: [panel.default], EVERY: list(panel.readings)}.get(readings, [readings])
    made = []
    for name in names:
        if name in panel.readings:
            usual = panel.runs if name == panel.default else panel.more
            made += jobs_of(panel, name, runs or (panel.quick if quick else usual), seed)
    return made


def _command(panels: Sequence[str | Panel], runs: int | None, quick: bool, seed: int, readings: str) -> str:
    """What makes the same page on the command line."""
    words = ["manymotives reproduce", *(panel.name if isinstance(panel, Panel) else panel for panel in panels)]
    words += [f"--runs {runs}"] if runs else []
    words += ["--quick"] if quick else []
    words += [f"--readings '{readings}'"] if readings != DEFAULT else []
    words += [f"--seed {seed}"] if seed else []
    return " ".join(words)


def _written(
    folder: Path, store: Store, everything: tuple[Panel, ...], seed: int, used: dict[str, str], command: str
) -> Path:
    """Tables, pictures and the page of all that is in the store."""
    results = gathered(store, everything, seed)
    drawn, judged = curves(results), claims(results, everything)
    tables = folder / "reproduction"
    write_table(drawn, tables / "curves.csv")
    write_table(judged, tables / "claims.csv")
    pictures = {panel.name: draw(panel, drawn, tables) for panel in everything}
    text = page(everything, judged, drawn, pictures, used, command)
    for path, content in ((tables / "versions.json", versions_text(used)), (folder / "reproduction.md", text)):
        with whole_file(path) as temporary:
            temporary.write_text(content, encoding="utf-8")
    return folder / "reproduction.md"
