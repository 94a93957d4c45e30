"""Pictures of data and results; every function draws on axes it is given, or makes its own, and returns them."""

from manymotives.plots.checks import calibration, design, profile, recovery
from manymotives.plots.counterfactual import counterfactual
from manymotives.plots.effects import effects, predictions
from manymotives.plots.feature_weights import feature_weights
from manymotives.plots.findings import comparison, learning, policies, ppc, similarity, temperatures
from manymotives.plots.mixture import number_of_motives, together
from manymotives.plots.motives import motive_transitions, motives
from manymotives.plots.posteriors import optimality, rewards, weights
from manymotives.plots.power import power
from manymotives.plots.tables import choices, maps

__all__ = [
    "calibration",
    "choices",
    "comparison",
    "counterfactual",
    "design",
    "effects",
    "feature_weights",
    "learning",
    "maps",
    "motive_transitions",
    "motives",
    "number_of_motives",
    "optimality",
    "policies",
    "power",
    "ppc",
    "predictions",
    "profile",
    "recovery",
    "rewards",
    "similarity",
    "temperatures",
    "together",
    "weights",
]
