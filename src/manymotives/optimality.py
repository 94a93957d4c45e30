"""What a `PolicyOptimalityModel` is made of: priors of policies and of the gap from optimal; the draws it needs."""

from manymotives.inference.optimality.theorem import draws_needed, theorem_bound
from manymotives.models.optimality import DistributionOptimality, ExponentialOptimality, UniformOptimality
from manymotives.models.policies import DirichletPolicy
from manymotives.models.rewards import RewardSet
from manymotives.planning import loss_matrix

__all__ = [
    "DirichletPolicy",
    "DistributionOptimality",
    "ExponentialOptimality",
    "RewardSet",
    "UniformOptimality",
    "draws_needed",
    "loss_matrix",
    "theorem_bound",
]
