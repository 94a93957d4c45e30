"""Which experiment tells most? Candidate environments in; a ranking by the information to expect from choices out.

For each candidate, motives are drawn from what is believed (a model's prior, or a posterior), choices are simulated
from each motive, and the mutual information between choices and motive, or a contrast of it, is estimated with bounds
on both sides (`information.py`). Choices depend on a motive only through counts N(s, a), so that

    log p(y_n | θ_m) = Σ N_n(s, a) log π_m(a | s) + what does not depend on θ_m

for all n and m is one product of matrices. The same motives and the same random numbers are used in all candidates, so
that differences between them are known better than each is.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import count, groupby
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from manymotives.assessment.beliefs import Beliefs, beliefs_of
from manymotives.assessment.design_candidates import Question, informed, joint_log_likelihood, read_numbers
from manymotives.assessment.design_contrasts import Contrast, contrast_of
from manymotives.assessment.design_words import in_sentences
from manymotives.assessment.information import (
    Information,
    expected_information,
    groups_of,
    probabilities_best,
    standard_error,
)
from manymotives.data.environment import Environment
from manymotives.data.environments import Environments, environment_of
from manymotives.data.labels import Label, index_of
from manymotives.errors import InputError, quoted
from manymotives.execution.compute import compute
from manymotives.execution.jobs import Job, fingerprint_of
from manymotives.execution.runner import WorkerPool, Workers
from manymotives.inference import Progress
from manymotives.models import RewardPolicyModel
from manymotives.planning.problem import check_known
from manymotives.posterior import Posterior

GROUPS = 10  # of a contrast's values: more lose less information, fewer need fewer draws
FEWEST = 10 * GROUPS  # draws
HELD = 50_000_000  # log probabilities kept from one round to the next: 400 MB
NEGLIGIBLE = 1e-8  # of a contrast's weights: rounding


@dataclass(frozen=True, eq=False, repr=False)
class Design:
    """Candidates, most informative first; `mm.plots.design` plots them.

    Columns of `table`: `candidate`; `start`, where episodes begin, if starts were given; `information` in nats, the
    midpoint between two estimates whose expectations are bounds, `lower` and `upper`; its Monte Carlo `error`;
    `behind`, the difference from the best candidate, and `behind_error`, the error of that difference;
    `probability_best`; and `identified`, whether unlimited choices in this candidate alone would determine the
    contrast, or, without a contrast, `hidden`, the number of directions of reward that choices in it cannot identify.
    Values that were not computed are missing.
    """

    table: pd.DataFrame
    sequence: pd.DataFrame  # one row a round: what to run next, given those before it, and the information of all
    contrast: str | None  # what it is about; None: the whole reward
    choices: int  # at most, in one candidate
    draws: int
    identified: bool | None  # whether all candidates together, and what was seen so far, could settle the contrast

    @property
    def best(self) -> Any:
        """The candidate that tells most; with a start, both."""
        first = self.table.iloc[0]
        return first["candidate"] if "start" not in self.table else (first["candidate"], first["start"])

    @property
    def close(self) -> pd.DataFrame:
        """Rows of the table that cannot be told from the best: less than two errors behind it."""
        return self.table[self.table["behind"] <= 2 * self.table["behind_error"]]

    @property
    def can_tell(self) -> bool:
        """Whether any candidate's information can be told from none."""
        return bool((self.table["information"] > 2 * self.table["error"]).any())

    def __str__(self) -> str:
        return in_sentences(self)

    __repr__ = __str__


Computed = Callable[[list[Question]], list[list[Information]]]  # questions in; information of their places out


class _Candidate(NamedTuple):
    name: Label  # of its environment
    start: Label | None
    place: Environment  # that starts there


