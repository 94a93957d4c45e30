"""Does it predict? A comparison for each kind of held-out choices, from knowing nothing to our models."""

from typing import Any

import numpy as np
import pandas as pd

from manymotives.reporting.content import About
from manymotives.reporting.html import Markup, element, figure, table
from manymotives.scoring.basis import differing

HELD_OUT = {"episodes": "episodes of the same subjects", "tasks": "subjects who were held out"}


def does_it_predict(content: About, figures: dict[str, Any]) -> Markup:
    parts: list[Any] = [element("h2", "Does it predict held-out choices?")]
    if not content.scores:
        parts += [
            element(
                "p",
                "Held-out prediction has not been computed. A model can fit well and predict nothing, and a "
                "table of counts is often hard to beat. To compare its predictions with simple baselines, run",
            ),
            element("pre", "manymotives compare RUN.nc --out score.json"),
            element(
                "p",
                "and pass the result to the report with ",
                element("code", "--score score.json"),
                "; or, in Python, ",
                element("code", "mm.report(posterior, path, score=mm.score(posterior))"),
                ".",
            ),
        ]
    drawn = 0
    for score in content.scores:
        for what, compared in _comparisons(score):
            name, drawn = f"comparison{drawn}", drawn + 1
            figures[name] = _figure(compared)
            parts += [
                figure(
                    name,
                    title=f"Held out: {what}",
                    described="Log-likelihood per held-out choice of each model, with an interval; the table below has "
                    "the numbers.",
                    how="Mean log probability that each model gave to held-out choices; further right is better, "
                    "and 0 would be perfect prediction. Lines are 95 % intervals (1.96 standard errors, by "
                    "subject). A model worth its complexity lies to the right of the counts.",
                ),
                _table(compared, str(getattr(score, "model", ""))),
            ]
        for said in ("abbreviations", "note"):
            if getattr(score, said, None) is not None:
                parts.append(element("p", getattr(score, said)))
        if getattr(score, "basis", None) is not None:
            parts.append(element("p", f"Computed from {score.basis}."))
        if score.warnings:
            listed = element("ul", [element("li", warning) for warning in score.warnings])
            parts.append(element("div", listed, class_="warnings"))
    differ = differing([getattr(score, "basis", None) for score in content.scores])
    if differ is not None:
        parts.append(element("div", element("ul", [element("li", differ)]), class_="warnings"))
    return element("section", parts, id="prediction")


def _comparisons(score: Any) -> list[tuple[str, pd.DataFrame]]:
    """What was held out, in words, with its models; one table for each number of episodes shown by held-out tasks."""
    whole, what = score.table, HELD_OUT.get(str(score.hold_out), str(score.hold_out))
    if "own_episodes" not in whole:
        return [(what + _size(whole), whole)]
    unknown = f"without any choices of their own{' at first' if getattr(score, 'note', None) is not None else ''}"
    made = []
    for shown in sorted(whole["own_episodes"].unique()):
        part = whole[whole["own_episodes"] == shown]
        known = f"after their first {'episode' if shown == 1 else f'{int(shown)} episodes'}"
        made.append((f"{what}, {known if shown else unknown}{_size(part)}", part))
    return made


def _size(compared: pd.DataFrame) -> str:
    first = compared.iloc[0]
    return f" ({int(first['choices']):,} choices of {int(first['tasks'])} subjects)" if "tasks" in compared else ""


def _figure(compared: pd.DataFrame) -> dict[str, Any]:
    rows = []
    for row in compared.to_dict("records"):
        name, mid, error = str(row["model"]), float(row["log_likelihood"]), float(row["standard_error"])
        wide = 1.96 * error if np.isfinite(error) else 0.0
        if not np.isfinite(mid):
            continue
        tip = f"{name}\n{mid:.4f} nats per choice ± {wide:.4f}"
        rows.append({"label": name, "mid": mid, "lo": mid - wide, "hi": mid + wide, "tip": tip})
    legend = [["dot", "held-out log-likelihood"], ["line", "95 % interval"]]
    unit = "nats per choice (0 = perfect)"
    return {"kind": "intervals", "rows": rows, "unit": unit, "legend": legend, "names": 0.52}


def _table(compared: pd.DataFrame, model: str) -> Markup:
    """Each model's score, and how far it lies above or below the model in question, with the error of that."""
    headings: list[Any] = ["model", "nats a choice", "± error"]
    has_differences = "difference" in compared
    if has_differences:
        headings += [f"against {model}", "± error"]
    rows = []
    for row in compared.to_dict("records"):
        cells = [str(row["model"]), _number(row["log_likelihood"], ".4f"), _number(row["standard_error"], ".4f")]
        if has_differences:
            is_it = row["model"] == model
            cells += [
                (0.0, "–") if is_it else _number(row[word], form)
                for word, form in (("difference", "+.4f"), ("difference_se", ".4f"))
            ]
        rows.append(cells)
    said = "Model comparison, from uniform choice to the fitted models"
    if has_differences:
        said += (
            f". Against {model}: difference from that model; more than twice the standard error is unlikely to be "
            "chance"
        )
    return table(headings, rows, caption=said)


def _number(value: Any, form: str) -> Any:
    return (float(value), format(float(value), form)) if np.isfinite(value) else "–"
