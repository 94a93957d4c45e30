"""Who computes the units: processes of this machine, a Dask cluster, or any executor; whoever it is, the same numbers.

Units are handed out a few at a time. A worker that dies takes what it was computing with it: that is handed out again,
and an error is raised only when workers die again and again without anything being finished.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import Any

from manymotives.errors import InputError
from manymotives.experiments.panel import Job, computed

AHEAD = 3  # units handed out for each worker: one to compute, the others so that it never waits
ANSWER = 10.0  # seconds that a scheduler may take to say hello
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
                        future = executor.submit(computed, waiting[-1])  # may fail: then the job is still waiting
                        pending[future] = waiting.pop()
                    done, _ = wait(pending, return_when=FIRST_COMPLETED)
                    broken = [future for future in done if isinstance(future.exception(), BrokenProcessPool)]
                    for future in done.difference(broken):  # what came through before the others died
                        numbers, seconds = future.result()
                        finished(pending.pop(future), numbers, seconds)
                        deaths = 0
                    for future in broken:
                        future.result()
        except BrokenProcessPool:
            waiting.extend(pending.values())
            deaths += 1
            if deaths > PATIENCE:
                last = next(iter(pending.values()), waiting[-1]).unit
                raise InputError(
                    f"worker processes died {deaths} times in a row, the last while {last.panel} ({last.reading}) was "
                    "computed. What is finished is kept. Is there too little memory? Try fewer --workers."
                ) from None


@contextmanager
def local_processes(workers: int) -> Iterator[Executor]:
    """Fresh processes, which import once and then compute; not forked ones, where threads would not survive."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    others = set(active_children())
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))  # read when libraries are loaded, so before a worker begins
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_begin, initargs=(os.getpid(),))
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(active_children()) - others:  # what they were computing when all was stopped is lost anyway
            child.terminate()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _begin(parent: int) -> None:
    """In a worker, at its start: Ctrl-C is for the parent, and where that was killed there is nothing left to do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def dask_cluster(address: str) -> Iterator[tuple[Executor, int]]:
    """An executor on an existing Dask scheduler, and how many threads its workers have."""
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise InputError("--scheduler needs Dask: pip install 'manymotives[dask]'.") from None
    try:
        client = Client(address, timeout=ANSWER, set_as_default=False)
    except (OSError, ValueError, TimeoutError):
        raise InputError(
            f"no Dask scheduler answers at {address!r}. Is that the address it printed when it started, such as "
            "tcp://node1:8786?"
        ) from None
    with client:
        threads = sum(client.nthreads().values())
        if threads == 0:
            raise InputError(f"the Dask scheduler at {address!r} has no workers. Start some: dask worker {address}")
        with client.get_executor(pure=False, retries=PATIENCE) as executor:
            try:
                yield executor, threads
            except KilledWorker:
                raise InputError(
                    f"workers of the Dask cluster at {address!r} died {PATIENCE} times over the same unit. What is "
                    "finished is kept. Is there too little memory? Their logs should tell."
                ) from None
