"""The third room of the gallery of errors: scores, baselines, the paper's experiments, shared motives as shown."""

from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from unittest import mock

import numpy as np

import manymotives as mm
from error_gallery_data import CHAIN, CHAIN_DATA, ROOMS, in_file
from error_gallery_models import FEW, QUICK, fit
from manymotives.execution import runner
from manymotives.execution.store import opened
from manymotives.experiments import PANELS, reproduce
from manymotives.experiments.panel import jobs_of
from manymotives.scoring import Score

FIELD = mm.worlds.GridWorld((50, 41))
SILENT = mm.Demonstrations.from_lists([([0, 1], ["back"]), ([2], [])], CHAIN, tasks=["ann", "bob"])
FORWARD = mm.Demonstrations.from_lists([([0, 1, 2], ["forward"] * 3)], CHAIN)


def baseline(name, demonstrations=CHAIN_DATA, **options):
    return getattr(mm.baselines, name)(CHAIN, demonstrations, **options)


def shared():
    """The posterior of a model whose tasks share motives."""
    reward = mm.GaussianReward(mean=0.0, scale=1.0)
    method = mm.HMC(chains=1, draws=5, warmup=5, thin=1, max_rounds=1)
    return fit(mm.RewardPolicyModel(reward, mm.Softmax(2.0), mm.Mixture()), method)


def score(model=None, **options):
    return mm.score(model or mm.RewardPolicyModel(), CHAIN, CHAIN_DATA, progress=False, **options)


CORRIDOR = mm.Environment([[[0.0, 1.0]], [[1.0, 0.0]]], discount=0.9)  # there is only one thing to do
CORRIDOR_DATA = mm.Demonstrations.from_lists([([0, 1, 0, 1], [0, 0, 0, 0])] * 2, CORRIDOR)


def another_fit():
    return mm.fit(mm.RewardPolicyModel(), CHAIN, FORWARD, QUICK, progress=False)


def begun_elsewhere():
    """A store of results, gone on with by another version."""
    for version in ("1.0", "2.0"):
        with opened(Path("results.sqlite"), {"numpy": version}):
            pass


def dying_workers():
    class Deadly:
        def submit(self, *arguments):
            raise BrokenProcessPool

    jobs = jobs_of(PANELS["gain"], "population unknown", 2, seed=0)
    with runner.WorkerPool(Deadly()) as pool:
        runner.run_jobs(jobs, pool, print)


def nobody_there():
    with mock.patch.object(runner, "ANSWER", 0.3), runner.dask_cluster("tcp://127.0.0.1:9"):
        pass


