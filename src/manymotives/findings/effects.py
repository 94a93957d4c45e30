"""What covariates explain: effects, surest first, beside a regression of tasks' posterior means."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from manymotives.errors import InputError
from manymotives.models.covariates import level_name
from manymotives.models.designs import Design
from manymotives.models.rewards import BetaReward, GaussianReward
from manymotives.models.sharing import REWARD
from manymotives.posterior import Posterior
from manymotives.posterior.effects import designs_of, has_effects

CELLS = ("feature", "state", "action")
SPREAD = "spread of "


def effects(posterior: Any, *, level: float = 0.95) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Effects of covariates, the most certain first, and standard deviations between members of levels, as in
    `posterior.effects()`.

    Effects have one more column, `regression`: the least-squares coefficients of tasks' posterior means on the same
    columns of the design, in the parameter's own coordinate. It is NaN for Dirichlet rewards, whose logarithms are
    identified only up to a constant.

    Parameters
    ----------
    posterior
        A posterior, from `fit` or `load`.
    level
        Probability of the intervals.

    Returns
    -------
    tuple of DataFrame
        Effects, and standard deviations between members of levels.
    """
    if not isinstance(posterior, Posterior) or not has_effects(posterior):
        raise InputError(
            'this model has no covariates, so there are no effects. Fit one with mm.Hierarchical("condition", '
            "covariates=table)."
        )
    table = posterior.effects(level=level)  # type: ignore[attr-defined]
    is_spread = table["term"].str.startswith(SPREAD) & table["p_direction"].isna()
    found = table[~is_spread].copy()
    simple = _regression(posterior)
    found["regression"] = [simple.get((effect_target(row), row["term"]), np.nan) for _, row in found.iterrows()]
    distance = (found["mean"] / found["sd"]).abs()  # between effects whose draws all have one sign
    order = found.assign(distance=distance).sort_values(["p_direction", "distance"], ascending=False, kind="stable")
    return order.drop(columns="distance").reset_index(drop=True), table[is_spread].reset_index(drop=True)


def effect_target(row: Any) -> str:
    """What a row of the table of effects is about: a feature, a state (and an action), or a parameter.

    Parameters
    ----------
    row
        A row of the table of effects.

    Returns
    -------
    str
        The name of the feature, state or parameter.
    """
    cells = {key: level_name(row[key]) for key in CELLS if key in row and pd.notna(row[key])}
    if "feature" in cells and not isinstance(row["feature"], str):
        cells["feature"] = f"feature {cells['feature']}"
    return ", ".join(cells.values()) if cells else str(row["parameter"]).replace("_", " ")


def _regression(posterior: Any) -> dict[tuple[str, str], float]:
    """Least squares of posterior means [task] on the design, by what the effect is on and its term."""
    designs = designs_of(posterior.model.sharing, posterior.tasks)
    one = isinstance(posterior.model.sharing.formula, str)
    found: dict[tuple[str, str], float] = {}
    for parameter, values in _coordinates(posterior).items():
        cells = [str(dim) for dim in values.dims if dim != "task"]
        for column in values.stack(cell=cells).transpose("cell", "task") if cells else [values]:
            names = {"parameter": parameter} | {key: column[key].item() for key in cells}
            of_all = parameter if parameter in ("inverse_temperature", "lapse", "discount") else REWARD
            design = designs[REWARD] if one else designs.get(str(names.get("feature")), designs.get(of_all))
            if design is not None and np.isfinite(column.values).all():
                own = _coefficients(column.values, design)
                found |= {(effect_target(names), term): value for term, value in own.items()}
    return found


def _coefficients(means: np.ndarray, design: Design) -> dict[str, float]:
    whole = np.column_stack([np.ones(len(means)), design.columns])
    found = np.linalg.lstsq(whole, means, rcond=None)[0][1:] / design.scale
    return dict(zip(design.names, map(float, found)))


def _coordinates(posterior: Any) -> dict[str, xr.DataArray]:
    """Posterior means [task, …] of what has effects, on the scale on which covariates add."""
    model, drawn = posterior.model, posterior.data["posterior"].dataset
    found: dict[str, xr.DataArray] = {}
    if posterior.has_features:
        found["weight"] = posterior.weights
    elif isinstance(model.reward, GaussianReward):
        found[REWARD] = posterior.by_state_name(posterior.rewards)
    elif isinstance(model.reward, BetaReward):
        found[REWARD] = _logit(posterior.by_state_name(posterior.rewards))
    if "inverse_temperature" in drawn:
        found["inverse_temperature"] = np.log(posterior.inverse_temperatures)
    if "lapse" in drawn:
        found["lapse"] = _logit(posterior.lapses)
    if "discount" in drawn:
        found["discount"] = _logit(posterior.discounts)
    return {name: values.mean(("chain", "draw")) for name, values in found.items()}


def _logit(values: xr.DataArray) -> xr.DataArray:
    return xr.DataArray(np.log(values) - np.log1p(-values))
