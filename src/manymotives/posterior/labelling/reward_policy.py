"""Draws of a `RewardPolicyModel` in the ArviZ schema."""

from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import xarray as xr

from manymotives.data.demonstrations import Demonstrations
from manymotives.inference import Draws
from manymotives.inference.draws import EffectDraws
from manymotives.models import RewardPolicyModel, Target
from manymotives.models.episodes import LARGEST
from manymotives.posterior.estimates import GROUP, labelled_estimate
from manymotives.posterior.labelling.common import (
    coordinate_of,
    labelled_likelihood,
    move_coordinates,
    names_of,
    sample_coordinates,
    stored_constants,
    tree_of,
)
from manymotives.posterior.labelling.drawn_rewards import cells_of, drawn_rewards
from manymotives.posterior.labelling.effects import labelled_effects, without_effects
from manymotives.posterior.labelling.mixture import labelled_mixture, prior_numbers, prior_spread

PRIOR_DRAWS = 2000  # kept beside the posterior, to compare with
LARGEST_PRIOR = 4_000_000  # numbers in them, where a draw is long …
FEWEST_PRIOR_DRAWS = 200  # … but never fewer than tell a standard deviation to 5 %


def label_reward_policy(
    draws: Draws, model: RewardPolicyModel, target: Target, demonstrations: Demonstrations, seed: int
) -> xr.DataTree:
    """Draws in the ArviZ schema."""
    environment = target.environment
    names = names_of(environment, demonstrations)
    prior = labelled_prior(model, target, names, seed)
    pooled = model.is_pooled
    posterior = watched_reward_policy(draws, model, target, demonstrations)

    statistics = {
        name: (tuple("task_group" if dim == "group" else dim for dim in dims), values)
        for name, (dims, values) in draws.statistics.items()
    }
    chains, length = draws.tasks.shape[:2]
    statistics["lp"] = (("chain", "draw"), _log_densities(draws, target))
    if pooled:
        statistics = {name: (dims, values) for name, (dims, values) in statistics.items() if "task" not in dims}
    constants = stored_constants(environment, target.belief)
    for word, position, values in (
        ("inverse_temperature", target.layout.temperature, target.fixed_temperature),
        ("lapse", target.layout.lapse, target.fixed_lapse),
    ):
        if position < 0:
            constants[word] = ((), values[0]) if pooled else (("task",), values)

    groups = {
        "posterior": posterior,
        "sample_stats": xr.Dataset(statistics, coords={"task": names["task"]} | sample_coordinates(chains, length)),
        "log_likelihood": labelled_likelihood(draws.log_likelihood, _by_episode(draws, target), demonstrations, names),
        "prior": prior,
        "constant_data": xr.Dataset(
            constants,
            coords={name: names[name] for name in ("state", "action", *(() if pooled else ("task",)))},
        ),
    }
    if draws.estimate is not None:
        groups[GROUP] = labelled_estimate(draws.estimate)
    return tree_of(groups, environment, demonstrations, seed)


def _log_densities(draws: Draws, target: Target) -> np.ndarray:
    """log p [chain, draw] of all that is inferred and of the choices."""
    if draws.mixture is not None:  # tasks share motives: their coordinates are not drawn one by one
        return draws.mixture.lp
    chains, length = draws.tasks.shape[:2]
    tasks, of_effects = without_effects(draws, target)
    log_prior = of_effects + target.log_prior(
        draws.hyper.reshape(chains * length, *draws.hyper.shape[2:]),
        tasks.reshape(chains * length, *draws.tasks.shape[2:]),
    ).reshape(chains, length)
    return np.asarray(log_prior + draws.log_likelihood.sum(axis=2))


