"""Many computations at once: the same numbers whoever computes them, nothing computed twice."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import manymotives as mm
from manymotives.execution import Job, WorkerPool, compute, fingerprint_of, random_seed
from manymotives.planning.problem import cores

CHAIN = mm.worlds.Chain(states=3, slip=0.2, discount=0.9)
MODEL = mm.RewardPolicyModel(reward=mm.DirichletReward(), choice=mm.Softmax(inverse_temperature=5.0))
QUICK = mm.Metropolis(chains=2, draws=20, warmup=20)
COMPUTED = []


@dataclass(frozen=True)
class Setting:
    size: int = 3


def drawn(setting, seed):
    COMPUTED.append(seed)
    rng = np.random.default_rng(seed)
    return {"mean": rng.normal(size=setting.size).mean(), "cores": cores()}


SMALL = Setting()


def jobs(count, setting=SMALL, seed=0):
    unit = ("test", "cell", fingerprint_of(setting))
    return [Job(*unit, run, seed, drawn, setting, random_seed(seed, "test", run)) for run in range(count)]


def test_threads_processes_and_any_executor_give_the_same_numbers():
    here = compute(jobs(6), progress=False)
    with ThreadPoolExecutor(3) as threads:
        assert compute(jobs(6), executor=threads, progress=False) == here
    with WorkerPool(1) as pool:
        assert compute(jobs(6), executor=pool, progress=False) == here
        assert compute(jobs(3, seed=1), executor=pool, progress=False) != here  # the same processes, other jobs
    assert {numbers["cores"] for numbers in here.values()} == {1.0}  # a worker is one core's work
    assert list(here) == [job.unit for job in jobs(6)]


def test_what_is_stored_is_not_computed_again(tmp_path):
    path = tmp_path / "sub" / "results.sqlite"
    first = compute(jobs(4), store=path, progress=False)
    COMPUTED.clear()
    again = compute(jobs(6), store=path, progress=False)
    assert len(COMPUTED) == 2
    assert {unit: again[unit] for unit in first} == first
    COMPUTED.clear()
    compute(jobs(2, Setting(size=4)), store=path, progress=False)  # other settings are other units
    assert len(COMPUTED) == 2
    with closing(sqlite3.connect(path)) as store:
        assert store.execute("SELECT COUNT(*) FROM units").fetchone()[0] == 8


def test_fingerprints_see_every_part():
    other = mm.worlds.Chain(states=3, slip=0.21, discount=0.9)
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": ["a", "b"]})
    things = [
        *(1, 1.0, True, "1", None, (1, 2), ((1,), 2), [1, 2], {"a": 1}, {"b": 1}, np.arange(3), np.arange(3.0)),
        *(np.arange(4).reshape(2, 2), sp.csr_array(np.eye(2)), sp.csr_array(2 * np.eye(2)), frame, frame * 2),
        *(
            MODEL,
            replace(MODEL, sharing=mm.Pooled()),
            CHAIN,
            other,
            CHAIN.with_discount(0.5),
            QUICK,
            mm.HMC(),
            fingerprint_of,
        ),
    ]
    marks = [fingerprint_of(thing) for thing in things]
    assert len(set(marks)) == len(marks)
    again = mm.worlds.Chain(states=3, slip=0.2, discount=0.9)
    assert fingerprint_of(again) == fingerprint_of(CHAIN)


def test_calibration_by_workers_resumes(tmp_path):
    options = {"method": QUICK, "tasks": 2, "steps": 5, "progress": False}
    here = mm.calibrate(MODEL, CHAIN, seeds=range(4), **options)
    store = tmp_path / "ranks.sqlite"
    mm.calibrate(MODEL, CHAIN, seeds=range(2), store=store, **options)
    with ThreadPoolExecutor(1) as executor:
        there = mm.calibrate(MODEL, CHAIN, seeds=range(4), executor=executor, store=store, **options)
    pd.testing.assert_frame_equal(here.ranks, there.ranks, check_exact=True)


@pytest.mark.parametrize("hold_out", ["episodes", pytest.param("tasks", marks=pytest.mark.long)])
def test_scores_by_workers_are_the_same(tmp_path, hold_out):
    shown = mm.simulate(CHAIN, np.eye(3), mm.Softmax(5.0), steps=10, episodes=3, seed=0)
    models = {"one": MODEL, "all": replace(MODEL, sharing=mm.Pooled())}
    options = {"method": QUICK, "hold_out": hold_out, "beside": [], "progress": False}
    here = mm.score(models, CHAIN, shown, **options)
    with ThreadPoolExecutor(2) as executor:
        there = mm.score(models, CHAIN, shown, executor=executor, store=tmp_path / "store.sqlite", **options)
    again = mm.score(models, CHAIN, shown, store=tmp_path / "store.sqlite", **options)
    for other in (there, again):
        assert other.to_dict() == here.to_dict()


def test_recovery_of_several_experiments():
    options = {"tasks": 2, "steps": 5, "method": QUICK, "progress": False}
    found = mm.recover(MODEL, CHAIN, replications=3, seed=4, **options)
    assert list(found.replications.index) == [4, 5, 6]
    alone = mm.recover(MODEL, CHAIN, seed=5, **options)
    assert found.replications.loc[5, "coverage"] == alone.coverage
    assert found.replications.loc[4, "coverage"] == found.coverage
    assert "over 3 experiments" in repr(found)
