"""Who computes the units: processes of this machine, a Dask cluster, or any executor; whoever it is, the same numbers.

Units are handed out a few at a time. A worker that dies takes what it was computing with it: that is handed out again,
and an error is raised only when workers die again and again without anything being finished.
"""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from manymotives.errors import InputError
from manymotives.experiments.panel import Job, computed

AHEAD = 3  # units handed out for each worker: one to compute, the others so that it never waits
PATIENCE = 3  # times in a row that workers may die with nothing finished in between
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # a worker is one core's work

Report = Callable[[Job, dict[str, float], float], None]


def run_jobs(jobs: list[Job], open_executor: Callable[[], Any], workers: int, finished: Report) -> None:
    """Compute all jobs; `finished` is called with each result as it comes, in this process.

    `open_executor` makes a context with an executor; it is called again where one breaks.
    """
    waiting = list(reversed(jobs))
    deaths = 0
    while waiting:
        pending: dict[Future[Any], Job] = {}
        try:
            with open_executor() as executor:
                while waiting or pending:
                    while waiting and len(pending) < AHEAD * workers:
                        job = waiting.pop()
                        pending[executor.submit(computed, job)] = job
                    done, _ = wait(pending, return_when=FIRST_COMPLETED)
                    for future in done:
                        numbers, seconds = future.result()
                        finished(pending.pop(future), numbers, seconds)
                        deaths = 0
        except BrokenProcessPool:
            waiting.extend(pending.values())
            deaths += 1
            if deaths > PATIENCE:
                raise InputError(
                    f"worker processes died {deaths} times in a row, computing {pending_names(pending)}. What is "
                    "finished is kept. Is there too little memory? Try fewer --workers."
                ) from None
            time.sleep(0.1 * deaths)


def pending_names(pending: dict[Future[Any], Job]) -> str:
    """What was being computed, in a sentence."""
    return " and ".join(sorted({f"{job.unit.panel} ({job.unit.reading})" for job in pending.values()}))


@contextmanager
def local_processes(workers: int) -> Iterator[Executor]:
    """Fresh processes, which import once and then compute; not forked ones, where threads would not survive."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def dask_cluster(address: str) -> Iterator[tuple[Executor, int]]:
    """An executor on an existing Dask scheduler, and how many threads its workers have."""
    try:
        from distributed import Client
    except ImportError:
        raise InputError("--scheduler needs Dask: pip install 'manymotives[dask]'.") from None
    try:
        client = Client(address, timeout=10.0, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"no Dask scheduler answers at {address!r}: {error}") from None
    with client:
        threads = sum(client.nthreads().values())
        if threads == 0:
            raise InputError(f"the Dask scheduler at {address!r} has no workers. Start some: dask worker {address}")
        with client.get_executor(pure=False, retries=PATIENCE) as executor:
            yield executor, threads
