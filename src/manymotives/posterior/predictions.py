"""The posterior of a population with covariates in; what its typical task wants, does and attains at any of them, out.

    u = location of the population + X B          X: the columns of these covariates;  members of levels at 0

A covariate that is not given keeps every task's own value, and what follows is averaged over tasks, for each draw: so
a contrast is the average difference it would make to these tasks to have the one value instead of the other.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from manymotives.errors import InputError, quoted
from manymotives.families import HALF_NORMAL, LOG_NORMAL, NORMAL
from manymotives.models import Target
from manymotives.models.effects import POPULATION, slope_name
from manymotives.planning import evaluate
from manymotives.posterior.tables import described, stacked

PARTS = ("feature", "state", "action")
BATCH = 2_000_000  # numbers of q at a time


def predicted_table(posterior: Any, covariates: Any, level: float, draws: int) -> pd.DataFrame:
    """See `RewardPolicyPosterior.predict_at`."""
    _check(posterior, level, draws)
    given = pd.DataFrame({str(name): list(values) for name, values in _columns(covariates).items()})
    if not len(given):
        raise InputError("predict_at: the table of covariates has no rows. Pass one row for each prediction.")
    parts = []
    for row in given.to_dict("records"):
        frame = _described(predictions(posterior, row, draws), level, signs=False)
        for name, value in reversed(row.items()):
            frame.insert(0, str(name), value)
        parts.append(frame)
    return pd.concat(parts, ignore_index=True)


def contrast_table(posterior: Any, one: Any, other: Any, level: float, draws: int) -> pd.DataFrame:
    """See `RewardPolicyPosterior.contrast`."""
    _check(posterior, level, draws)
    for given in (one, other):
        if not isinstance(given, Mapping) or not given:
            raise InputError(
                'contrast compares two values of covariates, such as {"condition": "treated"} and '
                f'{{"condition": "control"}}; found {quoted(given)}.'
            )
    if set(one) != set(other):
        alone = sorted(map(str, set(one) ^ set(other)))
        raise InputError(
            f"contrast: {quoted(alone[0])} is given on one side only. Give both sides the same covariates."
        )
    return _described(predictions(posterior, one, draws) - predictions(posterior, other, draws), level, signs=True)


def predictions(posterior: Any, given: Mapping[Any, Any], draws: int) -> xr.Dataset:
    """Draws [sample, …] of what the typical task wants, does and attains where these covariates have these values."""
    target, drawn = posterior.target, posterior.data["posterior"].dataset
    every = -(-drawn.sizes["chain"] * drawn.sizes["draw"] // draws)
    columns, owner, share = _rows(posterior, given)
    coefficients = drawn_coefficients(posterior)[::every]
    typical = _locations(posterior)[::every, None, :] + np.einsum("re,ked->krd", columns, coefficients)
    begins, size = starts(posterior), max(1, BATCH // (len(owner) * posterior.environment.available.size))
    made: dict[str, list[np.ndarray]] = {}
    for begin in range(0, len(typical), size):
        for name, values in _at(posterior, typical[begin : begin + size], owner, begins).items():
            made.setdefault(name, []).append(np.tensordot(values, share, axes=(1, 0)))
    cells = ("state",) if target.on == "state" else ("state", "action")
    dims: dict[str, tuple[str, ...]] = {"weight": ("feature",), "reward": cells, "choice": ("state", "action")}
    parts = posterior.data["posterior"], posterior.data["observed_data"]
    known = {name: each for part in parts for name, each in part.dataset.coords.items()}
    return xr.Dataset(
        {name: (("sample", *dims.get(name, ())), np.concatenate(values)) for name, values in made.items()},
        coords={name: known[name] for name in PARTS if name in known},
    )


def starts(posterior: Any) -> np.ndarray:
    """[S] in which states episodes began, as shares of all of them."""
    demonstrations = posterior.demonstrations
    is_first = np.append(True, np.diff(demonstrations.episode) != 0)
    found = np.bincount(demonstrations.state[is_first], minlength=posterior.environment.num_states)
    return found / found.sum()


def _at(posterior: Any, u: np.ndarray, owner: np.ndarray, begins: np.ndarray) -> dict[str, np.ndarray]:
    """What tasks with coordinates u [k, R, D] want, do and attain: [k, …, R]."""
    target, size = posterior.target, u.shape[:2]
    flat, owners = np.ascontiguousarray(u.reshape(-1, u.shape[2])), np.tile(owner, len(u))
    rewards, policies = target.rewards(flat), np.exp(target.log_policies(flat, owners))
    policies = np.where(posterior.environment.available, policies, 0.0)
    own = target.discounts(flat, owners)
    value = evaluate(posterior.environment, policies, rewards, on=target.on, discount=own) @ begins
    found: dict[str, np.ndarray] = {}
    if posterior.has_features:
        found["weight"] = flat[:, : target.num_weights]
    else:
        exists = posterior.environment.available if target.on == "state_action" else True
        found["reward"] = np.where(exists, rewards, np.nan)
    if own is not None:
        found["discount"] = own
    if target.layout.temperature >= 0:
        found["inverse_temperature"] = target.temperatures(flat, owners)
    if target.layout.lapse >= 0:
        found["lapse"] = target.lapses(flat, owners)
    found |= {"choice": np.where(posterior.environment.available, policies, np.nan), "value": value}
    return {name: np.asarray(values).reshape(*size, *np.shape(values)[1:]) for name, values in found.items()}


def _rows(posterior: Any, given: Mapping[Any, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns [R, P] of tasks with these covariates instead of their own, one of those tasks [R], and shares [R]."""
    target = posterior.target
    frame = _frame(posterior, given)
    columns = target.effects.columns_at(frame)
    known = np.column_stack([columns, target.fixed_temperature, target.fixed_lapse])
    _, first, count = np.unique(known, axis=0, return_index=True, return_counts=True)
    return columns[first], first, count / len(columns)


