"""Effects of covariates: a forest of intervals."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from manymotives import findings
from manymotives.plots.common import COLOURS, written
from manymotives.posterior import Posterior

SHOWN = 40  # effects, the surest ones


def effects(posterior: Posterior, *, level: float = 0.95, axes: Axes | None = None) -> Axes:
    """What covariates add to tasks' parameters: posterior means and intervals, surest sign on top; at most forty.

    Numeric covariates are on their own scale: the effect of one unit. Filled dots: the sign has a probability of at
    least 95 %.

    Parameters
    ----------
    level
        Probability of the intervals.
    """
    found, _ = findings.effects(posterior, level=level)
    table = found[:SHOWN]
    position = np.arange(len(table))
    if axes is None:
        _, axes = plt.subplots(figsize=(7, min(16.0, 1.4 + 0.3 * len(table))), layout="constrained")
    axes.axvline(0.0, color="0.55", linewidth=0.8, linestyle="--")
    axes.hlines(position, table["lower"], table["upper"], color=COLOURS[0], linewidth=1.6)
    for sure in (True, False):
        here = ((table["p_direction"] >= 0.95) == sure).to_numpy()
        filled = COLOURS[0] if sure else "white"
        axes.plot(table["mean"][here], position[here], "o", color=COLOURS[0], markerfacecolor=filled, markersize=4.5)
    names = [f"{findings.effect_target(row)}: {row['term']}" for _, row in table.iterrows()]
    axes.set_yticks(position, [written(name, 40) for name in names])
    axes.set_ylim(len(table) - 0.4, -0.6)
    axes.set_xlabel(f"effect, {100 * level:g} % intervals")
    cut = f" ({SHOWN} of {len(found):,})" if len(found) > SHOWN else ""
    axes.set_title(f"What covariates explain{cut}")
    return axes
