"""Is a chain's state consistent? Its log-likelihoods against a recomputation from its coordinates, and u = a + b z.

Ranks and R-hat cannot see a chain that left the posterior for good, with all others or alone: these checks can. They
are made at the end of a run of chains. What they find is a mistake in this library, never a user's.
"""

from typing import Any

import numpy as np

from manymotives.families import LOG_NORMAL, NORMAL
from manymotives.models import Target

ROUNDING = 1e-9  # of log-likelihoods, relative to their size …
PLANNING = 1e-8  # … and of the values they come from: planners stop there


class InconsistentChainError(RuntimeError):
    """A chain's state contradicts itself: a mistake in this library."""


def standardised_coordinates(target: Target, tasks: np.ndarray, hyper: np.ndarray) -> np.ndarray:
    """z [M, D] with u = a + b z, of location–scale families; 0 for others, and where u is a but for rounding."""
    a, b, is_scaled = _parameters(target, hyper)
    off = np.where(np.abs(tasks - a) > 4 * np.spacing(np.maximum(np.abs(tasks), np.abs(a))), tasks - a, 0.0)
    return np.where(is_scaled, off / np.where(is_scaled, b, 1.0), 0.0)


def is_standardised(target: Target, state: Any) -> bool:
    """Whether u = a + b z holds but for rounding, where it should."""
    a, b, is_scaled = _parameters(target, state.hyper)
    u, deviation = state.tasks, np.where(is_scaled, b * state.task_z, 0.0)
    size = np.abs(a) + np.abs(deviation) + np.abs(u)
    return bool((np.abs(a + deviation - u) <= ROUNDING * size)[:, is_scaled].all())


def check_consistent(target: Target, state: Any, environment: Any = None, offset: Any = 0.0) -> None:
    """Refuse a state whose log-likelihoods are above 0, not finite, or not those of its coordinates.

    `offset`: what covariates add to these before choices see them.
    """
    tasks, owner, found = state.tasks, np.arange(target.num_tasks), state.log_likelihood
    if not (np.isfinite(tasks).all() and np.isfinite(state.hyper).all()):
        raise _mistake("a coordinate is not finite")
    if not np.isfinite(target.log_prior(state.hyper[None], tasks[None])).all():
        raise _mistake("the prior density is not finite where it is")
    if not np.isfinite(found).all() or (found > 0.0).any():
        m = int(np.flatnonzero(~np.isfinite(found) | (found > 0.0))[0])
        raise _mistake(f"the log likelihood of the choices of {target.tasks[m]!r} is {found[m]}, not a number up to 0")
    if not is_standardised(target, state):
        raise _mistake("a reward or temperature differs from what its population and its z make it")
    u = tasks + offset
    again = target.log_likelihood(u, owner, environment)
    error = target.felt_temperatures(u, owner) * target.counts.sum(axis=(1, 2)) * np.abs(state.value).max(axis=1)
    wrong = ~(np.abs(again - found) <= ROUNDING * (1.0 + np.abs(found)) + PLANNING * error)
    if wrong.any():
        m = int(np.flatnonzero(wrong)[0])
        raise _mistake(
            f"the log likelihood of the choices of {target.tasks[m]!r} is {again[m]:.10g}, but {found[m]:.10g} is noted"
        )


def _parameters(target: Target, hyper: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """a and b [M, D] of the tasks' coordinates, and which [D] are of location–scale families."""
    parameters = target.parameters(hyper)[target.group]
    return parameters[..., 0], parameters[..., 1], np.isin(target.layout.families, (NORMAL, LOG_NORMAL))


def _mistake(what: str) -> InconsistentChainError:
    return InconsistentChainError(
        f"the state of a chain is inconsistent: {what}. This is a bug in manymotives, and none of the draws can "
        "be trusted; please report it with the model and the seed."
    )
