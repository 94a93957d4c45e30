"""A counterfactual in; what would change most, as intervals before and after, out."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from manymotives.errors import InputError
from manymotives.plots.common import COLOURS, written
from manymotives.posterior import Counterfactual
from manymotives.posterior.counterfactual import QUANTITIES

SHOWN = 30  # rows, those that change most
WORDS = {
    "choice": "probability",
    "occupancy": "share of discounted time",
    "long_run_share": "share of all steps in the long run",
    "value": "value (expected discounted sum of rewards)",
}


def counterfactual(found: Counterfactual, *, of: str = "choice", axes: Axes | None = None) -> Axes:
    """The largest changes, before and after: means and intervals of the average of all tasks, in at most thirty rows.

    Hollow marks: choices there after the change depend in part on the prior, whose interval is the grey band.

    Parameters
    ----------
    found
        The result of `posterior.counterfactual`.
    of
        "choice", the probability of each action in each state; "occupancy", the share of discounted time in each state;
        "long_run_share", the share of each action in all steps in the long run; or "value", the gain of each task, with
        the average of all on top.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    if of not in WORDS:
        known_words = ", ".join(f'"{word}"' for word in WORDS)
        raise InputError(f"of must be one of {known_words}; found {of!r}.")
    if "motive" in found.data.dims:
        raise InputError(
            "this figure is for tasks with one motive each; counterfactual.data has what each motive would do."
        )
    table = found.to_frame(None if of == "value" else "population")
    table = table[table["quantity"] == of].dropna(subset="after")
    if of == "value":
        names = [
            "average of all" if who == "population" else written(task) for who, task in zip(table["of"], table["task"])
        ]
        table = table.assign(name=names).sort_values("of", kind="stable")  # the population first
    else:
        parts = zip(*(table[cell] for cell in QUANTITIES[of]))
        table = table.assign(name=[": ".join(written(part, 20) for part in each) for each in parts])
        table = table.sort_values("difference", key=lambda each: -each.abs(), kind="stable", na_position="last")
    count, whole = min(SHOWN, len(table)), len(table)
    table, position = table[:count], np.arange(count)
    if axes is None:
        _, axes = plt.subplots(figsize=(7, min(16.0, 1.6 + 0.32 * count)), layout="constrained")
    if of == "choice" and "prior_lower" in table:
        rests = ~table["identified"].eq(True).to_numpy()
        axes.barh(
            position[rests],
            (table["prior_upper"] - table["prior_lower"])[rests],
            left=table["prior_lower"][rests],
            height=0.8,
            color="0.9",
            label="prior alone",
        )
    known_here = table["identified"].eq(True).to_numpy()
    for number, time in enumerate(("before", "after")):
        there, colour = position + (0.17 if number else -0.17), COLOURS[number]
        axes.hlines(there, table[f"{time}_lower"], table[f"{time}_upper"], color=colour, linewidth=1.6)
        filled = known_here | (time == "before")
        for mine, face, label in ((filled, colour, time), (~filled, "white", f"{time}, depends on the prior")):
            if mine.any():
                axes.plot(
                    table[time][mine], there[mine], "o", color=colour, markerfacecolor=face, markersize=4.5, label=label
                )
    axes.set_yticks(position, list(table["name"]))
    axes.set_ylim(count - 0.4, -0.6)
    axes.set_xlabel(f"{WORDS[of]}, {100 * found.data.attrs['level']:g} % intervals")
    cut = f" ({count} of {whole:,} rows)" if whole > count else ""
    verdict = {True: "identified", False: "NOT identified", None: "identification not computed"}
    known = found.value_identified if of == "value" else found.identified
    axes.set_title(f"What would change: {verdict[known]}{cut}")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))  # beside the intervals, never on them
    return axes
