"""Tasks that share motives, as a person reads it: how many motives, who shares which, what each of them wants."""

from dataclasses import dataclass
from typing import Any

import pandas as pd
import xarray as xr

from manymotives.errors import InputError, quoted
from manymotives.posterior.partitions import Partition
from manymotives.posterior.summary import Summary
from manymotives.posterior.tables import contrasts_of, described, tidy

NEGLIGIBLE = 0.005  # probability of a number of motives that tables leave out


@dataclass(frozen=True, eq=False, repr=False)
class MixtureSummary(Summary):
    """A posterior in words and numbers: how many motives first."""

    def _tables(self) -> list[tuple[str, pd.DataFrame, int]]:
        posterior = self.posterior
        number = posterior_and_prior(posterior)
        found = posterior.partition
        title = (
            "who shares a motive: the partition closest to all draws (mean distance "
            f"{found.expected_distance:.3g} nats; {found.probability:.0%} of draws are this partition)"
        )
        shown = found.table.assign(members=[_cut(members) for members in found.table["members"]])
        first = [("how many motives", number.round(3), 20), (title, shown.round(3), 20)]
        return [*first, *super()._tables()]


def how_many(drawn: xr.Dataset) -> pd.Series:
    """The probability of each number of motives, from its draws."""
    numbers = pd.Series(drawn["number_of_motives"].values.ravel())
    found = numbers.value_counts(normalize=True).sort_index()
    return found.rename_axis("motives").rename("probability")


def posterior_and_prior(posterior: Any) -> pd.DataFrame:
    """The probability of each number of motives, after and before the data; without those that are below 0.5 %."""
    after, before = posterior.number_of_motives, how_many(posterior.data["prior"].dataset).rename("prior")
    found = pd.concat([after, before], axis=1).fillna(0.0).sort_index()
    return found[found.max(axis=1) >= NEGLIGIBLE].rename_axis("motives")


def motives_table(
    posterior: Any, partition: Partition, contrasts: str | None = None, canonical: bool = True, level: float = 0.95
) -> pd.DataFrame:
    """What each motive of a partition wants, or how they differ (see `MixturePosterior.motives_table`)."""
    if contrasts not in (None, "motive"):
        raise InputError(f'contrasts must be None or "motive"; found {quoted(contrasts)}.')
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1; found {level!r}.")
    values = motive_draws(posterior, partition, canonical).stack(sample=("chain", "draw"))
    if contrasts == "motive":
        return contrasts_of(values, ["motive"], level)
    cells: list[str] = [dim for dim in ("feature", "state", "action") if dim in values.dims]
    table = described(values, level)
    above = (values > (0.0 if posterior.has_features else values.mean(cells))).mean("sample")
    name = "p_positive" if posterior.has_features else "p_above_average"
    table[name] = above.where(table["mean"].notnull())
    return tidy(table, ["motive", *cells]).join(partition.table[["tasks", "together"]], on="motive")


def motive_draws(posterior: Any, partition: Partition, canonical: bool = True) -> xr.DataArray:
    """Draws (chain, draw, motive, …) of weights or rewards: averages over tasks of each motive of the partition."""
    if posterior.has_features:
        values = posterior.weights * posterior.inverse_temperatures if canonical else posterior.weights
    else:
        values = posterior.canonical()["reward"] if canonical else posterior.rewards
        values = posterior.by_state_name(values, canonical)
    groups = partition.groups.values
    parts = [values.isel(task=groups == k).mean("task") for k in range(1, partition.number + 1)]
    numbers = pd.Index(range(1, len(parts) + 1), name="motive")
    return xr.concat(parts, numbers).transpose("chain", "draw", "motive", ...)


def _cut(text: str, length: int = 60) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
