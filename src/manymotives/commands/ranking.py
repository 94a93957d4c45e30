"""Draws of weights or of rewards in; the one that is wanted most out, with those that are too close to it to tell."""

from typing import Any

import numpy as np
import xarray as xr

SURE = 0.9  # probability of an order, below which it is not stated as a fact
NAMED = 3  # of several that are too close to tell


def ranked(posterior: Any, values: xr.DataArray) -> tuple[list[str], float]:
    """Of draws (chain, draw, feature or state[, action]): names of what is wanted most, and P(the first > 0).

    The first name has the highest posterior mean; those after it are above it with a probability of more than 1 − SURE.
    """
    if "feature" in values.dims:
        what, names = (
            "feature",
            [n if isinstance(n, str) else f"feature {n}" for n in values["feature"].values.tolist()],
        )
    else:
        values = posterior.by_state_name(values)
        what, names = "state", [str(name) for name in values["state"].values.tolist()]
    if "action" in values.dims:
        values = values.fillna(-np.inf).max("action")
    drawn = values.transpose("chain", "draw", what).values.reshape(-1, len(names))
    drawn = np.where(np.isnan(drawn), -np.inf, drawn)
    mean = drawn.mean(axis=0)
    first = int(np.argmax(mean))
    is_close = (drawn[:, [first]] > drawn).mean(axis=0) < SURE
    is_close[first] = False
    others = [k for k in np.argsort(-mean, kind="stable") if is_close[k]]
    return [names[k] for k in (first, *others)], float((drawn[:, first] > 0).mean()) if len(names) == 1 else np.nan


def said_most(names: list[str], positive: float, verb: str = "wants") -> str:
    """The same as a clause; of a single feature, whether it is sought or avoided."""
    if not np.isnan(positive):
        seeks, avoids = ("seek", "avoid") if verb == "want" else ("seeks", "avoids")
        if max(positive, 1 - positive) < SURE:
            return f"{seeks} or {avoids} {names[0]} (too close to tell)"
        return f"{seeks if positive > 0.5 else avoids} {names[0]}"
    return f"{verb} most {or_of(names)}"


def or_of(names: list[str]) -> str:
    """Alternatives in words: food; food or water (too close to tell)."""
    if len(names) == 1:
        return names[0]
    *some, last = names if len(names) <= NAMED else [*names[: NAMED - 1], f"{len(names) - NAMED + 1} others"]
    return f"{', '.join(some)} or {last} (too close to tell)"


def wanted(row: dict[str, Any]) -> str:
    """What a motive wants most, from its record."""
    return or_of([row["wants_most"], *row.get("too_close_to_tell", ())])
