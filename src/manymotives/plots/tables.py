"""Choices, numbers for each task and state, and maps of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from manymotives.data.alignment import aligned
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.labels import Label, index_of
from manymotives.errors import InputError
from manymotives.plots.common import COLOURS, MANY, SHOWN, axes_for, label_axes, written


def choices(
    demonstrations: Demonstrations,
    action: Label,
    *,
    best: ArrayLike | None = None,
    axes: Axes | None = None,
) -> Axes:
    """How often each task chose one action in each state; the area of a square is the number of choices.

    If there are more than 200 states, the 40 with the most choices are shown.

    Parameters
    ----------
    demonstrations
        The demonstrations.
    action
        The action whose share is shown by colour.
    best
        Index of the best action of each task in each state, such as `plan(...).actions`; a ring marks the states in
        which the task chose it less than half of the time.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    chosen = index_of(action, demonstrations.actions, "action")
    counts = demonstrations.counts
    made = counts.sum(axis=2)
    if best is not None:
        best = np.asarray(aligned(best, "best", task=demonstrations.tasks, state=demonstrations.states))
    if best is not None and best.shape != made.shape:
        raise InputError(f"best must have the shape {list(made.shape)} (tasks, states); found {list(best.shape)}.")
    total, states = made.shape[1], demonstrations.states
    if total > MANY:
        kept = np.sort(np.argsort(-made.sum(axis=0), kind="stable")[:SHOWN])
        made, counts, states = made[:, kept], counts[:, kept], tuple(states[s] for s in kept)
        best = None if best is None else best[:, kept]
    axes = axes_for(axes, made.shape)
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
    label_axes(axes, demonstrations.tasks, states)
    axes.set_title("What they did" + (f" in the {SHOWN} most visited of {total:,} states" if total > MANY else ""))
    return axes


def heat_map(
    values: Any,
    tasks: tuple[Label, ...],
    states: tuple[Label, ...],
    *,
    title: str,
    bar_label: str,
    axes: Axes | None = None,
) -> Axes:
    """A number for each task and state [task, S], as a heat map."""
    values = np.asarray(aligned(values, "values", task=tasks, state=states), dtype=float)
    axes = axes_for(axes, values.shape)
    ramp = ListedColormap(plt.get_cmap("Blues")(np.linspace(0.05, 0.95, 256)))
    image = axes.imshow(values, cmap=ramp, vmin=min(0.0, float(values.min())), aspect="auto")
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.8)
    bar.set_label(bar_label)
    label_axes(axes, tasks, states)
    axes.set_title(title)
    return axes


def maps(environment: Environment, tables: Mapping[str, ArrayLike], tasks: Sequence[Label]) -> Figure:
    """Rewards [task, S] as maps of an environment whose states have coordinates, with one row per table and one column
    per task.

    Parameters
    ----------
    environment
        An environment with coordinates.
    tables
        Rewards [task, S], by the title of their row.
    tasks
        Names of the tasks, one for each column.

    Returns
    -------
    Figure
        A new figure.
    """
    if environment.coordinates is None:
        raise InputError("this environment has no coordinates to draw its states at.")
    spots = np.asarray(environment.coordinates, dtype=float)
    tall, wide = np.ptp(spots[:, 1]) + 1, np.ptp(spots[:, 0]) + 1
    named = {"task": tasks, "state": environment.states}
    drawn = {title: np.asarray(aligned(values, f"{title!r}", **named)) for title, values in tables.items()}
    top = max(float(np.max(values)) for values in drawn.values())
    bottom = min(0.0, *(float(np.min(values)) for values in drawn.values()))
    larger = 2.0 if len(spots) > MANY else 1.0
    size = (0.6 + 1.05 * larger * len(tasks), 0.3 + 0.95 * larger * len(drawn) * tall / wide)
    figure, panels = plt.subplots(len(drawn), len(tasks), figsize=size, squeeze=False, layout="constrained")
    for row, (title, values) in zip(panels, drawn.items()):
        for column, panel in enumerate(row):
            marks = panel.scatter(*spots.T, c=values[column], cmap="Blues", vmin=bottom, vmax=top, marker="s")
            panel.set_xlim(spots[:, 0].min() - 0.5, spots[:, 0].max() + 0.5)
            panel.set_ylim(spots[:, 1].min() - 0.5, spots[:, 1].max() + 0.5)
            panel.set_aspect("equal")
            marks.set_sizes([(55 * larger / max(tall, wide)) ** 2])
            marks.set_linewidth(0.0 if larger > 1 else None)
            panel.set_xticks([])
            panel.set_yticks([])
        row[0].set_ylabel(title, fontsize=9)
    for panel, task in zip(panels[0], tasks):
        panel.set_title(written(task), fontsize=8)
    figure.colorbar(marks, ax=panels, shrink=0.8, label="reward")
    return figure
