"""The room of the gallery of errors for maximum likelihood: settings, models without a maximum, tests of models."""

from dataclasses import replace

import numpy as np
import pandas as pd

import manymotives as mm
from error_gallery_data import CHAIN, CHAIN_DATA, VAGUE
from likelihood_examples import LEFT, bandit

QUICK = mm.MaximumLikelihood(draws=5, starts=1)
TWO_ARMS = mm.RewardPolicyModel(LEFT, mm.Softmax(1.0), mm.Separate())
RING = mm.Environment(
    [[[0.9, 0.1, 0.0], [0.1, 0.0, 0.9]], [[0.1, 0.9, 0.0], [0.0, 0.1, 0.9]], [[0.9, 0.0, 0.1], [0.0, 0.9, 0.1]]],
    discount=0.9,
    states=["hall", "kitchen", "garden"],
    actions=["on", "back"],
)
IN_RING = mm.simulate(RING, np.array([[0.0, 1.0, 0.5]]), mm.SoftOptimal(1.0), steps=100, tasks=["ann"])
FREE = mm.RewardPolicyModel(mm.GaussianReward(), mm.SoftOptimal(1.0), mm.Pooled())
HIERARCHICAL = mm.RewardPolicyModel(LEFT, mm.Softmax(1.0), mm.Hierarchical())


def fit(model=TWO_ARMS, made=None, method=QUICK, environment=None, data=None):
    """Of two arms, unless told otherwise."""
    place, seen = bandit(made or {"ann": (3, 2), "bob": (1, 2)})
    return mm.fit(model, environment or place, data or seen, method, progress=False)


def in_ring(**changes):
    return mm.fit(replace(FREE, **changes), RING, IN_RING, QUICK, progress=False)


def forced():
    """Choices where there is nothing to choose."""
    place = mm.Environment(np.ones((1, 2, 1)), discount=0.9, available=[[True, False]])
    frame = pd.DataFrame({"task": ["ann", "ann"], "state": [0, 0], "action": [0, 0]})
    return mm.fit(TWO_ARMS, place, mm.Demonstrations.from_frame(frame, place), QUICK, progress=False)


def lapsing(made):
    lapse = mm.Beta(alpha=1.0, beta=1.0)
    known = mm.GaussianReward(np.array([[[1.0], [0.0]]]), on="state_action")
    return fit(replace(TWO_ARMS, reward=known, choice=mm.Softmax(1.0, lapse=lapse)), made)


def ratio(restricted, full=TWO_ARMS, method=QUICK, made=None):
    return fit(full).likelihood_ratio(fit(restricted, made=made, method=method))


LIKELIHOODS = {
    # ---- settings
    "a criterion that is none": lambda: mm.MaximumLikelihood(criterion="evidence"),
    "errors of no kind": lambda: mm.MaximumLikelihood(errors="large"),
    "no starts": lambda: mm.MaximumLikelihood(starts=0),
    "starts that are numbers": lambda: mm.MaximumLikelihood(starts=[1.0, 2.0]),
    "a start of an unknown weight": lambda: fit(method=replace(QUICK, starts=[{"lfet": 1.0}])),
    "a start that is no number": lambda: fit(method=replace(QUICK, starts=[{"left": "far"}])),
    "a start of a share": lambda: in_ring_of_shares(),
    "clusters of one": lambda: fit(method=replace(QUICK, errors="robust")),
    # ---- models
    "the likelihood of a hierarchy": lambda: fit(HIERARCHICAL),
    "the mode of a hierarchy": lambda: fit(HIERARCHICAL, method=replace(QUICK, criterion="posterior")),
    "the likelihood of an unknown environment": lambda: mm.fit(
        mm.RewardPolicyModel(sharing=mm.Pooled()), VAGUE, CHAIN_DATA, QUICK, progress=False
    ),
    "the likelihood of motives that switch": lambda: mm.fit(
        mm.RewardPolicyModel(sharing=mm.Pooled(), switching=mm.Switching(2)), CHAIN, CHAIN_DATA, QUICK, progress=False
    ),
    "the likelihood of shared motives": lambda: fit(replace(TWO_ARMS, sharing=mm.Mixture())),
    # ---- no maximum
    "nothing to choose": forced,
    "always the same arm": lambda: fit(made={"ann": (3, 2), "bob": (9, 0), "cem": (0, 4)}),
    "free rewards": in_ring,
    "rewards and their scale": lambda: in_ring(
        reward=mm.GaussianReward(np.eye(3)[:, 1:], names=["kitchen", "garden"]),
        choice=mm.SoftOptimal(mm.Gamma(shape=2.0, rate=1.0)),
    ),
    "a weight and a lapse rate": lambda: lapsing({"ann": (9, 3), "bob": (5, 4)}),
    # ---- profiles of weights
    "a profile of an unknown weight": lambda: mm.profile(
        TWO_ARMS, *bandit({"ann": (3, 2)}), "weight:right", [0.0, 1.0, 2.0], criterion="likelihood", progress=False
    ),
    "a profile of a weight by evidence": lambda: mm.profile(
        TWO_ARMS, *bandit({"ann": (3, 2)}), "weight:left", [0.0, 1.0, 2.0], progress=False
    ),
    # ---- what is made of estimates
    "estimates of a chain": lambda: mm.fit(FREE, RING, IN_RING, mm.MonteCarlo(draws=5), progress=False).estimates(),
    "estimates at no level": lambda: fit().estimates(level=95),
    "a ratio with something else": lambda: fit().likelihood_ratio("pooled"),
    "a ratio of other choices": lambda: ratio(
        replace(TWO_ARMS, sharing=mm.Pooled()), made={"ann": (3, 2), "bob": (2, 1)}
    ),
    "a ratio the wrong way round": lambda: ratio(TWO_ARMS, full=replace(TWO_ARMS, sharing=mm.Pooled())),
    "a ratio of a model with itself": lambda: ratio(TWO_ARMS),
    "a ratio of other rewards": lambda: ratio(
        replace(TWO_ARMS, reward=mm.GaussianReward(np.array([[[1.0], [2.0]]]), on="state_action"))
    ),
    "a ratio of other temperatures": lambda: ratio(replace(TWO_ARMS, choice=mm.Softmax(2.0))),
    "a ratio with a mode": lambda: ratio(
        replace(TWO_ARMS, reward=replace(LEFT, mean=0.0, scale=1.0)), method=replace(QUICK, criterion="posterior")
    ),
}


def in_ring_of_shares():
    method = replace(QUICK, starts=[{"hall": 0.2}])
    return mm.fit(replace(FREE, reward=mm.DirichletReward()), RING, IN_RING, method, progress=False)
