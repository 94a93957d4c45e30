"""Draws of a contrast in, a decision out: by its direction, by whether an interval excludes zero, or by equivalence."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from manymotives.errors import InputError, quoted

RULES = ("direction", "interval", "equivalence")
DEFAULT_LEVELS = {"direction": 0.975, "interval": 0.95, "equivalence": 0.95}


@dataclass(frozen=True)
class Rule:
    """When an experiment counts as having shown something; made by `checked_rule`.

    direction    the posterior probability of the likelier sign is above `level`
    interval     the equal-tailed interval of probability `level` excludes 0
    equivalence  that interval lies between −margin and margin
    """

    name: str
    level: float
    margin: float | None = None

    @property
    def about_signs(self) -> bool:
        """Whether "yes" means that the contrast has a sign, which may be the wrong one."""
        return self.name != "equivalence"

    @property
    def interval_level(self) -> float:
        """The probability of the interval that goes with the rule: P(sign) > .975 goes with 95 %."""
        return 2 * self.level - 1 if self.name == "direction" else self.level

    def interval(self, values: np.ndarray) -> tuple[float, float]:
        """The equal-tailed interval of draws."""
        lower, upper = np.quantile(values, [(1 - self.interval_level) / 2, (1 + self.interval_level) / 2])
        return float(lower), float(upper)

    def decides(self, values: np.ndarray) -> bool:
        """Whether the rule says yes."""
        if self.name == "direction":
            positive = float((values > 0).mean())
            return max(positive, 1 - positive) > self.level
        lower, upper = self.interval(values)
        if self.margin is None:
            return lower > 0 or upper < 0
        return -self.margin < lower and upper < self.margin

    def is_clear(self, values: np.ndarray, error: float) -> bool:
        """Whether more draws would hardly change the decision.

        `error` is how many standard errors to allow for, over the square root of the effective number of draws.
        """
        needed = (1 + self.interval_level) / 2
        if self.margin is None:
            positive = float((values > 0).mean())
            found = [max(positive, 1 - positive)]
        else:
            found = [float((values > -self.margin).mean()), float((values < self.margin).mean())]
        allowed = error * np.sqrt(needed * (1 - needed))
        return all(each > needed + allowed for each in found) or any(each < needed - allowed for each in found)

    def __str__(self) -> str:
        if self.name == "direction":
            return f"the posterior probability of its sign is above {self.level:g}"
        if self.margin is None:
            return f"its {100 * self.level:g} % interval excludes 0"
        return f"its {100 * self.level:g} % interval lies between −{self.margin:g} and {self.margin:g}"


def checked_rule(rule: Any, level: Any, margin: Any) -> Rule:
    """The rule that a user asks for."""
    if rule not in RULES:
        raise InputError(f'power: rule must be "direction", "interval" or "equivalence"; found {quoted(rule)}.')
    level = DEFAULT_LEVELS[rule] if level is None else level
    least = 0.5 if rule == "direction" else 0.0
    if isinstance(level, bool) or not isinstance(level, int | float) or not least < level < 1:
        raise InputError(f"power: level must be a probability between {least:g} and 1; found {quoted(level)}.")
    if rule != "equivalence":
        if margin is not None:
            raise InputError(f'power: margin is for rule="equivalence"; found rule={quoted(rule)}. Leave it out.')
        return Rule(rule, float(level))
    if isinstance(margin, bool) or not isinstance(margin, int | float) or not 0 < margin < float("inf"):
        raise InputError(
            'power: rule="equivalence" needs margin=…, the largest difference that counts as none, a positive '
            f"number; found {quoted(margin)}."
        )
    return Rule(rule, float(level), float(margin))
