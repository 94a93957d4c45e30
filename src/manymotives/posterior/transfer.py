"""A posterior and an environment that nobody has seen in; what is best there for each task, and how sure that is, out.

Rewards are carried over by name, or made of that environment's features. With known transitions the value of a policy
is linear in the reward: the policy that is optimal for the expected reward has the highest expected value.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from manymotives.data.alignment import is_labelled, labelled
from manymotives.data.belief import DynamicsBelief
from manymotives.data.environment import Environment
from manymotives.data.environments import environment_of
from manymotives.data.labels import Label
from manymotives.errors import InputError, quoted
from manymotives.models.rewards import GaussianReward, RewardSet
from manymotives.models.target import log_choice_probabilities
from manymotives.planning import evaluate, plan
from manymotives.posterior.by_name import by_name, names_in, own_names
from manymotives.posterior.labelling.common import coordinate_of

NUMBERS = 20_000_000  # choice probabilities that are held at a time
BATCH = 64  # draws planned for at a time
SAME = 1e-9  # a difference between transition probabilities that rounding may make


def transferred(
    posterior: Any, environment: Any, features: Any = None, *, draws: int = 1000, level: float = 0.95, seed: int = 0
) -> xr.Dataset:
    """What is best for each task in another environment; see `Posterior.transfer`."""
    if draws < 1:
        raise InputError(f"draws must be at least 1; found {draws}.")
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1; found {level!r}.")
    place = checked_place(posterior, environment)
    reward = rewards_in(posterior, place, features, seed=seed)
    on, whose, depth = posterior.model.reward.on, whose_of(reward), posterior.model.depth
    mean = reward.mean(("chain", "draw"))
    own = _mean_discounts(posterior, whose)
    best = plan(place, mean.transpose(*whose, ...).values, on=on, discount=own, depth=depth)
    drawn = reward.stack(sample=("chain", "draw")).transpose("sample", *whose, ...)
    size = int(np.prod([drawn.sizes[dim] for dim in whose])) * place.available.size
    every = -(-drawn.sizes["sample"] // max(1, min(draws, NUMBERS // size)))
    drawn = drawn.isel(sample=slice(None, None, every))
    rule = {word: chosen_in(posterior, word, drawn, whose, every) for word in ("inverse_temperature", "lapse")}
    rule["discount"] = chosen_in(posterior, "discount", drawn, whose, every) if infers_discount(posterior) else None
    is_soft = rule["lapse"] is not None and posterior.model.choice.is_soft
    value, loss, first, choice = _under_draws(place, drawn.values, best.policy, rule, on, is_soft, depth)
    tails = [(1 - level) / 2, (1 + level) / 2]
    at_states, at_pairs = (*whose, "state"), (*whose, "state", "action")
    made: dict[str, Any] = {
        "policy": (at_pairs, best.policy),
        "probability_best": (at_pairs, first.mean(axis=0)),
        "value": (at_states, value.mean(axis=0)),
        "value_lower": (at_states, np.quantile(value, tails[0], axis=0)),
        "value_upper": (at_states, np.quantile(value, tails[1], axis=0)),
        "expected_loss": (at_states, loss.mean(axis=0)),
    }
    if choice is not None:
        lower, upper = np.quantile(choice, tails, axis=0)
        made |= {"choice": (at_pairs, choice.mean(axis=0)), "choice_lower": (at_pairs, lower)}
        made["choice_upper"] = (at_pairs, upper)
    names = {"state": coordinate_of(place.states), "action": coordinate_of(place.actions)}
    found = xr.Dataset(made, coords={dim: reward[dim] for dim in whose if dim in reward.coords} | names)
    if "task" not in found.dims and "motive" not in found.dims:
        found = found.expand_dims({"task": posterior._task_coordinate})
    return found.assign_attrs(draws=int(drawn.sizes["sample"]), level=level)


def best_policies(posterior: Any, environment: Any, features: Any = None) -> xr.DataArray:
    """The policy that is optimal in another environment for each expected reward ([task, ][motive, ]state, action)."""
    place = checked_place(posterior, environment)
    mean = rewards_in(posterior, place, features).mean(("chain", "draw"))
    if "task" not in mean.dims and "motive" not in mean.dims:
        mean = mean.expand_dims({"task": posterior._task_coordinate})
    whose = whose_of(mean)
    own = _mean_discounts(posterior, whose)
    how: Any = {"on": posterior.model.reward.on, "discount": own, "depth": posterior.model.depth}
    found = plan(place, mean.transpose(*whose, ...).values, **how).policy
    names = {"state": coordinate_of(place.states), "action": coordinate_of(place.actions)}
    coordinates = {dim: mean[dim] for dim in whose if dim in mean.coords}
    return xr.DataArray(found, dims=(*whose, "state", "action"), coords=coordinates | names, name="policy")


def checked_place(posterior: Any, environment: Any) -> Environment:
    """Another environment, or several by name, that is known and has the discount of the fit."""
    place = environment_of(environment)
    if isinstance(place, DynamicsBelief):
        raise InputError("the environment to transfer to must be known; found a DynamicsBelief. Use its mean.")
    if not isinstance(place, Environment):
        raise InputError(f"environment must be mm.Environment, or several by name; found {type(place).__name__}.")
    if place.discount != posterior.environment.discount and not infers_discount(posterior):
        raise InputError(
            f"the fit has the discount {posterior.environment.discount:g} and this environment has "
            f"{place.discount:g}, under which rewards have a different meaning. Give it the discount of the fit."
        )
    return place


def rewards_in(
    posterior: Any, place: Environment, features: Any = None, *, drawn: xr.Dataset | None = None, seed: int = 0
) -> xr.DataArray:
    """Draws (chain, draw, …, state[, action]) of rewards in another environment, of the posterior or of other draws.

    `drawn` holds `reward` and, where rewards are made of features, `weight`, as the prior and `posterior.population()`
    do.
    """
    drawn = posterior.data["posterior"].dataset if drawn is None else drawn
    reward = posterior.model.reward
    if not posterior.has_features:
        if features is not None:
            raise InputError("the rewards of this model are not made of features. Leave out features=.")
        return _carried_over(drawn["reward"], posterior.environment, place, isinstance(reward, RewardSet))
    made_of = features_in_place(posterior, place, features)
    weights = drawn["weight"].transpose(..., "feature")
    shape = (place.num_states, place.num_actions)[: 1 if reward.on == "state" else 2]
    values = (weights.values.reshape(-1, weights.shape[-1]) @ made_of.T).reshape(*weights.shape[:-1], *shape)
    dims = (*weights.dims[:-1], *("state", "action")[: len(shape)])
    coordinates = {dim: weights[dim] for dim in weights.dims[:-1] if dim in weights.coords}
    found = xr.DataArray(values, dims=dims, coords=coordinates)
    if reward.residual_scale is None:
        return found
    return found + _residuals(posterior, drawn, place, found, seed)


def _carried_over(reward: xr.DataArray, fitted: Environment, place: Environment, is_set: bool) -> xr.DataArray:
    """Rewards by the names of states, and of actions where they lie on pairs."""
    if is_set and names_in(fitted) != fitted.states:
        raise InputError("rewards of a set cannot be transferred from several environments to another one.")
    known = by_name(reward, fitted)
    rows = positions(own_names(place), names_in(fitted))
    missing = [name for name, row in zip(own_names(place), rows) if row < 0]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise InputError(
            f"state {quoted(missing[0])}{more} has no reward, because it is in none of the environments of the "
            "fit. Use the names of states of the fit, or fit rewards made of features."
        )
    found = known.isel(state=rows).drop_vars("state")
    if "action" not in known.dims:
        return found
    columns = np.array(positions(place.actions, fitted.actions))
    found = found.isel(action=np.maximum(columns, 0)).drop_vars("action").transpose(..., "state", "action")
    exists = np.isfinite(found.isel(chain=0, draw=0).values).reshape(-1, *place.available.shape)[0] & (columns >= 0)
    lacking = np.argwhere(place.available & ~exists)
    if len(lacking):
        state, action = lacking[0]
        raise InputError(
            f"action {quoted(place.actions[action])} in state {quoted(place.states[state])} has no reward, "
            "because none of the environments of the fit has that action in that state."
        )
    return found.copy(data=np.where(place.available, found.values, 0.0))


def features_in_place(posterior: Any, place: Environment, given: Any = None) -> np.ndarray:
    """[cells, K] features of another environment: those that are given, or the model's own where names are known."""
    return features_of(posterior.model.reward, given, place, posterior.environment)


