"""Tables as people have them: what cannot be used gets a sentence and exit code 2, and leaves no file behind.

The sentences are in broken_tables.txt: read it aloud. What is odd but usable works, with a note.
"""

import csv
import io
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from manymotives.cli import app

ROOMS = """state,action,next_state,probability
hall,on,kitchen,1
kitchen,on,garden,0.5
kitchen,on,kitchen,0.5
kitchen,back,hall,1
garden,,,
"""
CHOICES = """subject,session,trial,state,action
ann,1,1,hall,on
ann,1,2,kitchen,back
ann,1,3,hall,on
bob,1,1,hall,on
bob,1,2,kitchen,on
bob,1,3,garden,
"""


def changed(row, column, value, table=CHOICES):
    """The table with one cell changed; rows as a spreadsheet counts them."""
    rows = list(csv.reader(io.StringIO(table)))
    rows[row - 1][rows[0].index(column)] = value
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def parquet(**columns):
    file = io.BytesIO()
    pd.DataFrame(columns).to_parquet(file)
    return file.getvalue()


def case(choices=CHOICES, environment=ROOMS, *options, name="choices.csv"):
    return choices, environment, options, name


BROKEN = {
    # ---- the file
    "no such file": case(None),
    "an empty file": case(""),
    "a header and nothing else": case(CHOICES.splitlines()[0]),
    "an empty first row": case("\n" + CHOICES),
    "a spreadsheet's own format": case(b"PK\x03\x04", name="choices.xlsx"),
    "a picture called a table": case(b"\x89PNG\r\n\x1a\n\0\0"),
    "Latin-1": case(changed(3, "state", "café").encode("latin-1")),
    "half of UTF-16": case(CHOICES.encode("utf-16")[:-1]),
    "a wrong separator": case(CHOICES.replace(",", "|")),
    "a separator too many": case(CHOICES.replace("ann,1,2,kitchen,back", "ann,1,2,kitchen,back,")),
    "a cell too few": case(CHOICES.replace("ann,1,2,kitchen,back", "ann,1,2,kitchen")),
    "a comma in a name": case(CHOICES.replace("kitchen,back", "kitchen, upstairs,back")),
    "a quotation mark that never closes": case(CHOICES.replace("ann,1,2", '"ann,1,2')),
    "a column named twice": case(CHOICES.replace("session", "trial")),
    "damaged Parquet": case(b"PAR1 and nothing more", name="choices.parquet"),
    # ---- the columns
    "a missing column": case(CHOICES.replace("action", "comment")),
    "a column that is not there": case(CHOICES, ROOMS, "--state", "room"),
    "two columns that could be one": case(CHOICES.replace("session", "State")),
    "an environment without probabilities": case(CHOICES, ROOMS.replace("probability", "remark")),
    # ---- the cells
    "an unknown state": case(changed(3, "state", "kitschen")),
    "an unknown action": case(changed(3, "action", "jump")),
    "an action where none exists": case(changed(2, "action", "back")),
    "an action after the end": case(changed(7, "action", "on")),
    "NaN in words": case(changed(4, "state", "NaN")),
    "nobody": case(changed(5, "subject", "")),
    "no trial": case(changed(5, "trial", "")),
    "a trial in words": case(changed(5, "trial", "second")),
    "an endless trial": case(changed(5, "trial", "inf")),
    "the same step twice": case(changed(3, "trial", "1")),
    "the same row twice": case(CHOICES + "bob,1,2,kitchen,on\n"),
    "no choice at all": case(
        "\n".join(line.rsplit(",", 1)[0] + "," for line in CHOICES.splitlines()).replace("state,", "state,action", 1)
    ),
    "a next state that does not come next": case(
        "subject,state,action,next_state\nann,hall,on,hall\nann,kitchen,back,hall\n"
    ),
    "one row in Parquet that cannot be": case(
        parquet(subject=["ann", "ann"], state=["hall", "hall"], action=["on", "back"]), name="choices.parquet"
    ),
    # ---- the environment
    "probabilities that do not sum to one": case(CHOICES, changed(3, "probability", "0.4", ROOMS)),
    "a decimal comma": case(CHOICES, changed(3, "probability", "0,5", ROOMS)),
    "a negative probability": case(CHOICES, changed(3, "probability", "-0.5", ROOMS)),
    "a hole in the environment": case(CHOICES, changed(3, "next_state", "", ROOMS)),
    "the same move twice": case(CHOICES, ROOMS + "hall,on,kitchen,1\n"),
    "a state one only arrives at": case(CHOICES, ROOMS.replace("garden,,,\n", "")),
    "an unknown terminal state": case(CHOICES, ROOMS, "--terminal", "attic"),
    "an environment that Gymnasium does not have": case(CHOICES, None, "--environment", "gymnasium:Kitchen-v9"),
    "nothing to estimate an environment from": case("subject,state,action\nann,hall,on\nbob,kitchen,on\n", None),
    # ---- the options
    "a discount of one": case(CHOICES, ROOMS, "--discount", "1"),
    "a method of another model": case(CHOICES, ROOMS, "--model", "mpo", "--method", "gibbs"),
    "a setting of another method": case(CHOICES, ROOMS, "--method", "empirical-bayes", "--chains", "2"),
    "rounds of a method that has none": case(CHOICES, ROOMS, "--method", "gibbs", "--max-rounds", "2"),
    "coordinates without y": case(CHOICES, ROOMS, "--coordinates", "environment.csv"),
    "a result that is no netCDF file": case(CHOICES, ROOMS, "--out", "run.csv"),
    "a folder that is not there": case(CHOICES, ROOMS, "--out", "results/run.nc"),
}
MESSAGES = Path(__file__).with_name("broken_tables.txt")


