"""Effects of covariates, and what they make of tasks: forests of intervals."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from narwhals.typing import IntoDataFrame

from manymotives import findings
from manymotives.plots.common import COLOURS, written
from manymotives.posterior import Posterior

SHOWN = 40  # effects, the surest ones


def effects(posterior: Posterior, *, level: float = 0.95, axes: Axes | None = None) -> Axes:
    """Effects of covariates on tasks' parameters: posterior means and intervals, the most certain sign on top; at most
    forty.

    Effects of numeric covariates are for one unit of the covariate. Dots are filled if the sign has a probability of at
    least 95 %.

    Parameters
    ----------
    posterior
        A posterior of a model with covariates.
    level
        Probability of the intervals.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
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


def predictions(
    posterior: Posterior,
    covariates: Mapping[str, Sequence[Any]] | IntoDataFrame,
    *,
    level: float = 0.95,
    axes: Axes | None = None,
) -> Axes:
    """What the typical task of the population wants at each row of a table of covariates: means and intervals.

    Weights of features are shown, otherwise rewards, at most forty. `posterior.predict_at` has the numbers, and also
    choices and values.

    Parameters
    ----------
    posterior
        A posterior of a model with covariates.
    covariates
        A data frame or a mapping of columns, such as `{"condition": ["control", "treated"]}`.
    level
        Probability of the intervals.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    table = posterior.predict_at(covariates, level=level)  # type: ignore[attr-defined]
    given = list(table.columns[: table.columns.get_loc("quantity")])
    table = table[table["quantity"].isin(["weight", "reward"])]
    rows = list(table.groupby(given, sort=False))
    count = min(SHOWN, max(len(part) for _, part in rows))
    if axes is None:
        _, axes = plt.subplots(figsize=(7, min(16.0, 1.6 + 0.3 * count)), layout="constrained")
    axes.axvline(0.0, color="0.55", linewidth=0.8, linestyle="--")
    for number, (values, part) in enumerate(rows):
        shown, colour = part[:count], COLOURS[number % len(COLOURS)]
        position = np.arange(count) + 0.5 * ((number + 0.5) / len(rows) - 0.5)
        axes.hlines(position, shown["lower"], shown["upper"], color=colour, linewidth=1.6)
        label = ", ".join(f"{name} {written(str(value), 20)}" for name, value in zip(given, values))
        axes.plot(shown["mean"], position, "o", color=colour, markersize=4.5, label=label)
    names = [findings.effect_target(row) for _, row in rows[0][1][:count].iterrows()]
    axes.set_yticks(np.arange(count), [written(name, 40) for name in names])
    axes.set_ylim(count - 0.4, -0.6)
    axes.set_xlabel(f"{table['quantity'].iloc[0]}, {100 * level:g} % intervals")
    axes.set_title("What the typical task wants")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return axes
