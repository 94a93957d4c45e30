"""Counts by longer histories: how often everybody did what in this state, after the states before it.

    p_n(a | h_n) = (N(h_n, a) + κ_n p_{n−1}(a | h_{n−1})) / (N(h_n) + κ_n)

h_n is the state with the last n states before it, as far back as its episode goes without a gap. That it goes no
further is known too, and where that was known already h_n tells no more than h_{n−1}: there p_n = p_{n−1}. p_0 is
`counts`, around every available action alike.

Unlike in `counts.py` the choices counted by h_n are among those counted by h_{n−1}, so a product of
Dirichlet-multinomials would use them twice. Each κ_n, from the lowest n upwards, and at last the order n, are instead
those under which training choices are likeliest, each predicted from the others of the training set: from other tasks,
where new tasks are to be predicted, or else from other episodes. What is asked of the training set is what will be
asked of the model.

Numbers of contexts are those of pairs (number of h_{n−1} a step before, state): time and memory are linear in rows.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from scipy import optimize

from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.steps import NONE
from manymotives.scoring.counts import LEAST, MOST

LONGER_HISTORY = "counts with longer history"
SHORTEST, LONGEST = 2, 6  # orders to choose from; history of order 1 has a table of its own
EXACT = 1e-3  # of κ, relative: what is predicted changes by less than choices tell


class BackOff(NamedTuple):
    """How far back to look, and how many choices the shorter history is worth at each order."""

    order: int
    worth: tuple[float, ...]  # κ_0, κ_1, …, at least up to that order


@dataclass(frozen=True, eq=False)
class Histories:
    """Every choice, with the number of what came before it."""

    num_rows: int  # of the demonstrations
    row: Int[np.ndarray, " choices"]
    task: Int[np.ndarray, " choices"]
    episode: Int[np.ndarray, " choices"]
    uniform: Float[np.ndarray, " choices"]  # its probability if all available actions were alike
    before: Int[np.ndarray, " choices"]  # how many states came before it, LONGEST at most
    contexts: tuple[Int[np.ndarray, " choices"], ...]  # the number of h_n, for every n
    choices: tuple[Int[np.ndarray, " choices"], ...]  # the number of the pair (h_n, action)

    @classmethod
    def of(cls, environment: Environment, demonstrations: Demonstrations) -> "Histories":
        row = np.flatnonzero(demonstrations.action != NONE)
        state, action, follows = demonstrations.state, demonstrations.action[row], demonstrations.follows
        available = environment.available / np.maximum(environment.available.sum(axis=1, keepdims=True), 1)
        number, before = state, np.zeros(len(state), dtype=np.int64)
        contexts, choices = [], []
        for order in range(LONGEST + 1):
            if order > 0:
                number = _numbered(np.where(follows, np.roll(number, 1), NONE) + 1, state)
                before = np.where(follows, np.roll(before, 1) + 1, 0)
            contexts.append(pd.factorize(number[row])[0])
            choices.append(_numbered(contexts[order], action))
        return cls(
            len(state),
            row,
            demonstrations.task[row],
            demonstrations.episode[row],
            available[state[row], action],
            before[row],
            tuple(contexts),
            tuple(choices),
        )

    def tuned(self, trains: Bool[np.ndarray, " rows"], hold_out: str) -> BackOff:
        """What these rows ask for, if "tasks" or "episodes" like theirs are to be predicted."""
        trained = trains[self.row]
        units = [self.task] if hold_out == "tasks" else []
        units = [unit[trained] for unit in (*units, self.episode, self.row)]
        unit = next((each for each in units if len(each) and each.min() < each.max()), units[-1])
        found = self.uniform[trained]
        worth, evidence = [], []
        for order in range(LONGEST + 1):
            same, total, alike = self._from_others(order, trained, unit)
            tells = self.before[trained] >= order - 1
            worth.append(_likeliest(same, total, found, tells, alike))
            found = np.where(tells, _around(same, total, found, worth[order]), found)
            evidence.append(_log(found).sum())
        return BackOff(SHORTEST + int(np.argmax(evidence[SHORTEST:])), tuple(worth))

    def log_probability(
        self, trains: Bool[np.ndarray, " rows"], tested: Bool[np.ndarray, " rows"], back_off: BackOff
    ) -> Float[np.ndarray, " rows"]:
        """log p of each tested choice, from those that train; elsewhere no number."""
        trained, asked = trains[self.row], tested[self.row]
        found = self.uniform[asked]
        for order in range(back_off.order + 1):
            numbers = self.choices[order], self.contexts[order]
            same, total = (np.bincount(number[trained], minlength=len(number))[number[asked]] for number in numbers)
            tells = self.before[asked] >= order - 1
            found = np.where(tells, _around(same, total, found, back_off.worth[order]), found)
        everywhere = np.full(self.num_rows, np.nan)
        everywhere[self.row[asked]] = _log(found)
        return everywhere

    def from_other_tasks(self, trains: Bool[np.ndarray, " rows"], back_off: BackOff) -> Float[np.ndarray, " choices"]:
        """p of each choice that trains, from those of the other tasks that do; elsewhere no number."""
        trained = trains[self.row]
        found = self.uniform[trained]
        for order in range(back_off.order + 1):
            same, total, _ = self._from_others(order, trained, self.task[trained])
            tells = self.before[trained] >= order - 1
            found = np.where(tells, _around(same, total, found, back_off.worth[order]), found)
        everywhere = np.full(len(self.row), np.nan)
        everywhere[trained] = found
        return everywhere

    def _from_others(
        self, order: int, trained: np.ndarray, unit: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """N(h_n, a) and N(h_n) of each choice that trains, by other units; and the number of (h_n, a, its unit)."""
        numbers = self.choices[order][trained], self.contexts[order][trained]
        alike = [_numbered(number, unit) for number in numbers]
        same, total = (np.bincount(number)[number] - np.bincount(mine)[mine] for number, mine in zip(numbers, alike))
        return same, total, alike[0]


def _numbered(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Numbers 0, 1, … of the different pairs of whole numbers."""
    return pd.factorize(first * (int(second.max(initial=0)) + 1) + second)[0]


def _around(same: np.ndarray, total: np.ndarray, base: np.ndarray, worth: float) -> np.ndarray:
    """Dirichlet prediction: counts, and a prior that is worth so many."""
    return (same + worth * base) / (total + worth)


def _likeliest(same: np.ndarray, total: np.ndarray, base: np.ndarray, tells: np.ndarray, alike: np.ndarray) -> float:
    """The worth of a prior under which choices that it tells of are likeliest, given counts that they are not among.

    Choices with the same number in `alike`, numbered as they appear, have the same counts and the same prior.
    """
    one = np.flatnonzero(np.diff(np.maximum.accumulate(alike), prepend=-1))  # of each number the first
    often = np.bincount(alike)
    used = (tells & (total > 0))[one]  # where nothing was seen, a prior of any worth predicts alike
    if not used.any():
        return 1.0
    one, often = one[used], often[used].astype(float)
    same, total, base = same[one].astype(float), total[one].astype(float), base[one]

    def surprise(log_worth: float) -> float:
        return -float((often * _log(_around(same, total, base, np.exp(log_worth)))).sum())

    bounds, enough = (np.log(LEAST), np.log(MOST)), {"xatol": EXACT}
    return float(np.exp(optimize.minimize_scalar(surprise, bounds=bounds, method="bounded", options=enough).x))


def _log(probability: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(probability)
