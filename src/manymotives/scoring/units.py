"""Units of work of a score: one model and some splits in, sums of log p by task out; computed here, or by workers."""

import os
from contextlib import nullcontext
from dataclasses import dataclass

from manymotives.data.belief import EnvironmentOrBelief
from manymotives.execution import Job, Workers, compute, fingerprint_of
from manymotives.inference import InParts, Progress
from manymotives.inference.progress import Report
from manymotives.scoring.contenders import Contender
from manymotives.scoring.predictions import check_weights, needs_one_fit_a_split, predictions_of
from manymotives.scoring.sums import Book

UNMIXED = "unmixed"  # among the numbers of a unit: how many of its fits had not mixed


@dataclass(frozen=True, eq=False)
class Predictor:
    """A model of a comparison, what it takes the world to be, and how it is scored."""

    contender: Contender
    dynamics: EnvironmentOrBelief
    seed: int
    refits: bool  # whether training sets are fitted anew

    def add_to(self, book: Book, report: Report | None = None, before: int = 0) -> int:
        """Add what it predicts for the book's splits; returns for how many of them its chains had not mixed."""
        unmixed, name = 0, self.contender.name
        made = predictions_of(self.contender, self.dynamics, book, self.seed, self.refits)
        for number in range(len(book.splits)):
            with nullcontext() if report is None else InParts(report).phase(self._said(number, book)):
                prediction = next(made)
            check_weights(self.contender, book, number, prediction)
            book.add(name, number, prediction)
            unmixed += not prediction.mixed
            if report is not None:
                report.update(before + number + 1, name)
        return unmixed

    def _said(self, number: int, book: Book) -> str:
        """What is being done for one of the splits."""
        verb = "Fitting" if needs_one_fit_a_split(self.contender, book, self.refits) else "Predicting by"
        return f"{verb} {self.contender.name}, {number + 1} of {len(book.splits)}"


def predict_all(
    predictors: list[Predictor],
    book: Book,
    executor: Workers,
    store: str | os.PathLike[str] | None,
    progress: bool | Progress,
) -> dict[str, int]:
    """Add what all models predict to the book; returns, by model, in how many fits chains had not mixed."""
    bar = progress if isinstance(progress, Progress) else Progress(progress is not False)
    if executor is not None or store is not None:
        return _by_workers(predictors, book, executor, store, bar.shown)
    unmixed = {}
    with bar.of(len(predictors) * len(book.splits), "predictions") as report:
        for position, each in enumerate(predictors):
            unmixed[each.contender.name] = each.add_to(book, report, position * len(book.splits))
    return unmixed


def _by_workers(
    predictors: list[Predictor],
    book: Book,
    executor: Workers,
    store: str | os.PathLike[str] | None,
    shown: bool,
) -> dict[str, int]:
    """The same with a unit of work for each fit where fits are independent, and for each model where they are not."""
    data = fingerprint_of(book.environment, book.demonstrations, book.hold_out, book.own_past)
    jobs: list[Job] = []
    for each in predictors:
        alone = needs_one_fit_a_split(each.contender, book, each.refits)
        drawn = None
        if each.contender.posterior is not None and not alone:  # its draws are used, not only its model
            drawn = each.contender.posterior.data["posterior"].dataset["reward"].values
        for first, part in book.parts(alone):
            fitted = (each.contender.model, each.contender.method, each.dynamics, each.refits, part.splits, drawn)
            jobs.append(
                Job(
                    study="score",
                    cell=each.contender.name,
                    fingerprint=fingerprint_of(data, *fitted),
                    run=first,
                    seed=each.seed,
                    function=_numbers,
                    setting=(each, part, first),
                    random_seed=each.seed,
                    seconds=10.0,
                    may_be_infinite=True,
                )
            )
    found = compute(jobs, executor=executor, store=store, progress=shown)
    unmixed = dict.fromkeys((each.contender.name for each in predictors), 0)
    for unit, numbers in found.items():
        unmixed[unit.cell] += int(numbers.pop(UNMIXED))
        book.merge(numbers)
    return unmixed


def _numbers(what: tuple[Predictor, Book, int], _: int) -> dict[str, float]:
    """A unit of work: what one model predicts for the splits of its part of the book."""
    predictor, part, first = what
    unmixed = predictor.add_to(part)
    return {UNMIXED: float(unmixed)} | part.numbers(first)
