"""The door to counterfactual questions: what every posterior answers, or refuses to with a reason."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from manymotives.data.environment import Environment
from manymotives.data.labels import Label
from manymotives.inference.progress import Progress
from manymotives.posterior.counterfactual import Counterfactual, counterfactual_of


class WhatIf:
    """A posterior of which one can ask what would happen if something changed."""

    def counterfactual(
        self,
        *,
        environment: Environment | Mapping[Any, Environment] | None = None,
        rewards: Mapping[Any, float] | ArrayLike | Callable[[Any], Any] | None = None,
        available: Mapping[Any, bool | Label | Sequence[Label]] | ArrayLike | None = None,
        discount: float | None = None,
        features: Any = None,
        draws: int = 1000,
        level: float = 0.95,
        seed: int = 0,
        progress: bool | Progress = True,
    ) -> Counterfactual:
        """What each task would do, visit and gain if something changed, and whether choices could ever tell.

        Any of the changes can be made alone or together; what is not mentioned stays as it was.

        Parameters
        ----------
        environment
            Another one, or several by name. States keep the rewards of their names; where rewards are made of features,
            they are made of the new environment's.
        rewards
            What is *added* to rewards: {"water": 1.0} adds one to the reward of a state; {("shop", "buy"): -0.5} takes
            half from that of an action in a state; the name of a feature adds to everybody's weight of it. An array
            [state] or [state, action] has an amount for each. Amounts are in the units of the model's rewards. To put
            something in place of rewards, a function of labelled draws (…, state[, action]) that returns the new ones.
        available
            What can still be done: {"junction": ["left"]} leaves nothing but "left" there, {("junction", "right"):
            False} takes away one action, and a boolean table [state, action] says it for all. To allow what was not
            possible before, give an environment that has it.
        discount
            How much the next step counts, for everybody.
        features
            Of the new environment, or new ones of the same; only where rewards are made of features.
        draws
            At most so many, evenly spaced.
        level
            Probability of the intervals.
        seed
            Only for residual rewards of states that the fit has not got, which are drawn.
        progress
            Whether to show a bar where it takes longer.

        Returns
        -------
        Counterfactual
            Before, after and difference, with intervals, and whether the answer is identified.
        """
        how: Any = {"draws": draws, "level": level, "seed": seed, "progress": progress}
        changes: Any = {"environment": environment, "rewards": rewards, "available": available, "discount": discount}
        return counterfactual_of(self, **changes, features=features, **how)
