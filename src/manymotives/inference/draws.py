"""What every method returns, and what it promises."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from manymotives.inference.progress import Progress
from manymotives.models import Target


@dataclass(frozen=True, eq=False)
class Draws:
    """Equally weighted draws from a posterior, in the coordinates of its target."""

    tasks: Float[np.ndarray, "chain draw task D"]
    hyper: Float[np.ndarray, "chain draw group H"]
    log_likelihood: Float[np.ndarray, "chain draw task"]
    statistics: dict[str, tuple[tuple[str, ...], np.ndarray]] = field(default_factory=dict)  # name: (dims, values)
    warnings: tuple[str, ...] = ()
    state: dict[str, np.ndarray] = field(default_factory=dict)  # what a method needs to go on, if it can


@runtime_checkable
class Method(Protocol):
    """A frozen object of settings that can sample from a target."""

    is_markov_chain: ClassVar[bool]  # draws depend on each other: R-hat and effective sample size mean something

    def run(self, target: Target, *, seed: int, progress: Progress, state: dict[str, Any] | None = None) -> Draws:
        """Draws from the target; `state` is that of earlier draws to go on from."""
        ...
