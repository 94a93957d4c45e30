"""What each feature is worth, where rewards are made of features: the population, every subject, who differs."""

from typing import Any

import numpy as np

from manymotives.findings import FeatureWeights
from manymotives.reporting.content import Content
from manymotives.reporting.html import Markup, element, figure, table
from manymotives.reporting.sections_wants import chooser
from manymotives.reporting.words import amount, per_cent, records, shortened

SUBJECTS = 60  # in a figure
FEATURES = 40  # in a list to choose from, and columns of a table
SPELT_OUT = 10  # in a sentence
NAMED = 60  # rows of a figure that have names
SUREST = 8  # differences listed
LEGEND = [["dot", "posterior mean"], ["line", "95 % interval"], ["band", "prior, 95 %"]]


def what_features_are_worth(weights: FeatureWeights, content: Content, figures: dict[str, Any]) -> Markup:
    several = len(weights.who) > 1
    figures["feature-weights"] = _average(weights) | {"unit": _unit(weights), "line": 0, "include": [0]}
    whose = weights.average_name or shortened(weights.who[0])
    has_prior = figures["feature-weights"]["rows"][0]["plo"] is not None
    parts: list[Any] = [
        element("h2", "What they want: weights of features"),
        element("p", _meaning(weights, content)),
        figure(
            "feature-weights",
            title=f"The weight of each feature: {whose}",
            described="Posterior mean and 95 % interval of the weight of each feature, with the prior's; the table "
            "below has the numbers.",
            how="A dot is the posterior mean, and its line the 95 % interval. "
            + ("The grey bar is the 95 % interval of the prior. " if has_prior else "")
            + (f"The {NAMED} furthest from 0 of {len(weights.features):,}. " if len(weights.features) > NAMED else "")
            + (
                "A feature to the right of the dashed line is wanted, one to the left is avoided; if its interval "
                "crosses the line, this is uncertain."
            ),
        ),
        _features_table(weights, content),
    ]
    if not several:
        return element("section", parts, id="features")
    figures["feature-subjects"] = _subjects_figure(weights, content)
    parts += [
        element("h3", "Every subject"),
        chooser("feature", [shortened(name) for name in weights.features[:FEATURES]], "Feature"),
        figure(
            "feature-subjects",
            title="One feature, all subjects",
            described="Posterior mean and 95 % interval of each subject's weight of the feature chosen, in order; the "
            "table below has the numbers.",
            how="Subjects are ordered from the highest to the lowest weight. "
            + (f"At the top is the {weights.average_name}. " if weights.average_name else "")
            + (
                "The intervals of two subjects may overlap even if it is certain which weight is higher; the "
                "list below counts draws."
            )
            + (
                f" The {SUBJECTS // 2} highest and the {SUBJECTS // 2} lowest of {len(weights.who)}."
                if len(weights.who) > SUBJECTS
                else ""
            ),
            chooser=True,
        ),
        element("h3", "Who differs"),
        element("p", _differing(weights)),
        element("p", "The most certain differences in the feature selected above, with the probability of this order:"),
        element("ol", id="feature-differences"),
        element("p", "No two subjects differ with a probability of 95 %.", id="no-feature-differences", hidden=True),
    ]
    if len(weights.features) > 1:
        figures["feature-heat"] = _heat(weights)
        parts.append(
            figure(
                "feature-heat",
                title="Everyone at a glance",
                described="Heat map of the posterior mean weight of subjects (rows) and features (columns).",
                how="One row per subject, one column per feature; yellow is the highest weight, dark blue the "
                "lowest, on the scale below. Hover for numbers.",
            )
        )
    parts.append(_subjects_table(weights, content))
    return element("section", parts, id="features")


def _unit(weights: FeatureWeights) -> str:
    return "weight × inverse temperature (log-odds)" if weights.is_product else "weight"


def _meaning(weights: FeatureWeights, content: Content) -> str:
    """What a weight is, and in which unit."""
    known = content.posterior.model.inverse_temperature
    said = (
        "A reward is a weighted sum of features; the weight of a feature is the value of one more unit of it, at "
        "each step. "
    )
    if weights.is_product:
        return said + (
            "The inverse temperature was inferred too, and choices identify only its product with the weights: "
            "wanting twice as much and acting half as consistently look the same. The product is shown, in "
            "log-odds: at 1, of two actions that are otherwise equal, the one with one more unit is chosen e ≈ "
            "2.7 times as often."
        )
    unit = np.asarray(known, dtype=float)
    if unit.ndim == 0 and float(unit) == 1.0:
        return said + (
            "Weights are in log-odds, since the inverse temperature was taken to be 1: with a weight of 1, of "
            "two actions that are otherwise equal, the one with one more unit is chosen e ≈ 2.7 times as often. "
            "Features in different units have weights in different units."
        )
    return said + (
        f"The inverse temperature was taken as known ({amount(known)}), which sets the unit of weights: "
        "multiplied by it, they are log-odds. Features in different units have weights in different units."
    )


