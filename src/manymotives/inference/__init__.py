"""Ways to sample from a posterior: one algorithm, one file, the same skeleton.

A method is imported when it is first used, and with it what it alone needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from manymotives.inference.draws import Draws, Method, OptimalityDraws, RunState, sample, suited
from manymotives.inference.progress import InParts, Progress

if TYPE_CHECKING:
    from manymotives.inference.empirical_bayes import EmpiricalBayes
    from manymotives.inference.gibbs import Gibbs
    from manymotives.inference.hmc import HMC
    from manymotives.inference.maximum_likelihood import MaximumLikelihood
    from manymotives.inference.metropolis import Metropolis
    from manymotives.inference.monte_carlo import MonteCarlo
    from manymotives.inference.nested_monte_carlo import NestedMonteCarlo
    from manymotives.inference.optimality_monte_carlo import OptimalityMonteCarlo

METHODS = {
    "HMC": "hmc",
    "EmpiricalBayes": "empirical_bayes",
    "Gibbs": "gibbs",
    "MaximumLikelihood": "maximum_likelihood",
    "Metropolis": "metropolis",
    "MonteCarlo": "monte_carlo",
    "NestedMonteCarlo": "nested_monte_carlo",
    "OptimalityMonteCarlo": "optimality_monte_carlo",
}

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
    "import_methods",
    "sample",
    "suited",
]


def import_methods() -> None:
    """Import all of them, for those who look for one by its name, as in a file."""
    for module in METHODS.values():
        import_module(f"{__name__}.{module}")


def __getattr__(name: str) -> Any:
    if name not in METHODS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{METHODS[name]}"), name)
