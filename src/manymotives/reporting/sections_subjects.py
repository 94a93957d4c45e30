"""How consistently subjects act, or how far from optimal they are; and who resembles whom."""

from functools import singledispatch
from typing import Any

import numpy as np
import xarray as xr

from manymotives.findings import Similarity
from manymotives.findings.sample import thinned
from manymotives.models.priors import Prior
from manymotives.posterior import PolicyOptimalityPosterior, Posterior, RewardPolicyPosterior
from manymotives.posterior.canonical import in_unit_range
from manymotives.reporting.content import Content
from manymotives.reporting.html import Markup, element, figure, table
from manymotives.reporting.sections_model import failed, groups_sentence
from manymotives.reporting.words import amount, per_cent, records, shortened

DISTANCES = 40  # subjects in the heat map of distances


def how_they_act(content: Content, figures: dict[str, Any]) -> Markup:
    return _how_they_act(content.posterior, content, figures)


@singledispatch
def _how_they_act(posterior: Posterior, content: Content, figures: dict[str, Any]) -> Markup:
    """The section as a kind of posterior has it."""
    raise NotImplementedError(type(posterior))


@_how_they_act.register
def _temperatures(posterior: RewardPolicyPosterior, content: Content, figures: dict[str, Any]) -> Markup:
    few = thinned(posterior, 1000)
    draws = few.canonical()["inverse_temperature"]
    before = _prior_temperatures(few)
    inferred = isinstance(posterior.model.inverse_temperature, Prior)
    said = (
        "The inverse temperature says how consistently a subject chooses what it values more, on the scale of "
        "the rewards above: at 1, an action whose value is higher by the whole range of rewards is chosen e ≈ "
        "2.7 times as often as the other; at 0, all actions are equally probable."
    )
    if not inferred:
        said += (
            f" It was taken as known here ({amount(posterior.model.inverse_temperature)}) for rewards on their "
            "own scale; the variation below is that of the size of the rewards, which the canonical scale moves "
            "into the inverse temperature."
        )
    figures["temperatures"] = _rows(content, draws, before, "inverse temperature, canonical scale")
    return element(
        "section",
        element("h2", "How consistently they act"),
        element("p", said),
        figure(
            "temperatures",
            title="Inverse temperatures",
            described="Posterior mean and 95 % interval of each subject's inverse temperature, with the prior's.",
            how="A dot is the posterior mean, and its line the 95 % interval; the grey bar is that of the prior. "
            "Further right means more consistent. The number also reflects the strength of wanting: the data "
            "cannot distinguish “wants it more” from “acts more consistently”.",
        ),
        id="temperature",
    )


def who_resembles_whom(content: Content, figures: dict[str, Any]) -> Markup:
    alike = content.similarity
    head = element("h2", "Who resembles whom")
    if not isinstance(alike, Similarity):
        return element("section", head, failed(alike), id="similarity")
    groups = alike.clusters
    figures["map"] = {"kind": "points", "points": _points(alike)}
    parts: list[Any] = [
        head,
        element(
            "p",
            "Two subjects are alike if each would lose little by pursuing the other's goals. The distance of A "
            "from B is the value that B would lose by following the policy that is best for A, as a share of "
            "what B gains from its own best policy over uniform choice: at 0, A's goals serve B as well as its "
            "own; at 1, no better than uniform choice; above 1, worse than that. Distances are averaged over "
            f"both directions and over {alike.draws} posterior draws, starting from the states in which choices "
            "were observed. Subjects about whom little is known are far from all others, because the distance "
            "includes this uncertainty.",
        ),
        element("p", element("b", groups_sentence(alike))),
        figure(
            "map",
            title="A map of subjects",
            described="Scatter plot in which subjects with similar goals lie close together; the table below has the "
            "nearest of each.",
            how=(
                "Subjects close to each other have similar goals; directions have no meaning. Distances in the "
                f"plane have a correlation of {alike.shown:.2f} with the true ones, so use the table for details. "
            )
            + (
                "Colour and shape are groups. "
                if groups.is_supported
                else "No groups are shown because the data support none. "
            )
            + "Hover for names and nearest neighbours.",
        ),
    ]
    if len(alike.who) <= DISTANCES:
        order = alike.order
        figures["distances"] = {
            "kind": "heat",
            "rows": [alike.who[i] for i in order],
            "cols": [alike.who[i] for i in order],
            "values": np.round(alike.distance[np.ix_(order, order)], 3).tolist(),
            "low": 0.0,
            "high": float(max(alike.distance.max(), 1e-6)),
            "unit": "expected distance",
        }
        parts.append(
            figure(
                "distances",
                title="All distances",
                described="Heat map of the distance between every two subjects.",
                how="Dark means similar. Similar subjects are placed next to each other, so a dark block along "
                "the diagonal is a set of subjects with similar goals. A few such blocks arise by chance; "
                "the text above says whether they are more than that.",
            )
        )
    parts += [
        element(
            "details",
            element("summary", "How groups are decided"),
            element(
                "p",
                "Subjects are placed so that their distances are the expected ones (classical scaling), divided "
                "into 2, 3, … groups (Ward's method) and assessed by the mean silhouette: how much closer they "
                "are to their own group than to the next. The same is done for the same number of points from "
                "each of 199 normal clouds with the same covariance, which have no groups. Groups are supported "
                "if fewer than 5 % of the clouds look as grouped; their number is the one at which the subjects "
                "exceed the clouds most. The certainty of a member is the share of posterior draws in which it "
                "is grouped with the other members of its group, when the distances of that draw are divided "
                "into as many groups.",
            ),
            table(
                ["groups", "silhouette of subjects", "of clouds"],
                [[int(g), float(s), float(c)] for g, s, c in records(groups.silhouettes)],
                caption="Mean silhouette by number of groups: 1 is perfect, 0 none",
            ),
        ),
        _neighbours(alike),
    ]
    return element("section", parts, id="similarity")


