"""Is it honest, and what could it show? Recovery, calibration, profiles and designs."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from manymotives.assessment.calibration import Calibration
from manymotives.assessment.design import Design
from manymotives.assessment.profile import DROP, Profile
from manymotives.assessment.recovery import Recovery
from manymotives.plots.common import COLOURS


def recovery(recovery: Recovery, *, axes: Axes | None = None) -> Axes:
    """True values and estimates of a simulated experiment, with 95 % intervals.

    Parameters
    ----------
    recovery
        The result of `mm.recover`.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    if axes is None:
        _, axes = plt.subplots(figsize=(5, 5), layout="constrained")
    table = recovery.table
    below, above = table["mean"] - table["lower"], table["upper"] - table["mean"]
    error = [below.clip(lower=0), above.clip(lower=0)]
    axes.errorbar(table["truth"], table["mean"], yerr=error, fmt="o", markersize=4, color=COLOURS[0], alpha=0.6)
    ends = [min(table["truth"].min(), table["lower"].min()), max(table["truth"].max(), table["upper"].max())]
    axes.plot(ends, ends, color="0.5", linewidth=1)
    axes.set_xlabel("true reward")
    axes.set_ylabel("estimate, 95 % interval")
    axes.set_title(f"correlation {recovery.correlation:.2f}, {recovery.coverage:.0%} covered")
    return axes


def calibration(calibration: Calibration, *, axes: Axes | None = None) -> Axes:
    """How far the ranks of the truth are from uniform: their distribution function minus the diagonal, by quantity.

    The grey band entirely contains 95 % of the curves of calibrated quantities.

    Parameters
    ----------
    calibration
        The result of `mm.calibrate`.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    if axes is None:
        _, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    count = len(calibration.ranks)
    band = 1.36 / np.sqrt(count)  # Kolmogorov's 95 % limit
    axes.axhspan(-band, band, color="0.92")
    axes.axhline(0, color="0.6", linewidth=1)
    at = np.linspace(0, 1, 201)
    for number, (name, column) in enumerate(calibration.ranks.items()):
        share = np.searchsorted(np.sort(column), at, side="right") / count
        axes.plot(at, share - at, color=COLOURS[number % len(COLOURS)], linewidth=1.2, label=str(name))
    axes.set_xlabel("rank of the truth among the draws")
    axes.set_ylabel("share below, minus the expected share")
    axes.set_title(f"{count} replications, p = {calibration.p_value:.2g}")
    axes.legend(fontsize=7, ncols=2, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return axes


def profile(profile: Profile, *, axes: Axes | None = None) -> Axes:
    """How well each value of a parameter explains choices, relative to the best; values above the line are about as
    good as the best.

    Parameters
    ----------
    profile
        The result of `mm.profile`.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    if axes is None:
        _, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    table = profile.table
    axes.axvspan(*profile.interval, color="0.92")
    axes.axhline(-DROP, color="0.6", linewidth=1)
    axes.plot(table["value"], table["relative"], "o-", markersize=4, color=COLOURS[0])
    lowest = table["relative"][np.isfinite(table["relative"])].min()
    axes.set_ylim(max(lowest, -12.0) - 0.5, 0.5)
    axes.set_xlabel(profile.parameter.replace("_", " "))
    axes.set_ylabel(f"log {profile.criterion}, relative to the largest")
    axes.set_title(str(profile), fontsize=9, wrap=True)
    return axes


def design(design: Design, *, most: int = 25, axes: Axes | None = None) -> Axes:
    """The expected information from each candidate, the most informative on top: two errors as a line, bounds as a bar.

    Filled points cannot be distinguished from the best candidate.

    Parameters
    ----------
    design
        The result of `mm.design`.
    most
        The largest number of candidates to show.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    table = design.table.head(most)
    if axes is None:
        _, axes = plt.subplots(figsize=(6.5, 1.2 + 0.3 * len(table)), layout="constrained")
    close = table.index.isin(design.close.index)
    at = np.arange(len(table))[::-1]
    axes.barh(at, table["upper"] - table["lower"], left=table["lower"], height=0.55, color="0.88", label="bounds")
    axes.errorbar(table["information"], at, xerr=2 * table["error"], fmt="none", ecolor=COLOURS[0], elinewidth=1.2)
    for is_close, face, words in (
        (True, COLOURS[0], "the best, and those not distinguished from it"),
        (False, "white", "less informative"),
    ):
        some = close == is_close
        if some.any():
            axes.plot(
                table["information"][some],
                at[some],
                "o",
                markerfacecolor=face,
                markeredgecolor=COLOURS[0],
                markersize=6,
                label=words,
            )
    names = [str(name) for name in table["candidate"]]
    if "start" in table:
        names = [f"{name} from {start}" for name, start in zip(names, table["start"])]
    axes.set_yticks(at, names)
    axes.axvline(0, color="0.6", linewidth=1)
    about = "the whole motive" if design.contrast is None else design.contrast
    axes.set_xlabel(f"expected information about {about}, nats (± 2 errors)")
    more = f"; {len(design.table) - most} more are not shown" if len(design.table) > most else ""
    axes.set_title(f"{design.choices} choices in each candidate, {design.draws} draws{more}", fontsize=9)
    axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return axes
