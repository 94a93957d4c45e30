"""What a fit shows, drawn from the same numbers as the report: policies, who resembles whom, prediction, checks."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from manymotives import findings
from manymotives.data.labels import Label, index_of
from manymotives.errors import InputError
from manymotives.findings import PredictiveCheck, Similarity
from manymotives.findings.sample import check_one_motive
from manymotives.plots.common import COLOURS, MANY, SHOWN, axes_for, written
from manymotives.posterior import Posterior
from manymotives.scoring import Score

MARKERS = "osD^Pv*X"


def policies(posterior: Posterior, task: Label | None = None, *, axes: Axes | None = None) -> Axes:
    """The best actions for a task and its observed choices: a heat map of states and actions.

    Colour is the share of the task's choices in a state; a ring marks the best action for its posterior mean reward. If
    there are more than 200 states, the 40 in which it chose most often are shown.

    Parameters
    ----------
    posterior
        A posterior, from `fit` or `load`.
    task
        The name of the task. If None, the first.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    check_one_motive(posterior)
    policies = posterior.policies()
    tasks = policies["task"].values.tolist()
    number = 0 if task is None else index_of(task if task in tasks else str(task), tasks, "task")
    counts = posterior.data["observed_data"].dataset["counts"].isel(task=number).values
    total, kept = len(counts), np.arange(len(counts))
    if total > MANY:
        kept = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:SHOWN])
    counts = counts[kept]
    states = [written(name) for name in policies["state"].values[kept]]
    actions = [written(name) for name in policies["action"].values]
    exists = posterior.environment.available[kept]
    made = counts.sum(axis=1, keepdims=True)
    share = np.where(exists & (made > 0), counts / np.maximum(made, 1), np.nan)
    axes = axes_for(axes, (len(states), 2 * len(actions)))
    axes.set_facecolor("0.93")
    image = axes.imshow(share, cmap="cividis", vmin=0, vmax=1, aspect="auto")
    lives = np.flatnonzero(exists.any(axis=1))
    best = policies.isel(task=number).values[kept].argmax(axis=1)[lives]
    axes.scatter(best, lives, s=60, facecolors="none", edgecolors=COLOURS[5], linewidths=1.8, label="best")
    axes.figure.colorbar(image, ax=axes, shrink=0.8).set_label("share of choices there (grey: none observed)")
    axes.set_xticks(range(len(actions)), actions, rotation=90 if max(map(len, actions)) > 5 else 0)
    step = -(-len(states) // 40)
    axes.set_yticks(range(0, len(states), step), states[::step])
    axes.set_xlabel("action")
    axes.set_ylabel("state" if total <= MANY else f"the {SHOWN} most visited of {total:,} states")
    axes.set_title(f"{written(tasks[number])}: choices, and the best action (ring)")
    return axes


def similarity(posterior: Posterior | Similarity, *, axes: Axes | None = None) -> Axes:
    """A map of tasks on which tasks with similar goals are close; colours and shapes are groups, if the data support
    them.

    The distance between two tasks is what each would lose by pursuing the other's goals (see `mm.findings.similarity`);
    directions have no meaning.

    Parameters
    ----------
    posterior
        A posterior, or the result of `mm.findings.similarity`.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    alike = posterior if isinstance(posterior, Similarity) else findings.similarity(posterior)
    if axes is None:
        _, axes = plt.subplots(figsize=(5.5, 5.0), layout="constrained")
    for group in range(alike.clusters.number):
        here = alike.clusters.group == group
        label = f"group {group + 1}" if alike.clusters.is_supported else None
        x, y = alike.positions[here].T
        axes.scatter(x, y, s=45, label=label, color=COLOURS[group % 8], marker=MARKERS[group % 8])
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.15)
    axes.set_xlabel("distance (share of value lost by following the other's goals)")
    axes.set_title("Who resembles whom" + ("" if alike.clusters.is_supported else ": no groups supported"))
    if alike.clusters.is_supported:
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    _name_points(axes, alike)
    return axes


def _name_points(axes: Axes, alike: Similarity) -> None:
    """Names beside their points, each where it covers nothing; those without such a place are left out."""
    axes.figure.canvas.draw()  # points have no places on the paper before
    to_points = 72.0 / axes.figure.get_dpi()
    spots = axes.transData.transform(alike.positions) * to_points
    left, bottom, right, top = np.array(axes.bbox.extents) * to_points
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in spots]
    for name, position, (x, y) in zip(alike.who, alike.positions, spots):
        text = written(name)
        wide = 4.6 * len(text)
        for dx, dy in ((6.0, -3.0), (-6.0 - wide, -3.0), (-wide / 2, 6.0), (-wide / 2, -13.0)):
            box = (x + dx, y + dy, x + dx + wide, y + dy + 8)
            inside = left < box[0] and box[2] < right and bottom < box[1] and box[3] < top
            if inside and all(box[2] < a or box[0] > c or box[3] < b or box[1] > d for a, b, c, d in taken):
                axes.annotate(text, position, xytext=(dx, dy), textcoords="offset points", fontsize=8)
                taken.append(box)
                break


def comparison(score: Score, *, axes: Axes | None = None) -> Axes:
    """Held-out log-likelihood per choice of each model, beginning with uniform choice, with 95 % intervals.

    Parameters
    ----------
    score
        The result of `mm.score`.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    if not hasattr(score, "table"):
        raise InputError(f"score must be a result of mm.score; found {type(score).__name__}.")
    table = score.table
    position = np.arange(len(table))
    if axes is None:
        _, axes = plt.subplots(figsize=(6.5, 1.4 + 0.34 * len(table)), layout="constrained")
    error = 1.96 * table["standard_error"].fillna(0.0)
    axes.errorbar(table["log_likelihood"], position, xerr=error, fmt="o", color=COLOURS[0], markersize=5)
    axes.set_yticks(position, [written(name, 40) for name in model_names(table)])
    axes.invert_yaxis()
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.set_xlabel("nats per held-out choice (0 = perfect)")
    axes.set_title(f"Held out: {'subjects' if score.hold_out == 'tasks' else score.hold_out}")
    return axes


def model_names(table: Any) -> list[str]:
    """What the models are called; with how many of its own episodes a held-out subject had shown, if that is told.

    Models with a subject's own past have seen all that it had shown, which is another number at each choice.
    """
    if "own_episodes" not in table:
        return [str(name) for name in table["model"]]
    return [
        f"{name}, after {int(shown)} episode{'s' if shown != 1 else ''}"
        if shown == shown and not str(name).endswith("own past")
        else str(name)
        for name, shown in zip(table["model"], table["own_episodes"])
    ]


def ppc(posterior: Posterior | PredictiveCheck, *, axes: Axes | None = None) -> Axes:
    """A posterior predictive check: observed and expected shares of every action in every state.

    Lines contain 95 % of replications; open red marks are observations outside them.

    Parameters
    ----------
    posterior
        A posterior, or the result of `mm.findings.predictive_check`.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    check = posterior if isinstance(posterior, PredictiveCheck) else findings.predictive_check(posterior)
    if axes is None:
        _, axes = plt.subplots(figsize=(5.0, 5.0), layout="constrained")
    frame = check.shares
    off = (frame["observed"] < frame["lower"]) | (frame["observed"] > frame["upper"])
    axes.plot([0, 1], [0, 1], color="0.5", linewidth=1, linestyle="--")
    axes.vlines(frame["expected"], frame["lower"], frame["upper"], color="0.8")
    size = 10 + 60 * frame["choices"] / max(frame["choices"].max(), 1)
    axes.scatter(frame["expected"][~off], frame["observed"][~off], s=size[~off], color=COLOURS[0], alpha=0.75, zorder=3)
    axes.scatter(
        frame["expected"][off], frame["observed"][off], s=size[off], facecolors="white", edgecolors=COLOURS[5], zorder=3
    )
    axes.set_xlabel("expected share of choices")
    axes.set_ylabel("observed share")
    axes.set_title(f"p = {check.p_value:.2f}; {int(off.sum())} of {len(frame)} outside")
    return axes


def learning(posterior: Posterior, *, axes: Axes | None = None) -> Axes:
    """How much the data changed the distribution of each reward: the largest change of a probability; 0 means that
    posterior and prior are the same.

    Parameters
    ----------
    posterior
        A posterior, from `fit` or `load`.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    learnt = findings.learning(posterior)
    rows = slice(1, None) if learnt.has_population else slice(None)
    cells = learnt.cells
    on_states = cells["action"].isna().all()
    names = cells["state"].tolist() if on_states else [f"{a} in {s}" for s, a in zip(cells["state"], cells["action"])]
    values, tasks = learnt.shift[rows], learnt.who[rows]
    axes = axes_for(axes, values.shape)
    image = axes.imshow(values, cmap="cividis", vmin=0, vmax=1, aspect="auto")
    axes.figure.colorbar(image, ax=axes, shrink=0.8).set_label("largest change of a probability")
    for set_ticks, labels in ((axes.set_xticks, names), (axes.set_yticks, list(tasks))):
        step = -(-len(labels) // 40)
        set_ticks(range(0, len(labels), step), [written(label) for label in labels[::step]])
    axes.tick_params(axis="x", rotation=90 if max(map(len, names)) > 3 else 0)
    axes.set_xlabel("reward of")
    axes.set_title("How much was learnt from the data")
    return axes


def temperatures(posterior: Posterior, *, axes: Axes | None = None) -> Axes:
    """How consistently each task acts: inverse temperatures on the canonical scale, with 95 % intervals.

    Parameters
    ----------
    posterior
        A posterior, from `fit` or `load`.
    axes
        Matplotlib axes to draw on. If None, new axes are created.

    Returns
    -------
    Axes
        The axes that were drawn on.
    """
    check_one_motive(posterior)
    if not hasattr(posterior, "inverse_temperatures"):
        raise InputError("this figure needs the posterior of a RewardPolicyModel.")
    draws = posterior.canonical()["inverse_temperature"].stack(sample=("chain", "draw"))
    order = np.argsort(-draws.mean("sample").values)
    draws = draws.isel(task=order)
    low, high = draws.quantile([0.025, 0.975], dim="sample").values
    position = np.arange(len(order))
    if axes is None:
        _, axes = plt.subplots(figsize=(6, min(16.0, 1.4 + 0.28 * len(order))), layout="constrained")
    axes.hlines(position, low, high, color=COLOURS[0], linewidth=1.6)
    axes.plot(draws.mean("sample"), position, "o", color=COLOURS[0], markersize=4.5)
    step = -(-len(order) // 40)
    axes.set_yticks(position[::step], [written(name) for name in draws["task"].values[::step]])
    axes.invert_yaxis()
    axes.set_xlabel("inverse temperature, canonical scale")
    axes.set_title("How consistently they act")
    return axes
