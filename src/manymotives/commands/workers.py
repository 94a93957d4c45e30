"""Who computes, on the command line: processes of this machine, or a Dask cluster."""

from pathlib import Path
from typing import Annotated

import typer

from manymotives.errors import InputError

WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", help="Compute in this many processes of this machine, one fit in each.", min=1),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option("--scheduler", help="Compute on a Dask cluster: the address of its scheduler, tcp://node1:8786."),
]
StoreOption = Annotated[
    Path | None,
    typer.Option("--store", help="File that keeps every finished fit: the same command resumes from it."),
]


def executor_of(workers: int | None, scheduler: str | None) -> int | str | None:
    """What was chosen of the two; None: neither."""
    if workers is not None and scheduler is not None:
        raise InputError("choose one of --workers and --scheduler: each says who computes.")
    return scheduler or workers
