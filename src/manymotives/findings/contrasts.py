"""What each covariate makes different: in what tasks want, in what they do, and in what they attain."""

from typing import Any

import numpy as np
import pandas as pd

from manymotives.errors import InputError
from manymotives.models.formulas import column_names
from manymotives.posterior import Posterior
from manymotives.posterior.effects import has_effects


def contrasts(posterior: Any, *, level: float = 0.95) -> pd.DataFrame:
    """The results of `posterior.contrast` for every covariate in one table, whose column `contrast` names the two
    values.

    Each level of a factor is compared with the first; for a numeric covariate, one standard deviation above its mean is
    compared with the mean.

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
    """A covariate of the population, and two of its values."""
    table, found = posterior.model.sharing.covariates, []
    terms = [term for read in posterior.model.sharing.formulas.values() for term in read.terms]
    names = dict.fromkeys(name for term in terms for part in term for name in column_names(part.tree))
    for name in names:
        values = table.rows(posterior.tasks, [name]).values[name]
        levels = table.levels[table.names.index(name)]
        if levels is None:
            numbers = np.array(values, dtype=float)
            found.append((name, float(numbers.mean() + numbers.std(ddof=1)), float(numbers.mean())))
        else:
            present = [each for each in levels if each in values]
            found += [(name, each, present[0]) for each in present[1:]]
    return found


def _said(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