def _by_episode(draws: Draws, target: Target) -> np.ndarray | None:
    """log p of each episode under each draw: chains note it; for others, draws are planned for."""
    chains, length, num_tasks, size = draws.tasks.shape
    episodes = target.episodes
    if episodes is None or chains * length * episodes.num_episodes > LARGEST:
        return None
    if draws.episode_log_likelihood is not None:
        return draws.episode_log_likelihood
    found = np.empty((chains * length, episodes.num_episodes))
    flat, every = draws.tasks.reshape(-1, num_tasks, size), np.arange(num_tasks)
    step = max(1, 1_000_000 // (num_tasks * target.counts[0].size + len(episodes.row)))
    for begin in range(0, len(flat), step):
        part = slice(begin, begin + step)
        u = flat[part]
        q = _action_values(target, u.reshape(-1, size), np.tile(every, len(u)))
        q = q.reshape(len(u), num_tasks, *target.counts.shape[1:])
        found[part] = target.episode_log_likelihoods(u, q[:, episodes.task, episodes.state])
    return found.reshape(chains, length, -1)


def _action_values(target: Target, u: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Q [N, S, A]; tasks of one motive that choose alike are planned for once."""
    if (
        target.partitions is None
        or target.partitions.spread is not None
        or len(np.unique(target.fixed_temperature)) > 1
    ):
        return target.action_values(u, owner)
    rows, first, inverse = np.unique(u, axis=0, return_index=True, return_inverse=True)
    return target.action_values(rows, owner[first])[inverse.ravel()]


def watched_reward_policy(
    draws: Draws, model: RewardPolicyModel, target: Target, demonstrations: Demonstrations
) -> xr.Dataset:
    """What is to be said of the posterior, with its names: rewards, temperatures, hyperparameters."""
    names = names_of(target.environment, demonstrations)
    for_tasks = not model.is_pooled
    found = labelled_variables(model, target, draws.tasks, draws.hyper, names, for_tasks=for_tasks)
    if target.effects is not None and draws.effects is not None:
        found = found.merge(labelled_effects(target, target.effects, draws.effects, found))
    if draws.mixture is not None:
        own = draws.tasks[..., target.layout.num_rewards :]
        of_motives = task_variables(target, np.concatenate([draws.mixture.centre, own], axis=-1))
        found = found.merge(labelled_mixture(target, draws.mixture, found, of_motives))
    if target.belief is None or draws.transition_probabilities is None:
        return found
    return found.assign(transition=(("chain", "draw", "move"), draws.transition_probabilities)).assign_coords(
        move_coordinates(target.belief, names)
    )


def labelled_variables(
    model: RewardPolicyModel,
    target: Target,
    tasks: np.ndarray,
    hyper: np.ndarray,
    names: dict[str, Any],
    *,
    for_tasks: bool,
) -> xr.Dataset:
    """Rewards, temperatures and hyperparameters from coordinates u [chain, draw, M, D] and h [chain, draw, G, H].

    `for_tasks`: with a task axis; without it there is one of everything.
    """
    made: Variables = {}
    for_groups = target.num_groups > 1 or (for_tasks and model.is_separate)
    for variables, has_axis in (
        (task_variables(target, tasks), for_tasks),
        (hyper_variables(target, hyper), for_groups),
    ):
        for name, (behind, values) in variables.items():
            dims = ("chain", "draw", "task", *behind) if has_axis else ("chain", "draw", *behind)
            made[name] = (dims, values if has_axis else values[:, :, 0])
    cells = cells_of(target)
    coordinates: dict[str, Any] = {name: names[name] for name in cells} | ({"task": names["task"]} if for_tasks else {})
    if target.num_weights:
        coordinates["feature"] = coordinate_of(model.reward.feature_names(target.num_weights))
    if any(block.over == "group" for block in target.blocks):
        coordinates["group"] = coordinate_of(target.groups)
    return xr.Dataset(made, coords=coordinates | sample_coordinates(*tasks.shape[:2]))


def labelled_prior(model: RewardPolicyModel, target: Target, names: dict[str, Any], seed: int) -> xr.Dataset:
    """Draws of one task of one population before any choice was seen; with covariates, of any of these tasks.

    A run labels its draws before it begins, and at every look: these are the same each time.
    """
    kept = _PRIORS.get(target)
    if kept is None or kept[0] != seed:
        kept = _PRIORS[target] = seed, _drawn_prior(model, target, names, seed)
    return kept[1].copy()


_PRIORS: WeakKeyDictionary[Target, tuple[int, xr.Dataset]] = WeakKeyDictionary()


def _drawn_prior(model: RewardPolicyModel, target: Target, names: dict[str, Any], seed: int) -> xr.Dataset:
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2**31,)))
    alone = replace(
        target,
        tasks=target.tasks[:1],
        counts=target.counts[:1] * 0,
        layout=target.layout._replace(group_size=1),
        assignment=None,
    )
    numbers = target.num_coordinates + target.num_hyper + target.counts[0].size
    hyper = alone.draw_hyper(rng, min(PRIOR_DRAWS, max(FEWEST_PRIOR_DRAWS, LARGEST_PRIOR // numbers)))
    tasks = alone.draw_tasks(rng, hyper)
    effects = target.effects
    if target.partitions is not None:
        size = target.layout.num_rewards
        tasks[..., :size] += prior_spread(target, rng, (*tasks.shape[:-1], size))
        found = labelled_variables(model, alone, tasks[None], hyper[None], names, for_tasks=False)
        numbers = prior_numbers(target.partitions.prior, rng, len(tasks))
        return found.assign(number_of_motives=(("chain", "draw"), numbers[None]))
    if effects is None:
        return labelled_variables(model, alone, tasks[None], hyper[None], names, for_tasks=False)
    drawn = EffectDraws(*(np.stack(part)[None] for part in zip(*(effects.draw(rng) for _ in hyper))))
    offsets, anyone = effects.offsets(effects.coefficients(*drawn))[0], rng.integers(target.num_tasks, size=len(hyper))
    tasks = tasks + offsets[np.arange(len(hyper)), anyone][:, None]
    found = labelled_variables(model, alone, tasks[None], hyper[None], names, for_tasks=False)
    return found.merge(labelled_effects(target, effects, drawn, found))


Variables = dict[str, tuple[tuple[str, ...], Any]]  # name: (dims behind chain, draw and whose they are, values)


def task_variables(target: Target, tasks: np.ndarray) -> Variables:
    """Rewards, weights and further parameters [chain, draw, M, ...] from coordinates u [chain, draw, M, D]."""
    layout, owner = target.layout, np.arange(target.num_tasks)
    made: Variables = {"reward": (cells_of(target), drawn_rewards(target, tasks))}
    if target.num_weights:
        made["weight"] = (("feature",), tasks[..., : target.num_weights])
    if layout.temperature >= 0:
        made["inverse_temperature"] = ((), target.temperatures(tasks, owner))
    if layout.lapse >= 0:
        made["lapse"] = ((), target.lapses(tasks, owner))
    discounts = target.discounts(tasks, owner)
    if discounts is not None:
        made["discount"] = ((), discounts)
    return made


def hyper_variables(target: Target, hyper: np.ndarray) -> Variables:
    """Hyperparameters [chain, draw, G, ...] from coordinates h [chain, draw, G, H]."""
    layout, cells, made = target.layout, cells_of(target), {}
    values = target.natural_hyper(hyper)
    for block in target.blocks:
        part = values[..., block.begin : block.end]
        behind: tuple[str, ...] = ()
        if block.over == "":
            part = part[..., 0]
        elif block.over == "group":
            behind = ("group",)
        elif target.num_weights:
            behind = ("feature",)
        elif layout.features.exist and not target.has_shared_rewards:  # of eigenvectors: rewards themselves say more
            part, behind = (
                layout.features.times(part.reshape(-1, layout.num_rewards)).reshape(*part.shape[:-1], -1),
                cells,
            )
        else:
            shape = (target.environment.num_states, target.environment.num_actions)[: len(cells)]
            part, behind = target.on_cells(part).reshape(*part.shape[:-1], *shape), cells
        made[block.name] = (behind, part)
    return made
