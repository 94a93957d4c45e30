"""How far a long run has got: a bar on the terminal (or notebook) with rate, time left and acceptance."""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

SOON = 1.25  # seconds after which what is being done is named: a bar appears, or a line where there is none
BETWEEN = 30.0  # seconds from one line in a log to the next
ANNOUNCED = 60.0  # seconds left of a run that is announced by a line where there is no bar
FEW = 0.03  # of all pieces: while fewer are done, a forecast tells more than the time that they took
LONG = 300.0  # seconds left of a run that comes with advice
COMPILING = "Compiling, once"  # said by one line a run
WRONG = 3.0  # by what factor the first forecast must have been wrong to be corrected


@dataclass(frozen=True)
class Advice:
    """What would make a run shorter, in the terms of Python and in those of the command line."""

    in_python: str = ""
    on_command_line: str = ""


class Forecast(NamedTuple):
    """How many seconds a run takes, and how sure that is: about so many, roughly, at least or at most."""

    seconds: float
    said: str = "about"


@dataclass
class Progress:
    """Where a run reports what it has done; shown only if it lasts, and only where somebody can watch."""

    shown: bool = True
    on_command_line: bool = False  # whether advice is in the terms of the command line
    said: set[str] = field(default_factory=set, repr=False)  # phases that are named by one line a run, and have been

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
            yield Report(bar, task, unit, time.monotonic(), self.on_command_line, speaks=self.shown, said=self.said)
        sys.stderr.flush()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Work that is not counted piece by piece: named where somebody can read it, if it lasts."""
        if not self.shown:
            yield
            return
        console = Console(stderr=True)
        status = console.status(name) if console.is_terminal or console.is_jupyter else None
        with _if_it_lasts(lambda: _print(console, f"{name} …") if status is None else status.start()):
            yield
        if status is not None:
            status.stop()


@contextmanager
def _if_it_lasts(speak: Callable[[], None]) -> Iterator[None]:
    """Speak soon, and again now and then, while something lasts."""
    ended = threading.Event()

    def keep_speaking() -> None:
        pause = SOON
        while not ended.wait(pause):
            speak()
            pause = BETWEEN

    speaker = threading.Thread(target=keep_speaking, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        ended.set()
        speaker.join()  # or it could still speak


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


class Logged(Progress):
    """The same where nobody watches but a file: a line now and then."""

    @contextmanager
    def of(self, total: int, unit: str) -> Iterator["Report"]:
        with super().of(total, unit) as report:
            yield report if not (report.bar.disable and self.shown) else Lines(**vars(report), total=total)


class Quiet(Progress):
    """No bar, wherever it is: a long run is announced all the same, on the error stream."""

    @contextmanager
    def of(self, total: int, unit: str) -> Iterator["Report"]:
        with Progress(False, self.on_command_line, self.said).of(total, unit) as report:
            yield replace(report, speaks=self.shown, names_phases=False)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        yield


class InParts(Progress):
    """One bar for several runs, each a part of the whole: what one does comes on top of what those before it did."""

    def __init__(self, whole: "Report", before: int = 0) -> None:
        super().__init__(whole.bar.disable is False, whole.on_command_line, whole.said)
        self.whole = replace(whole, before=before, begun=before)

    @contextmanager
    def of(self, total: int, unit: str) -> Iterator["Report"]:
        if self.whole.before == self.whole.begun:  # what came before the first piece, compilation, is no part of a rate
            self.whole.begin = time.monotonic()
        yield self.whole
        self.whole = replace(self.whole, before=self.whole.before + total)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        def speak() -> None:
            if self.whole.phases.get(name, 0.0) < time.monotonic() + BETWEEN - 1.0:  # not named a moment ago
                self.whole.name(name)

        with _if_it_lasts(speak):
            yield

    def expect(self, total: int, first_draws: int | None = None) -> None:
        """So much there will be, all in all, as far as one knows: so many draws per chain, if there may be more."""
        self.whole.first_draws = first_draws
        self.whole.bar.update(self.whole.task, total=total)  # type: ignore[arg-type]


@dataclass
class Report:
    """One bar."""

    bar: Bar
    task: int
    unit: str
    begin: float
    on_command_line: bool = False
    before: int = 0  # pieces of earlier parts
    begun: int = 0  # pieces done before `begin`
    speaks: bool = False  # whether a long run is announced in words
    announced: float | None = None  # seconds that a long run was said to take in all
    is_measured: bool = False  # whether that was measured, or need not be corrected
    first: tuple[float, int] | None = None  # when the first pieces were done, and how many, if no forecast was known
    first_draws: int | None = None  # per chain, that the outlook is about, if there may be more
    names_phases: bool = True  # whether phases are named by lines where there is no bar
    phases: dict[str, float] = field(default_factory=dict)  # when each was first seen, or is to be named again
    said: set[str] = field(default_factory=set)  # as of `Progress`

    def update(self, done: int, note: str = "", phase: str = "") -> None:
        """So much is done; `phase`: what is being done now."""
        elapsed, made = time.monotonic() - self.begin, self.before + done
        rate = f"{(made - self.begun) / elapsed:,.0f} {self.unit}/s" if made > self.begun else ""
        shown = {"completed": made, "rate": rate, "note": note, "visible": elapsed > 1.0}
        self.bar.update(self.task, description=phase or self.unit, **shown)  # type: ignore[arg-type]
        if not phase and self.bar.disable:
            self._count(made)
        if phase and self.bar.disable and time.monotonic() > self.phases.setdefault(phase, time.monotonic() + SOON):
            self.name(phase, note)

    def _count(self, made: int) -> None:
        """A line now and then on how many pieces are done, where there is neither a bar nor a phase to name."""
        total = self._total
        if time.monotonic() > self.phases.setdefault("", self.begin + BETWEEN) and self.speaks and self.names_phases:
            self.phases[""] = time.monotonic() + BETWEEN
            _print(self.bar.console, f"{made:,} of {total:,.0f} {self.unit}")

    @property
    def _total(self) -> float:
        return next(task.total for task in self.bar.tasks if task.id == self.task) or 0

    def name(self, phase: str, note: str = "") -> None:
        """Say what is being done: in the bar, or where there is none, by a line."""
        self.phases[phase] = time.monotonic() + BETWEEN
        if not self.bar.disable:
            self.bar.update(self.task, description=phase, visible=True)  # type: ignore[arg-type]
        elif self.speaks and self.names_phases and not (phase.startswith(COMPILING) and COMPILING in self.said):
            self.said.update({COMPILING} if phase.startswith(COMPILING) else ())
            _print(self.bar.console, f"{phase}: {note}." if note else f"{phase} …")

    def outlook(self, done: int, seconds_each: float, until: int | None = None, advice: Advice | None = None) -> str:
        """How much is done and how long the rest takes, in words; NaN seconds: not known before the first is done.

        `until`: of how many pieces that is said, if not of all. A long run is announced once: where there is no bar, by
        a line; with advice, where it is very long. It is corrected once if it turns out to be far from what was said.
        """
        total = self._total
        made = self.before + done - self.begun
        if not math.isfinite(seconds_each) and made > 0 and self.first is None:
            self.first = time.monotonic(), made  # what the first pieces compile is no part of a rate
        since, earlier = self.first or (self.begin, 0)
        is_measured = made > earlier + (FEW * total if math.isfinite(seconds_each) else 0)
        if is_measured:  # what comes before the first takes its time
            seconds_each = (time.monotonic() - since) / (made - earlier)
        left = (total - self.before - done) * seconds_each
        if not left > 0:
            return ""
        whole = (total - self.begun) * seconds_each
        if self.speaks and self.announced is None and left > (ANNOUNCED if self.bar.disable else LONG):
            self.announced, self.is_measured = whole, is_measured
            said = advice or Advice()
            advised = said.on_command_line if self.on_command_line else said.in_python
            _print(self.bar.console, announcement(left, advised, self.first_draws))
        elif self.announced is not None and is_measured and not self.is_measured:
            self.is_measured = True
            if not 1 / WRONG < whole / self.announced < WRONG:
                faster = "faster" if whole < self.announced else "slower"
                _print(self.bar.console, f"It is {faster} than expected: about {in_words(left)} left.")
        if until is not None:
            total, left = until, (until - self.before - done) * seconds_each  # some chains may be further than that
        return f"{min(1.0, (self.before + done) / total):.0%} done, about {in_words(max(0.0, left))} left"


def announcement(seconds: float, advice: str = "", first_draws: int | None = None, said: str = "about") -> str:
    """How long a run takes, and what to do instead where that is very long; `first_draws`: if there may be more."""
    line = f"This will take {said} {in_words(max(1.0, seconds))}"
    if first_draws is not None:
        line += f" for the first {first_draws:,} draws per chain, and longer if the chains have not mixed by then"
    return f"{line}. {advice}".rstrip() if seconds > LONG else f"{line}."


def in_words(seconds: float) -> str:
    """A duration as one says it: 40 s, 12 min, 3 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:,.0f} h"


@dataclass
class Lines(Report):
    """Lines in place of a bar."""

    total: int = 0
    last: float = 0.0  # when something was said, in seconds since the beginning

    def update(self, done: int, note: str = "", phase: str = "") -> None:
        elapsed = time.monotonic() - self.begin
        if elapsed - self.last < BETWEEN or not 0 < done < self.total:
            return
        self.last = elapsed
        left = elapsed * (self.total - done) / done
        text = f"{done:,} of {self.total:,} {self.unit}, about {left:,.0f} s left{f'; {note}' if note else ''}"
        _print(Console(stderr=True), text)
