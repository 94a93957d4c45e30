"""Tasks that share motives: how many motives there are, and who shares one with whom."""

from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from manymotives.errors import InputError
from manymotives.plots.common import COLOURS, written
from manymotives.posterior import MixturePosterior, Posterior
from manymotives.posterior.mixture_tables import posterior_and_prior
from manymotives.posterior.partitions import in_order

NAMED = 40  # tasks, beyond which only some have their names beside the axis


def number_of_motives(posterior: Posterior, *, axes: Axes | None = None) -> Axes:
    """The posterior probability of each number of motives, compared with the prior.

    Parameters
    ----------
    posterior
        A posterior of a `Mixture`.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    table = posterior_and_prior(_mixture(posterior))
    if axes is None:
        _, axes = plt.subplots(figsize=(min(12.0, 2.6 + 0.45 * len(table)), 3.2), layout="constrained")
    axes.bar(table.index, table["probability"], width=0.7, color=COLOURS[0], label="after the data")
    axes.plot(
        table.index, table["prior"], "o", color="0.25", markeredgecolor="white", markersize=6, label="before the data"
    )
    step = -(-len(table) // 20)
    axes.set_xticks(table.index[::step])
    axes.set_ylim(0, 1)
    axes.set_xlabel("number of motives")
    axes.set_ylabel("probability")
    axes.set_title("How many motives are there?")
    axes.legend(frameon=False, fontsize=8)
    return axes


def together(posterior: Posterior, *, axes: Axes | None = None) -> Axes:
    """The probability that two tasks share a motive, for all pairs of tasks, as a heat map.

    Tasks are in the order of `posterior.partition`, whose motives are framed; uncertain tasks have colour outside their
    frame.

    Parameters
    ----------
    posterior
        A posterior of a `Mixture`.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    found = _mixture(posterior)
    partition, order = found.partition, in_order(found.partition)
    values = found.together.values[np.ix_(order, order)]
    names, count = found.together["task"].values[order], len(order)
    if axes is None:
        side = min(12.0, 2.5 + 0.22 * count)
        _, axes = plt.subplots(figsize=(side + 1.2, side), layout="constrained")
    image = axes.imshow(values, cmap="cividis", vmin=0, vmax=1)
    axes.figure.colorbar(image, ax=axes, shrink=0.8).set_label("probability of sharing a motive")
    begins = np.concatenate([[0], np.cumsum(partition.table["tasks"].to_numpy())])
    for begin, end in pairwise(begins):
        place, side = (begin - 0.5, begin - 0.5), end - begin
        axes.add_patch(plt.Rectangle(place, side, side, fill=False, edgecolor=COLOURS[5], linewidth=1.5))
    step = -(-count // NAMED)
    shown = [written(name) for name in names[::step]]
    axes.set_xticks(range(0, count, step), shown, rotation=90 if max(map(len, shown)) > 2 else 0)
    axes.set_yticks(range(0, count, step), shown)
    axes.set_xlabel("task")
    axes.set_ylabel("task")
    axes.set_title(f"Who shares a motive with whom ({partition.number} framed)")
    return axes


def _mixture(posterior: Any) -> MixturePosterior:
    if not isinstance(posterior, MixturePosterior):
        raise InputError("this figure needs motives that tasks share: a RewardPolicyModel with sharing=mm.Mixture().")
    return posterior