def design(
    candidates: Mapping[Any, Environment | tuple[Environment, Any]],
    beliefs: RewardPolicyModel | Posterior,
    contrast: str | tuple[Any, Any] | Mapping[Any, float] | None = None,
    *,
    steps: int,
    episodes: int = 1,
    starts: Sequence[Label] | None = None,
    rounds: int = 1,
    task: Label | None = None,
    features: object = None,
    draws: int = 1000,
    seed: int = 0,
    executor: Workers = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool | Progress = True,
) -> Design:
    """Rank environments by how informative choices in them would be about a subject's motive.

    Parameters
    ----------
    candidates
        Environments by name; or pairs of an environment and the state in which episodes begin. States with the same
        name have the same reward, as in `mm.Environments`.
    beliefs
        What is known before the choices: a model, whose prior is used; or a posterior, given the data so far.
    contrast
        What to learn about: "water - home", a difference between the rewards of two states or between the weights of
        two features; a single name; "inverse_temperature", "lapse" or "discount", if they are inferred; a pair of
        names; or weights of several names, {"water": 1.0, "food": -0.5, "home": -0.5}. If None, the whole motive.
    steps, episodes
        The number of choices per episode, and of episodes, of one subject; under `Pooled()`, of all subjects together.
    starts
        States in which episodes may begin; each environment is then a candidate with each of these states. If None,
        episodes begin as the environment says.
    rounds
        The number of candidates to choose, one after the other, each the most informative together with those before
        it; a candidate may be chosen more than once. The sequence does not take account of results; once those of the
        first are known, call `design` again with the new posterior.
    task
        With a posterior, the subject who will be observed again. If None, a new subject from the population.
    features
        With a posterior whose rewards are made of features, the features of the candidates, by their names.
    draws
        The number of motives that are drawn. The error falls with its square root; bounds on the information about the
        whole motive cannot exceed log draws (6.9 nats for 1000), and those about a contrast log 10, because it is
        divided into ten groups.
    seed
        Seed of the random numbers.
    executor
        Where to compute, one environment at a time: None, in this process; a number of processes; the address of a Dask
        scheduler; or any `concurrent.futures.Executor`. The result does not depend on it.
    store
        A file to which finished environments are written; an interrupted call resumes from it.
    progress
        Whether to show a progress bar in a terminal or notebook.

    Returns
    -------
    Design
        The `table` of candidates, most informative first; `best`; `sequence` if there are rounds; `can_tell`.
    """
    numbers = (("steps", steps, 1), ("episodes", episodes, 1), ("rounds", rounds, 1), ("draws", draws, FEWEST))
    for word, value, least in numbers:
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise InputError(f"design: {word} must be a whole number of at least {least}; found {quoted(value)}.")
    places, every = _candidates(candidates, starts)
    rng = np.random.default_rng([seed, 28])
    known = beliefs_of(beliefs, places, features=features, task=task, draws=draws, rng=rng)
    if known.num_draws < FEWEST:
        raise InputError(
            f"design: the posterior has {known.num_draws} draws; at least {FEWEST} are needed. Fit it with more."
        )
    about = None if contrast is None else contrast_of(known, contrast)
    every = [each._replace(place=_starting(known.environments[each.name], each.start)) for each in every]
    bar = progress if isinstance(progress, Progress) else Progress(bool(progress))
    ranked = _Ranking(known, every, about, steps, episodes, seed)
    if executor is None and store is None:
        with bar.of(rounds * len(every), "candidates") as report, threadpool_limits(1, "blas"):
            first, sequence = ranked.rounds(rounds, partial(ranked.here, count=count(1), report=report))
    else:
        with WorkerPool(executor) as pool:
            first, sequence = ranked.rounds(rounds, partial(ranked.by_workers, pool=pool, store=store, shown=bar.shown))
    table = _table(every, first, rng).assign(**ranked.shown())
    has_starts = any(each.start is not None for each in every)
    if not has_starts:
        table, sequence = table.drop(columns="start"), sequence.drop(columns="start")
    table = table.sort_values("information", ascending=False, kind="stable").reset_index(drop=True)
    return Design(
        table=table,
        sequence=sequence,
        contrast=None if about is None else about.words,
        choices=steps * episodes,
        draws=known.num_draws,
        identified=ranked.together(),
    )