def features_of(
    reward: GaussianReward, given: Any, place: Environment, fitted: Environment | None = None
) -> np.ndarray:
    """The same of a prior; `fitted`: the environment whose features it has, where there is one."""
    names: Any = reward.names
    if given is None and fitted is not None and place.states == fitted.states:
        own_features = reward.features_for(place) if reward.on == "state" or place.actions == fitted.actions else None
        if own_features is not None:
            if reward.on == "state_action":
                _check_same_transitions(place, fitted)
            return _of_pairs_that_exist(own_features.toarray(), place, reward.on)
    if given is None:
        own = labelled(reward.features).labels[0] if is_labelled(reward.features) else None
        wanted = positions(own_names(place), own or ())
        if own is None or reward.on != "state" or min(wanted) < 0:
            raise InputError(
                "the rewards of this model are made of features. Give those of the new environment: "
                "transfer(environment, features=…)."
            )
        given, names = labelled(reward.features).values[wanted], None
    wider = GaussianReward(features=given, names=names, on=reward.on).features_for(place)
    assert wider is not None
    expected = len(_feature_names(reward))
    if wider.shape[1] != expected:
        raise InputError(f"the model has {expected} features; found {wider.shape[1]} for the new environment.")
    return _of_pairs_that_exist(wider.toarray(), place, reward.on)


