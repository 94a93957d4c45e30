"""What each motive wants, and what it would do: maps, intervals, numbers."""

from typing import Any

import numpy as np

from manymotives.models.priors import Prior
from manymotives.reporting.html import Markup, element, figure, table
from manymotives.reporting.layout import layout_of, moves_of
from manymotives.reporting.motives import AVERAGE, MotiveContent, Spread
from manymotives.reporting.sections_wants import chooser
from manymotives.reporting.words import amount, listed, per_cent, shortened, what_choices_tell

ROWS, INTERVALS = 20, 90  # states and intervals in a figure: those in which motives differ most
LISTED = 300  # rows of a table
LEGEND = [["band", "prior, 95 %"]]


def what_motives_want(content: MotiveContent, figures: dict[str, Any]) -> Markup:
    """Weights of features first, where rewards are made of them; then states; then what would be best."""
    posterior = content.posterior
    on_states = posterior.model.reward.on == "state"
    visits = posterior.data["observed_data"].dataset["counts"].values.sum(axis=(0, 2))
    layout = layout_of(posterior.environment, visits)
    parts: list[Any] = [
        element("h2", "What each motive wants"),
        element("p", _numbering(content)),
        chooser_of("whose", [shortened(name) for name in content.who], "Show the motives of"),
    ]
    if content.weights is not None:
        parts += _weights(content, figures)
    if on_states and layout is not None:
        figures["motive-map"] = _reward_maps(content, layout)
        parts.append(
            figure(
                "motive-map",
                title="Where: the mean reward of each motive",
                described="One map for each motive, with the mean reward of every state; the table below has the "
                "numbers.",
                how=(
                    "Each mark is a state at its position in the environment; yellow is the highest reward, dark "
                    "blue the lowest, on the scale below. Rewards are in canonical form: the most and the least wanted "
                    "state differ by 1. Hover for intervals."
                )
                + _shared_places(layout),
                chooser=len(content.who) > 1,
            )
        )
    figures["motive-rewards"] = _reward_rows(content)
    most = _most(content)
    parts += [
        figure(
            "motive-rewards",
            title="Rewards and their uncertainty"
            + (f" (the {most} in which motives differ most)" if len(content.cells) > most else ""),
            described="Posterior mean and 95 % interval of each reward under each motive, with the prior's interval.",
            how=(
                "One dot for each motive, in its colour and shape; the line is the 95 % interval of the "
                "posterior, and the grey bar that of the prior. Where lines do not overlap, the motives want "
                "different things."
            )
            + (" These rewards follow from the weights above." if content.weights else ""),
            chooser=len(content.who) > 1,
        ),
        _rewards_table(content),
    ]
    if layout is not None and layout["alone"]:
        figures["motive-policies"] = _policy_maps(content, layout)
        parts.append(
            figure(
                "motive-policies",
                title="Where each motive leads",
                described="One map for each motive, with an arrow in every state along the best action.",
                how="An arrow points to where the best action for this motive mostly leads; a ring means "
                "staying. Fainter arrows mean that fewer posterior draws agree.",
                chooser=len(content.who) > 1,
            )
        )
    parts += [
        element("h3", "What the data can and cannot tell"),
        element("ul", [element("li", said) for said in what_is_told(content)]),
    ]
    return element("section", parts, id="wants")


def chooser_of(kind: str, names: list[str], word: str) -> Markup | None:
    """A list to choose from, where there is more than one."""
    return chooser(kind, names, word) if len(names) > 1 else None


def what_is_told(content: MotiveContent) -> list[str]:
    """What choices can tell of motives, a sentence or two each."""
    posterior, switching = content.posterior, content.posterior.model.switching
    number = (
        f"The number of motives, {posterior.num_motives}, was given and not inferred. Whether fewer would predict as "
        "well is a question for held-out prediction."
    )
    if switching is not None and switching.is_counted:
        likely = ", ".join(f"{count} ({share:.0%})" for count, share in posterior.number_of_motives.items())
        number = f"How many motives are in use, with at least 1 % of all steps, was inferred: {likely}."
    said = [
        number,
        "Two motives can be distinguished only where they imply different choices. A motive that is seldom "
        "active is inferred from few choices, and its intervals are wide.",
    ]
    return said + [
        each.replace("the subject's own average", "each motive's own average") for each in what_choices_tell(posterior)
    ]


