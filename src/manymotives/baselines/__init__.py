"""The methods others use, behind one signature: an environment and demonstrations in, labelled policies out."""

from manymotives.baselines.common import Result
from manymotives.baselines.imitation import imitation
from manymotives.baselines.linear_program import linear_program
from manymotives.baselines.maximum_causal_entropy import maximum_causal_entropy
from manymotives.baselines.multiple_intentions import multiple_intentions
from manymotives.baselines.mwal import mwal
from manymotives.baselines.policy_walk import GaussianPrior, LaplacianPrior, UniformPrior, policy_walk
from manymotives.baselines.projection import projection

__all__ = [
    "GaussianPrior",
    "LaplacianPrior",
    "Result",
    "UniformPrior",
    "imitation",
    "linear_program",
    "maximum_causal_entropy",
    "multiple_intentions",
    "mwal",
    "policy_walk",
    "projection",
]
