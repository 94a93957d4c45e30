"""A power analysis in; power against the number of subjects, one line for each number of steps, out."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from manymotives.assessment.power_result import Power
from manymotives.plots.common import COLOURS, written


def power(found: Power, *, axes: Axes | None = None) -> Axes:
    """The power of experiments of each size, with 95 % Monte Carlo intervals and the desired power.

    If some fits did not converge, a dotted line next to the point shows what the power would be if all of them had
    decided against the contrast (lower end) or for it (upper end).

    Parameters
    ----------
    found
        The result of `mm.power`.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    if axes is None:
        _, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    table, word = found.table, "assurance" if found.is_assurance else "power"
    lines = list(table.groupby("steps", sort=True))
    axes.axhline(found.target, color="0.45", linewidth=0.9, linestyle="--")
    beside: Any = {"xycoords": ("axes fraction", "data"), "va": "center", "color": "0.35", "fontsize": 8}
    axes.annotate(f"wanted:\n{found.target:g}", (1.01, found.target), **beside)
    for number, (steps, part) in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        x = part["subjects"].to_numpy() * 1.02 ** (number - (len(lines) - 1) / 2)  # side by side where they would meet
        value = part["power"].to_numpy()
        error = np.abs(np.stack([value - part["power_lower"], part["power_upper"] - value]))
        axes.errorbar(x, value, error, color=colour, marker="o", markersize=4.5, linewidth=1.6, capsize=3,
                      label=f"{steps} steps")  # fmt: skip
        failed = (part["not_converged"] > 0).to_numpy()
        bounds = part[["power_if_no", "power_if_yes"]].to_numpy()[failed]
        axes.vlines(1.04 * x[failed], bounds[:, 0], bounds[:, 1], color="0.3", linewidth=1.2, linestyle=":")
    axes.set_xscale("log")
    ticks = sorted(set(table["subjects"]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks, list(map(str, ticks)))
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel("subjects")
    axes.set_ylabel(f"{word}: share of experiments that detect the contrast")
    axes.set_title(written(found.contrast, 60))
    axes.legend(frameon=False, loc="lower right")
    return axes
