"""How far a long run has got: a bar on the terminal (or notebook) with rate, time left and acceptance."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

BETWEEN = 30.0  # seconds from one line in a log to the next


@dataclass
class Progress:
    """Where a run reports what it has done; shown only if it lasts, and only where somebody can watch."""

    shown: bool = True

    @contextmanager
    def of(self, total: int, unit: str) -> Iterator["Report"]:
        """A report on `total` pieces of work."""
        console = Console(stderr=True)
        visible = self.shown and (console.is_terminal or console.is_jupyter)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Bar(*columns, console=console, transient=True, disable=not visible, refresh_per_second=4) as bar:
            task = bar.add_task(unit, total=total, rate="", note="", visible=False)
            yield Report(bar, task, unit, time.monotonic())
        sys.stderr.flush()

    def aside(self) -> "Progress":
        """Where something is reported that is not of the run itself."""
        return self


class Logged(Progress):
    """The same where nobody watches but a file: a line now and then."""

    @contextmanager
    def of(self, total: int, unit: str) -> Iterator["Report"]:
        with super().of(total, unit) as report:
            yield report if not (report.bar.disable and self.shown) else Lines(**vars(report), total=total)


class InParts(Progress):
    """One bar for several runs, each a part of the whole: what one does comes on top of what those before it did."""

    def __init__(self, whole: "Report", before: int = 0) -> None:
        super().__init__(whole.bar.disable is False)
        self.whole = replace(whole, before=before, begun=before)

    @contextmanager
    def of(self, total: int, unit: str) -> Iterator["Report"]:
        yield self.whole
        self.whole = replace(self.whole, before=self.whole.before + total)

    def aside(self) -> Progress:
        return Progress(False)

    def expect(self, total: int) -> None:
        """So much there will be, all in all, as far as one knows."""
        self.whole.bar.update(self.whole.task, total=total)  # type: ignore[arg-type]


@dataclass
class Report:
    """One bar."""

    bar: Bar
    task: int
    unit: str
    begin: float
    before: int = 0  # pieces of earlier parts
    begun: int = 0  # pieces done before `begin`

    def update(self, done: int, note: str = "") -> None:
        """So much is done."""
        elapsed, made = time.monotonic() - self.begin, self.before + done
        rate = f"{(made - self.begun) / elapsed:,.0f} {self.unit}/s" if made > self.begun else ""
        self.bar.update(self.task, completed=made, rate=rate, note=note, visible=elapsed > 1.0)  # type: ignore[arg-type]


@dataclass
class Lines(Report):
    """Lines in place of a bar."""

    total: int = 0
    last: float = 0.0  # when something was said, in seconds since the beginning

    def update(self, done: int, note: str = "") -> None:
        elapsed = time.monotonic() - self.begin
        if elapsed - self.last < BETWEEN or not 0 < done < self.total:
            return
        self.last = elapsed
        left = elapsed * (self.total - done) / done
        text = f"{done:,} of {self.total:,} {self.unit}, about {left:,.0f} s left{f'; {note}' if note else ''}"
        Console(stderr=True).print(text, highlight=False, markup=False, soft_wrap=True)
