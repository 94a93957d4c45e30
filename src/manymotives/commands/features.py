"""Features named on the command line: what they cannot be combined with, and a model whose rewards are made of them."""

from dataclasses import replace
from typing import Any

import xarray as xr

from manymotives.errors import InputError, listed


def check_features(reward: str | None, history: int) -> None:
    """Refuse what cannot be combined with features, before anything is read."""
    if reward not in (None, "gaussian"):
        raise InputError(
            f"--features needs --reward gaussian, whose rewards are weighted sums; found --reward {reward}. Leave one "
            "of them out."
        )
    if history:
        raise InputError(
            "--features and --history cannot be combined: the features describe states, and with --history "
            "states become (previous state, state). Leave one of them out."
        )


def made_of_features(model: Any, features: xr.DataArray, on: str | None) -> Any:
    """The model with rewards that are weighted sums of these features, on what the table has rows of."""
    found = "pairs" if "action" in features.dims else "states"
    if on not in (None, found):
        has = "a column of actions" if found == "pairs" else "no column of actions"
        raise InputError(f"--on {on}: the table of features has {has}, so rewards are on {found}. Leave --on out.")
    names = features["feature"].values.tolist()
    lies_on = "state" if found == "states" else "state_action"
    return replace(model, reward=replace(model.reward, features=features.values, names=names, on=lies_on))


def features_said(features: xr.DataArray) -> str:
    names = features["feature"].values.tolist()
    return f"{len(names):,} feature{'' if len(names) == 1 else 's'} ({listed(names)})"