class _Ranking:
    """Information of every candidate, and what the next ones add to those that are chosen."""

    def __init__(
        self, known: Beliefs, every: list[_Candidate], about: Contrast | None, steps: int, episodes: int, seed: int
    ) -> None:
        self.known, self.every, self.about = known, every, about
        self.steps, self.episodes, self.seed = steps, episodes, seed
        self.group = None if about is None else groups_of(about.values, GROUPS)
        size = sum(known.num_draws * each.available.size for each in known.environments.values())
        self.keep = size <= HELD
        self.held: dict[Label, np.ndarray] = {}

    def rounds(self, number_of: int, computed: Computed) -> tuple[list[Information], pd.DataFrame]:
        """Information of every candidate alone, and a greedy sequence."""
        chosen: np.ndarray | None = None
        before, rows, first = 0.0, [], list[Information]()
        for number in range(number_of):
            questions = self.questions(chosen, number)
            found = [each for part in computed(questions) for each in part]
            first = first or found
            place = int(np.argmax([each.estimate for each in found]))
            now, candidate = found[place], self.every[place]
            row = {"round": number + 1, "candidate": candidate.name, "start": candidate.start}
            row |= {"information": now.estimate, "error": now.error, "lower": now.lower, "upper": now.upper}
            rows.append(row | {"gain": now.estimate - before})
            before = now.estimate
            if number + 1 < number_of:
                question = next(each for each in questions if each.name == candidate.name)
                alone = question._replace(places=(candidate.place,))
                chosen = joint_log_likelihood(alone, 0, self.log_policies(question))
        return first, pd.DataFrame(rows)

    def questions(self, before: np.ndarray | None, number: int) -> list[Question]:
        """One for each environment, in the order of the candidates."""
        seed = int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0])
        found = []
        for name, group in groupby(self.every, key=lambda each: each.name):
            places = tuple(each.place for each in group)
            sizes = self.steps, self.episodes, seed
            found.append(Question(self.known.only(name), name, places, self.group, before, *sizes))
        return found

    def log_policies(self, question: Question) -> np.ndarray:
        """Kept from one round to the next where all of them fit into memory."""
        log_policy = self.held.get(question.name)
        if log_policy is None:
            log_policy = question.known.log_policies(question.name)
            self.held = self.held | {question.name: log_policy} if self.keep else {question.name: log_policy}
        return log_policy

    def here(self, questions: list[Question], count: Iterator[int], report: Any) -> list[list[Information]]:
        """Answers by this process, which plans on all its cores and keeps what it planned."""
        answers = []
        for question in questions:
            log_policy, own = self.log_policies(question), list[Information]()
            for place in range(len(question.places)):
                own.append(expected_information(joint_log_likelihood(question, place, log_policy), question.group))
                report.update(next(count))
            answers.append(own)
        return answers

    def by_workers(
        self, questions: list[Question], pool: WorkerPool, store: Any, shown: bool
    ) -> list[list[Information]]:
        """The same answers, by workers."""
        jobs = [
            Job("design", str(each.name), fingerprint_of(each), 0, self.seed, informed, each, 0) for each in questions
        ]
        numbers = compute(jobs, executor=pool, store=store, progress=shown)
        return [
            read_numbers(numbers[job.unit], len(each.places), self.known.num_draws)
            for job, each in zip(jobs, questions)
        ]

    def shown(self) -> dict[str, list[Any]]:
        """What ever more choices in each candidate would and would not show."""
        self.nulls = [self.known.hidden(each.name, each.place) for each in self.every]
        if self.about is None:
            counts = [None if null is None else null.shape[1] for null in self.nulls]
            return {} if all(count is None for count in counts) else {"hidden": counts}
        found = [_shows(null, self.about.weights) for null in self.nulls]
        return {} if all(each is None for each in found) else {"identified": found}

    def together(self) -> bool | None:
        """Whether all candidates, with what was seen so far, would settle the contrast."""
        nulls = [*self.nulls] if self.known.seen is None else [*self.nulls, self.known.seen]
        if self.about is None or self.about.weights is None or any(null is None for null in nulls):
            return None
        size = len(self.known.names)
        seen = sum(np.eye(size) - null @ null.T for null in nulls if null is not None)
        values, vectors = np.linalg.eigh(seen)
        return _shows(vectors[:, values < NEGLIGIBLE], self.about.weights)


def _shows(null: np.ndarray | None, weights: np.ndarray | None) -> bool | None:
    """Whether a contrast is the same along every direction that no choice can show."""
    if null is None or weights is None:
        return None
    return bool(np.abs(weights @ null).max(initial=0.0) <= NEGLIGIBLE * np.linalg.norm(weights))


def _table(every: list[_Candidate], found: list[Information], rng: np.random.Generator) -> pd.DataFrame:
    """One row for each candidate, in their order."""
    estimate, influence = np.array([each.estimate for each in found]), np.array([each.influence for each in found])
    best = int(estimate.argmax())
    return pd.DataFrame(
        {
            "candidate": [each.name for each in every],
            "start": [each.start for each in every],
            "information": estimate,
            "error": [each.error for each in found],
            "lower": [each.lower for each in found],
            "upper": [each.upper for each in found],
            "behind": estimate[best] - estimate,
            "behind_error": [standard_error(influence[best] - each) for each in influence],
            "probability_best": probabilities_best(estimate, influence, rng),
        }
    )


def _candidates(given: Any, starts: Any) -> tuple[dict[Label, Environment], list[_Candidate]]:
    """Environments by name, and candidates: each of them, or each of them with each start."""
    if not isinstance(given, Mapping) or not given:
        raise InputError(
            'design: candidates are environments by name, such as {"maze A": a, "maze B": b}; found '
            f"{'none' if isinstance(given, Mapping) else type(given).__name__}."
        )
    places: dict[Label, Environment] = {}
    every = []
    for name, each in given.items():
        own: Any = None
        if isinstance(each, tuple) and len(each) == 2:
            each, own = each
            if starts is not None:
                raise InputError(f"design: candidate {quoted(name)} has its own start. Leave out starts=.")
        place = environment_of(each)
        if isinstance(place, Environments):
            raise InputError(f"design: candidate {quoted(name)} is several environments. Give each its own name.")
        if not isinstance(place, Environment):
            check_known(place)
            raise InputError(f"design: candidate {quoted(name)} must be mm.Environment; found {type(each).__name__}.")
        places[name] = place
        for start in [own] if starts is None else starts:
            every.append(_Candidate(name, start, _starting(place, start)))
    if not every:
        raise InputError("design: starts= is empty. Name states, or leave it out.")
    return places, every


def _starting(place: Environment, start: Label | None) -> Environment:
    """The same environment, in which episodes begin in one state."""
    if start is None:
        return place
    found = copy(place)
    begin = np.zeros(place.num_states)
    begin[index_of(start, place.states, "state")] = 1.0
    object.__setattr__(found, "start", begin)
    return found
