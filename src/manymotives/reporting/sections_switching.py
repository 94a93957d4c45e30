"""When each motive is active, how subjects switch, and where they do."""

from typing import Any

import numpy as np
import pandas as pd

from manymotives.reporting.html import Markup, element, figure, table
from manymotives.reporting.motives import AVERAGE, MotiveContent
from manymotives.reporting.sections_episodes import BINS, EPISODES, bands_of, is_long, one_episode
from manymotives.reporting.sections_motives import chooser_of, short
from manymotives.reporting.words import per_cent, records, shortened

SUBJECTS = 60  # in a figure
INTERVALS = 90  # in a figure
TRIGGERS = 12  # states listed for each motive
SMOOTHED = (
    "Probabilities are smoothed: at each step they are given all choices of the episode, including later ones. "
    "They are averaged over posterior draws."
)


def when_motives_are_active(content: MotiveContent, figures: dict[str, Any]) -> Markup:
    figures["motive-shares"] = _shares(content)
    figures["motive-bands"], subjects = bands_of(content)
    parts: list[Any] = [
        element("h2", "When each motive is active"),
        figure(
            "motive-shares",
            title="How much of the time",
            described="Posterior mean of the share of steps that each subject spends on each motive; the table below "
            "has the numbers.",
            how=(
                "One row per subject, one column per motive: the share of the subject's steps at which the "
                "motive is active; dark means few. The table below has intervals."
                if _are_many(content)
                else "One dot for each motive, in its colour and shape: the share of a subject's steps at which it is "
                "active. The line is the 95 % interval."
            )
            + _more_subjects(content),
        ),
        _subjects_table(content),
        element("h3", "Along episodes"),
        element("p", SMOOTHED),
        chooser_of("band", subjects, "Show episodes of"),
        figure(
            "motive-bands",
            title="Probability of each motive, step by step",
            described="A band for each episode, divided at every step by the probability of each motive.",
            how=(
                f"One band for each episode (up to {EPISODES} per subject), with time from left to right. At each "
                "step the band is divided in proportion to the probabilities of the motives: one colour from top "
                "to bottom means that the motive is certain. Pale lines are gaps in the recording. Hover for "
                "states and probabilities."
            )
            + (f" Episodes of more than {BINS} steps are shown in {BINS} pieces." if is_long(content) else ""),
            chooser=len(subjects) > 1,
        ),
    ]
    return element("section", [*parts, *one_episode(content, figures)], id="active")


def how_they_switch(content: MotiveContent, figures: dict[str, Any]) -> Markup:
    model = content.posterior.model
    assert model.switching is not None
    by_state = model.switching.by == "state"
    figures["motive-transitions"] = _transition_matrix(content)
    figures["motive-switches"] = _switches(content)
    averaged = " The probabilities of all states, averaged over the steps that were taken in them." if by_state else ""
    parts: list[Any] = [
        element("h2", "How they switch"),
        element("p", _stays(content)),
        chooser_of("switching", [shortened(name) for name in content.who], "Show"),
        figure(
            "motive-transitions",
            title="Transition probabilities of motives",
            described="Table of the probability of each motive at the next step given the motive now, with 95 % "
            "intervals.",
            how=(
                "Rows are the current motive, columns the motive at the next step. Each cell is the posterior "
                "mean of the transition probability, with its 95 % interval below. The diagonal is the "
                f"probability of staying.{averaged}"
            )
            + (" Subjects are weighted by their numbers of steps." if content.has_average else ""),
            chooser=len(content.who) > 1,
        ),
    ]
    if content.leaving is not None:
        parts += _triggers(content, content.leaving, figures)
    parts += [
        element("h3", "How often"),
        figure(
            "motive-switches",
            title="Number of switches",
            described="Posterior mean and 95 % interval of the number of switches of each subject.",
            how="How often a subject changed from one motive to another, over all of its episodes. A dot is the "
            "posterior mean, its line the 95 % interval." + _more_subjects(content),
        ),
    ]
    return element("section", parts, id="switching")


def motives_in_short(content: MotiveContent) -> list[tuple[str, str]]:
    """A few sentences, each with the section to read on."""
    posterior = content.posterior
    points = [("wants", f"{_most_wanted(content)}"), ("active", _used_most(content)), ("switching", _stays(content))]
    if content.leaving is not None:
        points.append(("switching", _where(content.leaving, posterior.model.is_separate)))
    return points


