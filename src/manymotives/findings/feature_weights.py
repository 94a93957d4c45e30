"""What each feature is worth: weights of the population and of every task, before and after the data; who differs.

Choices tell c·w, the weight times the inverse temperature. Where c is known, weights w are shown as they are; where it
is inferred too, c·w is shown, in log-odds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from manymotives.errors import InputError
from manymotives.findings.learning import NOISE, SETTLED, UNMOVED, largest_shift
from manymotives.findings.sample import check_one_motive, thinned
from manymotives.models.model import EVERYBODY
from manymotives.models.priors import Prior
from manymotives.posterior import Posterior
from manymotives.posterior.effects import reference_said
from manymotives.posterior.feature_weights import (
    population_draws,
    prior_of_population,
    prior_of_weights,
    prior_weights,
)

POPULATION_MEAN = "population mean"
DRAWS = 4000
COMPARED = 100  # tasks compared with each other, those with the most choices


@dataclass(frozen=True, eq=False)
class FeatureWeights:
    """Weights of features [who, features] with 95 % intervals, and their differences between tasks."""

    features: tuple[str, ...]
    who: tuple[str, ...]  # the tasks, or "everybody"
    is_product: bool  # whether these are weights times the inverse temperature, which is inferred
    mean: np.ndarray
    sd: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    positive: np.ndarray  # P(weight > 0)
    shift: np.ndarray  # largest change of a probability, as in `learning`
    prior: pd.DataFrame  # by feature: mean, sd, lower, upper, of a task's weight before the data
    average_name: str | None  # POPULATION_MEAN, with the reference of covariates; "mean of the subjects" without it
    average: pd.DataFrame  # by feature: mean, sd, lower, upper, p_positive, and prior_*: NaN where it has no prior
    spread: pd.DataFrame  # the same of the standard deviation between tasks
    highest: np.ndarray  # P(weight is the highest of all tasks)
    above_average: np.ndarray  # P(weight > average); [0, features] where there is no average
    compared: np.ndarray  # [n] which of `who` are compared with each other
    above: np.ndarray  # [features, n, n] P(weight of the first > weight of the second)
    limit: float  # of a shift, below which nothing counts as learnt

    def __repr__(self) -> str:
        what = "Weights × inverse temperature" if self.is_product else "Weights"
        table = self.to_frame().round(3).to_string(index=False, max_rows=20, max_cols=9)
        return f"{what} of {len(self.features)} features:\n\n{table}"

    @property
    def unmoved(self) -> np.ndarray:
        """[who, features] whether the data left this weight as it was."""
        return self.shift < self.limit

    @property
    def differ(self) -> np.ndarray:
        """[features, n, n] whether the order of two tasks has a probability of at least 95 %."""
        apart = (self.above >= SETTLED) | (self.above <= 1 - SETTLED)
        return apart & ~np.eye(len(self.compared), dtype=bool)

    def to_frame(self) -> pd.DataFrame:
        """One row for each of `who` and each feature."""
        count = len(self.features)
        table = pd.DataFrame({"who": np.repeat(self.who, count), "feature": np.tile(self.features, len(self.who))})
        for name in ("mean", "sd", "lower", "upper"):
            table[name] = getattr(self, name).ravel()
        table["p_positive"], table["p_highest"] = self.positive.ravel(), self.highest.ravel()
        if len(self.above_average):
            table["p_above_average"] = self.above_average.ravel()
        for name in ("mean", "sd", "lower", "upper"):
            table[f"prior_{name}"] = np.tile(self.prior[name].to_numpy(), len(self.who))
        return table.assign(shift=self.shift.ravel())

    def differences(self) -> pd.DataFrame:
        """Pairs of tasks in each feature, the higher weight first, with the probability of that order; surest first."""
        first, second = np.triu_indices(len(self.compared), k=1)
        frames = []
        for number, name in enumerate(self.features):
            above = self.above[number, first, second]
            high, low = np.where(above >= 0.5, first, second), np.where(above >= 0.5, second, first)
            mean = self.mean[self.compared, number]
            frames.append(
                pd.DataFrame(
                    {
                        "feature": name,
                        "task": [self.who[self.compared[i]] for i in high],
                        "other_task": [self.who[self.compared[i]] for i in low],
                        "difference": mean[high] - mean[low],
                        "probability": np.maximum(above, 1 - above),
                    }
                ).sort_values(["probability", "difference"], ascending=False, kind="stable")
            )
        return pd.concat(frames, ignore_index=True)


def feature_weights(posterior: Any, draws: int = DRAWS) -> FeatureWeights:
    """The weights of features, of the population and of each task.

    Parameters
    ----------
    posterior
        A posterior, from `fit` or `load`.
    draws
        The largest number of draws to use, evenly spaced.

    Returns
    -------
    FeatureWeights
        Weights of the population and of each task; `differences()` between tasks.
    """
    if not isinstance(posterior, Posterior) or not posterior.has_features:
        raise InputError("the rewards of this model are not made of features, so there are no weights to show.")
    check_one_motive(posterior)
    few: Any = thinned(posterior, draws)
    is_product = isinstance(posterior.model.inverse_temperature, Prior)
    pooled = posterior.model.is_pooled
    values = few.weights * few.inverse_temperatures if is_product else few.weights
    after = values.stack(sample=("chain", "draw")).transpose("sample", "task", "feature").values
    after = after[:, :1] if pooled else after
    prior = prior_weights(few, is_product)
    before = prior.transpose("draw", "feature").values
    average, average_prior, spread, spread_prior = _population(few, after, is_product)
    has_population = average_prior is not None
    names = tuple(name if isinstance(name, str) else f"feature {name}" for name in values["feature"].values.tolist())
    counts = posterior.data["observed_data"].dataset["counts"].values.sum(axis=(1, 2))
    compared = np.sort(np.argsort(-counts, kind="stable")[:COMPARED]) if after.shape[1] > 1 else np.arange(0)
    lower, upper = np.quantile(after, [0.025, 0.975], axis=0)
    ordered = np.sort(before, axis=0)
    shift = [[largest_shift(after[:, m, k], ordered[:, k]) for k in range(len(names))] for m in range(after.shape[1])]
    return FeatureWeights(
        features=names,
        who=(EVERYBODY,) if pooled else tuple(str(task) for task in posterior.tasks),
        is_product=is_product,
        mean=after.mean(axis=0),
        sd=after.std(axis=0),
        lower=lower,
        upper=upper,
        positive=(after > 0).mean(axis=0),
        highest=(after == after.max(axis=1, keepdims=True)).mean(axis=0),
        shift=np.array(shift),
        prior=_prior(few, _rows(before, None, names)[["mean", "sd", "lower", "upper"]], is_product),
        average_name=None
        if average is None
        else (_population_mean(posterior) if has_population else "mean of the subjects"),
        average=_prior_of(few, _rows(average, average_prior, names), "mean" if has_population else None),
        spread=_prior_of(few, _rows(spread, spread_prior, names), "scale" if has_population else None),
        above_average=np.zeros((0, len(names))) if average is None else (after > average[:, None]).mean(axis=0),
        compared=compared,
        above=_above(after[:, compared]),
        limit=max(UNMOVED, NOISE * float(np.sqrt(1 / len(after) + 1 / len(before)))),
    )


def _population_mean(posterior: Any) -> str:
    """What the population's parameter is called: with covariates, it is that of the reference."""
    reference = reference_said(posterior)
    return f"{POPULATION_MEAN} at {reference}" if reference else POPULATION_MEAN


