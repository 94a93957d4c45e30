"""`--discount-prior` on the command line: a prior of how far ahead subjects look, read and put into a model."""

from dataclasses import replace
from typing import Any

from manymotives.errors import InputError, quoted
from manymotives.models import RewardPolicyModel
from manymotives.models.priors import Beta

HELP = "Infer how far ahead each subject looks: ALPHA,BETA of a Beta prior of its discount, such as 9,1."


def with_discount_prior(model: Any, text: str | None) -> Any:
    """The model with a discount that is inferred, where that was asked for."""
    if text is None:
        return model
    if not isinstance(model, RewardPolicyModel):
        raise InputError("--discount-prior is not for the model mpo. Choose mrp, rp or separate.")
    if model.switching is not None:
        raise InputError("--discount-prior and --switching cannot be combined yet. Leave one of them out.")
    try:
        alpha, beta = (float(part) for part in text.split(","))
    except ValueError:
        alpha = beta = 0.0
    if not (0 < alpha < float("inf") and 0 < beta < float("inf")):
        raise InputError(f"--discount-prior must be two positive numbers, such as 9,1; found {quoted(text)}.")
    return replace(model, discount=Beta(alpha=alpha, beta=beta))
