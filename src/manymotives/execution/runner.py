"""Who computes units of work: threads, processes, a Dask cluster, or any executor; the same numbers whoever it is.

Units are submitted a few at a time. A worker that dies takes what it was computing with it: that is submitted again,
and an error is raised only when workers die again and again with nothing finished in between.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from multiprocessing import active_children, get_context
from types import TracebackType
from typing import Any

from threadpoolctl import threadpool_limits

from manymotives.errors import InputError, quoted
from manymotives.execution.jobs import Job, Numbers, computed
from manymotives.planning.problem import cores

AHEAD = 3  # units submitted for each worker: one to compute, the others so that it never waits
ANSWER = 10.0  # seconds that a scheduler may take to answer
PATIENCE = 3  # times in a row that workers may die with nothing finished in between
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # a worker is one core's work

Workers = int | str | Executor | None
Report = Callable[[Job, Numbers, float], None]


class WorkerPool:
    """Workers that stay open from one batch of jobs to the next, so that each of them compiles only once.

    Parameters
    ----------
    executor
        None: threads of this process, one for each core. A number: so many processes of this machine; a script that
        asks for them must do its work under `if __name__ == "__main__":`. Text: the address of a Dask scheduler, such
        as "tcp://node1:8786". Or any `concurrent.futures.Executor`, such as those of mpi4py, for MPI, or of executorlib
        and submitit, for Slurm.
    """

    def __init__(self, executor: Workers = None) -> None:
        is_number = isinstance(executor, int) and not isinstance(executor, bool)
        if is_number and executor < 1:  # type: ignore[operator]
            raise InputError(f"executor must be at least 1 process; found {executor}.")
        if not is_number and not (executor is None or isinstance(executor, str) or hasattr(executor, "submit")):
            raise InputError(
                "executor must be a number of processes, the address of a Dask scheduler, or a "
                f"concurrent.futures.Executor; found {quoted(executor)}."
            )
        self.executor = executor
        self.size = 0  # for how many workers to have work ready
        self._open: Any = None
        self._stack = ExitStack()

    def __enter__(self) -> "WorkerPool":
        with ExitStack() as stack:
            if self.executor is None:
                self.size = cores()
                stack.enter_context(threadpool_limits(1, "blas"))
                self._open = stack.enter_context(ThreadPoolExecutor(self.size))
            elif isinstance(self.executor, int):
                self.size = self.executor
                self._open = stack.enter_context(local_processes(self.size))
            elif isinstance(self.executor, str):
                self._open, self.size = stack.enter_context(dask_cluster(self.executor))
            else:
                self._open, self.size = self.executor, 2 * (os.cpu_count() or 1)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
        self._open = None

    def submit(self, job: Job) -> "Future[tuple[Numbers, float]]":
        return self._open.submit(computed, job)

    def reopened(self) -> None:
        """New processes in the place of those that died; executors that users gave are theirs to mend."""
        if isinstance(self.executor, int):
            self._stack.close()
            self.__enter__()


def run_jobs(jobs: Sequence[Job], pool: WorkerPool, finished: Report) -> None:
    """Compute all jobs; `finished` is called with each result as it comes, in this process."""
    waiting = list(reversed(jobs))
    deaths = 0
    while waiting:
        pending: dict[Future[Any], Job] = {}
        try:
            while waiting or pending:
                while waiting and len(pending) < AHEAD * pool.size:
                    future = pool.submit(waiting[-1])  # may fail: then the job is still waiting
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
                last = next(iter(pending.values()), waiting[-1])
                described = ", ".join(filter(None, (last.variant, last.cell)))
                raise InputError(
                    f"worker processes died {deaths} times in a row, the last while {last.study} ({described}) "
                    "was computed. Finished results are kept. If memory is short, try fewer workers."
                ) from None
            pool.reopened()
        except BaseException:
            for future in pending:
                future.cancel()
            raise


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
        raise InputError("a scheduler needs Dask: pip install 'manymotives[dask]'.") from None
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
                    f"workers of the Dask cluster at {address!r} died {PATIENCE} times over the same unit. "
                    "Finished results are kept. Look in their logs for the reason, such as too little memory."
                ) from None
