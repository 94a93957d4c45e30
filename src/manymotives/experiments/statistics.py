"""From numbers of runs to means, effects and verdicts.

An effect is one number a run, a paired difference. Its 95 % interval is Student's. The verdict asks for more: 99.9 %.
There are some dozens of claims and each is looked at under several readings; at 99.9 % on either side a claim without
any truth in it comes out as "holds" once in two thousand looks, and to come out as "holds" with one seed and "does not
hold" with another, both of two such accidents must happen. What lies between is "undecided", and that is a verdict.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from manymotives.experiments.panel import Claim, Row

SHOWN, DECIDED = 0.95, 0.999
ROUNDING = 1e-9  # losses are right to that: a smaller difference is none, or rounding would decide
ENOUGH = 30  # runs that all come out the same, for that to count as a fact
HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"


@dataclass(frozen=True)
class Effect:
    """What a claim comes to."""

    mean: float
    standard_error: float
    lower: float
    upper: float
    runs: int
    verdict: str


def mean_and_error(values: Iterable[float]) -> tuple[float, float, int]:
    """Mean, its standard error (nan for a single run), and the number of runs."""
    array = np.fromiter(values, dtype=float)
    count = len(array)
    error = float(array.std(ddof=1) / math.sqrt(count)) if count > 1 else float("nan")
    return float(array.mean()) if count else float("nan"), error, count


def effect_of(claim: Claim, rows: list[Row]) -> Effect:
    """The effect over runs, with its interval and verdict."""
    effects = (claim.effect(row) for row in rows)
    mean, error, count = mean_and_error(0.0 if abs(effect) < ROUNDING else effect for effect in effects)
    if count < 2:
        return Effect(mean, float("nan"), float("nan"), float("nan"), count, UNDECIDED)
    half = error * float(stats.t.ppf((1 + SHOWN) / 2, count - 1))
    wide = error * float(stats.t.ppf((1 + DECIDED) / 2, count - 1))
    verdict = UNDECIDED
    if mean - wide > claim.threshold:
        verdict = HOLDS
    elif mean + wide < claim.threshold or (error == 0 and mean <= claim.threshold and count >= ENOUGH):
        verdict = FAILS
    return Effect(mean, error, mean - half, mean + half, count, verdict)
