"""What every model answers, whatever it assumes: the rest of the library asks no model what kind it is.

What is inferred with a model, and how, is in its kind of `Posterior`, which names the model it belongs to.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from manymotives.data.belief import EnvironmentOrBelief, known_part
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.io.records import Recorded
from manymotives.models.mixture import Mixture
from manymotives.models.sharing import Hierarchical, Pooled, Separate
from manymotives.models.target import check_everyone_chose, checked_choices

EVERYBODY = "everybody"  # the one task of a pooled model


class Model(Recorded, ABC):
    """Priors and a choice rule, of many tasks at once."""

    reward: Any  # a prior on rewards, or a set of them
    sharing: Any

    target_type: ClassVar[type]  # what `bind` returns; methods say which they sample from

    def bind(self, environment: EnvironmentOrBelief, demonstrations: Demonstrations) -> Any:
        """The posterior of this model for these data, up to a constant: what methods sample from."""
        counts, tasks = checked_choices(known_part(environment), demonstrations), demonstrations.tasks
        if self.is_separate:
            check_everyone_chose(demonstrations, counts)
        if self.is_pooled:
            counts, tasks = counts.sum(axis=0, keepdims=True), (EVERYBODY,)
        return self.target(environment, tasks, counts)

    @abstractmethod
    def target(self, environment: EnvironmentOrBelief, tasks: tuple[Any, ...], counts: np.ndarray) -> Any:
        """The same from counts [M, S, A] of tasks already pooled, if that is what the sharing says."""

    @property
    @abstractmethod
    def abbreviation(self) -> str:
        """As the paper calls it."""

    @property
    @abstractmethod
    def has_independent_tasks(self) -> bool:
        """Whether what one task did says nothing about another."""

    def environment_of(self, environment: EnvironmentOrBelief) -> EnvironmentOrBelief:
        """The environment as this model has it."""
        return environment

    def demonstrations_of(self, demonstrations: Demonstrations) -> Demonstrations:
        """Demonstrations as this model has them."""
        return demonstrations

    def warnings_in(self, environment: Environment) -> tuple[str, ...]:
        """What to know of this model in an environment, before any data."""
        return ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the model alone cannot tell apart, whatever the data."""
        return ()

    @property
    def depth(self) -> int | None:
        """How many steps ahead tasks look; None: for ever."""
        return None

    @property
    def is_pooled(self) -> bool:
        return isinstance(self.sharing, Pooled)

    @property
    def is_separate(self) -> bool:
        return isinstance(self.sharing, Separate)

    @property
    def is_hierarchical(self) -> bool:
        return isinstance(self.sharing, Hierarchical)

    @property
    def is_mixture(self) -> bool:
        return isinstance(self.sharing, Mixture)

    @property
    def has_covariates(self) -> bool:
        """Whether what a task does depends on what is known of it."""
        return isinstance(self.sharing, Hierarchical) and self.sharing.has_covariates
