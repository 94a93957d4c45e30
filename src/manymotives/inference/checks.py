"""Checks of a method's settings."""

from dataclasses import fields
from typing import Any

import numpy as np

from manymotives.errors import InputError
from manymotives.models import Target

MAY_BE_ZERO = ("warmup",)


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
    known = {name: np.asarray(values) for name, values in arrays.items() if name in sizes}
    wrong = [name for name, values in known.items() if values.shape[1:] != sizes[name] or values.dtype.kind not in "if"]
    chosen = known.get("actions", np.zeros(1))
    if wrong or chosen.min() < 0 or chosen.max() >= actions:
        raise InputError(
            f"start cannot be gone on from: {(wrong or ['actions'])[0]!r} of its sampler does not fit this model and "
            "these data."
        )


def check_moves_rewards_alone(method: Any, target: Target) -> None:
    """Refuse a belief in the environment's place, and motives that switch: this method moves rewards alone."""
    if target.assignment is not None:
        raise InputError(
            f"{method!r} cannot infer when motives switch. HMC(), Gibbs() and Metropolis() can, on this machine's "
            "processors."
        )
    if target.belief is not None:
        raise InputError(
            f"{method!r} cannot infer an environment along with the rewards. HMC(), Gibbs() and Metropolis() can; or "
            "take its mean for granted: belief.mean, or --plug-in on the command line."
        )
