"""Small experiments for the tests of power: a choice between two arms, and a pilot in a corridor."""

import numpy as np

import manymotives as mm

SIGMA, MEAN_SCALE, EFFECT_SCALE = 0.8, 1.0, 2.5
GROUPS = {"task": ["a", "b"], "group": ["free", "restricted"]}


def two_arms():
    """One state, two actions that lead back to it; what is chosen depends on the rewards of the two alone."""
    return mm.Environment(np.ones((1, 2, 1)), discount=0.0, states=["booth"], actions=["left", "right"])


def arms_model(formula="group", scale=SIGMA, mean=None):
    """The log odds of left are a weight, normal between subjects with a standard deviation that is known."""
    features = np.array([[[0.5], [-0.5]]])
    mean = mm.Normal(mean=0.0, scale=MEAN_SCALE) if mean is None else mean
    reward = mm.GaussianReward(features, mean=mean, scale=scale, names=["left"], on="state_action")
    sharing = mm.Hierarchical(formula, covariates=GROUPS, effect_scale=EFFECT_SCALE) if formula else mm.Hierarchical()
    return mm.RewardPolicyModel(reward, mm.Softmax(1.0), sharing)


def corridor():
    """Three states in a row, and a terminal one nowhere."""
    return mm.worlds.Chain(states=3, slip=0.1, discount=0.8)
