"""Weights of features: of the population and of each task, with intervals, prior beside them."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from manymotives import findings
from manymotives.data.labels import Label, index_of
from manymotives.errors import InputError
from manymotives.findings import FeatureWeights
from manymotives.plots.common import COLOURS, written
from manymotives.posterior import Posterior

SHOWN = 60  # tasks, unless they are named
ACROSS = 4  # panels side by side


def feature_weights(
    posterior: Posterior | FeatureWeights, *, tasks: Sequence[Label] | None = None, truth: ArrayLike | None = None
) -> Figure:
    """Weights of features, with 95 % intervals: one panel per feature, with the population's mean on top and then every
    task.

    The prior is grey. For a single task, or if tasks are pooled, there is one panel with a row for each feature. If the
    inverse temperature is inferred, weights are multiplied by it (see `mm.findings.feature_weights`).

    Parameters
    ----------
    posterior
        A posterior of a model whose rewards are made of features, or the result of `mm.findings.feature_weights`.
    tasks
        Names of the tasks to draw; by default, the first sixty.
    truth
        True weights [task, feature] if they are known, shown as diamonds.

    Returns
    -------
    Figure
        A new figure.
    """
    found = posterior if isinstance(posterior, FeatureWeights) else findings.feature_weights(posterior)
    if tasks is None:
        chosen = np.arange(min(len(found.who), SHOWN))
    else:
        chosen = np.array([index_of(str(name), found.who, "task") for name in tasks], dtype=int)
    if not len(chosen):
        raise InputError("tasks=[] leaves nothing to show.")
    true = None if truth is None else _true_weights(truth, found.mean.shape)
    return _one_panel(found, int(chosen[0]), true) if len(found.who) == 1 else _panels(found, chosen, true)


def _true_weights(truth: Any, shape: tuple[int, ...]) -> np.ndarray:
    try:
        values = np.asarray(truth, dtype=float)
    except (TypeError, ValueError):
        raise InputError("truth must be numbers: the true weight of each task and feature.") from None
    if values.shape != shape:
        raise InputError(f"truth must have the shape {list(shape)} (tasks, features); found {list(values.shape)}.")
    return values


def _panels(found: FeatureWeights, chosen: np.ndarray, truth: np.ndarray | None) -> Figure:
    """A panel for each feature, tasks in the rows of all of them."""
    top = 0 if found.average_name is None else 1
    columns = min(len(found.features), ACROSS)
    rows = -(-len(found.features) // columns)
    longest = max(len(written(found.who[i])) for i in chosen)
    longest = max(longest, len(written(found.average_name or "", 40)))
    size = (max(5.0, 2.5 * columns + 0.5 + 0.075 * longest), rows * min(11.0, 0.9 + 0.19 * (len(chosen) + top)) + 0.7)
    figure, panels = plt.subplots(rows, columns, figsize=size, sharey=True, squeeze=False, layout="constrained")
    position = np.arange(len(chosen)) + 1.5 * top  # a gap between the population and its members
    for number, (panel, name) in enumerate(zip(panels.flat, found.features)):
        panel.axvspan(found.prior["lower"].iloc[number], found.prior["upper"].iloc[number], color="0.93", lw=0)
        panel.axvline(0.0, color="0.55", linewidth=0.8, linestyle="--")
        if top:
            row = found.average.iloc[number]
            if np.isfinite(row["prior_lower"]):
                panel.hlines(0, row["prior_lower"], row["prior_upper"], color="0.8", linewidth=7)
            _interval(panel, np.zeros(1), [row[word] for word in ("mean", "lower", "upper")], COLOURS[5])
        values = [part[chosen, number] for part in (found.mean, found.lower, found.upper)]
        _interval(panel, position, values, COLOURS[0], label="posterior mean and 95 %")
        if truth is not None:
            _diamonds(panel, truth[chosen, number], position)
        panel.set_title(written(name, 30), fontsize=10)
        _tight(panel, found, number, chosen, truth)
    names = [written(found.who[i]) for i in chosen]
    step = -(-len(names) // SHOWN)
    ticks = [*([0.0] * top), *position[::step]]
    small = 8 if len(names) <= 40 else 7
    for panel in panels[:, 0]:
        panel.set_yticks(ticks, [*([written(found.average_name, 40)] if top else []), *names[::step]], fontsize=small)
    panels[0, 0].set_ylim(position[-1] + 0.7, -0.7)
    _finish(figure, panels, found)
    return figure


def _one_panel(found: FeatureWeights, who: int, truth: np.ndarray | None) -> Figure:
    """One task, or everybody: features in the rows, the prior as bars."""
    position = np.arange(len(found.features))
    size = (6.5, min(16.0, 1.7 + 0.32 * len(position)))
    figure, panels = plt.subplots(figsize=size, squeeze=False, layout="constrained")
    panel = panels[0, 0]
    panel.hlines(position, found.prior["lower"], found.prior["upper"], color="0.88", linewidth=8)
    panel.axvline(0.0, color="0.55", linewidth=0.8, linestyle="--")
    values = [part[who] for part in (found.mean, found.lower, found.upper)]
    _interval(panel, position, values, COLOURS[0], label="posterior mean and 95 %")
    if truth is not None:
        _diamonds(panel, truth[who], position)
    step = -(-len(position) // SHOWN)
    panel.set_yticks(position[::step], [written(name, 30) for name in found.features[::step]])
    panel.set_ylim(len(position) - 0.4, -0.6)
    panel.set_title(written(found.who[who]), fontsize=10)
    _finish(figure, panels, found)
    return figure


def _interval(panel: Axes, position: np.ndarray, values: list[Any], colour: str, label: str | None = None) -> None:
    """Means with lines from lower to upper ends."""
    mean, lower, upper = values
    panel.hlines(position, lower, upper, color=colour, linewidth=1.5)
    panel.plot(mean, position, "o", color=colour, markersize=4, label=label)


def _diamonds(panel: Axes, truth: np.ndarray, position: np.ndarray) -> None:
    panel.plot(truth, position, "D", markerfacecolor="none", color=COLOURS[1], markersize=5, label="truth")


def _tight(panel: Axes, found: FeatureWeights, number: int, chosen: np.ndarray, truth: np.ndarray | None) -> None:
    """Limits around what was found and 0: a wide prior must not squeeze it; what is cut off of it runs to the edge."""
    ends = [0.0, found.lower[chosen, number].min(), found.upper[chosen, number].max()]
    if found.average_name is not None:
        ends += found.average[["lower", "upper"]].iloc[number].tolist()
    if truth is not None:
        ends += truth[chosen, number].tolist()
    pad = 0.06 * (max(ends) - min(ends) or 1.0)
    panel.set_xlim(min(ends) - pad, max(ends) + pad)


def _finish(figure: Figure, panels: np.ndarray, found: FeatureWeights) -> None:
    """Legend and names along the axes."""
    for panel in panels.flat[len(found.features) :] if panels.size > 1 else ():
        panel.set_visible(False)
    unit = "weight × inverse temperature" if found.is_product else "weight"
    for column in panels.T:
        [panel for panel in column if panel.get_visible()][-1].set_xlabel(unit)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    grey = plt.Rectangle((0, 0), 1, 1, color="0.88")
    figure.legend(
        [*handles, grey], [*labels, "prior, 95 %"], loc="outside lower center", ncols=3, frameon=False, fontsize=9
    )
