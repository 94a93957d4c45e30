"""What covariates add to tasks' parameters: coefficients, their priors, and how they enter, as plain arrays.

    u_m = v_m + Σ_e X_me B_e          v_m from the population, as without covariates

in the coordinates u that tasks have in any model (`target`): Gaussian weights themselves, logarithms of inverse
temperatures and of Dirichlet rewards, logits of lapse rates and of Beta rewards. Columns X are those of the population
(`designs`), then for each level, each of its slopes and each of its members that member's own:

    B_ed = s z_ed              of the population's columns: Normal(0, s), s known
    B_ed = τ_kd z_ed           of members' columns: Normal(0, τ), τ_kd ~ HalfNormal(s) for the k-th slope of all levels
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from manymotives.models.designs import INTERCEPT, Design, Level

POPULATION = -1  # instead of the number of a slope: a column of the population


class Effects(NamedTuple):
    """Columns and coefficients for M tasks with D coordinates each."""

    columns: Float[np.ndarray, "M E"]
    applies: Bool[np.ndarray, "E D"]  # whether a column is one of this coordinate's formula
    slope: Int[np.ndarray, " E"]  # k of a member's column, or POPULATION
    scale: float  # s
    num_slopes: int
    names: tuple[str, ...]  # [E] the coefficient of a column: "condition[treated]", or the member's name
    units: Float[np.ndarray, " E"]  # coefficient / unit is an effect on the covariate's own scale
    slope_names: tuple[str, ...]  # [K] such as "mouse", "mouse: condition[treated]"
    designs: tuple[Design, ...]
    origin: tuple[tuple[int, int], ...]  # of each column of the population, a design and its column there

    @property
    def has_slope(self) -> Bool[np.ndarray, "K D"]:
        """Which τ there are."""
        found = np.zeros((self.num_slopes, self.applies.shape[1]), dtype=bool)
        for k in range(self.num_slopes):
            found[k] = self.applies[self.slope == k].any(axis=0)
        return found

    def scales(self, log_spread: Float[np.ndarray, "... K D"]) -> Float[np.ndarray, "... E D"]:
        """Prior standard deviations of coefficients, given log τ."""
        found = np.full((*log_spread.shape[:-2], *self.applies.shape), self.scale)
        members = self.slope != POPULATION
        found[..., members, :] = np.exp(log_spread[..., self.slope[members], :])
        return found

    def coefficients(
        self, z: Float[np.ndarray, "... E D"], log_spread: Float[np.ndarray, "... K D"]
    ) -> Float[np.ndarray, "... E D"]:
        """B; 0 where a column does not apply."""
        return np.where(self.applies, self.scales(log_spread) * z, 0.0)

    def offsets(self, coefficients: Float[np.ndarray, "... E D"]) -> Float[np.ndarray, "... M D"]:
        """Σ_e X_me B_e."""
        return np.matmul(self.columns, coefficients)

    def columns_at(self, covariates: Any) -> Float[np.ndarray, "N P"]:
        """The population's columns of other tasks, one for each row of a table."""
        made = [design.at(covariates).columns for design in self.designs]
        return np.stack([made[number][:, column] for number, column in self.origin], axis=1)

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """z [E, D] and log τ [K, D] from their priors."""
        log_spread = np.log(self.scale * np.abs(rng.standard_normal(self.has_slope.shape)) + 1e-300)
        return rng.standard_normal(self.applies.shape), log_spread

    def log_density(
        self, z: Float[np.ndarray, "... E D"], log_spread: Float[np.ndarray, "... K D"]
    ) -> Float[np.ndarray, "..."] | np.floating:
        """log p(z, log τ)."""
        ratio = log_spread - np.log(self.scale)
        of_spread = ratio - 0.5 * np.exp(2.0 * ratio) + 0.5 * np.log(2.0 / np.pi)
        of_z = -0.5 * z**2 - 0.5 * np.log(2.0 * np.pi)
        return (self.applies * of_z).sum(axis=(-2, -1)) + np.where(self.has_slope, of_spread, 0.0).sum(axis=(-2, -1))


def effects_of(designs: Mapping[str, Design], of_coordinate: Sequence[str], scale: float) -> Effects | None:
    """From the design of each parameter, and which of them each coordinate [D] is; None where nothing has an effect."""
    columns: list[np.ndarray] = []
    applies: list[np.ndarray] = []
    slopes: list[int] = []
    names: list[str] = []
    units: list[float] = []
    slope_names: list[str] = []
    origin: list[tuple[int, int]] = []
    places: dict[tuple[str, int], int] = {}

    def add(column: np.ndarray, name: str, unit: float, slope: int, chosen: np.ndarray) -> bool:
        """Whether it is a new one: two formulas that share a term have one column, which applies to both."""
        e = places.setdefault((name, slope), len(columns))
        if e < len(columns) and np.array_equal(columns[e], column):
            applies[e] = applies[e] | chosen
            return False
        columns.append(column)
        names.append(name)
        units.append(float(unit))
        slopes.append(slope)
        applies.append(chosen)
        return True

    unique = tuple({id(each): each for each in designs.values()}.values())
    for place, design in enumerate(unique):
        chosen = np.array([designs.get(name) is design for name in of_coordinate])
        for number, (column, name, unit) in enumerate(zip(design.columns.T, design.names, design.scale)):
            if add(column, name, float(unit), POPULATION, chosen):
                origin.append((place, number))
        for level in design.levels:
            for number, name in enumerate(level.names):
                slope = slope_name(level, name)
                slope_names += [] if slope in slope_names else [slope]
                for member in range(len(level.members)):
                    column = np.where(level.index == member, level.columns[:, number], 0.0)
                    add(column, level.members[member], 1.0, slope_names.index(slope), chosen)
    if not columns:
        return None
    return Effects(
        columns=np.ascontiguousarray(np.stack(columns, axis=1), dtype=float),
        applies=np.stack(applies),
        slope=np.array(slopes, dtype=np.int64),
        scale=float(scale),
        num_slopes=len(slope_names),
        names=tuple(names),
        units=np.array(units),
        slope_names=tuple(slope_names),
        designs=unique,
        origin=tuple(origin),
    )


def slope_name(level: Level, column: str) -> str:
    """What the spread of a level's intercepts or slopes is called."""
    return level.name if column == INTERCEPT else f"{level.name}: {column}"
