"""Tables that no person would write, for readers that must not fall over: an `InputError` or a result comes out.

Two kinds: bytes, for the readers of files, and data frames of pandas, polars and pyarrow, for all that take one.

`make fuzz` tries a hundred thousand, in batches that each have a seed; the tests try a few hundred.
"""

import argparse
import datetime
import decimal
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import manymotives as mm
from manymotives.commands.inputs import read_inputs

BATCH = 2_000  # inputs of one seed
CELLS = st.one_of(
    st.sampled_from(["", " ", "ann", "bob", "hall", "kitchen", "on", "back", "NA", "nan", "TRUE", "2024-01-01"]),
    st.sampled_from(["1", "2", "7.0", "007", "-1", "0.5", "1e400", "inf", "99999999999999999999"]),
    st.sampled_from(
        ['"', '""', "a,b", "a;b", "=1+1", "<script>", "🐭", "\x00", "é", "\n", "\r", "[bold]", "{0}", "%s"]
    ),
    st.text(max_size=6),
)
HEADERS = st.one_of(
    st.sampled_from(
        ["subject", "state", "action", "next_state", "probability", "trial", "step", "session", "t", "State", "x", ""]
    ),
    st.text(max_size=4),
)
GOOD = (
    "subject,trial,state,action,next_state,probability\nann,1,hall,on,kitchen,1\nann,2,kitchen,back,hall,1\n"
    "bob,1,hall,on,kitchen,1\nbob,2,kitchen,on,hall,\n"
)


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """A good table with odd cells, a table of odd cells in some encoding, or a good one with odd bytes in it."""
    way = draw(st.integers(0, 2))
    if way == 0:  # a good table with odd cells
        rows = [line.split(",") for line in GOOD.splitlines()]
        for _ in range(draw(st.integers(0, 3))):
            rows[draw(st.integers(1, 4))][draw(st.integers(0, 5))] = draw(CELLS)
        separator = draw(st.sampled_from([",", ";", "\t"]))
        return "\n".join(separator.join(cells) for cells in rows).encode("utf-8", errors="replace")
    if way == 1:
        separator = draw(st.sampled_from([",", ";", "\t", "|"]))
        usual = ["subject", "trial", "state", "action", "next_state", "probability"]
        header = usual if draw(st.booleans()) else draw(st.lists(HEADERS, min_size=1, max_size=6))
        row = st.lists(CELLS, min_size=max(0, len(header) - 1), max_size=len(header) + 1)
        rows = draw(st.lists(row, max_size=6))
        if draw(st.booleans()):
            rows = [(cells + [""] * len(header))[: len(header)] for cells in rows]
        quote = draw(st.booleans())
        written = [[('"' + cell.replace('"', '""') + '"') if quote else cell for cell in cells] for cells in rows]
        end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
        text = end.join(separator.join(cells) for cells in [header, *written]) + draw(st.sampled_from(["", end]))
        encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"]))
        return text.encode(encoding, errors="replace")
    content = bytearray(GOOD.encode(draw(st.sampled_from(["utf-8", "utf-8", "utf-16"]))))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(content)))
        length = draw(st.integers(0, 8))
        content[place : place + length] = draw(
            st.one_of(st.binary(max_size=4), st.sampled_from([b",", b"\n", b'"', b";"]))
        )
    return bytes(content)


def read_all(content: bytes, folder: Path, kind: str) -> bool:
    """Read it in every role; whether it could be read at all. Whatever is raised is an `InputError`."""
    path = folder / f"table{kind}"
    path.write_bytes(content)
    read = False
    for environments in ((), (str(path),)):
        try:
            inputs = read_inputs(
                path,
                environments,
                {},
                discount=0.9,
                terminal=(),
                coordinates=None,
                history=len(content) % 2,
                plug_in=not environments and len(content) % 3 == 0,
            )
            inputs.lines()
            read = True
        except mm.errors.InputError as error:
            message = str(error)
            assert message, "nothing is said"
            assert "Traceback" not in message
    return read


# ---- data frames ---------------------------------------------------------------------------------------------------

