"""Draws of a posterior and a change in; what subjects do, visit and gain before it and after it, draw by draw, out.

    choices   π(a|s) of each draw's reward, inverse temperature, lapse rate and discount
    visits    (1 − γ) Σ_t γᵗ P(s_t = s) from the start distribution: shares of discounted time
    shares    lim (1/T) Σ_{t<T} P(a_t = a) from the start distribution: of all steps in the long run, how many are a
    value     E Σ_t γᵗ ρ(s_t, a_t) of a subject's own choices
    welfare   E Σ_t γᵗ (ρ(s_t, a_t) − log π(a_t|s_t) / c): with the taste shocks that soft-optimal choices gain from;
              with a subject's own discount this is Σ_s P(s_0 = s) log Σ_a exp(c Q(s, a)) / c, the log-sum

The limit is that of visits as γ → 1, which is also where the shares of several recurrent classes come from: each counts
by the probability that the chain ends up in it. Where episodes end, visits as γ → 1 are expected counts per episode, so
shares are those of episode after episode, each from the start distribution.

Visits, values and welfare of both sides are discounted by the discount after the change: sums with different weights
could not be compared.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy import special

from manymotives.data.environment import Environment
from manymotives.errors import InputError
from manymotives.inference.progress import Progress
from manymotives.planning.visits import discounted_visits
from manymotives.posterior.changes import Change
from manymotives.posterior.transfer import choice_probabilities, chosen_in, infers_discount, rewards_in, whose_of

NUMBERS = 20_000_000  # choice probabilities that are held at a time
BATCH = 64  # draws planned for at a time
ENTRIES = 4_000_000  # of the linear systems that are solved at a time
LONG_RUN = 1 - 1e-8  # in place of γ → 1: how far a start is forgotten by some 10⁸ steps, where rounding is still 1e-8
PRIOR_DRAWS = 500  # for the prior's intervals
TIMES = ("before", "after")


class Sides(NamedTuple):
    """Draws [K, who…] of what is done, visited and gained."""

    whose: tuple[str, ...]
    coordinates: dict[str, xr.DataArray]  # of these dimensions
    choice_before: np.ndarray  # [..., S, A]
    choice_after: np.ndarray  # [..., S', A']
    visits_before: np.ndarray  # [..., S]
    visits_after: np.ndarray  # [..., S']
    shares_before: np.ndarray  # [..., A]
    shares_after: np.ndarray  # [..., A']
    value_before: np.ndarray  # [...]
    value_after: np.ndarray
    value_by_reward_before: np.ndarray  # of what is done afterwards
    welfare_before: np.ndarray | None = None  # where choices have taste shocks
    welfare_after: np.ndarray | None = None


class Rewards(NamedTuple):
    """Rewards after a change, as planners want them and as they are received."""

    planned: np.ndarray  # [..., S] or [..., S, A]
    on: str
    received: np.ndarray  # [..., S, A]


def sides_of(posterior: Any, change: Change, draws: int, seed: int, progress: Progress) -> Sides:
    """Both sides, under at most so many draws."""
    fitted, model, on = posterior.environment, posterior.model, posterior.model.reward.on
    reward = posterior.data["posterior"].dataset["reward"].fillna(0.0)
    whose = whose_of(reward)
    size = int(np.prod([reward.sizes[dim] for dim in whose])) * (fitted.available.size + change.place.available.size)
    before, every = _some(reward, whose, min(draws, max(1, NUMBERS // size)))
    after = before
    if change.is_elsewhere:
        after, _ = _some(rewards_in(posterior, change.place, change.features, seed=seed), whose, every=every)
    temperature, lapse, own = _rule(posterior, before, whose, every)
    new = None if change.sets_discount else own
    weight = np.full(temperature.shape, change.place.discount) if new is None else new
    how: Any = {"is_soft": model.choice.is_soft, "depth": model.depth}
    made: dict[str, list[np.ndarray]] = {}
    with progress.of(len(before), "draws") as report:
        for begin in range(0, len(before), BATCH):
            part = slice(begin, begin + BATCH)
            rule = temperature[part], lapse[part]
            mine = None if own is None else own[part]
            rewards = before.values[part]
            found = {"choice_before": choice_probabilities(fitted, rewards, *rule, on=on, discount=mine, **how)}
            mine = None if new is None else new[part]
            changed = changed_rewards(change, after.isel(sample=part), on, mine)
            found["choice_after"] = choice_probabilities(
                change.place, changed.planned, *rule, on=changed.on, discount=mine, **how
            )
            for side, place in zip(TIMES, (fitted, change.place)):
                found[f"visits_{side}"] = _visits(place, found[f"choice_{side}"], weight[part])
                found[f"shares_{side}"] = long_run_shares(place, found[f"choice_{side}"])
            as_before = received_in(after.values[part], change.place, on)
            for name, side, received in (
                ("value_before", "before", received_in(rewards, fitted, on)),
                ("value_after", "after", changed.received),
                ("value_by_reward_before", "after", as_before),
            ):
                gained = (found[f"choice_{side}"] * received).sum(axis=-1)
                found[name] = (found[f"visits_{side}"] * gained).sum(axis=-1) / (1 - weight[part])
            for side in TIMES if has_taste_shocks(model) else ():
                shocks = (found[f"visits_{side}"] * entropies(found[f"choice_{side}"])).sum(axis=-1)
                found[f"welfare_{side}"] = found[f"value_{side}"] + shocks / (rule[0] * (1 - weight[part]))
            for name, values in found.items():
                made.setdefault(name, []).append(values)
            report.update(min(begin + BATCH, len(before)), "plans")
    names = {dim: before[dim] for dim in whose if dim in before.coords}
    return Sides(whose, names, **{name: np.concatenate(values) for name, values in made.items()})


def has_taste_shocks(model: Any) -> bool:
    """Whether choices are those of a random-utility model: soft-optimal, for ever, and without lapses."""
    return bool(model.choice.is_soft and model.depth is None and model.choice.lapse == 0.0)


def entropies(choices: np.ndarray) -> np.ndarray:
    """−Σ_a π log π [..., S] of choices [..., S, A]: c times what taste shocks add in a step."""
    return -special.xlogy(choices, choices).sum(axis=-1)


def prior_choices(posterior: Any, change: Change, seed: int) -> np.ndarray:
    """Choices [K, S', A'] after the change of one subject each of whom nothing is known but the prior."""
    model, prior = posterior.model, posterior.data["prior"].dataset["reward"].fillna(0.0)
    if change.is_elsewhere:
        prior = rewards_in(posterior, change.place, change.features, drawn=posterior.data["prior"].dataset, seed=seed)
    drawn, every = _some(prior, (), PRIOR_DRAWS)
    temperature, lapse, own = _rule(posterior, drawn, (), every, "prior")
    own = None if change.sets_discount else own
    rewards = changed_rewards(change, drawn, model.reward.on, own)
    how: Any = {"on": rewards.on, "is_soft": model.choice.is_soft, "discount": own, "depth": model.depth}
    return choice_probabilities(change.place, rewards.planned, temperature, lapse, **how)


def changed_rewards(change: Change, rewards: xr.DataArray, on: str, discount: np.ndarray | None) -> Rewards:
    """Rewards after the change, of draws (sample, …, state[, action]) in the place where they are received."""
    place, values = change.place, rewards.values
    if change.function is not None:
        values = _by_function(change.function, rewards)
    if on == "state_action":
        values = values if change.on_pairs is None else values + change.on_pairs
        return Rewards(values, on, received_in(values, place, on))
    values = values if change.on_states is None else values + change.on_states
    received = received_in(values, place, on)
    if change.on_pairs is None:
        return Rewards(values, on, received)
    received = received + change.on_pairs
    # planners reward no pair in a terminal state: what is received there is received for the step that leads there
    ends = np.flatnonzero(place.is_terminal)
    later = np.moveaxis(values[..., ends], -1, 0).reshape(len(ends), math.prod(values.shape[:-1]))
    arriving = (place.matrix[:, ends] @ later).T.reshape(*values.shape[:-1], *place.available.shape)
    factor: Any = place.discount if discount is None else discount[..., None, None]
    return Rewards(received + factor * arriving, "state_action", received)


def received_in(rewards: np.ndarray, place: Environment, on: str) -> np.ndarray:
    """Rewards as they are received, [..., S, A]: on pairs, none in terminal states; on states, whatever is done."""
    if on == "state_action":
        return np.where(place.is_terminal[:, None], 0.0, rewards)
    return np.broadcast_to(rewards[..., None], (*rewards.shape, place.num_actions))


def _by_function(function: Any, rewards: xr.DataArray) -> np.ndarray:
    """Rewards that a user's function makes of rewards, checked."""
    found = function(rewards)
    if isinstance(found, xr.DataArray) and set(found.dims) == set(rewards.dims):
        found = found.transpose(*rewards.dims)
    try:
        values = np.asarray(found, dtype=float)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != rewards.shape or not np.isfinite(values).all():
        raise InputError(
            f"rewards: the function must return finite numbers of the shape it was given, {list(rewards.shape)} "
            f"({', '.join(map(str, rewards.dims))}); found the shape {list(values.shape)}."
        )
    return values


