"""Who differs, and why: effects of covariates, with intervals, beside a regression of posterior means."""

from typing import Any

import numpy as np
import pandas as pd

from manymotives import findings
from manymotives.models.priors import Prior
from manymotives.models.rewards import BetaReward, GaussianReward
from manymotives.posterior.effects import designs_of, reference_said
from manymotives.posterior.units import unit_of_value
from manymotives.reporting.content import Content
from manymotives.reporting.html import Markup, element, figure, table
from manymotives.reporting.sections_features import probability
from manymotives.reporting.words import amount, shortened

DRAWN = 40  # effects in the figure
LISTED = 200  # in the table
CONTRASTS = 30  # differences in choices in the table
ABOUT_CONTRASTS = (
    "Consequences for choices: differences between two values of a covariate, for the population’s typical "
    "subject (at its location plus effects, with average members of levels). Other covariates keep each "
    "subject’s own values, and differences are averaged over subjects. The value is that of a subject’s own choices "
    "by its own rewards, from where episodes began. "
)
LEGEND = [["dot", "posterior mean"], ["line", "95 % interval"], ["truth", "regression of posterior means"]]


def who_differs_and_why(content: Content, figures: dict[str, Any]) -> Markup:
    posterior = content.posterior
    effects, spreads = content.effects or findings.effects(posterior)
    has_regression = bool(effects["regression"].notna().any())
    parts: list[Any] = [
        element("h2", "Who differs, and why"),
        element("p", _meaning(content)),
        element("p", _about_consistency(content)),
        _formulas(content),
    ]
    if len(effects):
        figures["effects"] = {
            "kind": "intervals",
            "rows": [_drawn(row) for _, row in effects[:DRAWN].iterrows()],
            "legend": LEGEND if has_regression else LEGEND[:2],
            "line": 0,
            "include": [0],
            "unit": "effect",
        }
        parts += [
            figure(
                "effects",
                title="Effects of covariates, the most certain first",
                described="Posterior mean and 95 % interval of each effect; the table below has the numbers.",
                how=(
                    "A dot is the posterior mean of an effect, and its line the 95 % interval. If the line "
                    "crosses the dashed one, the sign of the effect is uncertain."
                )
                + (f" The {DRAWN} most certain of {len(effects):,} are shown." if len(effects) > DRAWN else ""),
            ),
            _effects_table(effects, has_regression),
        ]
        if has_regression:
            parts.append(element("p", _about_regression(spreads)))
    if len(spreads):
        parts.append(_spreads_table(spreads))
    different = findings.contrasts(posterior)
    if len(different):
        parts += [element("p", ABOUT_CONTRASTS + unit_of_value(posterior)), _contrasts_table(different)]
    return element("section", parts, id="effects")


def _meaning(content: Content) -> str:
    """What an effect is, and on which scale."""
    model, drawn = content.posterior.model, content.posterior.data["posterior"].dataset
    on = ["weights themselves"] if content.posterior.has_features else []
    if not on:
        kinds = {GaussianReward: "rewards themselves", BetaReward: "logits of rewards"}
        on = [kinds.get(type(model.reward), "logarithms of rewards")]
    on += ["logarithms of inverse temperatures"] if "inverse_temperature" in drawn else []
    on += ["logits of lapse rates"] if "lapse" in drawn else []
    on += ["logits of discounts"] if "discount" in drawn else []
    return (
        "The location of the population depends on covariates of the subjects. An effect is what one more unit "
        "of a numeric covariate, or a level of a factor compared with the reference, adds to "
        + (on[0] if len(on) == 1 else f"{', '.join(on[:-1])} and {on[-1]}")
        + (
            ". Effects, subjects and populations were inferred jointly, so intervals include the uncertainty about "
            "each subject's own parameters. An effect is causal only if the covariate was assigned at random. The "
            f"population mean is that of subjects at {shortened(reference_said(content.posterior))}; a new "
            "subject has the covariates of a random subject of the fit."
        )
    )


def _about_consistency(content: Content) -> str:
    """That the size of effects on rewards depends on the inverse temperature."""
    known, what = content.posterior.model.inverse_temperature, "weights" if content.weights is not None else "rewards"
    if not isinstance(known, Prior):
        return (
            f"The inverse temperature was taken as known ({amount(known)}), so the data cannot distinguish “wants it "
            "more” from “acts more consistently”: if the subjects of one group acted more consistently than those of "
            f"another, all their {what} would seem larger in size. An effect that enlarges all {what} may therefore "
            "be an effect on consistency."
        )
    return (
        "The inverse temperature was inferred too. The data cannot distinguish “wants it more” from “acts more "
        f"consistently”: how a difference is divided between {what} and inverse temperatures depends on the priors."
    )