def _check_same_transitions(place: Environment, fitted: Environment) -> None:
    """Features of pairs may be averages over what pairs lead to: refuse those of an environment with other moves."""
    both = np.flatnonzero(place.available & fitted.available)
    moved = abs(place.matrix[both] - fitted.matrix[both])
    if moved.nnz and moved.max() > SAME:
        pair = both[int(np.argmax(moved.max(axis=1).toarray().ravel()))]
        state, action = divmod(int(pair), place.num_actions)
        raise InputError(
            "the features of this model describe pairs of a state and an action, and this environment has other "
            f"transitions (for example for action {quoted(place.actions[action])} in state "
            f"{quoted(place.states[state])}). Give features=…, computed for this environment; if they do not depend "
            "on transitions, give the same ones again."
        )


def _of_pairs_that_exist(features: np.ndarray, place: Environment, on: str) -> np.ndarray:
    return features * (place.available.reshape(-1, 1) if on == "state_action" else 1.0)


def _feature_names(reward: GaussianReward) -> Any:
    given = reward.features
    first = next(iter(given.values())) if isinstance(given, dict) else given
    return range(first.shape[-1] if hasattr(first, "shape") else np.asarray(first).shape[-1])


def _residuals(posterior: Any, drawn: xr.Dataset, place: Environment, like: xr.DataArray, seed: int) -> np.ndarray:
    """What states (or pairs) have beyond their features: their own where the name is known, else Normal(0, τ)."""
    fitted, on = posterior.environment, posterior.model.reward.on
    weights = drawn["weight"].transpose(..., "feature")
    made_of = posterior.model.reward.features_for(fitted).toarray()
    reward = drawn["reward"].transpose(*weights.dims[:-1], ...)
    cells = (weights.values.reshape(-1, weights.shape[-1]) @ made_of.T).reshape(reward.shape)
    known = by_name(reward - cells, fitted).transpose(*weights.dims[:-1], ...)
    inferred = posterior.data["posterior"].dataset.get("residual_scale", posterior.model.reward.residual_scale)
    tau: Any = drawn.get("residual_scale", inferred)
    scale = np.broadcast_to(_behind(tau, like), like.shape)
    found = np.random.default_rng(seed).normal(size=like.shape) * scale
    rows = np.array(positions(own_names(place), names_in(fitted)))
    if on == "state":
        found[..., rows >= 0] = known.values[..., rows[rows >= 0]]
        return found
    columns = np.array(positions(place.actions, fitted.actions))
    own = known.values[..., np.maximum(rows, 0)[:, None], np.maximum(columns, 0)]
    is_known = (rows >= 0)[:, None] & (columns >= 0) & np.isfinite(own)
    return np.where(is_known, own, found)


def _behind(scale: Any, like: xr.DataArray) -> Any:
    """A scale with the axes of draws it has, and an axis of length 1 for each it has not."""
    if not isinstance(scale, xr.DataArray):
        return float(scale)
    return scale.values.reshape([like.sizes[dim] if dim in scale.dims else 1 for dim in like.dims])


