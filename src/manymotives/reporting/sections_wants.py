"""What they want, for the population and each subject."""

from typing import Any

import numpy as np

from manymotives.findings import Learning, Similarity
from manymotives.reporting.content import Content
from manymotives.reporting.html import Markup, element, figure, table
from manymotives.reporting.layout import by_state, layout_of, side_by_side, with_rows
from manymotives.reporting.words import listed, per_cent, shortened

ROWS, COLUMNS = 60, 24  # of a heat map
SUREST = 8  # contrasts listed
LISTED = 400  # states in a table
EXPORTED = "The tables written by manymotives export have all of them."


def thousandths(values: np.ndarray) -> Any:
    """Small whole numbers, which make a small page."""
    return np.round(values * 1000).astype(int).tolist()


def labels(learnt: Learning) -> list[str]:
    """Cells by name."""
    if learnt.cells["action"].isna().all():
        return learnt.cells["state"].tolist()
    return [f"{action} in {state}" for state, action in zip(learnt.cells["state"], learnt.cells["action"])]


def unit(content: Content) -> str:
    if content.posterior.model.reward.on == "state_action":
        return "value relative to the best action there (range = 1)"
    if _has_groups(content):
        return "reward relative to its group (range = 1)"
    if content.posterior.environment.is_terminal.any():
        return "reward (range = 1)"
    return "reward relative to own average (range = 1)"


def reward_data(content: Content) -> dict[str, Any]:
    """What the page needs to draw anyone's rewards."""
    learnt = content.learning
    truth = None
    if content.truth is not None:
        known = thousandths(content.truth)
        truth = [None, *known] if learnt.has_population else known
    visits = content.sample.counts.sum(axis=(0, 2))
    on_states = content.posterior.model.reward.on == "state"
    drawn = layout_of(content.posterior.environment, visits) if on_states else None
    ends = [learnt.mean.min(), learnt.mean.max(), learnt.prior_mean.min(), learnt.prior_mean.max()]
    if content.truth is not None:
        ends += [content.truth.min(), content.truth.max()]
    return {
        "who": [_who(name, number, learnt) for number, name in enumerate(learnt.who)],
        "cells": labels(learnt),
        "unit": unit(content),
        **{word: thousandths(getattr(learnt, word)) for word in ("mean", "lower", "upper", "shift")},
        "prior": {word: thousandths(getattr(learnt, f"prior_{word}")) for word in ("mean", "lower", "upper")},
        "truth": truth,
        "low": int(np.floor(1000 * min(ends))),
        "high": int(np.ceil(1000 * max(ends))),
        "contrasts": _surest(learnt),
        "groups": learnt.comparable.tolist() if _has_groups(content) else None,
        "aside": _hidden_cells(content).tolist(),
        "layout": None if drawn is None else with_rows(by_state(drawn), content.posterior),
        "listed": LISTED,
    }