def _points(alike: Similarity) -> list[dict[str, Any]]:
    frame = alike.to_frame()
    return [
        {
            "x": round(float(x), 4),
            "y": round(float(y), 4),
            "label": row.task,
            "group": int(row.group) - 1,
            "tip": f"{row.task}\nmost like {row.most_like}: distance {row.distance:.2f}, nearest in "
            f"{per_cent(row.probability)} of draws"
            + (f"\ngroup {row.group} ({per_cent(row.sureness)} together)" if alike.clusters.is_supported else ""),
        }
        for (x, y), row in zip(alike.positions, records(frame))
    ]


def _neighbours(alike: Similarity) -> Markup:
    rows = []
    for number, row in enumerate(records(alike.to_frame())):
        other = alike.nearest[number]
        span = f"{alike.lower[number, other]:.2f} to {alike.upper[number, other]:.2f}"
        cells: list[Any] = [shortened(row.task)]
        if alike.clusters.is_supported:
            cells += [int(row.group), (row.sureness, per_cent(row.sureness))]
        rows.append(
            [
                *cells,
                shortened(row.most_like),
                (row.distance, f"{row.distance:.2f}"),
                span,
                (row.probability, per_cent(row.probability)),
            ]
        )
    headings = ["subject", *(["group", "together with it"] if alike.clusters.is_supported else [])]
    headings += ["most like", "distance", "95 %", "probability of being nearest"]
    more = (
        f" The {len(alike.who)} subjects with the most choices; {alike.left_out} others are not compared."
        if alike.left_out
        else ""
    )
    return table(headings, rows, caption=f"The nearest of each subject.{more}")


@_how_they_act.register
def _optimality(posterior: PolicyOptimalityPosterior, content: Content, figures: dict[str, Any]) -> Markup:
    before = posterior.data["prior"].dataset["optimality_gap"].values.ravel()
    figures["temperatures"] = _rows(
        content, posterior.losses, before, f"loss in the worst state, {posterior.model.unit_of_loss}"
    ) | {"include": [0]}
    return element(
        "section",
        element("h2", "How far from optimal they are"),
        element(
            "p",
            "The value that a subject loses, in the state where it loses most, by acting as it does rather than "
            "optimally for its reward. A value is the expected discounted sum of rewards from a state, in units of "
            "reward.",
        ),
        figure(
            "temperatures",
            title="Loss of each subject",
            described="Posterior mean and 95 % interval of each subject's loss, with the prior of the gap.",
            how="A dot is the posterior mean, and its line the 95 % interval. The grey bar is the prior of the gap ε.",
        ),
        element("p", posterior.theorem),
        id="temperature",
    )


def _rows(content: Content, draws: xr.DataArray, before: np.ndarray, unit: str) -> dict[str, Any]:
    flat = draws.stack(sample=("chain", "draw")).transpose("task", "sample").values[: len(content.sample.who)]
    low, high = np.quantile(flat, [0.025, 0.975], axis=1)
    plo, phi = (float(q) for q in np.quantile(before, [0.025, 0.975]))
    mean = flat.mean(axis=1)
    rows = [
        {
            "label": str(name),
            "mid": float(f"{mean[i]:.4g}"),
            "lo": float(f"{low[i]:.4g}"),
            "hi": float(f"{high[i]:.4g}"),
            "plo": plo,
            "phi": min(phi, 2.5 * float(high.max())),
            "tip": f"{name}\n{mean[i]:.3g} (95 %: {low[i]:.3g} to {high[i]:.3g})\nprior, 95 %: {plo:.3g} to {phi:.3g}",
        }
        for i, name in sorted(enumerate(content.sample.who), key=lambda pair: -mean[pair[0]])
    ]
    cut = ", cut off on the right" if phi > 2.5 * high.max() else ""
    legend = [["dot", "posterior mean"], ["line", "95 % interval"], ["band", f"prior, 95 %{cut}"]]
    return {"kind": "intervals", "rows": rows, "unit": unit, "legend": legend}


def _prior_temperatures(posterior: RewardPolicyPosterior) -> np.ndarray:
    """Inverse temperatures before the data, on the canonical scale of rewards before the data."""
    prior = posterior.data["prior"].dataset
    if "inverse_temperature" in prior:
        temperature = prior["inverse_temperature"]
    else:
        temperature = xr.full_like(
            prior["reward"].isel(state=0, drop=True), float(posterior.inverse_temperatures.mean())
        )
        temperature = temperature.isel(action=0, drop=True) if "action" in temperature.dims else temperature
    soft = temperature.values if posterior.model.choice.is_soft else None
    _, scale = in_unit_range(posterior.identifiability, prior["reward"], soft)
    return (temperature * scale).values.ravel()
