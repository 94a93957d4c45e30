"""Demonstrations in, the environment they seem to have happened in out: observed frequencies, marked as such."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.labels import Label, index_of
from manymotives.data.steps import NONE
from manymotives.data.transitions import handy
from manymotives.errors import InputError, quoted

ESTIMATED = "the environment was estimated from these data"  # how its warning begins, wherever it goes …
LEFT_OUT = "choices are left out, because it is not known where they lead"  # … and what that of its choices has
SELDOM = 5  # times seen, below which a frequency says little about a probability


class Estimate(NamedTuple):
    """An environment, and the demonstrations as far as it can tell what followed."""

    environment: Environment
    demonstrations: Demonstrations


def estimate_environment(
    demonstrations: Demonstrations, *, discount: float, terminal: Sequence[Label] = ()
) -> Estimate:
    """Estimate the environment from demonstrations, if none is known.

    The probability of a next state is its relative frequency over all tasks together, since all act in the same
    environment. An action that was never observed in a state, or never with a next state, is taken not to exist there;
    a state without actions is terminal. Episodes begin where they were observed to begin. The posterior does not
    include the uncertainty of these estimates, so the environment carries a warning.

    Parameters
    ----------
    demonstrations
        The demonstrations of all tasks.
    discount
        γ, which cannot be estimated from transitions.
    terminal
        States that are known to end an episode.

    Returns
    -------
    Estimate
        `environment`, and the `demonstrations` that are possible in it.
    """
    states, actions = demonstrations.states, demonstrations.actions
    counts = demonstrations.transition_counts()
    seen = np.asarray(counts.sum(axis=1)).ravel()
    if seen.sum() == 0:
        raise InputError(
            "no choice is followed by a known state, so the environment cannot be estimated. Give next states, "
            "longer episodes, or the environment itself."
        )
    ends = np.zeros(len(states), dtype=bool)
    ends[[index_of(name, states, "state") for name in terminal]] = True
    chosen = demonstrations.action != NONE
    wrong = np.flatnonzero(chosen & ends[demonstrations.state])
    if wrong.size:
        where = states[demonstrations.state[wrong[0]]]
        raise InputError(
            f"state {quoted(where)} is declared terminal, but {wrong.size} choices are made in it. Leave it out "
            "of the terminal states, or leave the action empty there."
        )
    available = seen.reshape(len(states), len(actions)) > 0
    ends |= ~available.any(axis=1)
    frequency = sp.csr_array(sp.diags_array(1 / np.maximum(seen, 1)) @ counts)
    lost = chosen & ~available[demonstrations.state, np.maximum(demonstrations.action, 0)]
    environment = Environment(
        handy(frequency),
        discount=discount,
        states=states,
        actions=actions,
        available=available,
        terminal=[states[s] for s in np.flatnonzero(ends)],
        start=_starts(demonstrations),
    ).with_warnings((_about(seen, states, ends),))
    if not lost.any():
        return Estimate(environment, demonstrations)
    at = int(np.flatnonzero(lost)[0])
    warning = (
        f"{lost.sum()} {LEFT_OUT}, for example "
        f"{quoted(actions[demonstrations.action[at]])} in {quoted(states[demonstrations.state[at]])}."
    )
    kept = replace(
        demonstrations,
        action=np.where(lost, NONE, demonstrations.action),
        warnings=(*demonstrations.warnings, warning),
    )
    return Estimate(environment, kept)


def is_estimated(environment: Environment) -> bool:
    """Whether `estimate_environment` made it; also after it was saved and loaded."""
    return any(warning.startswith(ESTIMATED) for warning in environment.warnings)


def is_left_out(warning: str) -> bool:
    """Whether a warning of demonstrations is about choices that an estimated environment cannot hold."""
    return LEFT_OUT in warning


def is_deterministic(demonstrations: Demonstrations) -> bool:
    """Whether the same action in the same state has always led to the same one."""
    return bool((np.diff(demonstrations.transition_counts().indptr) <= 1).all())


def _starts(demonstrations: Demonstrations) -> np.ndarray:
    """How often episodes began in each state."""
    first = np.append(True, np.diff(demonstrations.episode) != 0)
    begun = np.bincount(demonstrations.state[first], minlength=len(demonstrations.states))
    return begun / begun.sum()


def _about(seen: np.ndarray, states: tuple[Label, ...], ends: np.ndarray) -> str:
    """What to know of the estimate."""
    tried = seen[seen > 0]
    seldom = int((tried < SELDOM).sum())
    last = ""
    if ends.any():
        names = ", ".join(quoted(states[s]) for s in np.flatnonzero(ends)[:3]) + (", …" if ends.sum() > 3 else "")
        last = f"; {ends.sum()} states in which nothing was chosen are assumed to be terminal ({names})"
    return (
        f"{ESTIMATED}: {seen.sum():,} transitions of {len(tried):,} state-action pairs, {seldom:,} of them "
        f"observed fewer than {SELDOM} times; pairs that were never observed are assumed not to exist{last}. The "
        "posterior treats this environment as known."
    )
