"""Several environments on the command line: one table each, named by their files."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import manymotives as mm
from environments_examples import BOTH
from manymotives.cli import app

QUICK = ("--draws", 20, "--warmup", 20, "--chains", 1, "--max-rounds", 1)


def run(*arguments):
    return CliRunner().invoke(app, [str(word) for word in arguments])


@pytest.fixture
def folder(tmp_path):
    """Two environments, choices in both, features and places."""
    for name, environment in BOTH.items():
        environment.to_frame().to_csv(tmp_path / f"{name}.csv", index=False)
    choices = mm.simulate(BOTH, [[1.0, 0.0, 1.0, 0.0]] * 2, mm.Softmax(2.0), steps=6, episodes=5, tasks=["m", "n"])
    table = choices.to_frame().drop(columns="next_state")
    table[["environment", "state"]] = table["state"].str.split(": ", expand=True)
    table.rename(columns={"task": "subject"}).to_csv(tmp_path / "choices.csv", index=False)
    pd.DataFrame({"state": ["food", "water"], "sun": [1.0, 0.0]}).to_csv(tmp_path / "features.csv", index=False)
    pd.DataFrame({"state": ["food", "water"], "x": [0, 1], "y": [0, 0]}).to_csv(tmp_path / "places.csv", index=False)
    return tmp_path


def test_two_environments_are_fitted_reported_and_exported(folder):
    tables = ("--environment", folder / "left.csv", "--environment", folder / "right.csv", "--discount", 0.8)
    places = ("--coordinates", folder / "places.csv")
    result = run("fit", folder / "choices.csv", *tables, *places, *QUICK, "--out", folder / "run.nc")
    assert result.exit_code == 0, result.output
    assert "environments: 'left', 'right'; states with the same name have the same reward" in " ".join(
        result.output.split()
    )
    posterior = mm.load(folder / "run.nc")
    assert posterior.environment.names == ("left", "right")
    assert np.array_equal(posterior.environment.coordinates[:, 0], [0, 1, 3, 4])
    again = run("fit", folder / "choices.csv", *tables, *places, *QUICK, "--out", folder / "run.nc", "--resume")
    assert again.exit_code == 0, again.output
    assert run("report", folder / "run.nc", "--out", folder / "report.html").exit_code == 0
    exported = run("export", folder / "run.nc", "--out", folder / "tables", "--state", "food")
    assert exported.exit_code == 0, exported.output
    assert set(pd.read_csv(folder / "tables" / "rewards.csv")["state"]) == {"food"}


@pytest.mark.parametrize("by_environment", [False, True])
def test_features_of_several_environments(folder, by_environment):
    if by_environment:
        rows = [(name, state, float(state == "food")) for name in BOTH for state in ("food", "water")]
        pd.DataFrame(rows, columns=["environment", "state", "sun"]).to_csv(folder / "features.csv", index=False)
    tables = ("--environment", folder / "left.csv", "--environment", folder / "right.csv", "--discount", 0.8)
    result = run(
        *("fit", folder / "choices.csv", *tables, "--features", folder / "features.csv", *QUICK),
        *("--out", folder / "run.nc"),
    )
    assert result.exit_code == 0, result.output
    assert mm.load(folder / "run.nc").weights["feature"].values.tolist() == ["sun"]


def test_facts_name_the_environments(folder):
    tables = ("--environment", folder / "left.csv", "--environment", folder / "right.csv")
    result = run("fit", folder / "choices.csv", *tables, "--dry-run", "--json")
    assert json.loads(result.stdout)["environments"] == ["left", "right"]


def test_what_is_missing_is_said(folder):
    tables = ("--environment", folder / "left.csv", "--environment", folder / "right.csv")
    without = pd.read_csv(folder / "choices.csv").drop(columns="environment")
    without.to_csv(folder / "without.csv", index=False)
    for words, arguments in (
        ("has no column 'environment'", (folder / "without.csv", *tables)),
        ("two environments are called 'left'", (folder / "choices.csv", *tables[:2], *tables[:2])),
        ("none of the environments has that state", (folder / "choices.csv", *tables, "--terminal", "salt")),
        ("memory is not available for several environments", (folder / "choices.csv", *tables, "--history", 1)),
    ):
        result = run("fit", *arguments, "--dry-run", "--json")
        assert result.exit_code == 2
        assert words in json.loads(result.stdout)["error"]
    wrong = pd.read_csv(folder / "choices.csv").replace({"environment": {"right": "rigth"}})
    wrong.to_csv(folder / "wrong.csv", index=False)
    result = run("fit", folder / "wrong.csv", *tables, "--dry-run", "--json")
    assert "unknown environment 'rigth' (did you mean 'right'?)" in json.loads(result.stdout)["error"]
