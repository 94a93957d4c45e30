"""Draws of a `RewardPolicyModel` whose motives switch, in the ArviZ schema, motives as each draw has them."""

from typing import Any

import numpy as np
import xarray as xr

from manymotives.data.demonstrations import Demonstrations
from manymotives.inference import Draws
from manymotives.models import RewardPolicyModel, Target
from manymotives.posterior.labelling.common import (
    coordinate_of,
    labelled_likelihood,
    names_of,
    sample_coordinates,
    stored_constants,
    tree_of,
)
from manymotives.posterior.labelling.made_up import made_up_draw
from manymotives.posterior.labelling.reward_policy import (
    cells_of,
    hyper_variables,
    labelled_prior,
    task_variables,
)


def label_switching(
    draws: Draws, model: RewardPolicyModel, target: Target, demonstrations: Demonstrations, seed: int
) -> xr.DataTree:
    """Draws in the ArviZ schema, motives as each draw has them."""
    assert draws.assignment is not None
    environment, names = target.environment, names_of(target.environment, demonstrations)
    chains, length = draws.tasks.shape[:2]
    log_prior = target.log_prior(
        draws.hyper.reshape(chains * length, *draws.hyper.shape[2:]),
        draws.tasks.reshape(chains * length, *draws.tasks.shape[2:]),
    ).reshape(chains, length)
    whose, shape = _whose(model, target), _shape(model, target)
    statistics: dict[str, Any] = {
        name: (("chain", *whose), values.reshape(chains, *shape).swapaxes(1, -1))
        for name, (_, values) in draws.statistics.items()
    }
    statistics["lp"] = (("chain", "draw"), log_prior + draws.assignment.log_likelihood.sum(axis=2))
    constants: dict[str, Any] = stored_constants(environment, None)
    for word, position, values in (
        ("inverse_temperature", target.layout.temperature, target.fixed_temperature),
        ("lapse", target.layout.lapse, target.fixed_lapse),
    ):
        if position < 0:
            constants[word] = ((), values[0]) if model.is_pooled else (("task",), values[: len(demonstrations.tasks)])
    by_episode = draws.assignment.episode_log_likelihood
    likelihood = labelled_likelihood(
        draws.assignment.log_likelihood, by_episode if by_episode.shape[2] else None, demonstrations, names
    )
    coordinates = {"task": names["task"], "motive": np.arange(shape[0])}
    groups = {
        "posterior": watched_switching(draws, model, target, demonstrations),
        "sample_stats": xr.Dataset(statistics, coords=coordinates | sample_coordinates(chains, length)),
        "log_likelihood": likelihood,
        "prior": labelled_prior(model, target, names, seed),
        "constant_data": xr.Dataset(
            constants,
            coords={name: names[name] for name in ("state", "action", *(() if model.is_pooled else ("task",)))},
        ),
    }
    return tree_of(groups, environment, demonstrations, seed)


