"""Point estimates in, what is published of them out: a table with standard errors, information criteria, and a test.

Estimates are kept in the coordinates of the target with their covariance. Standard errors of what a user reads follow
by the delta method; intervals are computed where the parameter has no bounds (logarithms of inverse temperatures,
logits of lapse rates, discounts and bounded rewards) and transformed back, so that they stay within its range.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from manymotives.errors import InputError
from manymotives.inference.draws import EstimateDraws
from manymotives.models import Target
from manymotives.models.rewards import LINEAR

GROUP = "estimate"  # of a file
DIMS = {"coordinates": ("estimated", "coordinate"), "covariance": ("estimated", "coordinate", "other_coordinate")}


@dataclass(frozen=True)
class FittedMaximum:
    """What a search for the maximum found, over all tasks."""

    criterion: str  # "likelihood" or "posterior"
    log_likelihood: float
    num_parameters: int
    num_choices: int  # made where there were two or more actions
    converged: bool  # of all tasks
    gradient_norm: float  # the largest of any task, of the objective per unit of log-odds
    iterations: int  # the most of any task
    by_task: pd.DataFrame = field(repr=False)  # the same of each task

    @property
    def aic(self) -> float:
        """2 × parameters − 2 × log likelihood; NaN at a mode of the posterior, which does not maximise the latter."""
        return 2 * self.num_parameters - 2 * self.log_likelihood if self.criterion == "likelihood" else float("nan")

    @property
    def bic(self) -> float:
        """log(choices) × parameters − 2 × log likelihood; NaN at a mode of the posterior."""
        penalty = float(np.log(self.num_choices)) * self.num_parameters
        return penalty - 2 * self.log_likelihood if self.criterion == "likelihood" else float("nan")


def labelled_estimate(estimate: EstimateDraws) -> xr.Dataset:
    """As a group of a file."""
    return xr.Dataset({name: (DIMS.get(name, ("estimated",)), values) for name, values in estimate._asdict().items()})


def stored_dims_of_estimate(target: Target, sizes: dict[str, int]) -> dict[str, tuple[str, ...]]:
    """The dimensions of that group's variables; their lengths go into `sizes`."""
    sizes |= {"estimated": target.num_tasks}
    sizes |= dict.fromkeys(("coordinate", "other_coordinate"), target.num_coordinates)
    return {name: DIMS.get(name, ("estimated",)) for name in EstimateDraws._fields}


def has_estimate(data: xr.DataTree) -> bool:
    """Whether a posterior is made of draws around a point estimate."""
    return json.loads(data.attrs["method"])["kind"] == "MaximumLikelihood"


def stored_estimate(posterior: Any) -> EstimateDraws:
    """Estimates of a posterior, if it has any."""
    if not has_estimate(posterior.data):
        kind = json.loads(posterior.data.attrs["method"])["kind"]
        raise InputError(
            f"this posterior was made by {kind}(), which draws from the posterior: to_frame() has means and intervals. "
            "Estimates with standard errors are made by method=mm.MaximumLikelihood()."
        )
    stored = posterior.data[GROUP].dataset
    return EstimateDraws(*(stored[name].values for name in EstimateDraws._fields))


def estimates_table(posterior: Any, level: float) -> pd.DataFrame:
    """One row for each task and parameter."""
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1; found {level!r}.")
    estimate, target = stored_estimate(posterior), posterior.target
    width = float(stats.norm.ppf(0.5 + level / 2))
    rows = []
    for number, (task, covariance) in enumerate(zip(target.tasks, estimate.covariance)):
        for one in natural_parameters(target, estimate.coordinates[number], number):
            error = float(np.sqrt(max(one.slope @ covariance @ one.slope, 0.0)))
            lower, upper = _interval(one, error, width)
            rows.append(
                {
                    "task": task,
                    "kind": one.kind,
                    "parameter": one.name,
                    "estimate": one.value,
                    "standard_error": error,
                    "z": one.value / error if one.scale == "real" and error > 0 else float("nan"),
                    "lower": lower,
                    "upper": upper,
                }
            )
    return pd.DataFrame(rows)


