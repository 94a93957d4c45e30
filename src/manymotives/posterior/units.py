"""A posterior in; what its values are, and in which unit, as a sentence wherever values are shown, out."""

from typing import Any

import numpy as np

from manymotives.models.priors import Prior
from manymotives.models.rewards import BetaReward, DirichletReward
from manymotives.posterior.transfer import infers_discount


def unit_of_value(posterior: Any) -> str:
    """What a value is, how many log-odds a difference in value makes, and how large values can be."""
    said = "Values are expected discounted sums of rewards from the start, in units of the fitted rewards"
    known = getattr(posterior.model, "inverse_temperature", None)
    if known is not None:
        is_number = not isinstance(known, Prior) and np.ndim(known) == 0
        size = f"{float(known):g}" if is_number else "the inverse temperature"
        said += f": the log-odds of two actions whose values differ by 1 are {size}"
    if isinstance(posterior.model.reward, BetaReward | DirichletReward):
        largest = "" if infers_discount(posterior) else f" = {1 / (1 - posterior.environment.discount):.3g}"
        said += f". Fitted rewards lie between 0 and 1, so their values lie between 0 and 1 / (1 − γ){largest}"
    return f"{said}."
