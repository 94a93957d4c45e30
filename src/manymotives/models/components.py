"""A component of a formula and rows of covariates in; standardised numbers, or a factor, out."""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from formulae.terms.call_resolver import LazyCall, LazyOperator, LazyValue, LazyVariable
from formulae.transforms import TRANSFORMS
from jaxtyping import Float

from manymotives.data.labels import unknown_names
from manymotives.errors import InputError, listed, quoted
from manymotives.models.covariates import Rows, looks_like_numbers
from manymotives.models.formulas import (
    ELEMENTWISE,
    FACTORS,
    IDENTITY,
    POLYNOMIAL,
    STATEFUL,
    Component,
    degree_of,
    function_of,
    reference_of,
    written,
)

CONSTANT = 64 * np.finfo(float).eps  # spread over size, below which a column is constant but for rounding
OPERATIONS: dict[str, Callable[..., Any]] = {name: getattr(operator, name) for name in
                                             ("add", "pos", "sub", "neg", "pow", "mul", "truediv")}  # fmt: skip


class Numeric(NamedTuple):
    """A component that is a number: how it was standardised, over the tasks of the fit."""

    component: Component
    names: tuple[str, ...]  # one, or one for each degree of a polynomial
    centre: Float[np.ndarray, " K"]  # means
    scale: Float[np.ndarray, " K"]  # standard deviations, with n − 1
    states: dict[str, Any]  # of functions that remember the tasks of the fit, such as center

    def __str__(self) -> str:
        return "\n".join(
            f"{name}: centred at {centre:g}, divided by its standard deviation {scale:g}"
            for name, centre, scale in zip(self.names, self.centre, self.scale)
        )

    def at(self, rows: Rows) -> Float[np.ndarray, "N K"]:
        """Standardised values."""
        return (_values(self.component, rows, self.states) - self.centre) / self.scale


class Factor(NamedTuple):
    """A component that names groups; coefficients compare each level with the first, the reference."""

    component: Component
    levels: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.component.name

    def __str__(self) -> str:
        return f"{self.name}: {', '.join(self.levels[1:])}, compared with {self.levels[0]}"

    def at(self, rows: Rows) -> Any:
        """The level of each row, as an ordered pandas Categorical; all must be known."""
        found = rows.names(column_of(self.component))
        unknown = [level for level in dict.fromkeys(found) if level not in self.levels]
        if unknown:
            raise InputError(
                f"column {quoted(column_of(self.component))} of covariates: "
                f"{unknown_names(unknown, self.levels, 'level')} The fit has no other levels."
            )
        return pd.Categorical(found, categories=list(self.levels), ordered=True)


def coding_of(component: Component, rows: Rows) -> Numeric | Factor:
    """How a component becomes columns, learnt from the tasks of the fit."""
    tree = component.tree
    is_call = isinstance(tree, LazyCall)
    if (is_call and tree.callee in FACTORS) or (not is_call and rows.is_text(tree.name)):
        return _factor(component, rows)
    states: dict[str, Any] = {}
    values = _values(component, rows, states)
    if (np.ptp(values, axis=0) <= CONSTANT * np.abs(values).max(axis=0)).any():
        raise InputError(
            f"{quoted(component.name)} is {values[0, 0]:g} for all {len(values)} tasks, so its effect cannot be "
            "estimated. Leave it out of the formula."
        )
    count = values.shape[1]
    names = (component.name,) if count == 1 else tuple(f"{component.name}[{power}]" for power in range(1, count + 1))
    return Numeric(component, names, values.mean(axis=0), values.std(axis=0, ddof=1), states)


def _factor(component: Component, rows: Rows) -> Factor:
    column = column_of(component)
    levels = rows.level_order(column)
    is_call = isinstance(component.tree, LazyCall)
    if not is_call and looks_like_numbers(levels):
        raise InputError(
            f"column {quoted(column)} of covariates is text that looks like numbers, such as {quoted(levels[0])}. "
            f"Convert it to numbers, or write C({column}) if they name groups."
        )
    if len(levels) < 2:
        raise InputError(
            f"{quoted(component.name)} is {quoted(levels[0])} for all {len(rows.where)} tasks, so there is "
            "nothing to compare. Leave it out of the formula."
        )
    reference = reference_of(component.tree, component.name) if is_call else None
    if reference is not None:
        if reference not in levels:
            raise InputError(f"{component.name}: {unknown_names([reference], levels, 'level')}")
        levels = (reference, *(level for level in levels if level != reference))
    return Factor(component, levels)


def column_of(component: Component) -> str:
    """The column that a factor is made of."""
    tree = component.tree
    return str(tree.args[0].name if isinstance(tree, LazyCall) else tree.name)


def member_names(factor: tuple[Component, ...], rows: Rows) -> list[tuple[str, ...]]:
    """To which member of a grouping factor each row belongs."""
    return list(zip(*(rows.names(column_of(part)) for part in factor)))


def member_order(factor: tuple[Component, ...], rows: Rows) -> list[tuple[str, ...]]:
    """The members that occur, in the order of their columns' levels."""
    ranks = [{level: rank for rank, level in enumerate(rows.level_order(column_of(part)))} for part in factor]
    return sorted(set(member_names(factor, rows)), key=lambda names: [rank[name] for rank, name in zip(ranks, names)])


def _values(component: Component, rows: Rows, states: dict[str, Any]) -> Float[np.ndarray, "N K"]:
    """The numbers of a component, on their own scale."""
    tree = component.tree
    with np.errstate(all="ignore"):
        if isinstance(tree, LazyCall) and tree.callee == POLYNOMIAL:
            found = _polynomial(tree, component.name, rows, states)
        else:
            found = np.broadcast_to(np.asarray(_evaluate(tree, rows, states), dtype=float), (len(rows.where),))[:, None]
    finite = np.isfinite(found).all(axis=1)
    rows.check(finite, f"{quoted(component.name)} is infinite or not a number")
    return np.array(found)


def _evaluate(tree: Any, rows: Rows, states: dict[str, Any]) -> Any:
    """Arithmetic and functions of columns, in float64."""
    if isinstance(tree, LazyVariable):
        return rows.numbers(tree.name)
    if isinstance(tree, LazyValue):
        return np.float64(tree.value)
    parts = [_evaluate(part, rows, states) for part in tree.args]
    if isinstance(tree, LazyOperator):
        return OPERATIONS[tree.op.__name__](*parts)
    name = function_of(tree)
    if name == IDENTITY:
        return parts[0]
    if name in STATEFUL:
        return states.setdefault(written(tree), TRANSFORMS[name]())(parts[0])
    assert name in ELEMENTWISE
    return getattr(np, name)(parts[0])


def _polynomial(tree: LazyCall, name: str, rows: Rows, states: dict[str, Any]) -> np.ndarray:
    """Orthogonal polynomials over the tasks of the fit."""
    values, degree = np.asarray(_evaluate(tree.args[0], rows, states), dtype=float), degree_of(tree)
    rows.check(np.isfinite(values), f"{quoted(name)} is infinite or not a number")
    different = np.unique(values)
    if name not in states and len(different) <= (degree or 0):
        raise InputError(
            f"{quoted(name)} needs more than {degree} different values; there are {listed(different.tolist())}."
        )
    return np.asarray(states.setdefault(name, TRANSFORMS[POLYNOMIAL]())(values, degree)).reshape(len(values), -1)
