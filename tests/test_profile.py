"""Profiles of one number: against estimates and evidence of independent code, and what they say."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import special

import manymotives as mm
from oracle_bus import bus_environment, choice_counts, maximum_likelihood
from oracle_bus import simulate as simulated_buses
from oracle_discount import log_likelihoods, rewards_of_pairs
from test_discount import SIX, TRUTH

BETAS = [0.9, 0.95, 0.975, 0.985]
BANDIT = mm.Environment(np.full((2, 2, 2), 0.5), discount=0.9)  # what is done changes nothing but the reward


def test_a_profile_likelihood_is_that_of_maximum_likelihood():
    transitions, features = bus_environment(states=60)
    bins, decisions = simulated_buses(0, parameters=np.array([8.0, 8.0]), states=60)
    counts = choice_counts(bins, decisions, states=60)
    environment = mm.Environment(transitions, discount=0.5, actions=["keep", "replace"])
    table = {"bus": np.repeat(np.arange(50), 120), "state": bins.ravel(), "action": decisions.ravel()}
    table["action"] = np.array(environment.actions)[table["action"]]
    demonstrations = mm.Demonstrations.from_frame(pd.DataFrame(table), environment, task="bus")
    reward = mm.GaussianReward(features, on="state_action", mean=5.0, scale=5.0)
    model = mm.RewardPolicyModel(reward, mm.SoftOptimal(1.0), mm.Pooled())
    found = mm.profile(model, environment, demonstrations, "discount", BETAS, criterion="likelihood", progress=False)
    expected = [
        maximum_likelihood(counts, transitions, features, discount, np.array([8.0, 8.0])).log_likelihood
        for discount in BETAS
    ]
    np.testing.assert_allclose(found.table["log_likelihood"], expected, atol=1e-5)
    assert found.table["converged"].all()
    np.testing.assert_allclose(found.table["relative"].max(), 0.0)


@pytest.mark.parametrize("rule", [mm.Softmax, mm.SoftOptimal])
def test_the_evidence_of_a_profile_is_nearly_exact(rule):
    grid = np.array([0.1, 0.3, 0.5, 0.7, 0.9, 0.97])
    demonstrations = mm.simulate(SIX, TRUTH[None], rule(3.0), steps=300, seed=1, discount=0.7)
    reward = mm.GaussianReward(features=TRUTH[:, None], mean=1.0, scale=0.3)
    model = mm.RewardPolicyModel(reward, rule(3.0), mm.Pooled(), discount=mm.Beta(alpha=1.0, beta=1.0))
    found = mm.profile(model, SIX, demonstrations, "discount", grid, progress=False)
    z = np.linspace(-7.0, 7.0, 141)
    weights, masses = 1.0 + 0.3 * z, -(z**2) / 2 - special.logsumexp(-(z**2) / 2)
    rewards = rewards_of_pairs(weights[:, None], TRUTH[:, None], 3)
    exact = [
        special.logsumexp(
            masses
            + log_likelihoods(
                SIX.tensor,
                np.full(141, d),
                rewards,
                np.full(141, 3.0),
                demonstrations.counts[0],
                rule is mm.SoftOptimal,
            )
        )
        for d in grid
    ]
    np.testing.assert_allclose(found.table["log_evidence"], exact, atol=0.1)  # Laplace: a normal for what is nearly one
    low, high = found.interval
    assert low < 0.7 < high


def test_what_profiles_say():
    rng = np.random.default_rng(0)
    demonstrations = mm.simulate(BANDIT, rng.normal(size=(1, 2, 2)), mm.Softmax(1.0), steps=50, on="state_action")
    reward = mm.GaussianReward(on="state_action", mean=0.0, scale=1.0)
    prior = mm.Beta(alpha=2.0, beta=1.0)
    model = mm.RewardPolicyModel(reward, mm.Softmax(1.0), mm.Pooled(), discount=prior)
    flat = mm.profile(model, BANDIT, demonstrations, progress=False)
    assert abs(flat.table["relative"]).max() < 1e-6
    assert not flat.identified
    assert "not identified: every value from 0.05 to 0.99" in str(flat)
    posterior = mm.fit(model, BANDIT, demonstrations, mm.Gibbs(chains=2, draws=200, warmup=100, thin=4), progress=False)
    assert any("the discount is not identified" in warning for warning in posterior.warnings)
    assert "the discount is not identified" in str(posterior.summary())

    choices = mm.simulate(SIX, TRUTH[None], mm.Softmax(8.0), steps=400, seed=2, discount=0.6)
    reward = mm.GaussianReward(features=TRUTH[:, None], mean=1.0, scale=0.1)
    told = mm.RewardPolicyModel(reward, mm.Softmax(8.0), mm.Pooled())
    sharp = mm.profile(told, SIX, choices, "discount", np.linspace(0.05, 0.95, 19), progress=False)
    assert sharp.identified
    assert sharp.interval[0] < 0.6 < sharp.interval[1]
    assert str(sharp).startswith("The choices support a discount from")
    axes = mm.plots.profile(sharp)
    assert axes.get_xlabel() == "discount"
    plt.close(axes.figure)
    for parameter, grid, true in (
        ("inverse_temperature", [2.0, 8.0, 16.0, 64.0], 8.0),
        ("lapse", [0.0, 0.02, 0.3], 0.0),
    ):
        found = mm.profile(told, SIX.with_discount(0.6), choices, parameter, grid, progress=False)
        assert found.interval[0] <= true <= found.interval[1]
        assert found.is_bounded[1]


@pytest.mark.long
def test_a_population_is_found_anew_at_every_value():
    demonstrations = mm.simulate(
        SIX, np.repeat(TRUTH[None], 4, axis=0), mm.Softmax(5.0), steps=100, seed=1, discount=0.6
    )
    reward = mm.GaussianReward(features=TRUTH[:, None], mean=mm.Normal(0.0, 1.0), scale=mm.HalfNormal(0.5))
    model = mm.RewardPolicyModel(reward, mm.Softmax(5.0), mm.Hierarchical())
    found = mm.profile(model, SIX, demonstrations, "discount", [0.1, 0.6, 0.97], progress=False)
    assert found.best == 0.6
