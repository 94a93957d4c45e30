"""The paper's experiments: whoever computes them, however often they are killed, the same table; no false success."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import manymotives as mm
from manymotives.cli import app
from manymotives.execution.jobs import computed
from manymotives.execution.watch import Watch, spoken
from manymotives.experiments import PANELS, Claim, reproduce
from manymotives.experiments.panel import jobs_of
from manymotives.experiments.statistics import FAILS, HOLDS, UNDECIDED, effect_of
from tiny_panel import panel as tiny

HERE = Path(__file__).resolve().parent


def table(folder):
    """Everything but what depends on the clock."""
    curves = pd.read_csv(folder / "reproduction" / "curves.csv")
    return curves[curves["measure"] != "seconds"].reset_index(drop=True)


def same(first, second):
    pd.testing.assert_frame_equal(table(first), table(second), check_exact=True)


def in_threads(panels, out, **options):
    with ThreadPoolExecutor(1) as executor:
        return reproduce(panels, out=out, workers=executor, progress=False, **options)


def lines(path):
    return path.read_text().split() if path.exists() else []


# ---- one panel, two runs -----------------------------------------------------------------------------------------


@pytest.mark.long
def test_one_panel_from_the_command_line(tmp_path):
    out = tmp_path / "run"
    done = CliRunner().invoke(
        app, ["reproduce", "efficiency-1e4", "--runs", "2", "--workers", "1", "--out", str(out), "--json"]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["page"].endswith("reproduction.md")
    page = (out / "reproduction.md").read_text()
    claims = pd.read_csv(out / "reproduction" / "claims.csv")
    assert set(claims["panel"]) == {"efficiency-1e4"}
    assert (claims.loc[claims["runs_of"] == "all runs", "runs"] == 2).all()
    for sentence in set(claims["sentence"]):
        assert sentence in page
    for kind in ("png", "svg"):
        assert (out / "reproduction" / f"efficiency-1e4.{kind}").stat().st_size > 5000
    curves = table(out)
    assert np.isfinite(curves["mean"]).all()
    in_threads(["efficiency-1e4"], tmp_path / "again", runs=2)  # another kind of worker, the same numbers
    same(out, tmp_path / "again")


def test_workers_and_a_scheduler_are_too_many():
    done = CliRunner().invoke(app, ["reproduce", "--workers", "2", "--scheduler", "tcp://node1:8786"])
    assert done.exit_code == 2
    assert "--workers and --scheduler cannot be combined" in done.output


def test_the_page_names_the_command_that_makes_it(tmp_path):
    page = in_threads([tiny()], tmp_path, runs=2, seed=3).read_text()
    assert "Made by `manymotives reproduce tiny --runs 2 --seed 3` with seed 3;" in page


def test_every_panel_has_a_default_reading_notes_and_claims():
    assert list(PANELS) == ["samplers", "models", "gain", "efficiency-1e3", "efficiency-1e4", "temperature", "tasks"]
    for panel in PANELS.values():
        assert panel.runs == (100 if panel.name in ("temperature", "tasks") else 1000)
        assert set(panel.notes) == set(panel.readings)
        assert any(claim.kind == "paper" for claim in panel.claims)
        assert any(claim.kind == "control" for claim in panel.claims)
        assert len({claim.name for claim in panel.claims}) == len(panel.claims)


def test_the_page_in_the_documentation_is_a_page_of_today():
    template = (HERE.parent / "src" / "manymotives" / "experiments" / "page.md").read_text(encoding="utf-8")
    page = (HERE.parent / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert page.startswith(template.rstrip())
    for panel in PANELS.values():
        for claim in panel.claims:
            assert claim.sentence in page


# ---- no false success ----------------------------------------------------------------------------------------------


def test_weights_sum_to_one_where_likelihoods_underflow():
    chain = mm.worlds.Chain()
    shown = mm.simulate(chain, chain.reward, mm.worlds.ModelBasedLearner(), steps=10_000, seed=1)
    with np.errstate(all="ignore"):  # the diagnosis of weights that have collapsed
        posterior = mm.fit(mm.RewardPolicyModel(), chain, shown, mm.MonteCarlo(draws=100), seed=0, progress=False)
    log_weight = posterior.data["sample_stats"]["log_weight"].values[:, 0]
    assert np.exp(log_weight).sum() == 0.0  # what the authors' code would divide by
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert weight.sum() == pytest.approx(1.0, abs=1e-12)
    assert float(posterior.mean_reward.sum()) == pytest.approx(1.0, abs=1e-12)  # a mean of rewards that sum to one
    optimal = mm.fit(
        mm.PolicyOptimalityModel(),
        chain,
        shown,
        mm.OptimalityMonteCarlo(draws=20, num_rewards=50),
        seed=0,
        progress=False,
    )
    np.testing.assert_allclose(optimal.weights.sum("candidate"), 1.0, atol=1e-12)


def test_a_zero_mean_reward_cannot_win_by_tie_breaking():
    chain = mm.worlds.Chain()
    nothing = mm.plan(chain, np.zeros(5)).policy
    lost = mm.loss(chain, nothing, chain.reward)
    blind = mm.loss(chain, np.full((5, 2), 0.5), chain.reward)
    assert lost > blind > 1.0  # ties go to action 0, which is "back": worse than not looking
    forward = mm.loss(chain, np.tile([0.0, 1.0], (5, 1)), chain.reward)
    assert forward < 1e-9  # the negative control: had action 0 been "forward", nothing would have won everything


def test_underflow_is_switched_on_where_it_happens(tmp_path):
    """The artefact's curves differ from MRP-MC's exactly where all weights underflow."""
    job = jobs_of(PANELS["efficiency-1e4"], "all steps", 1, seed=0)[0]
    with np.errstate(all="ignore"):
        row = job.function(job.setting, job.random_seed)
    back, forward = "MRP-MC, weights underflow, ties go back", "MRP-MC, weights underflow, ties go forward"
    assert row["underflowed/MRP-MC/10"] == 1.0
    assert row[f"loss/{back}/10"] > row["loss/blind/0"] > 1.0
    assert row[f"loss/{forward}/10"] < 1e-9
    for x in (10, 100, 1000, 10_000):
        if not row[f"underflowed/MRP-MC/{x}"]:
            assert row[f"loss/{back}/{x}"] == row[f"loss/{forward}/{x}"] == row[f"loss/MRP-MC/{x}"]


@pytest.mark.parametrize("name", ["models", "gain"])
def test_panels_run(name):
    job = jobs_of(PANELS[name], PANELS[name].default, 1, seed=0)[0]
    numbers, _ = computed(job)
    curves = pd.read_csv(HERE.parent / "docs" / "reproduction" / "curves.csv")
    assert {text.rsplit("/", 1)[0] for text in numbers} == set(
        (curves["measure"] + "/" + curves["series"])[curves["panel"] == name]
    )


def test_a_number_that_is_not_finite_is_an_error(tmp_path):
    with pytest.raises(ArithmeticError, match="loss/ours/1"):
        in_threads([tiny(mean=float("nan"))], tmp_path)


# ---- effects -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known():
    """Names of all numbers of a run, by panel, as the page in the documentation has them."""
    curves = pd.read_csv(HERE.parent / "docs" / "reproduction" / "curves.csv")
    names = curves["measure"] + "/" + curves["series"] + "/" + curves["x"].map("{:g}".format)
    return names.groupby(curves["panel"]).unique()


def row_of(known, panel, rng):
    own = {name: rng.uniform(1.0, 2.0) for name in known[panel.name]}
    beside = {
        f"{other}:{name}": rng.uniform(1.0, 2.0)
        for claim in panel.claims
        for other in claim.beside
        for name in known[other]
    }
    return own | beside


@pytest.mark.parametrize("panel", PANELS.values(), ids=list(PANELS))
def test_every_claim_looks_at_what_it_says(panel, known):
    rng = np.random.default_rng(0)
    row, other = row_of(known, panel, rng), row_of(known, panel, rng)
    for claim in panel.claims:
        effect = claim.effect(row)
        assert effect not in (0.0, claim.effect(other))
        if claim.unit == "log ratio":
            continue
        assert claim.effect({name: 2.0 * value for name, value in row.items()}) == pytest.approx(2.0 * effect)
        both = {name: row[name] + other[name] for name in row}  # effects are linear: differences, slopes
        assert claim.effect(both) == pytest.approx(effect + claim.effect(other))


def claim(panel, name):
    return next(each for each in PANELS[panel].claims if each.name == name).effect


def test_effects_by_hand(known):
    rng = np.random.default_rng(1)
    row = row_of(known, PANELS["efficiency-1e4"], rng)
    better = [row[f"loss/MRP-MC/{x}"] - row[f"loss/MPO-MC/{x}"] for x in (10, 100, 1000, 10000)]
    assert claim("efficiency-1e4", "MPO-MC is more efficient than MRP-MC")(row) == pytest.approx(np.mean(better))
    imitator = [row["loss/Imit/0"] - row[f"loss/MRP-MC/{x}"] for x in (10, 100, 1000, 10000)]
    assert claim("efficiency-1e4", "MRP-MC is better than the imitator")(row) == pytest.approx(np.mean(imitator))
    row = row_of(known, PANELS["tasks"], rng)
    sizes = (1, 5, 20, 40)
    gap = [row[f"loss/RP-MH/{size}"] - row[f"loss/MRP-MH/{size}"] for size in sizes]
    line = np.polyfit(np.log10(sizes), gap, 1)[0]
    assert claim("tasks", "the improvement over RP-MH increases")(row) == pytest.approx(line)
    row = row_of(known, PANELS["temperature"], rng)
    gap = [row[f"loss/soft/{c}"] - row[f"loss/RP-MH/{c}"] for c in (2, 4, 6, 8)]
    assert claim("temperature", "RP-MH outperforms the demonstrator")(row) == pytest.approx(np.mean(gap))


# ---- verdicts ------------------------------------------------------------------------------------------------------


def verdict(values):
    claim = Claim("", "", "", lambda row: row["x"])
    return effect_of(claim, [{"x": float(value)} for value in values]).verdict


def test_verdicts():
    noise = np.random.default_rng(0).normal(size=1000)
    assert verdict(noise + 0.5) == HOLDS
    assert verdict(noise - 0.5) == FAILS
    assert verdict(noise) == UNDECIDED
    assert verdict([1.0]) == verdict([1.0, 1.1]) == UNDECIDED  # two runs decide nothing
    assert verdict(np.zeros(1000)) == FAILS  # no difference in a thousand runs: nothing is better
    assert verdict(np.full(1000, 1e-15)) == FAILS  # nor is rounding
    assert verdict(np.zeros(3)) == UNDECIDED


def test_a_claim_without_truth_hardly_ever_holds():
    """At 99.9 % a true null comes out as a verdict once in a thousand; skewed and heavy-tailed as losses are."""
    rng = np.random.default_rng(1)
    looks = 1000
    found = [verdict(values) for values in rng.exponential(size=(looks, 200)) - rng.exponential(size=(looks, 200))]
    decided = sum(each != UNDECIDED for each in found)
    assert decided <= 8  # expected 1; P(more than 8) < 2e-6


def test_what_is_left_is_guessed_panel_by_panel():
    quick, slow = (jobs_of(PANELS[name], PANELS[name].default, 4, seed=0) for name in ("gain", "tasks"))
    watch = Watch(quick + slow, total=10, workers=2, shown=False)
    assert watch.done == 2
    assert watch.seconds_left() == pytest.approx((4 * PANELS["gain"].seconds + 4 * PANELS["tasks"].seconds) / 2)
    watch.finished(slow[0], 30.0)
    assert watch.seconds_left() == pytest.approx((4 * PANELS["gain"].seconds + 3 * 30.0) / 2)
    assert [spoken(seconds) for seconds in (12.0, 600.0, 9000.0)] == ["12 s", "10 min", "2 h 30 min"]


# ---- killed, and gone on with ----------------------------------------------------------------------------------------


def test_nothing_is_computed_twice_or_counted_twice(tmp_path):
    log = tmp_path / "log"
    for runs in (3, 5, 5):
        in_threads([tiny(log=str(log))], tmp_path / "run", runs=runs)
    assert len(lines(log)) == len(set(lines(log))) == 5
    assert set(table(tmp_path / "run")["runs"]) == {5}
    in_threads([tiny(log=str(log), mean=1.0)], tmp_path / "run", runs=2)  # other settings: other units
    assert len(lines(log)) == 7
    assert set(table(tmp_path / "run")["runs"]) == {2}


@pytest.mark.long
def test_a_worker_that_dies_loses_nothing(tmp_path):
    fatal, log = tmp_path / "fatal", tmp_path / "log"
    fatal.touch()
    reproduce([tiny(fatal=str(fatal), log=str(log))], out=tmp_path / "killed", runs=8, workers=1, progress=False)
    assert not fatal.exists()  # somebody did die of it
    in_threads([tiny(fatal=str(fatal), log=str(log))], tmp_path / "whole", runs=8)
    same(tmp_path / "killed", tmp_path / "whole")
    assert len(set(lines(log))) == 8


SCRIPT = """
import sys
from concurrent.futures import ThreadPoolExecutor
from manymotives.experiments import reproduce
from tiny_panel import panel
if __name__ == "__main__":
    who = {who}
    reproduce([panel(pause=0.1, log={log!r})], out={out!r}, runs=12, progress=False, **who)
