"""Is a model and method honest? Simulation-based calibration: fit data whose truth is known, many times.

If truth and data come from the model itself, then the truth is one more draw from the posterior: its rank among the
posterior's draws is uniform, for every quantity (Talts et al. 2018; Modrák et al. 2023). A sampler that is wrong, too
sure or too timid, or a prior other than the one the truth came from, shows as ranks that are not.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from manymotives.assessment.simulators import replications_of, tasks_with_covariates
from manymotives.data.belief import DynamicsBelief
from manymotives.data.environment import Environment
from manymotives.data.environments import environment_of
from manymotives.errors import InputError, quoted
from manymotives.execution import Job, Workers, compute, fingerprint_of
from manymotives.inference import Method
from manymotives.models import Model
from manymotives.posterior import Posterior


@dataclass(frozen=True, eq=False)
class Calibration:
    """The rank of the truth in each posterior, between 0 (below all draws) and 1 (above all draws)."""

    ranks: pd.DataFrame  # one row a replication, one column a quantity

    @property
    def p_values(self) -> pd.Series:
        """For each quantity, how often a calibrated sampler would look this far from uniform.

        The smaller, doubled, of two Kolmogorov–Smirnov tests: of the ranks, which sees bias, and of their distances
        from the middle, which sees posteriors that are too narrow or too wide.
        """
        found = {}
        for name, column in self.ranks.items():
            bias = stats.kstest(column, "uniform").pvalue
            width = stats.kstest(np.abs(2 * column - 1), "uniform").pvalue
            found[name] = min(1.0, 2 * min(bias, width))
        return pd.Series(found, name="p_value")

    @property
    def p_value(self) -> float:
        """Of all quantities together: the smallest times their number (Bonferroni)."""
        each = self.p_values
        return float(min(1.0, each.min() * len(each)))

    def __repr__(self) -> str:
        worst = self.p_values.sort_values().head(5)
        count, quantities = self.ranks.shape
        lines = [f"Calibration over {count} replications, {quantities} quantities: p = {self.p_value:.2g}"]
        return "\n".join(lines + [f"  {name}: p = {value:.2g}" for name, value in worst.items()])


def calibrate(
    model: Model,
    environment: Environment | DynamicsBelief | Mapping[Any, Environment],
    method: Method | None = None,
    *,
    tasks: int = 3,
    steps: int = 20,
    truth: Model | None = None,
    seeds: Sequence[int] = range(200),
    executor: Workers = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Calibration:
    """Simulation-based calibration: draw true parameters and data from a model, fit it, and rank the truth among the
    draws, many times.

    Parameters
    ----------
    model
        A `RewardPolicyModel`; or a `PolicyOptimalityModel`, which is calibrated given its set of rewards.
    environment
        The environment in which simulated agents act; or a belief, or several by name, as for `fit`.
    method
        The method to check; by default, that of `fit` for the model. Autocorrelated draws look over-confident, so thin
        them.
    tasks, steps
        The size of the simulated data. If the model has covariates, its tasks are those of their table.
    truth
        Another model of the same kind from which the truth is drawn, to find out what happens if the prior is wrong.
    seeds
        One seed for each replication. Two hundred replications detect a bias of about half a posterior standard
        deviation; detecting wrong widths needs more. `range(200, 400)` gives two hundred other replications.
    executor
        Where to compute: None, in threads of this process; a number of processes; the address of a Dask scheduler, such
        as "tcp://node1:8786"; or any `concurrent.futures.Executor`. The ranks do not depend on where they are computed.
    store
        A file to which the ranks of every replication are written as it is finished; the same call resumes from it.
    progress
        Whether to show a progress bar in a terminal or notebook.

    Returns
    -------
    Calibration
        The ranks of the truth for every quantity; `p_values` tests whether they are uniform.
    """
    kind = Posterior.kind_of(model)
    environment = environment_of(environment)
    if not isinstance(environment, Environment | DynamicsBelief):
        raise InputError(
            f"environment must be mm.Environment or mm.DynamicsBelief; found {type(environment).__name__}."
        )
    chosen = kind.default_method() if method is None else method
    if not isinstance(chosen, Method) or isinstance(chosen, type):
        raise InputError(f"{chosen!r} is not a method.")
    if not issubclass(model.target_type, chosen.target_type):
        raise InputError(f"{chosen!r} cannot fit a {type(model).__name__}.")
    source = model if truth is None else truth
    if type(source) is not type(model):
        raise InputError(f"truth must be a {type(model).__name__}, like the model, not a {type(source).__name__}.")
    for name, value in (("tasks", tasks), ("steps", steps)):
        if value < 1:
            raise InputError(f"{name} must be at least 1; found {value}.")
    numbers = _checked_seeds(seeds)
    if model.is_pooled:
        tasks = 1
    known = tasks_with_covariates(source) or tasks_with_covariates(model)
    tasks = len(known) or tasks
    setting = _Setting(model, source, environment, chosen, tasks, steps)
    fingerprint = fingerprint_of(setting)
    jobs = [
        Job("calibrate", f"task {task}", fingerprint, number, 0, _ranks, (setting, task), number)
        for number, task in zip(numbers, np.arange(len(numbers)) % tasks)
    ]
    found = compute(jobs, executor=executor, store=store, progress=progress)
    return Calibration(pd.DataFrame(list(found.values())))


@dataclass(frozen=True, eq=False)
class _Setting:
    """What all replications share."""

    model: Model
    source: Model
    environment: Environment | DynamicsBelief
    method: Method
    tasks: int
    steps: int


def _ranks(what: tuple[_Setting, int], seed: int) -> dict[str, float]:
    """Where the truth fell among the draws of one replication: of one task, and of what tasks share."""
    setting, task = what
    replication = replications_of(
        setting.model, setting.source, setting.environment, setting.method, setting.tasks, setting.steps
    )
    rng = np.random.default_rng([seed, 1])
    true, found = replication(rng, seed, int(task))
    return {name: _rank(found[name], true[name], rng) for name in found if name in true}


def _checked_seeds(seeds: Any) -> list[int]:
    """Whole numbers, each of them once."""
    listed = isinstance(seeds, Sequence) or (isinstance(seeds, np.ndarray) and seeds.ndim == 1)
    numbers = list(seeds) if listed else []
    whole = all(isinstance(n, int | np.integer) and not isinstance(n, bool) and n >= 0 for n in numbers)
    if not numbers or not whole or len(set(numbers)) < len(numbers):
        raise InputError(
            "seeds must be different whole numbers of at least 0, one for each replication, such as range(200); found "
            f"{quoted(seeds)}."
        )
    return [int(n) for n in numbers]


def _rank(draws: np.ndarray, truth: Any, rng: np.random.Generator) -> float:
    """Where the truth lies among draws, ties broken at random: uniform if it is one of them."""
    flat, value = draws.ravel(), float(np.ravel(truth)[0])
    below, equal = int((flat < value).sum()), int((flat == value).sum())
    return float((below + rng.random() * (equal + 1)) / (len(flat) + 1))