class NaturalParameter(NamedTuple):
    """A parameter as users read it, of one task."""

    kind: str  # "weight", "reward", "inverse_temperature", "lapse", "discount"
    name: Any
    value: float
    slope: np.ndarray  # [D] its derivatives in the coordinates
    scale: str  # "real", "positive" or "unit": where it lies


def natural_parameters(target: Target, u: np.ndarray, task: int) -> Iterator[NaturalParameter]:
    """Every parameter of a task with coordinates u [D]; residuals of features are left out."""
    layout, size, eye = target.layout, len(u), np.eye(len(u))
    if target.num_weights:
        for k in range(target.num_weights):
            yield NaturalParameter("weight", target.names[k], float(u[k]), eye[k], "real")
    else:
        rewards = target.rewards(u[None])
        slopes = np.zeros((rewards.size, size))
        slopes[:, : layout.num_rewards] = target.reward_derivatives(u[None], rewards)[0]
        is_smooth = layout.features.exist and not target.has_shared_rewards  # weights of eigenvectors mean little
        cells = np.arange(rewards.size) if is_smooth else layout.reward_index
        names = target.environment.states if is_smooth else target.names
        scale = "real" if layout.link == LINEAR else "unit"
        for name, cell in zip(names, cells):
            label = "–".join(map(str, name)) if target.on == "state_action" else name
            yield NaturalParameter("reward", label, float(rewards.ravel()[cell]), slopes[cell], scale)
    owner = np.array([task])
    discounts = target.discounts(u[None], owner)
    for word, index, values, scale in (
        ("discount", layout.discount, discounts, "unit"),
        ("inverse_temperature", layout.temperature, target.temperatures(u[None], owner), "positive"),
        ("lapse", layout.lapse, target.lapses(u[None], owner), "unit"),
    ):
        if index >= 0 and values is not None:
            value = float(values[0])
            yield NaturalParameter(word, word, value, eye[index] * value * (1 - value * (scale == "unit")), scale)


def _interval(one: NaturalParameter, error: float, width: float) -> tuple[float, float]:
    """Bounds of a confidence interval that stay within the parameter's range."""
    value = one.value
    if one.scale == "positive" and value > 0:
        factor = float(np.exp(width * error / value))
        return value / factor, value * factor
    if one.scale == "unit" and 0 < value < 1:
        logit, spread = np.log(value / (1 - value)), width * error / (value * (1 - value))
        return float(1 / (1 + np.exp(spread - logit))), float(1 / (1 + np.exp(-spread - logit)))
    return value - width * error, value + width * error


def fitted_maximum(posterior: Any) -> FittedMaximum:
    """What the search found."""
    estimate, target = stored_estimate(posterior), posterior.target
    choices = target.counts[:, target.environment.available.sum(axis=1) > 1].sum(axis=(1, 2))
    by_task = pd.DataFrame(
        {
            "task": target.tasks,
            "log_likelihood": estimate.log_likelihood,
            "num_parameters": estimate.num_parameters,
            "num_choices": choices.astype(int),
            "converged": estimate.converged.astype(bool),
            "gradient_norm": estimate.gradient_norm,
            "iterations": estimate.iterations,
            "starts_agreeing": estimate.starts_agreeing,
        }
    )
    return FittedMaximum(
        criterion=json.loads(posterior.data.attrs["method"])["criterion"],
        log_likelihood=float(estimate.log_likelihood.sum()),
        num_parameters=int(estimate.num_parameters.sum()),
        num_choices=int(choices.sum()),
        converged=bool(estimate.converged.all()),
        gradient_norm=float(estimate.gradient_norm.max()),
        iterations=int(estimate.iterations.max()),
        by_task=by_task,
    )
