"""What pictures share: colours, axes, names along them."""

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from manymotives.data.labels import Label

# Okabe & Ito's colours, told apart by the colour-blind too
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999"]

MANY, SHOWN = 200, 40  # states, beyond which a picture shows so many of them


def written(name: Label, length: int = 24) -> str:
    """A name that fits beside an axis, and that nothing in it turns into a formula."""
    text = str(name)
    text = text if len(text) <= length else text[: length - 1] + "…"
    return text.replace("$", r"\$")


def axes_for(axes: Axes | None, shape: tuple[int, ...]) -> Axes:
    if axes is not None:
        return axes
    num_tasks, num_states = shape
    size = (min(16.0, 2.5 + 0.45 * num_states), min(16.0, 1.8 + 0.35 * num_tasks))
    _, made = plt.subplots(figsize=size, layout="constrained")
    return made


def label_axes(axes: Axes, tasks: tuple[Label, ...], states: tuple[Label, ...]) -> None:
    for set_ticks, names in ((axes.set_xticks, states), (axes.set_yticks, tasks)):
        step = -(-len(names) // 40)  # more than forty names cannot be read
        positions: Any = range(0, len(names), step)
        set_ticks(list(positions), [written(names[position]) for position in positions])
    axes.tick_params(axis="x", rotation=90 if max(len(str(name)) for name in states) > 3 else 0)
    axes.set_xlim(-0.6, len(states) - 0.4)
    axes.set_ylim(len(tasks) - 0.4, -0.6)
    axes.set_xlabel("state")
    axes.set_ylabel("task")
