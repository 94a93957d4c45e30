"""How well do choices tell one number, such as the discount? Held at each value of a grid, with all else inferred anew.

    likelihood   max over everything else of log p(choices | value, rest): the profile likelihood
    evidence     log ∫ p(choices | value, rest) p(rest) d rest, by Laplace's approximation around its mode;
                 populations at their likeliest, as `EmpiricalBayes` has them

Values within 1.92 of the best, half the 95 % quantile of χ² with one degree of freedom, explain choices about as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.environments import environment_of
from manymotives.data.labels import Label, unknown_names
from manymotives.errors import InputError, quoted
from manymotives.families import NORMAL, log_density_all
from manymotives.inference import Progress
from manymotives.inference.empirical_bayes import climb
from manymotives.inference.existence import chart_of
from manymotives.inference.laplace import peaks
from manymotives.inference.maximisation import Objective, maximise
from manymotives.inference.maximum_likelihood import middle_of
from manymotives.inference.mcmc.chains import starting_point
from manymotives.inference.mcmc.evaluation import Evaluation
from manymotives.models import RewardPolicyModel, Target
from manymotives.planning.finite_horizon import checked_depth
from manymotives.planning.problem import check_known

PARAMETERS = ("discount", "depth", "inverse_temperature", "lapse")
CRITERIA = ("evidence", "likelihood")
DEPTHS = (1, 2, 3, 5, 10)  # steps ahead, unless others are asked for
DROP = 1.92  # half of 3.84
WEIGHT = "weight:"  # before the name of a feature
FLAT = 1e6  # the scale of a prior that says nothing


@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """The profile of one parameter; `mm.plots.profile` plots it."""

    parameter: str
    criterion: str  # "evidence" or "likelihood": what `relative` is of
    table: pd.DataFrame  # value, log_likelihood, log_evidence, relative, converged: one row a value

    @property
    def best(self) -> float:
        """The value of the grid that explains choices best."""
        return float(self.table["value"].to_numpy()[self.table["relative"].to_numpy().argmax()])

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Between which values the profile is within 1.92 of its largest, as far as the grid goes."""
        value, relative = self.table["value"].to_numpy(), self.table["relative"].to_numpy()
        inside = np.flatnonzero(relative >= -DROP)
        if self.parameter == "depth":  # between whole numbers there is nothing
            return float(value[inside[0]]), float(value[inside[-1]])
        ends = []
        for inner, outer in ((inside[0], inside[0] - 1), (inside[-1], inside[-1] + 1)):
            if not 0 <= outer < len(value) or not np.isfinite(relative[outer]):
                ends.append(float(value[inner]))
                continue
            share = (relative[inner] + DROP) / (relative[inner] - relative[outer])
            ends.append(float(value[inner] + share * (value[outer] - value[inner])))
        return ends[0], ends[1]

    @property
    def is_bounded(self) -> tuple[bool, bool]:
        """Whether choices exclude the smallest value of the grid, and the largest."""
        relative = self.table["relative"].to_numpy()
        below, above = bool(relative[0] < -DROP), bool(relative[-1] < -DROP)
        is_least = self.parameter == "depth" and self.table["value"].iloc[0] == 1  # there is no smaller one to exclude
        return below or (is_least and above), above

    @property
    def identified(self) -> bool:
        """Whether choices exclude values on both sides."""
        return all(self.is_bounded)

    def __str__(self) -> str:
        word, (low, high) = self.parameter.removeprefix(WEIGHT).replace("_", " "), self.interval
        article = "an" if word[0] in "aeiou" else "a"
        below, above = self.is_bounded
        if below and above and low == high:
            return f"The choices support {article} {word} of {low:.3g}."
        if below and above:
            return (
                f"The choices support {article} {word} from {low:.3g} to {high:.3g}; the best value is {self.best:.3g}."
            )
        if not below and not above:
            return (
                f"The {word} is not identified: every value from {low:.3g} to {high:.3g} explains the choices "
                "about equally well, with all other parameters inferred again."
            )
        bound = f"at least {low:.3g}" if below else f"at most {high:.3g}"
        end = f"{high:.3g}" if below else f"{low:.3g}"
        return (
            f"The choices support {article} {word} of {bound}; values up to the end of the grid, {end}, explain "
            "them as well."
        )

    __repr__ = __str__