def _under_draws(
    place: Environment,
    rewards: np.ndarray,
    policy: np.ndarray,
    rule: dict[str, Any],
    on: str,
    is_soft: bool,
    depth: int | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Under each draw [K, …]: the policy's value and loss, which actions are optimal, and what would be chosen."""
    values, losses, firsts, choices = [], [], [], []
    temperature, lapse = rule["inverse_temperature"], rule["lapse"]
    for begin in range(0, len(rewards), BATCH):
        part = slice(begin, begin + BATCH)
        own = None if rule["discount"] is None else rule["discount"][part]
        found = plan(place, rewards[part], on=on, discount=own)
        attained = evaluate(place, np.broadcast_to(policy, found.q.shape), rewards[part], on=on, discount=own)
        values.append(attained)
        losses.append(np.maximum(found.value - attained, 0.0))
        if depth is not None:  # values and losses are those of the long run, choices are made by looking less far
            found = plan(place, rewards[part], on=on, discount=own, depth=depth)
        firsts.append(found.policy)
        if temperature is not None and is_soft:
            how: Any = {"on": on, "discount": own, "depth": depth, "is_soft": True}
            choices.append(choice_probabilities(place, rewards[part], temperature[part], lapse[part], **how))
        elif temperature is not None:
            choices.append(np.exp(log_choice_probabilities(found.q, temperature[part], lapse[part])))
    together = [np.concatenate(each) for each in (values, losses, firsts)]
    return together[0], together[1], together[2], np.concatenate(choices) if choices else None


def choice_probabilities(
    place: Environment,
    rewards: np.ndarray,  # [..., S] or [..., S, A]
    temperature: np.ndarray,
    lapse: np.ndarray,
    *,
    on: str,
    is_soft: bool,
    discount: np.ndarray | None,
    depth: int | None,
) -> np.ndarray:
    """π(a|s) [..., S, A] of subjects with these rewards, inverse temperatures, lapse rates and discounts."""
    soft = temperature if is_soft else None
    found = plan(place, rewards, on=on, inverse_temperature=soft, discount=discount, depth=depth)
    return np.exp(log_choice_probabilities(found.q, temperature, lapse))


def chosen_in(
    posterior: Any, word: str, drawn: xr.DataArray, whose: tuple[str, ...], every: int, group: str = "posterior"
) -> np.ndarray | None:
    """Inverse temperatures, lapse rates or discounts of draws [K, …]; None where the model has none."""
    groups = (posterior.data[name].dataset for name in (group, "constant_data"))
    values = next((group[word] for group in groups if word in group), None)
    if values is None:
        return None
    if "chain" in values.dims:
        values = values.stack(sample=("chain", "draw")).isel(sample=slice(None, None, every))
    axes = ("sample", *whose)
    if group == "prior" and "task" in values.dims and "task" not in whose:  # what is known of tasks: of the first
        values = values.isel(task=0)
    present = [dim for dim in axes if dim in values.dims]
    table = values.transpose(*present).values.reshape([drawn.sizes[dim] if dim in present else 1 for dim in axes])
    return np.ascontiguousarray(np.broadcast_to(table, [drawn.sizes[dim] for dim in axes]), dtype=float)


def infers_discount(posterior: Any) -> bool:
    return bool(getattr(posterior.model, "infers_discount", False))


def _mean_discounts(posterior: Any, whose: tuple[str, ...]) -> np.ndarray | None:
    """E γ of each; None: the environment's."""
    if not infers_discount(posterior):
        return None
    return np.asarray(posterior.data["posterior"].dataset["discount"].mean(("chain", "draw")).transpose(*whose).values)


def whose_of(values: xr.DataArray) -> tuple[str, ...]:
    return tuple(dim for dim in ("task", "motive") if dim in values.dims)


def positions(wanted: Sequence[Label], names: Sequence[Label]) -> list[int]:
    """Where names stand, as they are or, where they were read from a file, as text; −1: nowhere."""
    exact = {name: position for position, name in enumerate(names)}
    texts = {str(name): position for position, name in enumerate(names)}
    return [exact.get(name, texts.get(str(name), -1) if len(texts) == len(exact) else -1) for name in wanted]
