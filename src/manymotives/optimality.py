"""What a `PolicyOptimalityModel` is made of: priors of policies and of the gap from optimal; the draws it needs."""

from manymotives.inference.optimality.theorem import draws_needed, theorem_bound
from manymotives.models.optimality import DistributionOptimality, ExponentialOptimality, UniformOptimality
from manymotives.models.policies import DirichletPolicy

__all__ = [
    "DirichletPolicy",
    "DistributionOptimality",
    "ExponentialOptimality",
    "UniformOptimality",
    "draws_needed",
    "theorem_bound",
]
