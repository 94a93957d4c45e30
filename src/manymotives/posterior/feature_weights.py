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
from manymotives.posterior.tables import contrasts_of, described, selected, tidy


def weights_table(
    posterior: Any,
    contrasts: str | None,
    tasks: Sequence[Label] | None,
    features: Sequence[Label] | None,
    canonical: bool,
    level: float,
) -> pd.DataFrame:
    """One row for each task and feature, or for each pair of tasks or features (see `Posterior.to_frame`)."""
    weight = posterior.weights * posterior.inverse_temperatures if canonical else posterior.weights
    weight = selected(selected(weight, "task", tasks), "feature", features).stack(sample=("chain", "draw"))
    if contrasts is not None:
        return contrasts_of(weight, [contrasts], level)
    table = described(weight, level)
    table["p_positive"] = (weight > 0).mean("sample")
    prior = prior_weights(posterior, canonical)
    table["prior_mean"], table["prior_sd"] = prior.mean("draw"), prior.std("draw")
    return tidy(table, ["task", "feature"])


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
    given as a number has an sd of 0.
    """
    after, before = population_draws(posterior)
    table = described(after.stack(sample=("chain", "draw")), level)
    table["prior_mean"], table["prior_sd"] = before.mean("draw"), before.std("draw")
    return tidy(table, ["feature", "parameter"])


def population_draws(posterior: Any) -> tuple[xr.DataArray, xr.DataArray]:
    """Draws of the mean and scale of weights between tasks (chain, draw, feature, parameter), and of their prior."""
    if not posterior.model.is_hierarchical:
        raise InputError(
            "weights have a population only under Hierarchical(); to_frame() has the weights of each task."
        )
    reward, weight = posterior.model.reward, posterior.weights.isel(task=0, drop=True)
    drawn, prior = posterior.data["posterior"].dataset, posterior.data["prior"].dataset.isel(chain=0, drop=True)

    def of(source: xr.Dataset, like: xr.DataArray) -> xr.DataArray:
        parts = [
            source[f"reward_{name}"]
            if f"reward_{name}" in source
            else xr.zeros_like(like) + np.asarray(getattr(reward, name), dtype=float)
            for name in ("mean", "scale")
        ]
        return xr.concat(parts, pd.Index(["mean", "scale"], name="parameter"), coords="minimal", compat="override")

    return of(drawn, weight), of(prior, prior["weight"])
