"""How far computations have got, and how long they will take: a bar on a terminal, elsewhere a line per minute."""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from manymotives.execution.jobs import Job

EVERY = 60.0  # seconds between two lines where nobody watches


class Watch:
    """Units of several cells, which take very different times: the time left is estimated cell by cell."""

    def __init__(self, jobs: list[Job], total: int, workers: int, shown: bool) -> None:
        self.left: dict[tuple[str, str, str], int] = {}
        self.guess: dict[tuple[str, str, str], float] = {}
        for job in jobs:
            cell = _cell(job)
            self.left[cell] = self.left.get(cell, 0) + 1
            self.guess[cell] = job.seconds
        self.seen: dict[tuple[str, str, str], tuple[int, float]] = {}
        self.total, self.done, self.workers = total, total - len(jobs), workers
        self.begin = self.spoken = time.monotonic()
        self.begun_with = self.done
        console = Console(stderr=True)
        self.shown = shown
        self.is_watched = shown and (console.is_terminal or console.is_jupyter)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self.bar = Progress(*columns, console=console, transient=True, disable=not self.is_watched)
        self.task = self.bar.add_task("units", total=total, completed=self.done, left="")

    def __enter__(self) -> "Watch":
        self.bar.start()
        if self.shown and self.done and not self.is_watched:
            print(f"{self.done} of {self.total} units are already finished.", file=sys.stderr, flush=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def finished(self, job: Job, seconds: float) -> None:
        """One more unit."""
        cell = _cell(job)
        count, spent = self.seen.get(cell, (0, 0.0))
        self.seen[cell] = (count + 1, spent + seconds)
        self.left[cell] -= 1
        self.done += 1
        left = f"about {spoken(self.seconds_left())} left"
        self.bar.update(self.task, completed=self.done, left=left, description=job.study)
        now = time.monotonic()
        if self.shown and not self.is_watched and now - self.spoken > EVERY:
            self.spoken = now
            print(f"{self.done} of {self.total} units, {left}", file=sys.stderr, flush=True)

    def seconds_left(self) -> float:
        """From what units of each cell have taken so far, or were expected to, and how busy the workers have been."""
        work = 0.0
        for cell, left in self.left.items():
            count, spent = self.seen.get(cell, (0, 0.0))
            work += left * (spent / count if count else self.guess[cell])
        return work / self.workers


def spoken(seconds: float) -> str:
    """A duration for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _cell(job: Job) -> tuple[str, str, str]:
    return job.study, job.variant, job.cell