def _some(
    reward: xr.DataArray, whose: tuple[str, ...], draws: int = 0, *, every: int | None = None
) -> tuple[xr.DataArray, int]:
    """Draws (sample, …) one after the other, every so many of them."""
    flat = reward.stack(sample=("chain", "draw")).transpose("sample", *whose, ...)
    every = -(-flat.sizes["sample"] // draws) if every is None else every
    return flat.isel(sample=slice(None, None, every)).reset_index("sample", drop=True), every


def _rule(
    posterior: Any, drawn: xr.DataArray, whose: tuple[str, ...], every: int, group: str = "posterior"
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Inverse temperatures, lapse rates and, where they were inferred, discounts [K, who…]."""
    words = ("inverse_temperature", "lapse", *(("discount",) if infers_discount(posterior) else ()))
    found = [chosen_in(posterior, word, drawn, whose, every, group) for word in words]
    assert found[0] is not None
    assert found[1] is not None
    return found[0], found[1], found[2] if len(found) > 2 else None


def long_run_shares(place: Environment, policies: np.ndarray) -> np.ndarray:
    """Shares [..., A] of all steps in the long run; NaN where every episode ends before its first step."""
    lives = ~place.is_terminal
    visits = _visits(place, policies, np.full(policies.shape[:-2], LONG_RUN))[..., lives]
    taken = np.einsum("...s,...sa->...a", visits, policies[..., lives, :])
    with np.errstate(invalid="ignore"):
        return taken / visits.sum(axis=-1, keepdims=True)


def _visits(place: Environment, policies: np.ndarray, discounts: np.ndarray) -> np.ndarray:
    """Shares of discounted time [..., S] from the start distribution, some policies at a time."""
    flat, weight = policies.reshape(-1, *policies.shape[-2:]), discounts.reshape(-1)
    size = max(1, ENTRIES // place.num_states**2)
    parts = []
    for begin in range(0, len(flat), size):
        part = slice(begin, begin + size)
        starts = np.broadcast_to(place.start, (len(flat[part]), place.num_states))
        parts.append(discounted_visits(place, flat[part], starts, weight[part]))
    return (1 - discounts[..., None]) * np.concatenate(parts).reshape(*discounts.shape, place.num_states)
