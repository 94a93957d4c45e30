"""Power: against brute force, the same whoever computes it, resumed when killed; every kind of model, or a reason."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import manymotives as mm
import oracle_power as oracle
from manymotives.assessment.contrasts import read_contrast
from manymotives.assessment.power_checks import checked_source
from manymotives.assessment.power_replications import Experiment, fitted, recruited_and_bound, replicate
from manymotives.assessment.power_result import Power
from manymotives.assessment.power_rules import Rule
from manymotives.assessment.power_truths import recruited, wanted
from manymotives.cli import app
from manymotives.execution.runner import WorkerPool
from manymotives.posterior.predictions import typical_coordinates
from power_examples import EFFECT_SCALE, MEAN_SCALE, SIGMA, arms_model, corridor, two_arms

HERE = Path(__file__).resolve().parent
SHORT = mm.HMC(chains=2, draws=50, warmup=30, thin=1, max_rounds=1)
CONTRAST = "left: restricted - free"
KNOWN = {"sigma": SIGMA, "s": MEAN_SCALE, "tau": EFFECT_SCALE}


def experiment(model, environment, contrast=CONTRAST, subjects=6, steps=10, effect=None, method=SHORT, analysis=None):
    truths, analysed, rows = checked_source(model, environment, analysis, None)
    asked = read_contrast(contrast, truths.model, truths.target)
    rule = Rule("direction", 0.975)
    return Experiment(truths, asked, effect, analysed, asked, rows, subjects, steps, 1, rule, method)


def planned(source=None, environment=None, executor=None, **options):
    source, environment = source or arms_model(), environment or two_arms()
    settings = {"contrast": CONTRAST, "effect": 1.0, "subjects": [4, 6], "steps": [5], "replications": 3}
    settings |= {"method": SHORT, "progress": False, "executor": executor}
    return mm.power(source, environment, **settings | options)


# ---- brute force -------------------------------------------------------------------------------------------------


def test_posteriors_of_one_experiment_are_those_on_a_grid():
    """Mean and P(β > 0) within 4 Monte Carlo standard errors, for experiments of several sizes."""
    rng = np.random.default_rng(5)
    for subjects, choices in ((6, 10), (16, 30)):
        method = mm.HMC(chains=2, draws=500, warmup=150, thin=1, max_rounds=1)
        one = experiment(arms_model(), two_arms(), subjects=subjects, method=method)
        recruits, target = recruited_and_bound(one, 0)
        left, group = oracle.simulated(rng, subjects, choices, 1.0, SIGMA, MEAN_SCALE)
        assert recruits.covariates["group"] == [["free", "restricted"][g] for g in group]
        counts = np.stack([left, choices - left], axis=1)[:, None, :].astype(float)
        found = fitted(one, replace(target, counts=counts), recruits, 3)
        mean, sd = oracle.moments(left, group, choices, **KNOWN)
        positive = oracle.probability_positive(left, group, choices, **KNOWN)
        size = found["effective_draws"]
        assert abs(found["mean"] - mean) < 4 * sd / np.sqrt(size)
        assert abs(found["p_positive"] - positive) < 4 * np.sqrt(positive * (1 - positive) / size) + 1e-3


@pytest.mark.long
def test_power_is_that_of_brute_force():
    """Four sizes, 150 experiments each, against 2000 of the oracle: within 4 standard errors of both together."""
    found = mm.power(
        arms_model(), two_arms(), contrast=CONTRAST, effect=1.5, subjects=[8, 16], steps=[10, 40], replications=150,
        stop=None, progress=False,
    )  # fmt: skip
    assert (found.table["not_converged"] == 0).all()
    for row in found.table.to_dict("records"):
        exact = oracle.power(row["subjects"], row["steps"], 1.5, replications=2000, **KNOWN)
        error = np.sqrt(exact * (1 - exact) * (1 / 150 + 1 / 2000))
        assert abs(row["power"] - exact) < 4 * error, row
    # the negative control: an analysis that takes subjects for nearly alike is far too sure of itself
    alike = arms_model(scale=0.05)
    wrong = mm.power(
        arms_model(), two_arms(), contrast=CONTRAST, effect=0.0, analysis=alike, subjects=[16], steps=[40],
        replications=100, stop=None, progress=False,
    ).table.iloc[0]  # fmt: skip
    exact = oracle.power(16, 40, 0.0, replications=2000, **KNOWN)
    assert wrong["power"] - exact > 4 * np.sqrt(exact * (1 - exact) / 100)
    assert wrong["coverage_upper"] < 0.9


def test_the_oracle_approaches_its_closed_form():
    """With 400 choices a subject and a wide prior of μ the weights are as good as seen."""
    known = {"sigma": 1.0, "s": 2.0, "tau": 2.0}
    found = oracle.power(16, 400, 1.2, replications=600, **known)
    exact = oracle.normal_power(16, 1.2, 1.0, 2.0)
    assert abs(found - exact) < 4 * np.sqrt(exact * (1 - exact) / 600) + 0.02  # .02: choices are not infinitely many


# ---- truths and subjects -----------------------------------------------------------------------------------------


def test_an_effect_of_a_stated_size_is_the_truth():
    assert replicate(experiment(arms_model(), two_arms(), effect=0.7), 1)["truth"] == pytest.approx(0.7)
    free = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(), mm.Hierarchical())
    for contrast in ("0 - 2", "1"):
        assert replicate(experiment(free, corridor(), contrast, effect=-0.4), 1)["truth"] == pytest.approx(-0.4)


def test_the_first_subjects_of_a_large_experiment_are_those_of_a_small_one():
    small, large = (experiment(arms_model(), two_arms(), subjects=count) for count in (4, 9))
    drawn = []
    for one in (small, large):
        recruits, _ = recruited_and_bound(one, 7)
        origin = one.truths.target
        population = one.truths.draw(origin, np.random.default_rng([7, 1]))
        drawn.append(wanted(population, origin, recruits, 7))
    np.testing.assert_array_equal(drawn[0], drawn[1][:4])


def test_levels_of_the_factor_are_balanced_and_the_rest_is_as_in_the_table():
    table = {
        "task": list(range(10)),
        "group": ["free"] * 8 + ["restricted"] * 2,
        "age": [20, 21, 22, 23, 24, 25, 26, 27, 60, 61],
    }
    model = arms_model()
    model = replace(model, sharing=mm.Hierarchical("group + age", covariates=table))
    asked = experiment(model, two_arms()).contrast
    found = recruited(model.sharing.covariates, model, asked, 16, [0])
    groups, ages = np.array(found.covariates["group"]), np.array(found.covariates["age"])
    assert (groups == "restricted").sum() == 8
    assert sorted(ages[groups == "free"]) == [20, 21, 22, 23, 24, 25, 26, 27]  # each as often as the others
    assert sorted(ages[groups == "restricted"]) == [60] * 4 + [61] * 4


def test_a_subject_is_a_mouse_with_all_of_its_tasks():
    table = {"task": list("abcd"), "mouse": ["m", "m", "n", "n"], "group": ["free", "restricted"] * 2}
    model = replace(arms_model(), sharing=mm.Hierarchical("group + (1 | mouse)", covariates=table))
    one = experiment(model, two_arms(), subjects=5)
    recruits, target = recruited_and_bound(one, 0)
    assert target.num_tasks == 10
    assert recruits.covariates["mouse"] == [f"subject {k}" for k in range(5) for _ in range(2)]
    assert np.isfinite(list(replicate(one, 0).values())).all()


def test_truths_of_a_pilot_are_draws_of_its_posterior():
    """True contrasts have the posterior's mean and standard deviation, of rewards and of further parameters alike."""
    environment, table = corridor(), {"task": list(range(6)), "condition": ["no", "yes"] * 3}
    shown = mm.simulate(environment, np.tile([0.0, 0.3, 1.0], (6, 1)), mm.Softmax(2.0), steps=30, seed=1)
    model = mm.RewardPolicyModel(
        mm.GaussianReward(),
        mm.Softmax(),
        mm.Hierarchical("condition", covariates=table),
        discount=mm.Beta(alpha=8.0, beta=2.0),
    )
    posterior = mm.fit(model, environment, shown, mm.HMC(chains=2, draws=60, warmup=60, max_rounds=1), progress=False)
    expected = posterior.contrast({"condition": "yes"}, {"condition": "no"}).set_index("quantity")
    for name, row in (("2", expected.loc["reward"].iloc[2]), ("discount", expected.loc["discount"])):
        one = experiment(posterior, None, f"{name}: yes - no")
        truths, rows = one.truths, {"condition": ["no", "yes"] * 3}
        origin = truths.target
        location = typical_coordinates(origin, truths.parameters)
        values = one.contrast.at(origin, location, truths.coefficients, rows)
        assert row["sd"] > 0  # effects on discounts count, too
        assert values.mean() == pytest.approx(row["mean"], rel=1e-9)
        assert values.std(ddof=1) == pytest.approx(row["sd"], rel=0.01)
        drawn = truths.draw(origin, np.random.default_rng(0)).contrast(one.contrast, origin, rows)
        assert np.isclose(values, drawn, rtol=1e-12).any()


