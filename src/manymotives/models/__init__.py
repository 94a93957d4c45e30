"""The paper's generative stories, and their binding to data."""

from manymotives.models.model import Model
from manymotives.models.policy_optimality import OptimalityTarget, PolicyOptimalityModel
from manymotives.models.reward_policy import RewardPolicyModel
from manymotives.models.target import Target

__all__ = ["Model", "OptimalityTarget", "PolicyOptimalityModel", "RewardPolicyModel", "Target"]