EAST = datetime.timezone(datetime.timedelta(hours=9))
NOON = datetime.datetime(2024, 1, 1, 12)
KINDS: tuple[st.SearchStrategy[Any], ...] = (  # one for a column
    st.sampled_from(["ann", "bob", "hall", "kitchen", "on", "back", "", "1"]),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([0.0, 0.5, 1.0, float("nan"), float("inf")]),
    st.sampled_from([0, 2**63 - 1, 2**63, 2**64 - 1]),
    st.sampled_from([-(2**70), 0, 2**70]),
    st.sampled_from([["a"], ["a", "b"], []]),
    st.sampled_from([{"a"}, {"a", "b"}]),
    st.sampled_from([{"x": 1}, {"x": 1, "y": "z"}, {}]),
    st.sampled_from([("a", 1), ("b", [2]), ()]),
    st.sampled_from([b"a", b"\xff"]),
    st.sampled_from([True, False]),
    st.sampled_from([decimal.Decimal("0.5"), decimal.Decimal("NaN"), decimal.Decimal(1)]),
    st.sampled_from([NOON, NOON.replace(tzinfo=datetime.UTC), NOON.replace(tzinfo=EAST), NOON + datetime.timedelta(1)]),
    st.sampled_from([NOON.replace(tzinfo=EAST), NOON.replace(tzinfo=EAST) + datetime.timedelta(hours=1)]),
    st.sampled_from([NOON.date(), datetime.timedelta(seconds=1), datetime.time(1), pd.Period("2024-01"), pd.NaT]),
    st.sampled_from([1j, pd.NA, np.float32(0.5), np.array([1, 2]), pd.Interval(0, 1), object(), "x" * 1000]),
)
USUAL = ("task", "episode", "step", "state", "action", "next_state", "probability", "count")
NAMES = st.one_of(st.sampled_from([*USUAL, "room"]), st.sampled_from([0, 1, None, ("a", "b"), 2.5]))
ENV = mm.Environment(np.full((2, 2, 2), 0.5), discount=0.9, states=["hall", "kitchen"], actions=["on", "back"])


@st.composite
def frames(draw: st.DrawFn) -> Any:
    """A data frame of some library: good columns and odd ones, odd cells, odd names, names that come twice."""
    height = draw(st.integers(0, 5))
    good = {
        "task": ["ann", "ann", "bob", "bob", "ann"],
        "episode": [1, 1, 1, 1, 1],
        "step": [1, 2, 1, 2, 3],
        "state": ["hall", "kitchen", "hall", "kitchen", "hall"],
        "action": ["on", "on", "on", "back", "back"],
        "next_state": ["kitchen", "hall", "kitchen", "kitchen", "kitchen"],
        "probability": [1.0, 1.0, 1.0, 1.0, 1.0],
        "count": [3, 4, 5, 6, 7],
    }
    columns: list[tuple[Any, list[Any]]] = [(name, list(values[:height])) for name, values in good.items()]
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(KINDS))
        cell = st.one_of(st.none(), kind, kind, kind)
        if draw(st.integers(0, 5)) == 0:
            cell = st.one_of(st.none(), *KINDS)
        values = draw(st.lists(cell, min_size=height, max_size=height))
        place, name = draw(st.integers(0, len(columns) - 1)), columns[0][0]
        name = columns[place][0] if draw(st.integers(0, 3)) else draw(NAMES)
        if draw(st.integers(0, 3)):
            columns[place] = (name, values)
        else:
            columns.append((name, values))
    library = draw(st.sampled_from(["pandas", "pandas, typed", "polars", "pyarrow"]))
    return _frame(columns, library)


def _frame(columns: list[tuple[Any, list[Any]]], library: str) -> Any:
    """Columns as a data frame; where a library has no such thing, as pandas has it."""
    plain = pd.concat([pd.Series(values, dtype=object) for _, values in columns], axis=1)
    if library == "pandas, typed":
        plain = plain.infer_objects()
        if len(plain) % 2:
            plain = plain.convert_dtypes()
    plain.columns = pd.Index([name for name, _ in columns], tupleize_cols=False)
    try:
        if library == "polars":
            return pl.DataFrame({str(name): values for name, values in columns}, strict=len(plain) % 2 == 0)
        if library == "pyarrow":
            return pa.Table.from_arrays([pa.array(values) for _, values in columns], [str(name) for name, _ in columns])
    except (Exception, pl.exceptions.PanicException):  # whatever a library says of odd values
        return plain
    return plain


