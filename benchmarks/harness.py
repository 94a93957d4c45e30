"""How things are timed (ours and the peer by turns, in one process, compilation apart) and how figures are kept."""

import json
import os
import platform
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

import numpy as np

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    ours: float
    peer: float | None  # None where the row is held against a fixed bar
    ratio: float | None
    unit: str
    bar: str
    passed: bool
    compile_seconds: float | None = None  # first call less a later one; small where Numba's cache is warm
    share_of_limit: float | None = None  # useful floating-point operations a second, of those of a matrix product
    note: str = ""


def seconds(work: Callable[[], object], at_least: float = 0.0) -> float:
    """Seconds a call, repeating calls until they fill the time asked for."""
    calls, begin = 0, time.perf_counter()
    while calls == 0 or time.perf_counter() - begin < at_least:
        work()
        calls += 1
    return (time.perf_counter() - begin) / calls


def side_by_side(
    ours: Callable[[], object], peer: Callable[[], object], rounds: int = 7, at_least: float = 0.5
) -> tuple[float, float, float]:
    """Median seconds of each and the median of the rounds' ratios: noise that lasts longer than a round cancels."""
    pairs = [(seconds(ours, at_least), seconds(peer, at_least)) for _ in range(rounds)]
    return (
        median(mine for mine, _ in pairs),
        median(theirs for _, theirs in pairs),
        median(theirs / mine for mine, theirs in pairs),
    )


def peak_memory() -> float:
    """GiB that this process has had at most.

    Not from getrusage: what that reports starts from the memory of the process that started this one.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 2**20


def machine(packages: Sequence[str]) -> dict[str, object]:
    """Where figures were measured, and on which code: cores, processor, commit, and the versions of `packages`."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "commit": commit(),
        "versions": {name: _version(name) for name in packages},
    }


def commit() -> str:
    """The short hash of the commit checked out, or "unknown" outside git."""
    asked = ["git", "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(asked, cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def write(file: str, machine: Mapping[str, object], rows: Sequence[Mapping[str, object]]) -> None:
    """Figures as JSON, in a file beside this one."""
    (HERE / file).write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


@dataclass
class Record:
    """Rows of figures, written with every row that is added: an interrupted run keeps what it has measured."""

    file: str
    machine: Mapping[str, object]
    rows: list[Mapping[str, object]] = field(default_factory=list)

    def add(self, **figures: object) -> None:
        self.rows.append(figures)
        write(self.file, self.machine, self.rows)


def first_call(work: Callable[[], object]) -> float:
    """What the first call costs beyond a later one."""
    return max(0.0, seconds(work) - seconds(work))


def floating_point_limit() -> float:
    """Operations a second of a float64 matrix product on all cores: the practical limit of this machine, now."""
    size = 1536
    a, b = np.random.default_rng(0).random((2, size, size))
    a @ b
    return 2 * size**3 / min(seconds(lambda: a @ b) for _ in range(5))