KINDS = {
    "Pooled": (mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(), mm.Pooled()), None),
    "Dirichlet": (mm.RewardPolicyModel(), None),
    "Beta": (mm.RewardPolicyModel(mm.BetaReward(), mm.Softmax(), mm.Hierarchical()), None),
    "smooth": (mm.RewardPolicyModel(mm.SmoothReward(), mm.SoftOptimal(), mm.Hierarchical()), None),
    "pairs, lapse": (
        mm.RewardPolicyModel(
            mm.GaussianReward(on="state_action"), mm.Softmax(1.0, lapse=mm.Beta(alpha=1.0, beta=9.0)), mm.Hierarchical()
        ),
        None,
    ),
    "depth": (mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(), mm.Hierarchical(), depth=2), None),
    "features, residual": (
        mm.RewardPolicyModel(mm.GaussianReward(np.eye(3)[:, :2], residual=True), mm.Softmax(), mm.Pooled()),
        None,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_can_be_planned_for(kind):
    model, environment = KINDS[kind][0], corridor()
    names = {"pairs, lapse": "0, back - 1, back"}
    contrast = names.get(kind, "0 - 1")
    options = {"contrast": contrast, "effect": None, "subjects": [3], "steps": [6], "replications": 2}
    found = planned(model, environment, **options)
    assert np.isfinite(found.experiments.to_numpy(dtype=float)).all()
    shown = mm.recover(model, environment, tasks=4, steps=20, method=SHORT, progress=False).posterior
    pilot = mm.power(shown, **options, method=SHORT, progress=False)
    assert pilot.is_assurance
    assert np.isfinite(pilot.experiments.to_numpy(dtype=float)).all()


@pytest.mark.long
def test_several_environments_and_terminal_states_need_episodes():
    maze = mm.worlds.GridWorld(["S.G"], discount=0.8, terminal="G")
    model = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(), mm.Hierarchical())
    for environment in (maze, {"one": corridor(), "two": mm.worlds.Chain(states=3, slip=0.3, discount=0.8)}):
        names = mm.Environments(environment).state_names if isinstance(environment, dict) else environment.states
        contrast = f"{names[0]} - {names[1]}"
        options = {"contrast": contrast, "effect": 0.5, "subjects": [3], "steps": [6], "replications": 2}
        found = planned(model, environment, **options, episodes=4)
        assert found.table["choices"].iloc[0] <= 24
        with pytest.raises(mm.errors.InputError, match="episodes="):
            planned(model, environment, **options)


