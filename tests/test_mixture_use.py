"""Tasks that share motives, in use: limits that are other models, edges, episodes, scores, the command line."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import manymotives as mm
import zoo_mixture as zoo
from cases import in_turn
from manymotives.cli import app
from manymotives.inference import sample
from places import TRIANGLE

KNOWN = mm.GaussianReward(mean=0.0, scale=1.5)
RULE = mm.Softmax(2.0)
QUICK = mm.HMC(chains=2, draws=12, warmup=12, thin=1, max_rounds=1)
LENGTH = mm.HMC(chains=2, draws=250, warmup=60, thin=1, max_rounds=1)
BATCHES = 10  # of draws of a chain, whose means tell the Monte Carlo error
SEED = 27


def model(sharing, reward=KNOWN, rule=RULE):
    return mm.RewardPolicyModel(reward, rule, sharing)


def choices(tasks=3, episodes=1, steps=25):
    """Two kinds of tasks in turn."""
    rewards = np.array([[2.0, 0.0, 0.0], [0.0, 0.0, 2.0]])[np.arange(tasks) % 2]
    return mm.simulate(TRIANGLE, rewards, RULE, steps=steps, episodes=episodes, seed=SEED)


def means(draws):
    """Means of tasks' log odds, and their Monte Carlo standard errors: what choices tell, whatever the constant."""
    told = draws.tasks[..., 1:3] - draws.tasks[..., :1]
    batches = told.reshape(told.shape[0] * BATCHES, -1, *told.shape[2:]).mean(axis=1)
    return told.mean(axis=(0, 1)), batches.std(axis=0, ddof=1) / np.sqrt(len(batches))


def check_equal(one, other):
    """Posterior means within 5 standard errors of their difference: 20 batches are few."""
    (first, error), (second, more) = means(one), means(other)
    assert (np.abs(first - second) < 5 * np.hypot(error, more)).all(), (first, second, error, more)


def drawn(sharing, demonstrations, method=LENGTH):
    return sample(method, model(sharing).bind(TRIANGLE, demonstrations), seed=SEED)


# ---- limits ------------------------------------------------------------------------------------------------------


def test_one_motive_is_a_pooled_model():
    shared, data = drawn(mm.Mixture(1), choices()), choices()
    assert shared.mixture.motive.max() == 0
    pooled = sample(LENGTH, model(mm.Pooled()).bind(TRIANGLE, data), seed=SEED)
    check_equal(shared, pooled)


@pytest.mark.long
def test_all_apart_are_separate_tasks():
    apart = drawn(mm.Mixture(mm.DirichletProcess(1e9)), choices())
    assert (apart.mixture.motive.max(axis=2) == 2).mean() > 0.99
    check_equal(apart, drawn(mm.Separate(), choices()))


@pytest.mark.long
def test_permuting_tasks_permutes_the_answer():
    data = choices(tasks=4)
    order = np.array([2, 0, 3, 1])
    rows = data.to_frame().assign(task=lambda table: order[table["task"].to_numpy()])
    permuted = mm.Demonstrations.from_frame(rows.sort_values(["task", "step"]), TRIANGLE, step="step")
    assert np.array_equal(permuted.counts[order], data.counts)
    one, other = (drawn(mm.Mixture(), each) for each in (data, permuted))
    check_equal(one, replace(other, tasks=other.tasks[:, :, order]))
    together = [
        (each.mixture.motive[..., :, None] == each.mixture.motive[..., None, :]).mean(axis=(0, 1))
        for each in (one, other)
    ]
    np.testing.assert_allclose(together[0], together[1][np.ix_(order, order)], atol=0.15)  # some 50 independent draws


# ---- models at random, and edges ---------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [pytest.param(k, marks=[] if k < 2 else pytest.mark.long) for k in range(40)])
def test_the_log_density_of_draws_is_that_of_the_definition(index):
    one = zoo.specimen(SEED, index)
    found = zoo.problems_of(one, zoo.drawn(one, index, draws=5))
    assert not found, f"{one}: {found}"


