"""Simulation-based calibration of every method with every prior and choice rule, and controls that must fail.

`make calibrate` does the same with a thousand replications each, in a quarter of an hour.
"""

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import manymotives as mm
from cases import seeds_from
from goodness_of_fit import SIGNIFICANCE
from manymotives.inference import Draws, RunState
from manymotives.models import Target
from places import TRIANGLE

METHODS = {
    "HMC": mm.HMC(chains=1, draws=40, warmup=50, thin=2, max_rounds=1),
    "Metropolis": mm.Metropolis(chains=1, draws=40, warmup=50, thin=20),
    "Gibbs": mm.Gibbs(chains=1, draws=40, warmup=50, thin=20),
    "NestedMonteCarlo": mm.NestedMonteCarlo(draws=300, inner=60),
}
REWARDS = {
    "Dirichlet": mm.DirichletReward(mm.Gamma(shape=3.0, rate=2.0)),
    "Beta": mm.BetaReward(mm.Gamma(shape=3.0, rate=2.0), mm.Gamma(shape=3.0, rate=2.0)),
    "Gaussian": mm.GaussianReward(mean=mm.Normal(mean=0.0, scale=1.0), scale=mm.HalfNormal(scale=1.0)),
}
RULES = {"Softmax": mm.Softmax, "SoftOptimal": mm.SoftOptimal}
SIZE = {"tasks": 3, "steps": 15, "progress": False}


CASES = [  # the default method and one of the rewards; the rest is long
    pytest.param(*case, marks=[] if case == ("HMC", "Gaussian", "Softmax") else pytest.mark.long)
    for case in itertools.product(METHODS, REWARDS, RULES)
]


@pytest.mark.parametrize(("method", "reward", "rule"), CASES)
def test_the_truth_is_one_more_draw(method, reward, rule):
    model = mm.RewardPolicyModel(REWARDS[reward], RULES[rule]())
    found = mm.calibrate(model, TRIANGLE, METHODS[method], seeds=seeds_from(5, 40), **SIZE)
    assert found.p_value > SIGNIFICANCE, found


@pytest.mark.long
@pytest.mark.parametrize("sharing", [mm.Separate(), mm.Pooled()])
def test_other_sharing_and_lapses_are_calibrated(sharing):
    choice = mm.Softmax(lapse=mm.Beta(alpha=1.0, beta=4.0))
    model = mm.RewardPolicyModel(REWARDS["Dirichlet"], choice, sharing)
    found = mm.calibrate(model, TRIANGLE, METHODS["Gibbs"], seeds=seeds_from(6, 40), **SIZE)
    assert found.p_value > SIGNIFICANCE, found


# ---- controls: what is wrong must look wrong ------------------------------------------------------------------


@pytest.mark.long
def test_a_wrong_prior_is_seen():
    """Truth from a population that prefers one state, fitted with a prior that prefers none."""
    model = mm.RewardPolicyModel(mm.DirichletReward(1.0), mm.Softmax(4.0), mm.Separate())
    truth = mm.RewardPolicyModel(mm.DirichletReward([3.0, 1.0, 1.0]), mm.Softmax(4.0), mm.Separate())
    settings = {"seeds": seeds_from(1, 80), **SIZE}
    method = METHODS["Metropolis"]
    assert mm.calibrate(model, TRIANGLE, method, **settings).p_value > SIGNIFICANCE
    assert mm.calibrate(model, TRIANGLE, method, truth=truth, **settings).p_value < 1e-3


@dataclass(frozen=True)
class PriorProposals:
    """A plain Metropolis–Hastings sampler with proposals from the prior, given the truth's own machinery.

    The proposal density cancels the prior in the ratio: what is left is the likelihood. Without that correction
    the prior counts twice, as in the authors' code.
    """

    corrected: bool
    draws: int = 40

    target_type: ClassVar[type] = Target
    is_markov_chain: ClassVar[bool] = True

    def init(self, target, seed):
        return RunState(target, seed)

    def advance(self, state, draws, progress):
        target, rng = state.target, np.random.default_rng(state.seed)
        owner = np.arange(target.num_tasks)
        hyper = np.zeros((1, target.num_groups, 0))
        here = target.draw_tasks(rng, hyper)[0]
        height = self._height(target, here, owner)
        kept = []
        proposals = target.draw_tasks(rng, np.repeat(hyper, 1500, axis=0))
        flat = proposals.reshape(-1, target.num_coordinates)
        heights = self._height(target, flat, np.tile(owner, len(proposals))).reshape(len(proposals), -1)
        for there, new in zip(proposals, heights):
            moves = np.log(rng.random(len(owner))) < new - height
            here, height = np.where(moves[:, None], there, here), np.where(moves, new, height)
            kept.append(here)
        tasks = np.stack(kept[100::35])[None, :draws]
        shape = tasks.shape[:2]
        likelihood = target.log_likelihood(tasks[0].reshape(-1, tasks.shape[-1]), np.tile(owner, shape[1]))
        return None, Draws(tasks, np.zeros((*shape, target.num_groups, 0)), likelihood.reshape(*shape, -1))

    def _height(self, target, u, owner):
        height = target.log_likelihood(u, owner)
        if not self.corrected:
            rewards = target.rewards(u)
            height = height + ((0.5 - 1.0) * np.log(rewards)).sum(axis=1)  # the Dirichlet density, once too often
        return height


def test_a_missing_hastings_correction_is_seen():
    model = mm.RewardPolicyModel(mm.DirichletReward(0.5), mm.Softmax(4.0), mm.Separate())
    settings = {"seeds": seeds_from(2, 60), **SIZE}
    assert mm.calibrate(model, TRIANGLE, PriorProposals(corrected=True), **settings).p_value > SIGNIFICANCE
    assert mm.calibrate(model, TRIANGLE, PriorProposals(corrected=False), **settings).p_value < 1e-3
