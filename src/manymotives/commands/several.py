"""Several environments named on the command line, one table each, in; one environment, their union, out."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from manymotives.data.environment import Environment
from manymotives.data.environments import Environments
from manymotives.data.labels import Label
from manymotives.data.union_rows import COLUMN
from manymotives.errors import InputError, listed, quoted
from manymotives.io.columns import environment_name_column
from manymotives.io.files import columns_in, read_table

Reader = Callable[[str, Sequence[str]], tuple[Environment, Sequence[str]]]


def read_environments(
    names: Sequence[str], read: Reader, terminal: Sequence[str], coordinates: Path | None
) -> tuple[Environments, list[str]]:
    """Environments by the stems of their files, and what to say about them; `read` reads one."""
    members: dict[Label, Environment] = {}
    said: list[str] = []
    for name in names:
        stem = Path(name.split(":", 1)[-1]).stem
        if stem in members:
            raise InputError(f"two environments are called {quoted(stem)}, after their files. Rename one of the files.")
        members[stem], notes = read(name, terminal)
        said += [f"{stem}: {note}" for note in notes]
    everywhere = {str(state) for each in members.values() for state in each.states}
    unknown = [state for state in terminal if state not in everywhere]
    if unknown:
        raise InputError(f"--terminal {unknown[0]}: none of the environments has that state.")
    if coordinates is not None:
        members = {name: each.with_coordinates(_places(coordinates, name, each)) for name, each in members.items()}
    return Environments(members), said


def environment_column(present: Sequence[str], environments: Environments, file: str) -> str:
    """The column of a table of choices that says in which of them a row is."""
    found = environment_name_column(present, file)
    if found is None:
        raise InputError(
            f"{file} has no column {quoted(COLUMN)} that says to which of {listed(environments.names)} each row "
            "belongs (the names of the environments' files). Add it."
        )
    return found


def _places(path: Path, name: Label, environment: Environment) -> dict[Label, tuple[float, float]]:
    """Where to draw one environment's states: a table with state, x, y, and environment where they differ."""
    where = environment_name_column(columns_in(path)[0], path.name)
    table = read_table(path, names=[["state"], *([[where]] if where else [])], others=["x", "y"])
    if where is not None:
        table = table[table[where].astype(str) == str(name)]
    numbers = table[["x", "y"]].to_numpy()
    if numbers.dtype.kind not in "iuf" or not np.isfinite(numbers).all():
        raise InputError(f"{path.name}: x and y must be numbers.")
    by_text = {str(state): state for state in environment.states}
    return {by_text.get(str(s), s): (float(x), float(y)) for s, (x, y) in zip(table["state"], numbers)}
