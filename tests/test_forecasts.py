"""Every fit can be forecast: whatever is inferred, by whatever method, and on however busy a machine.

No test here depends on how fast this machine is: the clock is made up, and a second passes whenever it is read.
"""

import itertools
import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import manymotives as mm
from manymotives.cli import app
from manymotives.fitting.run import Run
from manymotives.inference.mcmc import forecast
from manymotives.inference.progress import Progress, announcement
from manymotives.planning.problem import cores

FIELD = mm.worlds.GridWorld((2, 2), slip=0.1, discount=0.9)
TASKS = ["ann", "bob", "cem", "dee"]
DATA = mm.simulate(FIELD, np.eye(4), mm.Softmax(4.0), steps=20, seed=0, tasks=TASKS)
ABOUT = pd.DataFrame({"task": TASKS, "age": [1.0, 2.0, 3.0, 4.0]})
BELIEF = mm.DynamicsBelief.from_demonstrations(DATA, discount=0.9)
SHORT = {"chains": 2, "draws": 6, "warmup": 4, "thin": 2}
NORMAL = mm.GaussianReward(mean=0.0, scale=1.0)
RUNS = {
    "rewards": (mm.RewardPolicyModel(), FIELD, mm.HMC(**SHORT), "about"),
    "many rewards": (mm.RewardPolicyModel(mm.SmoothReward()), mm.worlds.GridWorld((11, 10)), mm.HMC(**SHORT), "about"),
    "transitions": (mm.RewardPolicyModel(), BELIEF, mm.HMC(**SHORT), "roughly"),
    "motives": (mm.RewardPolicyModel(switching=mm.Switching(motives=2)), FIELD, mm.HMC(**SHORT), "roughly"),
    "effects": (
        mm.RewardPolicyModel(mm.GaussianReward(), sharing=mm.Hierarchical("age", covariates=ABOUT)),
        FIELD,
        mm.HMC(**SHORT),
        "roughly",
    ),
    "partitions": (mm.RewardPolicyModel(sharing=mm.Mixture()), FIELD, mm.HMC(**SHORT), "roughly"),
    "gibbs": (mm.RewardPolicyModel(), FIELD, mm.Gibbs(**SHORT), "about"),
    "metropolis": (mm.RewardPolicyModel(), FIELD, mm.Metropolis(**SHORT), "about"),
    "monte carlo": (mm.RewardPolicyModel(), FIELD, mm.MonteCarlo(draws=80), "roughly"),
    "nested": (mm.RewardPolicyModel(), FIELD, mm.NestedMonteCarlo(draws=8, inner=10), "roughly"),
    "empirical Bayes": (mm.RewardPolicyModel(), FIELD, mm.EmpiricalBayes(), "at least"),
    "empirical Bayes of motives": (
        mm.RewardPolicyModel(mm.GaussianReward(), switching=mm.Switching(motives=2)),
        FIELD,
        mm.EmpiricalBayes(),
        "at least",
    ),
    "maximum likelihood": (
        mm.RewardPolicyModel(NORMAL, mm.Softmax(1.0), mm.Pooled()),
        FIELD,
        mm.MaximumLikelihood(criterion="posterior"),
        "roughly",
    ),
    "optimality": (mm.PolicyOptimalityModel(), FIELD, mm.OptimalityMonteCarlo(num_rewards=80), "at least"),
    "optimality of a set": (mm.PolicyOptimalityModel(np.eye(4)), FIELD, mm.OptimalityMonteCarlo(), "at least"),
}
PLANS = 32  # in a batch: eight of each task
PIECES = 2 * (4 + 6) / min(2, cores())
EXACT = {
    "transitions": PIECES,
    "motives": PIECES,
    "effects": PIECES,
    "partitions": PIECES,
    "monte carlo": 80 * 4 / PLANS,
    "nested": 8 * 10 * 4 / PLANS,
    "optimality": 80 / 40,
    "optimality of a set": 1.0,
}


@pytest.fixture
def clock(monkeypatch):
    """Whatever is timed takes a second."""
    reads = itertools.count()
    monkeypatch.setattr(forecast, "time", SimpleNamespace(perf_counter=lambda: float(next(reads))))


@pytest.mark.parametrize("name", RUNS)
def test_every_run_has_a_forecast(name, clock):
    model, place, method, said = RUNS[name]
    data = DATA if name != "many rewards" else mm.simulate(place, np.ones((2, 110)), mm.Softmax(1.0), steps=20, seed=0)
    ahead, _ = Run(model, place, data, method).forecast(Progress(False))
    assert np.isfinite(ahead.seconds)
    assert ahead.seconds > 0
    assert ahead.said == said
    if name in EXACT:
        assert ahead.seconds == pytest.approx(EXACT[name])


def test_a_forecast_of_draws_that_are_thrown_away_changes_no_draw():
    model, place, method, _ = RUNS["transitions"]
    runs = [Run(model, place, DATA, method, seed=1) for _ in range(2)]
    runs[0].forecast(Progress(False))
    for run in runs:
        run.advance(6, Progress(False))
    np.testing.assert_array_equal(runs[0].draws.tasks, runs[1].draws.tasks)


def test_a_busy_machine_gets_a_forecast_too(monkeypatch):
    """Whatever the clock says: steps that take hours, no time at all, or anything in between."""
    model, place, method, _ = RUNS["rewards"]
    for waits in ([1e5], [0.0], [0.0, 3.0, 1e4, 1e-9]):
        reads = itertools.accumulate(itertools.cycle(waits))
        monkeypatch.setattr(forecast, "time", SimpleNamespace(perf_counter=reads.__next__))
        ahead, _ = Run(model, place, DATA, method).forecast(Progress(False))
        assert np.isfinite(ahead.seconds)
        assert re.match(r"This will take about [\d,]+ (s|min|h)\b", announcement(ahead.seconds))


@pytest.mark.parametrize("words", [(), ("--environment", "field.csv", "--method", "monte-carlo")])
def test_a_dry_run_always_says_how_long(words, tmp_path, monkeypatch):
    """Without an environment, transitions are inferred."""
    monkeypatch.chdir(tmp_path)
    DATA.to_frame().to_csv("choices.csv", index=False)
    FIELD.to_frame().to_csv("field.csv", index=False)
    said = CliRunner().invoke(app, ["fit", "choices.csv", *words, "--dry-run"])
    assert said.exit_code == 0, said.output
    assert re.search(r"This will take roughly \d+ (s|min|h)", said.output)
    found = CliRunner().invoke(app, ["fit", "choices.csv", *words, "--dry-run", "--json"])
    told = json.loads(found.stdout)
    assert told["seconds_ahead"] >= 0
    assert told["forecast"] == "roughly"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["choices.csv", "field.csv"]
