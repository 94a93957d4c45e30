"""A pilot's posterior, or a model, in; populations, new subjects with their covariates, and what these want, out.

Truths from a posterior are draws of the population's hyperparameters and of the effects of covariates: power averaged
over them is *assurance*, which knows how little the pilot knew. Truths from a model are draws from its prior.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from manymotives.assessment.contrasts import FURTHER, REWARD, WEIGHT, Contrast, Quantity
from manymotives.assessment.simulators import tasks_with_covariates
from manymotives.data.environment import Environment
from manymotives.errors import InputError, quoted
from manymotives.families import draw_all
from manymotives.models import RewardPolicyModel, Target
from manymotives.models.covariates import Covariates, level_name
from manymotives.models.effects import POPULATION, slope_name
from manymotives.models.formulas import column_names
from manymotives.models.model import EVERYBODY
from manymotives.models.rewards import DIRECT, LINEAR, NORMALISED
from manymotives.models.target import FIXED
from manymotives.posterior.predictions import drawn_coefficients, drawn_spreads, typical_coordinates


@dataclass(frozen=True, eq=False)
class Truths:
    """Where truths come from, as plain arrays that any process can read."""

    model: RewardPolicyModel
    environment: Environment
    tasks: tuple[Any, ...]  # whose covariates standardise those of new subjects
    parameters: np.ndarray | None = None  # [K, D, 2] of populations; None: drawn from the prior
    coefficients: np.ndarray | None = None  # [K, P, D] of covariates
    spreads: np.ndarray | None = None  # [K, slopes, D] of members of levels
    everybody: np.ndarray | None = None  # [K, D] under Pooled(): the coordinates that all subjects share

    @property
    def target(self) -> Target:
        """The model bound to no choices at all."""
        shape = (len(self.tasks), self.environment.num_states, self.environment.num_actions)
        return self.model.target(self.environment, self.tasks, np.zeros(shape))

    def draw(self, target: Target, rng: np.random.Generator) -> "Population":
        """One population."""
        if self.everybody is not None:
            return Population(np.empty((0, 2)), None, None, self.everybody[rng.integers(len(self.everybody))])
        if self.parameters is not None:
            k = int(rng.integers(len(self.parameters)))
            coefficients, spreads = (None if each is None else each[k] for each in (self.coefficients, self.spreads))
            return Population(self.parameters[k], coefficients, spreads, None)
        hyper = target.draw_hyper(rng, 1)
        parameters = np.array(target.parameters(hyper)[0, 0])
        if self.model.is_pooled:
            return Population(parameters, None, None, target.draw_tasks(rng, hyper)[0, 0])
        if target.effects is None:
            return Population(parameters, None, None, None)
        z, log_spread = target.effects.draw(rng)
        of_population = target.effects.slope == POPULATION
        coefficients = target.effects.coefficients(z, log_spread)[of_population]
        return Population(parameters, coefficients, np.where(target.effects.has_slope, np.exp(log_spread), 0.0), None)


class Population(NamedTuple):
    """One truth."""

    parameters: np.ndarray  # [D, 2]
    coefficients: np.ndarray | None  # [P, D]
    spreads: np.ndarray | None  # [slopes, D]
    everybody: np.ndarray | None  # [D]

    def contrast(self, contrast: Contrast, target: Target, covariates: Mapping[str, Any]) -> float:
        """The contrast's true value for subjects with these covariates."""
        location = typical_coordinates(target, self.parameters) if self.everybody is None else self.everybody
        return float(contrast.at(target, location, self.coefficients, covariates))

    def with_effect(
        self, contrast: Contrast, effect: float, target: Target, covariates: Mapping[str, Any]
    ) -> "Population":
        """The same with another value of the contrast, and nothing else changed that it does not depend on."""
        missing = effect - self.contrast(contrast, target, covariates)
        place = coordinate_of(contrast.quantity, target)
        if contrast.column is not None:
            assert self.coefficients is not None
            assert target.effects is not None
            one, other = (target.effects.columns_at(contrast.at_value(covariates, value)) for value in contrast.values)
            change = (one - other).mean(axis=0) * target.effects.applies[target.effects.slope == POPULATION, place]
            coefficients = self.coefficients.copy()
            coefficients[:, place] += missing * change / (change @ change)
            return self._replace(coefficients=coefficients)
        shift = np.zeros(target.num_coordinates)
        shift[place] = missing if contrast.less is None else missing / 2
        if contrast.less is not None:
            shift[coordinate_of(contrast.less, target)] = -missing / 2
        if self.everybody is not None:
            return self._replace(everybody=self.everybody + shift)
        parameters = self.parameters.copy()
        parameters[:, 0] += shift  # of a normal family: its mean
        return self._replace(parameters=parameters)


