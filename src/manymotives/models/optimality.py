"""How far from optimal agents may be: prior distributions β of the optimality gap ε ≥ 0 (paper, section 4).

All that is ever asked of one is β̄(x) = β((x, ∞)), in logarithms: far out, where it underflows, its ratios still count.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special

from manymotives.arrays import is_jax, numerics
from manymotives.errors import InputError
from manymotives.io.records import NAMED, Recorded
from manymotives.models.priors import Gamma, HalfNormal, LogNormal, Prior

HALVINGS = 200  # at most, of the interval in which a gap is sought
FAR = 1e-30  # of a Gamma's mass: beyond it, its continued fraction


@dataclass(frozen=True, eq=False)
class ExponentialOptimality(Recorded):
    """Gaps are exponential with mean 1 / rate: a loss of more than a few times that is very improbable.

    Parameters
    ----------
    rate
        In units of one over value. Rewards between 0 and 1 have values up to 1 / (1 − γ).
    """

    rate: float = 1.0

    def __post_init__(self) -> None:
        _check_positive(self.rate, "ExponentialOptimality: rate")

    def log_survival(self, gap: Any) -> Any:
        return -self.rate * gap


@dataclass(frozen=True, eq=False)
class UniformOptimality(Recorded):
    """Gaps up to `upper` are equally likely; larger ones are impossible.

    Parameters
    ----------
    upper
        The largest possible gap.
    """

    upper: float

    def __post_init__(self) -> None:
        _check_positive(self.upper, "UniformOptimality: upper")

    def log_survival(self, gap: Any) -> Any:
        xp = numerics(gap)
        with np.errstate(divide="ignore"):
            return xp.log(xp.maximum(1.0 - gap / self.upper, 0.0))


@dataclass(frozen=True, eq=False)
class DistributionOptimality(Recorded):
    """Any distribution of gaps.

    Parameters
    ----------
    distribution
        F(ε) = β([0, ε]), a function of arrays; or a frozen distribution of scipy.stats, which is more exact far in the
        tail. Saved files contain only its name.
    """

    distribution: Any

    def __post_init__(self) -> None:
        given = self.distribution
        if isinstance(given, str) and given.startswith(NAMED):
            return  # read from a file
        if isinstance(given, str) or not (callable(given) or hasattr(given, "logsf")):
            raise InputError(
                "DistributionOptimality: give a distribution function F(gap), or a frozen distribution of scipy.stats; "
                f"found {given!r}."
            )
        points = np.concatenate([[-1.0, -1e-9, 0.0], np.logspace(-9.0, 12.0, 1000), [1e100]])
        below = -np.expm1(self.log_survival(points))
        if below.shape != points.shape or not np.isfinite(below).all() or (np.diff(below) < -1e-9).any():
            raise InputError(
                "DistributionOptimality: a distribution function must increase from 0 to 1; this one does not."
            )
        if below[1] > 1e-12:
            raise InputError(
                "DistributionOptimality: gaps cannot be negative, but this distribution has mass "
                f"{below[1]:.3g} below 0."
            )
        if below[-1] < 1 - 1e-6:
            raise InputError(
                f"DistributionOptimality: the distribution function is only {below[-1]:.6g} at a gap of 1e100. It "
                "must increase to 1."
            )

    def log_survival(self, gap: Any) -> Any:
        if isinstance(self.distribution, str):
            raise InputError(
                f"this model was read from a file, which holds only the name of its distribution of gaps "
                f"({self.distribution.removeprefix(NAMED)}). Give it again to fit with it."
            )
        gap = np.asarray(gap)
        try:
            with np.errstate(all="ignore"):
                if hasattr(self.distribution, "logsf"):
                    return np.asarray(self.distribution.logsf(gap), dtype=float)
                inside = np.asarray(self.distribution(gap), dtype=float)
        except Exception as error:
            raise InputError(
                f"DistributionOptimality: the distribution function fails on an array of gaps: {error}."
            ) from None
        if inside.shape != gap.shape or not ((inside >= -1e-12) & (inside <= 1 + 1e-12)).all():
            raise InputError("DistributionOptimality: a distribution function must have values between 0 and 1.")
        with np.errstate(divide="ignore"):
            return np.log1p(-np.clip(inside, 0.0, 1.0))


Optimality = ExponentialOptimality | UniformOptimality | DistributionOptimality


def check_optimality(given: Any) -> None:
    """Refuse what is no distribution of gaps."""
    if isinstance(given, Optimality):
        return
    if type(given) not in _TAILS:
        raise InputError(
            "optimality must be ExponentialOptimality(rate=...), UniformOptimality(upper=...), "
            "DistributionOptimality(F), or a prior of positive numbers such as mm.Gamma(...) or mm.HalfNormal(...); "
            f"found {given!r}."
        )
    if given.is_nested or any(np.ndim(value) for value in given.parameters):
        raise InputError(f"optimality: the parameters of {given!r} must be single numbers.")


def log_survival_of(given: Any) -> Callable[[Any], Any]:
    """log β̄(x) of arrays, NumPy's or (but for `DistributionOptimality`) JAX's."""
    if isinstance(given, Optimality):
        return given.log_survival
    return lambda gap: _TAILS[type(given)](given, gap, _special(gap))


def gaps_beyond(given: Any, log_mass: np.ndarray) -> np.ndarray:
    """The gaps ε [...] at which log β̄(ε) falls to `log_mass`: with log u + log β̄(x), a draw of ε given ε > x."""
    if isinstance(given, ExponentialOptimality):
        return -log_mass / given.rate
    if isinstance(given, UniformOptimality):
        return -given.upper * np.expm1(log_mass)
    log_survival = log_survival_of(given)
    low, high = np.zeros_like(log_mass), np.ones_like(log_mass)
    for _ in range(1100):  # up to the largest number there is
        short = log_survival(high) > log_mass
        if not short.any():
            break
        low, high = np.where(short, high, low), np.where(short, np.minimum(2 * high, 1e300), high)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        above = log_survival(middle) > log_mass
        low, high = np.where(above, middle, low), np.where(above, high, middle)
        if ((high - low) <= 1e-15 * high).all():
            break
    return high


def _special(gap: Any) -> Any:
    if not is_jax(gap):
        return scipy.special
    import jax.scipy.special

    return jax.scipy.special


def _log(values: Any) -> Any:
    if is_jax(values):
        return numerics(values).log(values)
    with np.errstate(divide="ignore"):
        return np.log(values)


def _log_normal_tail(prior: Any, gap: Any, special: Any) -> Any:
    return special.log_ndtr((prior.mean - _log(gap)) / prior.scale)


def _gamma_tail(prior: Any, gap: Any, special: Any) -> Any:
    """log Q(a, x); far out from the continued fraction, where Q itself would underflow."""
    xp = numerics(gap)
    a, x = float(prior.shape), prior.rate * gap
    near = special.gammaincc(a, x)
    far = near < FAR
    if xp is np and not far.any():
        return np.log(near)
    y = xp.where(far, x, a + 100.0)
    fraction = y * 0.0
    for n in range(40, 0, -1):
        fraction = n * (n - a) / (y + (2 * n + 1) - a - fraction)
    beyond = a * xp.log(y) - y - math.lgamma(a) - xp.log(y + 1.0 - a - fraction)
    return xp.where(far, beyond, _log(xp.where(far, 1.0, near)))


_TAILS: dict[type[Prior], Callable[[Any, Any, Any], Any]] = {
    Gamma: _gamma_tail,
    HalfNormal: lambda prior, gap, special: special.log_ndtr(-gap / prior.scale) + math.log(2.0),
    LogNormal: _log_normal_tail,
}


def _check_positive(value: Any, what: str) -> None:
    if not isinstance(value, int | float | np.number) or isinstance(value, bool) or not 0 < float(value) < np.inf:
        raise InputError(f"{what} must be a positive number; found {value!r}.")
