"""A panel whose units take no time, for tests of what runs, stores and resumes them; workers import it by name."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manymotives.experiments import Cell, Claim, Look, Panel


@dataclass(frozen=True)
class Setting:
    mean: float = 0.0
    pause: float = 0.0
    log: str = ""  # a file that gets a line for every unit computed
    fatal: str = ""  # a file: the worker that finds it removes it and kills itself


def run(setting: Setting, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    if setting.fatal:
        try:
            Path(setting.fatal).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        except FileNotFoundError:
            pass
    time.sleep(setting.pause)
    if setting.log:
        with open(setting.log, "a") as file:
            file.write(f"{seed}\n")
    return {f"loss/{name}/{x}": rng.normal(setting.mean) for name in ("ours", "theirs") for x in (1, 2)}


def difference(row):
    return row["loss/theirs/1"] - row["loss/ours/1"]


def panel(**settings):
    return Panel(
        name="tiny",
        figure="no figure",
        title="Nothing",
        runs=12,
        quick=2,
        more=3,
        run=run,
        readings={"one": (Cell(Setting(**settings)),)},
        notes={"one": "nothing at all"},
        look=Look(("ours", "theirs"), "x"),
        claims=(Claim("ours is better", "ours is better", "theirs less ours", difference),),
        seconds=0.01,
    )
