"""Counts of a task's own earlier choices on top of what the others' counts predict: choices predicted as it goes.

    p'_n(a | h_n) = (N'(h_n, a) + κ'_n p'_{n−1}(a | h_{n−1})) / (N'(h_n) + κ'_n)

N' counts what this task did before, in its earlier episodes and in the same one; h_n is the state with the last n
states before it, as in `histories.py`; and below p'_0 is what counts with longer history of the other tasks predict.
Own choices have weights of their own: added to the counts of the others, few among many would change little.

κ' are those under which the choices of the training tasks are likeliest, each task predicted from the others of the
training set and its own past; times a prior, log κ' ~ Normal(log `USUAL`, `SPREAD`), which decides where training tasks
say little: from 30 choices alone κ' came out so small, or so large, that own counts did harm. Other models are not told
so much: a table that shows this one must say so.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from scipy import optimize

from manymotives.scoring.counts import LEAST, MOST
from manymotives.scoring.histories import BackOff, Histories

OWN_PAST = "counts with longer history and own past"
USUAL, SPREAD = 64.0, 2.0  # of κ' before the data: its median, and the standard deviation of its logarithm


@dataclass(frozen=True, eq=False)
class OwnCounts:
    """Every choice, with what its task had done before in the same place: of each order n, 0 where h_n tells no more.

    Tasks train, or are tested, as a whole.
    """

    histories: Histories
    same: Float[np.ndarray, "orders choices"]  # N'(h_n, a)
    total: Float[np.ndarray, "orders choices"]  # N'(h_n)

    @classmethod
    def of(cls, histories: Histories) -> "OwnCounts":
        tells = [histories.before >= order - 1 for order in range(len(histories.contexts))]
        same, total = (
            np.array([_earlier(number, histories.task) * each for number, each in zip(numbers, tells)], dtype=float)
            for numbers in (histories.choices, histories.contexts)
        )
        return cls(histories, same, total)

    def tuned(self, trains: Bool[np.ndarray, " rows"], back_off: BackOff) -> Float[np.ndarray, " orders"]:
        """κ' of each order, for tasks like those that train."""
        usual = np.full(back_off.order + 1, np.log(USUAL))
        from_others = self.histories.from_other_tasks(trains, back_off)
        asked = from_others > 0  # choices that train, less impossible ones
        if len(np.unique(self.histories.task[asked])) < 2:
            return np.exp(usual)  # there are no others whose counts one's own could stand on
        base, same, total = from_others[asked], *self._counts(asked, len(usual))

        def surprise(log_worth: np.ndarray) -> tuple[float, np.ndarray]:
            """−log likelihood − log prior up to a constant, for each choice; and its derivatives."""
            found, shares = _layers(base, same, total, np.exp(log_worth))
            slope, to_last = np.empty(len(log_worth)), 1 / found[-1]
            for order in reversed(range(len(log_worth))):
                to_last = to_last * shares[order]
                slope[order] = (to_last * (found[order + 1] - found[order])).mean()
            away = (log_worth - usual) / SPREAD
            return (
                float(away @ away) / 2 / len(base) - float(np.log(found[-1]).mean()),
                away / SPREAD / len(base) + slope,
            )

        bounds = [(np.log(LEAST), np.log(MOST))] * len(usual)
        return np.exp(optimize.minimize(surprise, usual, jac=True, method="L-BFGS-B", bounds=bounds).x)

    def log_probability(
        self, log_others: Float[np.ndarray, " rows"], worth: Float[np.ndarray, " orders"]
    ) -> Float[np.ndarray, " rows"]:
        """log p of each choice, given log p of it by the others' counts; where that is no number, nor is this."""
        rows = self.histories.row
        asked = ~np.isnan(log_others[rows])
        found, _ = _layers(np.exp(log_others[rows[asked]]), *self._counts(asked, len(worth)), worth)
        everywhere = np.full(len(log_others), np.nan)
        with np.errstate(divide="ignore"):
            everywhere[rows[asked]] = np.log(found[-1])
        return everywhere

    def _counts(self, asked: np.ndarray, orders: int) -> tuple[np.ndarray, np.ndarray]:
        return self.same[:orders, asked], self.total[:orders, asked]


def _layers(
    base: np.ndarray, same: np.ndarray, total: np.ndarray, worth: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What the others alone predict, then with own counts of each order; and the share of what is below in each."""
    found, shares = [base], []
    for chosen, visits, each in zip(same, total, worth):
        seen = visits + each
        shares.append(each / seen)
        found.append((chosen + each * found[-1]) / seen)
    return found, shares


def _earlier(number: np.ndarray, task: np.ndarray) -> np.ndarray:
    """How often the same task had the same number before."""
    return pd.Series(number).groupby([task, number]).cumcount().to_numpy()