def what_they_want(content: Content, figures: dict[str, Any]) -> Markup:
    learnt = content.learning
    data = reward_data(content)
    figures["rewards"] = data
    beyond, many = len(learnt.cells) > 20, len(learnt.cells) > LISTED
    cells = "states" if content.posterior.model.reward.on == "state" else "states and actions"
    parts: list[Any] = [
        element("h2", "What they want" if content.weights is None else f"The implied rewards of {cells}"),
        None
        if content.weights is None
        else element("p", "These rewards are weighted sums of features: they follow from the weights above."),
        element(
            "p",
            "Rewards are in canonical form, on a scale where the most and the least wanted differ by 1"
            + (", measured from each subject's own average. " if "average" in data["unit"] else ". ")
            + "Draws that imply the same choices look the same on this scale.",
        ),
        element("p", _within_groups(content)) if _has_groups(content) else None,
        chooser("wanted", data["who"], "Show"),
    ]
    if data["layout"] is not None:
        shared = (
            ""
            if data["layout"]["alone"]
            else " If several states have the same position, their mean is shown, weighted by visits."
        )
        parts.append(
            figure(
                "reward-map",
                title="Maps: prior and posterior",
                described="Maps of the mean reward of every state under the prior and under the posterior; the table "
                "below has the numbers.",
                how="Each mark is a state at its position in the environment; yellow is the highest reward, dark "
                "blue the lowest, on the scale below. The prior is on the left, the posterior next to it. Where both "
                "look alike, nothing was learnt. Hover for "
                f"numbers.{shared}{side_by_side(content.posterior.environment)}"
                + (" Compare colours only within a group (see above)." if _has_groups(content) else ""),
                chooser=True,
            )
        )
    parts += [
        figure(
            "ranked",
            title="Rewards and their uncertainty" + (" (the 14 most and the 6 least wanted)" if beyond else ""),
            described="Posterior mean and 95 % interval of each reward, with the prior's interval; the table below has "
            "the numbers.",
            how="A dot is the posterior mean, and its line the 95 % interval; the grey bar is the 95 % interval "
            "of the prior. If the line is as wide as the bar, nothing was learnt."
            + (
                " A diamond is the truth, known because these subjects were simulated."
                if content.truth is not None
                else ""
            )
            + (" Lines separate the groups." if _has_groups(content) else "")
            + (" Rewards on which no choice depends are left out." if _hidden_cells(content).size else ""),
            chooser=True,
        ),
        element(
            "details",
            element("summary", "Numbers of the one chosen above" if many else "All numbers of the one chosen above"),
            _numbers_table(content),
        ),
        element("h3", "The most certain differences"),
        element(
            "p",
            "For the selection above, with the probability of this order, if it was not as certain under "
            "the prior"
            + ("; only differences that choices can identify are listed:" if len(learnt.prior_alone) else ":"),
        ),
        element("ol", id="contrasts"),
        element("p", "No difference has become certain (95 %) through the data.", id="no-contrasts", hidden=True),
    ]
    if len(learnt.who) > 2:
        figures["everyone"] = heat_map(content, learnt.mean, unit(content), low=None)
        parts.append(
            figure(
                "everyone",
                title="Everyone at a glance",
                described="Heat map of the posterior mean reward of subjects (rows) and states (columns).",
                how="One row per subject, one column per reward; yellow is the highest reward, dark blue the lowest."
                + shown_in_map(content)
                + " Hover for numbers.",
            )
        )
    if content.weights is None:  # otherwise the table of subjects has a column for each feature
        parts.append(_subjects_table(content))
    return element("section", parts, id="wants")


def _has_groups(content: Content) -> bool:
    """Whether choices can compare the rewards of some states only."""
    return content.posterior.model.reward.on == "state" and not content.posterior.identifiability.is_plain


def _hidden_cells(content: Content) -> np.ndarray:
    """Cells that no choice is about: states that can be compared with no other, actions without an alternative."""
    number = content.learning.cells["state_index"].to_numpy()
    if content.posterior.model.reward.on == "state":
        number = content.learning.comparable
    values, sizes = np.unique(number, return_counts=True)
    return np.flatnonzero(np.isin(number, values[sizes == 1]) | (content.learning.comparable < 0))


def _within_groups(content: Content) -> str:
    """Which rewards may be compared, where not all may."""
    learnt = content.learning
    numbers, sizes = np.unique(learnt.comparable[learnt.comparable >= 0], return_counts=True)
    several = numbers[sizes > 1]
    if not len(several):
        return "Choices in this environment cannot identify which of two states is wanted more, so do not compare them."
    groups = [listed(learnt.cells["state"][learnt.comparable == number].tolist(), 6) for number in several[:6]]
    more = " (and others, listed below)" if len(several) > 6 else ""
    return (
        "Compare rewards only within "
        + ("this group" if len(several) == 1 else "each of these groups")
        + f": {'; '.join(groups)}{more}. Each reward is shown relative to its group, because choices in this "
        "environment cannot identify differences between groups."
    )


def chooser(kind: str, names: list[str], word: str) -> Markup:
    """A list to choose from, and buttons for the one before and the next."""
    options = [element("option", shortened(name)) for name in names]
    return element(
        "div",
        element(
            "label", word, " ", element("select", options, data_chooser=kind, id=f"choose-{kind}", autocomplete="off")
        )
        if len(names) > 1
        else element("span", names[0]),
        [
            element("button", said, type="button", data_step=step, data_for=kind, aria_label=spoken)
            for said, step, spoken in (("‹ before", -1, "the one before"), ("next ›", 1, "the next one"))
        ]
        if len(names) > 1
        else None,
        class_="chooser",
    )


def _who(name: str, number: int, learnt: Learning) -> str:
    return "the population: a new subject" if number == 0 and learnt.has_population else name


