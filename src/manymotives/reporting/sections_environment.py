"""What is not known of the environment, what the choices added to it, and what that costs."""

from typing import Any

import numpy as np
import pandas as pd

from manymotives.data.belief import DynamicsBelief
from manymotives.planning import evaluate
from manymotives.posterior import Posterior
from manymotives.posterior.units import unit_of_value
from manymotives.reporting.content import Content
from manymotives.reporting.html import Markup, element, table
from manymotives.reporting.words import per_cent

SHOWN = 60  # moves in the table: those least known


def what_is_not_known(content: Content) -> Markup | None:
    """Nothing where the environment was given."""
    posterior = content.posterior
    belief = posterior.belief
    if belief is None:
        return None
    moves = uncertain_moves(posterior, belief)
    rows = len(np.unique(belief.transition_index[belief.is_uncertain][:, :2], axis=0))
    seen = f"{int(belief.seen.sum()):,}" if belief.seen.sum() < 1e9 else "very many"
    said = (
        f"The environment was not known. {seen} transitions were observed, and next states are uncertain for "
        f"{rows:,} of {int(belief.mean.available.sum()):,} state–action pairs. "
    )
    if "after" in moves:
        said += (
            "It was inferred together with the rewards, so the intervals of rewards on this page include the "
            "uncertainty about it. Choices are evidence about it too: a subject that avoids an action presumably "
            "knows where it leads."
        )
    else:
        said += "Values of policies are averages over this uncertainty."
    headings = ["state", "action", "leads to", "probability", "from", "to"]
    headings += ["with the choices", "from", "to"] if "after" in moves else []
    cells = [
        [str(row["state"]), str(row["action"]), str(row["next_state"])]
        + [(row[name], f"{row[name]:.3f}") for name in row if name not in ("state", "action", "next_state", "width")]
        for row in moves.head(SHOWN).to_dict("records")
    ]
    more = f": the {SHOWN} most uncertain of {len(moves):,}" if len(moves) > SHOWN else ""
    return element(
        "section",
        element("h2", "Uncertainty about the environment"),
        element("p", said),
        element(
            "div", table(headings, cells, caption=f"Uncertain moves{more}, with intervals of 95 %"), id="table-moves"
        ),
        element(
            "p",
            "How to read it: the first three numbers are based on observed transitions alone; the last three, if "
            "given, also use the choices.",
        ),
        element("h3", "What this uncertainty costs"),
        costs(posterior),
        id="environment",
    )


def uncertain_moves(posterior: Posterior, belief: DynamicsBelief) -> pd.DataFrame:
    """One row for each uncertain move, the least known first."""
    found = belief.to_frame()[belief.is_uncertain].reset_index(drop=True).drop(columns="concentration")
    found = found.rename(columns={"mean": "before"})
    drawn = posterior.data["posterior"].dataset
    if "transition" in drawn:
        values = drawn["transition"].values.reshape(-1, len(found))
        found["after"] = values.mean(axis=0)
        found["after_lower"], found["after_upper"] = np.quantile(values, [0.025, 0.975], axis=0)
        found["width"] = found["after_upper"] - found["after_lower"]
    else:
        found["width"] = found["upper"] - found["lower"]
    return found.sort_values("width", ascending=False, kind="stable")


def costs(posterior: Posterior) -> Any:
    """What policies are worth without knowing the environment, beside what they would be worth with it."""
    found, environment = posterior.decisions(), posterior.environment
    blind = environment.available / np.maximum(environment.available.sum(axis=1, keepdims=True), 1)
    blind[environment.is_terminal, 0] = 1.0
    worst = evaluate(environment, blind, posterior.mean_reward.fillna(0.0).values, on=posterior.model.reward.on)
    start = environment.start
    value, upper, plain = (found[name].values @ start for name in ("value", "upper", "mean_policy_value"))
    room = np.maximum(upper - worst @ start, 1e-300)
    lost = np.clip((upper - value) / room, 0.0, 1.0)
    rows = [
        [str(task), (v, f"{v:.4g}"), (p, f"{p:.4g}"), (u, f"{u:.4g}"), (x, per_cent(x))]
        for task, v, p, u, x in zip(posterior.tasks, value, plain, upper, lost)
    ]
    headings = ["subject", "best policy found", "by the means", "upper bound", "lost at most"]
    return [
        element(
            "p",
            "On average over subjects, uncertainty about the environment and the reward costs at most "
            f"{per_cent(float(lost.mean()))} of what perfect knowledge would gain over uniform choice: this is "
            "how far the policies below fall short of an upper bound that no policy can exceed.",
        ),
        table(headings, rows, caption="Values of policies at the start of an episode"),
        element(
            "p",
            "How to read it: “best policy found” does not know the environment and is the best on average over "
            "the posterior; “by the means” treats the mean environment and the mean reward as the truth; “upper "
            f"bound” is the value attainable with knowledge of both. {unit_of_value(posterior)}",
        ),
    ]