def _formulas(content: Content) -> Markup:
    """Formulas, how covariates were coded, and the prior."""
    sharing = content.posterior.model.sharing
    designs = designs_of(sharing, content.posterior.tasks)
    one = isinstance(sharing.formula, str)
    lines = dict.fromkeys(line for design in designs.values() for line in design.coding.splitlines())
    facts = [
        ("Formula" if one else f"Formula of {shortened(name)}", design.formula) for name, design in designs.items()
    ]
    facts += [("How covariates were coded", element("span", line)) for line in lines]
    facts.append(
        (
            "Prior of effects",
            f"Normal(0, {sharing.effect_scale:g}), for one standard deviation of a numeric covariate or another level "
            "of a factor",
        )
    )
    return element("dl", [(element("dt", what), element("dd", how)) for what, how in facts])


def _drawn(row: pd.Series) -> dict[str, Any]:
    """An effect in the figure."""
    mid, low, high = (float(f"{row[word]:.4g}") for word in ("mean", "lower", "upper"))
    simple = None if np.isnan(row["regression"]) else float(f"{row['regression']:.4g}")
    label = f"{findings.effect_target(row)}: {row['term']}"
    beside = "" if simple is None else f"\nregression of posterior means: {simple:.3g}"
    tip = f"{label}\n{mid:.3g} (95 %: {low:.3g} to {high:.3g})\nthis sign: {probability(row['p_direction'])}{beside}"
    return {"label": label, "mid": mid, "lo": low, "hi": high, "truth": simple, "tip": tip}


def _effects_table(effects: pd.DataFrame, has_regression: bool) -> Markup:
    headings = ["effect on", "of", "mean", "95 %", "sign", "probability of this sign"]
    headings += ["regression of posterior means"] if has_regression else []
    rows = []
    for _, row in effects[:LISTED].iterrows():
        cells: list[Any] = [
            shortened(findings.effect_target(row)),
            shortened(row["term"]),
            _digits(row["mean"]),
            f"{_digits(row['lower'])[1]} to {_digits(row['upper'])[1]}",
            "positive" if row["p_positive"] >= 0.5 else "negative",
            (float(row["p_direction"]), probability(row["p_direction"])),
        ]
        cells += [_digits(row["regression"])] if has_regression else []
        rows.append(cells)
    cut = (
        f" The {LISTED} most certain of {len(effects):,} are listed; manymotives export writes all."
        if len(effects) > LISTED
        else ""
    )
    return table(headings, rows, caption=f"Effects of covariates, the most certain sign first.{cut}")


def _about_regression(spreads: pd.DataFrame) -> str:
    return (
        "Regression of posterior means: least squares of each subject's posterior mean on the same covariates, "
        "as is often done in a second step. It treats these means as data without error. Here they come from "
        "this fit, which uses the covariates; means of a fit without covariates are shrunk towards one common "
        "mean, and so is their regression." + (" Levels are not included." if len(spreads) else "")
    )


def _spreads_table(spreads: pd.DataFrame) -> Markup:
    rows = [
        [
            shortened(findings.effect_target(row)),
            shortened(row["term"]),
            _digits(row["mean"]),
            f"{_digits(row['lower'])[1]} to {_digits(row['upper'])[1]}",
        ]
        for _, row in spreads[:LISTED].iterrows()
    ]
    return table(["of", "spread", "mean", "95 %"], rows, caption="Standard deviations between members of a level.")


def _contrasts_table(different: pd.DataFrame) -> Markup:
    """Values, then choices, the surest first."""
    values = different[different["quantity"] == "value"]
    choices = different[different["quantity"] == "choice"].copy()
    distance = (choices["mean"] / choices["sd"]).abs()
    choices = choices.assign(distance=distance).sort_values(["p_direction", "distance"], ascending=False, kind="stable")
    rows = []
    for _, row in pd.concat([values, choices[:CONTRASTS]]).iterrows():
        of = "value" if row["quantity"] == "value" else f"probability of {row['action']} in {row['state']}"
        rows.append(
            [
                shortened(row["contrast"]),
                shortened(of),
                _digits(row["mean"]),
                f"{_digits(row['lower'])[1]} to {_digits(row['upper'])[1]}",
                (float(row["p_direction"]), probability(row["p_direction"])),
            ]
        )
    cut = (
        f" Of {len(choices):,} differences in choices, the {CONTRASTS} most certain are listed; manymotives "
        "export writes all."
    )
    return table(
        ["contrast", "difference in", "mean", "95 %", "probability of this sign"],
        rows,
        caption="Differences in values and choices." + (cut if len(choices) > CONTRASTS else ""),
    )


def _digits(value: Any) -> tuple[float, str]:
    """Three digits: effects of one unit may be small."""
    found = float(value)
    return (0.0, "–") if np.isnan(found) else (found, f"{found:.3g}".replace("-", "−"))
