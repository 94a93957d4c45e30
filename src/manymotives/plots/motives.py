"""Motives that switch: when each is active, and how agents change from one to another."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from manymotives.data.labels import Label, index_of
from manymotives.errors import InputError
from manymotives.plots.common import COLOURS, written
from manymotives.posterior import Posterior, SwitchingPosterior
from manymotives.posterior.motive_tables import average_transitions

SHOWN = 12  # episodes, unless tasks are named


def motives(posterior: Posterior, *, tasks: Sequence[Label] | None = None, kind: str = "smoothed") -> Figure:
    """When each motive is active: a band for each episode, divided at each step by the probability of each motive.

    Parameters
    ----------
    posterior
        A posterior of a model whose motives switch.
    tasks
        Names of the tasks whose episodes to draw; by default the first twelve episodes, of as many tasks as possible.
    kind
        "smoothed": probabilities given the whole episode. "filtered": given the choices up to that step.

    Returns
    -------
    Figure
        A new figure.
    """
    found = _switching(posterior)
    probability, seen = found.motives(kind=kind).values, found.demonstrations
    begins = np.flatnonzero(np.append(True, np.diff(seen.episode) != 0))
    ends = np.append(begins[1:], len(seen.episode))
    owner = seen.task[begins]
    if tasks is None:
        nth = np.arange(len(owner)) - np.searchsorted(owner, owner)  # which of its task's episodes each one is
        chosen = np.sort(np.lexsort((owner, nth))[:SHOWN])
    else:
        known = [str(name) for name in seen.tasks]
        chosen = np.flatnonzero(np.isin(owner, [index_of(str(name), known, "task") for name in tasks]))
    if not len(chosen):
        raise InputError("tasks=[] leaves nothing to show.")
    size = (8.0, min(20.0, 1.3 + 0.5 * len(chosen)))
    figure, panels = plt.subplots(len(chosen), 1, figsize=size, sharex=True, squeeze=False, layout="constrained")
    for panel, episode in zip(panels.flat, chosen):
        here = slice(int(begins[episode]), int(ends[episode]))
        _band(panel, probability[here], np.flatnonzero(~seen.follows[here])[1:])
        name = f"{seen.tasks[owner[episode]]}, {seen.episodes[episode]}"
        panel.set_ylabel(written(name), rotation=0, ha="right", va="center", fontsize=8)
    panels.flat[-1].set_xlabel("steps since the episode began")
    panels.flat[-1].set_xlim(0, int((ends - begins)[chosen].max()))
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[k % len(COLOURS)]) for k in range(found.num_motives)]
    names = [f"motive {k}" for k in range(found.num_motives)]
    figure.legend(handles, names, loc="outside lower center", ncols=8, frameon=False, fontsize=9)
    figure.suptitle(f"When each motive is active ({kind} probabilities)", fontsize=11)
    return figure


def motive_transitions(posterior: Posterior, *, task: Label | None = None, axes: Axes | None = None) -> Axes:
    """The probability of each motive at the next step, given the motive now, as a heat map.

    Numbers are posterior means with 95 % intervals, averaged over states (and tasks) by the number of steps there.

    Parameters
    ----------
    posterior
        A posterior of a model whose motives switch.
    task
        A single task, if tasks have transition probabilities of their own. If None, all tasks.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    found = _switching(posterior)
    rows = average_transitions(found, by_task=task is not None or found.model.is_separate)
    title = "How they switch"
    if "task" in rows.dims:
        known = [str(name) for name in found.tasks]
        number = 0 if task is None else index_of(str(task), known, "task")
        rows, title = rows.isel(task=number), f"{written(known[number])}: how it switches"
    elif task is not None:
        raise InputError("under Pooled() motives and their transitions are everybody's. Leave out task=.")
    values = rows.stack(sample=("chain", "draw")).transpose("motive", "next_motive", "sample").values
    mean, (low, high) = values.mean(axis=2), np.quantile(values, [0.025, 0.975], axis=2)
    count = len(mean)
    if axes is None:
        side = min(14.0, 2.0 + 1.0 * count)
        _, axes = plt.subplots(figsize=(side + 0.8, side), layout="constrained")
    image = axes.imshow(mean, cmap="cividis", vmin=0, vmax=1)
    axes.figure.colorbar(image, ax=axes, shrink=0.8).set_label("transition probability")
    if count <= 8:
        for j, k in np.ndindex(count, count):
            said = f"{mean[j, k]:.2f}\n{low[j, k]:.2f}–{high[j, k]:.2f}"
            axes.text(k, j, said, ha="center", va="center", fontsize=8, color="black" if mean[j, k] > 0.5 else "white")
    names = [str(k) for k in range(count)]
    axes.set_xticks(range(count), names)
    axes.set_yticks(range(count), names)
    axes.set_xlabel("motive at the next step")
    axes.set_ylabel("motive now")
    axes.set_title(title)
    return axes


def _band(panel: Axes, probability: np.ndarray, gaps: np.ndarray) -> None:
    """Stacked probabilities [steps, motives], constant during each step; white lines where a recording has gaps."""
    edges = np.arange(len(probability) + 1)
    height = np.vstack([probability, probability[-1:]]).T
    colours: Any = [COLOURS[k % len(COLOURS)] for k in range(len(height))]
    panel.stackplot(edges, height, colors=colours, step="post", linewidth=0)
    panel.vlines(gaps, 0, 1, color="white", linewidth=1.5)
    panel.set_ylim(0, 1)
    panel.set_yticks([])
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)


def _switching(posterior: Any) -> SwitchingPosterior:
    if not isinstance(posterior, SwitchingPosterior):
        raise InputError("this figure needs motives that switch: a RewardPolicyModel with switching=mm.Switching().")
    return posterior
