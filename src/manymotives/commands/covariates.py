"""Covariates named on the command line: formulas read, what they cannot be combined with, a model that has them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manymotives.commands.inputs import Inputs
from manymotives.data.belief import DynamicsBelief
from manymotives.data.tables import MANY
from manymotives.errors import InputError, quoted
from manymotives.io.columns import covariate_task_columns
from manymotives.io.files import columns_in, read_table
from manymotives.models.components import Factor, column_of
from manymotives.models.formulas import parsed
from manymotives.models.sharing import EFFECT_SCALE, Hierarchical
from manymotives.posterior.effects import designs_of

CAN_FIT = ("hmc", "gibbs", "metropolis")
CHOICES = f"{', '.join(CAN_FIT[:-1])} or {CAN_FIT[-1]}"


@dataclass(frozen=True)
class Asked:
    """A table of covariates, and the formulas that use it."""

    path: Path
    formula: str | dict[str, str]  # of all parameters, or of each
    scale: float

    @property
    def said(self) -> str:
        """The formulas in a sentence."""
        if isinstance(self.formula, str):
            return self.formula
        return "; ".join(f"{parameter} ~ {text}" for parameter, text in self.formula.items())


def asked_covariates(path: Path | None, formulas: Sequence[str] | None, scale: float | None) -> Asked | None:
    """What was asked for, checked before anything is read; None where nothing was."""
    if path is None:
        if formulas:
            raise InputError(
                "--formula needs --covariates, a table with one row for each subject. The table of choices can "
                "be used if it has these columns."
            )
        if scale is not None:
            raise InputError("--effect-scale is for models with --covariates and --formula. Leave it out, or add them.")
        return None
    if not formulas:
        raise InputError('--covariates needs a formula that uses them, such as --formula "condition + age".')
    if scale is not None and not 0 < scale < float("inf"):
        raise InputError(f"--effect-scale must be a positive number; found {scale:g}.")
    return Asked(path, _formula(formulas), EFFECT_SCALE if scale is None else scale)


def check_covariates(model: str, method: str | None, reward: str | None, *, switches: bool) -> None:
    """Refuse what cannot be combined with covariates, before anything is read."""
    if model != "mrp":
        raise InputError(
            f"--covariates is for --model mrp, whose subjects come from one population; found --model {model}."
        )
    if switches:
        raise InputError("--covariates and --switching cannot be combined yet. Leave one of them out.")
    if reward == "smooth":
        raise InputError("--covariates and --reward smooth cannot be combined yet. Choose another reward.")
    if method not in (None, *CAN_FIT):
        raise InputError(f"--method {method} cannot infer effects of covariates: choose {CHOICES}.")


def with_covariates(model: Any, asked: Asked, inputs: Inputs) -> tuple[Any, tuple[str, ...]]:
    """The model with a population that depends on covariates, and what to know of their table."""
    if isinstance(inputs.dynamics, DynamicsBelief):
        raise InputError(
            "--covariates cannot be combined with an inferred environment yet. Give one (--environment), or take "
            "the observed transitions as the true ones (--plug-in)."
        )
    if inputs.columns.task is None:
        raise InputError(
            "--covariates describe subjects, and no column of the choices names the subject. Name it with --task."
        )
    texts = [asked.formula] if isinstance(asked.formula, str) else list(asked.formula.values())
    used = list(dict.fromkeys(column for text in texts for column in parsed(text).columns))
    if not used:
        raise InputError('--covariates: no formula uses a column. Write one, such as --formula "condition + age".')
    present, notes = columns_in(asked.path)
    task = covariate_task_columns(present, inputs.columns, asked.path.name)
    each = [task] if isinstance(task, str) else list(task)
    table = read_table(asked.path, names=[[column] for column in each], others=used)
    sharing = Hierarchical(asked.formula, table, asked.scale, task=task)
    designs = designs_of(sharing, inputs.demonstrations.tasks)
    warnings = dict.fromkeys(words for design in designs.values() for words in design.warnings)
    spare = len(set(sharing.covariates.tasks) - set(map(str, inputs.demonstrations.tasks)))
    if spare:
        notes = (
            *notes,
            (
                f"{asked.path.name} has rows of {spare:,} subject{'s' if spare > 1 else ''} without choices, which "
                "are not used."
            ),
        )
    return replace(model, sharing=sharing), (*notes, *warnings)


def _formula(formulas: Sequence[str]) -> str | dict[str, str]:
    """One formula for all parameters, or one for each: `reward ~ condition`."""
    pairs = [text.rpartition("~") for text in formulas]
    if len(pairs) == 1 and not pairs[0][1]:
        return formulas[0].strip()
    found: dict[str, str] = {}
    for left, tilde, right in pairs:
        parameter = left.strip()
        if not (tilde and parameter):
            raise InputError(
                f"--formula {quoted(right.strip())} does not name its parameter. With several formulas each names "
                'its own, such as --formula "reward ~ condition" --formula "inverse_temperature ~ age".'
            )
        if parameter in found:
            raise InputError(f"--formula: {quoted(parameter)} has two formulas. Join them with +.")
        found[parameter] = right.strip()
    return found


def covariates_said(asked: Asked | None, model: Any, inputs: Inputs) -> str:
    """What the population depends on, as a clause, with the level that each factor's others are compared with."""
    if asked is None:
        return ""
    designs = designs_of(model.sharing, inputs.demonstrations.tasks)
    factors = [coding for design in designs.values() for coding in design.codings if isinstance(coding, Factor)]
    references = {column_of(factor.component): factor.levels[0] for factor in factors}
    names = [
        f"{quoted(name)} (reference: {references[name]})" if name in references else quoted(name)
        for name in model.sharing.covariates.names
    ]
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return f", whose population depends on covariates ({', '.join(names[:MANY])}{more}: {asked.said}),"