def coordinate_of(quantity: Quantity, target: Target) -> int:
    """The coordinate that a quantity is, where it is one of a Gaussian reward."""
    layout = target.layout
    if layout.link == LINEAR and quantity.kind == WEIGHT:
        return quantity.index
    is_free = not layout.features.exist or target.has_shared_rewards
    if layout.link == LINEAR and quantity.kind == REWARD and is_free:
        return int(np.flatnonzero(layout.reward_index == quantity.index)[0])
    raise InputError(
        f"effect can be set for weights of features and for rewards of a GaussianReward(), not for "
        f"{quoted(quantity.name)} of this model. Write a model whose priors have the effect you plan for."
    )


# ---- new subjects ------------------------------------------------------------------------------------------------


class Recruits(NamedTuple):
    """New subjects: the tasks they do, and the covariates of these."""

    tasks: tuple[int, ...]
    subject: np.ndarray  # [tasks] whose each is: several tasks may be one mouse's
    covariates: dict[str, list[Any]]  # by column, one value for each task

    def table(self, like: Covariates) -> Covariates:
        """As a table with the columns and the levels of another."""
        values = tuple(tuple(self.covariates[name]) for name in like.names)
        levels = tuple(
            None if known is None else (*known, *sorted(set(column) - set(known)))
            for known, column in zip(like.levels, values)
        )
        return Covariates(tuple(level_name(task) for task in self.tasks), like.names, values, levels)