def _average(weights: FeatureWeights) -> dict[str, Any]:
    """Rows of intervals, one a feature: of the average of subjects, or of the only one there is."""
    rows = []
    mean = weights.mean[0] if weights.average_name is None else weights.average["mean"].to_numpy()
    for number in np.sort(np.argsort(-abs(mean), kind="stable")[:NAMED]):
        name = weights.features[number]
        if weights.average_name is None:
            values = [part[0, number] for part in (weights.mean, weights.lower, weights.upper)]
            prior, positive = weights.prior.iloc[number][["lower", "upper"]].tolist(), weights.positive[0, number]
        else:
            row = weights.average.iloc[number]
            values, prior = row[["mean", "lower", "upper"]].tolist(), row[["prior_lower", "prior_upper"]].tolist()
            positive = row["p_positive"]
        mid, low, high = map(_short, values)
        plo, phi = (None if np.isnan(end) else _short(end) for end in prior)
        before = "" if plo is None else f"\nprior, 95 %: {plo:.3g} to {phi:.3g}"
        tip = f"{name}\n{mid:.3g} (95 %: {low:.3g} to {high:.3g})\nabove 0: {probability(positive)}{before}"
        rows.append({"label": name, "mid": mid, "lo": low, "hi": high, "plo": plo, "phi": phi, "tip": tip})
    legend = LEGEND if rows[0]["plo"] is not None else LEGEND[:2]
    return {"kind": "intervals", "rows": rows, "legend": legend}


def _features_table(weights: FeatureWeights, content: Content) -> Markup:
    """One row a feature: its weight, the prior, how much subjects differ."""
    several, has_average = len(weights.who) > 1, weights.average_name is not None
    low, high = _ranges(content)
    pairs = len(weights.compared) * (len(weights.compared) - 1) // 2
    has_prior = not has_average or bool(weights.average["prior_mean"].notna().all())
    headings = ["feature", "weight", "95 %", "above 0"] + (["prior mean", "prior sd"] if has_prior else [])
    headings += ["sd between subjects", "95 %"] if has_average else []
    headings += ["pairs of subjects that differ", "highest", "lowest"] if several else []
    headings.append("the feature itself")
    rows = []
    for number, name in enumerate(weights.features):
        if has_average:
            row = weights.average.iloc[number]
            mean, lower, upper, positive = row[["mean", "lower", "upper", "p_positive"]]
            before = row[["prior_mean", "prior_sd"]].tolist()
        else:
            mean, lower, upper, positive = (
                part[0, number] for part in (weights.mean, weights.lower, weights.upper, weights.positive)
            )
            before = weights.prior.iloc[number][["mean", "sd"]].tolist()
        cells: list[Any] = [
            shortened(name),
            _number(mean),
            _range(lower, upper),
            (float(positive), probability(positive)),
            *([_number(each) for each in before] if has_prior else []),
        ]
        if has_average:
            spread = weights.spread.iloc[number]
            cells += [_number(spread["mean"]), _range(spread["lower"], spread["upper"])]
        if several:
            order = np.argsort(weights.mean[:, number])
            apart = int(weights.differ[number].sum()) // 2
            cells += [
                (apart, f"{apart:,} of {pairs:,}"),
                _who_has(weights, int(order[-1]), number, f"; {probability(weights.highest[order[-1], number])}"),
                _who_has(weights, int(order[0]), number, ""),
            ]
        rows.append([*cells, f"from {low[number]:.3g} to {high[number]:.3g}".replace("-", "−")])
    whose = weights.average_name or shortened(weights.who[0])
    return table(
        headings,
        rows,
        caption=f"Weights: {whose}. “above 0” is the probability that the weight is positive."
        + (" After the highest posterior mean: the probability that this is the highest of all." * several),
    )


def _who_has(weights: FeatureWeights, who: int, feature: int, sure: str) -> str:
    return f"{shortened(weights.who[who], 30)} ({_said(weights.mean[who, feature])}{sure})"


