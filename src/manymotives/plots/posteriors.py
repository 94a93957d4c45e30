"""What was inferred: rewards, weights of a set of rewards, how far from optimal."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from manymotives.data.alignment import aligned
from manymotives.data.labels import Label
from manymotives.errors import InputError
from manymotives.findings.sample import check_one_motive
from manymotives.plots.common import COLOURS, MANY, SHOWN, written
from manymotives.plots.tables import heat_map
from manymotives.posterior import PolicyOptimalityPosterior, Posterior
from manymotives.posterior.tables import selected


def rewards(
    posterior: Posterior,
    *,
    truth: ArrayLike | None = None,
    tasks: Sequence[Label] | None = None,
    states: Sequence[Label] | None = None,
    canonical: bool = False,
) -> Figure:
    """Posterior mean and 95 % interval of each task's reward in every state; grey bars show the prior.

    Parameters
    ----------
    posterior
        A posterior, from `fit` or `load`.
    truth
        True rewards [task, S] if they are known, shown as diamonds.
    tasks
        Names of the tasks to draw; by default, the first twelve.
    states
        Names of the states to draw; by default all or, if there are more than 200, the 20 with the highest and the 20
        with the lowest rewards, on average over these tasks.
    canonical
        Whether to show rewards in canonical form (see `Posterior.canonical`), without the prior.

    Returns
    -------
    Figure
        A new figure.
    """
    check_one_motive(posterior)
    if posterior.model.reward.on != "state":
        raise InputError(
            'mm.plots.rewards is for rewards on states; these are on pairs. Use to_frame(of="state") for their numbers.'
        )
    names = posterior.rewards["task"].values.tolist()
    chosen = names[:12] if tasks is None else list(tasks)
    if truth is not None:
        truth = np.asarray(aligned(truth, "truth", task=names, state=posterior.environment.states))
        truth = posterior.by_state_name(posterior.mean_reward.copy(data=truth)).values
    every = posterior.by_state_name(posterior.mean_reward)["state"].values.tolist()
    is_cut = states is None and len(every) > MANY
    states = _most_and_least(posterior, chosen) if is_cut else every if states is None else list(states)
    frame = posterior.to_frame(of="state", tasks=chosen, states=states, canonical=canonical)
    states = frame["state"].drop_duplicates().tolist()
    number = {name: index for index, name in enumerate(every)}
    picked = np.array([number[name] for name in states])
    prior = posterior.by_state_name(posterior.data["prior"].dataset["reward"])
    prior = prior.isel(state=picked).stack(sample=("chain", "draw"))
    low, high = prior.quantile([0.025, 0.975], dim="sample").values
    position = np.arange(len(states))
    columns = min(len(chosen), 4)
    rows = -(-len(chosen) // columns)
    size = (2.8 * columns + 0.4, rows * min(8.0, 1.0 + 0.22 * len(states)) + 0.6)
    figure, panels = plt.subplots(
        rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    for panel, name in zip(panels.flat, chosen):
        rows_of = frame[frame["task"] == name].set_index("state").loc[states]
        if not canonical:
            panel.hlines(position, low, high, color="0.87", linewidth=7, label="prior, 95 %")
        panel.hlines(
            position, rows_of["lower"], rows_of["upper"], color=COLOURS[0], linewidth=1.6, label="posterior, 95 %"
        )
        panel.plot(rows_of["mean"], position, "o", color=COLOURS[0], markersize=4.5, label="posterior mean")
        if truth is not None:
            panel.plot(
                truth[names.index(name), picked],
                position,
                "D",
                markerfacecolor="none",
                color=COLOURS[5],
                markersize=6,
                label="truth",
            )
        panel.set_title(written(name), fontsize=10)
        step = -(-len(states) // 40)
        panel.set_yticks(position[::step], [written(state) for state in states[::step]], fontsize=8)
    panels.flat[0].invert_yaxis()
    for panel in panels.flat[len(chosen) :]:
        panel.set_visible(False)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    for column in panels.T:
        lowest = [panel for panel in column if panel.get_visible()][-1]
        lowest.tick_params(labelbottom=True)
        lowest.set_xlabel("reward")
    if is_cut:
        half = SHOWN // 2
        panels.flat[0].set_ylabel(f"the {half} most and the {half} least wanted of {len(every):,} states", fontsize=9)
    return figure


def _most_and_least(posterior: Posterior, tasks: list[Label]) -> list[Label]:
    """States by name, the most wanted first, on average over some tasks."""
    mean = selected(posterior.by_state_name(posterior.mean_reward), "task", tasks).mean("task")
    order = np.argsort(-mean.values, kind="stable")
    kept = np.concatenate([order[: SHOWN // 2], order[-(SHOWN // 2) :]])
    return mean["state"].values[kept].tolist()


def weights(posterior: Posterior, *, axes: Axes | None = None) -> Axes:
    """The posterior probability that each task has each reward of a set, as a heat map.

    Parameters
    ----------
    posterior
        A posterior of a `PolicyOptimalityModel` with a `RewardSet`.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    if isinstance(posterior, Posterior) and posterior.has_features:
        raise InputError(
            "mm.plots.weights shows which reward of a set each task has. For features use mm.plots.feature_weights."
        )
    weights = _optimality(posterior).weights
    names = tuple(weights["candidate"].values.tolist())
    if len(names) > 60:
        raise InputError(f"mm.plots.weights shows the weights of a few named rewards; there are {len(names)}.")
    axes = heat_map(
        weights.values,
        tuple(weights["task"].values.tolist()),
        names,
        title="Which reward each task has",
        bar_label="posterior probability",
        axes=axes,
    )
    axes.set_xlabel("reward")
    return axes


def optimality(posterior: Posterior, *, axes: Axes | None = None) -> Axes:
    """How far from optimal each task is: its loss in the worst state, with 95 % intervals, above the prior of ε.

    Parameters
    ----------
    posterior
        A posterior of a `PolicyOptimalityModel`.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    losses = _optimality(posterior).losses.stack(sample=("chain", "draw"))
    tasks = losses["task"].values.tolist()
    position = np.arange(len(tasks))
    low, middle, high = losses.quantile([0.025, 0.5, 0.975], dim="sample").values
    before = posterior.data["prior"].dataset["optimality_gap"].quantile([0.025, 0.975]).values
    if axes is None:
        _, axes = plt.subplots(figsize=(6, min(16.0, 1.6 + 0.28 * len(tasks))), layout="constrained")
    axes.axvspan(*before, color="0.92", label="prior of the gap ε, 95 %")
    axes.hlines(position, low, high, color=COLOURS[0], linewidth=1.6, label="loss, 95 %")
    axes.plot(middle, position, "o", color=COLOURS[0], markersize=4.5, label="median")
    step = -(-len(tasks) // 40)
    axes.set_yticks(position[::step], [written(task) for task in tasks[::step]])
    axes.set_ylim(len(tasks) - 0.4, -0.6)
    axes.set_xlim(left=0.0)
    axes.set_xlabel(f"loss in the worst state, {posterior.model.unit_of_loss}")
    axes.set_title("How far from optimal they are")
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return axes


def _optimality(posterior: Any) -> PolicyOptimalityPosterior:
    if not isinstance(posterior, PolicyOptimalityPosterior):
        raise InputError("this figure needs the posterior of a PolicyOptimalityModel.")
    return posterior