def recruited(
    table: Covariates | None, model: RewardPolicyModel, contrast: Contrast, count: int, seed: Any
) -> Recruits:
    """So many new subjects, whose covariates are those of rows of a table.

    Levels of the contrast's factor get equally many subjects, whatever the table has: a new experiment can be balanced,
    and that tells most with a given number of subjects. All else is as in the table: its rows are taken in random
    order, each as often as the others. Where the formula has a level such as (1 | mouse), a subject is a mouse with all
    of its rows.
    """
    if table is None:
        return Recruits(tuple(range(count)), np.arange(count), {})
    rows = table.rows(dict.fromkeys(table.tasks), table.names).values
    owner = _owner_column(model)
    members = rows[owner] if owner is not None else range(len(rows[table.names[0]]))
    units: dict[Any, list[int]] = {}
    for row, member in enumerate(members):
        units.setdefault(member, []).append(row)
    strata = _strata(list(units.values()), rows, table, contrast)
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(stratum)) for stratum in strata]
    chosen: list[int] = []
    subject: list[int] = []
    for k in range(count):
        stratum, order = strata[k % len(strata)], orders[k % len(strata)]
        unit = stratum[order[k // len(strata) % len(order)]]
        chosen += unit
        subject += [k] * len(unit)
    covariates = {name: [values[row] for row in chosen] for name, values in rows.items()}
    if owner is not None:  # a new mouse, with a name of its own
        is_text = table.levels[table.names.index(owner)] is not None
        covariates[owner] = [f"subject {k}" if is_text else k for k in subject]
    return Recruits(tuple(range(len(chosen))), np.array(subject), covariates)


def _strata(
    units: list[list[int]], rows: Mapping[str, Sequence[Any]], table: Covariates, contrast: Contrast
) -> list[list[list[int]]]:
    """Units by the level of the contrast's factor; all in one where each unit has several levels, or numbers."""
    column = contrast.column
    if column is None or table.levels[table.names.index(column)] is None:
        return [units]
    of_unit = [{rows[column][row] for row in unit} for unit in units]
    if any(len(levels) > 1 for levels in of_unit):
        return [units]
    order = dict.fromkeys([contrast.values[1], contrast.values[0], *(next(iter(levels)) for levels in of_unit)])
    return [[unit for unit, levels in zip(units, of_unit) if level in levels] for level in order]


def _owner_column(model: RewardPolicyModel) -> str | None:
    """The column that says whose a task is, where the formula has a level above tasks."""
    formulas = model.sharing.formulas.values()
    found = {
        name
        for read in formulas
        for grouping in read.groupings
        for part in grouping.factor
        for name in column_names(part.tree)
    }
    if len(found) > 1:
        raise InputError(
            f"power can recruit new members of one level, such as (1 | mouse); this formula has several: "
            f"{', '.join(map(quoted, sorted(found)))}. Leave out all but one."
        )
    return next(iter(found), None)


def wanted(population: Population, target: Target, recruits: Recruits, seed: int) -> np.ndarray:
    """Coordinates u [tasks, D] of new subjects; each subject draws from a stream of its own.

    So the first subjects of a large experiment are those of a small one, and cells of a table are compared as pairs.
    """
    count = int(recruits.subject.max()) + 1
    streams = [np.random.default_rng(child) for child in np.random.SeedSequence(seed, spawn_key=(3,)).spawn(count)]
    if population.everybody is not None:
        return np.repeat(population.everybody[None], len(recruits.tasks), axis=0)
    families, parameters = target.layout.families, np.ascontiguousarray(population.parameters[None])
    slopes_of = target.effects.num_slopes if target.effects is not None else 0
    members = [stream.standard_normal((slopes_of, len(families))) for stream in streams]
    u = np.concatenate([draw_all(streams[k], families, parameters) for k in recruits.subject])
    effects = target.effects
    if effects is None or population.coefficients is None or population.spreads is None:
        return u
    u = u + effects.columns_at(recruits.covariates) @ population.coefficients
    slopes = {
        slope_name(level, name): level.columns[:, number]
        for design in effects.designs
        for level in design.at(recruits.covariates).levels
        for number, name in enumerate(level.names)
    }
    own = np.stack(members)[recruits.subject]  # [tasks, slopes, D]
    for k, name in enumerate(effects.slope_names):
        u += slopes[name][:, None] * population.spreads[k] * own[:, k]
    return u


# ---- where truths come from --------------------------------------------------------------------------------------


def truths_of_model(model: RewardPolicyModel, environment: Environment) -> Truths:
    """The prior of a model."""
    tasks = (EVERYBODY,) if model.is_pooled else tasks_with_covariates(model) or (0,)
    return Truths(model, environment, tasks)


def truths_of_pilot(posterior: Any, environment: Environment) -> Truths:
    """Every draw of a posterior."""
    model, target = posterior.model, posterior.target
    if model.is_pooled:
        return Truths(model, environment, (EVERYBODY,), everybody=_coordinates(posterior))
    parameters = np.array(target.parameters_at(posterior.hyperparameters()))
    if not model.has_covariates:
        return Truths(model, environment, posterior.tasks[:1], parameters)
    own = Truths(model, environment, posterior.tasks, parameters)
    return replace(own, coefficients=drawn_coefficients(posterior), spreads=drawn_spreads(posterior))


def _coordinates(posterior: Any) -> np.ndarray:
    """Draws [K, D] of everybody's coordinates, back from rewards, temperatures, lapses and discounts."""
    target, drawn = posterior.target, posterior.data["posterior"].dataset
    layout, count = target.layout, drawn.sizes["chain"] * drawn.sizes["draw"]
    rewards = np.nan_to_num(drawn["reward"].values.reshape(count, -1))
    u = np.zeros((count, target.num_coordinates))
    if layout.link in (NORMALISED, DIRECT):
        own = rewards[:, layout.reward_index]
        u[:, : layout.num_rewards] = np.log(own) - (0.0 if layout.link == NORMALISED else np.log1p(-own))
    elif not layout.features.exist or target.has_shared_rewards:
        u[:, : layout.num_rewards] = rewards[:, layout.reward_index]
    else:  # weights, then a residual; or, without weights, those of eigenvectors
        size, matrix = target.num_weights, layout.features.array
        if size:
            u[:, :size] = drawn["weight"].values.reshape(count, -1)
        rest = rewards - u[:, :size] @ matrix[:, :size].T
        u[:, size : layout.num_rewards] = rest @ np.linalg.pinv(matrix[:, size:]).T
    for name, place in zip(FURTHER, (layout.temperature, layout.lapse, layout.discount)):
        if place != FIXED:
            value = drawn[name].values.ravel()
            u[:, place] = np.log(value) - (0.0 if name == "inverse_temperature" else np.log1p(-value))
    return u