def _frame(posterior: Any, given: Mapping[Any, Any]) -> dict[str, Sequence[Any]]:
    """The covariates of the fit's tasks, with these instead of their own."""
    table, tasks = posterior.model.sharing.covariates, posterior.tasks
    rows = table.rows(tasks, table.names).values
    unknown = [name for name in given if name not in rows]
    if unknown:
        raise InputError(
            f"{quoted(unknown[0])} is not a covariate of this model, which has {', '.join(map(quoted, rows))}."
        )
    return {name: [given[name]] * len(tasks) if name in given else rows[name] for name in rows}


def new_offsets(posterior: Any, given: Mapping[Any, Any], rng: np.random.Generator) -> np.ndarray:
    """[K, D] what covariates add to one new task for each draw, a new member of every level.

    Covariates that are not given are those of a task of the fit, drawn at random.
    """
    effects, frame = posterior.target.effects, _frame(posterior, given)
    columns, coefficients = effects.columns_at(frame), drawn_coefficients(posterior)
    task = rng.integers(len(columns), size=len(coefficients))
    offset = np.einsum("ke,ked->kd", columns[task], coefficients)
    spreads = drawn_spreads(posterior)
    slopes = {
        slope_name(level, name): level.columns[:, number]
        for design in effects.designs
        for level in design.at(frame).levels
        for number, name in enumerate(level.names)
    }
    for k, name in enumerate(effects.slope_names):
        offset += slopes[name][task][:, None] * spreads[:, k] * rng.standard_normal(offset.shape)
    return offset


def drawn_coefficients(posterior: Any) -> np.ndarray:
    """Draws [K, P, D] of the population's coefficients, for columns as the design has them."""
    effects = posterior.target.effects
    is_population = effects.slope == POPULATION
    return _drawn(posterior, "effect", "term", effects.applies[is_population]) * effects.units[is_population, None]