def _most_wanted(content: MotiveContent) -> str:
    if content.posterior.model.is_separate and len(content.tasks) > 1:
        return "Each subject has motives of its own; what they want is shown for each."
    best = content.rewards.mean[0].argmax(axis=1)
    if content.posterior.model.reward.on == "state_action":
        return f"{content.num_shown} motives, each with a reward for every action in every state."
    said = "; ".join(f"{name} wants “{shortened(content.cells[c])}” most" for name, c in zip(content.motives, best))
    return f"{said[0].upper()}{said[1:]}."


def _used_most(content: MotiveContent) -> str:
    if content.posterior.model.is_separate and len(content.tasks) > 1:
        shares = content.shares[content.shares["motive"] == 0]["mean"]
        return (
            f"The motive that a subject uses most is active for {per_cent(shares.min())} to {per_cent(shares.max())} "
            "of its steps."
        )
    steps = content.switches.set_index("task")["steps"]
    table = content.shares.assign(weight=content.shares["task"].map(steps))
    whole = (table["mean"] * table["weight"]).groupby(table["motive"]).sum() / steps.sum()
    said = ", ".join(f"motive {k} {per_cent(float(share))}" for k, share in whole.head(content.num_shown).items())
    return f"Shares of all steps: {said}."


def _stays(content: MotiveContent) -> str:
    """How long a motive lasts, in words."""
    total, steps = float(content.switches["mean"].sum()), int(content.switches["steps"].sum())
    said = f"Subjects switched about {f'{total:,.0f}' if total >= 10 else f'{total:.1f}'} times in {steps:,} steps"
    said += f", once in {steps / total:,.0f} steps on average." if total >= 1 else "."
    if content.who[0] != AVERAGE and len(content.who) > 1:
        return said
    found = content.transitions
    stay = [
        f"motive {k} continues with a probability of {found.mean[0, k, k]:.2f} (95 %: {found.lower[0, k, k]:.2f} "
        f"to {found.upper[0, k, k]:.2f})"
        for k in range(content.num_shown)
    ]
    return f"{said} From one step to the next, {', '.join(stay)}."


def _where(leaving: pd.DataFrame, is_separate: bool) -> str:
    sure = leaving[leaving["p_above_average"] >= 0.95].sort_values("mean", ascending=False)
    if sure.empty:
        return "In no state is a motive more likely to be left than elsewhere with a probability of 95 %."
    some = [
        f"{f'{shortened(row.task)}, ' if is_separate else ''}motive {row.motive} in “{shortened(row.state)}”"
        for row in records(sure.head(4))
    ]
    more = f", and {len(sure) - 4} more" if len(sure) > 4 else ""
    return f"More likely to be left than elsewhere, with a probability of at least 95 % each: {', '.join(some)}{more}."


def _are_many(content: MotiveContent) -> bool:
    return min(len(content.tasks), SUBJECTS) * content.num_shown > INTERVALS


def _more_subjects(content: MotiveContent) -> str:
    return f" The first {SUBJECTS} of {len(content.tasks)} subjects." if len(content.tasks) > SUBJECTS else ""


def _shares(content: MotiveContent) -> dict[str, Any]:
    """Intervals; of very many, a heat map, whose intervals are in the table."""
    if _are_many(content):
        table = content.shares[content.shares["motive"] < content.num_shown]
        values = table["mean"].to_numpy().reshape(-1, content.num_shown)[:SUBJECTS]
        rows = list(content.tasks[:SUBJECTS])
        scale = {"low": 0.0, "high": float(values.max()), "unit": "share of steps"}
        return {"kind": "heat", "rows": rows, "cols": content.motives, "values": np.round(values, 3).tolist()} | scale
    each = []
    for name, part in content.shares.groupby("task", sort=False):
        some = part.sort_values("motive").head(content.num_shown)
        marks = [[short(row.mean), short(row.lower), short(row.upper)] for row in records(some)]
        each.append({"label": str(name), "plo": None, "phi": None, "marks": marks})
    return {
        "kind": "dodged",
        "rows": each[:SUBJECTS],
        "unit": "share of steps",
        "names": content.motives,
        "include": [0, 1],
        "legend": [],
    }


def _switches(content: MotiveContent) -> dict[str, Any]:
    rows = [
        {
            "label": str(row.task),
            "mid": short(row.mean),
            "lo": short(row.lower),
            "hi": short(row.upper),
            "tip": f"{row.task}\n{row.mean:.1f} switches (95 %: {row.lower:.0f} to {row.upper:.0f})\n"
            f"in {row.steps:,} steps",
        }
        for row in records(content.switches.head(SUBJECTS))
    ]
    legend = [["dot", "posterior mean"], ["line", "95 % interval"]]
    return {"kind": "intervals", "rows": rows, "unit": "number of switches", "legend": legend, "include": [0]}


