"""Counts of a mouse's own earlier choices on top of those of the others: how choices are predicted as it goes.

    p'_n(a | h_n) = (N'(h_n, a) + κ'_n p'_{n−1}(a | h_{n−1})) / (N'(h_n) + κ'_n)

N' counts what this mouse did before, h_n is the node with the n before it, and below p'_0 is what counts with longer
history of the others predict. `Histories` with its own past adds own choices to those of others, where a few among
many change little; here they have weights of their own. κ' are those under which the choices of training mice are
likeliest, each mouse predicted from the others of the training set and its own past.
"""

import numpy as np
import pandas as pd
from scipy import optimize

from manymotives.scoring.histories import BackOff, Histories

LEAST, USUAL, MOST = np.log([0.5, 64.0, 1e5])  # of log κ'


class OwnPast:
    """Every choice with how often its mouse had been there before, and had chosen the same."""

    def __init__(self, histories: Histories) -> None:
        self.histories = histories
        self.layers = [
            (_earlier(choice, histories.task), _earlier(context, histories.task), histories.before >= order - 1)
            for order, (choice, context) in enumerate(zip(histories.choices, histories.contexts))
        ]

    def log_probability(self, trains: np.ndarray, tested: np.ndarray) -> np.ndarray:
        """log p [rows] of each tested choice, from choices that train and its mouse's earlier ones; else no number."""
        histories = self.histories
        back_off = histories.tuned(trains, "tasks")
        log_worth = self._tuned(trains, back_off)
        asked = tested[histories.row]
        base = np.exp(histories.log_probability(trains, tested, back_off)[histories.row[asked]])
        everywhere = np.full(histories.num_rows, np.nan)
        everywhere[histories.row[asked]] = np.log(self._with_own(base, asked, log_worth))
        return everywhere

    def _tuned(self, trains: np.ndarray, back_off: BackOff) -> np.ndarray:
        """log κ' of each order, for mice like those that train."""
        histories = self.histories
        task = np.full(histories.num_rows, -1)
        task[histories.row] = histories.task
        base = np.full(histories.num_rows, np.nan)
        for mouse in np.unique(task[trains & (task >= 0)]):
            mine = trains & (task == mouse)
            base[mine] = histories.log_probability(trains & ~mine, mine, back_off)[mine]
        asked = trains[histories.row]
        others = np.exp(base[histories.row[asked]])

        def surprise(log_worth: np.ndarray) -> float:
            return -float(np.log(self._with_own(others, asked, log_worth)).mean())

        begin = np.full(back_off.order + 1, USUAL)
        return optimize.minimize(surprise, begin, method="L-BFGS-B", bounds=[(LEAST, MOST)] * len(begin)).x

    def _with_own(self, base: np.ndarray, asked: np.ndarray, log_worth: np.ndarray) -> np.ndarray:
        """Probabilities of the choices asked for, from what the others' counts make of them."""
        found = base
        for (same, total, tells), worth in zip(self.layers, np.exp(log_worth)):
            found = np.where(tells[asked], (same[asked] + worth * found) / (total[asked] + worth), found)
        return found


def _earlier(number: np.ndarray, task: np.ndarray) -> np.ndarray:
    """How often the same task had the same number before."""
    return pd.Series(number).groupby([task, number]).cumcount().to_numpy()
