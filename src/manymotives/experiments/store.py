"""What has been computed, in one SQLite file: a unit is there whole or not at all, and only once.

Only the process that hands out the work writes. Each result is a transaction of its own, so a killed run loses what was
being computed and nothing else.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from manymotives.errors import InputError
from manymotives.experiments.panel import Unit

TABLES = """
CREATE TABLE IF NOT EXISTS units (
    panel TEXT, reading TEXT, cell TEXT, fingerprint TEXT, run INTEGER, seed INTEGER, seconds REAL, numbers TEXT,
    PRIMARY KEY (panel, reading, cell, fingerprint, run, seed)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS versions (name TEXT PRIMARY KEY, version TEXT) WITHOUT ROWID;
"""


class Store:
    """Results by unit."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def finished(self, units: Iterable[Unit]) -> set[Unit]:
        """Those of the units that are there."""
        known = set(self.connection.execute("SELECT panel, reading, cell, fingerprint, run, seed FROM units"))
        return {unit for unit in units if unit.key in known}

    def add(self, unit: Unit, numbers: dict[str, float], seconds: float) -> None:
        """One result; what is there already stays as it is."""
        row = (*unit.key, seconds, json.dumps(numbers))
        with self.connection:
            self.connection.execute("INSERT OR IGNORE INTO units VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def all_numbers(self, seed: int) -> dict[tuple[str, str, str, str], dict[int, dict[str, float]]]:
        """What all units of a seed gave: by panel, reading, cell and fingerprint, then by run."""
        asked = "SELECT panel, reading, cell, fingerprint, run, numbers FROM units WHERE seed = ? ORDER BY run"
        found: dict[tuple[str, str, str, str], dict[int, dict[str, float]]] = {}
        for panel, reading, cell, fingerprint, run, numbers in self.connection.execute(asked, (seed,)):
            found.setdefault((panel, reading, cell, fingerprint), {})[run] = json.loads(numbers)
        return found

    def seconds(self) -> dict[tuple[str, str, str], tuple[int, float]]:
        """How many units of each cell there are, and what they took together."""
        asked = "SELECT panel, reading, cell, COUNT(*), SUM(seconds) FROM units GROUP BY panel, reading, cell"
        return {(p, r, c): (count, total) for p, r, c, count, total in self.connection.execute(asked)}


@contextmanager
def opened(path: Path, versions: dict[str, str]) -> Iterator[Store]:
    """The store at a path, made if it is not there; refused if other versions of the software filled it."""
    try:
        with closing(sqlite3.connect(path, timeout=30.0)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")  # a kill -9 leaves every finished transaction
            connection.executescript(TABLES)
            known = dict(connection.execute("SELECT name, version FROM versions"))
            changed = [f"{name} {known[name]}" for name in known if versions.get(name, known[name]) != known[name]]
            if changed:
                raise InputError(
                    f"{path} was begun with {', '.join(changed)}: its numbers and new ones would not be one "
                    "experiment. Choose another folder with --out, or delete that file."
                )
            with connection:
                connection.executemany("INSERT OR IGNORE INTO versions VALUES (?, ?)", versions.items())
            yield Store(connection)
    except sqlite3.DatabaseError as error:
        raise InputError(f"{path} cannot be used as a store of results: {error}.") from None
