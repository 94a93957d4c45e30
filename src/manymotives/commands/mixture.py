"""Motives that subjects share, on the command line: options, what was found in a few lines, and as tables."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from manymotives.commands.ranking import ranked, wanted
from manymotives.errors import InputError, quoted
from manymotives.models.mixture import EPISODE, TASK, DirichletProcess, FiniteNumber, Mixture
from manymotives.models.priors import HalfNormal
from manymotives.posterior import MixturePosterior

FINITE, PROCESS = "finite", "process"
MOTIVES = (
    "With --model mixture: a number of motives, of which some may go unused; finite: a finite number that is "
    "inferred (the default); process: a Dirichlet process, whose number grows with that of subjects."
)
SPREAD = (
    "With --model mixture: subjects who share a motive vary around it; this is the scale of the half-normal "
    "prior of their spread. Default: they have exactly its reward."
)
BY = "With --model mixture: whether each subject (the default) or each episode has a motive."
NUMBERS = 3  # of motives that are named, at most


class MotivesOf(StrEnum):
    subject = "subject"
    episode = "episode"


def asked_mixture(
    model: str, method: str | None, reward: str, motives: str | None, spread: float | None, by: MotivesOf | None
) -> Mixture | None:
    """What was asked for, checked before anything is read; None where the model is another one."""
    if model != "mixture":
        for word, value in (("--motives", motives), ("--spread", spread), ("--by", by)):
            if value is not None:
                raise InputError(
                    f"{word} is for --model mixture; found --model {model}. Leave it out, or choose --model mixture."
                )
        return None
    if method not in (None, "hmc"):
        raise InputError(f"--method {method} cannot infer which subjects share a motive: choose hmc.")
    if reward == "smooth":
        raise InputError(
            "--reward smooth is not available for --model mixture yet. Choose gaussian, dirichlet or beta."
        )
    if spread is not None and not 0 < spread < float("inf"):
        raise InputError(f"--spread must be a positive number; found {spread:g}.")
    if spread is not None and reward != "gaussian":
        raise InputError(f"--spread is for --reward gaussian, whose rewards can be any number; found {reward}.")
    return Mixture(
        _number(motives),
        spread=None if spread is None else HalfNormal(scale=spread),
        by=EPISODE if by is MotivesOf.episode else TASK,
    )


def _number(motives: str | None) -> Any:
    if motives is None or motives == FINITE:
        return FiniteNumber()
    if motives == PROCESS:
        return DirichletProcess()
    if not (motives.isdecimal() and int(motives) >= 1):
        raise InputError(
            f'--motives must be a number of at least 1, "{FINITE}" or "{PROCESS}"; found {quoted(motives)}.'
        )
    return int(motives)


def mixture_said(mixture: Mixture | None) -> str:
    """The same in a sentence."""
    if mixture is None:
        return ""
    whose = "episodes" if mixture.by == EPISODE else "subjects"
    kinds = {FiniteNumber: "a finite number of", DirichletProcess: "a Dirichlet process of"}
    number = kinds.get(type(mixture.motives), f"up to {mixture.motives}")
    around = "" if mixture.spread is None else " with a spread"
    return f", {number} motives{around}, shared by {whose},"


def mixture_found(posterior: MixturePosterior) -> dict[str, Any]:
    """How many motives there are, and those of the partition: their subjects, and what they want most."""
    number = {str(count): round(float(share), 4) for count, share in posterior.number_of_motives.items()}
    partition, wants = posterior.partition, _wanted_most(posterior)
    motives = [
        {"motive": k, "wants_most": wants[k][0], "subjects": [str(name) for name in members]}
        | ({"too_close_to_tell": wants[k][1:]} if len(wants[k]) > 1 else {})
        for k, members in partition.members.items()
    ]
    return {"number_of_motives": number, "motives": motives}


def _wanted_most(posterior: MixturePosterior) -> dict[int, list[str]]:
    """What each motive of the partition wants most, by the average over its subjects, and what is too close to it."""
    values = posterior.weights if posterior.has_features else posterior.rewards
    groups = posterior.partition.groups.values
    return {
        k: ranked(posterior, values.isel(task=np.flatnonzero(groups == k)).mean("task"))[0]
        for k in range(1, posterior.partition.number + 1)
    }


def lines(posterior: MixturePosterior) -> list[str]:
    """The same for people."""
    found = mixture_found(posterior)
    likely = sorted(found["number_of_motives"].items(), key=lambda each: -each[1])[:NUMBERS]
    said = ", ".join(f"{count} (probability {share:.2f})" for count, share in likely)
    return [f"  motives: {said}"] + [
        f"  motive {row['motive']}: wants most {wanted(row)}; {', '.join(row['subjects'])}" for row in found["motives"]
    ]


def tables(posterior: MixturePosterior, level: float) -> dict[str, Callable[[], pd.DataFrame]]:
    """How many motives, who shares one with whom, and what each motive wants, by name."""
    wanted: dict[str, Callable[[], pd.DataFrame]] = {
        "number_of_motives": lambda: posterior.number_of_motives.reset_index(),
        "together": lambda: _pairs(posterior),
        "partition": lambda: _members(posterior),
        "motives": lambda: posterior.motives_table(level=level),
    }
    if posterior.partition.number > 1:
        wanted["contrasts_between_motives"] = lambda: posterior.motives_table("motive", level=level)
    return wanted


def _pairs(posterior: MixturePosterior) -> pd.DataFrame:
    """The probability that two subjects share a motive, each pair once."""
    names, values = posterior.together["task"].values, posterior.together.values
    one, other = np.triu_indices(len(names), 1)
    return pd.DataFrame({"task": names[one], "other_task": names[other], "probability": values[one, other]})


def _members(posterior: MixturePosterior) -> pd.DataFrame:
    """The motive of each subject in the partition that is closest to all draws, and how sure that is."""
    found = posterior.partition
    table = pd.DataFrame({"motive": found.groups, "together": found.sureness}).rename_axis("task")
    return table.reset_index()
