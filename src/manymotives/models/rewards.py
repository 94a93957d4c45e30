"""What agents may want: prior distributions of rewards on states or on state–action pairs.

Each prior is a product over coordinates (see `families`), made into a reward by one link:

    Dirichlet   x_k ~ Gamma(α_k, 1),  ρ = x / Σ x      so that ρ ~ Dirichlet(α) and Σ x is a bystander
    Beta        ρ_k ~ Beta(a_k, b_k)
    Gaussian    w_k ~ Normal(μ_k, σ_k),  ρ = Φ w
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from manymotives.data.alignment import aligned, is_labelled, labelled, order_of
from manymotives.data.environment import Environment
from manymotives.data.labels import Label
from manymotives.errors import InputError, quoted
from manymotives.io.records import Recorded
from manymotives.models.priors import Beta, Gamma, HalfNormal, Normal, Prior, check_parameter
from manymotives.models.union_features import features_in, own_names

NORMALISED, DIRECT, LINEAR = range(3)  # links: x / Σx, x, Φ x
RESIDUAL = HalfNormal(scale=0.5)  # of τ: half a unit of log-odds is much for what features leave


@dataclass(frozen=True, eq=False)
class DirichletReward(Recorded):
    """Rewards are not negative and sum to one over states, or over state–action pairs (paper, section 3.2).

    By default, a model with this prior infers the inverse temperature of each task, and the shape and rate of its
    distribution in the population.

    Parameters
    ----------
    concentration
        The concentration of each state (or available pair): a number, an array, or a prior, from which one
        concentration is inferred for each. With small concentrations a few states have nearly all of the reward; with
        large ones all states have similar rewards. The default is Gamma(shape=1, rate=1); at its mean, 1, all rewards
        on the simplex are equally likely.
    on
        What has a reward: "state" or "state_action".
    """

    concentration: Any = Gamma(shape=1.0, rate=1.0)
    on: str = "state"

    link: ClassVar[int] = NORMALISED
    words: ClassVar[tuple[str, ...]] = ("concentration", "rate")  # what the component's parameters are called
    # c about 4, a population from widely spread to alike; the rate's shape is above 2, or c had infinite variance
    default_inverse_temperature: ClassVar[Any] = Gamma(
        shape=Gamma(shape=2.0, rate=0.5), rate=Gamma(shape=4.0, rate=4.0)
    )

    def __post_init__(self) -> None:
        check_parameter(self.concentration, "DirichletReward: concentration", "positive")
        _check_on(self.on, "DirichletReward")

    @property
    def component(self) -> Prior:
        return Gamma(shape=self.concentration, rate=1.0)

    def features_for(self, environment: Environment) -> None:
        return None


@dataclass(frozen=True, eq=False)
class BetaReward(Recorded):
    """Rewards are independent numbers between 0 and 1 (the authors' earlier prior).

    Choices depend on the product of reward and inverse temperature only, so a model takes the inverse temperature as
    known. The default is 5: receiving the best reward instead of the worst, once, is then worth five units of log-odds.

    Parameters
    ----------
    alpha, beta
        Parameters of the Beta distribution of each state (or pair): numbers, arrays, or priors.
    on
        What has a reward: "state" or "state_action".
    """

    alpha: Any = Gamma(shape=2.0, rate=1.0)
    beta: Any = Gamma(shape=2.0, rate=1.0)
    on: str = "state"

    link: ClassVar[int] = DIRECT
    words: ClassVar[tuple[str, ...]] = ("alpha", "beta")
    default_inverse_temperature: ClassVar[Any] = 5.0

    def __post_init__(self) -> None:
        for name in ("alpha", "beta"):
            check_parameter(getattr(self, name), f"BetaReward: {name}", "positive")
        _check_on(self.on, "BetaReward")

    @property
    def component(self) -> Prior:
        return Beta(alpha=self.alpha, beta=self.beta)

    def features_for(self, environment: Environment) -> None:
        return None


@dataclass(frozen=True, eq=False)
class GaussianReward(Recorded):
    """Rewards are weighted sums of features, with normally distributed weights; rewards may be negative.

    Choices depend on the product of reward and inverse temperature only, so a model takes the inverse temperature as
    known. The default is 1: rewards are then in units of log-odds.

    Parameters
    ----------
    features
        An array [S, K], or [S, A, K] with `on="state_action"`. If there are many features that are mostly zero, a
        sparse array of SciPy: [S, K], or [S·A, K] with the actions of the first state first. For several environments,
        {name: array}; or a table whose rows are named after states. If None, each state (or available pair) has a free
        reward.
    mean, scale
        Mean and standard deviation of each weight in the population: numbers, arrays, or priors.
    names
        Names of the features.
    on
        What has a reward: "state" or "state_action".
    groups
        Which weights have the same scale, if scales are inferred: a group for each feature, such as ["node", "node",
        "turn"], or one name for all. Without features, the same for the rewards. If None, each weight has its own
        scale.
    residual
        With features, whether each state (or available pair) also has a reward of its own in addition to them,
        Normal(0, τ), with one τ for all. True means τ ~ HalfNormal(scale=0.5); a prior of τ or a number may be given
        instead. The features then describe what is general, and the residual only as much of the rest as the data
        require.
    """

    features: Any = None
    mean: Any = Normal(mean=0.0, scale=1.0)
    scale: Any = HalfNormal(scale=1.0)
    names: Any = None
    on: str = "state"
    groups: Any = None
    residual: Any = False

    link: ClassVar[int] = LINEAR
    words: ClassVar[tuple[str, ...]] = ("mean", "scale")
    default_inverse_temperature: ClassVar[Any] = 1.0

    def __post_init__(self) -> None:
        check_parameter(self.mean, "GaussianReward: mean", "real")
        check_parameter(self.scale, "GaussianReward: scale", "positive")
        _check_on(self.on, "GaussianReward")
        if self.features is None and self.names is not None:
            raise InputError(
                "GaussianReward: names are for features; without features the names of the states are used. "
                "Leave them out."
            )
        if not isinstance(self.residual, bool):
            check_parameter(self.residual, "GaussianReward: residual", "positive")
        if self.residual is not False and self.features is None:
            raise InputError(
                "GaussianReward: a residual is added to what features explain; without features every reward "
                "is already free. Leave it out."
            )
        if self.groups is not None and not isinstance(self.scale, Prior):
            raise InputError("GaussianReward: the common scale of each group is inferred, so scale must be a prior.")

    @property
    def component(self) -> Prior:
        return Normal(mean=self.mean, scale=self.scale)

    @property
    def residual_scale(self) -> Any:
        """Prior of τ, or the number; None without a residual."""
        if isinstance(self.residual, bool):
            return RESIDUAL if self.residual else None
        return self.residual

    def group_names(self, size: int) -> tuple[Label, ...] | None:
        """The group of each of so many weights (or rewards); None where each is its own."""
        if self.groups is None:
            return None
        given = (self.groups,) * size if isinstance(self.groups, str) else tuple(self.groups)
        if len(given) != size or any(not isinstance(name, str | int) or isinstance(name, bool) for name in given):
            what = "rewards" if self.features is None else "features"
            raise InputError(
                f"GaussianReward: groups must be one name, or a name for each of {size} {what}; found "
                f"{quoted(self.groups)}."
            )
        return given

    def features_for(self, environment: Environment) -> sp.csr_array | None:
        """Features [S, K] or [S·A, K], checked against an environment."""
        if self.features is None:
            return None
        given = features_in(self.features, environment, self.on, self.names)
        if sp.issparse(given):
            return self._sparse_features(environment)
        try:
            axes = {"state": environment.states} | (
                {"action": environment.actions} if self.on == "state_action" else {}
            )
            given = aligned(given, "GaussianReward: features", **axes, feature=self.names)
            features = np.asarray(given, dtype=float)
        except InputError:
            raise
        except (TypeError, ValueError):
            raise InputError("GaussianReward: features must be numbers.") from None
        size = (environment.num_states,) + ((environment.num_actions,) if self.on == "state_action" else ())
        if features.ndim != len(size) + 1 or features.shape[:-1] != size or features.shape[-1] == 0:
            described = ", ".join(map(str, size))
            raise InputError(
                f"GaussianReward: features on {self.on.replace('_', '–')}s must have the shape [{described}, number of "
                f"features]; found {list(features.shape)}."
            )
        if not np.isfinite(features).all():
            raise InputError("GaussianReward: features must be finite.")
        return sp.csr_array(features.reshape(-1, features.shape[-1]))

    def _sparse_features(self, environment: Environment) -> sp.csr_array:
        on_states = self.on == "state"
        size = environment.num_states * (1 if on_states else environment.num_actions)
        if self.features.shape[0] != size or self.features.shape[1] == 0:
            rows = "a row for each state" if on_states else "a row for each state and action"
            raise InputError(
                f"GaussianReward: sparse features on {self.on.replace('_', '–')}s must have {rows}, shape [{size}, "
                f"number of features]; found {list(self.features.shape)}."
            )
        features = sp.csr_array(self.features, dtype=float)
        features.sum_duplicates()
        features.eliminate_zeros()
        if not np.isfinite(features.data).all():
            raise InputError("GaussianReward: features must be finite.")
        return features

    def feature_names(self, size: int) -> tuple[Label, ...]:
        if self.names is None:
            own = own_names(self.features)
            return tuple(range(size)) if own is None else tuple(own)
        names = tuple(self.names)
        if len(names) != size or len(set(names)) != size:
            raise InputError(f"GaussianReward: there are {size} features; found the names {list(names)}.")
        return names


@dataclass(frozen=True, eq=False)
class RewardSet(Recorded):
    """A finite set of rewards, of which each task has one, for `PolicyOptimalityModel`.

    Parameters
    ----------
    rewards
        [N, S], or [N, S, A] with `on="state_action"`. The names are taken from a data frame (states in the columns, in
        any order, and rewards in the rows) or from the coordinates of an xarray object.
    weights
        The measure λ, the prior weight of each reward. By default, all are equal.
    names
        Names of the rewards, such as "food" and "water"; by default 0, 1, 2, ….
    on
        What has a reward: "state" or "state_action".
    states
        The order of the states, if it is not that of the environment.
    actions
        The order of the actions, likewise.
    """

    rewards: Any
    weights: Any = None
    names: Any = None
    on: str = "state"
    states: Any = None
    actions: Any = None

    def __post_init__(self) -> None:
        _check_on(self.on, "RewardSet")
        axes = 2 if self.on == "state" else 3
        given, names, states = self.rewards, self.names, self.states
        actions = self.actions
        if is_labelled(given):  # rows and columns have names: use them
            given, _, labels = labelled(given, "state", *(["action"] if axes == 3 else []))
            own = dict(zip(("names", "states", "actions"), labels)) if len(labels) == axes else {}
            names, states = (own.get("names") if names is None else names), states or own.get("states")
            actions = actions or own.get("actions")
        try:
            if np.iscomplexobj(given):
                raise TypeError
            rewards = np.array(given, dtype=float)
        except (TypeError, ValueError):
            raise InputError("RewardSet: rewards must be numbers, in an array or in lists of equal lengths.") from None
        if rewards.size == 0:
            raise InputError("RewardSet: there are no rewards.")
        if rewards.ndim != axes:
            hint = ' For rewards on pairs pass on="state_action".' if axes == 2 and rewards.ndim == 3 else ""
            described = "[N, S]" if axes == 2 else "[N, S, A]"
            raise InputError(f"RewardSet: rewards must have the shape {described}; found {list(rewards.shape)}.{hint}")
        if not np.isfinite(rewards).all():
            raise InputError("RewardSet: rewards must be finite.")
        _, first, times = np.unique(rewards.reshape(len(rewards), -1), axis=0, return_index=True, return_counts=True)
        if len(first) < len(rewards):
            again = rewards[first[np.argmax(times)]]
            positions = [str(i) for i, reward in enumerate(rewards) if np.array_equal(reward, again)]
            raise InputError(
                f"RewardSet: rewards {' and '.join(positions[:3])} are the same. Keep one of them, with the "
                "sum of their weights."
            )
        weights = np.full(len(rewards), 1.0) if self.weights is None else self._numbers(len(rewards))
        weights = weights / weights.max()
        for word, value in (
            ("rewards", rewards),
            ("weights", weights / weights.sum()),
            ("names", _names(names, len(rewards))),
            ("states", None if states is None else tuple(states)),
            ("actions", None if actions is None else tuple(actions)),
        ):
            object.__setattr__(self, word, value)
        self.rewards.setflags(write=False)
        self.weights.setflags(write=False)

    def _numbers(self, size: int) -> np.ndarray:
        try:
            weights = np.asarray(self.weights, dtype=float)
        except (TypeError, ValueError):
            raise InputError("RewardSet: weights must be numbers.") from None
        if weights.shape != (size,) or not np.isfinite(weights).all() or (weights < 0).any() or weights.max() <= 0:
            raise InputError(f"RewardSet: weights must be {size} numbers of at least 0, not all of them 0.")
        return weights

    def for_environment(self, environment: Environment) -> np.ndarray:
        """Rewards [N, S] or [N, S, A] in the order of an environment's states."""
        size = (environment.num_states, environment.num_actions)[: 1 if self.on == "state" else 2]
        if self.rewards.shape[1:] != size:
            raise InputError(
                f"the rewards of the set have the shape {list(self.rewards.shape[1:])}; this environment needs "
                f"{list(size)}."
            )
        rewards = self.rewards
        for axis, (name, own, wanted) in enumerate(
            (("state", self.states, environment.states), ("action", self.actions, environment.actions)), 1
        ):
            if own is not None and own != wanted:
                order = order_of(own, wanted, name, "the rewards of the set")
                rewards = rewards if order is None else np.take(rewards, order, axis=axis)
        return rewards


def _names(given: Any, size: int) -> tuple[Label, ...]:
    """Names of rewards, as a file can hold them."""
    if given is None:
        return tuple(range(size))
    try:
        names = tuple(name.item() if isinstance(name, np.generic) else name for name in given)
    except TypeError:
        raise InputError(f"RewardSet: names must be a list of {size} names; found {quoted(given)}.") from None
    if any(not isinstance(name, str | int) or isinstance(name, bool) for name in names):
        raise InputError(f"RewardSet: names must be text or whole numbers; found {list(names)}.")
    if len(names) != size or len(set(names)) < size:
        raise InputError(f"RewardSet: there are {size} rewards; found the names {list(names)}.")
    return names


def _check_on(on: str, who: str) -> None:
    if on not in ("state", "state_action"):
        raise InputError(f'{who}: on must be "state" or "state_action"; found {quoted(on)}.')
