"""Counterfactual questions in; a section about each out: whether it is identified, and what would change."""

from typing import Any

import pandas as pd

from manymotives.errors import InputError
from manymotives.posterior import Counterfactual, Posterior
from manymotives.posterior.counterfactual import SCALARS, TIMES
from manymotives.posterior.counterfactual_words import after_episodes
from manymotives.reporting.html import Markup, element, figure, table

DRAWN = 25  # states in the picture, those whose visits change most
LISTED = 40  # rows of tables of choices and actions, those that change most
SUBJECTS = 200  # rows of the table of values


def checked_counterfactuals(given: Any, posterior: Posterior) -> tuple[Counterfactual, ...]:
    """One counterfactual, several, or none, all of them about the tasks of this posterior."""
    found = () if given is None else tuple(given) if isinstance(given, list | tuple) else (given,)
    for each in found:
        if not isinstance(each, Counterfactual):
            raise InputError(
                "counterfactual must be a result of posterior.counterfactual(...), or a list of these; found "
                f"{type(each).__name__}."
            )
        if "motive" in each.data.dims:
            raise InputError(
                "the report's section on counterfactuals is for subjects with one motive each. Leave out "
                "counterfactual=; its to_frame() has what each motive would do."
            )
        if each.data["task"].values.tolist() != posterior._task_coordinate.values.tolist():
            raise InputError(
                "this counterfactual is about other tasks than the report. Compute it from the same posterior."
            )
    return found


def what_would_happen(asked: tuple[Counterfactual, ...], figures: dict[str, Any]) -> Markup | None:
    """Nothing where nothing was asked."""
    if not asked:
        return None
    parts: list[Any] = [element("h2", "What would happen if …")]
    for number, found in enumerate(asked):
        parts += _about(found, number, figures)
    return element("section", parts, id="whatif")


def _about(found: Counterfactual, number: int, figures: dict[str, Any]) -> list[Any]:
    """One question: the statement of identification before any number."""
    level = 100 * found.data.attrs["level"]
    frame = found.to_frame("population")
    kind = "failed" if found.identified is False else None
    parts: list[Any] = [
        element("h3", f"What if {'; '.join(found.change)}?"),
        *(element("p", said, class_=kind if place == 0 else None) for place, said in enumerate(found.statements)),
        element("p", found.data.attrs["unit"]),
        _values(found, level),
    ]
    visits = frame[frame["quantity"] == "occupancy"]
    both = visits.dropna(subset=["before", "after"])
    if len(both):
        shown = both.reindex(both["difference"].abs().sort_values(ascending=False, kind="stable").index)[:DRAWN]
        name = f"whatif-{number}"
        figures[name] = {
            "kind": "dodged",
            "rows": [
                {
                    "label": str(row["state"]),
                    "plo": None,
                    "phi": None,
                    "marks": [_mark(row, t) for t in ("before", "after")],
                }
                for _, row in shown.iterrows()
            ],
            "unit": "share of discounted time",
            "names": ["before", "after"],
            "include": [0],
            "legend": [],
            "level": level,
        }
        parts.append(
            figure(
                name,
                title="Where subjects would be",
                described="Shares of time that the average subject spends in each state, before and after the change.",
                how=(
                    f"Two dots for each state, before and after the change, with {level:g} % intervals: the share "
                    "of discounted time that the average subject spends there."
                )
                + (f" The {DRAWN} states that change most." if len(both) > DRAWN else ""),
            )
        )
    parts.append(_shares(found, frame[frame["quantity"] == "long_run_share"], level))
    parts.append(_choices(frame[frame["quantity"] == "choice"], level))
    return parts


def _values(found: Counterfactual, level: float) -> Markup:
    """What subjects gain, one row each."""
    frame = found.to_frame("task")
    kinds = [name for name in SCALARS if (frame["quantity"] == name).any()]
    average = found.to_frame("population")
    rows = []
    for who, part in (("average of all", average), *((task, frame[frame["task"] == task]) for task in _tasks(frame))):
        row: list[Any] = [str(who)]
        for kind in kinds:
            one = part[part["quantity"] == kind].iloc[0]
            row += [_number(one, "before"), _number(one, "after")] if kind == "value" else []
            row += [_number(one, "difference"), (float(one["p_positive"]), f"{one['p_positive']:.2f}")]
        rows.append(row)
    headings = ["subject", "value before", "value after", "difference", "P(higher)"]
    headings += ["difference, by the rewards before", "P(higher)"] if "value_by_reward_before" in kinds else []
    headings += ["difference of welfare, with taste shocks", "P(higher)"] if "welfare" in kinds else []
    caption = (
        f"What subjects gain: expected discounted sums of their own rewards by their own choices, {level:g} % intervals"
        + ("" if found.value_identified else "; these depend in part on the prior")
    )
    return table(headings, rows, caption=caption)


def _tasks(frame: pd.DataFrame) -> list[Any]:
    return list(dict.fromkeys(frame["task"]))[:SUBJECTS]


def _shares(found: Counterfactual, frame: pd.DataFrame, level: float) -> Markup:
    """How often each action is taken in the long run, on average over subjects."""
    shown, some = _largest(frame)
    return table(
        ["action", *TIMES],
        [[str(row["action"]), *(_number(row, time) for time in TIMES)] for _, row in shown.iterrows()],
        caption="Share of each action in all steps of the average subject in the long run"
        f"{after_episodes(found)}, {level:g} % intervals{some}",
    )


def _largest(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The rows that change most; and that they are not all, in words."""
    size = frame["difference"].abs().fillna(-1.0).sort_values(ascending=False, kind="stable").index
    some = f", the {LISTED} of {len(frame):,} that change most" if len(frame) > LISTED else ""
    return frame.reindex(size)[:LISTED], some


def _choices(frame: pd.DataFrame, level: float) -> Markup:
    """The choices that change most, on average over subjects."""
    shown, some = _largest(frame)
    has_prior = "prior_lower" in shown
    rows = []
    for _, row in shown.iterrows():
        cells = [str(row["state"]), str(row["action"]), *(_number(row, time) for time in TIMES)]
        cells.append("not computed" if row["identified"] is None else "yes" if row["identified"] else "no")
        rows.append([*cells, f"{row['prior_lower']:.2f} to {row['prior_upper']:.2f}"] if has_prior else cells)
    headings = ["state", "action", *TIMES, "identified"]
    return table(
        [*headings, "prior alone, after"] if has_prior else headings,
        rows,
        caption=f"Probabilities of choices of the average subject, {level:g} % intervals{some}",
    )


def _number(row: Any, time: str) -> Any:
    """A mean with its interval."""
    if pd.isna(row[time]):
        return (float("-inf"), "–")
    return (float(row[time]), f"{row[time]:.3g} [{row[f'{time}_lower']:.3g}, {row[f'{time}_upper']:.3g}]")


def _mark(row: Any, time: str) -> list[float]:
    return [round(float(row[name]), 5) for name in (time, f"{time}_lower", f"{time}_upper")]
