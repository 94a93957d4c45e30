"""When `fit` looks whether its chains have mixed, and when it stops: after so many draws of each chain.

Where `draws` is given, `fit` looks after each round of so many, and stops at the first look at which the chains have
mixed. Where it is left open, `fit` looks several times within a round, and stops when the chains have mixed with some
effective draws to spare: whoever looks often stops when their estimate is large by chance (decision 0029).
"""

from dataclasses import dataclass
from typing import Any

from manymotives.inference.diagnostics import EFFECTIVE

PARTS = 5  # of a round: draws between two looks, at first
FIRST = 3  # parts before the first look
SHARE = 8  # later, an eighth of what there is lies between two looks
# Simulated chains that are looked at this often stop with estimates of their effective draws that are 15 to 20 % above
# the truth, where effective draws are what they stop by.
TO_SPARE = 1.15


@dataclass(frozen=True)
class Looks:
    """Numbers of draws after which to look, in order; the last is where a run ends, mixed or not."""

    points: tuple[int, ...]
    effective: float = EFFECTIVE  # draws that every quantity must have, in its bulk and in its tails

    @classmethod
    def of(cls, given: Any, sized: Any) -> "Looks":
        """Those of a method as it was `given`, and with the sizes it has for a target."""
        rounds = getattr(sized, "max_rounds", 1)
        end, part = sized.draws * rounds, sized.draws // PARTS
        if getattr(sized, "device", None) is not None:  # chains there cannot go on
            return cls((sized.draws,))
        if given.draws is not None or part == 0 or rounds == 1:
            return cls(tuple(range(sized.draws, end + 1, sized.draws)))
        points = [FIRST * part]
        while points[-1] < end:
            points.append(min(end, points[-1] + max(part, points[-1] // SHARE // part * part)))
        return cls(tuple(points), TO_SPARE * EFFECTIVE)

    @property
    def next_of_several(self) -> int | None:
        """Draws before the first look, if more may follow it."""
        return self.points[0] if len(self.points) > 1 else None

    @property
    def last(self) -> int:
        return self.points[-1]

    def after(self, made: int) -> int:
        """Where to look next; beyond the last, as a longer run that is resumed may be, in steps of the first."""
        beyond = (made // self.points[0] + 1) * self.points[0]
        return next((point for point in self.points if point > made), beyond)

    def is_enough(self, made: int, effective: float) -> bool:
        """Whether to stop where chains have mixed after so many draws, with so many effective draws at least."""
        return made in self.points and effective >= self.effective
