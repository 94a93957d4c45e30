"""Counterfactuals as a person uses them: the command line, the report, pictures, files."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import manymotives as mm
from counterfactual_examples import SHORT
from manymotives.cli import app

FIELD = mm.worlds.GridWorld((2, 2), slip=0.1, discount=0.9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run, and the table of an environment that is more slippery."""
    made = tmp_path_factory.mktemp("whatif")
    truth = np.random.default_rng(0).normal(size=(3, 4))
    data = mm.simulate(FIELD, truth, mm.Softmax(2.0), steps=20, seed=0, tasks=["ann", "bob", "<i>eve"])
    model = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(2.0))
    mm.fit(model, FIELD, data, SHORT, progress=False).save(made / "run.nc")
    mm.worlds.GridWorld((2, 2), slip=0.5, discount=0.9).to_frame().to_csv(made / "new.csv", index=False)
    return made


def run(*words):
    return CliRunner().invoke(app, ["whatif", *map(str, words)])


def test_the_command_says_first_whether_choices_could_tell(folder):
    said = run(folder / "run.nc", "--environment", folder / "new.csv", "--out", folder / "after.csv")
    assert said.exit_code == 0, said.output
    lines = said.output.splitlines()
    assert lines[0] == "What if the environment is replaced?"
    assert lines[1].strip().startswith("This question is identified")
    table = pd.read_csv(folder / "after.csv")
    asked = mm.load(folder / "run.nc").counterfactual(
        environment=mm.io.read_environment(folder / "new.csv", discount=0.9)
    )
    assert np.allclose(table["after"], asked.to_frame()["after"])
    assert set(table["quantity"]) == {"choice", "occupancy", "long_run_share", "value"}
    again = run(folder / "run.nc", "--discount", 0.5, "--out", folder / "after.csv")
    assert again.exit_code == 2
    assert "--force" in again.output


def test_changes_are_typed_as_one_would(folder):
    words = ("--reward-added", "r0c0=1.0", "--reward-added", "r0c1:up=-0.5", "--remove", "r1c1:left", "--discount", 0.8)
    said = run(folder / "run.nc", *words, "--page", folder / "page.html", "--json")
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert found["identified"] is True
    assert found["change"] == [
        "this action is removed: left in r1c1",
        "everybody's discount is 0.8",
        "the following is added to rewards: +1 for r0c0, -0.5 for up in r0c1",
    ]
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "What would happen if" in page
    assert "&lt;i&gt;eve" in page
    assert "<i>eve" not in page
    ended = run(folder / "run.nc", "--environment", folder / "new.csv", "--terminal", "r1c1", "--json")
    assert json.loads(ended.stdout)["identified"] is False
    assert json.loads(ended.stdout)["unidentified_states"]


def test_several_environments_are_named_by_their_files(folder):
    (folder / "other.csv").write_text((folder / "new.csv").read_text())
    said = run(folder / "run.nc", "--environment", folder / "new.csv", "--environment", folder / "other.csv", "--json")
    assert said.exit_code == 0, said.output
    for wrong, message in (
        (("--remove", "r9c9:left"), "unknown state 'r9c9'"),
        (("--environment", folder / "new.csv", "--terminal", "r9c9"), "has no such state"),
    ):
        said = run(folder / "run.nc", *wrong)
        assert said.exit_code == 2
        assert message in said.output


def test_the_report_has_a_section_where_something_was_asked(folder):
    words = ["report", str(folder / "run.nc"), "--what-if", str(folder / "new.csv"), "--out", str(folder / "r.html")]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    assert 'id="whatif"' in (folder / "r.html").read_text(encoding="utf-8")
    mm.report(mm.load(folder / "run.nc"), folder / "plain.html")
    assert 'id="whatif"' not in (folder / "plain.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("of", ["choice", "occupancy", "long_run_share", "value"])
def test_pictures_say_whether_it_is_identified(folder, of):
    posterior = mm.load(folder / "run.nc")
    ends = mm.Environment(
        FIELD.transitions, discount=0.9, states=FIELD.states, actions=FIELD.actions, terminal=["r1c1"]
    )
    for changes, verdict in (({"discount": 0.5}, "identified"), ({"environment": ends}, "NOT identified")):
        axes = mm.plots.counterfactual(posterior.counterfactual(**changes), of=of)
        assert axes.get_title().endswith(verdict) or "rows" in axes.get_title()
        plt.close(axes.figure)


def test_a_saved_run_gives_the_same_answer(folder):
    posterior = mm.load(folder / "run.nc")
    one, two = (posterior.counterfactual(rewards={"r0c0": 1.0}) for _ in range(2))
    assert one.data.identical(two.data)
    assert one.paths(5, 2, seed=3).to_frame().equals(two.paths(5, 2, seed=3).to_frame())