def _subjects_table(content: MotiveContent) -> Markup:
    """One row a subject: steps, shares, switches."""
    shares = content.shares.set_index(["task", "motive"])
    rows = []
    for row in records(content.switches):
        cells: list[Any] = [shortened(row.task), int(row.steps)]
        for k in range(content.num_shown):
            share = shares.loc[(row.task, k)]
            cells.append((float(share["mean"]), f"{share['mean']:.2f} ({share['lower']:.2f} to {share['upper']:.2f})"))
        cells.append((float(row.mean), f"{row.mean:.1f} ({row.lower:.0f} to {row.upper:.0f})"))
        rows.append(cells)
    return table(
        ["subject", "steps", *(f"share of {name}" for name in content.motives), "switches"],
        rows,
        caption="Every subject: posterior mean and 95 % interval. Press a heading to sort.",
    )


def _transition_matrix(content: MotiveContent) -> dict[str, Any]:
    found = content.transitions
    each = [
        {
            "cells": [
                [
                    [short(round(float(part[n, j, k]), 4)) for part in (found.mean, found.lower, found.upper)]
                    for k in range(content.num_shown)
                ]
                for j in range(content.num_shown)
            ]
        }
        for n in range(len(content.who))
    ]
    return {"kind": "chosenOne", "of": "matrix", "chooser": "switching", "each": each, "names": content.motives}


def _triggers(content: MotiveContent, leaving: pd.DataFrame, figures: dict[str, Any]) -> list[Any]:
    """Where motives are left: the states with the highest probability, a list to choose a motive from."""
    separate = content.posterior.model.is_separate
    if leaving.empty:
        return [
            element("h3", "What triggers switches"),
            element("p", "No motive was active long enough to estimate this."),
        ]
    each, names = [], []
    keys = ["task", "motive"] if separate else ["motive"]
    for _, part in leaving.groupby(keys, sort=False):
        motive = int(part["motive"].iloc[0])
        if motive >= content.num_shown:
            continue
        top = part.sort_values("mean", ascending=False).head(TRIGGERS)
        rows = [
            {
                "label": str(row.state),
                "mid": short(row.mean),
                "lo": short(row.lower),
                "hi": short(row.upper),
                "tip": f"{row.state}\n{row.mean:.2f} (95 %: {row.lower:.2f} to {row.upper:.2f})\nabove average with a "
                f"probability of {per_cent(row.p_above_average)}\nactive there for about {row.active:,.0f} steps",
            }
            for row in records(top)
        ]
        each.append({"rows": rows})
        names.append(f"{shortened(part['task'].iloc[0])}, motive {motive}" if separate else f"motive {motive}")
        if len(each) >= 400:
            break
    figures["motive-leaving"] = {
        "kind": "chosenOne",
        "of": "intervals",
        "chooser": "leaving",
        "each": each,
        "unit": "probability that the motive is left",
        "legend": [["dot", "posterior mean"], ["line", "95 % interval"]],
        "include": [0],
    }
    worst = leaving.sort_values(["p_above_average", "mean"], ascending=False).head(100)
    return [
        element("h3", "What triggers switches"),
        element("p", _where(leaving, separate)),
        chooser_of("leaving", names, "Show where it is left:"),
        figure(
            "motive-leaving",
            title=f"Where it is left: the states with the highest probability (at most {TRIGGERS})",
            described="Posterior mean and 95 % interval of the probability that the motive chosen is left, by state.",
            how=(
                "The probability that, after a step in this state, another motive is active. Only states in "
                "which the motive was active for at least one step are listed. Where it was seldom active, the "
                "interval is wide, and the probability is close to the average over all states."
            )
            + (
                ""
                if separate or len(content.tasks) == 1
                else " All subjects are combined, weighted by their numbers of steps."
            ),
            chooser=len(names) > 1,
        ),
        table(
            [
                *(["subject"] if separate else []),
                "motive",
                "state",
                "steps in it, about",
                "left with probability",
                "above average",
            ],
            [
                [
                    *([shortened(row.task)] if separate else []),
                    f"motive {row.motive}",
                    shortened(row.state),
                    (float(row.active), f"{row.active:,.0f}"),
                    (float(row.mean), f"{row.mean:.2f} ({row.lower:.2f} to {row.upper:.2f})"),
                    (float(row.p_above_average), per_cent(float(row.p_above_average))),
                ]
                for row in records(worst)
            ],
            caption=(
                "States in which motives are left. “above average” is the probability that a motive is more "
                "likely to be left there than in the average visited state."
            )
            + (" The 100 most certain are listed." if len(leaving) > 100 else ""),
        ),
    ]
