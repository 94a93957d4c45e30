"""Checks of a method's settings."""

import json
from dataclasses import fields
from typing import Any

import numpy as np

from manymotives.errors import InputError
from manymotives.models import Target

MAY_BE_ZERO = ("warmup",)
MISSING = np.zeros((0, 0, 0))  # in place of an array: of no size that one could have


def checked_counts(method: Any, *names: str) -> None:
    """Refuse settings (all, or these) that are not whole numbers of at least 1."""
    for name in names or [field.name for field in fields(method)]:
        value = getattr(method, name)
        least = 0 if name in MAY_BE_ZERO else 1
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise InputError(
                f"{type(method).__name__}: {name} must be a whole number of at least {least}; found {value!r}."
            )


def check_state(arrays: dict[str, np.ndarray], target: Target) -> None:
    """Raise unless arrays have the sizes that compiled loops take for granted: a file can hold any."""
    tasks, states, actions = target.num_tasks, *target.environment.available.shape
    sizes = {
        "tasks": (tasks, target.num_coordinates),
        "hyper": (target.num_groups, target.num_hyper),
        "q": (tasks, states, actions),
        "value": (tasks, states),
        "actions": (tasks, states),
        "log_likelihood": (tasks,),
    }
    assignment = target.assignment
    if assignment is not None:
        count, nodes = assignment.num_motives, len(assignment.tree.parent)
        sizes |= {
            "motives_motive": (len(assignment.segments.state),),
            "motives_rows": (nodes, count + 1, count),
            "motives_stickiness": (assignment.num_roots,),
            "motives_concentration": (assignment.num_roots, len(assignment.levels)),
            "motives_use": (assignment.num_roots, count),
        }
    if target.effects is not None:
        size, spreads = target.effects.applies.shape, target.effects.has_slope.shape
        sizes |= {
            "effects_z": size,
            "effects_log_spread": spreads,
            "effects_width": (size[0] + spreads[0], size[1]),
            "effects_step_size": (),
        }
    if target.partitions is not None:
        sizes |= _mixture_sizes(target)
    needed = [name for name in sizes if name in arrays or name.startswith(("motives_", "effects_", "mixture_"))]
    known = {name: np.asarray(arrays.get(name, MISSING)) for name in needed}
    wrong = [name for name, values in known.items() if values.shape[1:] != sizes[name] or values.dtype.kind not in "if"]
    chosen = known.get("actions", np.zeros(1))
    if not wrong and (chosen.min() < 0 or chosen.max() >= actions):
        wrong = ["actions"]
    if not wrong and assignment is not None and not _are_motives(known, assignment.num_motives):
        wrong = ["motives_motive"]
    if not wrong and target.partitions is not None:
        wrong = _wrong_in_mixture(known, arrays, target.num_tasks)
    if wrong:
        raise InputError(
            f"start cannot be resumed: {wrong[0]!r} of its sampler does not fit this model and these data."
        )


def _are_motives(known: dict[str, np.ndarray], count: int) -> bool:
    """Whether these are motives, rows of probabilities, and numbers κ and ν, as compiled loops take for granted."""
    motive, rows = known["motives_motive"], known["motives_rows"]
    numbers = np.concatenate([known[f"motives_{word}"].ravel() for word in ("stickiness", "concentration", "use")])
    are_whole = motive.dtype.kind == "i" and bool(((motive >= 0) & (motive < count)).all())
    are_rows = bool(((rows > 0) & (rows <= 1)).all())
    return are_whole and are_rows and bool((np.isfinite(numbers) & (numbers >= 0)).all())


def check_no_partitions(method: Any, target: Target) -> None:
    """Refuse tasks that share motives."""
    if target.partitions is not None:
        raise InputError(f"{method!r} cannot infer which tasks share a motive, Mixture(). HMC() can, on the CPU.")


def _mixture_sizes(target: Target) -> dict[str, tuple[int, ...]]:
    """Of what a chain over partitions of tasks saves."""
    tasks, coordinates, rewards = target.num_tasks, target.num_coordinates, target.layout.num_rewards
    assert target.partitions is not None
    around = 0 if target.partitions.spread is None else rewards
    has_own = coordinates > rewards or around > 0
    sizes: dict[str, tuple[int, ...]] = {
        "label": (tasks,),
        "motives": (tasks, rewards),
        "rest": (tasks, coordinates - rewards),
        "away": (tasks, rewards),
        "hyper": (target.num_hyper,),
        "numbers": (4,),
        "information": (tasks, coordinates, coordinates) if has_own else (tasks, 0, 0),
        "centres": (tasks, rewards if has_own else 0),
        "linear": (tasks, around),
        "values": (tasks, around),
        "vectors": (tasks, around, around),
        "index": (),
        "reference_parameters": (coordinates, 2),
        "reference_rest": (tasks, coordinates - rewards),
    }
    return {f"mixture_{name}": size for name, size in sizes.items()}


def _wrong_in_mixture(known: dict[str, np.ndarray], arrays: dict[str, np.ndarray], num_tasks: int) -> list[str]:
    """The array that is not one of motives numbered 0, 1, …, of finite numbers, of sets of tasks, or of streams."""
    label, numbers = known["mixture_label"], known["mixture_numbers"]
    if any(not np.array_equal(np.unique(each), np.arange(len(np.unique(each)))) for each in label):
        return ["mixture_label"]
    for name, values in known.items():
        if name != "mixture_numbers" and name.startswith("mixture_") and not np.isfinite(values).all():
            return [name]
    if np.isnan(numbers).any() or not (numbers[:, [0, 2, 3]] > 0).all():
        return ["mixture_numbers"]
    if (known["mixture_values"] < 0).any():
        return ["mixture_values"]
    for name, check in (("mixture_refreshed", _check_sets), ("mixture_stream", _check_stream)):
        try:
            for text in np.asarray(arrays[name], dtype=str).reshape(len(label)):
                check(json.loads(str(text)), num_tasks)
        except (AttributeError, KeyError, TypeError, ValueError):
            return [name]
    return []


def _check_sets(seeds: Any, num_tasks: int) -> None:
    """Raise unless these are sets of tasks, as bytes, each with a seed, or none where it was not refreshed."""
    for members, seed in seeds.items():
        tasks = np.frombuffer(bytes.fromhex(members), dtype=np.int64)
        is_seed = seed is None or (isinstance(seed, int) and seed >= 0)
        if not is_seed or not len(tasks) or tasks.min() < 0 or tasks.max() >= num_tasks:
            raise ValueError(members)


def _check_stream(state: Any, num_tasks: int) -> None:
    """Raise unless this is the state of a random number generator."""
    np.random.default_rng(0).bit_generator.state = state


def check_moves_rewards_alone(method: Any, target: Target) -> None:
    """Refuse a belief in the environment's place, and motives that switch: this method moves rewards alone."""
    check_no_partitions(method, target)
    if target.assignment is not None:
        raise InputError(
            f"{method!r} cannot infer when motives switch. HMC(), Gibbs() and Metropolis() can, on the CPU; "
            "EmpiricalBayes() finds one mode."
        )
    if target.effects is not None:
        raise InputError(
            f"{method!r} cannot infer effects of covariates. HMC(), Gibbs() and Metropolis() can, on the CPU."
        )
    if target.belief is not None:
        raise InputError(
            f"{method!r} cannot infer an environment together with the rewards. HMC(), Gibbs() and Metropolis() "
            "can; or take its mean as known: belief.mean, or --plug-in on the command line."
        )
