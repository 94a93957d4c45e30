"""Runs in blocks: cut anywhere, killed anywhere, they end with the same draws."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import manymotives as mm
from manymotives.cli import app
from manymotives.fitting.checkpoints import earlier_run, fit_in_blocks, identity_of, is_unfinished
from manymotives.fitting.ctrl_c import presses
from manymotives.fitting.run import Run
from manymotives.inference import InParts
from manymotives.inference.progress import Report

FIELD = mm.worlds.GridWorld((2, 2), slip=0.1, discount=0.9)
REWARDS = np.random.default_rng(0).dirichlet(np.full(4, 0.3), size=3)
DATA = mm.simulate(FIELD, REWARDS, mm.Softmax(5.0), steps=20, seed=0)
MODEL = mm.RewardPolicyModel()
METHODS = [
    pytest.param(mm.HMC(chains=2, draws=60, warmup=20, thin=1, max_rounds=2), id="HMC"),
    pytest.param(mm.Gibbs(chains=2, draws=60, warmup=20, thin=1), id="Gibbs", marks=pytest.mark.long),
    pytest.param(mm.Metropolis(chains=2, draws=60, warmup=20, thin=1), id="Metropolis", marks=pytest.mark.long),
]


def blocks(method, path, **options):
    return fit_in_blocks(Run(MODEL, FIELD, DATA, method, seed=3), path, progress=False, **options)


class Killed(Exception):
    """In place of the operating system, between two blocks."""


def killed_after(count):
    def said(made, wanted, rate):
        if made >= count:
            raise Killed

    return said


@pytest.mark.parametrize("method", METHODS)
def test_a_run_that_was_cut_ends_as_one_that_was_not(method, tmp_path):
    path = tmp_path / "run.nc"
    with pytest.raises(Killed):
        blocks(method, path, every=0.0, on_checkpoint=killed_after(50))
    halfway = mm.load(path)
    assert is_unfinished(halfway)
    assert "this run is incomplete: it is a checkpoint after 50 draws" in halfway.warnings[0]
    resumed = blocks(method, path, resume=True, every=1e9)  # in other blocks than before
    whole = mm.fit(MODEL, FIELD, DATA, method, seed=3, progress=False)
    for name in whole.data["posterior"].data_vars:
        np.testing.assert_array_equal(resumed.data["posterior"][name], whole.data["posterior"][name])
    for name, rates in whole.data["sample_stats"].data_vars.items():  # of the whole run, not of its last block
        np.testing.assert_allclose(resumed.data["sample_stats"][name], rates, rtol=1e-12)
    assert resumed.warnings == whole.warnings
    assert resumed.data.attrs["method"] == whole.data.attrs["method"]
    saved = mm.load(path)
    assert not is_unfinished(saved)
    np.testing.assert_array_equal(saved.rewards, whole.rewards)


@pytest.mark.long
def test_importance_samplers_run_in_seeded_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("manymotives.fitting.checkpoints.FIXED", {mm.NestedMonteCarlo: 30})
    method = mm.NestedMonteCarlo(draws=80, inner=5)
    whole = blocks(method, tmp_path / "whole.nc")
    with pytest.raises(Killed):
        blocks(method, tmp_path / "cut.nc", on_checkpoint=killed_after(30))
    resumed = blocks(method, tmp_path / "cut.nc", resume=True)
    assert resumed.rewards.sizes["draw"] == 80
    np.testing.assert_array_equal(resumed.rewards, whole.rewards)


def test_what_cannot_be_cut_runs_once_and_gives_what_fit_gives(tmp_path):
    model = mm.PolicyOptimalityModel()
    method = mm.OptimalityMonteCarlo(draws=20, num_rewards=50)
    made = fit_in_blocks(Run(model, FIELD, DATA, method, seed=1), tmp_path / "run.nc", progress=False)
    np.testing.assert_array_equal(made.rewards, mm.fit(model, FIELD, DATA, method, seed=1, progress=False).rewards)
    again = fit_in_blocks(Run(model, FIELD, DATA, method, seed=1), tmp_path / "run.nc", resume=True, progress=False)
    np.testing.assert_array_equal(made.rewards, again.rewards)


def test_a_finished_run_is_not_run_again_but_can_be_made_longer(tmp_path):
    path = tmp_path / "run.nc"
    short = mm.Gibbs(chains=2, draws=60, warmup=20, thin=1)
    blocks(short, path)
    written = path.stat().st_mtime_ns
    blocks(short, path, resume=True)
    assert path.stat().st_mtime_ns == written
    long = mm.Gibbs(chains=2, draws=90, warmup=20, thin=1)
    longer = blocks(long, path, resume=True)
    np.testing.assert_array_equal(longer.rewards, mm.fit(MODEL, FIELD, DATA, long, seed=3, progress=False).rewards)


def test_another_run_is_not_gone_on_with(tmp_path):
    path = tmp_path / "run.nc"
    blocks(mm.Gibbs(chains=2, draws=2, warmup=2, thin=1), path)
    other = {
        "model": mm.RewardPolicyModel(mm.BetaReward()),
        "environment": mm.worlds.GridWorld((2, 2), slip=0.1, discount=0.8),
        "table of choices": mm.simulate(FIELD, REWARDS, mm.Softmax(5.0), steps=20, seed=1),
        "method": mm.Gibbs(chains=2, draws=120, warmup=40, thin=2),
        "seed": 4,
    }
    method = mm.Gibbs(chains=2, draws=120, warmup=2, thin=1)
    given = {"model": MODEL, "environment": FIELD, "table of choices": DATA, "method": method, "seed": 3}

    def identity_with(**changed):
        *parts, seed = (given | changed).values()
        return identity_of(Run(*parts, seed=seed))

    for part, value in other.items():
        identity = identity_with(**{part: value})
        with pytest.raises(mm.errors.InputError, match=f"holds a different run, with another {part}"):
            earlier_run(path, identity)
    assert earlier_run(path, identity_with()) is not None


@pytest.mark.long
def test_one_bar_goes_on_over_all_blocks(tmp_path, monkeypatch):
    seen, expected = [], []
    monkeypatch.setattr(Report, "update", lambda report, done, note="": seen.append(report.before + done))
    monkeypatch.setattr(InParts, "expect", lambda bar, total: expected.append(total))
    method = mm.Gibbs(chains=2, draws=170, warmup=20, thin=1)
    with pytest.raises(Killed):
        blocks(method, tmp_path / "run.nc", every=0.0, on_checkpoint=killed_after(100))
    assert seen == sorted(seen)
    assert seen[-1] == 2 * (20 + 100)
    assert set(expected) == {2 * (20 + 170)}
    seen.clear()
    blocks(method, tmp_path / "run.nc", every=0.0, resume=True)
    assert seen == sorted(seen)
    assert seen[0] >= 2 * (20 + 100)  # from where the other run had stopped
    assert seen[-1] == 2 * (20 + 170)


# ---- a real process, really killed ---------------------------------------------------------------------------


def command(folder, draws, *options):
    """The words of a fit, after the program's name."""
    tables = ["fit", str(folder / "choices.csv"), "--environment", str(folder / "environment.csv")]
    settings = ["--method", "gibbs", "--chains", "2", "--warmup", "50", "--thin", "2", "--draws", str(draws)]
    return [*tables, *settings, "--out", str(folder / "run.nc"), *options]


