"""How many motives there are: their number, who shares one with whom, what each wants and what tells them apart."""

from typing import Any

import numpy as np

from manymotives.findings import SharedMotives
from manymotives.models.priors import Prior
from manymotives.posterior.partitions import listed
from manymotives.reporting.content import Content
from manymotives.reporting.html import Markup, element, figure, table
from manymotives.reporting.sections_model import motives_sentence
from manymotives.reporting.words import per_cent, records, shortened

TASKS = 60  # in the heat map
MOTIVES, CELLS = 8, 12  # in the picture of what motives want
ROWS = 200  # of what motives want, in the table
SUREST = 15  # differences listed
LEGEND = [["dot", "posterior mean"], ["line", "95 % interval"]]


def how_many_motives(motives: SharedMotives, content: Content, figures: dict[str, Any]) -> Markup:
    figures["number-of-motives"] = _number(motives)
    figures["together"] = _together(motives)
    figures["motives-want"] = _wants(motives)
    shown = len(figures["together"]["rows"])
    parts: list[Any] = [
        element("h2", "How many motives are there?"),
        element("p", element("b", motives_sentence(motives))),
        element("p", _meaning(content)),
        figure(
            "number-of-motives",
            title="The number of motives",
            described="The probability of each number of motives, under the posterior and the prior.",
            how="A dot is the posterior probability of this number of motives; the grey bar is its prior "
            "probability. If the two agree, the data say nothing about the number.",
        ),
        element("h3", "Who with whom"),
        figure(
            "together",
            title="Who shares a motive with whom",
            described="Heat map of the probability that each two subjects share a motive; the table below has the "
            "motive of each.",
            how=(
                "Yellow means certainly the same motive, dark blue certainly not. Subjects are ordered by the "
                "partition that is closest to all draws, the most certain members of each motive first; blocks "
                "along the diagonal are its motives. Colour outside the blocks indicates uncertainty."
            )
            + (f" {shown} of {len(motives.who)} subjects, evenly spread." if shown < len(motives.who) else ""),
        ),
        _members(motives),
        element("h3", "What each motive wants"),
        figure(
            "motives-want",
            title="What each motive wants",
            described="Posterior mean and 95 % interval of what each motive of the partition wants; the table below "
            "has the numbers.",
            how="The average over the subjects of each motive, in every draw: a dot is its mean, and its line "
            "the 95 % interval. The rows that differ most between motives are at the top.",
        ),
        _wants_table(motives),
        element("h3", "How motives differ"),
        *_apart(motives),
    ]
    return element("section", parts, id="motives")


def _meaning(content: Content) -> str:
    """When subjects share a motive, and on which scale."""
    model = content.posterior.model
    inferred = isinstance(model.inverse_temperature, Prior)
    said = (
        "Subjects share a motive if they choose alike. "
        + (
            "The consistency of each subject was inferred too, so subjects share a motive if their rewards are "
            "the same up to scale: wanting twice as much and acting half as consistently look the same. "
            if inferred
            else (
                "Their consistency was taken as known, so subjects share a motive if they want the same equally "
                "strongly. "
            )
        )
        + (
            "Motives have no fixed labels: they are numbered by how many subjects act on them in the partition "
            "that is closest to all draws (smallest expected variation of information)."
        )
    )
    if model.sharing.spread is not None:
        said += (
            " Subjects who share a motive vary around it. The wider this spread may be, the fewer motives are "
            "needed, so the number of motives depends on the prior of the spread."
        )
    return said


def _number(motives: SharedMotives) -> dict[str, Any]:
    rows = [
        {
            "label": f"{number} motive{'s' if number != 1 else ''}",
            "mid": round(float(row["probability"]), 4),
            "lo": 0,
            "hi": round(float(row["probability"]), 4),
            "plo": 0,
            "phi": round(float(row["prior"]), 4),
            "tip": f"{number}: {per_cent(row['probability'])}; prior {per_cent(row['prior'])}",
        }
        for number, row in motives.number.iterrows()
    ]
    legend = [["dot", "after the data"], ["band", "before the data"]]
    return {"kind": "intervals", "rows": rows, "unit": "probability", "legend": legend, "include": [0, 1]}


def _together(motives: SharedMotives) -> dict[str, Any]:
    count = len(motives.who)
    kept = np.arange(count) if count <= TASKS else np.linspace(0, count - 1, TASKS).astype(int)
    names = [motives.who[n] for n in kept]
    return {
        "kind": "heat",
        "rows": names,
        "cols": names,
        "values": np.round(motives.together[np.ix_(kept, kept)], 3).tolist(),
        "low": 0.0,
        "high": 1.0,
        "unit": "probability of sharing a motive",
    }


