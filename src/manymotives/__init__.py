"""manymotives: what many agents want, inferred from what they do."""

import manymotives.interruption  # noqa: F401  first, as the others take seconds

# isort: split
from manymotives import baselines, findings, plots, worlds
from manymotives.assessment.calibration import Calibration, calibrate
from manymotives.assessment.recovery import Recovery, recover
from manymotives.data.belief import DynamicsBelief
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.estimation import Estimate, estimate_environment
from manymotives.errors import InputError
from manymotives.fitting.fit import fit, load
from manymotives.inference import (
    HMC,
    EmpiricalBayes,
    Gibbs,
    Metropolis,
    MonteCarlo,
    NestedMonteCarlo,
    OptimalityMonteCarlo,
)
from manymotives.inference.optimality.theorem import draws_needed, theorem_bound
from manymotives.io import from_gymnasium, from_minari, from_trajectories, read_demonstrations, read_environment
from manymotives.models import PolicyOptimalityModel, RewardPolicyModel
from manymotives.models.choice import Softmax, SoftOptimal
from manymotives.models.optimality import DistributionOptimality, ExponentialOptimality, UniformOptimality
from manymotives.models.policies import DirichletPolicy
from manymotives.models.priors import Beta, Gamma, HalfNormal, LogNormal, Normal
from manymotives.models.rewards import BetaReward, DirichletReward, GaussianReward, RewardSet
from manymotives.models.sharing import Hierarchical, Pooled, Separate
from manymotives.planning import BeliefPlan, Identifiability, Plan, evaluate, identifiability, loss, loss_matrix, plan
from manymotives.posterior import Posterior
from manymotives.report import report
from manymotives.scoring import Score, score
from manymotives.worlds import ModelBasedLearner, simulate

__all__ = [
    "HMC",
    "BeliefPlan",
    "Beta",
    "BetaReward",
    "Calibration",
    "Demonstrations",
    "DirichletPolicy",
    "DirichletReward",
    "DistributionOptimality",
    "DynamicsBelief",
    "EmpiricalBayes",
    "Environment",
    "Estimate",
    "ExponentialOptimality",
    "Gamma",
    "GaussianReward",
    "Gibbs",
    "HalfNormal",
    "Hierarchical",
    "Identifiability",
    "InputError",
    "LogNormal",
    "Metropolis",
    "ModelBasedLearner",
    "MonteCarlo",
    "NestedMonteCarlo",
    "Normal",
    "OptimalityMonteCarlo",
    "Plan",
    "PolicyOptimalityModel",
    "Pooled",
    "Posterior",
    "Recovery",
    "RewardPolicyModel",
    "RewardSet",
    "Score",
    "Separate",
    "SoftOptimal",
    "Softmax",
    "UniformOptimality",
    "baselines",
    "calibrate",
    "draws_needed",
    "estimate_environment",
    "evaluate",
    "findings",
    "fit",
    "from_gymnasium",
    "from_minari",
    "from_trajectories",
    "identifiability",
    "load",
    "loss",
    "loss_matrix",
    "plan",
    "plots",
    "read_demonstrations",
    "read_environment",
    "recover",
    "report",
    "score",
    "simulate",
    "theorem_bound",
    "worlds",
]