def watched_switching(
    draws: Draws, model: RewardPolicyModel, target: Target, demonstrations: Demonstrations
) -> xr.Dataset:
    """What is to be said of the posterior, with its names: rewards of motives, and how agents switch between them."""
    assert draws.assignment is not None
    assert target.assignment is not None
    names, drawn, assignment = names_of(target.environment, demonstrations), draws.assignment, target.assignment
    num_motives = _shape(model, target)[0]
    chains, length = draws.tasks.shape[:2]
    made: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    whose = _whose(model, target)

    def add(name: str, values: np.ndarray, behind: tuple[str, ...], of_units: bool) -> None:
        """Values [chain, draw, K · U, ...] or [chain, draw, K, ...] under their name."""
        by_motive = values.reshape(chains, length, num_motives, -1, *values.shape[3:])
        if of_units:
            made[name] = (("chain", "draw", *whose, *behind), by_motive.swapaxes(2, 3))
        else:
            made[name] = (("chain", "draw", "motive", *behind), by_motive[:, :, :, 0])

    for name, (behind, values) in task_variables(target, draws.tasks).items():
        add(name, values, behind, of_units=not model.is_pooled)
    for name, (behind, values) in hyper_variables(target, draws.hyper).items():
        add(name, values, behind, of_units=model.is_separate)
    places, sizes = _contexts(model, target, len(demonstrations.tasks))
    rows = drawn.rows.reshape(chains, length, *sizes, num_motives + 1, num_motives)
    made["motive_transition"] = (("chain", "draw", *places, "motive", "next_motive"), rows[..., :-1, :])
    made["motive_start"] = (("chain", "draw", *places, "motive"), rows[..., -1, :])
    roots = ("task",) if model.is_separate else ()
    switching = model.switching
    assert switching is not None
    if target.assignment.tree.stickiness_family >= 0:
        made["stickiness"] = (("chain", "draw", *roots), drawn.stickiness if roots else drawn.stickiness[..., 0])
    if target.assignment.tree.concentration_family >= 0:
        for level, word in enumerate(assignment.levels):
            values = drawn.concentration[..., level]
            made[f"{word}_concentration"] = (("chain", "draw", *roots), values if roots else values[..., 0])
    made["motive_share"] = (
        ("chain", "draw", "task", "motive"),
        drawn.steps / np.maximum(drawn.steps.sum(axis=3, keepdims=True), 1),
    )
    made["switches"] = (("chain", "draw", "task"), drawn.switches)
    coordinates: dict[str, Any] = {name: names[name] for name in (*cells_of(target), "task")}
    coordinates |= {"motive": np.arange(num_motives), "next_motive": np.arange(num_motives)}
    if "state" in places:
        coordinates["state"] = names["state"]
    if target.num_weights:
        coordinates["feature"] = coordinate_of(model.reward.feature_names(target.num_weights))
    if any(block.over == "group" for block in target.blocks):
        coordinates["group"] = coordinate_of(target.groups)
    return xr.Dataset(made, coords=coordinates | sample_coordinates(chains, length))


def _whose(model: RewardPolicyModel, target: Target) -> tuple[str, ...]:
    """Whose rewards they are: of motives, of each task where tasks have their own."""
    return ("motive",) if model.is_pooled else ("task", "motive")


def _shape(model: RewardPolicyModel, target: Target) -> tuple[int, ...]:
    """[K], or [K, M]: how rows of coordinates are ordered."""
    assert target.assignment is not None
    count = target.assignment.num_motives
    return (count,) if model.is_pooled else (count, target.assignment.num_units)


def _contexts(model: RewardPolicyModel, target: Target, num_tasks: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Dimensions of what rows of motives depend on, and their lengths, in the order of contexts."""
    assert model.switching is not None
    found: list[tuple[str, int]] = []
    if model.switching.by == "state":
        found.append(("state", target.environment.num_states))
    if not model.is_pooled:
        found.insert(0 if model.is_separate else len(found), ("task", num_tasks))
    return tuple(word for word, _ in found), tuple(size for _, size in found)


def stored_dims(
    model: RewardPolicyModel, target: Target, demonstrations: Demonstrations, sizes: dict[str, int]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """The dimensions of every variable that a file must hold; their lengths go into `sizes`."""
    labelled = watched_switching(made_up_draw(target), model, target, demonstrations)
    sizes |= {
        word: size for word, size in labelled.sizes.items() if word in ("feature", "group", "motive", "next_motive")
    }
    found = {str(name): tuple(map(str, variable.dims)) for name, variable in labelled.data_vars.items()}
    known: dict[str, tuple[str, ...]] = {
        word: () if model.is_pooled else ("task",)
        for word, index in (("inverse_temperature", target.layout.temperature), ("lapse", target.layout.lapse))
        if index < 0
    }
    return {"posterior": found, "constant_data": known, "sample_stats": {"lp": ("chain", "draw")}}