# ---- whoever computes, however often it is killed ----------------------------------------------------------------


@pytest.mark.long
def test_the_same_numbers_whoever_computes_and_nothing_twice(tmp_path, monkeypatch):
    submitted = []
    submit = WorkerPool.submit
    monkeypatch.setattr(WorkerPool, "submit", lambda self, job: submitted.append(job.unit) or submit(self, job))
    first = planned(store=tmp_path / "store")
    assert len(submitted) == len(set(submitted)) == 6
    with ThreadPoolExecutor(1) as executor:
        alone = planned(executor=executor, stop=None)
    pd.testing.assert_frame_equal(first.experiments, alone.experiments, check_exact=True)
    submitted.clear()
    more = planned(store=tmp_path / "store", replications=4)
    assert len(submitted) == 2  # three of four were there
    submitted.clear()
    planned(store=tmp_path / "store", rule="interval", replications=4)
    assert len(submitted) == 8  # another rule ends chains elsewhere
    assert len(more.experiments) == 8


def test_cells_that_are_decided_stop_at_a_look(monkeypatch):
    def instead(job):
        yes = float(job.setting.subjects > 5)
        numbers = {"truth": 1.0, "choices": 5.0, "mean": 1.0, "sd": 1.0, "lower": 0.1, "upper": 2.0, "yes": yes}
        return numbers | {"p_positive": 0.99, "converged": 1.0, "rhat": 1.0, "effective_draws": 300.0, "draws": 400.0}

    with ThreadPoolExecutor(2) as executor:
        pool_submit = lambda self, job: executor.submit(lambda: (instead(job), 0.1))  # noqa: E731
        monkeypatch.setattr(WorkerPool, "submit", pool_submit)
        found = planned(replications=100).table
    assert list(found["replications"]) == [20, 40]
    assert found["stopped_early"].all()


