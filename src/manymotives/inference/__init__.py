"""Ways to sample from a posterior: one algorithm, one file, the same skeleton."""

from manymotives.inference.draws import Draws, Method, OptimalityDraws, RunState, sample, suited
from manymotives.inference.empirical_bayes import EmpiricalBayes
from manymotives.inference.gibbs import Gibbs
from manymotives.inference.hmc import HMC
from manymotives.inference.maximum_likelihood import MaximumLikelihood
from manymotives.inference.metropolis import Metropolis
from manymotives.inference.monte_carlo import MonteCarlo
from manymotives.inference.nested_monte_carlo import NestedMonteCarlo
from manymotives.inference.optimality_monte_carlo import OptimalityMonteCarlo
from manymotives.inference.progress import InParts, Progress

__all__ = [
    "HMC",
    "Draws",
    "EmpiricalBayes",
    "Gibbs",
    "InParts",
    "MaximumLikelihood",
    "Method",
    "Metropolis",
    "MonteCarlo",
    "NestedMonteCarlo",
    "OptimalityDraws",
    "OptimalityMonteCarlo",
    "Progress",
    "RunState",
    "sample",
    "suited",
]
