"""Simulation-based calibration of an inferred discount: truth from the prior, choices, ranks; with a control."""

import numpy as np
import pytest

import manymotives as mm
from goodness_of_fit import SIGNIFICANCE
from test_discount import SIX, TRUTH

WEIGHT = mm.GaussianReward(features=TRUTH[:, None], mean=1.0, scale=0.5)
PRIORS = {
    "known population": mm.Beta(alpha=4.0, beta=2.0),
    "population": mm.Beta(alpha=mm.Gamma(shape=4.0, rate=1.0), beta=2.0),
}
METHODS = {
    "HMC": mm.HMC(chains=1, draws=100, warmup=100, thin=4, max_rounds=1),
    "Gibbs": mm.Gibbs(chains=1, draws=100, warmup=100, thin=10),
}


def calibrated(prior, rule, method, replications, truth=None):
    sharing = mm.Hierarchical() if prior.is_nested else mm.Separate()
    model = mm.RewardPolicyModel(WEIGHT, rule(3.0), sharing, discount=prior)
    source = None if truth is None else mm.RewardPolicyModel(WEIGHT, rule(3.0), sharing, discount=truth)
    sizes = {"tasks": 2, "steps": 40, "seeds": range(replications), "progress": False}
    return mm.calibrate(model, SIX, method, truth=source, **sizes)


LONG = [pytest.param(500, marks=pytest.mark.long)]


@pytest.mark.long
@pytest.mark.parametrize("replications", [40, *LONG])
@pytest.mark.parametrize("rule", [mm.Softmax, pytest.param(mm.SoftOptimal, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("prior", "method"), [("known population", "HMC"), pytest.param("population", "Gibbs", marks=pytest.mark.long)]
)
def test_discounts_are_calibrated(prior, method, rule, replications):
    found = calibrated(PRIORS[prior], rule, METHODS[method], replications)
    assert {"discount", "reward 1"} <= set(found.ranks)
    assert ("discount alpha" in found.ranks) == (prior == "population")
    assert found.p_value > SIGNIFICANCE, found


@pytest.mark.long
@pytest.mark.parametrize("replications", [60, *LONG])
def test_discounts_from_another_prior_are_noticed(replications):
    truth = mm.Beta(alpha=2.0, beta=6.0)
    found = calibrated(PRIORS["known population"], mm.Softmax, METHODS["HMC"], replications, truth)
    assert found.p_values["discount"] < 1e-4


def test_an_experiment_with_discounts_is_recovered():
    model = mm.RewardPolicyModel(WEIGHT, mm.Softmax(3.0), mm.Separate(), discount=PRIORS["known population"])
    found = mm.recover(model, SIX, tasks=4, steps=60, method=METHODS["Gibbs"], progress=False)
    assert len(np.unique(found.discounts)) == 4
    assert (found.losses.drop(columns="task") >= -1e-9).all(axis=None)
