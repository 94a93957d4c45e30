"""Everything a report tells of motives that switch, computed before anything is written."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from manymotives.errors import InputError
from manymotives.findings.sample import thinned
from manymotives.inference import Progress
from manymotives.models.model import EVERYBODY
from manymotives.posterior import SwitchingPosterior
from manymotives.posterior.canonical import in_unit_range
from manymotives.posterior.motive_tables import average_transitions
from manymotives.reporting.content import About

MOST_SHOWN = 8  # motives: as many as there are colours; those used most come first
AVERAGE = "average of the subjects"
NUMBERS = 30_000_000  # rewards at a time: draws × subjects × motives × cells
WORK = 4e8  # subjects × motives × states² × draws: some twenty seconds of planning
LARGEST = 300_000  # numbers of one kind in the page


@dataclass(frozen=True, eq=False)
class Spread:
    """A mean and a 95 % interval of each of several numbers."""

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, draws: np.ndarray) -> "Spread":
        """Of draws [draws, ...]."""
        lower, upper = np.quantile(draws, [0.025, 0.975], axis=0)
        return cls(draws.mean(axis=0), lower, upper)


@dataclass(frozen=True, eq=False)
class MotiveContent(About):
    """What a report of motives that switch is about, and what was found."""

    posterior: SwitchingPosterior
    who: tuple[str, ...]  # whose motives: everybody's; or the average of the subjects, where there is one, and each
    tasks: tuple[str, ...]  # subjects, shown
    num_shown: int  # motives, shown
    cells: tuple[str, ...]  # states, or actions in states
    rewards: Spread  # [who, motive, cells] in canonical form
    prior_rewards: Spread  # [cells]
    weights: Spread | None  # [who, motive, feature], times the inverse temperature where that is inferred
    prior_weights: Spread | None  # [feature]
    temperatures: Spread  # [who, motive] on the canonical scale
    best: np.ndarray  # [who, motive, S] the best action for the expected reward …
    sure: np.ndarray  # … and the share of draws that agree
    steps: pd.DataFrame  # smoothed probabilities: task, episode, step, state, motive_0, motive_1, …
    shares: pd.DataFrame  # task, motive, mean, lower, upper
    switches: pd.DataFrame  # task, steps, mean, lower, upper
    transitions: Spread  # [who, motive, next_motive]
    leaving: pd.DataFrame | None  # with by="state": motive, state, mean, lower, upper, p_above_average, steps, active

    @property
    def motives(self) -> list[str]:
        """Their names, of those shown."""
        return [f"motive {k}" for k in range(self.num_shown)]

    @property
    def has_average(self) -> bool:
        return self.who[0] == AVERAGE


def motive_content_of(posterior: SwitchingPosterior, title: str, scores: tuple[Any, ...], truth: Any) -> MotiveContent:
    if truth is not None:
        raise InputError("truth cannot be shown for motives that switch. Leave it out.")
    with Progress().of(3, "steps") as bar:
        bar.update(0, "what motives want")
        wants = _wants(posterior)
        bar.update(1, "when each motive is active")
        steps = posterior.motives_frame()
        bar.update(2, "how they switch")
        used = _used(posterior, steps)
        bar.update(3)
    return MotiveContent(posterior=posterior, title=title, scores=scores, steps=steps, **wants, **used)


def _wants(posterior: SwitchingPosterior) -> dict[str, Any]:
    """What each motive wants, and what would be best for it."""
    environment, model = posterior.environment, posterior.model
    units = 1 if model.is_pooled else len(posterior.tasks)
    each = units * posterior.num_motives
    affordable = min(NUMBERS // (each * environment.available.size), int(WORK / (each * environment.num_states**2)))
    few = thinned(posterior, int(np.clip(affordable, 40, 400)))
    shown = min(few.num_motives, MOST_SHOWN)
    reward = few.rewards.isel(motive=slice(shown))
    order = ("chain", "draw", *(word for word in ("task", "motive") if word in reward.dims))
    reward = reward.transpose(*order, "state", ...)
    temperature = _temperatures(few, reward, order)
    soft = temperature.values if model.choice.is_soft else None
    canonical, scale = in_unit_range(few.identifiability, reward, soft)
    prior = few.data["prior"].dataset["reward"]
    middle = None if soft is None else np.full((prior.sizes["chain"], prior.sizes["draw"]), float(np.median(soft)))
    before, _ = in_unit_range(few.identifiability, prior, middle)
    on_pairs = model.reward.on == "state_action"
    exists = environment.available.ravel() if on_pairs else np.ones(environment.num_states, dtype=bool)
    names = posterior.data["observed_data"].dataset["counts"]
    states, actions = (names[word].values.tolist() for word in ("state", "action"))
    pairs = [f"{action} in {state}" for state in states for action in actions]
    cells = [name for name, there in zip(pairs if on_pairs else map(str, states), exists) if there]
    whose = _whose(posterior, shown * len(cells))
    best, sure = _best(few, reward, whose)
    found: dict[str, Any] = {
        "who": whose,
        "tasks": tuple(map(str, posterior.tasks)),
        "num_shown": shown,
        "cells": tuple(cells),
        "rewards": Spread.of(_rows(canonical, posterior, whose)[..., exists]),
        "prior_rewards": Spread.of(before.values.reshape(prior.sizes["chain"] * prior.sizes["draw"], -1)[:, exists]),
        "temperatures": Spread.of(_rows(temperature * scale, posterior, whose)),
        "best": best,
        "sure": sure,
        "weights": None,
        "prior_weights": None,
    }
    if few.has_features:
        weight, prior_weight = few.weights.isel(motive=slice(shown)), few.data["prior"].dataset["weight"]
        inferred = "inverse_temperature" in few.data["posterior"].dataset
        if inferred:  # choices tell the product only
            weight = weight * temperature
            prior_weight = prior_weight * few.data["prior"].dataset["inverse_temperature"]
        weight = weight.transpose(*order, "feature")
        found["weights"] = Spread.of(_rows(weight, posterior, whose))
        found["prior_weights"] = Spread.of(prior_weight.transpose(..., "feature").values.reshape(-1, weight.shape[-1]))
    return found


def _whose(posterior: SwitchingPosterior, numbers: int) -> tuple[str, ...]:
    """Whose motives are shown: as many as there is room for."""
    if posterior.model.is_pooled:
        return (EVERYBODY,)
    first = (AVERAGE,) if posterior.model.is_hierarchical and len(posterior.tasks) > 1 else ()
    room = max(20, LARGEST // max(numbers, 1))
    return (*first, *(str(task) for task in posterior.tasks[:room]))


def _rows(values: xr.DataArray, posterior: SwitchingPosterior, whose: tuple[str, ...]) -> np.ndarray:
    """Draws [draws, who, motive, cells] from (chain, draw[, task], motive, …)."""
    flat = values.values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])
    if posterior.model.is_pooled:
        flat = flat[:, None]
    if whose[0] == AVERAGE:
        flat = np.concatenate([flat.mean(axis=1, keepdims=True), flat], axis=1)
    return flat[:, : len(whose)].reshape(*flat[:, : len(whose)].shape[:3], *([-1] if flat.ndim > 3 else []))


def _temperatures(posterior: SwitchingPosterior, reward: xr.DataArray, order: tuple[str, ...]) -> xr.DataArray:
    """Inverse temperatures, drawn or known, for each of these rewards."""
    drawn = posterior.data["posterior"].dataset
    word = "inverse_temperature"
    values = drawn[word] if word in drawn else posterior.data["constant_data"].dataset[word]
    if "motive" in values.dims:
        values = values.isel(motive=slice(reward.sizes["motive"]))
    missing = {dim: reward.sizes[dim] for dim in order if dim not in values.dims}
    return values.expand_dims(missing).transpose(*order).astype(float)


def _best(posterior: SwitchingPosterior, reward: xr.DataArray, whose: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The best action [who, motive, S] for each expected reward, and the share of draws that agree; ties agree too."""
    rows = _rows(reward.fillna(0.0), posterior, whose)
    values = rows.reshape(*rows.shape[:3], *reward.shape[reward.dims.index("state") :])
    best = posterior.planned(values.mean(axis=0), slice(None)).actions
    q = posterior.planned(values, slice(None)).q
    reached = np.take_along_axis(q, np.broadcast_to(best, (len(q), *best.shape))[..., None], axis=-1)[..., 0]
    top = q.max(axis=-1)
    return best, (reached >= top - 1e-9 * np.maximum(np.abs(top), 1e-12)).mean(axis=0)


