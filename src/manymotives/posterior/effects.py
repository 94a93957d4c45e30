"""The posterior of a population with covariates in; tables of effects out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from manymotives.errors import InputError, quoted
from manymotives.models.components import Factor, Numeric
from manymotives.models.designs import Design
from manymotives.models.formulas import column_names
from manymotives.models.sharing import REWARD, Hierarchical
from manymotives.posterior.tables import described, stacked

PARAMETERS = ("reward", "inverse_temperature", "lapse", "discount")
KINDS = {"effect": "term", "spread": "slope"}  # what is told of, and what names it in draws


def designs_of(sharing: Hierarchical, tasks: Sequence[Any]) -> dict[str, Design]:
    """The design of each parameter that has a formula of its own; one formula for all of them is that of "reward"."""
    formula = sharing.formula
    return sharing.designs(tasks, [REWARD] if isinstance(formula, str) else [parameter for parameter, _ in formula])


def has_effects(posterior: Any) -> bool:
    """Whether tasks' parameters depend on covariates."""
    return getattr(getattr(posterior.model, "sharing", None), "has_covariates", False)


def population_codings(posterior: Any) -> list[Numeric | Factor]:
    """How each covariate of the population was coded, in the order of the formulas; members of levels aside."""
    designs = designs_of(posterior.model.sharing, posterior.tasks).values()
    found = []
    for design in designs:
        used = {part.name for term in design.read.terms for part in term}
        found += [coding for coding in design.codings if coding.component.name in used]
    return found


def reference_said(posterior: Any) -> str:
    """Where the population mean of a model with covariates lies: "diet = fed, average age"; "" without covariates."""
    if not has_effects(posterior):
        return ""
    factors: dict[str, set[str]] = {}
    for coding in population_codings(posterior):
        if isinstance(coding, Factor):
            name, reference = column_names(coding.component.tree)[0], f"= {coding.levels[0]}"
        else:
            name, reference = coding.component.name, "average"
        factors.setdefault(name, set()).add(reference)
    if any(len(found) > 1 for found in factors.values()):  # formulas of several parameters differ in their coding
        return "the reference of each formula"
    return ", ".join(
        f"average {name}" if reference == "average" else f"{name} {reference}" for name, (reference,) in factors.items()
    )


def effects_table(posterior: Any, level: float, equivalence: float | None) -> pd.DataFrame:
    """One row for each parameter and term: see `RewardPolicyPosterior.effects`."""
    is_number = isinstance(equivalence, int | float | np.integer | np.floating) and not isinstance(equivalence, bool)
    if equivalence is not None and not (is_number and 0 < equivalence < np.inf):
        raise InputError(f"equivalence must be a positive number, such as 0.1; found {quoted(equivalence)}.")
    drawn = posterior.data["posterior"].dataset
    frames = [
        _frame(_by_state_name(posterior, drawn[f"{parameter}_{kind}"]), parameter, kind, level, equivalence)
        for parameter in PARAMETERS
        for kind in KINDS
        if f"{parameter}_{kind}" in drawn
    ]
    if not frames:
        raise InputError(
            'this model has no covariates, so there are no effects. Fit one with mm.Hierarchical("condition", '
            "covariates=table)."
        )
    whole = stacked(frames)
    of = [name for name in ("feature", "state", "action") if name in whole]
    return whole[["parameter", *of, "term", *(name for name in whole if name not in ("parameter", "term", *of))]]


def _by_state_name(posterior: Any, values: xr.DataArray) -> xr.DataArray:
    return posterior.by_state_name(values) if "state" in values.dims else values


def _frame(drawn: xr.DataArray, parameter: str, kind: str, level: float, equivalence: float | None) -> pd.DataFrame:
    """Rows of one parameter's effects, or of the spreads of its levels."""
    dim = f"{parameter}_{KINDS[kind]}"
    values = drawn.rename({dim: "term"}).stack(sample=("chain", "draw"))
    table = described(values, level)
    if kind == "effect":
        positive = xr.where(values > 0, 1.0, 0.0).mean("sample")
        table["p_positive"], table["p_direction"] = positive, np.maximum(positive, 1.0 - positive)
        if equivalence is not None:
            table["p_equivalent"] = xr.where(abs(values) < equivalence, 1.0, 0.0).mean("sample")
    keys = [str(name) for name in values.dims if name != "sample"]
    frame = table.to_dataframe(dim_order=keys).reset_index().dropna(subset="mean")
    if kind == "spread":
        frame["term"] = "spread of " + frame["term"].astype(str)
    frame.insert(0, "parameter", "weight" if "feature" in keys else parameter)
    return frame[["parameter", *keys, *table.data_vars]]
