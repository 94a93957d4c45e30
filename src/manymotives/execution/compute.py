"""The verb: jobs in, numbers by unit out; what a store holds is read from there, and the rest is computed once."""

import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from manymotives.execution.jobs import Job, Numbers, Unit
from manymotives.execution.runner import WorkerPool, Workers, run_jobs
from manymotives.execution.store import Store, opened
from manymotives.execution.watch import Watch
from manymotives.versions import version_of

SOFTWARE = ("manymotives", "numpy", "numba", "scipy")  # what the numbers may depend on


def compute(
    jobs: Sequence[Job],
    *,
    executor: Workers | WorkerPool = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> dict[Unit, Numbers]:
    """The numbers of every job, in the order of the jobs.

    Parameters
    ----------
    executor
        Who computes; see `WorkerPool`. One that is open already stays open, for the next jobs.
    store
        An SQLite file that keeps every result as it comes: a run that was killed resumes from it. None: kept in memory.
    """
    if isinstance(executor, WorkerPool):
        with _store(store) as kept:
            return compute_missing(jobs, executor, kept, progress)
    with WorkerPool(executor) as pool, _store(store) as kept:
        return compute_missing(jobs, pool, kept, progress)


def compute_missing(jobs: Sequence[Job], pool: WorkerPool, store: Store, progress: bool) -> dict[Unit, Numbers]:
    """The same with a pool and a store that are open: jobs that the store lacks are computed, in the given order."""
    wanted = {job.unit: job for job in jobs}
    there = store.finished(wanted)
    missing = [job for unit, job in wanted.items() if unit not in there]
    with Watch(missing, len(wanted), pool.size, progress) as watch:

        def finished(job: Job, numbers: Numbers, seconds: float) -> None:
            store.add(job.unit, numbers, seconds)
            watch.finished(job, seconds)

        run_jobs(missing, pool, finished)
    known = store.numbers(wanted)
    return {unit: known[unit] for unit in wanted}


def versions() -> dict[str, str]:
    """What the numbers may depend on."""
    return {name: version_of(name) for name in SOFTWARE} | {"python": platform.python_version()}


@contextmanager
def _store(path: str | os.PathLike[str] | None) -> Iterator[Store]:
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    with opened(path, versions()) as store:
        yield store
