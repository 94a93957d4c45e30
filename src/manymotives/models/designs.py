"""A formula, covariates and tasks in; a design matrix out.

η_m = μ + x_m β + Σ_levels z_m b_member(m): the location of task m's parameter, where

- μ, the population mean, is the intercept: the mean of tasks in the reference level of every factor, whose numeric
  covariates are average. It has no column here.
- Numeric covariates are centred and divided by their standard deviation over tasks (n − 1) before products are taken.
  So a main effect beside an interaction is the effect at the mean of the other covariate, and coefficient / scale is
  the effect of one unit of a covariate, or of a product of covariates.
- Factors have treatment coding, 0 or 1: a coefficient is the difference from the reference, the first level. Levels are
  in the order that the table gives (a categorical column), else sorted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from formulae import design_matrices
from jaxtyping import Float, Int

from manymotives.data.tables import Column
from manymotives.errors import InputError, listed, quoted
from manymotives.models.components import Factor, Numeric, coding_of, member_names, member_order
from manymotives.models.covariates import Covariates, Rows, new_rows
from manymotives.models.formulas import Component, Formula, Grouping, Product, parsed, product_name

DEPENDENT = np.sqrt(np.finfo(float).eps)  # what is left of a column that the others explain, relative to its size
INTERCEPT = "Intercept"
NEW = -1  # index of a member that the fit did not see


@dataclass(frozen=True, eq=False)
class Level:
    """A level between tasks and the population, such as `(condition | mouse)`: who belongs to whom, and slopes."""

    name: str
    members: tuple[str, ...]
    index: Int[np.ndarray, " M"]  # to which member each task belongs; −1: to a new one
    columns: Float[np.ndarray, "M Q"]  # the first is 1, for the member's intercept
    names: tuple[str, ...]


class NewRows(NamedTuple):
    """The same columns for other tasks, coded as those of the fit."""

    columns: Float[np.ndarray, "N P"]
    levels: tuple[Level, ...]


class Coded(NamedTuple):
    """Columns of some terms: the intercept first."""

    columns: Float[np.ndarray, "M Q"]
    names: tuple[str, ...]
    terms: tuple[str, ...]
    scale: Float[np.ndarray, " Q"]
    matrix: Any  # of `formulae`, which codes new rows


@dataclass(frozen=True, eq=False)
class Design:
    """What a formula makes of covariates: one row for each task, one column for each coefficient."""

    formula: str
    columns: Float[np.ndarray, "M P"]  # without the intercept
    names: tuple[str, ...]  # such as "condition[treated]", "age", "condition[treated]:age"
    terms: tuple[str, ...]  # the term of each column
    scale: Float[np.ndarray, " P"]  # coefficient / scale is an effect on the covariate's own scale
    levels: tuple[Level, ...]
    codings: tuple[Numeric | Factor, ...]  # how each covariate was standardised or coded
    warnings: tuple[str, ...]
    read: Formula = field(repr=False)
    matrices: tuple[Any, ...] = field(repr=False)  # of `formulae`: the population's, then each level's

    @property
    def coding(self) -> str:
        """How covariates became columns, in words: one line for each."""
        return "\n".join(map(str, self.codings))

    def at(self, covariates: Any) -> NewRows:
        """The columns of other tasks, one for each row of a table, which needs no column of tasks.

        Members of a level that the fit did not see have the index −1; an unknown level of a factor is an error.
        """
        rows = new_rows(covariates, self.read.columns)
        frame = _frame(self.codings, rows)
        common, *others = (_new_columns(matrix, frame) for matrix in self.matrices)
        levels = []
        for level, grouping, columns in zip(self.levels, self.read.groupings, others):
            known = {name: place for place, name in enumerate(level.members)}
            index = [known.get(_joined(names), NEW) for names in member_names(grouping.factor, rows)]
            levels.append(replace(level, index=_read_only(np.array(index, dtype=np.int64)), columns=columns))
        return NewRows(common[:, 1:], tuple(levels))


def design_of(
    formula: str, covariates: Any, tasks: Sequence[Any], task: Column | None = None, parameter: str | None = None
) -> Design:
    """The design matrix of a formula for these tasks.

    Parameters
    ----------
    formula
        As in bambi, HSSM or brms: `"condition * age + (1 | mouse)"`; `"1"` has no columns.
    covariates
        Any data frame, or a mapping of columns, with a row for each task, in any order. Where a task has several rows,
        as in a table of trials, they must agree. Not read where the formula uses no column.
    tasks
        Names of tasks: the rows of the design.
    task
        The column that names tasks, or several that are read as one; None: `task`, or what such columns usually are
        called.
    parameter
        Which parameter the formula is for; it may then stand on the left: `"reward ~ age"`.
    """
    read = parsed(formula, parameter)
    table = covariates
    if not isinstance(covariates, Covariates):
        table = Covariates.of(covariates, read.columns, task) if read.columns else Covariates((), (), (), ())
    rows = table.rows(tasks, read.columns) if read.columns else Rows(tuple(map(quoted, tasks)), {}, {})
    codings = tuple(coding_of(part, rows) for part in _components(read))
    frame = _frame(codings, rows)
    common = _coded(read.terms, codings, frame)
    _check_identified(common, read.text)
    slopes = [_coded(grouping.slopes, codings, frame) for grouping in read.groupings]
    levels = tuple(_level(grouping, coded, rows) for grouping, coded in zip(read.groupings, slopes))
    return Design(
        formula=read.text,
        columns=common.columns[:, 1:],
        names=common.names[1:],
        terms=common.terms[1:],
        scale=common.scale[1:],
        levels=levels,
        codings=codings,
        warnings=(*_lonely_levels(codings, rows), *(words for level in levels for words in _level_warnings(level))),
        read=read,
        matrices=tuple(coded.matrix for coded in (common, *slopes)),
    )


def _components(read: Formula) -> list[Component]:
    """What becomes columns, each once."""
    products = [*read.terms, *(slope for grouping in read.groupings for slope in grouping.slopes)]
    return list({part.name: part for each in products for part in each}.values())


def _frame(codings: Sequence[Numeric | Factor], rows: Rows) -> pd.DataFrame:
    """Standardised numbers and factors, under names that any formula can hold: c0d0, c1d0, c1d1, …"""
    columns: dict[str, Any] = {}
    for place, coding in enumerate(codings):
        found = coding.at(rows)
        parts = [found] if isinstance(found, pd.Categorical) else list(found.T)
        columns |= {f"c{place}d{part}": values for part, values in enumerate(parts)}
    return pd.DataFrame(columns, index=range(len(rows.where)))


def _coded(terms: Sequence[Product], codings: Sequence[Numeric | Factor], frame: pd.DataFrame) -> Coded:
    """The columns of terms: `formulae` takes products, and leaves out levels where they would repeat other columns."""
    places = {coding.component.name: place for place, coding in enumerate(codings)}
    parts = [len(coding.names) if isinstance(coding, Numeric) else 1 for coding in codings]
    crossed = [
        ":".join(ids)
        for term in terms
        for ids in product(
            *([f"c{k}d{part}" for part in range(parts[k])] for k in (places[each.name] for each in term))
        )
    ]
    matrix = design_matrices(" + ".join(["1", *crossed]), frame, na_action="error").common
    names, found, scales = [INTERCEPT], [INTERCEPT], [1.0]
    for term in list(matrix.terms.values())[1:]:
        labels, size, of = [], 1.0, []
        for part in term.components:
            place, column = map(int, part.name[1:].split("d"))
            coding = codings[place]
            of.append(coding.component.name)
            if isinstance(coding, Numeric):
                labels.append([coding.names[column]])
                size *= float(coding.scale[column])
            else:
                labels.append([f"{coding.name}[{level}]" for level in part.contrast_matrix.labels])
        every = [":".join(each) for each in product(*labels)]
        names, found, scales = names + every, found + [":".join(of)] * len(every), scales + [size] * len(every)
    columns = _read_only(np.asarray(matrix.design_matrix, dtype=float))
    return Coded(columns, tuple(names), tuple(found), _read_only(np.array(scales)), matrix)


def _new_columns(matrix: Any, frame: pd.DataFrame) -> np.ndarray:
    return _read_only(np.asarray(matrix.evaluate_new_data(frame).design_matrix, dtype=float))


def _check_identified(coded: Coded, text: str) -> None:
    """Refuse columns whose effects no data could tell apart."""
    num_tasks, count = coded.columns.shape
    if count > 1 and count > num_tasks:
        raise InputError(
            f"formula {quoted(text)} has {count} coefficients with the intercept, more than the {num_tasks} tasks. "
            "Leave out terms."
        )
    kept = [0]
    for place in range(1, count):
        column, others = coded.columns[:, place], coded.columns[:, kept]
        weights = np.linalg.lstsq(others, column, rcond=None)[0]
        size = np.linalg.norm(column)
        if np.linalg.norm(column - others @ weights) > DEPENDENT * size:
            kept.append(place)
            continue
        # a weight counts by what it adds to the column
        used = [coded.names[at] for at, weight in zip(kept, weights) if at and abs(weight) > 1e-6 * (size > 0)]
        if not used:
            raise InputError(
                f"formula {quoted(text)}: the column {quoted(coded.names[place])} is the same for all tasks, so "
                "its effect cannot be estimated. Leave out the term, or a level that no task has."
            )
        raise InputError(
            f"formula {quoted(text)}: the column {quoted(coded.names[place])} is a linear combination of "
            f"{listed(used)} in these tasks, so their effects cannot be separated. Leave one of them out."
        )


def _level(grouping: Grouping, coded: Coded, rows: Rows) -> Level:
    """Who belongs to whom."""
    name, order = product_name(grouping.factor), member_order(grouping.factor, rows)
    members = tuple(map(_joined, order))
    if len(set(members)) < len(members):
        raise InputError(f"members of {quoted(name)} have the same name. Remove the colons from their names.")
    if len(members) == 1:
        raise InputError(
            f"all tasks have the same {name}, {quoted(members[0])}, so differences between its members cannot be "
            f"estimated. Leave out (… | {name})."
        )
    place = {names: number for number, names in enumerate(order)}
    index = np.array([place[names] for names in member_names(grouping.factor, rows)], dtype=np.int64)
    for column, slope in enumerate(coded.names):
        values = coded.columns[:, column]
        if column and all(np.ptp(values[index == member]) == 0 for member in range(len(members))):
            raise InputError(
                f"{quoted(slope)} does not vary within any {name}, so slopes by {name} cannot be estimated. Write "
                f"(1 | {name})."
            )
    return Level(name, members, _read_only(index), coded.columns, coded.names)


def _lonely_levels(codings: Sequence[Numeric | Factor], rows: Rows) -> list[str]:
    found = []
    for coding in codings:
        if isinstance(coding, Factor):
            codes = coding.at(rows).codes
            alone = [level for number, level in enumerate(coding.levels) if np.sum(codes == number) == 1]
            found += [
                f"only {rows.where[int(np.argmax(codes == coding.levels.index(level)))]} has {coding.name} "
                f"{quoted(level)}, so its effect depends on a single task."
                for level in alone
            ]
    return found


def _level_warnings(level: Level) -> list[str]:
    alone = int(np.sum(np.bincount(level.index, minlength=len(level.members)) == 1))
    if alone == len(level.members):
        return [
            f"each {level.name} has one task, so differences between members of {level.name} and differences "
            "between tasks are separated only by the priors."
        ]
    if alone and len(level.names) > 1:
        return [
            f"{alone} of {len(level.members)} members of {level.name} have one task, from which no slope can be "
            "estimated: their slopes follow from those of the others."
        ]
    return []


def _joined(names: Sequence[str]) -> str:
    return ":".join(names)


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
