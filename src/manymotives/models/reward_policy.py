"""The paper's first model: a prior on rewards and on softmax policies, shared by a population (MRP; RP where pooled).

h ~ η                     populations: e.g. concentrations α, shape and rate g1, g2 of temperatures
ρ_m | h ~ ψ_h             what task m wants (section 3.2)
c_m | h ~ Gamma(g1, g2)   how consistently it acts on it (section 3.1)
γ_m | h ~ Beta(b1, b2)    how far ahead it looks, where that is not known
a_t | s_t ~ Softmax(c_m Q*_{ρ_m, γ_m}(s_t, ·))
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from manymotives.data.alignment import aligned
from manymotives.data.belief import EnvironmentOrBelief, split_environment
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.environments import Environments
from manymotives.errors import InputError, quoted
from manymotives.io.records import ADDED_LATER
from manymotives.models.assignment import Assignment
from manymotives.models.choice import Softmax, SoftOptimal
from manymotives.models.coordinates import RewardCoordinates, coordinates_of
from manymotives.models.effects import Effects, effects_of
from manymotives.models.episodes import EpisodeCounts
from manymotives.models.features import Features
from manymotives.models.mixture import EPISODE, Mixture, OnePrior, PartitionPrior, Partitions
from manymotives.models.model import EVERYBODY, Model
from manymotives.models.priors import Prior, check_parameter
from manymotives.models.rewards import NORMALISED, BetaReward, DirichletReward, GaussianReward
from manymotives.models.shared_rewards import check_some_are_shared, reward_names
from manymotives.models.sharing import REWARD, Hierarchical, Pooled, Separate
from manymotives.models.smooth import SmoothReward
from manymotives.models.smooth_scales import NOT_SMOOTH, SmoothScales
from manymotives.models.switching import Switching
from manymotives.models.target import FIXED, ParameterLayout, Target, check_everyone_chose, checked_choices
from manymotives.planning.finite_horizon import checked_depth

RESIDUAL = ""  # instead of a name: no formula is for it
FURTHER = ("discount", "inverse_temperature", "lapse")  # coordinates behind rewards, in their order
NOT_WEIGHTS = (REWARD, RESIDUAL, *FURTHER)


@dataclass(frozen=True, eq=False)
class RewardPolicyModel(Model):
    """A model of rewards, of choices, and of the relation between tasks.

    Parameters
    ----------
    reward
        The prior of rewards: `DirichletReward()`, `BetaReward()`, `GaussianReward()` or `SmoothReward()`.
    choice
        The choice rule: `Softmax()` or `SoftOptimal()`.
    sharing
        The relation between tasks: `Hierarchical()` (partial pooling, MRP), `Separate()` (no pooling), `Pooled()`
        (complete pooling, RP) or `Mixture()`, in which several tasks share a motive and the number of motives is
        inferred.
    switching
        If None, each task has one motive throughout. `Switching(motives=3)` gives it three motives, of which one is
        active at a time, and between which it switches. Under `Pooled()`, all tasks have the same motives; under
        `Hierarchical()`, each task has its own version of each motive, drawn from that motive's population, and its own
        transition probabilities between motives; under `Separate()`, tasks have nothing in common.
    discount
        The discount factor. If None, that of the environment, taken as known. A number replaces it; a prior, such as
        `Beta(alpha=9.0, beta=1.0)`, whose own parameters may be priors too, makes it a parameter that is inferred for
        each task, between 1e-6 and 1 − 1e-6.
    depth
        The number of steps that agents look ahead. If None, they plan for an infinite horizon with the discount factor.
        With a whole number n, only the rewards of the next n steps count, discounted; agents plan afresh at every step.
        With n = 1, agents are myopic.
    """

    reward: Any = DirichletReward()
    choice: Any = Softmax()
    sharing: Any = Hierarchical()
    switching: Switching | None = None
    discount: Any = None
    depth: int | None = field(default=None, metadata=ADDED_LATER)

    target_type: ClassVar[type] = Target

    def __post_init__(self) -> None:
        for word, kinds in (
            ("reward", (DirichletReward, BetaReward, GaussianReward, SmoothReward)),
            ("choice", (Softmax, SoftOptimal)),
            ("sharing", (Hierarchical, Separate, Pooled, Mixture)),
        ):
            if not isinstance(getattr(self, word), kinds):
                names = ", ".join(f"{kind.__name__}()" for kind in kinds)
                raise InputError(f"RewardPolicyModel: {word} must be one of {names}; found {getattr(self, word)!r}.")
        if not isinstance(self.switching, Switching | None):
            raise InputError(
                f"RewardPolicyModel: switching must be Switching(motives=...) or None; found {self.switching!r}."
            )
        if self.is_mixture:
            self._check_mixture()
        checked_depth(self.depth, "RewardPolicyModel: depth")
        if self.depth is not None and self.switching is not None:
            raise InputError(
                "RewardPolicyModel: a depth cannot be combined with motives that switch yet. Leave out one of them."
            )
        if self.infers_discount:
            check_parameter(self.discount, "RewardPolicyModel: discount", "unit", levels=2)
            if self.switching is not None:
                raise InputError(
                    "RewardPolicyModel: a discount cannot be inferred yet if motives switch. Give it as a "
                    "number, or leave out the switching."
                )
        elif self.discount is not None and not _is_discount(self.discount):
            raise InputError(
                "RewardPolicyModel: discount must be a number of at least 0 and below 1, a prior such as "
                f"mm.Beta(alpha=9.0, beta=1.0), or None for that of the environment; found {quoted(self.discount)}."
            )

    def _check_mixture(self) -> None:
        """What tasks that share motives can have."""
        if self.switching is not None:
            raise InputError(
                "RewardPolicyModel: motives are either shared by tasks, Mixture(), or switched between, Switching(). "
                "Leave out one of them."
            )
        if isinstance(self.reward, SmoothReward):
            raise InputError(
                "Mixture: SmoothReward() is not available yet for motives that tasks share. Use GaussianReward()."
            )
        if self.sharing.spread is not None and not isinstance(self.reward, GaussianReward):
            raise InputError(
                "Mixture: a spread requires GaussianReward(), whose weights can be any number; found "
                f"{self.reward!r}. Leave out the spread: tasks that share a motive then have exactly its reward."
            )

    @property
    def infers_discount(self) -> bool:
        """Whether how far ahead tasks look is inferred."""
        return isinstance(self.discount, Prior)

    def environment_of(self, environment: EnvironmentOrBelief) -> EnvironmentOrBelief:
        """The environment, with the discount that is known better."""
        if self.depth is not None and not isinstance(environment, Environment):
            raise InputError(
                "RewardPolicyModel: a depth needs a known environment: take the belief's mean (belief.mean, or "
                "--plug-in on the command line), or leave out the depth."
            )
        if self.discount is None:
            return environment
        if not isinstance(environment, Environment):
            raise InputError(
                "RewardPolicyModel: a discount of the model's own needs a known environment: take the belief's mean "
                "(belief.mean, or --plug-in on the command line), or give the belief its discount."
            )
        return environment if self.infers_discount else environment.with_discount(float(self.discount))

    def demonstrations_of(self, demonstrations: Demonstrations) -> Demonstrations:
        """Episodes in the place of tasks, where motives are theirs."""
        is_by_episode = self.is_mixture and self.sharing.by == EPISODE
        return demonstrations.by_episode() if is_by_episode else demonstrations

    @property
    def inverse_temperature(self) -> Any:
        """The choice rule's, or the reward prior's proposal where that is None."""
        given = self.choice.inverse_temperature
        return self.reward.default_inverse_temperature if given is None else given

    @property
    def abbreviation(self) -> str:
        """As the paper calls it, whether it has covariates, its depth, and how many motives it switches between."""
        paper = {Pooled: "RP", Separate: "RP, each alone", Hierarchical: "MRP", Mixture: "mixture"}[type(self.sharing)]
        paper = f"{paper}, covariates" if self.has_covariates else paper
        paper = paper if self.depth is None else f"{paper}, depth {self.depth}"
        return paper if self.switching is None else f"{paper}, {self.switching.number_said} motives"

    @property
    def has_independent_tasks(self) -> bool:
        """Whether what one task did says nothing about another."""
        return self.is_separate

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the model alone cannot tell apart, whatever the data."""
        if self.depth == 1 and self.reward.on == "state":
            return (
                "with depth=1 only the reward of the current state counts, which is the same for every action, "
                "so choices say nothing about rewards on states. Use depth=2, or rewards on pairs "
                "(on='state_action').",
            )
        if isinstance(self.inverse_temperature, Prior) and self.reward.link != NORMALISED:
            return (
                f"{type(self.reward).__name__} has a scale of its own and the inverse temperature is inferred as "
                "well: choices identify only their product, and the two are separated by the priors alone. Fix "
                "one of them.",
            )
        return ()

    def warnings_in(self, environment: Environment) -> tuple[str, ...]:
        """What to know of this model in an environment."""
        return self.reward.warnings_in(environment) if isinstance(self.reward, SmoothReward) else ()

    def bind(self, environment: EnvironmentOrBelief, demonstrations: Demonstrations) -> Target:
        """The posterior of this model for these data, up to a constant."""
        if self.switching is not None:
            return self._bind_switching(environment, demonstrations)
        episodes = EpisodeCounts.of(demonstrations, pooled=self.is_pooled)
        return replace(super().bind(environment, demonstrations), episodes=episodes)

    def _bind_switching(self, environment: EnvironmentOrBelief, demonstrations: Demonstrations) -> Target:
        """The same where motives switch: one row of coordinates for each motive of each unit, motive by motive."""
        belief, known = split_environment(self.environment_of(environment))
        if belief is not None:
            raise InputError(
                "motives that switch need a known environment: take the belief's mean (belief.mean), or --plug-in on "
                "the command line."
            )
        assert self.switching is not None
        counts = checked_choices(known, demonstrations)
        if self.is_separate:
            check_everyone_chose(demonstrations, counts)
        assignment = Assignment.of(self.switching, self.sharing, demonstrations)
        units = (EVERYBODY,) if self.is_pooled else demonstrations.tasks
        nothing = np.zeros((assignment.num_motives * len(units), *counts.shape[1:]))
        return replace(self.target(known, units, nothing), assignment=assignment)

    def target(self, environment: EnvironmentOrBelief, tasks: tuple[Any, ...], counts: np.ndarray) -> Target:
        """The same from counts [M, S, A] of tasks already pooled, if that is what the sharing says.

        Where motives switch, counts [K · M, S, A] of each motive.
        """
        belief, environment = split_environment(self.environment_of(environment))
        num_motives = len(counts) // len(tasks)
        on = self.reward.on
        _check_several(self.reward, environment, belief)
        smooth = NOT_SMOOTH
        rewards: RewardCoordinates
        features: Any
        if isinstance(self.reward, SmoothReward):
            rewards, features, smooth = _smooth_coordinates(self.reward, environment, self.is_hierarchical)
        else:
            rewards, features = _coordinates(self.reward, environment)
        has_weights = isinstance(self.reward, GaussianReward) and self.reward.features is not None
        own = reward_names(environment, on)
        given = dict(zip(FURTHER, (self.discount, self.inverse_temperature, self.choice.lapse)))
        arrays, blocks, places = coordinates_of(rewards, given)
        num_rewards = len(rewards.rewarded) + rewards.num_residuals
        if smooth.exist:
            at = {block.name: block.begin for block in blocks}
            smooth = smooth._replace(
                scale_index=at.get("reward_scale", FIXED), range_index=at.get("reward_range", FIXED)
            )
        layout = ParameterLayout(
            **arrays,
            num_rewards=num_rewards,
            link=self.reward.link,
            reward_index=np.arange(num_rewards) if has_weights or isinstance(self.reward, SmoothReward) else own.first,
            features=Features.of(features, may_be_dense=on == "state" and has_weights),
            discount=places["discount"],
            temperature=places["inverse_temperature"],
            lapse=places["lapse"],
            is_soft=self.choice.is_soft,
            on_pairs=on == "state_action",
            group_size=len(tasks) if self.is_hierarchical or self.is_mixture else 1,
            smooth=smooth,
        )
        names = self._names_of_coordinates(rewards, places)
        return Target(
            environment=environment,
            on=on,
            tasks=num_motives * tasks,
            counts=np.ascontiguousarray(counts, dtype=float),
            layout=layout,
            blocks=blocks,
            fixed_temperature=np.tile(_known(self.inverse_temperature, tasks, "inverse_temperature"), num_motives),
            fixed_lapse=np.tile(_known(self.choice.lapse, tasks, "lapse"), num_motives),
            num_weights=len(rewards.rewarded) if has_weights else 0,
            has_shared_rewards=own.are_shared and not has_weights,
            groups=tuple(dict.fromkeys(rewards.groups or ())),
            belief=belief,
            effects=self._effects(tasks, names, belief),
            partitions=self._partitions(tasks, belief),
            depth=self.depth,
            names=(
                *rewards.rewarded,
                *(("residual", name) for name in own.labels[: rewards.num_residuals]),
                *(name for name, place in places.items() if place != FIXED),
            ),
        )

    def _names_of_coordinates(self, rewards: RewardCoordinates, places: dict[str, int]) -> list[str]:
        """The parameter that each coordinate is, as formulas call it; residuals have none."""
        has_weights = isinstance(self.reward, GaussianReward) and self.reward.features is not None
        named = map(str, self.reward.feature_names(len(rewards.rewarded))) if has_weights else REWARD
        of_rewards = list(named) if has_weights else [REWARD] * len(rewards.rewarded)
        further = [name for name, place in places.items() if place != FIXED]
        return of_rewards + [RESIDUAL] * rewards.num_residuals + further

    def _partitions(self, tasks: tuple[Any, ...], belief: Any) -> Partitions | None:
        """Who may share a motive with whom."""
        if not self.is_mixture:
            return None
        if belief is not None:
            raise InputError(
                "Mixture: motives that tasks share need a known environment: take the belief's mean (belief.mean), or "
                "--plug-in on the command line."
            )
        spread = self.sharing.spread
        prior = PartitionPrior(self.sharing.motives, len(tasks))
        return Partitions(prior, None if spread is None else OnePrior.of(spread))

    def _effects(self, tasks: tuple[Any, ...], names: list[str], belief: Any) -> Effects | None:
        """What covariates add to tasks' coordinates, which have these names."""
        if not self.has_covariates:
            return None
        for is_so, what in (
            (self.switching is not None, "motives that switch"),
            (belief is not None, "an environment that is not known"),
            (isinstance(self.reward, SmoothReward), "SmoothReward()"),
        ):
            if is_so:
                raise InputError(f"Hierarchical: covariates cannot be combined with {what} yet. Leave out one of them.")
        weights = [name for name in dict.fromkeys(names) if name not in NOT_WEIGHTS]
        parameters = [REWARD, *(name for name in FURTHER if name in names)]
        designs = self.sharing.designs(tasks, parameters, weights)
        return effects_of(designs, names, self.sharing.effect_scale)


