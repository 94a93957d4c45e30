"""What every method promises: where it begins, how it goes on, what it returns."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from manymotives.inference.progress import Progress


class AssignmentDraws(NamedTuple):
    """Where motives switch: what is kept of the hidden chain; each with (chain and) draw in front."""

    rows: np.ndarray  # [C, K + 1, K] of each context: from each motive, and last the row by which segments begin
    stickiness: np.ndarray  # [R] κ of each tree of rows
    concentration: np.ndarray  # [R, L] ν of its levels
    steps: np.ndarray  # [M, K] how many steps of each task are assigned to each motive
    switches: np.ndarray  # [M] how often it switches
    log_likelihood: np.ndarray  # [M] of its choices, with the hidden chain summed out …
    episode_log_likelihood: np.ndarray  # [E] … and of each episode's; none where there are too many


class EffectDraws(NamedTuple):
    """Coefficients of covariates, in the coordinates of `models.effects`."""

    z: Float[np.ndarray, "chain draw E D"]
    log_spread: Float[np.ndarray, "chain draw K D"]


class MixtureDraws(NamedTuple):
    """Where tasks share motives: who acts on which; each with (chain and) draw in front."""

    motive: np.ndarray  # [M] numbered as they appear: only who has the same number means anything
    concentration: np.ndarray  # [] of a Dirichlet process; 1 elsewhere
    spread: np.ndarray  # [] of tasks around their motive; 0 where there is none
    centre: np.ndarray  # [M, R] what each task's motive wants, in coordinates
    lp: np.ndarray  # [] log density of all that is inferred


class EstimateDraws(NamedTuple):
    """Point estimates in the coordinates of a target, for each of its tasks."""

    coordinates: Float[np.ndarray, "M D"]
    covariance: Float[np.ndarray, "M D D"]
    log_likelihood: Float[np.ndarray, " M"]
    log_posterior: Float[np.ndarray, " M"]  # what was maximised: the log likelihood itself, or with the log prior
    gradient_norm: Float[np.ndarray, " M"]  # of what was maximised, per unit of log-odds
    converged: np.ndarray  # [M] 0 or 1
    iterations: np.ndarray  # [M]
    starts_agreeing: np.ndarray  # [M] how many starts ended here
    num_parameters: np.ndarray  # [M] that are free


@dataclass(frozen=True, eq=False)
class Draws:
    """Equally weighted draws from a posterior, in the coordinates of its target."""

    tasks: Float[np.ndarray, "chain draw task D"]
    hyper: Float[np.ndarray, "chain draw group H"]
    log_likelihood: Float[np.ndarray, "chain draw task"]
    statistics: dict[str, tuple[tuple[str, ...], np.ndarray]] = field(default_factory=dict)  # name: (dims, values)
    warnings: tuple[str, ...] = ()
    episode_log_likelihood: Float[np.ndarray, "chain draw episode"] | None = None  # where it was noted in passing
    transition_probabilities: Float[np.ndarray, "chain draw E"] | None = None  # that are uncertain, under a belief
    assignment: AssignmentDraws | None = None  # where motives switch; tasks above are motives (of units) then
    effects: EffectDraws | None = None  # of covariates
    mixture: MixtureDraws | None = None  # where tasks share motives
    estimate: EstimateDraws | None = None  # where draws are from the normal distribution around one
    includes_earlier: bool = False  # all proposals so far were resampled: these stand for those before, too

    def followed_by(self, later: "Draws") -> "Draws":
        """These and later ones of the same chains; what is said of chains is a rate, and averaged over their draws."""
        if later.includes_earlier:
            return later
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
            episode_log_likelihood=_joined(self.episode_log_likelihood, later.episode_log_likelihood),
            transition_probabilities=_joined(self.transition_probabilities, later.transition_probabilities),
            assignment=_joined_parts(self.assignment, later.assignment),
            effects=_joined_parts(self.effects, later.effects),
            mixture=_joined_parts(self.mixture, later.mixture),
        )


def _joined(earlier: np.ndarray | None, later: np.ndarray | None) -> np.ndarray | None:
    """Both, along draws; None where either is not known."""
    return None if earlier is None or later is None else np.concatenate([earlier, later], axis=1)


def _joined_parts(earlier: Any, later: Any) -> Any:
    """The same of tuples of arrays."""
    return None if earlier is None or later is None else type(later)(*map(_joined, earlier, later))


@dataclass(frozen=True, eq=False)
class RunState:
    """Where a method stands with a target: with these, and no more, it goes on as if it had never stopped."""

    target: Any
    seed: int
    arrays: dict[str, np.ndarray] = field(default_factory=dict)  # what a file must hold; none before the first draw


@runtime_checkable
class Method(Protocol):
    """A frozen object of settings that can sample from what a model binds to.

    `init`, then `advance` as often as one likes: however a run is cut into parts, its draws are the same. Those of
    Markov chains follow each other; those of importance samplers are resampled from all proposals so far.
    """

    target_type: ClassVar[type]  # what it can sample from
    is_markov_chain: ClassVar[bool]  # draws depend on each other: R-hat and effective sample size mean something

    @property
    def draws(self) -> int | None: ...

    def init(self, target: Any, seed: int) -> RunState:
        """Where a run begins; what cannot be sampled from is refused here."""
        ...

    def advance(self, state: RunState, draws: int, progress: Progress) -> tuple[RunState | None, Any]:
        """So many draws (of each chain), and where the run stands then; None where it cannot go on from there.

        `Draws` from a `Target`, `OptimalityDraws` from an `OptimalityTarget`.
        """
        ...


def sample(method: Method, target: Any, *, seed: int, progress: Progress | None = None) -> Any:
    """A run from its beginning to the number of draws that the method's settings say."""
    sized = suited(method, target)
    return sized.advance(sized.init(target, seed), sized.draws, progress or Progress(False))[1]


def suited(method: Any, target: Any) -> Any:
    """A method with the sizes for a target, where it leaves them open."""
    return method.suited_to(target) if hasattr(method, "suited_to") else method


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