COMPARISONS = {
    # ---- scores
    "holding out half": lambda: score(hold_out="half"),
    "holding out another past": lambda: score(hold_out=("tasks", "their past")),
    "episodes with their own past": lambda: score(hold_out=("episodes", "own past")),
    "one fold": lambda: score(hold_out=("episodes", 1)),
    "a score of nothing": lambda: score("MRP"),
    "a score by a word": lambda: score(method="hmc", beside=[]),
    "a score of no models": lambda: mm.score([], CHAIN, CHAIN_DATA),
    "a score without data": lambda: mm.score(mm.RewardPolicyModel()),
    "a score elsewhere": lambda: mm.score(mm.RewardPolicyModel(), CHAIN, ROOMS),
    "a score with a negative seed": lambda: score(seed=-1),
    "two models of one name": lambda: score([mm.RewardPolicyModel(), mm.RewardPolicyModel(mm.BetaReward())]),
    "a loner nobody knows": lambda: score(mm.RewardPolicyModel(sharing=mm.Separate()), hold_out="tasks"),
    "a score of one task, held out": lambda: mm.score(mm.RewardPolicyModel(), CHAIN, FORWARD, hold_out="tasks"),
    "a first that is none": lambda: score(hold_out=("tasks", -1)),
    "too few episodes": lambda: score(hold_out=("tasks", (0, 9))),
    "a single choice": lambda: mm.score(
        mm.RewardPolicyModel(), CHAIN, mm.Demonstrations.from_lists([([0], ["back"])], CHAIN)
    ),
    "no alternatives": lambda: mm.score(mm.RewardPolicyModel(), CORRIDOR, CORRIDOR_DATA, QUICK),
    "reweighting what was not fitted": lambda: score(method="psis"),
    "reweighting policies": lambda: mm.score(fit(mm.PolicyOptimalityModel(), FEW), method="psis"),
    "too few draws to weigh": lambda: mm.score(fit(mm.RewardPolicyModel()), method="psis", hold_out="tasks"),
    "runs of different data": lambda: mm.score({"one": fit(mm.RewardPolicyModel()), "other": another_fit()}),
    "an unknown model": lambda: score(mm.RewardPolicyModel(), method=QUICK, beside=()).against("luck"),
    "no score there": lambda: Score.load("nowhere.json"),
    "a file that is no score": lambda: Score.load(in_file("notes.json", b"[]")),
    # ---- baselines
    "a baseline of no environment": lambda: mm.baselines.imitation(CHAIN_DATA, CHAIN_DATA),
    "a baseline of no demonstrations": lambda: mm.baselines.imitation(CHAIN, CHAIN),
    "a baseline elsewhere": lambda: mm.baselines.imitation(ROOMS, CHAIN_DATA),
    "a seed in words": lambda: baseline("policy_walk", seed="one"),
    "nobody to imitate": lambda: baseline("imitation", SILENT),
    "intentions of the silent": lambda: baseline("multiple_intentions", SILENT),
    "choices taken away": lambda: baseline("imitation", smoothing=-1.0),
    "a game of no rounds": lambda: baseline("mwal", iterations=0),
    "a start for the wrong states": lambda: baseline("projection", start=[0.5, 0.5]),
    "a start nowhere": lambda: baseline("projection", start={"attic": 1.0}),
    "features of nothing known": lambda: baseline("mwal", on="tasks"),
    "features in words": lambda: baseline("mwal", features="many"),
    "features of other states": lambda: baseline("mwal", features=np.ones((4, 2))),
    "features of pairs": lambda: baseline("mwal", features=np.ones((3, 2, 1))),
    "infinite features": lambda: baseline("mwal", features=np.full((3, 1), np.inf)),
    "features that are all the same": lambda: baseline("mwal", features=np.ones((3, 1))),
    "more than the largest penalty": lambda: baseline("linear_program", penalty=2.0),
    "a path of no penalties": lambda: baseline("linear_program", penalty=[]),
    "a margin that cannot be had": lambda: baseline("linear_program", FORWARD, margin=3.0),
    "a prior of another kind": lambda: baseline("policy_walk", prior=mm.Normal(0.0, 1.0)),
    "a walk by another rule": lambda: baseline("policy_walk", choice=mm.Softmax(mm.Gamma(1.0, 1.0))),
    "a grid of one point": lambda: mm.baselines.UniformPrior(1.0, spacing=2.0),
    "a walk without end": lambda: baseline("policy_walk", prior=mm.baselines.LaplacianPrior(), normalised=False),
    "a walk on tasks": lambda: baseline("policy_walk", on="task"),
    "a prior without width": lambda: mm.baselines.UniformPrior(0.0),
    "a walk too long": lambda: mm.baselines.policy_walk(
        FIELD, mm.simulate(FIELD, np.ones(2050), mm.Softmax(1.0), steps=1)
    ),
    "a walk by another method": lambda: baseline("policy_walk", method=mm.Gibbs()),
    "more intentions than tasks": lambda: baseline("multiple_intentions", intentions=3),
    "intentions by a rule with lapses": lambda: baseline("multiple_intentions", choice=mm.Softmax(1.0, lapse=0.1)),
    "an environment that Gymnasium does not have": lambda: mm.io.from_gymnasium("Kitchen-v9", discount=0.9),
    # ---- the paper's experiments
    "a panel that is not there": lambda: reproduce(["figure 9"], out="run"),
    "a reading that is not there": lambda: reproduce(["tasks"], out="run", readings="rate 100"),
    "no workers": lambda: reproduce(out="run", workers=0),
    "no runs": lambda: reproduce(out="run", runs=0),
    "results begun with another version": begun_elsewhere,
    "results that are none": lambda: reproduce(
        ["gain"], out=Path(in_file("results.sqlite", b"not a database" * 99)).parent, runs=1
    ),
    "workers that die": dying_workers,
    "no scheduler": nobody_there,
    "workers that cannot be": lambda: runner.WorkerPool(2.5),
    # ---- motives that tasks share, shown
    "a picture of motives that nobody shares": lambda: mm.plots.together(fit(mm.RewardPolicyModel(), QUICK)),
    "a number of motives that nobody shares": lambda: mm.plots.number_of_motives(fit(mm.RewardPolicyModel(), QUICK)),
    "findings of motives that nobody shares": lambda: mm.findings.shared_motives(fit(mm.RewardPolicyModel(), QUICK)),
    "motives compared by task": lambda: shared().motives_table("task"),
    "motives at another level": lambda: shared().motives_table(level=95),
}
