"""manymotives: what many agents want, inferred from what they do.

Names are imported when they are first used: JAX, Numba, Matplotlib and ArviZ take seconds, and most programs need only
some of them. `__init__.pyi` says the same to type checkers.
"""

from importlib import import_module
from typing import Any

import manymotives.interruption  # noqa: F401  first, as the others take seconds

MODULES = ("baselines", "findings", "io", "optimality", "plots", "worlds")
HOMES = {
    "assessment.calibration": ("calibrate",),
    "assessment.design": ("design",),
    "assessment.power": ("power",),
    "assessment.profile": ("profile",),
    "assessment.recovery": ("recover",),
    "data.belief": ("DynamicsBelief",),
    "data.demonstrations": ("Demonstrations",),
    "data.environment": ("Environment",),
    "data.environments": ("Environments",),
    "data.estimation": ("estimate_environment",),
    "fitting.fit": (
        "fit",
        "load",
    ),
    "inference": (
        "HMC",
        "EmpiricalBayes",
        "Gibbs",
        "MaximumLikelihood",
        "Metropolis",
        "MonteCarlo",
        "NestedMonteCarlo",
        "OptimalityMonteCarlo",
    ),
    "models": (
        "PolicyOptimalityModel",
        "RewardPolicyModel",
    ),
    "models.choice": (
        "Softmax",
        "SoftOptimal",
    ),
    "models.mixture": (
        "DirichletProcess",
        "FiniteNumber",
        "Mixture",
    ),
    "models.priors": (
        "Beta",
        "Gamma",
        "HalfNormal",
        "LogNormal",
        "Normal",
    ),
    "models.rewards": (
        "BetaReward",
        "DirichletReward",
        "GaussianReward",
    ),
    "models.sharing": (
        "Hierarchical",
        "Pooled",
        "Separate",
    ),
    "models.smooth": ("SmoothReward",),
    "models.switching": (
        "StickBreaking",
        "Switching",
    ),
    "planning": (
        "evaluate",
        "identifiability",
        "loss",
        "plan",
    ),
    "reporting": ("report",),
    "scoring": ("score",),
    "worlds": ("simulate",),
}
_HOME_OF = {name: home for home, names in HOMES.items() for name in names}

__all__ = sorted((*MODULES, *_HOME_OF))


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        found = getattr(import_module(f"manymotives.{_HOME_OF[name]}"), name)
    elif name in (*MODULES, "errors"):
        found = import_module(f"manymotives.{name}")
    elif name == "__version__":
        found = import_module("manymotives.versions").MANYMOTIVES
    else:
        raise AttributeError(f"module 'manymotives' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return list(__all__)
