"""What every method returns, and what it promises."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from manymotives.inference.progress import Progress


@dataclass(frozen=True, eq=False)
class Draws:
    """Equally weighted draws from a posterior, in the coordinates of its target."""

    tasks: Float[np.ndarray, "chain draw task D"]
    hyper: Float[np.ndarray, "chain draw group H"]
    log_likelihood: Float[np.ndarray, "chain draw task"]
    statistics: dict[str, tuple[tuple[str, ...], np.ndarray]] = field(default_factory=dict)  # name: (dims, values)
    warnings: tuple[str, ...] = ()
    state: dict[str, np.ndarray] = field(default_factory=dict)  # what a method needs to resume, if it can
    transition_probabilities: Float[np.ndarray, "chain draw E"] | None = None  # that are uncertain, under a belief

    def followed_by(self, later: "Draws") -> "Draws":
        """These and later ones of the same chains; what is said of chains is a rate, and averaged over their draws."""
        statistics, share = {}, self.tasks.shape[1] / (self.tasks.shape[1] + later.tasks.shape[1])
        for name, (dims, new) in later.statistics.items():
            old = self.statistics[name][1]
            joined = np.concatenate([old, new], axis=dims.index("draw")) if "draw" in dims else None
            statistics[name] = (dims, share * old + (1 - share) * new if joined is None else joined)
        return Draws(
            tasks=np.concatenate([self.tasks, later.tasks], axis=1),
            hyper=np.concatenate([self.hyper, later.hyper], axis=1),
            log_likelihood=np.concatenate([self.log_likelihood, later.log_likelihood], axis=1),
            statistics=statistics,
            warnings=later.warnings,
            state=later.state,
            transition_probabilities=None
            if self.transition_probabilities is None
            else np.concatenate([self.transition_probabilities, later.transition_probabilities], axis=1),
        )


@runtime_checkable
class Method(Protocol):
    """A frozen object of settings that can sample from what a model binds to."""

    is_markov_chain: ClassVar[bool]  # draws depend on each other: R-hat and effective sample size mean something

    def run(self, target: Any, *, seed: int, progress: Progress, state: dict[str, Any] | None = None) -> Any:
        """`Draws` from a `Target`, or `OptimalityDraws` from an `OptimalityTarget`; `state`: to resume from."""
        ...


@dataclass(frozen=True, eq=False)
class OptimalityDraws:
    """What a method returns for a `PolicyOptimalityModel`: joint draws of policy, gap and reward, and exact weights."""

    rewards: np.ndarray  # [N, S] or [N, S, A] the set to choose from …
    measure: np.ndarray  # [N] … λ
    spans: np.ndarray  # [N] what there is to lose for each
    weights: np.ndarray  # [M, N] of the rewards, for each task: averages of probabilities, not of draws
    index: np.ndarray  # [chain, draw, M] the reward drawn
    gap: np.ndarray  # [chain, draw, M] ε
    loss: np.ndarray  # [chain, draw, M] of the drawn policy for the drawn reward
    policy_mean: np.ndarray  # [M, S, A]
    policies: np.ndarray | None  # [chain, draw, M, S, A], where they are few enough to keep
    log_likelihood: np.ndarray  # [chain, draw, M]
    concentration: np.ndarray  # [chain, draw, M] of policies
    reward_concentration: np.ndarray | None  # [chain, draw] κ
    statistics: dict[str, tuple[tuple[str, ...], np.ndarray]]
    warnings: tuple[str, ...] = ()
    bounds: np.ndarray | None = None  # [2, N, S] under a belief: what the best policy found is worth, what none exceeds
    state: dict[str, np.ndarray] = field(default_factory=dict)  # this method does not resume
