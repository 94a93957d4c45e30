"""Tiny problems with unknown transitions, on which to hold a sampler against `belief_oracle`.

They are chosen so that wrong treatments of the transitions are plainly wrong: to plug in their mean, to keep their
prior whatever agents choose, to let every task have transitions of its own.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats


@dataclass(frozen=True, eq=False)
class Example:
    """A problem: alpha [S, A, S] (0: cannot happen), counts of choices [M, S, A], what is known, and priors.

    reward_concentration: [S] of the Dirichlet, or None for independent N(0, 1).
    inverse_temperature: known, or the mean of c_m ~ Gamma(temperature_shape, rate temperature_shape / mean).
    """

    alpha: np.ndarray
    counts: np.ndarray
    inverse_temperature: float
    discount: float
    reward_concentration: tuple[float, ...] | None
    temperature_shape: float = math.inf

    @property
    def mean_environment(self):
        """E[T] before any choice was seen."""
        return self.alpha / self.alpha.sum(axis=-1, keepdims=True)

    @property
    def uncertain(self):
        """(s, a, t) of the moves that are neither certain nor impossible."""
        open_rows = (self.alpha > 0).sum(axis=-1, keepdims=True) > 1
        return [tuple(int(i) for i in move) for move in np.argwhere((self.alpha > 0) & open_rows)]

    def only(self, task):
        """The same problem with one task: what is found when tasks do not share what they know of T."""
        return replace(self, counts=self.counts[task : task + 1])

    def reward_prior(self, state):
        """The prior of rho_m(state), from scipy.stats."""
        if self.reward_concentration is None:
            return stats.norm()
        here = self.reward_concentration[state]
        return stats.beta(here, sum(self.reward_concentration) - here)

    def move_prior(self, state, action, following):
        """The prior of T(following | state, action), from scipy.stats."""
        row = self.alpha[state, action]
        return stats.beta(row[following], row.sum() - row[following])

    def temperature_prior(self):
        """The prior of c_m, from scipy.stats, where it is unknown."""
        return stats.gamma(self.temperature_shape, scale=self.inverse_temperature / self.temperature_shape)


# In state 0 one can wait (action 0) or leap (action 1), which reaches state 1 who knows how often; state 1 can be left
# (action 0) or kept. An agent that keeps state 1 for sure and leaps half-heartedly tells that the leap seldom works.
# The mean of the belief says it works every other time: the plug-in has to find the agent half-hearted instead.
ONE_ROW = Example(
    alpha=np.array([[[1.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]]),
    counts=np.array([[[4, 8], [0, 12]]]),
    inverse_temperature=8.0,
    discount=0.8,
    reward_concentration=(1.0, 1.0),
)
# Leaving state 1 is uncertain as well. Two agents with opposite wishes agree about the leap.
TWO_ROWS = Example(
    alpha=np.array([[[1.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 1.0]]]),
    counts=np.array([[[4, 6], [0, 8]], [[6, 2], [7, 1]]]),
    inverse_temperature=8.0,
    discount=0.8,
    reward_concentration=(1.0, 1.0),
)
# What one agent alone says of the moves contradicts the other: together they leave two modes, and wider posteriors.
DISPUTED = replace(TWO_ROWS, counts=np.array([[[4, 6], [0, 8]], [[8, 0], [2, 6]]]))
# Of both actions in state 0 the same is believed: to the plug-in they are one, and choices there say nothing.
SAME_BELIEFS = replace(
    TWO_ROWS,
    alpha=np.array([[[1.0, 1.0], [1.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]]),
    counts=np.array([[[9, 1], [2, 6]], [[2, 8], [7, 1]]]),
)
# Nothing is certain; waiting and keeping were each seen to work once. Four rows: quadrature takes seconds.
ALL_ROWS = replace(TWO_ROWS, alpha=np.array([[[2.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 2.0]]]))
UNKNOWN_TEMPERATURE = Example(
    alpha=np.array([[[1.0, 0.0], [1.0, 0.5]], [[1.0, 0.0], [0.0, 1.0]]]),
    counts=np.array([[[7, 13], [0, 20]], [[6, 4], [9, 1]]]),
    inverse_temperature=8.0,
    discount=0.8,
    reward_concentration=(1.0, 1.0),
    temperature_shape=10.0,
)
GAUSSIAN = replace(TWO_ROWS, inverse_temperature=4.0, reward_concentration=None)
# A walk along three places, left (action 0) and right (action 1), of which only one step is certain.
THREE_STATES = Example(
    alpha=np.array(
        [[[2.0, 1.0, 0.0], [1.0, 1.0, 0.0]], [[1.0, 1.0, 1.0], [0.0, 0.0, 1.0]], [[0.0, 1.0, 1.0], [0.0, 1.0, 2.0]]]
    ),
    counts=np.array([[[6, 0], [5, 1], [1, 5]], [[2, 4], [6, 0], [1, 5]]]),
    inverse_temperature=8.0,
    discount=0.8,
    reward_concentration=(1.0, 1.0, 1.0),
)
THREE_STATES_GAUSSIAN = replace(
    THREE_STATES,
    counts=np.array([[[0, 6], [5, 1], [2, 4]], [[5, 1], [5, 1], [4, 2]]]),
    inverse_temperature=2.0,
    reward_concentration=None,
)

TWO_STATE_EXAMPLES = {
    "one row": ONE_ROW,
    "two rows": TWO_ROWS,
    "disputed": DISPUTED,
    "same beliefs": SAME_BELIEFS,
    "unknown temperature": UNKNOWN_TEMPERATURE,
    "Gaussian": GAUSSIAN,
}
THREE_STATE_EXAMPLES = {"three states": THREE_STATES, "three states, Gaussian": THREE_STATES_GAUSSIAN}
