"""Simulated experiments of one cell in; power, errors of sign and size, widths and coverage out, with their errors.

Power is the share of experiments in which the rule says yes, among those whose fits converged. The others are counted:
`power_if_no` and `power_if_yes` are what power would be if all of them had come out one way or the other.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from manymotives.assessment.power_rules import Rule

LEVEL = 0.95  # of all Monte Carlo intervals
LOOK = 20  # experiments between two looks at whether a cell is decided
RESAMPLES = 2000  # of the bootstrap
UNKNOWN = (float("nan"),) * 3


def cell_row(found: pd.DataFrame, rule: Rule) -> dict[str, Any]:
    """One row of the table of power: `found` has a row for each experiment of the cell."""
    whole = found[found["converged"] > 0]
    count, good = len(found), len(whole)
    yes = int(whole["yes"].sum())
    said = whole[whole["yes"] > 0]
    row: dict[str, Any] = {
        "replications": count,
        "not_converged": count - good,
        **_with_interval("power", (yes / good, *wilson(yes, good)) if good else UNKNOWN),
        "power_if_no": yes / count,
        "power_if_yes": (yes + count - good) / count,
    }
    if rule.margin is None:
        known = said[said["truth"] != 0]  # where the truth is 0 no sign is right, and nothing is exaggerated
        row |= _with_interval("type_s", share(np.sign(known["mean"]) != np.sign(known["truth"])))
        row |= _with_interval("type_m", exaggeration(known["mean"].to_numpy(), known["truth"].to_numpy()))
    else:
        row |= _with_interval("false_equivalence", share(said["truth"].abs() >= rule.margin))
    inside = (whole["lower"] <= whole["truth"]) & (whole["truth"] <= whole["upper"])
    row |= _with_interval("width", mean_with_interval((whole["upper"] - whole["lower"]).to_numpy()))
    row |= _with_interval("coverage", share(inside))
    return row | {"choices": float(found["choices"].mean())}


def _with_interval(name: str, found: Sequence[float]) -> dict[str, float]:
    return dict(zip((name, f"{name}_lower", f"{name}_upper"), map(float, found)))


def share(claims: Any) -> tuple[float, float, float]:
    """How many of them are true, with Wilson's interval."""
    claims = np.asarray(claims, dtype=bool)
    if not len(claims):
        return UNKNOWN
    return float(claims.mean()), *wilson(int(claims.sum()), len(claims))


def wilson(yes: int, count: int, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's score interval of a probability: good for small numbers too, and inside [0, 1]."""
    z, p = float(stats.norm.ppf((1 + level) / 2)), yes / count
    centre, half = p + z**2 / (2 * count), z * math.sqrt(p * (1 - p) / count + (z / (2 * count)) ** 2)
    shrink = 1 + z**2 / count
    return max(0.0, (centre - half) / shrink), min(1.0, (centre + half) / shrink)


def mean_with_interval(values: np.ndarray) -> tuple[float, float, float]:
    """A mean with Student's interval."""
    if len(values) < 2:
        return (float(values.mean()) if len(values) else float("nan")), float("nan"), float("nan")
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1)) * error
    return mean, mean - half, mean + half


def exaggeration(estimates: np.ndarray, truths: np.ndarray) -> tuple[float, float, float]:
    """Type M: by how much estimates are too large, Σ |estimate| / Σ |truth|, with a bootstrap interval.

    Where the true effect is one number this is Gelman & Carlin's (2014) expected exaggeration. Where it differs from
    experiment to experiment, a ratio of sums; a mean of ratios would be that of the truths that happen to be near 0.
    """
    if not len(truths):
        return UNKNOWN
    sizes, true = np.abs(estimates), np.abs(truths)
    ratio = float(sizes.sum() / true.sum())
    if len(truths) < 2:
        return ratio, float("nan"), float("nan")
    drawn = np.random.default_rng(0).integers(len(truths), size=(RESAMPLES, len(truths)))
    ratios = sizes[drawn].sum(axis=1) / true[drawn].sum(axis=1)
    lower, upper = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return ratio, float(lower), float(upper)


# ---- stopping early ----------------------------------------------------------------------------------------------


def looks(replications: int) -> list[int]:
    """After how many experiments a cell is looked at; the last is the end."""
    return [*range(LOOK, replications, LOOK), replications]


def is_decided(found: Sequence[Mapping[str, float]], replications: int, target: float, beyond: float) -> bool:
    """Whether power is above target + beyond, or below target − beyond, however the other experiments come out.

    By the exact (Clopper–Pearson) interval, its error divided by the number of looks (Bonferroni): whatever the true
    power, all looks together are wrong in at most 5 % of cells. Fits that did not converge count as "no" where power
    would be called high, and as "yes" where it would be called low.
    """
    error = (1 - LEVEL) / max(1, len(looks(replications)) - 1)
    failed = sum(each["converged"] == 0 for each in found)
    yes = sum(each["yes"] == 1 and each["converged"] == 1 for each in found)
    count = len(found)
    lower = stats.beta.ppf(error / 2, yes, count - yes + 1) if yes else 0.0
    upper = stats.beta.ppf(1 - error / 2, yes + failed + 1, count - yes - failed) if yes + failed < count else 1.0
    return bool(lower > target + beyond or upper < target - beyond)
