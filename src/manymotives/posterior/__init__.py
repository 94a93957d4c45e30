"""What was inferred: one kind of posterior for each kind of model."""

from manymotives.posterior.common import Posterior, Summary
from manymotives.posterior.policy_optimality import PolicyOptimalityPosterior
from manymotives.posterior.reward_policy import RewardPolicyPosterior

__all__ = ["PolicyOptimalityPosterior", "Posterior", "RewardPolicyPosterior", "Summary"]
