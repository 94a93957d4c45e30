"""Models without motives, only how often what was done where. Training counts in, log p(a) out.

Each table is a Dirichlet prediction around a plainer one, which is worth κ choices:

    p(a) = (n_a + κ b_a) / (n + κ)

    counts            n in this state, by everybody            around  b = every available action alike
    counts, own       n in this state, by this task            around  b = counts of the other tasks
    history           n in this state after that one, by all   around  b = counts of this state after others
    history, own      the same, by this task                   around  b = history of the other tasks

In each line b comes from other choices than n, so that κ can be chosen by the evidence of the training data (a product
of Dirichlet-multinomials): nothing is asked of the choices to be predicted.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import optimize, special

from manymotives.scoring.cells import Cells

LEAST, MOST = 1e-2, 1e5  # choices that a prior may be worth

UNIFORM, COUNTS, OWN_COUNTS = "uniform", "counts", "counts, own"
HISTORY, OWN_HISTORY = "counts with history", "counts with history, own"


class Smoothing(NamedTuple):
    """How many choices each prior is worth."""

    counts: float
    own_counts: float
    history: float
    own_history: float


def count_models(
    cells: Cells, training: Float[np.ndarray, "cells A"], smoothing: Smoothing | None = None
) -> tuple[dict[str, Float[np.ndarray, "cells A"]], Smoothing]:
    """log p(a) in every cell by each model of counts, and the smoothing that training data ask for, unless given."""
    uniform = cells.available[cells.state] / cells.available[cells.state].sum(axis=1, keepdims=True)
    in_state = cells.summed(training, cells.state)[cells.state]
    own = cells.summed(training, cells.own_state)[cells.own_state]
    after = cells.summed(training, cells.context)[cells.context]

    once = {
        name: np.unique(number, return_index=True)[1]  # one cell of each, for the evidence
        for name, number in (("state", cells.state), ("own", cells.own_state), ("after", cells.context))
    }

    def worth(given: int, counts: np.ndarray, base: np.ndarray, pick: np.ndarray | slice) -> float:
        return evident_worth(counts[pick], base[pick]) if smoothing is None else smoothing[given]

    k_counts = worth(0, in_state, uniform, once["state"])
    counts = around(in_state, uniform, k_counts)
    others = around(in_state - own, uniform, k_counts)
    k_own = worth(1, own, others, once["own"])
    own_counts = around(own, others, k_own)

    elsewhere = around(in_state - after, uniform, k_counts)  # this state, reached from other states
    k_history = worth(2, after, elsewhere, once["after"])
    history = around(after, elsewhere, k_history)
    others_elsewhere = around(in_state - after - own + training, uniform, k_counts)
    others_after = around(after - training, others_elsewhere, k_history)
    k_own_history = worth(3, training, others_after, slice(None))
    own_history = around(training, others_after, k_own_history)

    tables = {
        UNIFORM: uniform,
        COUNTS: counts,
        OWN_COUNTS: own_counts,
        HISTORY: history,
        OWN_HISTORY: own_history,
    }
    with np.errstate(divide="ignore"):
        logs = {name: np.log(table) for name, table in tables.items()}
    return logs, Smoothing(k_counts, k_own, k_history, k_own_history)


def around(counts: np.ndarray, base: np.ndarray, worth: float) -> np.ndarray:
    """Dirichlet prediction: counts, and a prior that is worth so many."""
    return (counts + worth * base) / (counts.sum(axis=1, keepdims=True) + worth)


def evident_worth(counts: Float[np.ndarray, "n A"], base: Float[np.ndarray, "n A"]) -> float:
    """The worth of a prior under which Dirichlet-multinomial counts are likeliest."""
    seen = counts.sum(axis=1) > 0
    counts, base = counts[seen], base[seen]
    total, chosen = counts.sum(axis=1), counts > 0

    def surprise(log_worth: float) -> float:
        worth = np.exp(log_worth)
        alpha = worth * np.where(chosen, base, 1.0)
        rise = np.where(chosen, special.gammaln(alpha + counts) - special.gammaln(alpha), 0.0)
        return float((special.gammaln(worth + total) - special.gammaln(worth)).sum() - rise.sum())

    if len(counts) == 0:
        return 1.0
    bounds = (np.log(LEAST), np.log(MOST))
    return float(np.exp(optimize.minimize_scalar(surprise, bounds=bounds, method="bounded").x))
