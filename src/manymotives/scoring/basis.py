"""What a comparison rests on: which choices it was computed from, and in what environment; and how to say so."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from manymotives.data.belief import DynamicsBelief, EnvironmentOrBelief
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.estimation import is_estimated, is_left_out
from manymotives.data.steps import NONE

GIVEN, ESTIMATED, INFERRED = "given", "estimated from the choices", "inferred together with the rewards"


@dataclass(frozen=True)
class Basis:
    """Scores can be compared if they are averages over the same choices: if their `digest` is the same."""

    environment: str  # GIVEN, ESTIMATED or INFERRED; of several models with the names of those that differ
    held_out: int  # choices that were held out
    scored: int  # of these, choices that had an alternative
    digest: str  # of the choices scored: who, when, what

    @classmethod
    def of(
        cls,
        dynamics_of: dict[str, EnvironmentOrBelief],
        demonstrations: Demonstrations,
        held_out: np.ndarray,
        scored: np.ndarray,
    ) -> "Basis":
        """From the environment of each model, and which rows of the demonstrations are held out and scored."""
        kinds = {name: _kind(dynamics) for name, dynamics in dynamics_of.items()}
        first, *others = dict.fromkeys(kinds.values())
        differ = [f"{other} by {', '.join(n for n, kind in kinds.items() if kind == other)}" for other in others]
        environment = "; ".join([first, *differ])
        return cls(environment, int(held_out.sum()), int(scored.sum()), choices_digest(demonstrations, scored))

    def __str__(self) -> str:
        some = f"{self.scored:,}" if self.scored == self.held_out else f"{self.scored:,} of {self.held_out:,}"
        return f"{some} held-out choices (set {self.digest}); environment {self.environment}"


def basis_warnings(dynamics: EnvironmentOrBelief, demonstrations: Demonstrations, basis: Basis) -> tuple[str, ...]:
    """Choices that are not scored only because of how the environment became known."""
    left_out = tuple(warning for warning in demonstrations.warnings if is_left_out(warning))
    forced = basis.held_out - basis.scored
    if not forced or not _has_only_what_was_taken(dynamics, demonstrations):
        return left_out
    return *left_out, (
        f"{forced:,} of {basis.held_out:,} held-out choices are not scored: only one action was ever taken in "
        "their states, so the environment, which is estimated from these choices alone, has no alternative "
        "there. If the environment is given (--environment on the command line), they are scored if it has an "
        "alternative. Do not compare this table with one for another set of choices."
    )


def differing(bases: Sequence[Basis | None]) -> str | None:
    """What to say of tables that are shown together and are not of the same choices."""
    known = list(dict.fromkeys(basis for basis in bases if basis is not None))
    if len({basis.digest for basis in known}) < 2:
        return None
    return (
        "These tables are about different choices and cannot be compared with each other: "
        + "; ".join(f"({number}) {basis}" for number, basis in enumerate(known, 1))
        + "."
    )


def _kind(dynamics: EnvironmentOrBelief) -> str:
    if isinstance(dynamics, DynamicsBelief):
        return INFERRED
    return ESTIMATED if is_estimated(dynamics) else GIVEN


def _has_only_what_was_taken(dynamics: EnvironmentOrBelief, demonstrations: Demonstrations) -> bool:
    """Whether actions exist just where somebody took them: what an environment known from choices looks like."""
    if isinstance(dynamics, DynamicsBelief):
        return bool(np.array_equal(dynamics.mean.available, demonstrations.counts.sum(axis=0) > 0))
    return is_estimated(dynamics)


def num_alternatives(environment: Environment, demonstrations: Demonstrations) -> int:
    """How many choices had an alternative."""
    made = demonstrations.state[demonstrations.action != NONE]
    return int((environment.available.sum(axis=1) > 1)[made].sum())


def choices_digest(demonstrations: Demonstrations, rows: np.ndarray | None = None) -> str:
    """Eight letters that change with any choice: whose, in which episode, at which place in it, and what was done.

    By name, and in an order that no environment changes. States are left out: with memory they are called otherwise.
    """
    begins = np.searchsorted(demonstrations.episode, np.arange(demonstrations.num_episodes))
    made = demonstrations.action != NONE
    at = np.flatnonzero(made if rows is None else rows & made)
    episode = demonstrations.episode[at]
    columns = (
        np.array(list(map(str, demonstrations.tasks)))[demonstrations.task[at]],
        np.array(list(map(str, demonstrations.episodes)))[episode],
        (at - begins[episode]).astype(str),
        np.array(list(map(str, demonstrations.actions)))[demonstrations.action[at]],
    )
    return sha256("\n".join(sorted(map("\t".join, zip(*columns)))).encode()).hexdigest()[:8]
