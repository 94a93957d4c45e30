"""The room of the gallery of errors for designs: candidates, contrasts, what cannot be designed for."""

import numpy as np

import manymotives as mm
from error_gallery_data import CHAIN, CHAIN_DATA
from manymotives.commands.design import _named

MODEL = mm.RewardPolicyModel(mm.GaussianReward(mean=0.0, scale=1.0), mm.Softmax(2.0), mm.Pooled())
KNOWN = {"chain": CHAIN}
OTHER = mm.Environment(np.full((2, 2, 2), 0.5), discount=CHAIN.discount, states=["x", "y"])


def design(candidates=KNOWN, beliefs=MODEL, contrast=None, **how):
    return mm.design(candidates, beliefs, contrast, **({"steps": 3, "draws": 100, "progress": False} | how))


def posterior(sharing=None, draws=200, **parts):
    model = mm.RewardPolicyModel(
        **({"reward": MODEL.reward, "choice": MODEL.choice, "sharing": sharing or mm.Pooled()} | parts)
    )
    return mm.fit(model, CHAIN, CHAIN_DATA, mm.MonteCarlo(draws=draws), progress=False)


DESIGNS = {
    # ---- candidates
    "a candidate without a name": lambda: design(CHAIN),
    "no candidates": lambda: design({}),
    "a candidate that is a table": lambda: design({"chain": CHAIN.transitions}),
    "a candidate that is not known": lambda: design(
        {"chain": mm.DynamicsBelief.from_demonstrations(CHAIN_DATA, discount=0.9)}
    ),
    "a candidate of several": lambda: design({"all": mm.Environments(KNOWN)}),
    "a start that does not exist": lambda: design(starts=["moon"]),
    "no states to start from": lambda: design(starts=[]),
    "two ways to start": lambda: design({"chain": (CHAIN, CHAIN.states[0])}, starts=[CHAIN.states[1]]),
    "candidates with nothing in common": lambda: design({"chain": CHAIN, "other": OTHER}),
    # ---- sizes
    "no steps to learn from": lambda: design(steps=0),
    "half a round": lambda: design(rounds=1.5),
    "too few draws for groups": lambda: design(draws=20),
    "a posterior of too few draws": lambda: design(beliefs=posterior(draws=50)),
    # ---- contrasts
    "a contrast with nobody": lambda: design(contrast=f"{CHAIN.states[0]} - moon"),
    "a contrast of three": lambda: design(contrast=" - ".join(map(str, CHAIN.states[:3]))),
    "a contrast with itself": lambda: design(contrast=(CHAIN.states[0], CHAIN.states[0])),
    "a contrast in words": lambda: design(contrast={CHAIN.states[0]: "much"}),
    "a contrast of what is known": lambda: design(contrast="inverse_temperature"),
    # ---- what is believed
    "a design for no model": lambda: design(beliefs=CHAIN),
    "a design without a softmax": lambda: design(beliefs=mm.PolicyOptimalityModel()),
    "a design where motives switch": lambda: design(
        beliefs=mm.RewardPolicyModel(MODEL.reward, MODEL.choice, mm.Pooled(), switching=mm.Switching(motives=2))
    ),
    "a design for episodes": lambda: design(
        beliefs=mm.RewardPolicyModel(MODEL.reward, MODEL.choice, mm.Mixture(by="episode"))
    ),
    "a design with covariates": lambda: design(
        beliefs=mm.RewardPolicyModel(
            MODEL.reward, MODEL.choice, mm.Hierarchical("age", covariates={"task": [0, 1], "age": [1.0, 2.0]})
        )
    ),
    "a subject of a model": lambda: design(task="ann"),
    "features of a model": lambda: design(features=np.eye(3)),
    "a new subject without a population": lambda: design(beliefs=posterior(mm.Separate())),
    "a new subject without a temperature": lambda: design(
        beliefs=posterior(mm.Hierarchical(), choice=mm.Softmax([1.0, 2.0]))
    ),
    "a candidate with unknown states": lambda: design({"other": OTHER}, posterior()),
    "residuals of unknown states": lambda: design(
        {"other": OTHER},
        posterior(reward=mm.GaussianReward(features=np.eye(3), mean=0.0, scale=1.0, residual=True)),
        features=np.ones((2, 3)),
    ),
    # ---- the command line
    "a start that nobody knows": lambda: _named("moon", ("earth",), "--start"),
}