@pytest.mark.long
def test_worker_processes_give_the_same_bits():
    one, four = (planned(executor=count) for count in (1, 4))
    pd.testing.assert_frame_equal(one.experiments, four.experiments, check_exact=True)


@pytest.fixture(scope="module")
def pilot(tmp_path_factory):
    """A small pilot of eight subjects, on disk."""
    table = {"task": list(range(8)), "group": ["free", "restricted"] * 4}
    model = replace(arms_model(), sharing=mm.Hierarchical("group", covariates=table, effect_scale=EFFECT_SCALE))
    weights = np.tile([0.0, 1.5], 4)[:, None, None] * np.array([[0.5, -0.5]])
    shown = mm.simulate(two_arms(), weights, mm.Softmax(1.0), steps=20, seed=2, on="state_action")
    path = tmp_path_factory.mktemp("pilot") / "pilot.nc"
    mm.fit(model, two_arms(), shown, SHORT, progress=False).save(path)
    return path


COMMAND = ["--contrast", CONTRAST, "--subjects", "4,6", "--steps", "5", "--replications", "6", "--all-replications"]


@pytest.mark.long
def test_power_from_the_command_line(pilot, tmp_path):
    out = tmp_path / "power"
    done = CliRunner().invoke(app, ["power", str(pilot), *COMMAND, "--out", str(out), "--workers", "2"])
    assert done.exit_code == 0, done.output
    assert "assurance" in done.output or "To see" in done.output
    assert (out / "power.png").stat().st_size > 5000
    found = Power.load(out / "power.json")
    pd.testing.assert_frame_equal(pd.read_csv(out / "power.csv"), found.table)
    alone = mm.power(
        mm.load(pilot), contrast=CONTRAST, subjects=[4, 6], steps=[5], replications=6, stop=None, progress=False
    )
    pd.testing.assert_frame_equal(found.experiments, alone.experiments, check_exact=True)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_kill_9_on_a_cluster_and_resumed_gives_the_same_table(pilot, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    out, total = tmp_path / "power", 12
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        command = [sys.executable, "-m", "manymotives", "power", str(pilot), *COMMAND, "--out", str(out)]
        with subprocess.Popen([*command, "--scheduler", address], env=environment, stdout=subprocess.DEVNULL) as run:
            deadline = time.monotonic() + 300
            while stored(out) < 3 and run.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            run.send_signal(signal.SIGKILL)
        before = stored(out)
        assert 0 < before < total
        submitted, submit = [], WorkerPool.submit
        monkeypatch.setattr(WorkerPool, "submit", lambda self, job: submitted.append(job.unit) or submit(self, job))
        done = CliRunner().invoke(app, ["power", str(pilot), *COMMAND, "--out", str(out), "--scheduler", address])
        assert done.exit_code == 0, done.output
    assert len(submitted) == len(set(submitted)) == total - before
    monkeypatch.undo()
    alone = mm.power(
        mm.load(pilot), contrast=CONTRAST, subjects=[4, 6], steps=[5], replications=6, stop=None, progress=False
    )
    pd.testing.assert_frame_equal(Power.load(out / "power.json").experiments, alone.experiments, check_exact=True)


def stored(out):
    """How many experiments the store holds."""
    path = out / "results.sqlite"
    if not path.exists():
        return 0
    store = sqlite3.connect(path)
    try:
        return store.execute("SELECT COUNT(*) FROM units").fetchone()[0]
    except sqlite3.OperationalError:  # not made yet
        return 0
    finally:
        store.close()


def test_workers_and_a_scheduler_are_too_many():
    done = CliRunner().invoke(
        app, ["power", "x.nc", "--contrast", "a", "--workers", "2", "--scheduler", "tcp://node1:8786"]
    )
    assert done.exit_code == 2
    assert "--workers and --scheduler cannot be combined" in done.output
