"""The second room of the gallery of errors: priors, models, fits, posteriors and reports."""

import functools
import json
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import scipy.sparse as sp
import xarray as xr
from scipy import stats

import manymotives as mm
from error_gallery_data import CHAIN, CHAIN_DATA, ROOMS, choices, in_file, read
from manymotives.io.records import record_of
from manymotives.posterior.archive import packed_state, unpacked_state
from manymotives.posterior.feature_weights import population_weights

IMPOSSIBLE = mm.RewardPolicyModel(mm.GaussianReward(mean=0.0, scale=1e6), mm.Softmax(1e308))
QUICK = mm.Metropolis(chains=1, draws=5, warmup=5, thin=1)
FEW = mm.OptimalityMonteCarlo(draws=20)
FITTED = {}


def fit(model, method=QUICK, **options):
    """The same posterior for the same model and method: nobody changes it."""
    key = repr((model, method, options))
    if key not in FITTED:
        FITTED[key] = mm.fit(model, CHAIN, CHAIN_DATA, method, progress=False, **options)
    return FITTED[key]


def switched():
    """The posterior of a model whose motives switch."""
    return fit(mm.RewardPolicyModel(sharing=mm.Pooled(), switching=mm.Switching()), QUICK)


def weighed(sharing=None):
    """The posterior of a model with features."""
    reward = mm.GaussianReward(features=[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], names=["food", "noise"])
    return fit(mm.RewardPolicyModel(reward, sharing=sharing or mm.Hierarchical()))


def old_file(name):
    """A posterior as it was saved before files held the choices."""
    data = fit(mm.RewardPolicyModel()).data
    data.drop_nodes("demonstrations").to_netcdf(name, engine="h5netcdf")
    return name


@functools.cache
def written(has_checksum):
    """A run file, in the working folder as in memory."""
    posterior = fit(mm.RewardPolicyModel())
    if has_checksum:
        posterior.save("written.nc")
    else:
        posterior.data.to_netcdf("written.nc", engine="h5netcdf")
    return Path("written.nc").read_bytes()


