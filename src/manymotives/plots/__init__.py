"""Pictures of data and results; every function draws on axes it is given, or makes its own, and returns them."""

from manymotives.plots.checks import plot_calibration, plot_recovery
from manymotives.plots.feature_weights import plot_feature_weights
from manymotives.plots.findings import (
    plot_ladder,
    plot_learning,
    plot_policies,
    plot_predictive_check,
    plot_similarity,
    plot_temperatures,
)
from manymotives.plots.posteriors import plot_optimality, plot_rewards, plot_weights
from manymotives.plots.tables import plot_choices, plot_maps, plot_table

__all__ = [
    "plot_calibration",
    "plot_choices",
    "plot_feature_weights",
    "plot_ladder",
    "plot_learning",
    "plot_maps",
    "plot_optimality",
    "plot_policies",
    "plot_predictive_check",
    "plot_recovery",
    "plot_rewards",
    "plot_similarity",
    "plot_table",
    "plot_temperatures",
    "plot_weights",
]