def read_frame(frame: Any, folder: Path, choice: int) -> bool:
    """Give it to everything that takes a data frame; whether anything could be made of it."""
    room: Any = [["state"], ["state", "action"], "room"][choice // 7 % 3]
    columns: dict[str, Any] = [{}, {"episode": "episode", "step": "step"}, {"next_state": "next_state"}][choice % 3]
    if choice % 7 == 0:
        columns = columns | {"state": room}
    made = []

    def attempt(reader: Any, *things: Any, **options: Any) -> Any:
        try:
            made.append(reader(*things, **options))
        except mm.errors.InputError as error:
            message = str(error)
            assert message, "nothing is said"
            assert len(message) < 2_000, "a message that nobody reads"
            return None
        return made[-1]

    for environment in (None, ENV):
        found = attempt(mm.Demonstrations.from_frame, frame, environment, **columns)
        if found is not None:
            attempt(mm.estimate_environment, found, discount=0.9)
            attempt(mm.DynamicsBelief.from_demonstrations, found, discount=0.9)
            for backend in ("pandas", "polars", "pyarrow"):
                attempt(found.to_frame, backend)
    place = attempt(mm.Environment.from_frame, frame, discount=0.9)
    if place is not None:
        for backend in ("pandas", "polars", "pyarrow"):
            attempt(place.to_frame, backend)
    attempt(mm.DynamicsBelief.from_frame, frame, discount=0.9)
    attempt(mm.plan, ENV, frame)
    attempt(mm.plan, ENV, frame, on="state_action")
    attempt(mm.evaluate, ENV, frame, np.zeros(2))
    attempt(lambda: mm.optimality.RewardSet(frame).for_environment(ENV))
    attempt(lambda: mm.GaussianReward(features=frame).features_for(ENV))
    attempt(ENV.with_coordinates, frame)
    for word in ("reward", "start", "available"):
        attempt(mm.Environment, ENV.transitions, discount=0.9, states=ENV.states, **{word: frame})
    values = _first_column(frame)
    attempt(mm.io.from_trajectories, [SimpleNamespace(obs=values, acts=values)])
    attempt(mm.Demonstrations.from_lists, [(values, values)])
    path = folder / "frame.parquet"
    try:
        pa.parquet.write_table(_arrow(frame), path)
    except (Exception, pl.exceptions.PanicException):  # not everything can be written
        return bool(made)
    for files in ((), (str(path),)):
        options = {"coordinates": None, "history": choice % 2, "plug_in": not files and choice % 2 == 0}
        inputs = attempt(read_inputs, path, files, {}, discount=0.9, terminal=(), **options)
        if inputs is not None:
            inputs.lines()
    return bool(made)


def _first_column(frame: Any) -> list[Any]:
    if isinstance(frame, pa.Table):
        try:
            return frame.column(0).to_pylist()
        except (OverflowError, ValueError):  # Arrow keeps times that Python has no objects for
            return []
    return (frame.iloc[:, 0] if isinstance(frame, pd.DataFrame) else frame[frame.columns[0]]).to_list()


def _arrow(frame: Any) -> pa.Table:
    if isinstance(frame, pd.DataFrame):
        return pa.Table.from_pandas(frame)
    return frame if isinstance(frame, pa.Table) else frame.to_arrow()


# ---- many ----------------------------------------------------------------------------------------------------------


def try_batch(number: int) -> tuple[int, int]:
    """The inputs that one seed gives: how many were tried, and how many of them could be read."""
    warnings.simplefilter("error")
    tried = read = 0
    with tempfile.TemporaryDirectory() as name:

        @seed(number)
        @settings(
            max_examples=BATCH,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(
            content=frames() if number % 2 else tables(),
            kind=st.sampled_from([".csv", ".csv", ".tsv", ".txt", ".parquet"]),
            choice=st.integers(0, 209),
        )
        def attempt(content: Any, kind: str, choice: int) -> None:
            nonlocal tried, read
            tried += 1
            if isinstance(content, bytes):
                read += read_all(content, Path(name), kind)
            else:
                read += read_frame(content, Path(name), choice)

        attempt()
    return tried, read


def main() -> None:
    options = argparse.ArgumentParser(description="Long runs can be done in parts: --seeds 0 25, then --seeds 25 50, …")
    options.add_argument(
        "--seeds", type=int, nargs=2, default=(0, 50), help=f"first, and one past the last; {BATCH} inputs each"
    )
    options.add_argument("--processes", type=int, default=2)
    first, end = options.parse_args().seeds
    begin, tried, read = time.monotonic(), 0, 0
    with ProcessPoolExecutor(options.parse_args().processes) as pool:
        for number, (here, readable) in zip(range(first, end), pool.map(try_batch, range(first, end))):
            tried, read = tried + here, read + readable
            rate = tried / (time.monotonic() - begin)
            said = f"seeds {first} to {number}: {tried:,} inputs, {read:,} of them readable, {rate:,.0f} a second"
            print(said, flush=True)
    print(f"{tried:,} inputs, and nothing but results and sentences", flush=True)


if __name__ == "__main__":
    main()
