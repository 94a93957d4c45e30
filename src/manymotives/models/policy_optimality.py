"""The paper's second model: a prior on how optimal the demonstrated policies are (MPO, section 4).

π_m | a ~ Dirichlet policies            what task m does, whatever it wants
ε_m ~ β                                 how far from optimal it may be
ρ_m | π_m, ε_m ~ λ on {ρ: ‖V*_ρ − V^π_ρ‖_∞ < ε}        "reward_given_policy", as the paper has it
a_t | s_t ~ π_m(s_t, ·)

As printed, the rewards of other tasks say nothing about this one's (docs/optimality-theory.md has the proof). Factored
the other way they do:

ω ~ Dirichlet(κ λ)                      which rewards are common
ρ_m ~ ω
π_m, ε_m | ρ_m ∝ Dirichlet policies × β on {(π, ε): ‖V*_ρ − V^π_ρ‖_∞ < ε}             "policy_given_reward"
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from manymotives.data.belief import DynamicsBelief, EnvironmentOrBelief, split_environment
from manymotives.data.environment import Environment
from manymotives.errors import InputError
from manymotives.models.model import Model
from manymotives.models.optimality import ExponentialOptimality, check_optimality
from manymotives.models.policies import DirichletPolicy
from manymotives.models.priors import Gamma, Prior, check_parameter
from manymotives.models.reward_policy import draw_rewards
from manymotives.models.rewards import BetaReward, DirichletReward, GaussianReward, RewardSet
from manymotives.models.sharing import Hierarchical, Pooled, Separate
from manymotives.models.smooth import SmoothReward
from manymotives.planning import BeliefPlannedRewards, PlannedRewards

FACTORISATIONS = ("reward_given_policy", "policy_given_reward")
EMPTY_SETS = ("condition", "drop", "prior")


@dataclass(frozen=True, eq=False)
class OptimalityTarget:
    """The model, the environment and the choices: everything a method reads."""

    environment: Environment  # the mean of the belief, where there is one
    model: "PolicyOptimalityModel"
    tasks: tuple[Any, ...]  # one, "everybody", where they are pooled
    counts: np.ndarray  # [M, S, A] floats
    belief: DynamicsBelief | None = None  # where transitions are not known

    @property
    def num_tasks(self) -> int:
        return len(self.counts)

    @property
    def on(self) -> str:
        return str(self.model.reward.on)

    @property
    def shares_policies(self) -> bool:
        """Whether tasks have one concentration of policies."""
        return not self.model.is_separate

    @property
    def has_given_rewards(self) -> bool:
        return isinstance(self.model.reward, RewardSet)

    def reward_set(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Rewards [N, S] or [N, S, A] to choose between, and their measure λ [N]; `count` of them if none are given."""
        reward = self.model.reward
        if isinstance(reward, RewardSet):
            return reward.for_environment(self.environment), reward.weights
        return draw_rewards(reward, self.environment, rng, count), np.full(count, 1.0 / count)

    def planned_rewards(
        self, rewards: np.ndarray, environments: int, rng: np.random.Generator
    ) -> PlannedRewards | BeliefPlannedRewards:
        """These rewards, to be held against policies; under a belief, in so many environments drawn from it."""
        settings: dict[str, Any] = {"on": self.on, "scale_free": self.model.scale_free}
        if self.belief is None:
            return PlannedRewards.of_rewards(self.environment, rewards, **settings)
        return BeliefPlannedRewards.of_rewards(self.belief, rewards, **settings, environments=environments, rng=rng)

    def draw_concentrations(self, rng: np.random.Generator, draws: int) -> np.ndarray:
        """Concentrations [draws, M] of policies given the choices of all who share one."""
        policy, available = self.model.policy, self.environment.available
        if not self.shares_policies:
            each = [policy.draw_concentrations(rng, draws, own[None], available) for own in self.counts]
            return np.stack(each, axis=1)
        shared = policy.draw_concentrations(rng, draws, self.counts, available)
        return np.repeat(shared[:, None], self.num_tasks, axis=1)

    def draw_policies(self, rng: np.random.Generator, concentrations: np.ndarray, task: int | None) -> np.ndarray:
        """Policies [draws, S, A] of a task given its choices, or of nobody in particular, one a concentration."""
        counts = np.zeros_like(self.counts[0]) if task is None else self.counts[task]
        return self.model.policy.draw(rng, concentrations, counts, self.environment.available)

    def draw_reward_concentrations(self, rng: np.random.Generator, draws: int) -> np.ndarray:
        """κ [draws] from its prior."""
        given = self.model.weights_concentration
        if isinstance(given, Prior):
            return given.draw(draws, seed=int(rng.integers(2**63)))
        return np.full(draws, float(given))


