"""The sections of a report of motives that switch, and what is left out of it, with the reason."""

from typing import Any

from manymotives.models.priors import Prior
from manymotives.reporting.html import Markup, element, figure
from manymotives.reporting.motives import MotiveContent
from manymotives.reporting.sections_comparison import does_it_predict
from manymotives.reporting.sections_evidence import did_it_work
from manymotives.reporting.sections_model import (
    how_to_cite,
    mixing_sentence,
    points_in_short,
    prediction_sentence,
    warnings,
    what_was_fitted,
)
from manymotives.reporting.sections_motives import short, what_motives_want
from manymotives.reporting.sections_switching import (
    SUBJECTS,
    how_they_switch,
    motives_in_short,
    when_motives_are_active,
)
from manymotives.reporting.words import amount

MOTIVE_PLACES = (
    ("short", "In short"),
    ("fitted", "Fitted"),
    ("wants", "What each motive wants"),
    ("active", "When it is active"),
    ("switching", "How they switch"),
    ("temperature", "How they act"),
    ("prediction", "Prediction"),
    ("missing", "Left out"),
    ("convergence", "Convergence"),
    ("cite", "Cite"),
)


def motive_sections(content: MotiveContent, figures: dict[str, Any]) -> list[Markup]:
    """All of them, one after the other."""
    return [
        warnings(content.posterior),
        points_in_short(
            [
                *motives_in_short(content),
                ("prediction", prediction_sentence(content)),
                ("convergence", mixing_sentence(content)),
            ]
        ),
        what_was_fitted(content),
        what_motives_want(content, figures),
        when_motives_are_active(content, figures),
        how_they_switch(content, figures),
        _how_they_act(content, figures),
        does_it_predict(content, figures),
        _left_out(),
        did_it_work(content),
        how_to_cite(content),
    ]


def _how_they_act(content: MotiveContent, figures: dict[str, Any]) -> Markup:
    """Inverse temperatures of each motive, on the scale of the rewards shown."""
    known = content.posterior.model.inverse_temperature
    found = content.temperatures
    figures["temperatures"] = {
        "kind": "dodged",
        "rows": [
            {
                "label": name,
                "plo": None,
                "phi": None,
                "marks": [
                    [short(part[n, k]) for part in (found.mean, found.lower, found.upper)]
                    for k in range(content.num_shown)
                ],
            }
            for n, name in enumerate(content.who[:SUBJECTS])
        ],
        "unit": "inverse temperature, canonical scale",
        "names": content.motives,
        "include": [0],
        "legend": [],
    }
    said = (
        "The inverse temperature says how consistently a subject chooses what the active motive values more, on "
        "the scale of the rewards above: at 1, an action whose value is higher by the whole range of rewards is "
        "chosen e ≈ 2.7 times as often as the other; at 0, all actions are equally probable."
    )
    if not isinstance(known, Prior):
        said += (
            f" It was taken as known here ({amount(known)}) for rewards on their own scale; the variation below "
            "is that of the size of the rewards, which the canonical scale moves into the inverse temperature."
        )
    return element(
        "section",
        element("h2", "How consistently they act"),
        element("p", said),
        figure(
            "temperatures",
            title="Inverse temperatures",
            described="Posterior mean and 95 % interval of the inverse temperature under each motive.",
            how="One dot for each motive, in its colour and shape; the line is the 95 % interval. Further right "
            "means more consistent choices while this motive is active.",
        ),
        id="temperature",
    )


def _left_out() -> Markup:
    return element(
        "section",
        element("h2", "What is left out"),
        element(
            "p",
            "The sections on who resembles whom, on whether the model could have produced these choices, and on "
            "the best policy of each subject are not shown, because they assume subjects with a single motive.",
        ),
        id="missing",
    )
