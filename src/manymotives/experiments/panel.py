"""What a panel is: settings in, runs of them as dictionaries of numbers, claims about those, one figure.

A run returns numbers by name, `measure/series/x`: `loss/MRP-MC/1024` is the loss of MRP-MC with 1024 samples. Every
method of a run sees the same tasks and the same demonstrations, so differences between methods are paired.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from manymotives.execution import Job, random_seed

Row = Mapping[str, float]  # all numbers of one run, of all cells of a reading


@dataclass(frozen=True)
class Claim:
    """A sentence as a number that must be above a threshold."""

    name: str
    sentence: str  # the paper's, or what a control asks
    statement: str  # what is computed, in words
    effect: Callable[[Row], float]  # of one run
    unit: str = "loss"
    threshold: float = 0.0
    kind: str = "paper"  # or "control", "artefact"
    beside: tuple[str, ...] = ()  # other panels whose numbers it reads, as `panel:measure/series/x`


@dataclass(frozen=True)
class Cell:
    """One setting of a panel: a frozen dataclass of numbers and words; its label stands before its numbers' names."""

    setting: Any
    label: str = ""


@dataclass(frozen=True)
class Look:
    """How a panel is drawn: which series, in this order, against what."""

    series: tuple[str, ...]
    x: str
    y: str = "loss"
    measure: str = "loss"
    log_x: bool = True
    log_y: bool = False  # above 1; straight below


@dataclass(frozen=True)
class Panel:
    """One panel of one of the paper's figures."""

    name: str
    figure: str
    title: str
    runs: int  # the paper's
    quick: int  # enough to see that it works
    more: int  # for readings other than the default one
    run: Callable[[Any, int], dict[str, float]]  # (setting, seed)
    readings: Mapping[str, tuple[Cell, ...]]  # the first is the default
    notes: Mapping[str, str]  # what each reading is
    look: Look
    claims: tuple[Claim, ...]
    seconds: float  # of one run of one cell, for the first guess of the time left
    stream: str = ""  # panels with the same stream see the same tasks; by default each its own
    subsets: Mapping[str, Callable[[Row], bool]] = field(default_factory=dict)  # runs to look at apart
    revision: int = 1  # raise it when the same settings give other numbers: what is stored is then computed anew

    @property
    def default(self) -> str:
        return next(iter(self.readings))


def jobs_of(panel: Panel, reading: str, runs: int, seed: int) -> list[Job]:
    """All units of a reading of a panel."""
    made = []
    for cell in panel.readings[reading]:
        described = json.dumps([asdict(cell.setting), constants_of(panel.run), panel.revision], sort_keys=True)
        fingerprint = hashlib.sha256(described.encode()).hexdigest()[:16]
        for run in range(runs):
            begin = random_seed(seed, panel.stream or panel.name, run)
            unit = (panel.name, cell.label, fingerprint, run, seed)
            made.append(Job(*unit, panel.run, cell.setting, begin, panel.seconds, variant=reading))
    return made


def constants_of(run: Callable[..., Any]) -> dict[str, str]:
    """The settings on top of a panel's file, by name: whoever changes one gets new numbers, not a mixture."""
    names = vars(sys.modules[run.__module__])
    return {
        name: repr(value)
        for name, value in names.items()
        if name.isupper() and not isinstance(value, str | Panel)  # sentences and what is made of all this
    }
