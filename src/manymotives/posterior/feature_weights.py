"""The posterior of a model whose rewards are weighted features in; tables of the weights out.

Choices tell c·w, the weights times the inverse temperature: log-odds. Where c is known the weights are known up to that
unit; where it is inferred too, only the product is learnt from choices, and the priors alone tell its factors apart.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from manymotives.data.labels import Label
from manymotives.errors import InputError
from manymotives.models.moments import family_moments, weight_moments
from manymotives.posterior.effects import reference_said
from manymotives.posterior.tables import contrasts_of, described, p_highest, rounded, selected, tidy


def weights_table(
    posterior: Any,
    contrasts: str | None,
    tasks: Sequence[Label] | None,
    features: Sequence[Label] | None,
    canonical: bool,
    level: float,
) -> pd.DataFrame:
    """One row for each task and feature, or for each pair of tasks or features (see `Posterior.to_frame`)."""
    every = posterior.weights * posterior.inverse_temperatures if canonical else posterior.weights
    every = selected(every, "feature", features).stack(sample=("chain", "draw"))
    weight = selected(every, "task", tasks)
    if contrasts is not None:
        return contrasts_of(weight, [contrasts], level)
    table = described(weight, level)
    table["p_positive"] = (weight > 0).mean("sample")
    if not posterior.model.is_pooled and every.sizes["task"] > 1:
        table["p_highest"] = p_highest(every)  # also of those that are not shown
    table["prior_mean"], table["prior_sd"] = prior_of_weights(posterior, canonical)
    return tidy(table, ["task", "feature"])


def prior_of_weights(posterior: Any, canonical: bool) -> tuple[xr.DataArray, xr.DataArray]:
    """Mean and sd of each task's weights before the data: exact if they have a closed form, otherwise from draws."""
    known, features = weight_moments(posterior.target), posterior.data["posterior"].dataset["feature"]
    if known is None or (canonical and "inverse_temperature" in posterior.data["prior"].dataset):
        return rounded(prior_weights(posterior, canonical), "draw")
    unit = posterior.inverse_temperatures.isel(chain=0, draw=0, drop=True)
    coordinates = {"task": unit["task"], "feature": features}
    shape = (len(posterior.tasks), len(features))
    mean, sd = (
        xr.DataArray(np.broadcast_to(each[:, : len(features)], shape), dims=("task", "feature"), coords=coordinates)
        for each in (known.mean, np.sqrt(known.variance))
    )
    return (mean * unit, sd * unit) if canonical else (mean, sd)


def prior_weights(posterior: Any, canonical: bool = False) -> xr.DataArray:
    """Draws (draw, feature) of a task's weights before the data; with tasks behind where known temperatures differ."""
    prior = posterior.data["prior"].dataset
    weight = prior["weight"].isel(chain=0, drop=True)
    if not canonical:
        return weight
    if "inverse_temperature" in prior:
        return weight * prior["inverse_temperature"].isel(chain=0, drop=True)
    return weight * posterior.inverse_temperatures.isel(chain=0, draw=0, drop=True)


def population_weights(posterior: Any, level: float = 0.95) -> pd.DataFrame:
    """Mean and scale (standard deviation between tasks) of each weight in a hierarchical population.

    Columns: feature, parameter ("mean" or "scale"), mean, sd, lower, upper, prior_mean, prior_sd; a parameter that was
    given as a number has an sd of 0. With covariates, `reference` names the subjects to whom the mean applies.
    """
    after, _ = population_draws(posterior)
    table = described(after.stack(sample=("chain", "draw")), level)
    table["prior_mean"], table["prior_sd"] = prior_of_population(posterior, after)
    found, reference = tidy(table, ["feature", "parameter"]), reference_said(posterior)
    if reference:
        found["reference"] = np.where(found["parameter"] == "mean", reference, "")
    return found


def prior_of_population(posterior: Any, like: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Exact mean and sd (feature, parameter) of the mean and the scale of weights between tasks, before the data."""
    layout, size = posterior.target.layout, like.sizes["feature"]
    hyper = family_moments(layout.hyper_families, layout.hyper_constants)
    source, known = layout.source[:size], layout.constants[:size]
    fixed = source < 0
    mean, variance = np.where(fixed, known, 0.0), np.zeros_like(known)
    mean[~fixed], variance[~fixed] = hyper.mean[source[~fixed]], hyper.variance[source[~fixed]]
    coordinates = {name: like[name] for name in ("feature", "parameter")}
    made = [xr.DataArray(each, dims=("feature", "parameter"), coords=coordinates) for each in (mean, np.sqrt(variance))]
    return made[0], made[1]


def population_draws(posterior: Any) -> tuple[xr.DataArray, xr.DataArray]:
    """Draws of the mean and scale of weights between tasks (chain, draw, feature, parameter), and of their prior."""
    if not posterior.model.is_hierarchical:
        raise InputError(
            "weights have a population only under Hierarchical(); to_frame() has the weights of each task."
        )
    reward, weight = posterior.model.reward, posterior.weights.isel(task=0, drop=True)
    drawn, prior = posterior.data["posterior"].dataset, posterior.data["prior"].dataset.isel(chain=0, drop=True)

    def one(source: xr.Dataset, like: xr.DataArray, name: str) -> xr.DataArray:
        if f"reward_{name}" not in source:
            return xr.zeros_like(like) + np.asarray(getattr(reward, name), dtype=float)
        values = source[f"reward_{name}"]
        if "group" not in values.dims:
            return values
        begin = next(block.begin for block in posterior.target.blocks if block.name == f"reward_{name}")
        of_feature = posterior.target.layout.source[: like.sizes["feature"], ("mean", "scale").index(name)] - begin
        group = xr.DataArray(of_feature, dims="feature", coords={"feature": like["feature"]})
        return values.isel(group=group).drop_vars("group").transpose(..., "feature")

    def of(source: xr.Dataset, like: xr.DataArray) -> xr.DataArray:
        parts = [one(source, like, name) for name in ("mean", "scale")]
        return xr.concat(parts, pd.Index(["mean", "scale"], name="parameter"), coords="minimal", compat="override")

    return of(drawn, weight), of(prior, prior["weight"])
