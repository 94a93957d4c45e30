"""What every baseline takes and returns: checked choices in, labelled policies out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from manymotives.data.alignment import aligned
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.environments import environment_of
from manymotives.data.labels import index_of
from manymotives.errors import InputError, quoted
from manymotives.models.target import checked_choices
from manymotives.planning.problem import allowed_actions
from manymotives.posterior.labelling.common import names_of


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The result of a baseline.

    Attributes
    ----------
    method
        The name of the method.
    policies
        π(a|s), (task, state, action). In terminal states the first action is a placeholder.
    rewards
        (task, state[, action]) if the method infers rewards, otherwise None.
    details
        Further results of the method, labelled.
    warnings
        Warnings about the data or the method.
    """

    method: str
    policies: xr.DataArray  # π(a|s), (task, state, action); the first action stands in where an episode has ended
    rewards: xr.DataArray | None  # (task, state[, action]), where the method infers them
    details: xr.Dataset  # what else the method can tell, labelled
    warnings: tuple[str, ...]  # what a careful statistician would tell you

    def __repr__(self) -> str:
        size = self.policies.sizes
        found = "policies" if self.rewards is None else "policies and rewards"
        first = (
            f"{self.method}: {found} of {size['task']} task{'s' if size['task'] > 1 else ''}, {size['state']} states"
        )
        more = [f"  details: {', '.join(map(str, self.details.data_vars))}"] if self.details.data_vars else []
        return "\n".join([first, *(f"  ! {warning}" for warning in self.warnings), *more])


@dataclass(frozen=True, eq=False)
class Problem:
    """Choices of M tasks in an environment that allows them."""

    environment: Environment
    demonstrations: Demonstrations
    counts: np.ndarray  # [M, S, A] floats
    starts: np.ndarray  # [M, S] where episodes begin
    seed: int

    @property
    def num_tasks(self) -> int:
        return len(self.counts)

    def streams(self) -> list[np.random.Generator]:
        """Task k draws from stream k of the seed, whatever stands beside it."""
        return [np.random.default_rng(child) for child in np.random.SeedSequence(self.seed).spawn(self.num_tasks)]

    def labelled(self, values: np.ndarray, *dims: str, **more: Any) -> xr.DataArray:
        """Values with the names of tasks, states, actions, and `more`."""
        names = names_of(self.environment, self.demonstrations) | more
        return xr.DataArray(values, dims=dims, coords={dim: names[dim] for dim in dims if dim in names})

    def result(
        self,
        method: str,
        policies: np.ndarray,
        rewards: np.ndarray | None = None,
        details: dict[str, xr.DataArray] | None = None,
        warnings: tuple[str, ...] = (),
    ) -> Result:
        on = () if rewards is None else ("state", "action")[: rewards.ndim - 1]
        return Result(
            method=method,
            policies=self.labelled(policies, "task", "state", "action").rename("policy"),
            rewards=None if rewards is None else self.labelled(rewards, "task", *on).rename("reward"),
            details=xr.Dataset(details or {}),
            warnings=(*self.demonstrations.warnings, *warnings),
        )

    def named(self, task: Any) -> str:
        """A task in a sentence."""
        return f"task {quoted(self.demonstrations.tasks[task])}"


def checked_problem(
    environment: Any, demonstrations: Any, *, seed: Any = 0, start: Any = None, may_pool: bool = True
) -> Problem:
    """The door to every baseline.

    `start` is where episodes begin: probabilities [S] or a mapping from names, or, where it is None, what the data say.
    """
    for word, value, kind in (
        ("environment", environment := environment_of(environment), Environment),
        ("demonstrations", demonstrations, Demonstrations),
    ):
        if not isinstance(value, kind):
            raise InputError(f"{word} must be mm.{kind.__name__}; found {type(value).__name__}.")
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0; found {quoted(seed)}.")
    counts = checked_choices(environment, demonstrations)
    silent = [task for task, made in zip(demonstrations.tasks, counts.sum(axis=(1, 2))) if made == 0]
    if silent:
        cure = " Leave them out, or pool all tasks: demonstrations.pooled()." if may_pool else " Leave them out."
        listed = f"{', '.join(map(quoted, silent[:5]))}{' …' if len(silent) > 5 else ''}"
        raise InputError(f"no choices were recorded for {listed}: a baseline has nothing to learn from.{cure}")
    return Problem(environment, demonstrations, counts, _starts(environment, demonstrations, start), int(seed))


def _starts(environment: Environment, demonstrations: Demonstrations, start: Any) -> np.ndarray:
    num_tasks, num_states = demonstrations.num_tasks, environment.num_states
    if start is not None:
        told = f"start must be {num_states} probabilities, one for each state, that sum to 1."
        try:
            given = (
                np.zeros(num_states)
                if isinstance(start, Mapping)
                else np.array(aligned(start, "start", state=environment.states), dtype=float)
            )
            for name, probability in start.items() if isinstance(start, Mapping) else ():
                given[index_of(name, environment.states, "state")] = probability
        except InputError:
            raise
        except (TypeError, ValueError):
            raise InputError(told) from None
        if given.shape != (num_states,) or not (given >= 0).all() or abs(given.sum() - 1) > 1e-6:
            raise InputError(told)
        return np.tile(given / given.sum(), (num_tasks, 1))
    first = np.append(True, np.diff(demonstrations.episode) != 0)  # a gap is no beginning
    begun = np.zeros((num_tasks, num_states))
    np.add.at(begun, (demonstrations.task[first], demonstrations.state[first]), 1.0)
    return begun / np.maximum(begun.sum(axis=1, keepdims=True), 1.0)


def demonstrated_policies(problem: Problem, smoothing: float) -> np.ndarray:
    """What the choices themselves say, [M, S, A]: (n(s, a) + α) / (n(s) + α |A(s)|); evenly where nothing was seen."""
    allowed = allowed_actions(problem.environment)
    weights = np.where(allowed, problem.counts + smoothing, 0.0)
    total = weights.sum(axis=-1, keepdims=True)
    return np.where(total > 0, weights / np.where(total > 0, total, 1.0), allowed / allowed.sum(axis=-1, keepdims=True))


def listed(items: list[str], most: int = 3) -> str:
    """Some of many, in a sentence."""
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")


def checked_number(value: Any, word: str, *, least: float = 0.0, above: bool = False, most: float = np.inf) -> float:
    """A finite number in a range."""
    fits = isinstance(value, int | float | np.number) and not isinstance(value, bool) and np.isfinite(value)
    if not fits or value < least or value > most or (above and value == least):
        span = f"above {least:g}" if above else f"of at least {least:g}"
        span += f" and at most {most:g}" if np.isfinite(most) else ""
        raise InputError(f"{word} must be a number {span}; found {quoted(value)}.")
    return float(value)


def checked_count(value: Any, word: str, least: int = 1) -> int:
    """A whole number."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise InputError(f"{word} must be a whole number of at least {least}; found {quoted(value)}.")
    return int(value)
