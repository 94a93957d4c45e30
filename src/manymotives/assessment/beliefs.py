"""A model or a posterior in; draws of what one subject may want, in each of several environments, out.

From a model, draws come from its prior: the population first, then a subject. From a posterior they are those of a
subject who was seen, of the one reward of `Pooled()`, or of a new subject of the population. In all environments a
draw is the same motive: states with one name have one reward, or features have one weight.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from manymotives.data.environment import Environment
from manymotives.data.environments import Environments
from manymotives.data.labels import Label, index_of
from manymotives.errors import InputError, quoted
from manymotives.models import RewardPolicyModel, Target
from manymotives.models.mixture import EPISODE
from manymotives.models.model import EVERYBODY
from manymotives.models.rewards import GaussianReward
from manymotives.models.shared_rewards import reward_names
from manymotives.models.target import log_choice_probabilities
from manymotives.planning import identifiability, plan
from manymotives.posterior import Posterior
from manymotives.posterior.by_name import by_name, names_in, own_names
from manymotives.posterior.reward_policy import RewardPolicyPosterior
from manymotives.posterior.transfer import checked_place, features_of, rewards_in

BATCH = 2_000_000  # numbers of q that are planned at a time
FURTHER = ("discount", "inverse_temperature", "lapse")  # what a contrast may be instead of rewards


@dataclass(frozen=True, eq=False)
class Beliefs:
    """N draws of one subject's motive."""

    model: RewardPolicyModel
    environments: dict[Label, Environment]
    rewards: dict[Label, np.ndarray]  # [N, S] or [N, S, A] in each environment
    temperature: np.ndarray  # [N]
    lapse: np.ndarray  # [N]
    discount: np.ndarray | None  # [N] where it is inferred
    names: tuple[Label, ...]  # [K] features, or states (or pairs) that have a reward of their own
    values: np.ndarray  # [N, K] their weights, or rewards
    spread: dict[Label, np.ndarray]  # [cells, K] rewards of an environment as sums of these
    seen: np.ndarray | None = None  # [K, n] what no choice that was seen so far can show of these

    @property
    def num_draws(self) -> int:
        return len(self.temperature)

    def only(self, name: Label) -> "Beliefs":
        """The same draws, of one environment."""
        one: Any = {word: {name: getattr(self, word)[name]} for word in ("environments", "rewards", "spread")}
        return replace(self, **one)

    def log_policies(self, name: Label) -> np.ndarray:
        """log π(a|s) [N, S, A] in an environment under each draw; 0 where an action does not exist."""
        place, reward = self.environments[name], self.rewards[name]
        found = np.zeros((len(reward), *place.available.shape))
        step = max(1, BATCH // place.available.size)
        for begin in range(0, len(reward), step):
            part = slice(begin, begin + step)
            how: Any = {"on": self.model.reward.on, "depth": self.model.depth}
            how["discount"] = None if self.discount is None else self.discount[part]
            how["inverse_temperature"] = self.temperature[part] if self.model.choice.is_soft else None
            q = plan(place, reward[part], **how).q
            log_policy = log_choice_probabilities(q, self.temperature[part], self.lapse[part])
            found[part] = np.where(place.available, log_policy, 0.0)
        return found

    def hidden(self, name: Label, place: Environment) -> np.ndarray | None:
        """[K, n] directions of `names` that no choice there can show; None where they are not computed.

        That is so in large environments, where discounts are inferred, which change the directions, and where rewards
        have residuals beyond their features. `place` is that environment, perhaps with another start.
        """
        if self.discount is not None or getattr(self.model.reward, "residual_scale", None) is not None:
            return None
        return _hidden(self.model, place, self.spread[name])


def beliefs_of(
    source: Any,
    environments: Mapping[Label, Environment],
    *,
    features: Any,
    task: Label | None,
    draws: int,
    rng: np.random.Generator,
) -> Beliefs:
    """Draws from a model's prior, or from a posterior."""
    model = source.model if isinstance(source, Posterior) else source
    _check_model(model)
    if isinstance(source, RewardPolicyPosterior):
        return _from_posterior(source, dict(environments), features, task, draws, rng)
    for word, given in (("features", features), ("task", task)):
        if given is not None:
            raise InputError(f"design: {word}= is for a posterior, but a model was given. Leave it out.")
    if model.has_covariates:
        raise InputError(
            "design: subjects of a model with covariates differ by their covariates. Leave the covariates out, or give "
            "the posterior of a fit, and task= for one of its subjects."
        )
    return _from_model(model, dict(environments), draws, rng)


def _check_model(model: Any) -> None:
    if not isinstance(model, RewardPolicyModel):
        raise InputError(f"design is for a RewardPolicyModel(...) or its posterior; found {type(model).__name__}.")
    if model.switching is not None:
        raise InputError(
            "design: if motives switch, choices depend on their order and not only on their counts, from which "
            "information is computed. Leave out the switching."
        )
    if model.is_mixture and model.sharing.by == EPISODE:
        raise InputError(
            'design: under Mixture(by="episode") a subject has no motive of its own to learn about. Use by="task".'
        )


# ---- before any data -------------------------------------------------------------------------------------------


def _from_model(
    model: RewardPolicyModel, environments: dict[Label, Environment], draws: int, rng: np.random.Generator
) -> Beliefs:
    union = Environments(environments)
    nothing = np.zeros((1, union.num_states, union.num_actions))
    target = model.target(union, (EVERYBODY if model.is_pooled else 0,), nothing)
    nobody = np.zeros(draws, dtype=int)
    u = target.draw_tasks(rng, target.draw_hyper(rng, draws))[:, 0]
    if target.partitions is not None and target.partitions.spread is not None:
        size, spread = target.layout.num_rewards, target.partitions.spread
        scale = np.array([spread.draw(rng) for _ in range(draws)])
        u[:, :size] += scale[:, None] * rng.standard_normal((draws, size))
    rewards = target.rewards(u)
    names, values, matrix = _coordinates(model, target, u, rewards)
    width = 1 if target.on == "state" else union.num_actions
    found, spreads = {}, {}
    for m, (name, each) in enumerate(environments.items()):
        here = union.member == m
        acts = [union.actions.index(action) for action in each.actions]
        found[name] = rewards[:, here] if target.on == "state" else rewards[:, here][:, :, acts]
        rows = matrix[np.repeat(here, width)]
        if target.on == "state_action":
            rows = rows.reshape(-1, width, len(names))[:, acts].reshape(-1, len(names))
        spreads[name] = rows
    return Beliefs(
        model=model,
        environments={name: each.with_discount(target.environment.discount) for name, each in environments.items()},
        rewards=found,
        temperature=np.array(target.felt_temperatures(u, nobody)),
        lapse=np.array(target.lapses(u, nobody)),
        discount=target.discounts(u, nobody),
        names=names,
        values=values,
        spread=spreads,
    )


def _coordinates(
    model: RewardPolicyModel, target: Target, u: np.ndarray, rewards: np.ndarray
) -> tuple[tuple[Label, ...], np.ndarray, np.ndarray]:
    """What contrasts are made of: names, values [N, K], and rewards as sums of them, [cells, K]."""
    own = reward_names(target.environment, target.on)
    if target.num_weights:
        reward, count = model.reward, target.num_weights
        assert isinstance(reward, GaussianReward)
        return tuple(reward.feature_names(count)), u[:, :count].copy(), target.layout.features.array[:, :count]
    return own.labels, rewards.reshape(len(u), -1)[:, own.first], own.matrix.toarray()


# ---- after some data -------------------------------------------------------------------------------------------


def _from_posterior(
    posterior: RewardPolicyPosterior,
    environments: dict[Label, Environment],
    features: Any,
    task: Label | None,
    draws: int,
    rng: np.random.Generator,
) -> Beliefs:
    model = posterior.model
    drawn = _drawn(posterior, task, rng)
    count = drawn.sizes["chain"] * drawn.sizes["draw"]
    pick = np.unique(np.linspace(0, count - 1, min(draws, count)).round().astype(int))

    def flat(values: xr.DataArray) -> np.ndarray:
        return values.stack(sample=("chain", "draw")).transpose("sample", ...).isel(sample=pick).values

    own = posterior.environment.discount
    places = {name: each if model.discount is None else each.with_discount(own) for name, each in environments.items()}
    rewards, spread = {}, {}
    known = names_in(posterior.environment)
    names = _names(posterior, drawn)
    for name, each in places.items():
        checked_place(posterior, each)
        given = features[name] if isinstance(features, Mapping) and name in features else features
        rewards[name] = flat(rewards_in(posterior, each, given, drawn=drawn))
        if posterior.has_features:
            if model.reward.residual_scale is not None and not set(own_names(each)) <= set(known):
                raise InputError(
                    f"design: environment {quoted(name)} has states that are not in the fit, whose rewards have "
                    "residuals besides their features. Fit without residual=, or give candidates with the states "
                    "of the fit."
                )
            spread[name] = features_of(model.reward, given, each)
        else:
            spread[name] = _indicators(each, model.reward.on, names)
    whose = {word: _number(posterior, drawn, word, task) for word in ("inverse_temperature", "lapse")}
    values = flat(drawn["weight"] if posterior.has_features else by_name(drawn["reward"], posterior.environment))
    values = values.reshape(len(pick), -1)
    if not posterior.has_features and model.reward.on == "state_action":
        values = values[:, np.isfinite(values).all(axis=0)]
    fitted = posterior.environment
    seen = None
    if posterior.belief is None and not model.infers_discount:
        if posterior.has_features:
            made_of = model.reward.features_for(fitted).toarray()
        else:
            made_of = _indicators(fitted, model.reward.on, names)
        visited = posterior.data["observed_data"].dataset["counts"].values.sum(axis=(0, 2))
        seen = _hidden(model, fitted, made_of, visited)
    return Beliefs(
        model=model,
        environments=places,
        rewards=rewards,
        temperature=flat(whose["inverse_temperature"]),
        lapse=flat(whose["lapse"]),
        discount=flat(drawn["discount"]) if model.infers_discount else None,
        names=names,
        values=values,
        spread=spread,
        seen=seen,
    )


def _drawn(posterior: RewardPolicyPosterior, task: Label | None, rng: np.random.Generator) -> xr.Dataset:
    """Draws of one subject: of a task that was seen, of everybody, or of a new subject of the population."""
    drawn = posterior.data["posterior"].dataset
    if posterior.model.is_pooled:
        return drawn
    if task is not None:
        return drawn.isel(task=index_of(task, posterior.tasks, "task"))
    if posterior.model.is_separate:
        if len(posterior.tasks) == 1:
            return drawn.isel(task=0)
        raise InputError("design: under Separate() subjects have no population. Name the subject: task=...")
    return posterior.population(seed=int(rng.integers(2**31)))


def _number(posterior: RewardPolicyPosterior, drawn: xr.Dataset, word: str, task: Label | None) -> xr.DataArray:
    """Draws of an inverse temperature or of a lapse rate; where it is known, the number itself."""
    if word in drawn:
        return drawn[word]
    known = posterior.data["constant_data"].dataset[word]
    if "task" in known.dims:
        if task is None and np.ptp(known.values) > 0:
            raise InputError(f"design: {word} is known for each task, and not for a new one. Name the task: task=...")
        known = known.isel(task=0 if task is None else index_of(task, posterior.tasks, "task"))
    return known.expand_dims({dim: drawn[dim] for dim in ("chain", "draw")})


def _names(posterior: RewardPolicyPosterior, drawn: xr.Dataset) -> tuple[Label, ...]:
    if posterior.has_features:
        return tuple(drawn["feature"].values.tolist())
    return _labels(posterior.environment, posterior.model.reward.on)


def _labels(environment: Environment, on: str) -> tuple[Label, ...]:
    """Names that have a reward, in the order of a table of names of states (and actions)."""
    if on == "state":
        return names_in(environment)
    exists = set(reward_names(environment, on).labels)
    every = [(state, action) for state in names_in(environment) for action in environment.actions]
    return tuple(pair for pair in every if pair in exists)


def _indicators(environment: Environment, on: str, names: tuple[Label, ...]) -> np.ndarray:
    """[cells, K] which of the names each state, or each pair, has."""
    states = own_names(environment)
    cells = states if on == "state" else [(state, action) for state in states for action in environment.actions]
    place = {name: position for position, name in enumerate(names)}
    found = np.zeros((len(cells), len(names)))
    for row, cell in enumerate(cells):
        if cell in place:
            found[row, place[cell]] = 1.0
    return found


def _hidden(
    model: RewardPolicyModel, place: Environment, spread: np.ndarray, visited: np.ndarray | None = None
) -> np.ndarray | None:
    """[K, n] directions that no choice in a place can show; None where that is too large to compute."""
    shaped = spread
    if model.reward.on == "state_action":
        shaped = spread.reshape(place.num_states, place.num_actions, -1) * place.available[:, :, None]
    found = identifiability(place, on=model.reward.on, features=shaped, visited=visited, depth=model.depth)
    return None if found.left_out is not None else found.weights
