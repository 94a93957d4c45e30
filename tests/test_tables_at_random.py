"""A few hundred odd tables in every run of the tests; `make fuzz` tries a hundred thousand."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tables_at_random import GOOD, read_all, tables

FOLDER = Path(tempfile.mkdtemp())


@settings(max_examples=250, deadline=None)
@given(content=tables(), kind=st.sampled_from([".csv", ".tsv", ".txt", ".parquet"]))
def test_odd_tables_are_read_or_refused_in_words(content, kind):
    read_all(content, FOLDER, kind)


def test_a_good_table_is_read():
    """Or the test above could pass by refusing everything."""
    assert read_all(GOOD.encode(), FOLDER, ".csv")
