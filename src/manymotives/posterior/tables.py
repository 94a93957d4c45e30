"""Labelled draws in, tidy tables out: means, intervals, differences between all pairs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from pandas.api.types import is_integer_dtype

from manymotives.data.labels import Label
from manymotives.errors import InputError

LARGEST_TABLE = 2_000_000  # rows of contrasts


def selected(values: xr.DataArray, dim: str, names: Sequence[Label] | None) -> xr.DataArray:
    """Only these of a dimension, by name; all where `names` is None."""
    if names is None:
        return values
    known = values[dim].values.tolist()
    positions = []
    for name in names:
        label = name if name in known else str(name)  # names that netCDF cannot hold are kept as text
        if label not in known:
            raise InputError(f"there is no {dim} {name!r}.")
        positions.append(known.index(label))
    if not positions:
        raise InputError(f"{dim}s=[] leaves nothing to show.")
    return values.isel({dim: positions})


def described(values: xr.DataArray, level: float) -> xr.Dataset:
    """Mean, sd and interval over samples."""
    tails = values.quantile([(1 - level) / 2, (1 + level) / 2], dim="sample", skipna=False)
    return xr.Dataset(
        {
            "mean": values.mean("sample", skipna=False),
            "sd": values.std("sample", skipna=False),
            "lower": tails.isel(quantile=0, drop=True),
            "upper": tails.isel(quantile=1, drop=True),
        }
    )


def p_highest(values: xr.DataArray) -> xr.DataArray:
    """How often each task has the highest value of all tasks, over samples; ties are shared."""
    is_best = values == values.max("task", skipna=False)
    return (is_best / is_best.sum("task").clip(min=1)).mean("sample").where(values.isel(sample=0, drop=True).notnull())


def rounded(draws: xr.DataArray, over: Any) -> tuple[xr.DataArray, xr.DataArray]:
    """Mean and sd of independent draws, to the digits that their Monte Carlo error leaves."""
    mean, sd = draws.mean(over, skipna=False), draws.std(over, skipna=False)
    count = draws.size / max(mean.size, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        places = np.ceil(-np.log10(sd.values / np.sqrt(count)))

    def with_digits(values: xr.DataArray) -> xr.DataArray:
        found = [x if not np.isfinite(p) else round(x, int(p)) for x, p in zip(values.values.flat, places.flat)]
        return values.copy(data=np.reshape(found, values.shape))

    return with_digits(mean), with_digits(sd)


def tidy(table: xr.Dataset, keys: list[str]) -> pd.DataFrame:
    """One row for each combination of keys, without those that do not exist."""
    frame = table.to_dataframe(dim_order=keys).reset_index()
    return frame[[*keys, *table.data_vars]].dropna(subset="mean").reset_index(drop=True)


def contrasts_of(values: xr.DataArray, over: list[str], level: float) -> pd.DataFrame:
    """Differences between all pairs along `over`, one row each, from draws (..., sample)."""
    kept: list[Any] = [dim for dim in ("task", "state", "action", "feature") if dim in values.dims and dim not in over]
    if len(over) == 1:
        flat = values.rename({over[0]: "item"})
        labels = flat["item"].values.tolist()
    else:
        stacked = values.stack(item=over).dropna("item", how="all")
        labels = ["–".join(map(str, label)) for label in stacked["item"].values.tolist()]
        flat = stacked.drop_vars(["item", *over])
    flat = flat.transpose("item", *kept, "sample")
    count = flat.sizes["item"]
    rows = count * (count - 1) // 2 * int(np.prod([flat.sizes[dim] for dim in kept]))
    if rows > LARGEST_TABLE:
        word = "features" if "feature" in values.dims else "states"
        raise InputError(f"the table would have {rows:,} contrasts. Select some with tasks=[...] or {word}=[...].")
    word = "_".join(over)
    frames = []
    for i in range(count - 1):
        others = np.arange(i + 1, count)
        difference = flat.isel(item=i, drop=True) - flat.isel(item=others)
        table = described(difference, level)
        table["p_positive"] = (difference > 0).mean("sample")
        table = table.assign_coords(item=np.arange(len(others)))
        frame = tidy(table, ["item", *kept])
        frame.insert(0, word, [labels[i]] * len(frame))
        frame.insert(1, f"other_{word}", [labels[others[k]] for k in frame.pop("item")])
        frames.append(frame)
    if not frames:
        raise InputError("there is only one, so there is nothing to compare it with.")
    return pd.concat(frames, ignore_index=True)


def stacked(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables one below the other. Whole numbers stay so where other tables lack their column: state 5, never 5.0."""
    gaps = {name for frame in frames for name in frame if any(name not in other for other in frames)}
    return pd.concat(
        [
            frame.astype({name: "Int64" for name in frame if name in gaps and is_integer_dtype(frame[name])})
            for frame in frames
        ],
        ignore_index=True,
    )


def in_one_order(drawn: xr.Dataset, names: list[Any]) -> list[list[Any]]:
    """Which variables ArviZ may describe together: all, or each alone where one has several dimensions of its own.

    Of variables whose dimensions are in different orders it would confuse the names.
    """
    several = any(drawn[name].ndim > 3 for name in names)
    return [[name] for name in names] if several else [names] if names else []
