"""A panel as a picture, in the paper's form: means with standard errors, told apart in grey and by the colour-blind."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from manymotives.experiments.panel import Look, Panel
from manymotives.io.atomic import whole_file
from manymotives.plots.common import COLOURS

MARKERS = "osD^vPX*<>"
DASHES = ["-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)), (0, (8, 2))]
ACROSS = 3  # small pictures in a row
FORMATS = ("png", "svg")
DODGE = 0.012  # of the width of the axes, between series


def draw(panel: Panel, curves: pd.DataFrame, folder: Path) -> list[str]:
    """The default reading as a picture and, where others were run, all of them side by side; the pictures' names."""
    of_panel = curves[(curves["panel"] == panel.name) & (curves["measure"] == panel.look.measure)]
    readings = [reading for reading in panel.readings if (of_panel["reading"] == reading).any()]
    made = []
    if panel.default in readings:
        figure = Figure(figsize=(6.4, 4.6), layout="constrained")
        axes = figure.subplots()
        _curves(axes, panel.look, of_panel[of_panel["reading"] == panel.default])
        runs = int(of_panel.loc[of_panel["reading"] == panel.default, "runs"].max())
        axes.set_title(f"{panel.figure}: {panel.title} ({_counted(runs)})", fontsize=10, loc="left")
        axes.set_xlabel(panel.look.x)
        axes.set_ylabel(panel.look.y)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8, frameon=False)
        _save(figure, folder, panel.name)
        made.append(panel.name)
    if len(readings) > 1:
        down = -(-len(readings) // ACROSS)
        figure = Figure(figsize=(10.0, 2.6 * down + 0.9), layout="constrained")
        grid = figure.subplots(down, ACROSS, squeeze=False).ravel()
        for axes, reading in zip(grid, readings):
            part = of_panel[of_panel["reading"] == reading]
            _curves(axes, panel.look, part)
            axes.set_title(f"{reading} ({_counted(int(part['runs'].max()))})", fontsize=9, loc="left")
            axes.tick_params(labelsize=8)
        for axes in grid[len(readings) :]:
            axes.set_axis_off()
        for position, axes in enumerate(grid[: len(readings)]):
            axes.set_xlabel(panel.look.x if position + ACROSS >= len(readings) else "", fontsize=9)
            axes.set_ylabel(panel.look.y if position % ACROSS == 0 else "", fontsize=9)
        handles = grid[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
        _save(figure, folder, f"{panel.name}-readings")
        made.append(f"{panel.name}-readings")
    return made


def _curves(axes: Axes, look: Look, curves: pd.DataFrame) -> None:
    """One line a series; what does not depend on x is a level from side to side."""
    points = curves.loc[curves["x"] > 0, "x"]
    drawn = [series for series in look.series if (curves["series"] == series).any()]
    for number, series in enumerate(drawn):
        part = curves[curves["series"] == series].sort_values("x")
        offset = DODGE * (number - (len(drawn) - 1) / 2)  # side by side, so that equal values can be seen
        style: dict[str, Any] = {
            "color": COLOURS[number % len(COLOURS)] if number % len(COLOURS) != 6 else "#000000",  # yellow is faint
            "linestyle": DASHES[number % len(DASHES)],
            "marker": MARKERS[number % len(MARKERS)],
            "markersize": 5,
            "linewidth": 1.4,
            "capsize": 2.5,
            "label": series,
        }
        if (part["x"] == 0).all():
            positions = np.array([points.min(), points.max()])
            means, errors = (np.repeat(part[name].to_numpy(), 2) for name in ("mean", "standard_error"))
        else:
            positions, means, errors = (part[name].to_numpy() for name in ("x", "mean", "standard_error"))
        span = points.max() / points.min()
        positions = positions * span**offset if look.log_x else positions + (points.max() - points.min()) * offset
        axes.errorbar(positions, means, yerr=errors, **style)
    if look.log_x:
        axes.set_xscale("log")
    ticks = sorted(set(points))
    axes.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks], minor=False)
    axes.set_xticks([], minor=True)
    if look.log_y:
        axes.set_yscale("symlog", linthresh=1.0)  # straight below 1, so that 0 has a place
        axes.yaxis.set_major_formatter("{x:g}")
    if look.measure == "loss":
        axes.set_ylim(bottom=-0.05 if look.log_y else -0.02 * axes.get_ylim()[1])  # markers at 0 are seen whole
    else:
        axes.axhline(0.0, color="#999999", linewidth=0.8, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)


def _counted(runs: int) -> str:
    return f"{runs} run{'s' if runs > 1 else ''}"


def _save(figure: Figure, folder: Path, name: str) -> None:
    with matplotlib.rc_context(
        {"svg.hashsalt": "manymotives", "svg.fonttype": "none"}
    ):  # the same picture, the same file
        for kind in FORMATS:
            with whole_file(folder / f"{name}.{kind}") as temporary:
                metadata = {"Date": None} if kind == "svg" else {}
                figure.savefig(temporary, format=kind, dpi=130, metadata=metadata)
