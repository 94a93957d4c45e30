"""`--discount-prior` and `--depth` on the command line: how far ahead subjects look, read and put into a model."""

from dataclasses import replace
from typing import Any

from manymotives.errors import InputError, quoted
from manymotives.models import RewardPolicyModel
from manymotives.models.priors import Beta
from manymotives.planning.finite_horizon import checked_depth

PRIOR_HELP = "Infer each subject's discount, with the Beta prior ALPHA,BETA, such as 9,1."
DEFAULT = 0.95
HELP = (
    f"Discount factor, at least 0 and below 1: a reward t steps ahead has weight DISCOUNT^t. It is taken as known. "
    f"Default: {DEFAULT}."
)
DEPTH_HELP = "Number of steps that subjects plan ahead (1: myopic). Default: an infinite horizon."


def with_discount_prior(model: Any, text: str | None) -> Any:
    """The model with a discount that is inferred, where that was asked for."""
    if text is None:
        return model
    if not isinstance(model, RewardPolicyModel):
        raise InputError("--discount-prior is not available for the model mpo. Choose mrp, rp or separate.")
    if model.switching is not None:
        raise InputError("--discount-prior and --switching cannot be combined yet. Leave one of them out.")
    try:
        alpha, beta = (float(part) for part in text.split(","))
    except ValueError:
        alpha = beta = 0.0
    if not (0 < alpha < float("inf") and 0 < beta < float("inf")):
        raise InputError(f"--discount-prior must be two positive numbers, such as 9,1; found {quoted(text)}.")
    return replace(model, discount=Beta(alpha=alpha, beta=beta))


def discount_said(model: Any, value: float, *, is_default: bool) -> str:
    """Which discount the fit takes, and how to choose another if nobody chose this one."""
    if getattr(model, "infers_discount", False):
        return "discount inferred"
    can_infer = isinstance(model, RewardPolicyModel) and model.switching is None
    other = ", or infer it with --discount-prior" if can_infer else ""
    return f"discount {value:g}" + (f" (the default: choose another with --discount{other})" if is_default else "")


def with_depth(model: Any, depth: int | None) -> Any:
    """The model of subjects who look so many steps ahead, where that was asked for."""
    if depth is None:
        return model
    if not isinstance(model, RewardPolicyModel):
        raise InputError("--depth is not available for the model mpo. Choose mrp, rp or separate.")
    if model.switching is not None:
        raise InputError("--depth and --switching cannot be combined yet. Leave one of them out.")
    checked_depth(depth, "--depth")
    return replace(model, depth=depth)


def depth_said(depth: int | None) -> str:
    """The same as a clause."""
    return "" if depth is None else f", looking {depth} step{'s' if depth > 1 else ''} ahead,"
