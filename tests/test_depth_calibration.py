"""Simulation-based calibration of agents who look some steps ahead: truth from the prior, choices, ranks; a control."""

import pytest

import manymotives as mm
from goodness_of_fit import SIGNIFICANCE
from test_depth import FEATURE, SIX

WEIGHT = mm.GaussianReward(features=FEATURE[:, None], mean=1.0, scale=1.0)
METHODS = {
    "HMC": mm.HMC(chains=1, draws=100, warmup=100, thin=4, max_rounds=1),
    "Gibbs": mm.Gibbs(chains=1, draws=100, warmup=100, thin=10),
}
MODELS = {
    "a weight": {"reward": WEIGHT, "sharing": mm.Separate()},
    "a weight and a discount": {"reward": WEIGHT, "sharing": mm.Separate(), "discount": mm.Beta(4.0, 2.0)},
    "pairs of one population": {
        "reward": mm.GaussianReward(on="state_action", mean=0.0, scale=mm.HalfNormal(1.0)),
        "sharing": mm.Hierarchical(),
    },
}
LONG = [pytest.param(500, marks=pytest.mark.long)]


def calibrated(kind, rule, method, replications, depth=3, truth=None):
    model = mm.RewardPolicyModel(choice=rule(2.0), depth=depth, **MODELS[kind])
    source = None if truth is None else mm.RewardPolicyModel(choice=rule(2.0), depth=truth, **MODELS[kind])
    sizes = {"tasks": 2, "steps": 40, "seeds": range(replications), "progress": False}
    return mm.calibrate(model, SIX, METHODS[method], truth=source, **sizes)


@pytest.mark.long
@pytest.mark.parametrize("replications", [40, *LONG])
@pytest.mark.parametrize(
    ("kind", "rule", "method"),
    [
        ("a weight", mm.Softmax, "HMC"),
        pytest.param("a weight and a discount", mm.SoftOptimal, "HMC", marks=pytest.mark.long),
        pytest.param("a weight and a discount", mm.Softmax, "Gibbs", marks=pytest.mark.long),
        pytest.param("pairs of one population", mm.SoftOptimal, "HMC", marks=pytest.mark.long),
        pytest.param("pairs of one population", mm.Softmax, "Gibbs", marks=pytest.mark.long),
    ],
)
def test_agents_who_look_three_steps_ahead_are_calibrated(kind, rule, method, replications):
    found = calibrated(kind, rule, method, replications)
    assert ("discount" in found.ranks) == ("discount" in kind)
    assert found.p_value > SIGNIFICANCE, found


@pytest.mark.long
@pytest.mark.parametrize("replications", [40, *LONG])
def test_agents_who_look_less_far_are_noticed(replications):
    found = calibrated("a weight", mm.Softmax, "HMC", replications, depth=6, truth=2)
    assert found.p_value < 1e-4, found