def _members(motives: SharedMotives) -> Markup:
    found, rows = motives.partition, []
    for row in records(found.table.reset_index()):
        names = [shortened(name, 30) for name in found.members[row.motive]]
        said = listed(names[:40]) + (f" and {len(names) - 40} more" if len(names) > 40 else "")
        chance = float(motives.newcomer[row.motive])
        rows.append(
            [int(row.motive), int(row.tasks), (row.together, per_cent(row.together)), (chance, per_cent(chance)), said]
        )
    new = per_cent(float(motives.newcomer["new"]))
    return table(
        ["motive", "subjects", "together", "a new subject's", "who"],
        rows,
        caption="The motives of the partition closest to all draws. “Together” is the mean probability that a "
        "subject shares a motive with the others of its group, or that it is alone if its group has one "
        "member. “A new subject's” is the probability that a new subject acts on this motive, before it "
        f"has made a choice; for a new motive it is {new}. The mean distance of draws from this partition "
        f"is {found.expected_distance:.2g} nats.",
    )


def _order(motives: SharedMotives) -> list[str]:
    """Of what rewards are, those first in which motives differ most."""
    wants = motives.wants.assign(name=motives.names(motives.wants))
    apart = wants.groupby("name", sort=False)["mean"].agg(lambda values: values.max() - values.min())
    return [str(name) for name in apart.sort_values(ascending=False, kind="stable").index]


def _wants(motives: SharedMotives) -> dict[str, Any]:
    wants = motives.wants.assign(name=motives.names(motives.wants))
    wants = wants[wants["motive"] <= MOTIVES]
    rows: list[dict[str, Any]] = []
    for name in _order(motives)[:CELLS]:
        for number, row in enumerate(records(wants[wants["name"] == name])):
            rows.append(
                {
                    "label": f"{name}: motive {row.motive}",
                    "mid": float(f"{row.mean:.4g}"),
                    "lo": float(f"{row.lower:.4g}"),
                    "hi": float(f"{row.upper:.4g}"),
                    "gap": number == 0 and len(rows) > 0,
                    "tip": f"{name}, motive {row.motive}: {row.mean:.3g} (95 %: {row.lower:.3g} to {row.upper:.3g})",
                }
            )
    return {
        "kind": "intervals",
        "rows": rows,
        "unit": motives.unit,
        "legend": LEGEND,
        "line": 0,
        "include": [0],
        "names": 0.5,
    }


def _wants_table(motives: SharedMotives) -> Markup:
    wants = motives.wants.assign(name=motives.names(motives.wants))
    positive = "p_positive" if "p_positive" in wants else "p_above_average"
    rows = [
        [
            int(row.motive),
            shortened(row.name, 40),
            (row.mean, f"{row.mean:.2f}"),
            _range(row.lower, row.upper),
            (getattr(row, positive), per_cent(getattr(row, positive))),
        ]
        for row in records(wants[:ROWS])
    ]
    more = f" The first {ROWS} of {len(wants):,} rows." if len(wants) > ROWS else ""
    above = "above 0" if positive == "p_positive" else "above its average"
    of = "feature" if motives.cells == ("feature",) else "state" if motives.cells == ("state",) else "action"
    return table(["motive", of, "mean", "95 %", above], rows, caption=f"What each motive wants: {motives.unit}.{more}")


def _apart(motives: SharedMotives) -> list[Markup]:
    if motives.apart.empty:
        return [element("p", "The partition closest to all draws has one motive, so there is nothing to compare.")]
    frame = motives.apart.assign(name=motives.names(motives.apart))[:SUREST]
    rows = [
        [
            f"{row.motive} and {row.other_motive}",
            shortened(row.name, 40),
            (row.mean, f"{row.mean:+.2f}"),
            _range(row.lower, row.upper),
            (row.p_direction, per_cent(row.p_direction)),
        ]
        for row in records(frame)
    ]
    return [
        element(
            "p",
            "Motives are distinguished because their subjects choose differently, so some difference is to be "
            "expected; the table shows which. Differences with a probability of at least 95 % come first, the "
            "largest of them at the top.",
        ),
        table(
            ["motives", "in", "first minus second", "95 %", "probability of this sign"],
            rows,
            caption=f"Where motives differ most: {motives.unit}.",
        ),
    ]


def _range(lower: float, upper: float) -> str:
    return f"{lower:.2f} to {upper:.2f}".replace("-", "−")