def drawn_spreads(posterior: Any) -> np.ndarray:
    """Draws [K, slopes, D] of how much members of levels differ from each other."""
    return _drawn(posterior, "spread", "slope", posterior.target.effects.has_slope)


def _drawn(posterior: Any, kind: str, dim: str, applies: np.ndarray) -> np.ndarray:
    """Draws [K, …, D] of effects or spreads, from variables for each parameter; 0 where they do not apply."""
    target, drawn = posterior.target, posterior.data["posterior"].dataset
    layout, count = target.layout, drawn.sizes["chain"] * drawn.sizes["draw"]
    found = np.zeros((count, *applies.shape))
    for parameter, part in (
        ("reward", slice(0, target.num_weights or layout.num_rewards)),
        ("inverse_temperature", slice(layout.temperature, layout.temperature + 1)),
        ("lapse", slice(layout.lapse, layout.lapse + 1)),
        ("discount", slice(layout.discount, layout.discount + 1)),
    ):
        if part.start < 0 or f"{parameter}_{kind}" not in drawn:
            continue
        used = np.flatnonzero(applies[:, part].any(axis=1))
        values = drawn[f"{parameter}_{kind}"].transpose("chain", "draw", f"{parameter}_{dim}", ...).values
        values = values.reshape(count, len(used), -1)
        if parameter == "reward" and not target.num_weights:
            values = values[..., layout.reward_index]
        found[:, used, part] = np.nan_to_num(values)
    return np.where(applies, found, 0.0)


def _locations(posterior: Any) -> np.ndarray:
    """Draws [K, D] of where the population lies."""
    target = posterior.target
    return typical_coordinates(target, target.parameters_at(posterior.hyperparameters()))


def typical_coordinates(target: Target, parameters: np.ndarray) -> np.ndarray:
    """[..., D] the population's typical task, of parameters [..., D, 2]: means, or where log densities are largest."""
    a, b, families = parameters[..., 0], parameters[..., 1], target.layout.families
    is_mean = np.isin(families, (NORMAL, LOG_NORMAL))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(is_mean, a, np.where(families == HALF_NORMAL, np.log(a), np.log(a) - np.log(b)))


def _described(values: xr.Dataset, level: float, signs: bool) -> pd.DataFrame:
    """One row for each quantity, feature, state and action."""
    frames = []
    for name, each in values.data_vars.items():
        table = described(each, level)
        if signs:
            positive = xr.where(each > 0, 1.0, 0.0).mean("sample")
            table["p_positive"], table["p_direction"] = positive, np.maximum(positive, 1.0 - positive)
        keys = [str(dim) for dim in each.dims if dim != "sample"]
        frame = table.to_dataframe(dim_order=keys).reset_index() if keys else table.to_array().to_series().to_frame().T
        frame = frame.dropna(subset="mean")[[*keys, *table.data_vars]]
        frame.insert(0, "quantity", str(name))
        frames.append(frame)
    whole = stacked(frames)
    first = ["quantity", *(part for part in PARTS if part in whole)]
    return whole[[*first, *(name for name in whole if name not in first)]]


def _columns(covariates: Any) -> Mapping[Any, Sequence[Any]]:
    """A table as columns."""
    if isinstance(covariates, Mapping):
        return covariates
    if hasattr(covariates, "columns"):
        return {name: list(covariates[name]) for name in covariates.columns}
    raise InputError(
        f"predict_at needs a table of covariates, a data frame or a mapping of columns; found {quoted(covariates)}."
    )


def _check(posterior: Any, level: float, draws: int) -> None:
    if not posterior.model.has_covariates:
        raise InputError(
            "this model has no covariates, so there is nothing to compare. Fit one with "
            'mm.Hierarchical("condition", covariates=table).'
        )
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1; found {level!r}.")
    if draws < 1:
        raise InputError(f"draws must be at least 1; found {draws}.")
