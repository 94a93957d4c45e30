"""Simulation-based calibration of every method with every prior and choice rule, and controls that must fail.

One failure rate for the whole file: 18 calibrations, each refused below FAILURE / 18.
"""

import pytest

import manymotives as mm

FAILURE = 0.01
ENVIRONMENT = mm.Environment(  # every action matters, and none leads anywhere for certain
    [
        [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]],
        [[0.1, 0.1, 0.8], [0.6, 0.3, 0.1]],
        [[0.1, 0.8, 0.1], [0.3, 0.1, 0.6]],
    ],
    discount=0.8,
)
METHODS = {
    "Metropolis": mm.Metropolis(chains=1, draws=60, warmup=250, thin=12),
    "Gibbs": mm.Gibbs(chains=1, draws=60, warmup=250, thin=12),
    "NestedMonteCarlo": mm.NestedMonteCarlo(draws=300, inner=60),
}
REWARDS = {
    "Dirichlet": mm.DirichletReward(mm.Gamma(shape=3.0, rate=2.0)),
    "Beta": mm.BetaReward(mm.Gamma(shape=3.0, rate=2.0), mm.Gamma(shape=3.0, rate=2.0)),
    "Gaussian": mm.GaussianReward(mean=mm.Normal(mean=0.0, scale=1.0), scale=mm.HalfNormal(scale=1.0)),
}
RULES = {"Softmax": mm.Softmax, "SoftOptimal": mm.SoftOptimal}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("method", METHODS)
def test_the_truth_is_one_more_draw(method, reward, rule):
    model = mm.RewardPolicyModel(REWARDS[reward], RULES[rule]())
    found = mm.calibrate(
        model, ENVIRONMENT, METHODS[method], tasks=3, steps=15, replications=100, seed=1, progress=False
    )
    assert found.p_value > FAILURE / 18, found
