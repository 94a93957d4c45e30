"""A hundred odd tables in every run of the tests; `make fuzz` tries a hundred thousand."""

import re
import tempfile
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manymotives as mm
from manymotives.data.tables import _names, columns_of
from tables_at_random import ENV, GOOD, frames, read_all, read_frame, tables

FOLDER = Path(tempfile.mkdtemp())


@settings(max_examples=50, deadline=None)
@given(content=tables(), kind=st.sampled_from([".csv", ".tsv", ".txt", ".parquet"]))
def test_odd_tables_are_read_or_refused_in_words(content, kind):
    read_all(content, FOLDER, kind)


@settings(max_examples=20, deadline=None)
@given(frame=frames(), choice=st.integers(0, 209))
@pytest.mark.filterwarnings("error")
def test_odd_data_frames_are_read_or_refused_in_words(frame, choice):
    read_frame(frame, FOLDER, choice)


NOON = pd.Timestamp("2024-01-01 12:00")
ODD = {  # what a cell or a name may be, and what is said
    "a list": ({"state": [["hall"], ["kitchen"]]}, "column 'state', row 0 (rows count from 0): ['hall'] is a list"),
    "a set": ({"task": [{"ann"}, {"bob"}]}, "{'ann'} is a set"),
    "a dictionary": ({"action": [{"go": 1}, {"go": 2}]}, "{'go': 1} is a dict"),
    "a list in a tuple": (
        {"state": [("hall", [1]), ("hall", [2])]},
        "is a tuple, but a cell must be one name or number",
    ),
    "one of them": ({"state": ["hall", ["kitchen"]]}, "column 'state', row 1 (rows count from 0)"),
    "zones": ({"step": [NOON, NOON.tz_localize("UTC")]}, "one of these times has a time zone and the other has none"),
}


@pytest.mark.parametrize("kind", ODD)
def test_cells_that_are_no_names_are_refused(kind):
    columns, says = ODD[kind]
    good = {"task": ["ann", "ann"], "step": [1, 2], "state": ["hall", "kitchen"], "action": ["on", "on"]}
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in (good | columns).items()})
    with pytest.raises(mm.errors.InputError, match=re.escape(says)):
        mm.Demonstrations.from_frame(frame, step="step")


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
@pytest.mark.parametrize("values", [[["hall"], ["kitchen"]], [{"room": "hall"}, {"room": "kitchen"}]])
def test_lists_and_structs_of_other_libraries_are_refused(library, values):
    columns = {"task": ["ann", "ann"], "state": values, "action": ["on", "on"]}
    frame = pl.DataFrame(columns) if library == "polars" else pa.table(columns)
    with pytest.raises(mm.errors.InputError, match="column 'state', row 0"):
        mm.Demonstrations.from_frame(frame)


def test_names_of_columns_that_come_twice_or_are_numbers():
    frame = pd.DataFrame([["ann", "hall", "on", "hall"]], columns=["task", "state", "action", "state"])
    for each in (frame, pa.Table.from_arrays([pa.array([cell]) for cell in frame.iloc[0]], list(frame.columns))):
        with pytest.raises(mm.errors.InputError, match="the table of choices has 2 columns 'state'"):
            mm.Demonstrations.from_frame(each)
    frame.columns = ["task", "state", "action", "task 2"]
    twice = pd.concat([frame, frame[["task 2"]]], axis=1)  # of no importance here
    assert mm.Demonstrations.from_frame(twice).num_steps == 1
    numbered = pd.DataFrame([["ann", "hall", "on"]])
    with pytest.raises(mm.errors.InputError, match="Names of columns must be text, and 0 is not"):
        mm.Demonstrations.from_frame(numbered)
    with pytest.raises(mm.errors.InputError, match="state must be the name of a column, or several names; found 1"):
        _names("state", 1)  # where types are not checked, as here, it comes so far
    with pytest.raises(mm.errors.InputError, match="state must be the name of a column of the table; found None"):
        columns_of(frame, {"state": None}, "the table")


def test_large_whole_numbers_beside_empty_cells_stay_what_they_are():
    largest = 2**64 - 1
    columns = {"task": [0, 0, 0], "state": [largest, 0, None], "action": [1, 1, 1]}
    for frame in (
        pl.DataFrame(columns, schema_overrides={"state": pl.UInt64}),
        pa.table({name: pa.array(values, pa.uint64()) for name, values in columns.items()}),
        pd.DataFrame({name: pd.array(values, dtype="UInt64") for name, values in columns.items()}),
    ):
        found = mm.Demonstrations.from_frame(frame)
        assert found.states == (0, largest)
        assert found.to_frame()["state"].tolist() == [largest, 0]


def test_times_of_several_zones_are_put_in_order(tmp_path):
    """Noon in Tokyo is before noon in London; a time without a zone may be either."""
    rows = ["task,time,state,action", "ann,2024-01-01T12:00:00Z,hall,on", "ann,2024-01-01T12:00:00+09:00,kitchen,on"]
    path = tmp_path / "choices.csv"
    path.write_text("\n".join(rows))
    found = mm.io.read_demonstrations(path, step="time")
    assert [found.states[state] for state in found.state] == ["kitchen", "hall"]
    path.write_text("\n".join([*rows, "ann,2024-01-01T13:00:00,hall,on"]))
    with pytest.raises(
        mm.errors.InputError, match=r"column 'time', rows 2 and 4 of choices\.csv: one of these times has a"
    ):
        mm.io.read_demonstrations(path, step="time")
    tokyo = NOON.tz_localize("Asia/Tokyo")
    for times in ([NOON.tz_localize("UTC"), tokyo], pd.to_datetime([tokyo + pd.Timedelta("1h"), tokyo])):
        frame = pd.DataFrame({"task": 0, "time": times, "state": ["hall", "kitchen"], "action": "on"})
        found = mm.Demonstrations.from_frame(frame, step="time")
        assert [found.states[state] for state in found.state] == ["kitchen", "hall"]


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_times_of_every_unit_are_read(unit):
    times = pd.Series(pd.to_datetime(["2024-01-01 10:00:00", "2024-01-01 09:00:00"])).astype(f"datetime64[{unit}]")
    frame = pd.DataFrame({"task": 0, "time": times, "state": ["kitchen", "hall"], "action": "on"})
    read = mm.Demonstrations.from_frame(frame, step="time")
    assert [read.states[state] for state in read.state] == ["hall", "kitchen"]


def test_long_names_are_shortened_in_messages():
    long = "x" * 1000
    frame = pd.DataFrame({"task": ["ann"], "state": [long], "action": ["on"]})
    with pytest.raises(mm.errors.InputError, match="unknown state 'xxx") as said:
        mm.Demonstrations.from_frame(frame, ENV)
    assert "(1,000 characters)" in str(said.value)
    assert len(str(said.value)) < 300


def test_a_good_table_is_read():
    """Or the test above could pass by refusing everything."""
    assert read_all(GOOD.encode(), FOLDER, ".csv")
