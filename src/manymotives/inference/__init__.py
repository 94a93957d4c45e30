"""Ways to sample from a posterior: one algorithm, one file, the same skeleton."""

from manymotives.inference.draws import Draws, Method, OptimalityDraws
from manymotives.inference.empirical_bayes import EmpiricalBayes
from manymotives.inference.gibbs import Gibbs
from manymotives.inference.hmc import HMC
from manymotives.inference.metropolis import Metropolis
from manymotives.inference.monte_carlo import MonteCarlo
from manymotives.inference.nested_monte_carlo import NestedMonteCarlo
from manymotives.inference.optimality_monte_carlo import OptimalityMonteCarlo
from manymotives.inference.progress import InParts, Progress

METHODS = (HMC, Gibbs, Metropolis, NestedMonteCarlo, MonteCarlo, EmpiricalBayes)  # of RewardPolicyModel

__all__ = [
    "HMC",
    "METHODS",
    "Draws",
    "EmpiricalBayes",
    "Gibbs",
    "InParts",
    "Method",
    "Metropolis",
    "MonteCarlo",
    "NestedMonteCarlo",
    "OptimalityDraws",
    "OptimalityMonteCarlo",
    "Progress",
]
