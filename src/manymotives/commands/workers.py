"""Who computes, on the command line: processes of this machine, or a Dask cluster."""

from pathlib import Path
from typing import Annotated

import typer

from manymotives.errors import InputError

WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", help="Compute in this many processes on this machine, with one fit in each.", min=1),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option(
        "--scheduler", help="Compute on a Dask cluster, given the address of its scheduler, such as tcp://node1:8786."
    ),
]
StoreOption = Annotated[
    Path | None,
    typer.Option("--store", help="File that keeps every finished fit, from which the same command resumes."),
]


def executor_of(workers: int | None, scheduler: str | None) -> int | str | None:
    """What was chosen of the two; None: neither."""
    if workers is not None and scheduler is not None:
        raise InputError("--workers and --scheduler cannot be combined: each says where to compute. Choose one.")
    return scheduler or workers