def _subjects_figure(weights: FeatureWeights, content: Content) -> dict[str, Any]:
    """Of each feature, subjects in order of their weights, and the surest differences between two of them."""
    surest = weights.differences()
    found = []
    for number, name in enumerate(weights.features[:FEATURES]):
        prior = [_short(end) for end in weights.prior.iloc[number][["lower", "upper"]]]
        rows: list[list[Any]] = []
        if weights.average_name is not None:
            row = weights.average.iloc[number]
            ends = [None if np.isnan(end) else _short(end) for end in row[["prior_lower", "prior_upper"]]]
            rows.append([weights.average_name, *(_short(row[word]) for word in ("mean", "lower", "upper")), *ends, 0])
        order = np.argsort(-weights.mean[:, number], kind="stable")
        cut = len(order) > SUBJECTS
        shown = [*order[: SUBJECTS // 2], *order[-(SUBJECTS // 2) :]] if cut else order
        for position, i in enumerate(shown):
            values = (_short(part[i, number]) for part in (weights.mean, weights.lower, weights.upper))
            first = (position == 0 and rows) or (cut and position == SUBJECTS // 2)  # a line above it
            rows.append([weights.who[i], *values, *prior, int(bool(first))])
        own = surest[(surest["feature"] == name) & (surest["probability"] >= 0.95)][:SUREST]
        found.append(
            {
                "name": name,
                "rows": rows,
                "surest": [
                    [row.task, row.other_task, _short(row.difference), int(np.floor(1000 * row.probability))]
                    for row in records(own)
                ],
            }
        )
    return {"kind": "chosenFeature", "features": found, "unit": _unit(weights), "legend": LEGEND}


def _differing(weights: FeatureWeights) -> str:
    """How many pairs of subjects differ, in words."""
    pairs = len(weights.compared) * (len(weights.compared) - 1) // 2
    apart = weights.differ.sum(axis=(1, 2)) // 2
    others = max(0, len(apart) - SPELT_OUT)
    most = range(len(apart)) if not others else np.argsort(-apart, kind="stable")[:SPELT_OUT]
    said = (
        "No difference between subjects was found in any feature that has a probability of 95 %."
        if apart.max() == 0
        else "Two subjects differ if the order of their weights has a probability of at least 95 %: "
        + "; ".join(f"“{shortened(weights.features[k])}” {int(apart[k]):,} of {pairs:,} pairs" for k in most)
        + (
            f"; no more in any of the other {len(apart) - len(most)}, which the table has"
            if len(most) < len(apart)
            else ""
        )
        + "."
    )
    left_out = len(weights.who) - len(weights.compared)
    return said + (f" The {len(weights.compared)} subjects with the most choices are compared." if left_out else "")


def _heat(weights: FeatureWeights) -> dict[str, Any]:
    values = weights.mean[:SUBJECTS, :FEATURES]
    return {
        "kind": "heat",
        "rows": list(weights.who[:SUBJECTS]),
        "cols": list(weights.features[:FEATURES]),
        "values": np.round(values, 3).tolist(),
        "low": float(values.min()),
        "high": float(values.max()),
        "unit": _unit(weights),
    }


def _subjects_table(weights: FeatureWeights, content: Content) -> Markup:
    """One row a subject, one column a feature."""
    counts = content.sample.counts.sum(axis=(1, 2))
    rows = []
    for i, name in enumerate(weights.who):
        cells: list[Any] = [shortened(name), int(counts[i])]
        for k in range(min(len(weights.features), FEATURES)):
            above = weights.above_average[i, k] if len(weights.above_average) else 0.5
            sign = " ▲" if above >= 0.95 else " ▼" if above <= 0.05 else ""
            said = f"{_said(weights.mean[i, k])} ({_range(weights.lower[i, k], weights.upper[i, k])}){sign}"
            cells.append((float(weights.mean[i, k]), said))
        rows.append(cells)
    more = f" The first {FEATURES} of {len(weights.features)} features." if len(weights.features) > FEATURES else ""
    marks = (
        f" ▲ and ▼: above and below the {weights.average_name} with a probability of at least 95 %."
        if weights.average_name
        else ""
    )
    return table(
        ["subject", "choices", *(shortened(name, 30) for name in weights.features[:FEATURES])],
        rows,
        caption=f"Every subject: {_unit(weights)}, mean and 95 % interval.{marks}{more} Press a heading to sort.",
    )


def _ranges(content: Content) -> tuple[np.ndarray, np.ndarray]:
    """The least and the most of each feature among what can be done."""
    environment, reward = content.posterior.environment, content.posterior.model.reward
    features = reward.features_for(environment)
    if reward.on == "state_action":
        features = features[environment.available.ravel()]
    return features.min(axis=0).toarray().ravel(), features.max(axis=0).toarray().ravel()


def _short(value: Any) -> float:
    return float(f"{float(value):.4g}")


def probability(share: Any) -> str:
    """Of draws, all of which may agree without certainty."""
    return per_cent(float(np.clip(share, 1e-9, 1 - 1e-9)))


def _said(value: Any) -> str:
    """Two decimals, or three digits of what is large."""
    number = float(value)
    return (f"{number:.2f}" if abs(number) < 1000 else f"{number:.3g}").replace("-", "−")


def _number(value: Any) -> tuple[float, str]:
    return float(value), _said(value)


def _range(lower: Any, upper: Any) -> str:
    return f"{_said(lower)} to {_said(upper)}"
