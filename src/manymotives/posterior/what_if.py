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
        """What each task would do, visit and gain after a change, and whether choices can identify the answer.

        Changes can be combined; whatever is not given stays the same.

        Parameters
        ----------
        environment
            Another environment, or several by name. States keep the rewards of their names; if rewards are made of
            features, they follow from the features of the new environment.
        rewards
            What is *added* to rewards: {"water": 1.0} adds one to the reward of a state; {("shop", "buy"): -0.5}
            subtracts a half from that of an action in a state; the name of a feature adds to every task's weight of it.
            An array [state] or [state, action] has an amount for each. Amounts are in the units of the model's rewards.
            To replace rewards, give a function of labelled draws (…, state[, action]) that returns the new ones.
        available
            Which actions remain: {"junction": ["left"]} leaves only "left" there, {("junction", "right"): False}
            removes one action, and a boolean table [state, action] covers all. To allow an action that did not exist,
            give an environment that has it.
        discount
            The new discount factor, for all tasks.
        features
            Features of the new environment, or new ones of the same environment; only if rewards are made of features.
        draws
            The largest number of draws to use, evenly spaced.
        level
            Probability of the intervals.
        seed
            Seed of the random numbers, needed only to draw the residual rewards of states that were not in the fit.
        progress
            Whether to show a progress bar for longer computations.

        Returns
        -------
        Counterfactual
            Results before and after the change, and their difference, with intervals and whether they are identified.
        """
        how: Any = {"draws": draws, "level": level, "seed": seed, "progress": progress}
        changes: Any = {"environment": environment, "rewards": rewards, "available": available, "discount": discount}
        return counterfactual_of(self, **changes, features=features, **how)