def _check_several(reward: Any, environment: Environment, belief: Any) -> None:
    """What can be inferred from one environment, and not from several."""
    if not isinstance(environment, Environments):
        return
    if belief is not None:
        raise InputError(
            "several environments must be known: their transitions cannot be inferred together with the rewards. "
            "Use the means of beliefs (belief.mean)."
        )
    if isinstance(reward, SmoothReward) and len(environment.members) > 1:
        raise InputError(
            "SmoothReward() is for a single environment: in several, states with the same name have the same "
            "reward, which it cannot represent. Use GaussianReward()."
        )


def _coordinates(reward: Any, environment: Environment) -> tuple[RewardCoordinates, sp.csr_array | None]:
    """What coordinates a prior of rewards has, and its features [S·(1 or A), K], those of the residual behind them."""
    own = reward_names(environment, reward.on)
    features = reward.features_for(environment)
    if features is None:
        check_some_are_shared(environment, own)
        groups = reward.group_names(len(own.labels)) if isinstance(reward, GaussianReward) else None
        found = RewardCoordinates(reward.component, reward.words, own.labels, groups)
        return found, own.matrix if own.are_shared else None
    if reward.on == "state_action":
        features = sp.diags_array(environment.available.ravel().astype(float)) @ features  # by what can be done
    count = features.shape[1]
    weights = reward.feature_names(count)  # wrong ones are better found before the work than after it
    found = RewardCoordinates(reward.component, reward.words, weights, reward.group_names(count))
    if reward.residual_scale is None:
        return found, features
    count = len(own.labels)
    return found._replace(residual=reward.residual_scale, num_residuals=count), sp.hstack([features, own.matrix])