def harmed(name, harm):
    """A run file as somebody left it who did not know better, or did; without a checksum, unless it is damaged."""
    content = bytearray(written(has_checksum=harm in (None, "note")))
    if harm is None:
        content[len(content) // 2] ^= 1
        return in_file(name, content)
    Path(name).write_bytes(content)
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


def switching(switches=None, **choices):
    """A model with motives that switch."""
    return mm.RewardPolicyModel(switching=switches or mm.Switching(), **choices)


def agent(transitions=((0.9, 0.1), (0.2, 0.8)), start=None, rule=None):
    return mm.worlds.SwitchingAgent(rule or mm.Softmax(1.0), transitions, start)


def lost():
    """A posterior whose sampler stands where this model cannot be."""
    posterior = fit(mm.RewardPolicyModel())
    state = unpacked_state(posterior.data["sampler"].dataset)
    data = posterior.data.copy()
    data["sampler"] = xr.DataTree(packed_state(state | {"tasks": state["tasks"][:, :, :1]}))
    return replace(posterior, data=data)


def smooth(**given):
    return fit(mm.RewardPolicyModel(mm.SmoothReward(**given)))


MODELS = {
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
    "sparse features of another place": lambda: fit(mm.RewardPolicyModel(mm.GaussianReward(sp.eye_array(4)))),
    "sparse features of pairs": lambda: fit(
        mm.RewardPolicyModel(mm.GaussianReward(sp.eye_array(4), on="state_action"))
    ),
    "sparse features that are not finite": lambda: fit(
        mm.RewardPolicyModel(mm.GaussianReward(sp.csr_array([[np.nan], [0.0], [1.0]])))
    ),
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
    "no rewards": lambda: mm.optimality.RewardSet([]),
    "a reward twice": lambda: mm.optimality.RewardSet([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]),
    "rewards with an axis too many": lambda: mm.optimality.RewardSet(np.ones((2, 3, 2))),
    "a reward without bounds": lambda: mm.optimality.RewardSet([[1.0, np.inf]]),
    "weights that do not fit": lambda: mm.optimality.RewardSet(np.eye(3), weights=[1.0, -1.0, 0.0]),
    "names of other rewards": lambda: mm.optimality.RewardSet(np.eye(2), names=["food", "food"]),
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
    "names that no file can hold": lambda: mm.optimality.RewardSet(np.eye(2), names=[("a", 1), ("b", 2)]),
    "one name for all": lambda: mm.optimality.RewardSet(np.eye(2), names=3),
    "a bound for half a draw": lambda: mm.optimality.theorem_bound(0.5, 0.9),
    "no rewards to hold against": lambda: mm.optimality.loss_matrix(CHAIN, np.full((1, 3, 2), 0.5), np.ones((0, 3))),
    "a truth with other rewards": lambda: mm.calibrate(
        mm.PolicyOptimalityModel(np.eye(3)), CHAIN, truth=mm.PolicyOptimalityModel()
    ),
    "calibrating the wrong method": lambda: mm.calibrate(mm.PolicyOptimalityModel(np.eye(3)), CHAIN, mm.Gibbs()),
    "an unknown device": lambda: mm.OptimalityMonteCarlo(device="tpu"),
    "a loss without a scale": lambda: mm.optimality.loss_matrix(
        CHAIN, np.full((1, 3, 2), 0.5), np.ones((1, 3)), scale_free=True
    ),
    "one policy, not several": lambda: mm.optimality.loss_matrix(CHAIN, np.full((3, 2), 0.5), np.ones((1, 3))),
    "a bound without draws": lambda: mm.optimality.theorem_bound(0, 0.9),
    "an accuracy of zero": lambda: mm.optimality.draws_needed(0.0, 0.9),
    "going on with policies": lambda: fit(
        mm.PolicyOptimalityModel(np.eye(3)), FEW, start=fit(mm.PolicyOptimalityModel(np.eye(3)), FEW)
    ),
    "recovering the other model": lambda: mm.recover(mm.PolicyOptimalityModel(np.eye(3)), CHAIN),
    "a truth of another kind": lambda: mm.calibrate(mm.RewardPolicyModel(), CHAIN, truth=mm.PolicyOptimalityModel()),
    "groups of other features": lambda: fit(mm.RewardPolicyModel(mm.GaussianReward(np.eye(3), groups=["a", "b"]))),
    "groups with known scales": lambda: mm.GaussianReward(np.eye(3), scale=1.0, groups="all"),
    "a residual of nothing": lambda: mm.GaussianReward(residual=True),
    "a negative residual": lambda: mm.GaussianReward(np.eye(3), residual=-1.0),
    # ---- rewards alike in neighbouring states
    "a range of nothing": lambda: mm.SmoothReward(range=0.0),
    "a scale that may be negative": lambda: mm.SmoothReward(scale=mm.Normal(mean=0.0, scale=1.0)),
    "a range for each state": lambda: mm.SmoothReward(range=[1.0, 2.0, 3.0]),
    "priors of range for each state": lambda: mm.SmoothReward(range=mm.Gamma(shape=[3.0, 4.0], rate=1.0)),
    "a mean that is known": lambda: mm.SmoothReward(mean=1.0),
    "half an eigenvector": lambda: mm.SmoothReward(basis=2.5),
    "no eigenvectors": lambda: mm.SmoothReward(basis=0),
    "more eigenvectors than states": lambda: smooth(basis=4),
    "a graph of another place": lambda: smooth(graph=np.ones((4, 4))),
    "a graph in words": lambda: smooth(graph="grid"),
    "a graph of words": lambda: smooth(graph=[["a"] * 3] * 3),
    "a graph in one direction": lambda: smooth(graph=sp.csr_array(np.eye(3, k=1))),
    "negative weights": lambda: smooth(graph=-np.ones((3, 3))),
    "weights that are no numbers": lambda: smooth(graph=np.full((3, 3), np.nan)),
    "states without neighbours": lambda: smooth(graph=np.eye(3)),
    "smooth rewards on a device": lambda: fit(mm.RewardPolicyModel(mm.SmoothReward()), mm.HMC(device="cpu")),
    "smooth motives at first sight": lambda: fit(switching(reward=mm.SmoothReward()), mm.EmpiricalBayes()),
    # ---- motives that switch
    "no motives": lambda: mm.Switching(motives=0),
    "half a motive": lambda: mm.Switching(motives=2.5),
    "switching by the hour": lambda: mm.Switching(by="hour"),
    "a negative stickiness": lambda: mm.Switching(stickiness=-1.0),
    "a stickiness that may be negative": lambda: mm.Switching(stickiness=mm.Normal(mean=0.0, scale=1.0)),
    "a stickiness for each motive": lambda: mm.Switching(stickiness=[1.0, 2.0]),
    "no concentration": lambda: mm.Switching(concentration=0.0),
    "a prior for each state": lambda: mm.Switching(concentration=mm.Gamma(shape=[1.0, 2.0], rate=1.0)),
    "no motives at most": lambda: mm.StickBreaking(most=0),
    "a prior of how sparse": lambda: mm.StickBreaking(concentration=mm.Gamma(shape=1.0, rate=1.0)),
    "switching in words": lambda: mm.RewardPolicyModel(switching="often"),
    "a discount in words": lambda: mm.RewardPolicyModel(discount="far"),
    "an agent with a discount of one": lambda: mm.RewardPolicyModel(discount=1),
    "a discount that may be above one": lambda: mm.RewardPolicyModel(discount=mm.Gamma(shape=2.0, rate=1.0)),
    "a discount inferred where motives switch": lambda: mm.RewardPolicyModel(
        switching=mm.Switching(), discount=mm.Beta(alpha=2.0, beta=1.0)
    ),
    "a depth in words": lambda: mm.RewardPolicyModel(depth="far"),
    "a depth of no step": lambda: mm.RewardPolicyModel(depth=0),
    "a depth where motives switch": lambda: mm.RewardPolicyModel(switching=mm.Switching(), depth=3),
    "a depth where dynamics are not known": lambda: mm.fit(
        mm.RewardPolicyModel(depth=3), mm.DynamicsBelief.from_demonstrations(CHAIN_DATA, discount=0.9), CHAIN_DATA
    ),
    "a depth on a device": lambda: fit(mm.RewardPolicyModel(depth=3), mm.HMC(device="cpu")),
    "a profile of half a step": lambda: mm.profile(
        mm.RewardPolicyModel(), CHAIN, CHAIN_DATA, "depth", [1, 1.5, 2], progress=False
    ),
    "a profile of MPO": lambda: mm.profile(mm.PolicyOptimalityModel(), CHAIN, CHAIN_DATA),
    "a profile of motives that switch": lambda: mm.profile(
        mm.RewardPolicyModel(switching=mm.Switching()), CHAIN, CHAIN_DATA
    ),
    "a profile of the reward": lambda: mm.profile(mm.RewardPolicyModel(), CHAIN, CHAIN_DATA, "reward"),
    "a profile of a grid that falls": lambda: mm.profile(
        mm.RewardPolicyModel(), CHAIN, CHAIN_DATA, grid=[0.9, 0.5, 0.1]
    ),
    "a profile likelihood of shares": lambda: mm.profile(
        mm.RewardPolicyModel(), CHAIN, CHAIN_DATA, criterion="likelihood", progress=False
    ),
    "a discount where dynamics are not known": lambda: mm.fit(
        mm.RewardPolicyModel(discount=0.5), mm.DynamicsBelief.from_demonstrations(CHAIN_DATA, discount=0.9), CHAIN_DATA
    ),
    "switching where dynamics are not known": lambda: mm.fit(
        switching(), mm.DynamicsBelief.from_demonstrations(CHAIN_DATA, discount=0.9), CHAIN_DATA, QUICK
    ),
    "switching by importance sampling": lambda: fit(switching(), mm.MonteCarlo(draws=50)),
    "switching by nested importance sampling": lambda: fit(switching(), mm.NestedMonteCarlo(draws=50)),
    "switching at first sight": lambda: fit(switching(), mm.EmpiricalBayes()),
    "how many motives at first sight": lambda: fit(
        switching(mm.Switching(mm.StickBreaking(3)), reward=mm.GaussianReward()), mm.EmpiricalBayes()
    ),
    "more draws of motives than memory holds": lambda: fit(
        switching(reward=mm.GaussianReward()), mm.EmpiricalBayes(draws=10**8)
    ),
    "switching on a device": lambda: fit(switching(), mm.HMC(device="cpu")),
    "a silent task that switches, alone": lambda: mm.fit(
        switching(sharing=mm.Separate()), ROOMS, read(choices(action=["on", "back", None]))
    ),
    "impossible choices, whatever the motive": lambda: fit(replace(IMPOSSIBLE, switching=mm.Switching())),
    "motives of what kind": lambda: fit(switching()).motives(kind="likely"),
    "motives of somebody else": lambda: fit(switching()).motives(CHAIN_DATA.pooled()),
    "motives in another place": lambda: fit(switching()).motives(read(choices())),
    "contrasts of motives": lambda: fit(switching()).to_frame("task"),
    "motives of everybody, one by one": lambda: fit(switching(sharing=mm.Pooled())).to_frame(tasks=["ann"]),
    "motives without features": lambda: fit(switching()).weights,
    "an agent without a rule": lambda: agent(rule="softmax"),
    "an agent with chances in words": lambda: agent([["often", "never"]]),
    "an agent with too few rows": lambda: agent([[0.5, 0.5]]),
    "an agent with too many axes": lambda: agent(np.ones((1, 1, 1, 1, 1))),
    "an agent that may do nothing": lambda: agent([[0.5, 0.2], [0.5, 0.5]]),
    "an agent that begins elsewhere": lambda: agent(start=[0.2, 0.3, 0.5]),
    "an agent for other states": lambda: mm.simulate(CHAIN, np.ones((2, 3)), agent(np.full((4, 2, 2), 0.5)), steps=5),
    "an agent with one reward for two motives": lambda: mm.simulate(CHAIN, np.ones(3), agent(), steps=5),
    "a truth that does not switch": lambda: mm.calibrate(switching(), CHAIN, truth=mm.RewardPolicyModel()),
    "calibrating motives where dynamics are not known": lambda: mm.calibrate(
        switching(), mm.DynamicsBelief.from_demonstrations(CHAIN_DATA, discount=0.9)
    ),
    "recovering motives that switch": lambda: mm.recover(switching(), CHAIN),
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
    "no experiment to recover": lambda: mm.recover(mm.RewardPolicyModel(), CHAIN, replications=0),
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
    "motives that do not switch": lambda: mm.plots.motives(fit(mm.RewardPolicyModel(), QUICK)),
    "one motive of those that switch": lambda: mm.findings.learning(switched()),
    "transitions of one of all": lambda: mm.plots.motive_transitions(switched(), task="ann"),
    "switching by the state that does not": lambda: switched().leaving(),
    "shares of another level": lambda: switched().shares(level=95),
    "truth of motives that switch": lambda: mm.report(switched(), "page.html", truth=np.eye(3)),
}
