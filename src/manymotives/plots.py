"""Pictures of data and results; every function draws on axes it is given, or makes its own, and returns them."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, Integer
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from manymotives.calibration import Calibration
from manymotives.demonstrations import Demonstrations
from manymotives.environment import Environment
from manymotives.errors import InputError
from manymotives.labels import Label, index_of
from manymotives.posterior import PolicyOptimalityPosterior, Posterior
from manymotives.recovery import Recovery

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


def plot_rewards(
    posterior: Posterior,
    *,
    truth: Any = None,
    tasks: Sequence[Label] | None = None,
    canonical: bool = False,
) -> Figure:
    """What each task wants: posterior mean and 95 % interval of every state's reward, a grey bar for the prior's.

    Parameters
    ----------
    truth
        True rewards [task, S], where they are known: diamonds.
    tasks
        Which tasks to draw, by name; otherwise the first twelve.
    canonical
        Rewards in canonical form (see `Posterior.canonical`), without the prior.
    """
    if posterior.model.reward.on != "state":
        raise InputError("plot_rewards draws rewards on states; these lie on pairs. Use to_frame() for their numbers.")
    names = posterior.rewards["task"].values.tolist()
    chosen = names[:12] if tasks is None else list(tasks)
    frame = posterior.to_frame(tasks=chosen, canonical=canonical)
    prior = posterior.data["prior"].dataset["reward"].stack(sample=("chain", "draw"))
    low, high = prior.quantile([0.025, 0.975], dim="sample").values
    states = posterior.rewards["state"].values.tolist()
    place = np.arange(len(states))
    columns = min(len(chosen), 4)
    rows = -(-len(chosen) // columns)
    size = (2.8 * columns + 0.4, rows * min(8.0, 1.0 + 0.22 * len(states)) + 0.6)
    figure, panels = plt.subplots(
        rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    for panel, name in zip(panels.flat, chosen):
        rows_of = frame[frame["task"] == name].set_index("state").loc[states]
        if not canonical:
            panel.hlines(place, low, high, color="0.87", linewidth=7, label="prior, 95 %")
        panel.hlines(
            place, rows_of["lower"], rows_of["upper"], color=COLOURS[0], linewidth=1.6, label="posterior, 95 %"
        )
        panel.plot(rows_of["mean"], place, "o", color=COLOURS[0], markersize=4.5, label="posterior mean")
        if truth is not None:
            panel.plot(
                np.asarray(truth)[names.index(name)],
                place,
                "D",
                markerfacecolor="none",
                color=COLOURS[5],
                markersize=6,
                label="truth",
            )
        panel.set_title(str(name), fontsize=10)
        step = -(-len(states) // 40)
        panel.set_yticks(place[::step], [str(state) for state in states[::step]], fontsize=8)
    panels.flat[0].invert_yaxis()
    for panel in panels.flat[len(chosen) :]:
        panel.set_visible(False)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    for column in panels.T:
        lowest = [panel for panel in column if panel.get_visible()][-1]
        lowest.tick_params(labelbottom=True)
        lowest.set_xlabel("reward")
    return figure


def plot_maps(environment: Environment, tables: Mapping[str, Any], tasks: Sequence[Label]) -> Figure:
    """Rewards [task, S] as maps of an environment whose states have coordinates: one row a table, one column a task."""
    if environment.coordinates is None:
        raise InputError("this environment has no coordinates to draw its states at.")
    spots = np.asarray(environment.coordinates, dtype=float)
    tall, wide = np.ptp(spots[:, 1]) + 1, np.ptp(spots[:, 0]) + 1
    top = max(float(np.max(values)) for values in tables.values())
    size = (0.6 + 1.05 * len(tasks), 0.3 + 0.95 * len(tables) * tall / wide)
    figure, panels = plt.subplots(len(tables), len(tasks), figsize=size, squeeze=False, layout="constrained")
    for row, (title, values) in zip(panels, tables.items()):
        for column, panel in enumerate(row):
            marks = panel.scatter(*spots.T, c=np.asarray(values)[column], cmap="Blues", vmin=0, vmax=top, marker="s")
            panel.set_xlim(spots[:, 0].min() - 0.5, spots[:, 0].max() + 0.5)
            panel.set_ylim(spots[:, 1].min() - 0.5, spots[:, 1].max() + 0.5)
            panel.set_aspect("equal")
            marks.set_sizes([(55 / max(tall, wide)) ** 2])
            panel.set_xticks([])
            panel.set_yticks([])
        row[0].set_ylabel(title, fontsize=9)
    for panel, task in zip(panels[0], tasks):
        panel.set_title(str(task), fontsize=8)
    figure.colorbar(marks, ax=panels, shrink=0.8, label="reward")
    return figure


def plot_weights(posterior: Any, *, axes: Axes | None = None) -> Axes:
    """Which of the rewards of a set each task has: posterior probabilities, as a heat map."""
    weights = _optimality(posterior).weights
    names = tuple(weights["candidate"].values.tolist())
    if len(names) > 60:
        raise InputError(f"plot_weights draws the weights of a few named rewards; there are {len(names)}.")
    axes = plot_table(
        weights.values,
        tuple(weights["task"].values.tolist()),
        names,
        title="Which reward each task has",
        bar_label="posterior probability",
        axes=axes,
    )
    axes.set_xlabel("reward")
    return axes


def plot_optimality(posterior: Any, *, axes: Axes | None = None) -> Axes:
    """How far from optimal each task is: its loss in the worst state, with 95 % intervals, above the prior of ε."""
    losses = _optimality(posterior).losses.stack(sample=("chain", "draw"))
    tasks = losses["task"].values.tolist()
    place = np.arange(len(tasks))
    low, middle, high = losses.quantile([0.025, 0.5, 0.975], dim="sample").values
    before = posterior.data["prior"].dataset["optimality_gap"].quantile([0.025, 0.975]).values
    if axes is None:
        _, axes = plt.subplots(figsize=(6, min(16.0, 1.6 + 0.28 * len(tasks))), layout="constrained")
    axes.axvspan(*before, color="0.92", label="gap ε beforehand, 95 %")
    axes.hlines(place, low, high, color=COLOURS[0], linewidth=1.6, label="loss, 95 %")
    axes.plot(middle, place, "o", color=COLOURS[0], markersize=4.5, label="median")
    step = -(-len(tasks) // 40)
    axes.set_yticks(place[::step], [str(task) for task in tasks[::step]])
    axes.set_ylim(len(tasks) - 0.4, -0.6)
    axes.set_xlim(left=0.0)
    unit = "of what there is to lose" if posterior.model.scale_free else "in units of value"
    axes.set_xlabel(f"lost in the worst state, {unit}")
    axes.set_title("How far from optimal they are")
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return axes


def _optimality(posterior: Any) -> PolicyOptimalityPosterior:
    if not isinstance(posterior, PolicyOptimalityPosterior):
        raise InputError("this picture is of the posterior of a PolicyOptimalityModel.")
    return posterior


def plot_recovery(recovery: Recovery, *, axes: Axes | None = None) -> Axes:
    """Truth against estimate, with 95 % intervals: what the experiment could show."""
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


def plot_calibration(calibration: Calibration, *, axes: Axes | None = None) -> Axes:
    """How far the truth's places are from uniform: their distribution function less the diagonal, by quantity.

    Within the grey band, where 95 % of calibrated quantities stay whole, nothing is wrong.
    """
    if axes is None:
        _, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    count = len(calibration.places)
    band = 1.36 / np.sqrt(count)  # Kolmogorov's 95 % limit
    axes.axhspan(-band, band, color="0.92")
    axes.axhline(0, color="0.6", linewidth=1)
    at = np.linspace(0, 1, 201)
    for number, (name, column) in enumerate(calibration.places.items()):
        share = np.searchsorted(np.sort(column), at, side="right") / count
        axes.plot(at, share - at, color=COLOURS[number % len(COLOURS)], linewidth=1.2, label=str(name))
    axes.set_xlabel("place of the truth among the draws")
    axes.set_ylabel("share below, less what is due")
    axes.set_title(f"{count} replications, p = {calibration.p_value:.2g}")
    axes.legend(fontsize=7, ncols=2, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
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
