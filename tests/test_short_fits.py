"""A few draws of every kind of sampler as plain Python, for `make coverage`: finite, and with log-likelihoods up to 0.

Compiled, other tests fit all of these.
"""

import numba
import numpy as np
import pytest

import manymotives as mm

pytestmark = pytest.mark.skipif(not numba.config.DISABLE_JIT, reason="plain Python is run by `make coverage`")

CHAIN = mm.worlds.Chain(states=3, slip=0.2, discount=0.8)
WIDE = mm.Gamma(shape=2.0, rate=1.0)
GAUSSIAN = mm.GaussianReward(mean=mm.Normal(0.0, 1.0), scale=mm.HalfNormal(1.0))
DIRICHLET = mm.DirichletReward(concentration=WIDE)
OWN = mm.Softmax(WIDE, lapse=mm.Beta(1.0, 4.0))
TABLE = {"task": [0, 1, 2], "x": [0.0, 1.0, 2.5], "z": [1.0, -1.0, 0.0]}
MODELS = {
    "one covariate": mm.RewardPolicyModel(GAUSSIAN, mm.Softmax(WIDE), mm.Hierarchical("x", covariates=TABLE)),
    "two covariates": mm.RewardPolicyModel(DIRICHLET, OWN, mm.Hierarchical("x + z", covariates=TABLE)),
    "hierarchical": mm.RewardPolicyModel(DIRICHLET, OWN, mm.Hierarchical()),
    "pooled": mm.RewardPolicyModel(GAUSSIAN, mm.SoftOptimal(3.0), mm.Pooled()),
    "switching": mm.RewardPolicyModel(GAUSSIAN, mm.Softmax(WIDE), mm.Hierarchical(), switching=mm.Switching()),
    "mixture": mm.RewardPolicyModel(mm.GaussianReward(mean=0.0, scale=1.0), mm.Softmax(2.0), mm.Mixture()),
}


def chosen(environment=CHAIN):
    rewards = np.array([[0.0, 0.2, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.5]])
    return mm.simulate(environment, rewards, mm.Softmax(4.0), steps=8, seed=0)


def check(*given):
    """Fit a model."""
    try:
        posterior = mm.fit(*given, seed=0, progress=False)
    except OverflowError:  # of `math.exp`, where compiled code goes on with infinity and rejects
        assert numba.config.DISABLE_JIT
        pytest.skip("a trajectory went too far for plain Python")
    for name, values in posterior.data["posterior"].dataset.data_vars.items():
        assert np.isfinite(values.values).all(), name
    assert (posterior.data["log_likelihood"].dataset.to_dataarray() <= 0).all()


@pytest.mark.parametrize("method", [mm.HMC, mm.Gibbs], ids=lambda method: method.__name__)
@pytest.mark.parametrize("name", MODELS)
def test_environments_that_are_known(name, method):
    if name == "mixture" and method is mm.Gibbs:
        pytest.skip("has one sampler")
    settings = method(chains=1, draws=4, warmup=4, thin=1)
    check(MODELS[name], CHAIN, chosen(), settings)


@pytest.mark.parametrize("name", ["hierarchical", "pooled"])
def test_environments_that_are_not(name):
    settings = mm.HMC(chains=1, draws=4, warmup=4, thin=1, max_rounds=1)
    check(MODELS[name], mm.DynamicsBelief.around(CHAIN, 3.0), chosen(), settings)


def test_optimality():
    settings = mm.OptimalityMonteCarlo(draws=10)
    posterior = mm.fit(mm.PolicyOptimalityModel(), CHAIN, chosen(), settings, seed=0, progress=False)
    assert np.isfinite(posterior.rewards.values).all()
