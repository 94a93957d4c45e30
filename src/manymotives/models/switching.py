"""Motives that change while an agent acts: a hidden Markov chain over motives, along each episode.

z_1 ~ B[c(s_1)]                        c(s): everywhere the same, or the state (of a task, where tasks differ)
z_{t+1} | z_t = j ~ A[c(s_t), j]       the state that is left decides
a_t | s_t ~ π_{z_t}(·|s_t)             each motive has a reward of its own
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from manymotives.errors import InputError, quoted
from manymotives.io.records import Recorded
from manymotives.models.priors import Gamma, Prior, check_parameter

EVERYWHERE, STATE = "everywhere", "state"
MOST_MOTIVES = 100


@dataclass(frozen=True, eq=False)
class StickBreaking(Recorded):
    """An unknown number of motives, up to `most`: a sparse prior on how much each is used leaves superfluous motives
    empty.

    β ~ Dirichlet(γ / most, …, γ / most), which becomes a stick-breaking process as `most` grows; rows of the transition
    matrix of motives are Dirichlet(α β + κ at the motive itself): the sticky HDP-HMM (Fox et al. 2011), truncated.

    Parameters
    ----------
    most
        The largest possible number of motives; each takes computing time, whether it is used or not.
    concentration
        γ: with larger values more motives are used.
    """

    most: int = 15
    concentration: float = 1.0

    def __post_init__(self) -> None:
        if not _is_count(self.most):
            raise InputError(
                f"StickBreaking: most must be a whole number from 1 to {MOST_MOTIVES}; found {quoted(self.most)}."
            )
        check_parameter(self.concentration, "StickBreaking: concentration", "positive")
        if isinstance(self.concentration, Prior) or np.ndim(self.concentration):
            raise InputError(f"StickBreaking: concentration must be one number; found {quoted(self.concentration)}.")


@dataclass(frozen=True, eq=False)
class Switching(Recorded):
    """Agents act on one of several motives at a time and switch between them: the argument `switching` of a
    `RewardPolicyModel`.

    Parameters
    ----------
    motives
        The number of motives; or `StickBreaking(most=15)`, if that is to be inferred too.
    by
        "everywhere": the probability of switching is the same in all states. "state": it depends on the state that the
        agent leaves, and varies around a part that is common to all states.
    stickiness
        κ ≥ 0: how strongly agents are expected to stay with a motive, in pseudo-counts; the rows of the transition
        matrix of motives are Dirichlet(1, …, 1 + κ, …, 1) a priori. A number, or a prior, with which it is inferred.
    concentration
        ν: how similar the rows of different states (or tasks) are; each is Dirichlet(ν · the common row). A number; or
        a prior, with which one is inferred for states and one for tasks. Not used if there is one row for all.
    """

    motives: int | StickBreaking = 2
    by: str = EVERYWHERE
    stickiness: Any = Gamma(shape=1.0, rate=0.1)
    concentration: Any = Gamma(shape=1.0, rate=0.1)

    def __post_init__(self) -> None:
        if not isinstance(self.motives, StickBreaking) and not _is_count(self.motives):
            raise InputError(
                f"Switching: motives must be a whole number from 1 to {MOST_MOTIVES}, or StickBreaking(...); found "
                f"{quoted(self.motives)}."
            )
        if self.by not in (EVERYWHERE, STATE):
            raise InputError(f'Switching: by must be "everywhere" or "state"; found {quoted(self.by)}.')
        if isinstance(self.stickiness, Prior):
            check_parameter(self.stickiness, "Switching: stickiness", "positive")
        else:
            check_parameter(self.stickiness, "Switching: stickiness", "real")
            if np.any(np.asarray(self.stickiness, dtype=float) < 0):
                raise InputError(f"Switching: stickiness must not be negative; found {quoted(self.stickiness)}.")
        check_parameter(self.concentration, "Switching: concentration", "positive")
        for word in ("stickiness", "concentration"):
            value = getattr(self, word)
            parts = value.parameters if isinstance(value, Prior) else (value,)
            if any(np.ndim(part) > 0 for part in parts):
                raise InputError(f"Switching: {word} must be one number, or one prior; found {quoted(value)}.")

    @property
    def num_motives(self) -> int:
        """How many there are, at most."""
        return int(self.motives.most if isinstance(self.motives, StickBreaking) else self.motives)

    @property
    def number_said(self) -> str:
        """How many, in words."""
        return f"up to {self.num_motives}" if self.is_counted else str(self.num_motives)

    @property
    def is_counted(self) -> bool:
        """Whether the number of motives is inferred."""
        return isinstance(self.motives, StickBreaking)


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(1 <= value <= MOST_MOTIVES)
