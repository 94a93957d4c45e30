"""The paper's first model: a prior on rewards and on softmax policies, shared by a population (MRP; RP where pooled).

h ~ η                     populations: e.g. concentrations α, shape and rate g1, g2 of temperatures
ρ_m | h ~ ψ_h             what task m wants (section 3.2)
c_m | h ~ Gamma(g1, g2)   how consistently it acts on it (section 3.1)
a_t | s_t ~ Softmax(c_m Q*_{ρ_m}(s_t, ·))
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from manymotives.data.alignment import aligned
from manymotives.data.belief import EnvironmentOrBelief, split_environment
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.errors import InputError
from manymotives.models.choice import Softmax, SoftOptimal
from manymotives.models.episodes import EpisodeCounts
from manymotives.models.model import EVERYBODY, Model
from manymotives.models.priors import Prior
from manymotives.models.rewards import NORMALISED, BetaReward, DirichletReward, GaussianReward
from manymotives.models.sharing import Hierarchical, Pooled, Separate
from manymotives.models.target import ParameterLayout, Target, coordinates_of


@dataclass(frozen=True, eq=False)
class RewardPolicyModel(Model):
    """What agents may want × how they choose × how tasks relate.

    Parameters
    ----------
    reward
        `DirichletReward()`, `BetaReward()` or `GaussianReward()`.
    choice
        `Softmax()` or `SoftOptimal()`.
    sharing
        `Hierarchical()` (MRP), `Separate()` or `Pooled()` (RP).
    """

    reward: Any = DirichletReward()
    choice: Any = Softmax()
    sharing: Any = Hierarchical()

    target_type: ClassVar[type] = Target

    def __post_init__(self) -> None:
        for word, kinds in (
            ("reward", (DirichletReward, BetaReward, GaussianReward)),
            ("choice", (Softmax, SoftOptimal)),
            ("sharing", (Hierarchical, Separate, Pooled)),
        ):
            if not isinstance(getattr(self, word), kinds):
                names = ", ".join(f"{kind.__name__}()" for kind in kinds)
                raise InputError(f"RewardPolicyModel: {word} must be one of {names}; found {getattr(self, word)!r}.")

    @property
    def inverse_temperature(self) -> Any:
        """The choice rule's, or the reward prior's proposal where that is None."""
        given = self.choice.inverse_temperature
        return self.reward.default_inverse_temperature if given is None else given

    @property
    def abbreviation(self) -> str:
        """As the paper calls it."""
        return {Pooled: "RP", Separate: "RP, each alone", Hierarchical: "MRP"}[type(self.sharing)]

    @property
    def has_independent_tasks(self) -> bool:
        """Whether what one task did says nothing about another."""
        return self.is_separate

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the model alone cannot tell apart, whatever the data."""
        if isinstance(self.inverse_temperature, Prior) and self.reward.link != NORMALISED:
            return (
                f"{type(self.reward).__name__} has a scale of its own and the inverse temperature is inferred as well: "
                "the data see only their product, and the priors alone tell them apart. Fix one of them.",
            )
        return ()

    def bind(self, environment: EnvironmentOrBelief, demonstrations: Demonstrations) -> Target:
        """The posterior of this model for these data, up to a constant."""
        episodes = EpisodeCounts.of(demonstrations, pooled=self.is_pooled)
        return replace(super().bind(environment, demonstrations), episodes=episodes)

    def target(self, environment: EnvironmentOrBelief, tasks: tuple[Any, ...], counts: np.ndarray) -> Target:
        """The same from counts [M, S, A] of tasks already pooled, if that is what the sharing says."""
        belief, environment = split_environment(environment)
        reward, on = self.reward, self.reward.on
        features = reward.features_for(environment)
        if features is not None and on == "state_action":
            features = features * environment.available.reshape(-1, 1)  # nothing is earned by what cannot be done
        exists = environment.available.ravel() if on == "state_action" else np.ones(environment.num_states, dtype=bool)
        reward_index = np.flatnonzero(exists)
        num_rewards = len(reward_index) if features is None else features.shape[1]
        if features is not None and isinstance(reward, GaussianReward):
            rewarded = reward.feature_names(num_rewards)  # wrong ones are better found before the work than after it
        else:
            states, actions = environment.states, environment.actions
            pairs = [(states[index // len(actions)], actions[index % len(actions)]) for index in reward_index]
            rewarded = tuple(pairs) if on == "state_action" else states
        arrays, blocks, temperature, lapse = coordinates_of(
            reward.component, reward.words, self.inverse_temperature, self.choice.lapse, rewarded
        )
        layout = ParameterLayout(
            **arrays,
            num_rewards=num_rewards,
            link=reward.link,
            reward_index=reward_index if features is None else np.arange(num_rewards),
            features=np.empty((0, 0)) if features is None else np.ascontiguousarray(features),
            temperature=temperature,
            lapse=lapse,
            is_soft=self.choice.is_soft,
            on_pairs=on == "state_action",
            group_size=1 if self.is_separate else len(counts),
        )
        return Target(
            environment=environment,
            on=on,
            tasks=tasks,
            counts=np.ascontiguousarray(counts, dtype=float),
            layout=layout,
            blocks=blocks,
            fixed_temperature=_known(self.inverse_temperature, tasks, "inverse_temperature"),
            fixed_lapse=_known(self.choice.lapse, tasks, "lapse"),
            belief=belief,
        )


def draw_rewards(reward: Any, environment: Environment, rng: np.random.Generator, count: int) -> np.ndarray:
    """Rewards [count, S] or [count, S, A] from a prior, the population of each drawn anew."""
    nothing = np.zeros((1, environment.num_states, environment.num_actions))
    prior = RewardPolicyModel(reward, Softmax(inverse_temperature=1.0)).target(environment, (EVERYBODY,), nothing)
    return prior.rewards(prior.draw_tasks(rng, prior.draw_hyper(rng, count))[:, 0])


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
