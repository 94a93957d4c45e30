"""The paper's generative stories, and their binding to data."""

from manymotives.models.reward_policy import RewardPolicyModel
from manymotives.models.target import Target

__all__ = ["RewardPolicyModel", "Target"]
