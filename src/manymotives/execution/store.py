"""What has been computed, in one SQLite file or in memory: a unit is there whole or not at all, and only once.

Only the process that hands out the work writes. Each result is a transaction of its own, so a killed run loses what was
being computed and nothing else.
"""

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from manymotives.errors import InputError
from manymotives.execution.jobs import Numbers, Unit

TABLES = """
CREATE TABLE IF NOT EXISTS units (
    study TEXT, variant TEXT, cell TEXT, fingerprint TEXT, run INTEGER, seed INTEGER, seconds REAL, numbers TEXT,
    PRIMARY KEY (study, variant, cell, fingerprint, run, seed)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS versions (name TEXT PRIMARY KEY, version TEXT) WITHOUT ROWID;
"""


class Store:
    """Results by unit."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def finished(self, units: Iterable[Unit]) -> set[Unit]:
        """Those of the units that are there."""
        known = set(self.connection.execute("SELECT study, variant, cell, fingerprint, run, seed FROM units"))
        return {unit for unit in units if tuple(unit) in known}

    def add(self, unit: Unit, numbers: Numbers, seconds: float) -> None:
        """One result; what is there already stays as it is."""
        row = (*unit, seconds, json.dumps(numbers))
        with self.connection:
            self.connection.execute("INSERT OR IGNORE INTO units VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def numbers(self, units: Iterable[Unit]) -> dict[Unit, Numbers]:
        """What these units gave, of those that are there."""
        wanted, asked = set(units), "SELECT study, variant, cell, fingerprint, run, seed, numbers FROM units"
        rows = ((Unit(*key), text) for *key, text in self.connection.execute(asked))
        return {unit: json.loads(text) for unit, text in rows if unit in wanted}

    def all_numbers(self, seed: int) -> dict[tuple[str, str, str, str], dict[int, Numbers]]:
        """What all units of a seed gave: by study, variant, cell and fingerprint, then by run."""
        asked = "SELECT study, variant, cell, fingerprint, run, numbers FROM units WHERE seed = ? ORDER BY run"
        found: dict[tuple[str, str, str, str], dict[int, Numbers]] = {}
        for study, variant, cell, fingerprint, run, numbers in self.connection.execute(asked, (seed,)):
            found.setdefault((study, variant, cell, fingerprint), {})[run] = json.loads(numbers)
        return found


@contextmanager
def opened(path: str | os.PathLike[str] | None, versions: dict[str, str]) -> Iterator[Store]:
    """The store at a path, made if it is not there; refused if other versions of the software filled it.

    Without a path: one in memory, for as long as it is open.
    """
    try:
        with closing(sqlite3.connect(":memory:" if path is None else path, timeout=30.0)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")  # a kill -9 leaves every finished transaction
            connection.executescript(TABLES)
            known = dict(connection.execute("SELECT name, version FROM versions"))
            changed = [f"{name} {known[name]}" for name in known if versions.get(name, known[name]) != known[name]]
            if changed:
                raise InputError(
                    f"{path} was begun with {', '.join(changed)}, so its results cannot be combined with new "
                    "ones. Choose another store (on the command line, another folder with --out), or delete that "
                    "file."
                )
            with connection:
                connection.executemany("INSERT OR IGNORE INTO versions VALUES (?, ?)", versions.items())
            yield Store(connection)
    except sqlite3.DatabaseError as error:
        raise InputError(f"{path} cannot be used as a store of results: {error}.") from None
