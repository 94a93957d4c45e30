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
class Switching(Recorded):
    """Agents act on one of several motives at a time and switch between them: the fourth choice of a model.

    Parameters
    ----------
    motives
        How many motives there are.
    by
        "everywhere": the probability of switching is the same in all states. "state": it depends on the state that is
        left, around what is common to all of them.
    stickiness
        κ ≥ 0: how strongly agents are expected to stay with a motive, in pseudo-counts; rows of the transition matrix
        of motives are Dirichlet(1, …, 1 + κ, …, 1) beforehand. A number, or a prior: inferred.
    concentration
        ν: how alike the rows of states (or of tasks) are; each is Dirichlet(ν · what is common). A number, or a prior:
        inferred, one for states and one for tasks. Not read where there is but one row for all.
    """

    motives: int = 2
    by: str = EVERYWHERE
    stickiness: Any = Gamma(shape=1.0, rate=0.1)
    concentration: Any = Gamma(shape=1.0, rate=0.1)

    def __post_init__(self) -> None:
        count = self.motives
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or not 1 <= count <= MOST_MOTIVES:
            raise InputError(
                f"Switching: motives must be a whole number from 1 to {MOST_MOTIVES}; found {quoted(count)}."
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