@dataclass(frozen=True, eq=False)
class PolicyOptimalityModel(Model):
    """A model of rewards, of policies, and of how far from optimal the policies are.

    Parameters
    ----------
    reward
        A prior, from which the method draws candidate rewards to compare with policies; an array [N, S] of all
        candidate rewards; or `RewardSet(...)`, which can also give them prior weights and names.
    policy
        `DirichletPolicy(concentration)`.
    optimality
        β, the prior of the gap ε between the value of the demonstrated policy and the optimal value, in the worst
        state: `ExponentialOptimality(rate)`, `UniformOptimality(upper)`, `mm.Gamma(...)`, `mm.HalfNormal(...)`,
        `mm.LogNormal(...)`, or `DistributionOptimality(F)` for any other distribution.
    sharing
        `Hierarchical()`, `Separate()` or `Pooled()`. Tasks that share have one concentration of policies; with
        `factorisation="policy_given_reward"`, the data of one task also inform the others about which rewards are
        common.
    factorisation
        "reward_given_policy", as in the paper: the rewards of different tasks do not inform each other.
        "policy_given_reward": they do.
    reward_concentration
        κ, for "policy_given_reward" and `Hierarchical()`: the weights of the rewards are Dirichlet(κ λ), and the
        smaller κ is, the fewer rewards are shared by all tasks. A number or a prior. If None, Gamma(shape=2, rate=0.5):
        a handful of rewards among some ten tasks.
    empty_set
        What to do if no reward makes a policy ε-optimal, in which case the paper's conditional distribution is
        undefined ("reward_given_policy" only). "condition": such ε are impossible for that policy, so β is conditioned
        on the others. "drop": such pairs of policy and ε are impossible, so policies that are far from optimal for
        every reward have less weight. "prior": the reward then has its prior distribution λ.
    scale_free
        Whether to measure loss relative to the difference in value between the best policy and the worst. Otherwise
        rewards that hardly differ between states are favoured, because every policy is nearly optimal for them.
    """

    reward: Any = DirichletReward()
    policy: Any = DirichletPolicy()
    optimality: Any = ExponentialOptimality()
    sharing: Any = Hierarchical()
    factorisation: Any = "reward_given_policy"
    reward_concentration: Any = None
    empty_set: Any = "condition"
    scale_free: Any = False

    target_type: ClassVar[type] = OptimalityTarget

    def __post_init__(self) -> None:
        who = "PolicyOptimalityModel"
        if not isinstance(self.reward, DirichletReward | BetaReward | GaussianReward | SmoothReward | RewardSet):
            if not hasattr(self.reward, "__array__") and not isinstance(self.reward, list | tuple):
                raise InputError(
                    f"{who}: reward must be DirichletReward(), BetaReward(), GaussianReward(), SmoothReward(), "
                    f"RewardSet(...) or an array [N, S]; found {self.reward!r}."
                )
            object.__setattr__(self, "reward", RewardSet(self.reward))
        if not isinstance(self.policy, DirichletPolicy):
            raise InputError(f"{who}: policy must be DirichletPolicy(...); found {self.policy!r}.")
        if not isinstance(self.sharing, Hierarchical | Separate | Pooled):
            raise InputError(f"{who}: sharing must be Hierarchical(), Separate() or Pooled(); found {self.sharing!r}.")
        if self.has_covariates:
            raise InputError(
                f"{who}: covariates cannot be used, because the population has no location that they could shift. "
                "Use Hierarchical() without covariates."
            )
        check_optimality(self.optimality)
        for word, allowed in (("factorisation", FACTORISATIONS), ("empty_set", EMPTY_SETS)):
            if not isinstance(getattr(self, word), str) or getattr(self, word) not in allowed:
                listed = ", ".join(f'"{name}"' for name in allowed)
                raise InputError(f"{who}: {word} must be one of {listed}; found {getattr(self, word)!r}.")
        if self.reward_concentration is not None:
            check_parameter(self.reward_concentration, f"{who}: reward_concentration", "positive")
            if not isinstance(self.reward_concentration, Prior) and np.ndim(self.reward_concentration):
                raise InputError(f"{who}: reward_concentration must be a single number or a prior.")
        if isinstance(self.policy.concentration, Prior):
            if self.factorisation == "policy_given_reward":
                raise InputError(
                    f'{who}: with factorisation="policy_given_reward" the concentration of policies must be a '
                    "number, because normalising the policies of each reward would be too costly under a prior."
                )
            if self.empty_set == "drop" and self.is_hierarchical:
                raise InputError(
                    f'{who}: with empty_set="drop" the optimality of tasks would inform the concentration of '
                    'policies that they share, which is not implemented. Use "condition" or "prior", Separate(), '
                    "or a number."
                )
        if self.reward_concentration is not None and not self.shares_rewards:
            raise InputError(
                f'{who}: reward_concentration has an effect only with factorisation="policy_given_reward" and '
                "Hierarchical(). Leave it out, or use these."
            )
        if self.empty_set != "condition" and self.factorisation == "policy_given_reward":
            raise InputError(
                f'{who}: empty_set is for factorisation="reward_given_policy"; the other factorisation has no '
                "empty sets. Leave it out."
            )
        if not isinstance(self.scale_free, bool | np.bool_):
            raise InputError(f"{who}: scale_free must be True or False; found {self.scale_free!r}.")

    @property
    def shares_rewards(self) -> bool:
        """Whether tasks learn from each other which rewards are common."""
        return self.factorisation == "policy_given_reward" and self.is_hierarchical

    @property
    def weights_concentration(self) -> Any:
        """κ, where tasks share rewards."""
        return Gamma(shape=2.0, rate=0.5) if self.reward_concentration is None else self.reward_concentration

    @property
    def unit_of_loss(self) -> str:
        """In which unit a policy falls short, in words."""
        return "relative to the largest possible loss" if self.scale_free else "in units of reward"

    @property
    def abbreviation(self) -> str:
        """As the paper calls it."""
        return "MPO"

    @property
    def has_independent_tasks(self) -> bool:
        """Whether what one task did says nothing about another."""
        return not (self.shares_rewards or self.is_pooled or isinstance(self.policy.concentration, Prior))

    def target(self, environment: EnvironmentOrBelief, tasks: tuple[Any, ...], counts: np.ndarray) -> OptimalityTarget:
        """The same from counts [M, S, A] of tasks already pooled, if that is what the sharing says."""
        belief, known = split_environment(environment)
        if isinstance(self.reward, RewardSet):
            self.reward.for_environment(known)  # what does not fit is better found now than later
        return OptimalityTarget(known, self, tasks, np.ascontiguousarray(counts, dtype=float), belief)
