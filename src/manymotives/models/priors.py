"""Distributions a user can write down; a parameter given as a number is fixed, one given as a prior is inferred."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from manymotives import families
from manymotives.errors import InputError, quoted
from manymotives.io.records import Recorded


class Prior(Recorded):
    """A distribution of one number. Its parameters are numbers, one for each component, or priors in turn."""

    family: ClassVar[int]
    support: ClassVar[str]  # "positive", "unit" or "real"
    needs: ClassVar[tuple[str, ...]]  # the support that each parameter must lie in

    def __post_init__(self) -> None:
        for name, needed in zip(self.parameter_names, self.needs):
            check_parameter(getattr(self, name), f"{type(self).__name__}: {name}", needed)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple(field.name for field in fields(self))  # type: ignore[arg-type]

    @property
    def parameters(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.parameter_names)

    @property
    def is_nested(self) -> bool:
        """Whether a parameter is itself a prior."""
        return any(isinstance(value, Prior) for value in self.parameters)

    def draw(self, shape: Any, *, seed: int = 0) -> np.ndarray:
        """Independent draws from a prior whose parameters are numbers.

        Parameters
        ----------
        shape
            The number of draws, or the shape of the array.
        seed
            Seed of the random numbers.

        Returns
        -------
        ndarray
            Draws, of this shape.
        """
        if self.is_nested:
            raise InputError(f"{quoted(self)} has priors as parameters. Draw from those first.")
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        given = [np.broadcast_to(np.asarray(value, dtype=float), shape).ravel() for value in self.parameters]
        if len(given) == 1:
            given.append(np.zeros_like(given[0]))
        table = np.stack(given, axis=-1)[:, None, :]
        kinds = np.array([self.family])
        u = families.draw_all(np.random.default_rng(seed), kinds, np.ascontiguousarray(table))
        return families.natural_all(kinds, u).reshape(shape)


@dataclass(frozen=True, eq=False)
class Gamma(Prior):
    """A Gamma distribution on positive numbers, with mean shape / rate. The second parameter is a rate, never a scale.

    Parameters
    ----------
    shape, rate
        Parameters of the distribution. A number (or one for each component) is taken as known; with a prior, the
        parameter is inferred.
    """

    shape: Any
    rate: Any

    family: ClassVar[int] = families.GAMMA
    support: ClassVar[str] = "positive"
    needs: ClassVar[tuple[str, ...]] = ("positive", "positive")


@dataclass(frozen=True, eq=False)
class Beta(Prior):
    """A Beta distribution on numbers between 0 and 1, with mean alpha / (alpha + beta).

    Parameters
    ----------
    alpha, beta
        Parameters of the distribution, as pseudo-counts of successes and failures. A number (or one for each component)
        is taken as known; with a prior, the parameter is inferred.
    """

    alpha: Any
    beta: Any

    family: ClassVar[int] = families.BETA
    support: ClassVar[str] = "unit"
    needs: ClassVar[tuple[str, ...]] = ("positive", "positive")


@dataclass(frozen=True, eq=False)
class Normal(Prior):
    """A normal distribution; `scale` is the standard deviation.

    Parameters
    ----------
    mean
        The mean. A number (or one for each component) is taken as known; with a prior, the mean is inferred.
    scale
        The standard deviation: a number or a prior, likewise.
    """

    mean: Any
    scale: Any

    family: ClassVar[int] = families.NORMAL
    support: ClassVar[str] = "real"
    needs: ClassVar[tuple[str, ...]] = ("real", "positive")


@dataclass(frozen=True, eq=False)
class HalfNormal(Prior):
    """The distribution of the absolute value of a Normal(0, scale).

    Parameters
    ----------
    scale
        Standard deviation of the normal distribution before it is folded at 0. A number (or one for each component) is
        taken as known; with a prior, the scale is inferred.
    """

    scale: Any

    family: ClassVar[int] = families.HALF_NORMAL
    support: ClassVar[str] = "positive"
    needs: ClassVar[tuple[str, ...]] = ("positive",)


@dataclass(frozen=True, eq=False)
class LogNormal(Prior):
    """The distribution of exp(x) for x ~ Normal(mean, scale); its median is exp(mean).

    Parameters
    ----------
    mean
        Mean of the logarithm. A number (or one for each component) is taken as known; with a prior, the mean is
        inferred.
    scale
        Standard deviation of the logarithm: a number or a prior, likewise.
    """

    mean: Any
    scale: Any

    family: ClassVar[int] = families.LOG_NORMAL
    support: ClassVar[str] = "positive"
    needs: ClassVar[tuple[str, ...]] = ("real", "positive")


def check_parameter(value: Any, what: str, needed: str, *, levels: int = 1) -> None:
    """Refuse a parameter, number or prior, that cannot lie where it must: "positive", "unit", "real".

    `levels` is how many priors may stand above each other.
    """
    if isinstance(value, Prior):
        if needed not in (value.support, "real"):
            raise InputError(f"{what} must be {_DESCRIBED[needed]}; values of {quoted(value)} need not be.")
        if value.is_nested and levels == 1:
            raise InputError(
                f"{what}: the parameters of {quoted(value)} must be numbers, because no deeper hierarchy is allowed."
            )
        return
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{what} must be a number or a prior such as mm.Gamma(...); found {quoted(value)}.") from None
    inside = np.isfinite(numbers)
    if needed == "positive":
        inside &= numbers > 0
    if needed == "unit":
        inside &= (numbers >= 0) & (numbers <= 1)
    if not inside.all():
        raise InputError(f"{what} must be {_DESCRIBED[needed]}; found {quoted(value)}.")


_DESCRIBED = {"positive": "positive and finite", "unit": "between 0 and 1", "real": "finite"}
