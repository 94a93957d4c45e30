"""Pictures of data and results; every function draws on axes it is given, or makes its own, and returns them."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, Integer
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from manymotives.demonstrations import Demonstrations
from manymotives.errors import InputError
from manymotives.labels import Label, index_of

# Okabe & Ito's colours, told apart by the colour-blind too
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999"]


def plot_choices(
    demonstrations: Demonstrations,
    action: Label,
    *,
    best: Integer[np.ndarray, "task S"] | None = None,
    axes: Axes | None = None,
) -> Axes:
    """How often each task chose one action in each state: the area of a square is the number of choices.

    Parameters
    ----------
    action
        The action whose share is shown by colour.
    best
        Index of the best action of each task in each state, such as `plan(...).actions`: a ring marks the states where
        the task chose it less than half of the time.
    """
    chosen = index_of(action, demonstrations.actions, "action")
    counts = demonstrations.counts
    made = counts.sum(axis=2)
    if best is not None and best.shape != made.shape:
        raise InputError(f"best must have the shape {list(made.shape)} (tasks, states); found {list(best.shape)}.")
    axes = _axes(axes, made.shape)
    task, state = np.nonzero(made)
    share = counts[task, state, chosen] / made[task, state]
    size = made[task, state] / made.max()
    marks = axes.scatter(state, task, c=share, s=30 + 260 * size, marker="s", cmap="cividis", vmin=0, vmax=1)
    if best is not None:
        right = counts[task, state, best[task, state]] / made[task, state]
        off = right < 0.5
        axes.scatter(state[off], task[off], s=360, facecolors="none", edgecolors=COLOURS[5], linewidths=1.5)
    bar = axes.figure.colorbar(marks, ax=axes, shrink=0.8)
    bar.set_label(f"share of {action!r}")
    _label(axes, demonstrations.tasks, demonstrations.states)
    axes.set_title("What they did")
    return axes


def plot_table(
    values: Float[np.ndarray, "task S"],
    tasks: tuple[Label, ...],
    states: tuple[Label, ...],
    *,
    title: str,
    bar_label: str,
    axes: Axes | None = None,
) -> Axes:
    """A number for each task and state, as a heat map."""
    axes = _axes(axes, values.shape)
    ramp = ListedColormap(plt.get_cmap("Blues")(np.linspace(0.05, 0.95, 256)))
    image = axes.imshow(values, cmap=ramp, vmin=min(0.0, float(values.min())), aspect="auto")
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.8)
    bar.set_label(bar_label)
    _label(axes, tasks, states)
    axes.set_title(title)
    return axes


def _axes(axes: Axes | None, shape: tuple[int, ...]) -> Axes:
    if axes is not None:
        return axes
    num_tasks, num_states = shape
    size = (min(16.0, 2.5 + 0.45 * num_states), min(16.0, 1.8 + 0.35 * num_tasks))
    _, made = plt.subplots(figsize=size, layout="constrained")
    return made


def _label(axes: Axes, tasks: tuple[Label, ...], states: tuple[Label, ...]) -> None:
    for set_ticks, names in ((axes.set_xticks, states), (axes.set_yticks, tasks)):
        step = -(-len(names) // 40)  # more than forty names cannot be read
        places: Any = range(0, len(names), step)
        set_ticks(list(places), [str(names[place]) for place in places])
    axes.tick_params(axis="x", rotation=90 if max(len(str(name)) for name in states) > 3 else 0)
    axes.set_xlim(-0.6, len(states) - 0.4)
    axes.set_ylim(len(tasks) - 0.4, -0.6)
    axes.set_xlabel("state")
    axes.set_ylabel("task")