def _used(posterior: SwitchingPosterior, steps: pd.DataFrame) -> dict[str, Any]:
    """When each motive is active, how often they switch, and where."""
    shown = min(posterior.num_motives, MOST_SHOWN)
    whose = _whose(posterior, shown * shown)
    own = [] if posterior.model.is_pooled else [average_transitions(posterior, by_task=True)]
    rows = [average_transitions(posterior).expand_dims("task", 2)] if whose[0] in (AVERAGE, EVERYBODY) else []
    draws = [part.values.reshape(-1, *part.shape[2:])[..., :shown, :shown] for part in (*rows, *own)]
    assert posterior.model.switching is not None
    return {
        "shares": posterior.shares(),
        "switches": posterior.switches(),
        "transitions": Spread.of(np.concatenate(draws, axis=1)),
        "leaving": _leaving(posterior, steps) if posterior.model.switching.by == "state" else None,
    }


def _leaving(posterior: SwitchingPosterior, steps: pd.DataFrame) -> pd.DataFrame:
    """Where motives are left, with the steps after which they could be: those on which a motive was `active`."""
    keys = ["task", "state"] if posterior.model.is_separate else ["state"]
    columns = [f"motive_{k}" for k in range(posterior.num_motives)]
    could = steps[np.append(posterior.demonstrations.follows[1:], False)]
    spent = could.groupby(keys)[columns].sum().set_axis(range(len(columns)), axis=1)
    active = spent.melt(var_name="motive", value_name="active", ignore_index=False).reset_index()
    active = active.astype({"motive": int})
    found = posterior.leaving().astype(dict.fromkeys(keys, str))
    found = found.merge(active, on=[*keys, "motive"])
    return found[found["active"] >= 1].reset_index(drop=True)
