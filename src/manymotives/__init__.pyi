"""manymotives: what many agents want, inferred from what they do."""

from manymotives import baselines, findings, io, optimality, plots, worlds
from manymotives import errors as errors
from manymotives.assessment.calibration import calibrate
from manymotives.assessment.design import design
from manymotives.assessment.power import power
from manymotives.assessment.profile import profile
from manymotives.assessment.recovery import recover
from manymotives.data.belief import DynamicsBelief
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.environments import Environments
from manymotives.data.estimation import estimate_environment
from manymotives.fitting.fit import fit, load
from manymotives.inference import (
    HMC,
    EmpiricalBayes,
    Gibbs,
    MaximumLikelihood,
    Metropolis,
    MonteCarlo,
    NestedMonteCarlo,
    OptimalityMonteCarlo,
)
from manymotives.models import PolicyOptimalityModel, RewardPolicyModel
from manymotives.models.choice import Softmax, SoftOptimal
from manymotives.models.mixture import DirichletProcess, FiniteNumber, Mixture
from manymotives.models.priors import Beta, Gamma, HalfNormal, LogNormal, Normal
from manymotives.models.rewards import BetaReward, DirichletReward, GaussianReward
from manymotives.models.sharing import Hierarchical, Pooled, Separate
from manymotives.models.smooth import SmoothReward
from manymotives.models.switching import StickBreaking, Switching
from manymotives.planning import evaluate, identifiability, loss, plan
from manymotives.reporting import report
from manymotives.scoring import score
from manymotives.worlds import simulate

__version__: str
__all__ = [
    "HMC",
    "Beta",
    "BetaReward",
    "Demonstrations",
    "DirichletProcess",
    "DirichletReward",
    "DynamicsBelief",
    "EmpiricalBayes",
    "Environment",
    "Environments",
    "FiniteNumber",
    "Gamma",
    "GaussianReward",
    "Gibbs",
    "HalfNormal",
    "Hierarchical",
    "LogNormal",
    "MaximumLikelihood",
    "Metropolis",
    "Mixture",
    "MonteCarlo",
    "NestedMonteCarlo",
    "Normal",
    "OptimalityMonteCarlo",
    "PolicyOptimalityModel",
    "Pooled",
    "RewardPolicyModel",
    "Separate",
    "SmoothReward",
    "SoftOptimal",
    "Softmax",
    "StickBreaking",
    "Switching",
    "baselines",
    "calibrate",
    "design",
    "estimate_environment",
    "evaluate",
    "findings",
    "fit",
    "identifiability",
    "io",
    "load",
    "loss",
    "optimality",
    "plan",
    "plots",
    "power",
    "profile",
    "recover",
    "report",
    "score",
    "simulate",
    "worlds",
]