def _most(content: MotiveContent) -> int:
    """How many rows of a figure, each with an interval for every motive, can be read."""
    return min(ROWS, max(8, INTERVALS // content.num_shown))


def _numbering(content: MotiveContent) -> str:
    model, count = content.posterior.model, content.posterior.num_motives
    said = "Motives are numbered by how much they are used: motive 0 most. "
    if count > content.num_shown:
        said += f"The {content.num_shown} most used of {count} are shown. "
    if model.is_pooled:
        return said + "They are the same for everybody."
    if model.is_hierarchical:
        return said + "Each subject has its own version of each; motive 0 is the same motive in all of them."
    return said + "Each subject has its own: motive 0 of one subject has nothing to do with motive 0 of another."


def _shared_places(layout: dict[str, Any]) -> str:
    return (
        "" if layout["alone"] else " If several states have the same position, their mean is shown, weighted by visits."
    )


def _weights(content: MotiveContent, figures: dict[str, Any]) -> list[Any]:
    """What features are worth under each motive."""
    assert content.weights is not None
    assert content.prior_weights is not None
    posterior = content.posterior
    names = [str(name) for name in posterior.weights["feature"].values]
    product = isinstance(posterior.model.inverse_temperature, Prior)
    unit = "weight × inverse temperature (log-odds)" if product else "weight"
    how = (
        "The inverse temperature was inferred too, and choices identify only its product with the weights: the "
        "product is shown, in log-odds."
        if product
        else f"The inverse temperature was taken as known ({amount(posterior.model.inverse_temperature)}), which sets "
        "the unit of weights."
    )
    figures["motive-weights"] = _dodged(names, content, content.weights, content.prior_weights, unit) | {
        "line": 0,
        "include": [0],
    }
    return [
        element(
            "p",
            "A reward is a weighted sum of features; the weight of a feature is the value of one more unit of it. ",
            how,
        ),
        figure(
            "motive-weights",
            title="The weight of each feature under each motive",
            described="Posterior mean and 95 % interval of the weight of each feature under each motive, with the "
            "prior's.",
            how="One dot for each motive, in its colour and shape; the line is the 95 % interval of the "
            "posterior, and the grey bar that of the prior. A feature to the right of the dashed line is "
            "wanted, one to the left is avoided.",
            chooser=len(content.who) > 1,
        ),
    ]


def _reward_rows(content: MotiveContent) -> dict[str, Any]:
    """Rewards of some cells under every motive, for each of `who`."""
    unit = (
        "reward (range = 1)"
        if content.posterior.model.reward.on == "state"
        else "value relative to the best action there (range = 1)"
    )
    return _dodged(list(content.cells), content, content.rewards, content.prior_rewards, unit)


def _dodged(names: list[str], content: MotiveContent, found: Spread, prior: Spread, unit: str) -> dict[str, Any]:
    """Rows of intervals, one a name, with a mark for each motive; for each of `who`."""
    each = []
    for mean, lower, upper in zip(found.mean, found.lower, found.upper):
        apart = mean.max(axis=0) - mean.min(axis=0) if len(mean) > 1 else np.abs(mean[0] - prior.mean)
        some = np.sort(np.argsort(-apart, kind="stable")[: _most(content)])
        rows = [
            {
                "label": names[c],
                "plo": short(prior.lower[c]),
                "phi": short(prior.upper[c]),
                "marks": [[short(mean[k, c]), short(lower[k, c]), short(upper[k, c])] for k in range(len(mean))],
            }
            for c in some
        ]
        each.append({"rows": rows})
    return {
        "kind": "chosenOne",
        "of": "dodged",
        "chooser": "whose",
        "each": each,
        "unit": unit,
        "names": content.motives,
        "legend": LEGEND,
    }


def _reward_maps(content: MotiveContent, layout: dict[str, Any]) -> dict[str, Any]:
    """A panel for each motive, for each of `who`."""
    found, each = content.rewards, []
    for mean, lower, upper in zip(found.mean, found.lower, found.upper):
        panels = []
        for k, name in enumerate(content.motives):
            tips = [
                "\n".join(
                    f"{content.cells[s]}: {mean[k, s]:.2f} (95 %: {lower[k, s]:.2f} to {upper[k, s]:.2f})"
                    for s, _ in some[:3]
                )
                for some in layout["members"]
            ]
            values = [round(float(sum(mean[k, s] * w for s, w in some)), 3) for some in layout["members"]]
            panels.append({"title": name, "values": values, "tips": tips})
        each.append({"panels": panels})
    return {
        "kind": "chosenOne",
        "of": "maps",
        "chooser": "whose",
        "each": each,
        "layout": drawn(layout),
        "low": round(float(found.mean.min()), 3),
        "high": round(float(found.mean.max()), 3),
        "unit": "mean reward (range of each motive = 1)",
    }


def _policy_maps(content: MotiveContent, layout: dict[str, Any]) -> dict[str, Any]:
    """An arrow in every state for each motive, for each of `who`."""
    environment = content.posterior.environment
    moves, lives = moves_of(environment), ~environment.is_terminal
    states, actions = list(map(str, environment.states)), list(map(str, environment.actions))
    order = [some[0][0] for some in layout["members"]]  # one state a place
    each = []
    for best, sure in zip(content.best, content.sure):
        panels = []
        for k, name in enumerate(content.motives):
            arrows = [
                [*np.round(moves[s, best[k, s]], 3).tolist(), round(0.25 + 0.75 * float(sure[k, s]), 2)]
                if lives[s]
                else None
                for s in order
            ]
            tips = [
                f"{states[s]}\nbest: {actions[best[k, s]]} (in {per_cent(float(sure[k, s]))} of draws)"
                if lives[s]
                else states[s]
                for s in order
            ]
            panels.append({"title": name, "values": None, "arrows": arrows, "tips": tips})
        each.append({"panels": panels})
    return {"kind": "chosenOne", "of": "maps", "chooser": "whose", "each": each, "layout": drawn(layout)}


def drawn(layout: dict[str, Any]) -> dict[str, Any]:
    """What a map needs of a layout."""
    return {word: layout[word] for word in ("xy", "edges", "square", "size", "many")}


def _rewards_table(content: MotiveContent) -> Markup:
    """The numbers of everybody, or of the first of `who`: the others are in the tables of `export`."""
    found, whose = content.rewards, content.who[0]
    order = np.argsort(-(found.mean[0].max(axis=0) - found.mean[0].min(axis=0)), kind="stable")[:LISTED]
    rows = [
        [
            shortened(content.cells[c]),
            *(
                (float(found.mean[0, k, c]), f"{found.mean[0, k, c]:.2f} ({_range(found, (0, k, c))})")
                for k in range(content.num_shown)
            ),
        ]
        for c in order
    ]
    of = "" if whose == AVERAGE or len(content.who) == 1 else f" of {listed([whose])}"
    more = (
        f" The {LISTED} of {len(content.cells):,} in which motives differ most." if len(content.cells) > LISTED else ""
    )
    words = " Of the average of the subjects." if whose == AVERAGE else ""
    return element(
        "details",
        element("summary", f"All numbers{of}"),
        table(
            ["reward of", *content.motives],
            rows,
            caption=f"Rewards in canonical form: posterior mean and 95 % interval.{words}{more}",
        ),
    )


def _range(found: Spread, at: tuple[int, ...]) -> str:
    return f"{found.lower[at]:.2f} to {found.upper[at]:.2f}"


def short(value: Any) -> float:
    return float(f"{float(value):.4g}")