"""


def killed_and_restarted(tmp_path, who, again):
    log, out, script = tmp_path / "log", tmp_path / "run", tmp_path / "script.py"
    script.write_text(SCRIPT.format(who=who, log=str(log), out=str(out)))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    with subprocess.Popen([sys.executable, script], env=environment) as run:
        deadline = time.monotonic() + 120
        while len(lines(log)) < 4 and time.monotonic() < deadline:
            time.sleep(0.02)
        run.send_signal(signal.SIGKILL)
    with sqlite3.connect(out / "results.sqlite") as store:
        stored = store.execute("SELECT COUNT(*) FROM units").fetchone()[0]
    store.close()
    assert 0 < stored < 12
    time.sleep(1.5)  # workers whose parent is gone end by themselves
    before = len(lines(log))
    time.sleep(0.5)
    assert len(lines(log)) == before
    again([tiny(pause=0.1, log=str(log))], out=out, runs=12)
    assert len(lines(log)) <= before + 12 - stored  # what was stored was not computed again
    in_threads([tiny(pause=0.0)], tmp_path / "whole", runs=12)
    curves = table(out)
    pd.testing.assert_frame_equal(curves, table(tmp_path / "whole"), check_exact=True)
    assert set(curves["runs"]) == {12}


@pytest.mark.long
def test_kill_9_and_restart_give_the_same_table(tmp_path):
    killed_and_restarted(tmp_path, "{'workers': ThreadPoolExecutor(1)}", in_threads)


@pytest.mark.long
def test_kill_9_with_worker_processes(tmp_path):
    killed_and_restarted(tmp_path, "{'workers': 2}", partial(reproduce, workers=2, progress=False))


# ---- a cluster -------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_gives_the_same_numbers(tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        reproduce([tiny()], out=tmp_path / "dask", runs=6, workers=cluster.scheduler_address, progress=False)
    in_threads([tiny()], tmp_path / "alone", runs=6)
    same(tmp_path / "dask", tmp_path / "alone")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_dask_worker_that_dies_loses_nothing(tmp_path):
    distributed = pytest.importorskip("distributed")
    fatal = tmp_path / "fatal"
    fatal.touch()
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with distributed.Client(cluster, set_as_default=False) as client:
            client.run(sys.path.insert, 0, str(HERE))
        there = {"workers": cluster.scheduler_address, "progress": False}
        reproduce([tiny(fatal=str(fatal))], out=tmp_path / "dask", runs=12, **there)
        reproduce(["gain"], out=tmp_path / "dask gain", runs=2, **there)
    assert not fatal.exists()
    in_threads([tiny(fatal=str(fatal))], tmp_path / "alone", runs=12)
    same(tmp_path / "dask", tmp_path / "alone")
    in_threads(["gain"], tmp_path / "alone gain", runs=2)
    same(tmp_path / "dask gain", tmp_path / "alone gain")
