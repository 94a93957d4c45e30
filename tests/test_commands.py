"""fit, simulate and export, as a person or a program uses them."""

import json
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import manymotives as mm
from manymotives.cli import app
from manymotives.io.columns import choice_columns
from manymotives.io.writing import write_table

QUICK = ["--method", "metropolis", "--chains", "2", "--draws", "20", "--warmup", "10"]


def run(*arguments):
    return CliRunner().invoke(app, [str(word) for word in arguments])


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A simulated experiment and a quick fit of it."""
    folder = tmp_path_factory.mktemp("example")
    made = run("simulate", "grid", "--out", folder, "--subjects", 3, "--steps", 20, "--size", 2, "--discount", 0.9)
    assert made.exit_code == 0, made.output
    tables = ("--environment", folder / "environment.csv", "--coordinates", folder / "coordinates.csv")
    result = run("fit", folder / "choices.csv", *tables, "--discount", 0.9, *QUICK, "--out", folder / "run.nc")
    assert result.exit_code == 0, result.output
    return folder, result


def test_simulate_writes_choices_environment_and_truth(example):
    folder, _ = example
    choices, truth = pd.read_csv(folder / "choices.csv"), pd.read_csv(folder / "truth.csv")
    assert len(choices) == 60
    assert list(choices) == ["subject", "episode", "step", "state", "action", "next_state"]
    assert np.allclose(truth.groupby("subject")["reward"].sum(), 1.0)
    again = run("simulate", "grid", "--out", folder, "--size", 2)
    assert again.exit_code == 2
    assert "already holds choices.csv" in again.output


@pytest.mark.parametrize("world", ["chain", "random", "labyrinth"])
def test_other_worlds_can_be_simulated_and_looked_at(world, tmp_path):
    assert run("simulate", world, "--out", tmp_path / world, "--subjects", 2, "--steps", 5).exit_code == 0
    tables = (tmp_path / world / "choices.csv", "--environment", tmp_path / world / "environment.csv")
    result = run("fit", *tables, "--dry-run", "--history", 1)
    assert result.exit_code == 0, result.output
    assert "2 subjects, 2 episodes, 10 choices" in result.output
    assert (
        "with dirichlet rewards on pairs" in result.output
    )  # states with memory would all be alike to states' rewards
    result = run("fit", *tables, "--dry-run", "--on", "states", "--thin", 2)
    assert "rewards on states by HMC(chains=4, draws=250, warmup=150, thin=2" in result.output
    assert "This would fit mrp (partial pooling) with" in result.output
    assert "discount 0.95 (the default: choose another with --discount, or infer it with --disc" in result.output
    chosen = run("fit", *tables, "--dry-run", "--on", "states", "--discount", 0.8, "--method", "gibbs")
    assert "; discount 0.8; the environment is given." in chosen.output


def test_fit_gives_what_the_library_gives(example):
    folder, result = example
    loaded = mm.load(folder / "run.nc")
    env = mm.io.read_environment(folder / "environment.csv", discount=0.9)
    data = mm.io.read_demonstrations(
        folder / "choices.csv", env, task="subject", episode="episode", step="step", next_state="next_state"
    )
    method = mm.Metropolis(chains=2, draws=20, warmup=10)
    expected = mm.fit(mm.RewardPolicyModel(), env, data, method, seed=0, progress=False)
    np.testing.assert_array_equal(loaded.rewards, expected.rewards)
    np.testing.assert_array_equal(loaded.environment.coordinates, [[0, 0], [1, 0], [0, -1], [1, -1]])
    assert "Columns: subject = subject, state = state, action = action, next state = next_state" in result.output
    assert "guessed" in result.output
    assert "the environment is given" in result.output


def test_without_an_environment_it_is_inferred_along(tmp_path):
    """Where actions lead to several states; else, or if told so, what the data show is taken for the truth."""
    belief = mm.DynamicsBelief(np.zeros((3, 2, 3)), discount=0.9, prior=6.0)
    wanted, rule = np.eye(3)[[0, 2]], mm.Softmax(3.0)
    write_table(mm.simulate(belief.sample(1)[0], wanted, rule, steps=30).to_frame(), tmp_path / "choices.csv")
    given = (tmp_path / "choices.csv", "--discount", 0.9, *QUICK)
    result = run("fit", *given, "--out", tmp_path / "run.nc")
    assert result.exit_code == 0, result.output
    assert "NOT GIVEN: it is inferred together with the rewards" in result.output
    assert mm.load(tmp_path / "run.nc").belief is not None
    again = run("fit", *given, "--out", tmp_path / "run.nc", "--resume")
    assert again.exit_code == 0, again.output
    plugged = run("fit", *given, "--out", tmp_path / "plug.nc", "--plug-in")
    assert "ESTIMATED from the data" in plugged.output
    assert mm.load(tmp_path / "plug.nc").belief is None
    other = run("fit", *given, "--out", tmp_path / "run.nc", "--resume", "--plug-in")
    assert other.exit_code == 2
    assert "another environment" in other.output
    compared = run("compare", tmp_path / "run.nc", "--hold-out", "subjects", "--beside", "counts")
    assert compared.exit_code == 0, compared.output
    both = run("fit", *given, "--dry-run", "--plug-in", "--environment", "gymnasium:FrozenLake-v1")
    assert both.exit_code == 2


def test_what_is_there_is_not_overwritten_unless_asked(example):
    folder, _ = example
    written = (folder / "run.nc").read_bytes()
    same = [folder / "choices.csv", "--environment", folder / "environment.csv", *QUICK, "--out", folder / "run.nc"]
    refused = run("fit", *same, "--discount", 0.9)
    assert refused.exit_code == 2
    assert "already holds a finished run" in refused.output
    other = run("fit", *same, "--discount", 0.8, "--resume", "--json")
    assert other.exit_code == 2
    assert "another environment" in json.loads(other.stdout)["error"]
    nothing_to_do = run("fit", *same, "--discount", 0.9, "--resume", "--coordinates", folder / "coordinates.csv")
    assert nothing_to_do.exit_code == 0, nothing_to_do.output
    assert (folder / "run.nc").read_bytes() == written


def test_json_is_all_that_machines_get(example, tmp_path):
    folder, _ = example
    given = [folder / "choices.csv", "--environment", folder / "environment.csv", "--json"]
    dry = run("fit", *given, "--dry-run")
    facts = json.loads(dry.stdout)
    assert facts["subjects"] == 3
    assert facts["choices"] == 60
    assert facts["columns"]["task"] == "subject"
    done = json.loads(run("fit", *given, *QUICK, "--out", tmp_path / "run.nc").stdout)
    assert done["draws"] == 20
    assert set(done["wants_most"]) == {"subject 1", "subject 2", "subject 3"}
    exported = json.loads(run("export", tmp_path / "run.nc", "--out", tmp_path / "out", "--json").stdout)
    assert exported["tables"]["rewards"] == 12
    failed = run("fit", *given, "--out", tmp_path / "run.nc", "--state", "nowhere", "--force")
    assert failed.exit_code == 2
    assert json.loads(failed.stdout) == {
        "error": "choices.csv has no column 'nowhere'. Its columns are 'subject', 'episode', 'step', 'state', "
        "'action', 'next_state'. Rename one of them, or name another.",
        "exit_code": 2,
    }


def test_stopping_by_hand_is_exit_code_130(example, tmp_path, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    folder, _ = example
    monkeypatch.setattr("manymotives.fitting.run.Run.advance", stopped)
    result = run("fit", folder / "choices.csv", "--out", tmp_path / "run.nc")
    assert result.exit_code == 130
    assert result.output.endswith("Interrupted. Nothing was written.\n")
    assert not (tmp_path / "run.nc").exists()


def test_export_writes_every_estimate_and_contrast(example, tmp_path):
    folder, _ = example
    posterior = mm.load(folder / "run.nc")
    assert run("export", folder / "run.nc", "--out", tmp_path / "tables").exit_code == 0
    rewards = pd.read_csv(tmp_path / "tables" / "rewards.csv")
    np.testing.assert_allclose(rewards["mean"], posterior.to_frame()["mean"])
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {
        "rewards.csv",
        "rewards_canonical.csv",
        "contrasts_between_states.csv",
        "contrasts_between_subjects.csv",
        "policies.csv",
        "population.csv",
        "warnings.csv",
    }
    policies = pd.read_csv(tmp_path / "tables" / "policies.csv")
    assert np.allclose(policies.groupby(["subject", "state"])[["best", "expected"]].sum(), 1.0)
    assert run("export", folder / "run.nc", "--out", tmp_path / "all.csv", "--subject", "subject 1").exit_code == 0
    every = pd.read_csv(tmp_path / "all.csv")
    assert {"rewards", "contrasts_between_states"} <= set(every["estimate"])
    assert set(every.query("estimate == 'rewards'")["subject"]) == {"subject 1"}
    again = run("export", folder / "run.nc", "--out", tmp_path / "all.csv")
    assert again.exit_code == 2
    assert "already exists" in again.output


def test_export_speaks_of_features_first(tmp_path):
    """Of rewards made of features there are tables of weights: each subject's, the population's, differences."""
    chain = mm.worlds.Chain(states=3, discount=0.9)
    data = mm.simulate(chain, np.eye(3)[[0, 2]], mm.Softmax(3.0), steps=20, seed=0, tasks=["ann", "bob"])
    reward = mm.GaussianReward(features=[[1.0, 0.0], [0.5, 1.0], [0.0, 0.0]], names=["food", "=noise"])
    model = mm.RewardPolicyModel(reward, mm.Softmax(mm.Gamma(shape=2.0, rate=2.0)))
    posterior = mm.fit(model, chain, data, mm.Metropolis(chains=2, draws=20, warmup=20, thin=1), progress=False)
    posterior.save(tmp_path / "run.nc")
    done = json.loads(run("export", tmp_path / "run.nc", "--out", tmp_path / "out", "--json").stdout)
    assert list(done["tables"])[:5] == [
        "weights",
        "weights_of_population",
        "weights_times_inverse_temperature",
        "weight_contrasts_between_features",
        "weight_contrasts_between_subjects",
    ]
    assert {"rewards", "contrasts_between_states", "contrasts_between_subjects"} <= set(done["tables"])
    weights = pd.read_csv(tmp_path / "out" / "weights.csv")
    np.testing.assert_allclose(weights["mean"], posterior.weights.mean(("chain", "draw")).values.ravel())
    assert list(weights["subject"]) == ["ann", "ann", "bob", "bob"]
    between = pd.read_csv(tmp_path / "out" / "weight_contrasts_between_subjects.csv")
    assert list(between["feature"]) == ["food", "'=noise"]
    one = tmp_path / "one"
    assert run("export", tmp_path / "run.nc", "--out", one, "--feature", "food", "--no-contrasts").exit_code == 0
    assert set(pd.read_csv(one / "weights.csv")["feature"]) == {"food"}
    assert len(pd.read_csv(one / "rewards.csv")) == 6


def test_names_do_not_run_in_spreadsheets(tmp_path):
    odd = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "-1", "+1.5e3", "ann", "a=b", "→hall"]
    write_table(pd.DataFrame({"=name": odd, "mean": np.arange(10) - 5.0}), tmp_path / "odd.csv")
    back = pd.read_csv(tmp_path / "odd.csv")
    assert list(back) == ["'=name", "mean"]
    assert back["'=name"].tolist() == [f"'{name}" for name in odd[:5]] + odd[5:]
    assert back["mean"].tolist() == list(np.arange(10) - 5.0)


@pytest.mark.parametrize(
    ("columns", "task", "state", "action", "episode", "step"),
    [
        (["subject", "state", "action"], "subject", "state", "action", None, None),
        (["Participant ID", "Location", "Response", "Block", "Trial"], "Participant ID", "Location", "Response",
         "Block", "Trial"),
        (["mouse", "node", "choice", "bout", "t"], "mouse", "node", "choice", "bout", "t"),
        (["subject", "trial", "step", "state", "action"], "subject", "state", "action", "trial", "step"),
        (["subject", "session", "trial", "step", "state", "action"], "subject", "state", "action",
         ["session", "trial"], "step"),
        (["s", "a", "agentId"], "agentId", "s", "a", None, None),
    ],
)  # fmt: skip
def test_columns_are_guessed_from_what_they_are_usually_called(columns, task, state, action, episode, step):
    found = choice_columns(columns, {}, "choices.csv")
    assert (found.task, found.state, found.action, found.episode, found.step) == (task, state, action, episode, step)


def test_states_of_several_columns_are_the_same_states_in_both_tables(tmp_path):
    (tmp_path / "choices.csv").write_text("subject,x,y,action\nann,0,00,go\nann,1,00,go\nann,0,00,go\n")
    (tmp_path / "moves.csv").write_text("x,y,action,next_x,next_y,probability\n0,00,go,1,00,1\n1,00,go,0,00,1\n")
    result = run(
        "fit", tmp_path / "choices.csv", "--environment", tmp_path / "moves.csv", "--state", "x,y", "--dry-run"
    )
    assert result.exit_code == 0, result.output
    assert "2 states, 2 of them visited" in result.output
    env = mm.io.read_environment(
        tmp_path / "moves.csv", discount=0.9, state=["x", "y"], next_state=["next_x", "next_y"]
    )
    assert env.states == ("0, 00", "1, 00")


# its peak is not from getrusage: what that reports starts from the memory of the process that started this one
BIG = """
import re, sys, time
from pathlib import Path
import manymotives as mm
start = time.monotonic()
data = mm.io.read_demonstrations(sys.argv[1], task="subject", episode="session", step="trial", next_state="next_state")
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
print(int(data.counts.sum()), time.monotonic() - start, peak / 2**20)
"""


@pytest.mark.long
def test_ten_million_rows_are_read_in_two_gigabytes(tmp_path):
    rng = np.random.default_rng(0)
    path, at_a_time = tmp_path / "big.csv", 100_000
    with path.open("w") as file:
        file.write("subject,session,trial,state,action,next_state\n")
        for mouse in range(100):
            nodes, actions = rng.integers(100, size=at_a_time + 1), rng.integers(4, size=at_a_time)
            rows = zip(range(at_a_time), nodes, actions, nodes[1:])
            file.writelines(f"mouse {mouse},1,{t},node{s},go{a},node{n}\n" for t, s, a, n in rows)
    made = subprocess.run([sys.executable, "-c", BIG, str(path)], check=True, capture_output=True, text=True)
    choices, _, gibibytes = made.stdout.split()
    assert int(choices) == 10_000_000
    assert float(gibibytes) < 2.0


def test_reading_and_counting_a_long_table_takes_no_time(tmp_path):
    """As many rows as the labyrinth has; two seconds, for a machine that is also doing something else."""
    maze = mm.worlds.Labyrinth(levels=6)
    data = mm.simulate(maze, np.zeros((19, 128)), mm.Softmax(1.0), steps=150, episodes=100, seed=0)
    frame = data.to_frame()
    frame.to_parquet(tmp_path / "walks.parquet")
    assert len(frame) == 285_000
    begin = time.monotonic()
    read = mm.io.read_demonstrations(
        tmp_path / "walks.parquet", maze, episode="episode", step="step", next_state="next_state"
    )
    assert read.counts.sum() == 285_000
    assert time.monotonic() - begin < 2.0
