"""Every message a bad input can cause, word for word, in error_messages.txt: read it aloud.

Each names the thing, the place, what was found and, where it is not plain, what to do.
"""

import json
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import h5py
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xarray as xr
from scipy import stats

import manymotives as mm
from manymotives.experiments import PANELS, reproduce, runner
from manymotives.experiments.panel import jobs_of
from manymotives.experiments.store import opened
from manymotives.io.records import record_of
from manymotives.posterior.archive import packed_state, unpacked_state
from manymotives.posterior.feature_weights import population_weights
from manymotives.scoring import Score

CHAIN = mm.worlds.Chain(states=3)
ROOMS = mm.Environment(
    [[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]],
    discount=0.9,
    states=["hall", "kitchen", "garden"],
    actions=["on", "back"],
    available=[[True, False], [True, True], [False, False]],
    terminal=["garden"],
)
LETTERED = mm.worlds.Labyrinth(levels=1)  # its states are named "0", "1", …, "home"
ROWS = [[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.3, 0.7]]]  # a good 2 × 2 environment


def spoilt(state, action, row):
    rows = np.array(ROWS)
    rows[state, action] = row
    return rows


def table(**columns):
    good = {
        "state": ["a", "a", "b"],
        "action": ["x", "x", "x"],
        "next_state": ["a", "b", "a"],
        "probability": [0.5, 0.5, 1.0],
    }
    return pd.DataFrame(good | columns)


def choices(**columns):
    good = {"task": ["ann", "ann", "bob"], "state": ["hall", "kitchen", "hall"], "action": ["on", "back", "on"]}
    return pd.DataFrame(good | columns)


def read(frame, environment=ROOMS, **columns):
    return mm.Demonstrations.from_frame(frame, environment, **columns)


def in_file(name, content):
    """A file with this content, in the folder where the test runs."""
    Path(name).write_bytes(content)
    return name


class Trajectory(NamedTuple):
    """What `imitation` calls one, as far as it is read."""

    obs: Any
    acts: Any


CONTINUOUS = SimpleNamespace(dataset_id="hopper", observation_space="Box(11)", action_space="Box(3)")
CHAIN_DATA = mm.simulate(CHAIN, np.ones((2, 3)), mm.Softmax(1.0), steps=5, tasks=["ann", "bob"])
IMPOSSIBLE = mm.RewardPolicyModel(mm.GaussianReward(mean=0.0, scale=1e6), mm.Softmax(1e308))
QUICK = mm.Metropolis(chains=1, draws=5, warmup=5, thin=1)
FEW = mm.OptimalityMonteCarlo(draws=20)


VAGUE = mm.DynamicsBelief.around(CHAIN, 3.0)
WIDE = mm.DynamicsBelief(sp.csr_array(sp.eye_array(500)), discount=0.9, possible=sp.eye_array(500))
FIELD = mm.worlds.GridWorld((50, 41))
SILENT = mm.Demonstrations.from_lists([([0, 1], ["back"]), ([2], [])], CHAIN, tasks=["ann", "bob"])
FORWARD = mm.Demonstrations.from_lists([([0, 1, 2], ["forward"] * 3)], CHAIN)


def baseline(name, demonstrations=CHAIN_DATA, **options):
    return getattr(mm.baselines, name)(CHAIN, demonstrations, **options)


FITTED = {}


def fit(model, method=QUICK, **options):
    """The same posterior for the same model and method: nobody changes it."""
    key = repr((model, method, options))
    if key not in FITTED:
        FITTED[key] = mm.fit(model, CHAIN, CHAIN_DATA, method, progress=False, **options)
    return FITTED[key]


def weighed(sharing=None):
    """The posterior of a model with features."""
    reward = mm.GaussianReward(features=[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], names=["food", "noise"])
    return fit(mm.RewardPolicyModel(reward, sharing=sharing or mm.Hierarchical()))


def old_file(name):
    """A posterior as it was saved before files held the choices."""
    data = fit(mm.RewardPolicyModel()).data
    data.drop_nodes("demonstrations").to_netcdf(name, engine="h5netcdf")
    return name