def _smooth_coordinates(
    reward: SmoothReward, environment: Environment, is_hierarchical: bool
) -> tuple[RewardCoordinates, np.ndarray, SmoothScales]:
    """Weights of eigenvectors, the eigenvectors [S, K], and where the scales of weights come from if not known."""
    found = reward.eigenvectors(environment)
    component = reward.component(found, is_hierarchical)
    rewards = RewardCoordinates(component, reward.words, range(len(found.values)), further=reward.hyperpriors)
    if not reward.hyperpriors:
        return rewards, found.vectors, NOT_SMOOTH
    scale, distance = (1.0 if isinstance(given, Prior) else float(given) for given in (reward.scale, reward.range))
    return rewards, found.vectors, SmoothScales(found.values, len(found.vectors), FIXED, scale, FIXED, distance)


def draw_rewards(reward: Any, environment: Environment, rng: np.random.Generator, count: int) -> np.ndarray:
    """Rewards [count, S] or [count, S, A] from a prior, the population of each drawn anew."""
    nothing = np.zeros((1, environment.num_states, environment.num_actions))
    prior = RewardPolicyModel(reward, Softmax(inverse_temperature=1.0), Pooled()).target(
        environment, (EVERYBODY,), nothing
    )
    return prior.rewards(prior.draw_tasks(rng, prior.draw_hyper(rng, count))[:, 0])


def _is_discount(value: Any) -> bool:
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return is_number and 0 <= value < 1


def _known(value: Any, tasks: tuple[Any, ...], word: str) -> np.ndarray:
    """One number for each task; not read where it is inferred."""
    if isinstance(value, Prior):
        return np.full(len(tasks), np.nan)
    numbers = np.asarray(aligned(value, word, task=None if tasks == (EVERYBODY,) else tasks), dtype=float)
    if numbers.ndim > 1 or (numbers.ndim == 1 and len(numbers) != len(tasks)):
        raise InputError(
            f"{word} must be one number or one for each of {len(tasks)} tasks; found {list(numbers.shape)}."
        )
    return np.array(np.broadcast_to(numbers, (len(tasks),)))
