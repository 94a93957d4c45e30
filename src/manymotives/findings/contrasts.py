"""What each covariate makes different: in what tasks want, in what they do, and in what they attain."""

from typing import Any

import numpy as np
import pandas as pd

from manymotives.errors import InputError
from manymotives.models.components import Factor
from manymotives.models.covariates import level_name
from manymotives.models.formulas import column_names
from manymotives.posterior import Posterior
from manymotives.posterior.effects import has_effects, population_codings


def contrasts(posterior: Any, *, level: float = 0.95) -> pd.DataFrame:
    """The results of `posterior.contrast` for every covariate in one table, whose column `contrast` names the two
    values.

    Each level of a factor is compared with the reference of the model, as in `posterior.effects()`, so that both have
    the same sign; for a numeric covariate, one standard deviation above its mean is compared with the mean.

    Parameters
    ----------
    posterior
        A posterior, from `fit` or `load`.
    level
        Probability of the intervals.

    Returns
    -------
    DataFrame
        A tidy table, with a row for each contrast and quantity.
    """
    if not isinstance(posterior, Posterior) or not has_effects(posterior):
        raise InputError(
            'this model has no covariates, so there are no effects. Fit one with mm.Hierarchical("condition", '
            "covariates=table)."
        )
    found = []
    for name, one, other in _pairs(posterior):
        table = posterior.contrast({name: one}, {name: other}, level=level)  # type: ignore[attr-defined]
        table.insert(0, "contrast", f"{name}: {_said(one)} − {_said(other)}")
        found.append(table)
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def _pairs(posterior: Any) -> list[tuple[str, Any, Any]]:
    """A covariate of the population, and two of its values, the reference last."""
    table = posterior.model.sharing.covariates
    found: dict[str, list[tuple[str, Any, Any]]] = {}
    for coding in population_codings(posterior):
        for name in column_names(coding.component.tree):
            values = table.rows(posterior.tasks, [name]).values[name]
            if isinstance(coding, Factor):
                value_of = {level_name(value): value for value in values}  # a column of numbers may be a factor
                reference, *others = (value_of[level] for level in coding.levels)
                pairs = [(name, other, reference) for other in others]
            else:
                numbers = np.array(values, dtype=float)
                pairs = [(name, float(numbers.mean() + numbers.std(ddof=1)), float(numbers.mean()))]
            found.setdefault(name, pairs)
    return [pair for pairs in found.values() for pair in pairs]


def _said(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
