"""Where scores are added up: every model, every task, the same held-out choices."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.errors import InputError
from manymotives.scoring.cells import Cells
from manymotives.scoring.counts import Smoothing, count_models
from manymotives.scoring.histories import LONGER_HISTORY, BackOff, Histories
from manymotives.scoring.own_counts import OWN_PAST, OwnCounts
from manymotives.scoring.prediction import NOT_ASKED, Prediction
from manymotives.scoring.splits import Split


@dataclass(eq=False)
class Book:
    """Sums of log p by model, experience and task."""

    environment: Environment
    demonstrations: Demonstrations
    splits: tuple[Split, ...]
    hold_out: str
    own_past: bool = False  # whether rows are added that also learn from a held-out task's own past
    sums: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    ways: list[dict[str, Any]] = field(default_factory=list)
    orders: set[int] = field(default_factory=set)  # how far back counts with longer history looked, in some split

    def __post_init__(self) -> None:
        self.cells = Cells.of(self.environment, self.demonstrations)
        # where only one thing can be done, doing it says nothing: every model would score 0
        self.is_choice = self.environment.available.sum(axis=1)[self.demonstrations.state] > 1
        self.tested = [self.cells.counts(split.tested & self.is_choice) for split in self.splits]
        self.held_out = np.zeros(len(self.is_choice), dtype=bool)  # rows that are predicted in some split
        for split in self.splits:
            self.held_out |= split.tested
        self.choices: dict[int, np.ndarray] = {}
        for split, counts in zip(self.splits, self.tested):
            made = np.bincount(self.cells.task, weights=counts.sum(axis=1), minlength=self.num_tasks)
            self.choices[split.own_episodes] = self.choices.get(split.own_episodes, 0) + made

    def check_choices(self) -> None:
        """Refuse data in which there is nothing to predict."""
        if not any(made.any() for made in self.choices.values()):
            raise InputError(
                "no held-out choice had an alternative, so there is nothing to predict. In the states of all "
                f"{self.held_out.sum():,} of them the environment has a single action."
            )

    @property
    def num_tasks(self) -> int:
        return self.demonstrations.num_tasks

    def add_count_models(self, tuning: list[np.ndarray] | None = None) -> None:
        """Uniform, counts, counts with history, and with a longer one; the last also with own past, if that is asked.

        `tuning`: rows for each split, from which to choose the smoothing, where it would take too long to choose it
        for each training set; no more than what trains.
        """
        histories = Histories.of(self.environment, self.demonstrations)
        own = OwnCounts.of(histories) if self.own_past else None
        known: dict[int, tuple[Smoothing, BackOff]] = {}
        for number, split in enumerate(self.splits):
            if tuning is None:
                smoothing, back_off = None, histories.tuned(split.trains, self.hold_out)
            else:
                rows = tuning[number]
                if id(rows) not in known:
                    found = count_models(self.cells, self.cells.counts(rows))[1]
                    known[id(rows)] = found, histories.tuned(rows, self.hold_out)
                smoothing, back_off = known[id(rows)]
            tables, _ = count_models(self.cells, self.cells.counts(split.trains), smoothing)
            for name, table in tables.items():
                self._count(name, number, table)
            log_others = histories.log_probability(split.trains, split.tested, back_off)
            self.add_rows(LONGER_HISTORY, number, log_others)
            self.orders.add(back_off.order)
            if own is not None:
                worth = own.tuned(split.trains if tuning is None else tuning[number], back_off)
                self.add_rows(OWN_PAST, number, own.log_probability(log_others, worth))

    def add(self, name: str, number: int, prediction: Prediction) -> None:
        """What a model predicts for split `number`."""
        policy = prediction.log_policy
        if prediction.by_row is not None:
            self.add_rows(name, number, prediction.by_row)
        else:
            table = policy[self.cells.state] if policy.ndim == 2 else policy[self.cells.task, self.cells.state]
            self._count(name, number, table)
        self._note(name, number, prediction.how, prediction.pareto_k)

    def add_rows(self, name: str, number: int, log_probability: Float[np.ndarray, " rows"]) -> None:
        """log p of what was chosen in each row, by a model that looks further back than a state."""
        rows = self.splits[number].tested & self.is_choice
        task = self.demonstrations.task[rows]
        self._sum(name, number, np.bincount(task, weights=log_probability[rows], minlength=self.num_tasks))

    def _note(self, name: str, number: int, how: str, pareto_k: float) -> None:
        split, tasks = self.splits[number], self.demonstrations.tasks
        who = {"task": tasks[split.task], "own_episodes": split.own_episodes} if self.hold_out == "tasks" else {}
        shape = {} if np.isnan(pareto_k) else {"pareto_k": pareto_k}
        self.ways.append({"model": name, "split": number} | who | {"how": how} | shape)

    def _count(self, name: str, number: int, table: np.ndarray) -> None:
        self._sum(name, number, self.cells.by_task(table, self.tested[number], self.num_tasks))

    def _sum(self, name: str, number: int, found: np.ndarray) -> None:
        key = (name, self.splits[number].own_episodes)
        self.sums[key] = self.sums.get(key, 0) + found

    # ---- parts of a book, for workers ------------------------------------------------------------------------

    def parts(self, each_alone: bool) -> list[tuple[int, "Book"]]:
        """Books of the same data without sums: one for each split, or one for all; and the number of its first."""
        if not each_alone:
            return [(0, replace(self, sums={}, ways=[], orders=set()))]
        return [
            (n, replace(self, splits=(split,), sums={}, ways=[], orders=set())) for n, split in enumerate(self.splits)
        ]

    def numbers(self, first: int) -> dict[str, float]:
        """All sums and ways as numbers by name, for `merge`; `first`: which split of the whole book is its first."""
        found = {
            json.dumps(["sum", name, own_episodes, task]): float(sums[task])
            for (name, own_episodes), sums in self.sums.items()
            for task in range(self.num_tasks)
        }
        for way in self.ways:
            key = [way["model"], first + way["split"], way["how"]]
            found[json.dumps(["way", *key])] = way.get("pareto_k", NOT_ASKED)
        return found

    def merge(self, numbers: Mapping[str, float]) -> None:
        """Add what another part of the book has summed."""
        sums: dict[tuple[str, int], np.ndarray] = {}
        for text, value in numbers.items():
            word, name, *rest = json.loads(text)
            if word == "sum":
                own_episodes, task = rest
                sums.setdefault((name, own_episodes), np.zeros(self.num_tasks))[task] = value
            else:
                number, how = rest
                self._note(name, number, how, value)
        for key, found in sums.items():
            self.sums[key] = self.sums.get(key, 0) + found

    def by_task(self) -> pd.DataFrame:
        """One row a model (and experience) and task, in nats a choice."""
        rows = []
        for (name, own_episodes), sums in sorted(self.sums.items(), key=lambda item: item[0][1]):  # models as they came
            choices = self.choices[own_episodes]
            experience = {"own_episodes": own_episodes} if self.hold_out == "tasks" else {}
            for task in np.flatnonzero(choices):
                figures = {"log_likelihood": sums[task] / choices[task], "choices": int(choices[task])}
                rows.append({"model": name} | experience | {"task": self.demonstrations.tasks[task]} | figures)
        return pd.DataFrame(rows)

    def how(self) -> pd.DataFrame:
        """One row a model and split: how its predictions were made."""
        columns = ["model", "split", *(["task", "own_episodes"] if self.hold_out == "tasks" else []), "how"]
        frame = pd.DataFrame(self.ways, columns=[*columns, "pareto_k"])
        return frame.assign(pareto_k=frame["pareto_k"].astype(float).fillna(NOT_ASKED))