EDGES = {
    "one choice": lambda: mm.Demonstrations.from_lists([([0], [1])], TRIANGLE),
    "a silent task": lambda: mm.Demonstrations.from_lists(
        [([0, 1], [None, None]), ([2, 0], [0, 1])], TRIANGLE, tasks=["silent", "heard"]
    ),
    "alike": lambda: mm.Demonstrations.from_lists([([0, 1, 2], [0, 1, 1])] * 3, TRIANGLE),
}


@pytest.mark.parametrize(("edge", "spread"), in_turn(EDGES, [None, 1e-6], every=2))
def test_edges_have_finite_posteriors(edge, spread):
    posterior = mm.fit(model(mm.Mixture(spread=spread)), TRIANGLE, EDGES[edge](), QUICK, seed=0, progress=False)
    assert np.isfinite(posterior.rewards.values).all()
    assert np.isfinite(posterior.data["sample_stats"].dataset["lp"].values).all()
    np.testing.assert_allclose(posterior.predictive_policies().sum("action"), 1.0)


# ---- episodes, scores, recovery ----------------------------------------------------------------------------------


def test_episodes_are_tasks():
    data = mm.Demonstrations.from_frame(
        pd.DataFrame(
            {
                "task": ["ann", "ann", "ann", "bob"],
                "day": ["mon", "mon", "tue", "mon"],
                "state": [0, 1, 2, 0],
                "action": [0, 1, 1, 0],
            }
        ),
        TRIANGLE,
        episode="day",
    )
    found = data.by_episode()
    assert found.tasks == ("ann, episode mon", "ann, episode tue", "bob")
    assert found.episodes == data.episodes
    assert np.array_equal(found.counts[:2].sum(axis=0), data.counts[0])
    again = found.by_episode()
    assert again.tasks == found.tasks
    assert np.array_equal(again.task, found.task)
    posterior = mm.fit(model(mm.Mixture(by="episode")), TRIANGLE, data, QUICK, seed=0, progress=False)
    assert tuple(posterior.tasks) == found.tasks


@pytest.mark.long
def test_held_out_choices_are_predicted():
    data = choices(tasks=3, episodes=2, steps=15)
    for hold_out in (("episodes", 2), ("tasks", (0, 1))):
        found = mm.score(model(mm.Mixture()), TRIANGLE, data, QUICK, hold_out=hold_out, beside=[], progress=False)
        rows = found.table[found.table["model"] == "mixture"]
        assert len(rows) == (1 if hold_out[0] == "episodes" else 2)
        assert np.isfinite(rows["log_likelihood"]).all()


def test_recovery_and_its_truth_share_motives():
    found = mm.recover(model(mm.Mixture(2)), TRIANGLE, tasks=6, steps=20, method=QUICK, progress=False)
    assert len(np.unique(found.rewards, axis=0)) <= 2
    assert len(found.losses) == 6


# ---- the command line --------------------------------------------------------------------------------------------


def run(*words):
    ended = CliRunner().invoke(app, [str(word) for word in words])
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_a_mixture_is_fitted_and_exported_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TRIANGLE.to_frame().to_csv("environment.csv", index=False)
    choices(tasks=3, episodes=2, steps=10).to_frame().drop(columns="next_state").to_csv("choices.csv", index=False)
    sizes = ("--chains", 2, "--draws", 8, "--warmup", 8, "--max-rounds", 1, "--inverse-temperature", 2)
    options = ("--environment", "environment.csv", "--model", "mixture", "--reward", "gaussian", *sizes, "--json")
    told = json.loads(run("fit", "choices.csv", *options, "--motives", 2, "--spread", 0.5, "--out", "run.nc"))
    assert set(told["number_of_motives"]) <= {"1", "2"}
    assert sum(len(each["subjects"]) for each in told["motives"]) == 3
    tables = json.loads(run("export", "run.nc", "--out", "tables", "--json"))["tables"]
    assert (tables["together"], tables["partition"]) == (3, 3)
    assert tables["motives"] > 0
    assert pd.read_csv("tables/number_of_motives.csv")["probability"].sum() == pytest.approx(1.0)
    told = json.loads(run("fit", "choices.csv", *options, "--by", "episode", "--out", "days.nc"))
    assert sum(len(each["subjects"]) for each in told["motives"]) == 6
