"""How tasks relate: what is drawn once for all of them, and what for each."""

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

from manymotives.data.labels import unknown_names
from manymotives.errors import InputError, quoted
from manymotives.io.records import ADDED_LATER, Recorded
from manymotives.models.covariates import Covariates
from manymotives.models.designs import Design, design_of
from manymotives.models.formulas import Formula, parsed

MEAN = "1"  # the formula of a population with one mean
REWARD = "reward"  # its formula is that of every weight of the reward without one of its own
EFFECT_SCALE = 2.5  # of coefficients, as rstanarm and bambi have it for standardised covariates


@dataclass(frozen=True, repr=False)
class Hierarchical(Recorded):
    """Partial pooling: each task has its own reward and temperature, drawn from a population whose parameters are
    inferred (MRP).

    Parameters
    ----------
    formula
        How the mean of tasks' parameters depends on covariates, in the syntax of bambi and brms: `"condition + age"`,
        or one formula for each parameter, `{"reward": "condition", "inverse_temperature": "age + (1 | mouse)"}`.
        Parameters that are not named have the formula `"1"`, that is, one mean.
    covariates
        A data frame of any kind, or a mapping of columns, with one row for each task. Only the columns that the
        formulas use are kept.
    effect_scale
        The prior scale of effects. Coefficients are Normal(0, effect_scale) a priori, for one standard deviation of a
        numeric covariate or a change of level of a factor, in the parameter's own coordinate (logarithms of inverse
        temperatures and Dirichlet rewards, logits of lapse rates and Beta rewards); the standard deviation between
        members of a level is HalfNormal(effect_scale). The default is wide, so that estimates are hardly shrunk towards
        zero: with 1, a difference that is known to ±.4 would be estimated a seventh too small.
    task
        The column of covariates that names tasks, or several that are read as one, such as `["mouse", "condition"]`. If
        None, the column `task`, or one with another usual name.
    """

    formula: Any = field(default=MEAN, metadata=ADDED_LATER)
    covariates: Any = field(default=None, metadata=ADDED_LATER)
    effect_scale: float = field(default=EFFECT_SCALE, metadata=ADDED_LATER)
    task: InitVar[Any] = None

    def __post_init__(self, task: Any) -> None:
        object.__setattr__(self, "formula", _checked(self.formula))
        scale = self.effect_scale
        if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < float("inf"):
            raise InputError(f"Hierarchical: effect_scale must be a positive number; found {quoted(scale)}.")
        used = list(dict.fromkeys(name for read in self.formulas.values() for name in read.columns))
        if used and self.covariates is None:
            raise InputError(
                f"Hierarchical: the formula uses {quoted(used[0])}, but there are no covariates. Pass "
                "covariates=table, with a row for each task."
            )
        if self.covariates is None:
            return
        if not used:
            raise InputError("Hierarchical: covariates are given, but no formula uses them. Pass a formula as well.")
        if isinstance(self.covariates, Covariates):
            table = self.covariates.only(used)
        else:
            table = Covariates.of(self.covariates, used, task)
        object.__setattr__(self, "covariates", table)

    def __repr__(self) -> str:
        formula = self.formula if isinstance(self.formula, str) else dict(self.formula)
        given = [] if self.formula == MEAN else [repr(formula)]
        given += [] if self.covariates is None else [f"covariates={self.covariates!r}"]
        given += [] if self.effect_scale == EFFECT_SCALE else [f"effect_scale={self.effect_scale!r}"]
        return f"Hierarchical({', '.join(given)})"

    @property
    def formulas(self) -> dict[str | None, Formula]:
        """The formula of each parameter; None: of all of them."""
        if isinstance(self.formula, str):
            return {None: parsed(self.formula)}
        return {parameter: parsed(text, parameter) for parameter, text in self.formula}

    @property
    def has_covariates(self) -> bool:
        """Whether tasks' parameters depend on anything."""
        return self.covariates is not None

    def designs(
        self, tasks: Sequence[Any], parameters: Sequence[str], weights: Sequence[str] = ()
    ) -> dict[str, Design]:
        """The design matrix of each parameter.

        Parameters
        ----------
        tasks
            Names of tasks: the rows of each design.
        parameters
            What the model infers for each task, such as "reward", "inverse_temperature", "lapse" and "discount".
        weights
            Names of the reward's parts, such as features; one without a formula of its own has that of "reward".
        """
        known = list(dict.fromkeys([*parameters, *weights]))
        texts = dict.fromkeys(known, self.formula) if isinstance(self.formula, str) else dict(self.formula)
        unknown = [parameter for parameter in texts if parameter not in known]
        if unknown:
            raise InputError(f"Hierarchical: a formula for an {unknown_names(unknown, known, 'parameter')}")
        owners = {name: REWARD if name in weights and name not in texts else name for name in known}
        chosen = {name: texts.get(owner, MEAN) for name, owner in owners.items()}
        made = {text: design_of(text, self.covariates, tasks, parameter=owners[name]) for name, text in chosen.items()}
        return {name: made[text] for name, text in chosen.items()}


def _checked(formula: Any) -> Any:
    """A formula, or pairs of a parameter and its formula."""
    if isinstance(formula, Mapping):
        formula = tuple(formula.items())
    if not isinstance(formula, list | tuple):
        parsed(formula)
        return formula
    pairs = tuple(tuple(pair) if isinstance(pair, list | tuple) else (pair,) for pair in formula)
    if not pairs or any(len(pair) != 2 or not isinstance(pair[0], str) for pair in pairs):
        raise InputError(
            "Hierarchical: formula must be text, or a mapping of parameters to formulas, such as "
            f"{{'reward': 'condition', 'lapse': '1'}}; found {quoted(formula)}."
        )
    for parameter, text in pairs:
        parsed(text, parameter)
    return pairs


@dataclass(frozen=True)
class Separate(Recorded):
    """No pooling: each task is estimated on its own, and the data of one say nothing about another."""


@dataclass(frozen=True)
class Pooled(Recorded):
    """Complete pooling: one reward and one temperature for all tasks, as if one agent had made all choices (RP).

    Give the reward a fixed prior, such as `GaussianReward(mean=0.0, scale=1.0)` or
    `DirichletReward(concentration=1.0)`: one reward cannot inform the mean and scale of a population, and chains mix
    slowly if they are inferred.
    """
