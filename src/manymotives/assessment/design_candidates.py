"""The information to expect from choices in one environment, by whoever computes it: this process or a worker."""

from typing import Any, NamedTuple

import numpy as np

from manymotives.assessment.beliefs import Beliefs
from manymotives.assessment.information import Information, expected_information
from manymotives.assessment.simulators import Played
from manymotives.data.environment import Environment
from manymotives.data.labels import Label
from manymotives.worlds import simulate


class Question(NamedTuple):
    """One environment with each start that is a candidate, and what choices in it are simulated with."""

    known: Beliefs  # of this environment alone
    name: Label
    places: tuple[Environment, ...]  # one for each start
    group: np.ndarray | None  # [N] of a contrast's values; None: the whole motive
    before: np.ndarray | None  # [N, N] log likelihoods of choices in the candidates that were chosen before
    steps: int
    episodes: int
    seed: int  # of simulated choices: the same in every candidate


def informed(question: Question, _: int) -> dict[str, float]:
    """The information of each candidate as numbers by name: a unit of work."""
    log_policy = question.known.log_policies(question.name)
    numbers: dict[str, float] = {}
    for place in range(len(question.places)):
        found = expected_information(joint_log_likelihood(question, place, log_policy), question.group)
        numbers |= {f"{place} lower": found.lower, f"{place} upper": found.upper}
        numbers |= {f"{place} {draw}": float(each) for draw, each in enumerate(found.influence)}
    return numbers


def read_numbers(numbers: dict[str, float], places: int, draws: int) -> list[Information]:
    """What `informed` wrote."""
    return [
        Information(
            numbers[f"{place} lower"],
            numbers[f"{place} upper"],
            np.array([numbers[f"{place} {draw}"] for draw in range(draws)]),
        )
        for place in range(places)
    ]


def joint_log_likelihood(question: Question, place: int, log_policy: np.ndarray) -> np.ndarray:
    """[N, N] of the choices that draw n makes in a candidate and in those before, under the policies of draw m."""
    here = log_likelihood(question, question.places[place], log_policy)
    return here if question.before is None else question.before + here


def log_likelihood(question: Question, place: Environment, log_policy: np.ndarray) -> np.ndarray:
    """[N, N] of the choices that draw n makes in a candidate, under the policies of draw m."""
    known = question.known
    if not (place.start * ~place.is_terminal).any():
        return np.zeros((known.num_draws, known.num_draws))  # nothing is ever chosen
    rule: Any = Played(np.where(place.available, np.exp(log_policy), 0.0))
    sizes: Any = {"steps": question.steps, "episodes": question.episodes, "seed": question.seed}
    counts = simulate(place, known.rewards[question.name], rule, **sizes, on=known.model.reward.on).counts
    counts = counts.reshape(known.num_draws, -1)
    chosen = np.flatnonzero(counts.any(axis=0))
    return counts[:, chosen].astype(float) @ log_policy.reshape(known.num_draws, -1)[:, chosen].T