def _surest(learnt: Learning) -> list[list[list[int]]]:
    """For each, pairs of cells whose order is surest, the wanted one first, with the probability in thousandths.

    An order that was as sure before the data, as of an action that is never better, is nothing that choices have shown.
    """
    found: list[list[list[int]]] = []
    for above, settled in zip(learnt.above, learnt.settled):
        sure = np.where(settled, np.maximum(above, 1 - above), 0.0)
        gaps = np.abs(learnt.mean[len(found)][learnt.pairs[:, 0]] - learnt.mean[len(found)][learnt.pairs[:, 1]])
        order = np.lexsort((-gaps, -np.round(sure, 3)))[:SUREST]
        found.append(
            [
                [
                    *(int(c) for c in (learnt.pairs[p] if above[p] >= 0.5 else learnt.pairs[p][::-1])),
                    int(np.floor(1000 * sure[p])),
                ]
                for p in order
                if sure[p] > 0
            ]
        )
    return found


def _rows_and_columns(content: Content) -> tuple[np.ndarray, np.ndarray]:
    """Which subjects and cells a heat map shows: those alike together; those that subjects differ in most."""
    learnt = content.learning
    first = int(learnt.has_population)
    rows = np.arange(first, len(learnt.who))
    if isinstance(content.similarity, Similarity) and content.similarity.left_out == 0:
        rows = content.similarity.order + first
    spread = learnt.mean[rows].max(axis=0) - learnt.mean[rows].min(axis=0) if len(rows) > 1 else learnt.shift[rows[0]]
    columns = np.sort(np.argsort(-spread, kind="stable")[:COLUMNS])
    return rows[:ROWS], columns


def heat_map(
    content: Content, values: np.ndarray, said: str, low: float | None, high: float | None = None
) -> dict[str, Any]:
    rows, columns = _rows_and_columns(content)
    part = values[np.ix_(rows, columns)]
    names = labels(content.learning)
    return {
        "kind": "heat",
        "rows": [content.learning.who[r] for r in rows],
        "cols": [names[c] for c in columns],
        "values": np.round(part, 3).tolist(),
        "low": float(part.min()) if low is None else low,
        "high": float(part.max()) if high is None else high,
        "unit": said,
    }


def shown_in_map(content: Content) -> str:
    learnt = content.learning
    rows, columns = _rows_and_columns(content)
    subjects = len(learnt.who) - int(learnt.has_population)
    said = " Similar subjects are next to each other." if subjects > 1 and len(rows) == subjects else ""
    if len(rows) < subjects:
        said = f" The first {len(rows)} of {subjects} subjects; the others are in the list above."
    if len(columns) < len(learnt.cells):
        said += f" The {len(columns)} of {len(learnt.cells)} columns in which subjects differ most."
    return said


def _numbers_table(content: Content) -> Markup:
    headings = ["reward of", "mean", "2.5 %", "97.5 %", "prior mean", "shift"] + (
        ["truth"] if content.truth is not None else []
    )
    cells, half = len(content.learning.cells), LISTED // 2
    some = f": the {half} most and the {half} least wanted of {cells:,}. {EXPORTED}" if cells > LISTED else ""
    caption = f"Posterior of each reward, canonical form{some}"
    return element("div", table(headings, [], caption=caption), id="table-wanted")


def _subjects_table(content: Content) -> Markup:
    learnt, names = content.learning, labels(content.learning)
    first = int(learnt.has_population)
    counts = content.sample.counts.sum(axis=(1, 2))
    on_states = content.posterior.model.reward.on == "state"
    surest = _surest(learnt)
    rows = []
    for number in range(first, len(learnt.who)):
        best = int(learnt.mean[number].argmax())
        learnt_about = float((~learnt.unmoved[number, learnt.varies]).mean()) if learnt.varies.any() else 0.0
        wants: list[Any] = [shortened(names[best]), (learnt.mean[number, best], f"{learnt.mean[number, best]:.2f}")]
        if not on_states:  # the best action costs nothing in every state: say which is surely better than another
            pair = surest[number][0][:2] if surest[number] else None
            wants = ["none" if pair is None else f"{shortened(names[pair[0]])}, not {shortened(names[pair[1]])}"]
        rows.append(
            [
                shortened(learnt.who[number]),
                int(counts[number - first]),
                *wants,
                int(learnt.settled[number].sum()),
                (learnt_about, per_cent(learnt_about)),
            ]
        )
    most = "wants most in its group" if _has_groups(content) else "wants most"
    wanted = [most, "posterior mean"] if on_states else ["most certain preference"]
    headings = ["subject", "choices", *wanted, "settled differences", "rewards learnt about"]
    return table(headings, rows, caption="Every subject. Press a heading to sort.")