def test_kill_9_leaves_a_checkpoint_and_resume_ends_with_the_same_draws(tmp_path):
    FIELD.to_frame().to_csv(tmp_path / "environment.csv", index=False)
    DATA.to_frame().to_csv(tmp_path / "choices.csv", index=False)
    path = tmp_path / "run.nc"
    program = [sys.executable, "-c", "from manymotives.cli import app; app()"]
    words = command(tmp_path, 100_000, "--checkpoint", "0")
    process = subprocess.Popen([*program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not path.exists():
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline, "no checkpoint came"
            time.sleep(0.02)
        time.sleep(0.1)  # somewhere in a later block, or while one is saved
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    halfway = mm.load(path)  # whole, whenever the signal came
    assert is_unfinished(halfway)
    made = halfway.rewards.sizes["draw"]
    assert 50 <= made < 100_000
    result = CliRunner().invoke(app, command(tmp_path, made + 60, "--resume", "--json"))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["draws"] == made + 60
    method = mm.Gibbs(chains=2, draws=made + 60, warmup=50, thin=2)
    environment = mm.io.read_environment(tmp_path / "environment.csv", discount=0.95)
    data = mm.io.read_demonstrations(
        tmp_path / "choices.csv", environment, episode="episode", step="step", next_state="next_state"
    )
    whole = mm.fit(MODEL, environment, data, method, seed=0, progress=False)
    np.testing.assert_array_equal(mm.load(path).rewards, whole.rewards)
    assert not list(tmp_path.glob(".*.tmp"))  # killed while it saved? The next to save has tidied up


# background jobs are started with Ctrl-C ignored, and so would be what they start
UNIGNORED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"


@pytest.fixture
def ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_where_nothing_can_be_raised_is_noted_and_not_reported(monkeypatch):
    """As in a callback of Python's garbage collector, where a KeyboardInterrupt would be printed and lost."""
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: reported.append(lost.exc_type))

    class Closing:
        def __init__(self, close):
            self.close = close

        def __del__(self):
            self.close()

    def stumble():
        raise ValueError("something else")

    with presses() as pressed:
        Closing(lambda: signal.raise_signal(signal.SIGINT))
        assert pressed.is_set()
        assert reported == []
        Closing(stumble)
        assert reported == [ValueError]
    Closing(lambda: signal.raise_signal(signal.SIGINT))
    assert reported == [ValueError, KeyboardInterrupt]


@pytest.mark.parametrize(
    "when", [pytest.param(when, marks=pytest.mark.long) for when in ("after a checkpoint", "before any")]
)
def test_ctrl_c_ends_with_a_sentence_and_the_last_checkpoint_or_nothing(when, tmp_path):
    FIELD.to_frame().to_csv(tmp_path / "environment.csv", index=False)
    DATA.to_frame().to_csv(tmp_path / "choices.csv", index=False)
    path = tmp_path / "run.nc"
    words = command(tmp_path, 100_000, "--checkpoint", "0")
    if when == "before any":
        words[words.index("--warmup") + 1] = "1000000"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{UNIGNORED}; from manymotives.cli import app; app()", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline().startswith("Columns: ")
        deadline = time.monotonic() + (120 if when == "after a checkpoint" else 5)
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in said
    last = said.strip().splitlines()[-1]
    assert {found.name for found in tmp_path.iterdir()} - {"run.nc"} == {"choices.csv", "environment.csv"}
    if when == "before any":
        assert last == "Stopped. Nothing was written."
        assert not path.exists()
    else:
        assert last == f"Interrupted. {path} holds the last checkpoint; --resume continues from it."
        assert is_unfinished(mm.load(path))