def profile(
    model: RewardPolicyModel,
    environment: Environment | Mapping[Label, Environment],
    demonstrations: Demonstrations,
    parameter: str = "discount",
    grid: Sequence[float] | np.ndarray | None = None,
    *,
    criterion: str = "evidence",
    seed: int = 0,
    progress: bool | Progress = True,
) -> Profile:
    """Fix one parameter at each value of a grid, infer everything else again, and compare how well choices are
    explained.

    Parameters
    ----------
    model, environment, demonstrations
        As for `fit`.
    parameter
        "discount", "depth", "inverse_temperature" or "lapse", which is then the same for all tasks, whatever the model
        says about it. Or "weight:NAME", the weight of a feature, with criterion="likelihood".
    grid
        At least three increasing values. If None, .05, .1, …, .95, .99 for the discount, and 1, 2, 3, 5, 10 for the
        depth.
    criterion
        "evidence": all other parameters are integrated out, by a normal approximation around their mode. "likelihood":
        they are maximised, whatever their prior; for models in which only Gaussian rewards without hyperpriors remain
        to be inferred.
    seed
        As for `fit`.
    progress
        Whether to show a progress bar in a terminal or notebook.

    Returns
    -------
    Profile
        The `table` of values with how well each explains the choices; the `interval` of values that are about as good
        as the best; and whether the parameter is `identified`.
    """
    values = _checked(model, parameter, grid, criterion)
    place: Environment = environment_of(environment)
    check_known(place)
    bar = progress if isinstance(progress, Progress) else Progress(bool(progress))
    rows: list[dict[str, float]] = []
    before: np.ndarray | None = None
    with bar.of(len(values), "values") as report:
        if parameter.startswith(WEIGHT):
            rows = _rows_of_weight(model.bind(place, demonstrations), parameter.removeprefix(WEIGHT), values)
        for value in values[len(rows) :]:
            target = _held(model, parameter, float(value)).bind(place, demonstrations)
            row, before = _explained(target, before, criterion, seed)
            rows.append({"value": float(value)} | row)
            report.update(len(rows))
    table = pd.DataFrame(rows)
    column = table["log_evidence" if criterion == "evidence" else "log_likelihood"]
    table.insert(3, "relative", column - column.max())
    return Profile(parameter, criterion, table)


def _held(model: RewardPolicyModel, parameter: str, value: float) -> RewardPolicyModel:
    """The same model with a number for one parameter."""
    if parameter == "discount":
        return replace(model, discount=value)
    if parameter == "depth":
        return replace(model, depth=int(value))
    return replace(model, choice=replace(model.choice, **{parameter: value}))


def _explained(
    target: Target, before: np.ndarray | None, criterion: str, seed: int
) -> tuple[dict[str, float], np.ndarray]:
    """Log likelihood and evidence at the mode, and the mode [M, D]; `before`: that of the value before."""
    if criterion == "likelihood":
        _check_flat(target)
    owner, rng = np.arange(target.num_tasks), np.random.default_rng([seed, 3])
    if target.num_hyper:
        hyper, first = climb(target, seed, Progress(False))
    else:
        hyper, first, _ = starting_point(target, rng)
    parameters = target.parameters(hyper)[target.group].copy()
    if criterion == "likelihood":
        parameters[..., 1] = FLAT
    best: Any = None
    for start in [first] if before is None else [first, before]:
        peak = peaks(target, parameters, np.ascontiguousarray(start))
        likelihood = target.log_likelihood(peak.tasks, owner)
        prior = log_density_all(target.layout.families, peak.tasks, np.ascontiguousarray(parameters))
        height = float((likelihood + prior).sum())
        if best is None or height > best[0]:
            best = height, peak, float(likelihood.sum())
    height, peak, likelihood = best
    size = target.num_tasks * target.num_coordinates
    evidence = height + 0.5 * (size * np.log(2 * np.pi) + np.linalg.slogdet(peak.covariance)[1].sum())
    if target.num_hyper:
        constants = np.repeat(target.layout.hyper_constants[None], target.num_groups, axis=0)
        evidence += float(log_density_all(target.layout.hyper_families, np.ascontiguousarray(hyper), constants).sum())
    row = {
        "log_likelihood": likelihood,
        "log_evidence": float(evidence) if criterion == "evidence" else float("nan"),
        "converged": peak.converged,
    }
    return row, peak.tasks


