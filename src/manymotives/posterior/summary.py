"""A posterior as a person reads it first: warnings, weights or rewards, population and tasks."""

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats import summary as described_by_arviz

from manymotives.models.priors import Prior
from manymotives.posterior.feature_weights import population_weights
from manymotives.posterior.labelling.mixture import LABELS
from manymotives.posterior.tables import in_one_order

UNLISTED = ("reward", "weight", "policy", "transition")  # too many for a summary


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """A posterior in words and numbers; prints as text, and as a table in notebooks."""

    posterior: Any  # a Posterior
    table: pd.DataFrame  # hyperparameters and temperatures

    @property
    def weights(self) -> pd.DataFrame:
        """Mean weight of each feature, one row a task (and motive); empty where rewards are not made of features."""
        if not self.posterior.has_features:
            return pd.DataFrame()
        return _rows(self.posterior.weights.mean(("chain", "draw")), ["feature"])

    @property
    def population_weights(self) -> pd.DataFrame:
        """Mean and scale of each weight in the population, prior beside; empty where there is no such population."""
        if not (self.posterior.has_features and self.posterior.model.is_hierarchical) or self._has_motives:
            return pd.DataFrame()
        return population_weights(self.posterior).set_index(["feature", "parameter"])

    @property
    def rewards(self) -> pd.DataFrame:
        """Mean reward, one row a task (and motive)."""
        mean = self.posterior.by_state_name(self.posterior.mean_reward)
        return _rows(mean, [word for word in ("state", "action") if word in mean.dims])

    def _for_everybody(self, table: pd.DataFrame) -> pd.DataFrame:
        """One row where one thing is inferred for all tasks; otherwise a row for each, as it is."""
        if not self.posterior.model.is_pooled or self._has_motives or len(table) < 2:
            return table
        return table[:1].set_axis(pd.Index([f"all {len(table)} tasks"], name=table.index.name))

    @property
    def _has_motives(self) -> bool:
        return "motive" in self.posterior.data["posterior"].sizes

    def __repr__(self) -> str:
        parts = [repr(self.posterior), *self.posterior._more_lines()]
        for title, table, rows in self._tables():
            parts += ["", title, table.to_string(max_rows=rows, max_cols=12)]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        warnings = "".join(f"<li>{escape(warning)}</li>" for warning in self.posterior.warnings)
        listed = f"<p><b>Warnings</b></p><ul>{warnings}</ul>" if warnings else ""
        head = "<br>".join(map(escape, [repr(self.posterior).splitlines()[0], *self.posterior._more_lines()]))
        tables = "".join(table.to_html(max_rows=rows, max_cols=12) for _, table, rows in self._tables())
        return f"<p>{head}</p>{listed}{tables}"

    def _tables(self) -> list[tuple[str, pd.DataFrame, int]]:
        """What is shown: titles, tables, and how many rows; where rewards are made of features, these alone."""
        population = self.population_weights
        reference = "".join(f" (mean: at {each})" for each in population.get("reference", [""])[:1] if each)
        shown = [
            (
                f"weights of features in the population{reference}",
                population.drop(columns="reference", errors="ignore").round(3),
                40,
            ),
            ("mean weight", self._for_everybody(self.weights).round(3), 20),
        ]
        inferred = isinstance(getattr(self.posterior.model, "inverse_temperature", None), Prior)
        if self.posterior.has_features and inferred and not self._has_motives:
            product = self.posterior.weights * self.posterior.inverse_temperatures
            mean = pd.DataFrame(product.mean(("chain", "draw")).to_pandas())
            shown.append(
                (
                    "mean of weight × inverse temperature, which is what choices identify",
                    self._for_everybody(mean).round(3),
                    20,
                )
            )
        if not self.posterior.has_features:
            shown.append(("mean reward", self._for_everybody(self.rewards).round(3), 20))
        return [each for each in (*shown, ("population and tasks", self.table, 40)) if len(each[1])]


def summary_table(posterior: Any, level: float) -> pd.DataFrame:
    """Every parameter but rewards: means, equal-tailed intervals and, of several chains, how well they mixed."""
    drawn = posterior.data["posterior"].dataset
    names = [name for name in listed_in_summary(drawn) if name not in posterior._not_estimated()]
    shown = xr.Dataset({name: posterior.by_state_name(drawn[name]) for name in names}, attrs=drawn.attrs)
    tree, kind = xr.DataTree.from_dict({"posterior": shown}), "all" if drawn.sizes["chain"] > 1 else "stats"
    interval: dict[str, Any] = {"ci_prob": level, "ci_kind": "eti"}
    with np.errstate(all="ignore"):  # of what does not vary
        frames = [
            described_by_arviz(tree, var_names=each, kind=kind, **interval) for each in in_one_order(drawn, names)
        ]
    return pd.concat(frames) if frames else pd.DataFrame()


def listed_in_summary(drawn: xr.Dataset) -> list[Any]:
    """The variables that a summary describes one by one."""
    by_state = [name for name in ("motive_transition", "motive_start") if "state" in drawn.get(name, drawn).dims]
    return [name for name in drawn.data_vars if name not in (*UNLISTED, *LABELS, *by_state)]


def _rows(mean: xr.DataArray, cells: list[str]) -> pd.DataFrame:
    """One row for each task, motive or both, one column a cell."""
    whose = [str(dim) for dim in mean.dims if dim not in cells]
    mean = mean.stack(pair=cells) if len(cells) > 1 else mean
    mean = mean.stack(row=whose).transpose("row", ...) if len(whose) > 1 else mean
    return pd.DataFrame(mean.to_pandas())