def told():
    """From the file: a name on one line, its message, indented, on the next."""
    lines = MESSAGES.read_text(encoding="utf-8").splitlines()
    return {name: message.strip() for name, message in zip(lines[::2], lines[1::2])}


def put(folder, name, content):
    if content is not None:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def fitted(folder, choices, environment, options, name):
    """The result of the command, in a folder with these files."""
    put(folder, name, choices)
    put(folder, "environment.csv", environment)
    given = ["--environment", "environment.csv"] if environment is not None else []
    place = [] if "--out" in options else ["--out", "run.nc"]
    return CliRunner().invoke(app, ["fit", name, *given, *options, *place])


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_table_gets_a_sentence_and_leaves_nothing_behind(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = fitted(tmp_path, *BROKEN[name])
    assert result.exit_code == 2, result.output
    assert result.output.strip() == told()[name]
    assert {path.name for path in tmp_path.iterdir()} <= {BROKEN[name][3], "environment.csv"}


def test_every_sentence_is_about_a_case_and_every_case_has_one():
    assert list(told()) == list(BROKEN)
    assert len(BROKEN) >= 25


ODD = {
    "a byte-order mark": (case(CHOICES.encode("utf-8-sig")), "2 subjects, 2 episodes, 5 choices"),
    "semicolons": (case(CHOICES.replace(",", ";")), "are separated by semicolons"),
    "tabs in a text file": (case(CHOICES.replace(",", "\t"), name="choices.txt"), "are separated by tabs"),
    "UTF-16": (case(CHOICES.replace(",", "\t").encode("utf-16")), "choices.csv is UTF-16 text"),
    "empty lines": (case(CHOICES.replace("bob,1,1", "\n\nbob,1,1") + "\n,,,,\n"), "2 subjects, 2 episodes, 5 choices"),
    "blanks around names": (case(CHOICES.replace(",", " , ")), "2 subjects, 2 episodes, 5 choices"),
    "old ends of lines": (case(CHOICES.replace("\n", "\r")), "2 subjects, 2 episodes, 5 choices"),
    "a subject with one row": (case(CHOICES + "eve,1,1,hall,on\n"), "'eve'"),
    "unsorted trials": (case("\n".join([CHOICES.splitlines()[0], *CHOICES.splitlines()[:0:-1]])), "5 choices"),
    "a gap": (case(changed(4, "trial", "9")), "1 gaps in the steps"),
    "an empty state": (case(changed(3, "state", "")), "1 rows have no state"),
    "NaN in words, and no environment to say so": (
        case(changed(4, "state", "NaN"), None),
        "'NaN' is read as the name of a",
    ),
    "numbers and text": (case(changed(3, "subject", "7")), "3 subjects"),
    "a state never reachable": (
        case(CHOICES, ROOMS + "attic,on,attic,1\n"),
        "that cannot be reached from where subjects were",
    ),
    "an impossible move": (
        case("subject,state,action\nann,hall,on\nann,hall,on\n"),
        "observed transitions are impossible in this environment",
    ),
    "markup in a name": (case(changed(2, "subject", "<script>alert(1)</script>")), "3 subjects"),
    "a formula for a name": (case(changed(2, "subject", "=1+1")), "3 subjects"),
    "an emoji for a name": (case(CHOICES.replace("ann", "🐭")), "2 subjects"),
    "brackets for a name": (case(CHOICES.replace("ann", "[bold]")), "2 subjects"),
    "a file cannot tell 7 from '7'": (
        case(CHOICES.replace("hall", "1"), ROOMS.replace("hall", "1")),
        "3 states, 1 of them terminal, 3 of them visited",
    ),
    "nobody is named": (
        case("\n".join(CHOICES.splitlines()[:4]).replace("subject", "remark")),
        "all rows are taken to be one subject's",
    ),
    "no environment": (case(CHOICES, None), "ESTIMATED from the data"),
    "an environment of Gymnasium": (
        case("subject,state,action\nann,0,1\nann,4,1\n", None, "--environment", "gymnasium:FrozenLake-v1"),
        "16 states, 5 of them terminal",
    ),
    "states of two columns": (
        case("subject,x,y,action\nann,1,1,on\nann,1,2,on\nann,1,1,on\n", None, "--state", "x,y"),
        "state = x, y",
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_only_odd_works_and_is_mentioned(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content, environment, options, file = ODD[name][0]
    result = fitted(tmp_path, content, environment, (*options, "--dry-run"), file)
    assert result.exit_code == 0, result.output
    assert ODD[name][1] in result.output
    assert {path.name for path in tmp_path.iterdir()} <= {file, "environment.csv"}