def harmed(name, harm):
    """A run file as somebody left it who did not know better, or did; without a checksum, unless it is damaged."""
    posterior = fit(mm.RewardPolicyModel())
    posterior.save(name)
    if harm is None:
        content = bytearray(Path(name).read_bytes())
        content[len(content) // 2] ^= 1
        return in_file(name, content)
    if harm != "note":
        posterior.data.to_netcdf(name, engine="h5netcdf")
    with h5py.File(name, "r+") as file:
        if harm == "note":
            file.attrs["note"] = "a good run"
        elif harm == "huge":
            del file["prior/reward"]
            file.create_dataset("prior/reward", (10**13,), dtype="f8").dims[0].attach_scale(file["prior/chain"])
        elif harm == "external":
            del file["prior/reward"]
            made = file.create_dataset("prior/reward", (3,), dtype="f8", external=[("other.bin", 0, 24)])
            made.dims[0].attach_scale(file["prior/chain"])
        elif harm == "link":
            file["prior/other"] = h5py.SoftLink("/posterior/reward")
        elif harm == "model":
            file.attrs["model"] = json.dumps(record_of(mm.PolicyOptimalityModel()))
        elif harm == "settings":
            file.attrs["model"] = json.dumps(record_of(mm.RewardPolicyModel()) | {"mood": 7})
        elif harm == "missing":
            file.move("posterior/reward", "posterior/rewards")
        else:
            file["posterior/reward"][0, 0, 0, 0] = np.nan
    return name


def lost():
    """A posterior whose sampler stands where this model cannot be."""
    posterior = fit(mm.RewardPolicyModel())
    state = unpacked_state(posterior.data["sampler"].dataset)
    data = posterior.data.copy()
    data["sampler"] = xr.DataTree(packed_state(state | {"tasks": state["tasks"][:, :, :1]}))
    return replace(posterior, data=data)


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
    runner.run_jobs(jobs, lambda: nullcontext(Deadly()), 1, print)


def nobody_there():
    with mock.patch.object(runner, "ANSWER", 0.3), runner.dask_cluster("tcp://127.0.0.1:9"):
        pass


def belief(counts: Any = None, **given: Any) -> mm.DynamicsBelief:
    nothing = np.zeros((3, 2, 3))
    return mm.DynamicsBelief(nothing if counts is None else counts, discount=0.9, actions=CHAIN.actions, **given)


GALLERY = {
    # ---- environments
    "transitions of the wrong shape": lambda: mm.Environment(np.ones((2, 3)), discount=0.9),
    "transitions with more next states than states": lambda: mm.Environment(np.ones((2, 2, 3)), discount=0.9),
    "sparse transitions of the wrong shape": lambda: mm.Environment(sp.csr_array(np.ones((5, 2))), discount=0.9),
    "a row that does not sum to one": lambda: mm.Environment(
        spoilt(1, 0, [0.9, 0.07]), discount=0.9, states=["hall", "kitchen"], actions=["left", "right"]
    ),
    "a sparse row that does not sum to one": lambda: mm.Environment(
        sp.csr_array(spoilt(1, 0, [0.9, 0.07]).reshape(4, 2)), discount=0.9
    ),
    "an empty row": lambda: mm.Environment(spoilt(0, 1, [0.0, 0.0]), discount=0.9),
    "a negative probability": lambda: mm.Environment(spoilt(0, 1, [-0.5, 1.5]), discount=0.9),
    "a probability that is not a number": lambda: mm.Environment(spoilt(0, 0, [np.nan, 1.0]), discount=0.9),
    "a discount of one": lambda: mm.Environment(ROWS, discount=1.0),
    "a state without actions": lambda: mm.Environment(ROWS, discount=0.9, available=[[True, True], [False, False]]),
    "availability of the wrong shape": lambda: mm.Environment(ROWS, discount=0.9, available=[True, False]),
    "too few names": lambda: mm.Environment(ROWS, discount=0.9, states=["hall"]),
    "a name used twice": lambda: mm.Environment(ROWS, discount=0.9, actions=["left", "left"]),
    "an unknown terminal state": lambda: mm.Environment(
        ROWS, discount=0.9, states=["hall", "kitchen"], terminal=["kitschen"]
    ),
    "nothing but terminal states": lambda: mm.Environment(ROWS, discount=0.9, terminal=[0, 1]),
    "a start of the wrong length": lambda: mm.Environment(ROWS, discount=0.9, start=[1.0]),
    "a start that does not sum to one": lambda: mm.Environment(ROWS, discount=0.9, start=[0.5, 0.4]),
    "a negative start": lambda: mm.Environment(ROWS, discount=0.9, start=[1.5, -0.5]),
    "a start in an unknown state": lambda: mm.Environment(ROWS, discount=0.9, start={7: 1.0}),
    "an own reward of the wrong shape": lambda: mm.Environment(ROWS, discount=0.9, reward=[1.0, 2.0, 3.0]),
    "an own reward that is not finite": lambda: mm.Environment(ROWS, discount=0.9, reward=[1.0, np.inf]),
    "coordinates of the wrong shape": lambda: mm.Environment(ROWS, discount=0.9).with_coordinates([1.0, 2.0]),
    "a state without a place": lambda: mm.worlds.Chain(states=2).with_coordinates({0: (0.0, 0.0)}),
    # ---- environment tables
    "not a table": lambda: mm.Environment.from_frame([1, 2], discount=0.9),
    "a missing column": lambda: mm.Environment.from_frame(table().drop(columns="probability"), discount=0.9),
    "an empty table": lambda: mm.Environment.from_frame(table().head(0), discount=0.9),
    "a hole in the table": lambda: mm.Environment.from_frame(table(next_state=["a", None, "a"]), discount=0.9),
    "a probability in words": lambda: mm.Environment.from_frame(table(probability=[0.5, "half", 1.0]), discount=0.9),
    "the same move twice": lambda: mm.Environment.from_frame(table(next_state=["a", "a", "a"]), discount=0.9),
    "a state only arrived at": lambda: mm.Environment.from_frame(table(next_state=["a", "c", "a"]), discount=0.9),
    "only terminal states": lambda: mm.Environment.from_frame(
        table(action=None, next_state=None, probability=None), discount=0.9
    ),
    "memory where there is none": lambda: read(choices()).with_memory(ROOMS),
    # ---- demonstrations
    "an unknown state": lambda: read(choices(state=["hall", "kitchn", "attic"])),
    "names of another type": lambda: read(pd.DataFrame({"task": 1, "state": [0], "action": ["back"]}), LETTERED),
    "an unknown action": lambda: read(choices(action=["on", "bakc", "on"])),
    "an action that does not exist there": lambda: read(choices(action=["back", "back", "on"])),
    "an action in a terminal state": lambda: read(choices(state=["hall", "garden", "hall"])),
    "the same step twice": lambda: read(choices(step=[4, 4, 4]), step="step"),
    "no such column": lambda: read(choices(), step="trial"),
    "a row without a task": lambda: read(choices(task=["ann", None, "bob"])),
    "steps in words": lambda: read(choices(step=["first", "second", "third"]), step="step"),
    "a next state that does not come next": lambda: read(choices(then=["hall", "hall", "kitchen"]), next_state="then"),
    "nothing chosen": lambda: read(choices(action=[None, None, None])),
    "no trajectories": lambda: mm.Demonstrations.from_lists([], ROOMS),
    "too few actions": lambda: mm.Demonstrations.from_lists([(["hall", "kitchen", "hall"], ["on"])], ROOMS),
    "too few tasks": lambda: mm.Demonstrations.from_lists([(["hall"], ["on"])], ROOMS, tasks=["ann", "bob"]),
    "counts of an unknown task": lambda: read(choices()).transition_counts("eve"),
    # ---- files
    "no file": lambda: mm.io.read_demonstrations("nowhere.csv"),
    "an empty file": lambda: mm.io.read_demonstrations(in_file("empty.csv", b"")),
    "another kind of file": lambda: mm.io.read_environment(in_file("choices.docx", b"x"), discount=0.9),
    "a file with a heading only": lambda: mm.io.read_demonstrations(in_file("head.csv", b"task,state,action\n")),
    "a file in Latin-1": lambda: mm.io.read_demonstrations(in_file("latin.csv", b"task,state,action\n1,caf\xe9,x\n")),
    "a broken Parquet file": lambda: mm.io.read_demonstrations(in_file("broken.parquet", b"PAR1 no")),
    # ---- planning
    "what choices can show of no environment": lambda: mm.identifiability([[1.0]]),
    "what choices can show of something else": lambda: mm.identifiability(CHAIN, on="states"),
    "what choices can show of features elsewhere": lambda: mm.identifiability(CHAIN, features=np.ones((4, 2))),
    "what choices can show of features in words": lambda: mm.identifiability(CHAIN, features=[["a"], ["b"], ["c"]]),
    "what choices can show from states elsewhere": lambda: mm.identifiability(CHAIN, visited=[1, 2]),
    "weights that no choice can show, of no features": lambda: mm.identifiability(CHAIN).weights,
    "rewards of the wrong shape": lambda: mm.plan(CHAIN, [1.0, 2.0]),
    "rewards on pairs, not said so": lambda: mm.plan(CHAIN, np.ones((3, 2))),
    "rewards on something else": lambda: mm.plan(CHAIN, np.ones(3), on="states"),
    "a reward that is not finite": lambda: mm.plan(CHAIN, [0.0, np.nan, 1.0]),
    "rewards in words": lambda: mm.plan(CHAIN, ["a", "b", "c"]),
    "rewards in half precision": lambda: mm.plan(CHAIN, jnp.ones(3, jnp.float16)),
    "a start that does not fit": lambda: mm.plan(CHAIN, np.ones((2, 3)), start=np.zeros((4, 3), int)),
    "a negative inverse temperature in JAX": lambda: mm.plan(CHAIN, np.ones(3), inverse_temperature=jnp.asarray(-2.0)),
    "a zero inverse temperature": lambda: mm.plan(CHAIN, np.ones(3), inverse_temperature=0.0),
    "inverse temperatures that do not fit": lambda: mm.plan(
        CHAIN, np.ones((2, 3)), inverse_temperature=[1.0, 2.0, 3.0]
    ),
    "a start that holds no actions": lambda: mm.plan(CHAIN, np.ones(3), start=[0.5, 0.5, 0.5]),
    "a start with an action too many": lambda: mm.plan(CHAIN, np.ones(3), start=[0, 1, 2]),
    "a start with an action that does not exist": lambda: mm.plan(ROOMS, np.ones(3), start=[1, 0, 0]),
    "a policy of the wrong shape": lambda: mm.evaluate(CHAIN, np.ones((2, 2)), np.ones(3)),
    "a policy that does not sum to one": lambda: mm.evaluate(CHAIN, np.full((3, 2), 0.4), np.ones(3)),
    "a policy that plays what does not exist": lambda: mm.evaluate(ROOMS, np.full((3, 2), 0.5), np.ones(3)),
    "policies and rewards that do not fit": lambda: mm.evaluate(CHAIN, np.full((4, 3, 2), 0.5), jnp.ones((5, 3))),
    # ---- decisions where transitions are not known
    "a soft plan under a belief": lambda: mm.plan(VAGUE, np.ones(3), inverse_temperature=2.0),
    "a plan under a belief that begins somewhere": lambda: mm.plan(VAGUE, np.ones(3), start=[0, 0, 0]),
    "a plan under a belief in JAX": lambda: mm.plan(VAGUE, jnp.ones(3)),
    "no environments to plan with": lambda: mm.plan(VAGUE, np.ones(3), environments=0),
    "environments to plan with in words": lambda: mm.plan(VAGUE, np.ones(3), environments="many"),
    "a seed that is none": lambda: mm.plan(VAGUE, np.ones(3), seed=-1),
    "environments to draw where one is known": lambda: mm.plan(CHAIN, np.ones(3), environments=10),
    "more environments than memory": lambda: mm.plan(WIDE, np.ones(500), environments=1000),
    "a plan in something else": lambda: mm.plan("chain", np.ones(3)),
    "the value of a policy under a belief": lambda: mm.evaluate(VAGUE, np.full((3, 2), 0.5), np.ones(3)),
    "losses under a belief in JAX": lambda: mm.loss_matrix(VAGUE, jnp.full((1, 3, 2), 0.5), np.ones((1, 3))),
    "losses where an environment is known": lambda: mm.loss_matrix(
        CHAIN, np.full((1, 3, 2), 0.5), np.ones((1, 3)), environments=3
    ),
    "a method without environments": lambda: mm.OptimalityMonteCarlo(environments=0),
    "a belief on an accelerator": lambda: mm.fit(
        mm.PolicyOptimalityModel(), VAGUE, CHAIN_DATA, mm.OptimalityMonteCarlo(device="gpu"), progress=False
    ),
    # ---- worlds and demonstrators
    "a negative temperature": lambda: mm.Softmax(-1.0),
    "a soft-optimal agent without temperature": lambda: mm.SoftOptimal(0.0),
    "no steps": lambda: mm.simulate(CHAIN, np.ones(3), mm.Softmax(1.0), steps=0),
    "no tasks": lambda: mm.simulate(CHAIN, np.ones((0, 3)), mm.Softmax(1.0), steps=5),
    "too many axes": lambda: mm.simulate(CHAIN, np.ones((2, 2, 3)), mm.Softmax(1.0), steps=5),
    "a chain of one": lambda: mm.worlds.Chain(states=1),
    "a slip above one": lambda: mm.worlds.GridWorld((2, 2), slip=1.5),
    "a crooked drawing": lambda: mm.worlds.GridWorld(["..", "."]),
    "nothing but walls": lambda: mm.worlds.GridWorld("##"),
    "a letter not drawn": lambda: mm.worlds.GridWorld("S.", rewards={"G": 1.0}),
    "a labyrinth without levels": lambda: mm.worlds.Labyrinth(levels=0),
    "a negative spread": lambda: mm.worlds.RandomMDP(spread=-1.0),
    "a concentration of zero": lambda: mm.worlds.DirichletMDP(concentration=0.0),
    "an environment without states": lambda: mm.worlds.RandomMDP(states=0),
    "a learner that explores too much": lambda: mm.worlds.ModelBasedLearner(epsilon=2.0),
    "a learner without a prior": lambda: mm.worlds.ModelBasedLearner(transition_prior=0.0),
    # ---- priors and models
    "a negative shape": lambda: mm.Gamma(shape=-1.0, rate=2.0),
    "a rate in words": lambda: mm.Gamma(shape=1.0, rate="slow"),
    "a prior that does not fit": lambda: mm.DirichletReward(mm.Normal(mean=0.0, scale=1.0)),
    "a prior too deep": lambda: mm.DirichletReward(mm.Gamma(shape=mm.Gamma(shape=1.0, rate=1.0), rate=1.0)),
    "a lapse rate above one": lambda: mm.Softmax(1.0, lapse=1.5),
    "a temperature in words": lambda: mm.Softmax("cold"),
    "acting without a temperature": lambda: mm.simulate(CHAIN, np.ones(3), mm.Softmax(), steps=5),
    "rewards on what": lambda: mm.BetaReward(on="actions"),
    "no choice rule": lambda: mm.RewardPolicyModel(choice="softmax"),
    "features of the wrong shape": lambda: fit(mm.RewardPolicyModel(mm.GaussianReward(features=np.ones((4, 2))))),
    "features that are not finite": lambda: fit(
        mm.RewardPolicyModel(mm.GaussianReward(features=[[1.0], [np.nan], [0.0]]))
    ),
    "too few names of features": lambda: fit(
        mm.RewardPolicyModel(mm.GaussianReward(features=np.ones((3, 2)), names=["food"]))
    ),
    "names without features": lambda: mm.GaussianReward(names=["food"]),
    "concentrations that do not fit": lambda: fit(mm.RewardPolicyModel(mm.DirichletReward([1.0, 2.0]))),
    "temperatures that do not fit": lambda: fit(mm.RewardPolicyModel(choice=mm.Softmax([1.0, 2.0, 3.0]))),
    # ---- fits
    "a method that is none": lambda: fit(mm.RewardPolicyModel(), "Gibbs"),
    "a method not made": lambda: fit(mm.RewardPolicyModel(), mm.Gibbs),
    "a model that is none": lambda: fit(mm.DirichletReward()),
    "no draws": lambda: mm.Gibbs(draws=0),
    "no rounds": lambda: mm.HMC(max_rounds=0),
    "a device that JAX does not know": lambda: fit(mm.RewardPolicyModel(), mm.HMC(device="abacus")),
    "a device that is none": lambda: fit(mm.RewardPolicyModel(), mm.HMC(device=3)),
    "more chains than a device can hold": lambda: fit(mm.RewardPolicyModel(), mm.HMC(chains=10**8, device="cpu")),
    "no chains": lambda: mm.Metropolis(chains=0),
    "a negative seed": lambda: fit(mm.RewardPolicyModel(), seed=-1),
    "arguments in the wrong order": lambda: mm.fit(mm.RewardPolicyModel(), CHAIN_DATA, CHAIN),
    "data from elsewhere": lambda: mm.fit(mm.RewardPolicyModel(), ROOMS, CHAIN_DATA),
    "a silent task, alone": lambda: mm.fit(
        mm.RewardPolicyModel(sharing=mm.Separate()), ROOMS, read(choices(action=["on", "back", None]))
    ),
    "impossible choices": lambda: fit(IMPOSSIBLE, mm.MonteCarlo(draws=50)),
    "impossible choices, in chains": lambda: fit(IMPOSSIBLE),
    "going on with another model": lambda: fit(
        mm.RewardPolicyModel(mm.BetaReward()), QUICK, start=fit(mm.RewardPolicyModel(), QUICK)
    ),
    "going on with another method": lambda: fit(
        mm.RewardPolicyModel(), mm.Gibbs(chains=1), start=fit(mm.RewardPolicyModel(), QUICK)
    ),
    "going on with more chains": lambda: fit(
        mm.RewardPolicyModel(), mm.Metropolis(chains=3), start=fit(mm.RewardPolicyModel(), QUICK)
    ),
    "too many states for a first look": lambda: mm.fit(
        mm.RewardPolicyModel(),
        mm.worlds.GridWorld((50, 50)),
        mm.simulate(mm.worlds.GridWorld((50, 50)), np.ones(2500), mm.Softmax(1.0), steps=2),
        mm.EmpiricalBayes(),
    ),
    # ---- policies and how optimal they are
    "no rewards": lambda: mm.RewardSet([]),
    "a reward twice": lambda: mm.RewardSet([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]),
    "rewards with an axis too many": lambda: mm.RewardSet(np.ones((2, 3, 2))),
    "a reward without bounds": lambda: mm.RewardSet([[1.0, np.inf]]),
    "weights that do not fit": lambda: mm.RewardSet(np.eye(3), weights=[1.0, -1.0, 0.0]),
    "names of other rewards": lambda: mm.RewardSet(np.eye(2), names=["food", "food"]),
    "rewards of other states": lambda: fit(mm.PolicyOptimalityModel(np.eye(4)), FEW),
    "a reward prior in words": lambda: mm.PolicyOptimalityModel("Dirichlet"),
    "no policy prior": lambda: mm.PolicyOptimalityModel(policy=1.0),
    "a policy concentration of zero": lambda: mm.optimality.DirichletPolicy(0.0),
    "a rate of zero": lambda: mm.optimality.ExponentialOptimality(rate=0.0),
    "an optimality that is none": lambda: mm.PolicyOptimalityModel(optimality=1.0),
    "an optimality with a prior of its own": lambda: mm.PolicyOptimalityModel(
        optimality=mm.Gamma(shape=mm.Gamma(shape=1.0, rate=1.0), rate=1.0)
    ),
    "gaps below zero": lambda: mm.optimality.DistributionOptimality(stats.norm(1.0, 1.0)),
    "a falling distribution function": lambda: mm.optimality.DistributionOptimality(lambda gap: np.exp(-np.abs(gap))),
    "a distribution function of one number": lambda: mm.optimality.DistributionOptimality(
        lambda gap: 1.0 if gap > 1 else 0.0
    ),
    "no distribution at all": lambda: mm.optimality.DistributionOptimality(3.0),
    "an unknown factorisation": lambda: mm.PolicyOptimalityModel(factorisation="both"),
    "an unknown treatment": lambda: mm.PolicyOptimalityModel(empty_set="ignore"),
    "a concentration for loners": lambda: mm.PolicyOptimalityModel(
        sharing=mm.Separate(), factorisation="policy_given_reward", reward_concentration=1.0
    ),
    "a policy prior too costly": lambda: mm.PolicyOptimalityModel(
        policy=mm.optimality.DirichletPolicy(mm.Gamma(shape=1.0, rate=1.0)), factorisation="policy_given_reward"
    ),
    "nobody is that good": lambda: fit(
        mm.PolicyOptimalityModel(np.eye(3), optimality=mm.optimality.UniformOptimality(1e-9)), FEW
    ),
    "nobody is that good, the other way": lambda: fit(
        mm.PolicyOptimalityModel(
            np.eye(3), optimality=mm.optimality.UniformOptimality(1e-9), factorisation="policy_given_reward"
        ),
        FEW,
    ),
    "a number for a given set": lambda: fit(
        mm.PolicyOptimalityModel(np.eye(3)), mm.OptimalityMonteCarlo(num_rewards=10)
    ),
    "the wrong method": lambda: fit(mm.PolicyOptimalityModel(), mm.Gibbs()),
    "the wrong method, the other way": lambda: fit(mm.RewardPolicyModel(), mm.OptimalityMonteCarlo()),
    "nothing to share": lambda: mm.PolicyOptimalityModel(reward_concentration=1.0),
    "no empty sets there": lambda: mm.PolicyOptimalityModel(factorisation="policy_given_reward", empty_set="drop"),
    "scale-free in words": lambda: mm.PolicyOptimalityModel(scale_free="no"),
    "a distribution that never gets there": lambda: mm.optimality.DistributionOptimality(
        lambda gap: 0.6 * (np.asarray(gap) > 1)
    ),
    "a distribution in words": lambda: mm.optimality.DistributionOptimality("expon"),
    "names that no file can hold": lambda: mm.RewardSet(np.eye(2), names=[("a", 1), ("b", 2)]),
    "one name for all": lambda: mm.RewardSet(np.eye(2), names=3),
    "a bound for half a draw": lambda: mm.optimality.theorem_bound(0.5, 0.9),
    "no rewards to hold against": lambda: mm.loss_matrix(CHAIN, np.full((1, 3, 2), 0.5), np.ones((0, 3))),
    "a truth with other rewards": lambda: mm.calibrate(
        mm.PolicyOptimalityModel(np.eye(3)), CHAIN, truth=mm.PolicyOptimalityModel()
    ),
    "calibrating the wrong method": lambda: mm.calibrate(mm.PolicyOptimalityModel(np.eye(3)), CHAIN, mm.Gibbs()),
    "an unknown device": lambda: mm.OptimalityMonteCarlo(device="tpu"),
    "a loss without a scale": lambda: mm.loss_matrix(CHAIN, np.full((1, 3, 2), 0.5), np.ones((1, 3)), scale_free=True),
    "one policy, not several": lambda: mm.loss_matrix(CHAIN, np.full((3, 2), 0.5), np.ones((1, 3))),
    "a bound without draws": lambda: mm.optimality.theorem_bound(0, 0.9),
    "an accuracy of zero": lambda: mm.optimality.draws_needed(0.0, 0.9),
    "going on with policies": lambda: fit(
        mm.PolicyOptimalityModel(np.eye(3)), FEW, start=fit(mm.PolicyOptimalityModel(np.eye(3)), FEW)
    ),
    "recovering the other model": lambda: mm.recover(mm.PolicyOptimalityModel(np.eye(3)), CHAIN),
    "a truth of another kind": lambda: mm.calibrate(mm.RewardPolicyModel(), CHAIN, truth=mm.PolicyOptimalityModel()),
    # ---- posteriors
    "no such file": lambda: mm.load("nowhere.nc"),
    "a file that is no posterior": lambda: mm.load(in_file("notes.nc", b"hello")),
    "a damaged run file": lambda: mm.load(harmed("run.nc", None)),
    "a run file changed by another program": lambda: mm.load(harmed("run.nc", "note")),
    "a run file that declares too much": lambda: mm.load(harmed("run.nc", "huge")),
    "a run file whose numbers lie elsewhere": lambda: mm.load(harmed("run.nc", "external")),
    "a run file with a link": lambda: mm.load(harmed("run.nc", "link")),
    "a run file of another model": lambda: mm.load(harmed("run.nc", "model")),
    "a run file with settings from elsewhere": lambda: mm.load(harmed("run.nc", "settings")),
    "a run file without rewards": lambda: mm.load(harmed("run.nc", "missing")),
    "a run file with a reward that is no number": lambda: mm.load(harmed("run.nc", "nan")),
    "a sampler of another model": lambda: fit(mm.RewardPolicyModel(), start=lost()),
    "choices that an old file does not hold": lambda: mm.load(old_file("old.nc")).demonstrations,
    "an unknown contrast": lambda: fit(mm.RewardPolicyModel(), QUICK).to_frame("action"),
    "a table of an unknown task": lambda: fit(mm.RewardPolicyModel(), QUICK).to_frame(tasks=["eve"]),
    "a table of something else": lambda: fit(mm.RewardPolicyModel(), QUICK).to_frame(of="action"),
    "a table of features that are not there": lambda: fit(mm.RewardPolicyModel(), QUICK).to_frame("feature"),
    "a table of features and states": lambda: weighed().to_frame("state", features=["food"]),
    "a table of an unknown feature": lambda: weighed().to_frame(features=["water"]),
    "weights of features that are not there": lambda: fit(mm.RewardPolicyModel(), QUICK).weights,
    "findings of features that are not there": lambda: mm.findings.feature_weights(fit(mm.RewardPolicyModel(), QUICK)),
    "a population of weights that has none": lambda: population_weights(weighed(mm.Separate())),
    "a picture of features by the other name": lambda: mm.plots.weights(weighed()),
    "a picture of features of nobody": lambda: mm.plots.feature_weights(weighed(), tasks=[]),
    "a picture of features of somebody else": lambda: mm.plots.feature_weights(weighed(), tasks=["eve"]),
    "true weights in words": lambda: mm.plots.feature_weights(weighed(), truth=["much", "little"]),
    "true weights of others": lambda: mm.plots.feature_weights(weighed(), truth=[[1.0, 2.0]]),
    "a level above one": lambda: fit(mm.RewardPolicyModel(), QUICK).to_frame(level=95.0),
    "a population of loners": lambda: fit(mm.RewardPolicyModel(sharing=mm.Separate()), QUICK).population(),
    "contrasts of one": lambda: fit(mm.RewardPolicyModel(sharing=mm.Pooled()), QUICK).to_frame("task"),
    "no folder to save to": lambda: fit(mm.RewardPolicyModel(), QUICK).save("nowhere/run.nc"),
    "maps without coordinates": lambda: mm.plots.maps(ROOMS, {"truth": np.ones((1, 3))}, ["ann"]),
    "weights of the other model": lambda: mm.plots.weights(fit(mm.RewardPolicyModel(), QUICK)),
    "weights of too many": lambda: mm.plots.weights(fit(mm.PolicyOptimalityModel(), FEW)),
    "no replications": lambda: mm.calibrate(mm.RewardPolicyModel(), CHAIN, seeds=range(0)),
    "replications twice": lambda: mm.calibrate(mm.RewardPolicyModel(), CHAIN, seeds=[1, 2, 1]),
    "how many replications": lambda: mm.calibrate(mm.RewardPolicyModel(), CHAIN, seeds=200),
    "nobody to recover": lambda: mm.recover(mm.RewardPolicyModel(), CHAIN, tasks=0),
    "one row of rewards to recover": lambda: mm.recover(mm.RewardPolicyModel(), CHAIN, tasks=[0.0, 0.0, 1.0]),
    # ---- findings, plots, report
    "a report of nothing": lambda: mm.report(CHAIN_DATA, "page.html"),
    "a title in numbers": lambda: mm.report(fit(mm.RewardPolicyModel(), QUICK), "page.html", title=7),
    "a report of another score": lambda: mm.report(fit(mm.RewardPolicyModel(), QUICK), "page.html", score=[0.7]),
    "a truth of other tasks": lambda: mm.report(fit(mm.RewardPolicyModel(), QUICK), "page.html", truth=np.eye(3)),
    "a truth in words": lambda: mm.report(fit(mm.RewardPolicyModel(), QUICK), "page.html", truth="food"),
    "a report in a folder": lambda: mm.report(fit(mm.RewardPolicyModel(), QUICK), "."),
    "nobody to compare with": lambda: mm.plots.similarity(fit(mm.RewardPolicyModel(sharing=mm.Pooled()), QUICK)),
    "findings of no draws": lambda: mm.findings.sample_of(fit(mm.RewardPolicyModel(), QUICK), draws=0),
    "policies of nobody": lambda: mm.plots.policies(fit(mm.RewardPolicyModel(), QUICK), "eve"),
    "a comparison of nothing": lambda: mm.plots.comparison(CHAIN),
    "temperatures of the other model": lambda: mm.plots.temperatures(fit(mm.PolicyOptimalityModel(np.eye(3)), FEW)),
    # ---- scores
    "holding out half": lambda: score(hold_out="half"),
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
    # ---- environments estimated from data, trajectories of other libraries
    "nothing to estimate from": lambda: mm.estimate_environment(
        mm.Demonstrations.from_lists([(["hall"], ["on"])]), discount=0.9
    ),
    "choices in a terminal state": lambda: mm.estimate_environment(CHAIN_DATA, discount=0.9, terminal=[0]),
    "not a trajectory": lambda: mm.io.from_trajectories([([0], [1])]),
    "trajectories of numbers that are not whole": lambda: mm.io.from_trajectories([Trajectory([0.5, 1.0], [0])]),
    "trajectories of pictures": lambda: mm.io.from_trajectories([Trajectory(np.zeros((2, 3, 3)), [0])]),
    "a trajectory beyond the environment": lambda: mm.io.from_trajectories([Trajectory([0, 7], [0])], CHAIN),
    "not a Minari dataset": lambda: mm.io.from_minari(7),
    "Minari's continuous spaces": lambda: mm.io.from_minari(SimpleNamespace(spec=CONTINUOUS, iterate_episodes=list)),
    # ---- environments that are not known
    "a belief of negative counts": lambda: belief(-np.ones((3, 2, 3))),
    "a belief of nothing": lambda: belief(prior=0.0),
    "a prior less than nothing": lambda: belief(prior=-1.0),
    "a prior of another shape": lambda: belief(prior=np.ones((2, 2, 2))),
    "possible moves of another shape": lambda: belief(possible=np.ones((2, 2, 2))),
    "what is impossible was seen": lambda: belief(np.ones((3, 2, 3)), possible=np.tile([1.0, 1.0, 0.0], (3, 2, 1))),
    "actions that exist elsewhere": lambda: belief(possible=[[True]]),
    "a belief in an impossible move that was made": lambda: belief(possible=np.tile([1.0, 0.0, 0.0], (3, 2, 1))).after(
        CHAIN_DATA
    ),
    "a belief about other places": lambda: mm.DynamicsBelief(
        np.zeros((3, 2, 3)), discount=0.9, states=["a", "b", "c"]
    ).after(CHAIN_DATA),
    "a belief in a last state where choices are made": lambda: mm.DynamicsBelief.from_demonstrations(
        CHAIN_DATA, discount=0.9, terminal=[0]
    ),
    "counts that are words": lambda: mm.DynamicsBelief.from_frame(
        pd.DataFrame({"state": ["a"], "action": ["x"], "next_state": ["a"], "count": ["often"]}), discount=0.9
    ),
    "a belief of no weight": lambda: mm.DynamicsBelief.around(CHAIN, 0.0),
    "no samples of a belief": lambda: belief().sample(0),
    "an interval of everything": lambda: belief().to_frame(level=1.0),
    "a method that must know the environment": lambda: mm.fit(
        mm.RewardPolicyModel(), belief(), CHAIN_DATA, mm.MonteCarlo(), progress=False
    ),
    "calibration of MPO under a belief": lambda: mm.calibrate(mm.PolicyOptimalityModel(), belief()),
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
    "two columns that give one name": lambda: read(
        pd.DataFrame({"task": [1, 1], "x": ["a", "a, b"], "y": ["b, c", "c"], "action": "on"}), None, state=["x", "y"]
    ),
    # ---- labels and odd data frames
    "labels of other states": lambda: mm.plan(CHAIN, pd.Series([1.0, 0.0, 0.0], index=["a", "b", "c"])),
    "rewards that lack a state": lambda: mm.plan(CHAIN, pd.Series([1.0, 0.0], index=[2, 1])),
    "rewards with a label twice": lambda: mm.plan(CHAIN, pd.Series([1.0, 0.0, 0.0], index=[0, 1, 1])),
    "rewards that lie on their side": lambda: mm.plan(
        mm.Environment(np.eye(2)[:, None], discount=0.9, states=["hall", "attic"]),
        pd.DataFrame(np.eye(2), index=["attic", "hall"], columns=["Ann", "Bo"]),
    ),
    "temperatures with labels": lambda: mm.Softmax(pd.Series([1.0, 2.0], index=["Ann", "Bo"])).policies(
        CHAIN, np.zeros((2, 3))
    ),
    "lists as names": lambda: read(pd.DataFrame({"task": 1, "state": [["hall"]], "action": "on"}), None),
    "two columns of one name": lambda: read(
        pd.DataFrame([[1, "hall", "on", "attic"]], columns=["task", "state", "action", "state"]), None
    ),
    "numbers as names of columns": lambda: read(pd.DataFrame([[1, "hall", "on"]]), None),
    "times with and without a zone": lambda: read(
        pd.DataFrame(
            {
                "task": 1,
                "time": [pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-01", tz="UTC")],
                "state": "hall",
                "action": "on",
            }
        ),
        None,
        step="time",
    ),
    "a count that is empty": lambda: mm.DynamicsBelief.from_frame(
        pd.DataFrame({"state": ["hall"], "action": [None], "next_state": ["hall"], "count": [1]}), discount=0.9
    ),
    "a name of a thousand letters": lambda: read(
        pd.DataFrame({"task": 1, "state": ["x" * 1000], "action": ["right"]}), CHAIN
    ),
}

MESSAGES = Path(__file__).with_name("error_messages.txt")


def expected():
    """From the file: a name on one line, its message, indented, on the next."""
    lines = MESSAGES.read_text(encoding="utf-8").splitlines()
    return {name: message.strip() for name, message in zip(lines[::2], lines[1::2])}


@pytest.mark.parametrize("name", GALLERY)
def test_bad_input_is_told_what_is_wrong(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mm.errors.InputError) as caught:
        GALLERY[name]()
    assert str(caught.value) == expected()[name]


def test_the_gallery_holds_no_picture_twice_and_none_is_forgotten():
    assert list(expected()) == list(GALLERY)
