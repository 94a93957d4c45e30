"""Draws of what covariates add to tasks' parameters, with names: one variable for each parameter of the model."""

from typing import Any

import numpy as np
import xarray as xr

from manymotives.inference import Draws
from manymotives.inference.draws import EffectDraws
from manymotives.models import Target
from manymotives.models.effects import POPULATION, Effects


def without_effects(draws: Draws, target: Target) -> tuple[np.ndarray, np.ndarray | np.floating | float]:
    """Tasks' coordinates less what covariates add, and log p of the coefficients [chain, draw]."""
    if target.effects is None or draws.effects is None:
        return draws.tasks, 0.0
    effects, (z, log_spread) = target.effects, draws.effects
    return draws.tasks - effects.offsets(effects.coefficients(z, log_spread)), effects.log_density(z, log_spread)


def labelled_effects(target: Target, effects: Effects, drawn: EffectDraws, beside: xr.Dataset) -> xr.Dataset:
    """Coefficients on covariates' own scales, spreads of levels, and what each member adds.

    `<parameter>_effect` [term, …], `<parameter>_spread` [slope, …] and `<parameter>_deviation` [member, …] of the
    reward (of its weights, where it has features), the inverse temperature, the lapse and the discount.
    """
    coefficients = effects.coefficients(*drawn) / effects.units[:, None]
    spread = np.exp(drawn.log_spread)
    is_population = effects.slope == POPULATION
    members = [f"{effects.slope_names[k]}: {name}" for k, name in zip(effects.slope, effects.names) if k != POPULATION]
    names = [name for name, here in zip(effects.names, is_population) if here]
    layout = target.layout
    made: dict[str, Any] = {}
    coordinates: dict[str, Any] = {}
    for parameter, part, behind in (
        ("reward", slice(0, target.num_weights or layout.num_rewards), None),
        ("inverse_temperature", slice(layout.temperature, layout.temperature + 1), ()),
        ("lapse", slice(layout.lapse, layout.lapse + 1), ()),
        ("discount", slice(layout.discount, layout.discount + 1), ()),
    ):
        if part.start < 0:
            continue
        for word, dim, values, applies, labels in (
            ("effect", "term", coefficients[..., is_population, :], effects.applies[is_population], names),
            ("spread", "slope", spread, effects.has_slope, effects.slope_names),
            ("deviation", "member", coefficients[..., ~is_population, :], effects.applies[~is_population], members),
        ):
            used = np.asarray(applies[:, part].any(axis=1))
            if not used.any():
                continue
            found = np.where(applies, values, np.nan)[..., used, part]
            dim = f"{parameter}_{dim}"
            made[f"{parameter}_{word}"] = _placed(target, found, dim, behind, beside)
            coordinates[dim] = [label for label, here in zip(labels, used) if here]
    return xr.Dataset(made, coords=coordinates | {name: beside[name] for name in beside.coords})


def _placed(target: Target, values: np.ndarray, dim: str, behind: Any, beside: xr.Dataset) -> tuple[Any, np.ndarray]:
    """Dimensions and values: of one parameter, or over features, or over what rewards lie on."""
    if behind == ():
        return ("chain", "draw", dim), values[..., 0]
    if target.num_weights:
        return ("chain", "draw", dim, "feature"), values
    cells = ("state",) if target.on == "state" else ("state", "action")
    table = target.on_cells(values)
    return ("chain", "draw", dim, *cells), table.reshape(*values.shape[:-1], *(beside.sizes[name] for name in cells))