def _rows_of_weight(target: Target, name: str, values: np.ndarray) -> list[dict[str, float]]:
    """The profile likelihood of a feature's weight: the rest is maximised by the searches of `MaximumLikelihood`."""
    names = [str(each) for each in target.names[: target.num_weights]]
    if name not in names:
        raise InputError(f"profile: {unknown_names([name], names, 'feature')}")
    _check_flat(target, allows_hyper=True)
    index, every, evaluation = names.index(name), np.arange(target.num_tasks), Evaluation(target)
    objective, before, rows = Objective(target, None, evaluation), middle_of(target, True), []
    for value in values:
        start = before.copy()
        start[:, index] = value
        chart, _ = chart_of(target, start, None, held=[index])
        found = maximise(objective, chart, start, every)
        before = found.u
        rows.append(
            {
                "value": float(value),
                "log_likelihood": float(found.value.sum()),
                "log_evidence": float("nan"),
                "converged": bool(found.converged.all()),
            }
        )
    return rows


def _check_flat(target: Target, *, allows_hyper: bool = False) -> None:
    """Refuse to maximise the likelihood alone where a maximum may lie at infinity, or a prior holds all together."""
    if (target.num_hyper and not allows_hyper) or not (target.layout.families == NORMAL).all():
        raise InputError(
            'profile: criterion="likelihood" is for models in which only Gaussian rewards or weights are inferred, '
            'without priors inside their prior. Use criterion="evidence".'
        )


def _checked(model: Any, parameter: Any, grid: Any, criterion: Any) -> np.ndarray:
    """The grid, if all this can be done."""
    if not isinstance(model, RewardPolicyModel):
        raise InputError(f"profile needs a RewardPolicyModel(...), not a {type(model).__name__}.")
    refused = {
        "motives that switch": model.switching is not None,
        "motives that tasks share": model.is_mixture,
        "covariates": model.has_covariates,
    }
    for what, is_so in refused.items():
        if is_so:
            raise InputError(f"profile cannot be computed for models with {what} yet. Leave them out.")
    for word, given, known in (("parameter", parameter, PARAMETERS), ("criterion", criterion, CRITERIA)):
        if word == "parameter" and isinstance(given, str) and given.startswith(WEIGHT):
            if criterion != "likelihood":
                raise InputError(f'profile: {quoted(given)} needs criterion="likelihood".')
            continue
        if given not in known:
            names = ", ".join(f'"{name}"' for name in known[:-1]) + f' or "{known[-1]}"'
            raise InputError(f"profile: {word} must be {names}; found {quoted(given)}.")
    if grid is None and parameter == "discount":
        return np.append(np.arange(1, 20) * 0.05, 0.99)
    grid = DEPTHS if grid is None and parameter == "depth" else grid
    try:
        values = np.asarray(grid, dtype=float)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != 1 or len(values) < 3 or not (np.diff(values) > 0).all():
        raise InputError(f"profile: grid must be at least three increasing numbers; found {quoted(grid)}.")
    for value in values if parameter == "depth" else ():
        checked_depth(int(value) if value.is_integer() else float(value), "profile: a depth")
    return values
