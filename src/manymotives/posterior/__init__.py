"""What was inferred: one kind of posterior for each kind of model."""

from manymotives.posterior.common import Posterior
from manymotives.posterior.counterfactual import Counterfactual
from manymotives.posterior.mixture import MixturePosterior
from manymotives.posterior.partitions import Partition
from manymotives.posterior.policy_optimality import PolicyOptimalityPosterior
from manymotives.posterior.reward_policy import RewardPolicyPosterior
from manymotives.posterior.summary import Summary
from manymotives.posterior.switching import SwitchingPosterior

__all__ = [
    "Counterfactual",
    "MixturePosterior",
    "Partition",
    "PolicyOptimalityPosterior",
    "Posterior",
    "RewardPolicyPosterior",
    "Summary",
    "SwitchingPosterior",
]
