"""Where a run is written: whether it can be, what is there already, and what is said as it grows."""

import os
from pathlib import Path

from rich.console import Console

from manymotives.errors import InputError
from manymotives.fitting.checkpoints import OnCheckpoint, is_unfinished
from manymotives.fitting.fit import load


def check_out(out: Path | None, *, resume: bool, force: bool) -> None:
    """Before the work: whether the result can be written, and what is there already."""
    if out is None:
        raise InputError("no output file was named. Name one with --out, such as --out run.nc.")
    if out.suffix != ".nc":
        raise InputError(f"the result is a netCDF file: name it {out.with_suffix('.nc').name!r}, not {out.name!r}.")
    if not out.parent.is_dir():
        raise InputError(f"there is no folder {str(out.parent)!r} to write to. Create it first.")
    if out.is_dir() or not os.access(out.parent, os.W_OK):
        raise InputError(f"{str(out)!r} cannot be written to. Choose another place.")
    if out.exists() and not (resume or force):
        what = "an unfinished run" if is_unfinished(load(out)) else "a finished run"
        raise InputError(
            f"{out} already holds {what}. Resume it (--resume), overwrite it (--force), or choose another file."
        )


def announcer(target: Path) -> OnCheckpoint:
    """A line in the log after each checkpoint: how far, how fast, how long still."""
    console = Console(stderr=True)

    def on_checkpoint(made: int, wanted: int, rate: float) -> None:
        if made < wanted:
            left = f"about {(wanted - made) / rate:,.0f} s left" if (wanted - made) / rate > 1 else "nearly done"
            text = f"{made:,} of {wanted:,} draws per chain, {rate:,.1f} per second, {left}; saved in {target}"
            console.print(text, highlight=False, markup=False, soft_wrap=True)

    return on_checkpoint


def left(target: Path) -> str:
    """What is there when a run was stopped by hand."""
    last = f"{target} holds the last checkpoint; --resume continues from it."
    return last if target.exists() else "Nothing was written."