def _population(few: Any, after: np.ndarray, is_product: bool) -> tuple[np.ndarray | None, ...]:
    """Draws [draws, features] of the average of tasks and of their spread, each with its prior's.

    A hierarchical population has both as parameters, of weights. Otherwise they are those of the tasks there are.
    """
    if few.model.is_hierarchical and not is_product:
        drawn, prior = population_draws(few)
        own = drawn.stack(sample=("chain", "draw")).transpose("parameter", "sample", "feature").values
        before = prior.transpose("parameter", "draw", "feature").values
        return own[0], before[0], own[1], before[1]
    if after.shape[1] < 2:
        return None, None, None, None
    return after.mean(axis=1), None, after.std(axis=1, ddof=1), None


def _rows(draws: np.ndarray | None, prior: np.ndarray | None, names: tuple[str, ...]) -> pd.DataFrame:
    """Draws [draws, features] described, one row a feature; empty where there are none."""
    if draws is None:
        return pd.DataFrame(columns=["mean", "sd", "lower", "upper", "p_positive"])
    table = pd.DataFrame(index=pd.Index(names, name="feature"))
    for begin, values in (("", draws), ("prior_", prior)):
        given = np.full((1, len(names)), np.nan) if values is None else values
        lower, upper = np.quantile(given, [0.025, 0.975], axis=0)
        for name, found in (
            ("mean", given.mean(axis=0)),
            ("sd", given.std(axis=0)),
            ("lower", lower),
            ("upper", upper),
        ):
            table[f"{begin}{name}"] = found
    table["p_positive"] = (draws > 0).mean(axis=0)
    return table


def _prior(few: Any, table: pd.DataFrame, is_product: bool) -> pd.DataFrame:
    """Of any task's weights before the data, with exact moments where there are any; tails are from draws."""
    mean, sd = prior_of_weights(few, False)
    if is_product or "task" not in mean.dims:
        return table
    return table.assign(mean=mean.mean("task").values, sd=np.sqrt((sd**2).mean("task").values))


def _prior_of(few: Any, table: pd.DataFrame, parameter: str | None) -> pd.DataFrame:
    """The same of a parameter of the population."""
    if parameter is None:
        return table
    exact = (each.sel(parameter=parameter).values for each in prior_of_population(few, population_draws(few)[0]))
    return table.assign(**dict(zip(("prior_mean", "prior_sd"), exact)))


def _above(values: np.ndarray) -> np.ndarray:
    """[features, n, n] how often the first is above the second, of draws [draws, n, features]."""
    count, num_features = values.shape[1:]
    total = np.zeros((num_features, count, count))
    for draw in values:
        total += draw.T[:, :, None] > draw.T[:, None, :]
    return total / len(values)
