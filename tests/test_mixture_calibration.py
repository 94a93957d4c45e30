"""Simulation-based calibration where tasks share motives, and a control that must fail.

Ranks of the number of motives and of who shares one are randomised among ties. Draws that depend on each
other look over-confident: where hyperparameters of rewards are inferred, chains take many sweeps to forget where they
were, and draws are thinned more.
"""

import pytest

import manymotives as mm
from cases import seeds_from
from goodness_of_fit import SIGNIFICANCE
from places import TRIANGLE

SHORT = mm.HMC(chains=1, draws=15, warmup=15, thin=2)
LONG = mm.HMC(chains=1, draws=50, warmup=60, thin=3)
PATIENT = mm.HMC(chains=1, draws=40, warmup=40, thin=12)
SIZE = {"tasks": 4, "steps": 20, "progress": False}
KNOWN = mm.GaussianReward(mean=0.0, scale=1.5)
PAIRS = mm.GaussianReward(mean=0.0, scale=1.0, on="state_action")
POPULATION = mm.GaussianReward(mean=mm.Normal(mean=0.0, scale=1.0), scale=mm.HalfNormal(scale=1.5))
SHARES = mm.DirichletReward(mm.Gamma(shape=3.0, rate=2.0))
RULE, OWN = mm.Softmax(2.0), mm.Softmax(mm.Gamma(shape=4.0, rate=0.5))
FINITE = mm.FiniteNumber(mean=2.5)
CASES = {
    "finite": (mm.RewardPolicyModel(KNOWN, RULE, mm.Mixture(FINITE)), LONG),
    "process": (mm.RewardPolicyModel(KNOWN, RULE, mm.Mixture(mm.DirichletProcess(mm.Gamma(2.0, 2.0)))), LONG),
    "a known number": (mm.RewardPolicyModel(KNOWN, RULE, mm.Mixture(3)), LONG),
    "spread": (mm.RewardPolicyModel(KNOWN, RULE, mm.Mixture(FINITE, spread=mm.HalfNormal(scale=0.5))), LONG),
    "own temperatures": (mm.RewardPolicyModel(SHARES, OWN, mm.Mixture()), LONG),
    "many coordinates": (mm.RewardPolicyModel(PAIRS, RULE, mm.Mixture(FINITE)), LONG),
    "hyperpriors": (mm.RewardPolicyModel(POPULATION, RULE, mm.Mixture()), PATIENT),
}
RANKED = {"number of motives", "shares a motive with task 1 further on", "tasks on its motive", "log-likelihood"}


def test_the_truth_is_one_more_draw():
    model = mm.RewardPolicyModel(
        KNOWN, RULE, mm.Mixture(mm.DirichletProcess(mm.Gamma(2.0, 2.0)), spread=mm.HalfNormal(scale=0.5))
    )
    found = mm.calibrate(model, TRIANGLE, SHORT, seeds=seeds_from(61, 8), **SIZE)
    assert RANKED | {"spread", "concentration of the process", "reward 0"} <= set(found.ranks)
    assert found.p_value > SIGNIFICANCE, found


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_truth_is_one_more_draw_of_five_hundred(number):
    name = list(CASES)[number]
    found = mm.calibrate(CASES[name][0], TRIANGLE, CASES[name][1], seeds=seeds_from(70 + number, 500), **SIZE)
    print(name, found, sep="\n")
    assert found.p_value > SIGNIFICANCE, found


@pytest.mark.long
def test_a_wrong_prior_of_the_number_is_seen():
    told = mm.RewardPolicyModel(KNOWN, RULE, mm.Mixture(mm.FiniteNumber(mean=1.05)))
    truth = mm.RewardPolicyModel(KNOWN, RULE, mm.Mixture(mm.FiniteNumber(mean=4.0)))
    found = mm.calibrate(told, TRIANGLE, LONG, truth=truth, seeds=seeds_from(80, 100), **SIZE)
    assert found.p_values["number of motives"] < 1e-6, found
