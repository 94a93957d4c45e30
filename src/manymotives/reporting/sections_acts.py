"""What would be best for what each subject seems to want, beside what it did."""

from typing import Any

import numpy as np

from manymotives.reporting.content import Content
from manymotives.reporting.html import Markup, element, figure, table
from manymotives.reporting.layout import by_state, compact, layout_of, moves_of, side_by_side
from manymotives.reporting.sections_wants import EXPORTED, chooser

LARGEST = 400_000  # subjects × states in the page
LISTED = 400  # states in the table


def what_would_be_best(content: Content, figures: dict[str, Any]) -> Markup:
    data = policy_data(content)
    figures["policies"] = data
    head = element("h2", "What would be best for them")
    said = element(
        "p",
        "The policy that is optimal for a subject's expected reward; with known transitions, it is the best "
        "possible policy given the data. "
        if content.posterior.belief is None
        else "The best policy found on average over the posterior of rewards and environments. ",
        "It can be better than the subject's own behaviour, whose errors it does not repeat.",
    )
    if data is None:
        return element(
            "section",
            head,
            said,
            element("p", "There are too many states to list here; see ", element("code", "posterior.policies()"), "."),
            id="policies",
        )
    parts: list[Any] = [head, said, chooser("acted", data["who"], "Show")]
    if data["layout"] is not None and data["layout"]["alone"]:
        many = data["layout"]["many"]
        parts.append(
            figure(
                "policy-map",
                title="Where to go",
                described="Map with an arrow in every state, along the best action; the table below has the same in "
                "words.",
                how=(
                    "An arrow points to where the best action mostly leads; a ring means staying. Fainter arrows "
                    "mean that fewer posterior draws agree. Hover for the action and for the subject's choices."
                )
                + side_by_side(content.posterior.environment)
                + (
                    " Because there are many states, each arrow is that of the state in the middle of a small area."
                    if many
                    else ""
                ),
                chooser=True,
            )
        )
    states = len(data["states"])
    some = f": the {LISTED} of {states:,} states with most choices. {EXPORTED}" if states > LISTED else ""
    headings = [
        "state",
        "choices",
        "chose most",
        "share",
        *(["likely next", "probability"] if data["next"] else []),
        "best",
        "sure",
    ]
    parts.append(
        element(
            "div",
            table(headings, [], caption=f"For the selection above, state by state{some}"),
            id="table-acted",
        )
    )
    parts.append(
        element(
            "p",
            "“likely next” is the action that the model predicts; “sure” is the share of draws that agree that "
            "an action is the best.",
        )
    )
    return element("section", parts, id="policies")


def policy_data(content: Content) -> dict[str, Any] | None:
    """Of each, in each state: the best action and how sure that is, the likeliest next choice, and what was done."""
    posterior, sample = content.posterior, content.sample
    environment = posterior.environment
    who = len(sample.who)
    if who * environment.num_states > LARGEST:
        return None
    best = posterior.policies().values[:who].argmax(axis=2)
    # an action is best in a draw if it reaches the best value there: ties count for all
    q = sample.plan.q
    reached = np.take_along_axis(q, np.broadcast_to(best, (len(q), *best.shape))[..., None], axis=3)[..., 0]
    sure = (reached >= q.max(axis=3) - 1e-9 * np.maximum(np.abs(q.max(axis=3)), 1e-12)).mean(axis=0)
    counts = sample.counts
    made = counts.sum(axis=2)
    predicted = None if sample.policies is None else sample.policies.mean(axis=0)
    names = posterior.data["observed_data"].dataset["counts"]
    drawn = layout_of(environment, made.sum(axis=0))
    if drawn is not None:
        drawn = by_state(drawn)
    return {
        "who": [str(name) for name in sample.who],
        "states": [str(name) for name in names["state"].values],
        "actions": [str(name) for name in names["action"].values],
        "lives": (~environment.is_terminal).astype(int).tolist(),
        "best": best.tolist(),
        "sure": _per_cent(sure),
        "made": made.tolist(),
        "most": counts.argmax(axis=2).tolist(),
        "most_share": _per_cent(counts.max(axis=2) / np.maximum(made, 1)),
        "next": None if predicted is None else predicted.argmax(axis=2).tolist(),
        "next_share": None if predicted is None else _per_cent(predicted.max(axis=2)),
        "layout": drawn,
        "listed": LISTED,
        "moves": compact(np.round(moves_of(environment), 3)) if drawn is not None and drawn["alone"] else None,
    }


def _per_cent(shares: np.ndarray) -> Any:
    return np.round(100 * shares).astype(int).tolist()
