"""Tables of features: read by name, refused in a sentence, warned of where no choice can show a weight."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import manymotives as mm
from manymotives.cli import app
from manymotives.posterior.dependent_features import warnings_of_features

QUICK = ["--method", "metropolis", "--chains", "2", "--draws", "20", "--warmup", "10"]
GRID = mm.worlds.GridWorld((3, 3), slip=0.1, discount=0.9)
ENDING = mm.worlds.GridWorld(["S..", "..G"], terminal="G")


def run(*arguments):
    return CliRunner().invoke(app, [str(word) for word in arguments])


def reversed_table(environment, **columns):
    """Rows from the last state to the first."""
    return pd.DataFrame({"state": environment.states} | columns).iloc[::-1]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A simulated experiment, a table of features of states, and one of features of pairs."""
    folder = tmp_path_factory.mktemp("features")
    made = run("simulate", "grid", "--out", folder, "--subjects", 3, "--steps", 30, "--size", 3, "--discount", 0.9)
    assert made.exit_code == 0, made.output
    reversed_table(GRID, food=np.arange(9.0) % 2, noise=np.arange(9.0) ** 2).to_csv(folder / "on.csv", index=False)
    pairs = [(state, action) for state in GRID.states for action in GRID.actions]
    effort = [float(number % 4 == 0) for number in range(36)]
    table = pd.DataFrame(pairs, columns=["state", "action"]).assign(effort=effort)
    table.sample(frac=1.0, random_state=0).to_csv(folder / "pairs.csv", index=False)
    return folder


def fit(folder, *more):
    return run("fit", folder / "choices.csv", "--environment", folder / "environment.csv", "--discount", 0.9, *more)


def test_rows_in_any_order_make_features_in_the_order_of_the_environment(tables):
    found = mm.io.read_features(tables / "on.csv", GRID)
    np.testing.assert_array_equal(found.values, np.column_stack([np.arange(9.0) % 2, np.arange(9.0) ** 2]))
    assert found["feature"].values.tolist() == ["food", "noise"]
    on_pairs = mm.io.read_features(tables / "pairs.csv", GRID, action="action")
    np.testing.assert_array_equal(on_pairs.values[..., 0], np.tile([1.0, 0.0, 0.0, 0.0], (9, 1)))
    reward = mm.GaussianReward(on_pairs, on="state_action")
    np.testing.assert_array_equal(reward.features_for(GRID).toarray().reshape(9, 4), on_pairs.values[..., 0])
    assert reward.feature_names(1) == ("effort",)


def test_the_command_fits_what_the_library_fits(tables):
    out = tables / "run.nc"
    result = fit(tables, "--features", tables / "on.csv", *QUICK, "--out", out)
    assert result.exit_code == 0, result.output
    loaded = mm.load(out)
    env = mm.io.read_environment(tables / "environment.csv", discount=0.9)
    data = mm.io.read_demonstrations(
        tables / "choices.csv", env, task="subject", episode="episode", step="step", next_state="next_state"
    )
    model = mm.RewardPolicyModel(mm.GaussianReward(mm.io.read_features(tables / "on.csv", env)))
    expected = mm.fit(model, env, data, mm.Metropolis(chains=2, draws=20, warmup=10), seed=0, progress=False)
    np.testing.assert_array_equal(loaded.weights, expected.weights)
    assert loaded.to_frame()["feature"].unique().tolist() == ["food", "noise"]


def test_a_column_of_actions_puts_rewards_on_pairs(tables):
    result = fit(tables, "--features", tables / "pairs.csv", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "mrp (partial pooling) with gaussian rewards on pairs, made of 1 feature ('effort')," in result.output
    same = fit(tables, "--features", tables / "pairs.csv", "--dry-run", "--on", "pairs", "--reward", "gaussian")
    assert same.exit_code == 0, same.output


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--reward", "beta"), "--features needs --reward gaussian"),
        (("--history", "1"), "--features and --history cannot be combined"),
        (("--on", "pairs"), "--on pairs: the table of features has no column of actions"),
    ],
)
def test_what_does_not_go_with_features_is_refused(tables, more, said):
    result = fit(tables, "--features", tables / "on.csv", "--dry-run", "--json", *more)
    assert result.exit_code == 2
    assert said in json.loads(result.output)["error"]


def test_states_nobody_visited_are_left_out_where_the_environment_is_estimated(tables, tmp_path):
    more = pd.concat([pd.read_csv(tables / "on.csv"), pd.DataFrame({"state": ["attic"], "food": [1.0], "noise": [0]})])
    more.to_csv(tmp_path / "more.csv", index=False)
    known = fit(tables, "--features", tmp_path / "more.csv", "--dry-run")
    assert known.exit_code == 2
    assert "unknown state 'attic'" in known.output
    estimated = run("fit", tables / "choices.csv", "--features", tmp_path / "more.csv", "--plug-in", "--dry-run")
    assert estimated.exit_code == 0, estimated.output
    assert "of states that nobody visited; they are not used" in estimated.output


def said_of(environment, features, on="state"):
    names = [f"f{k}" for k in range(np.shape(features)[-1])]
    return " / ".join(warnings_of_features(mm.GaussianReward(features, names=names, on=on), environment))


def test_features_whose_weights_no_choice_can_show_are_named():
    some = np.random.default_rng(0).normal(size=(9, 3))
    assert said_of(GRID, some) == ""
    assert "feature 'f3' is 0 everywhere" in said_of(GRID, np.column_stack([some, np.zeros(9)]))
    assert "feature 'f3' is the same everywhere" in said_of(GRID, np.column_stack([some, np.full(9, -2e-3)]))
    doubled = said_of(GRID, np.column_stack([some, some[:, 0] - 1e4 * some[:, 2]]))
    assert "features 'f0', 'f2', 'f3' are collinear" in doubled
    rooms = np.eye(3)[np.arange(9) % 3]
    assert "features 'f0', 'f1', 'f2' have a weighted sum that is the same everywhere" in said_of(GRID, rooms)
    assert "2 more such dependences" in said_of(GRID, np.tile(some[:, :1], 6))


def test_a_constant_says_when_episodes_end():
    """With a terminal state, a reward in every state is a reason to end the episode or not to."""
    assert said_of(ENDING, np.ones((6, 1))) == ""
    hidden = np.where(ENDING.is_terminal, 1.0, 1.0 - ENDING.discount)
    assert "feature 'f0' changes no choice here" in said_of(ENDING, hidden[:, None])
    pairs = np.ones((6, 4, 1))
    assert said_of(ENDING, pairs, on="state_action") == ""
    assert "is the same everywhere" in said_of(GRID, np.ones((9, 4, 1)), on="state_action")


def test_the_warning_stands_on_the_posterior():
    data = mm.simulate(GRID, np.arange(9.0), mm.Softmax(1.0), steps=20, seed=0)
    features = pd.DataFrame({"here": np.ones(9), "far": np.arange(9.0)}, index=GRID.states)
    model = mm.RewardPolicyModel(mm.GaussianReward(features))
    posterior = mm.fit(model, GRID, data, mm.Metropolis(chains=1, draws=5, warmup=5), progress=False)
    assert any("feature 'here' is the same everywhere" in warning for warning in posterior.warnings)
