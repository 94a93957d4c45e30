"""A contrast in words, such as "water: restricted - free", in; its value for any population, or draws of one, out.

    water                     what the population's typical task gives for water, held against 0
    water - food              … for water less what it gives for food
    water: restricted - free  the difference that a covariate makes to what it gives for water

Names are those of features, of states (of pairs: "state, action"), or one of inverse_temperature, lapse and discount.
The typical task and its covariates are those of `posterior.predict_at`: covariates that the contrast does not name
keep every task's own value, and the contrast is averaged over tasks.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manymotives.data.labels import unknown_names
from manymotives.errors import InputError, listed, quoted
from manymotives.models import RewardPolicyModel, Target
from manymotives.models.covariates import Covariates, level_name
from manymotives.models.shared_rewards import reward_names

MINUS = re.compile(r"(?:(?<=\s)|^)[-−–](?=\s)")  # between blanks, because names may have hyphens
FURTHER = ("inverse_temperature", "lapse", "discount")  # what else a task may have of its own
WEIGHT, REWARD = "weight", "reward"


@dataclass(frozen=True)
class Quantity:
    """One number that every task has: the weight of a feature, the reward of a state, its inverse temperature, …"""

    name: str
    kind: str  # WEIGHT, REWARD or one of FURTHER
    index: int = 0  # of the feature, or of the cell of the reward table

    def at(self, target: Target, u: np.ndarray) -> np.ndarray:
        """[...] of tasks with coordinates u [..., D]."""
        if self.kind == WEIGHT:
            return u[..., self.index]
        if self.kind == REWARD:
            rewards = target.rewards(u)
            return rewards.reshape(*u.shape[:-1], -1)[..., self.index]
        anybody = np.zeros(u.shape[:-1], dtype=int)
        found = {"inverse_temperature": target.temperatures, "lapse": target.lapses, "discount": target.discounts}
        return np.asarray(found[self.kind](u, anybody))


@dataclass(frozen=True)
class Contrast:
    """A difference to be learnt, made by `read_contrast`."""

    text: str
    quantity: Quantity
    less: Quantity | None = None  # what is subtracted: another quantity …
    column: str | None = None  # … or the same one at another value of this covariate
    values: tuple[Any, Any] = (None, None)  # of the covariate: the first less the second

    def at(
        self, target: Target, location: np.ndarray, coefficients: np.ndarray | None, covariates: Mapping[str, Any]
    ) -> np.ndarray:
        """Its value [...] for populations at `location` [..., D] with `coefficients` [..., P, D] of covariates.

        `covariates` are the columns of the tasks that it is averaged over, coded as `target` codes them.
        """
        if self.column is None:
            here = self._averaged(self.quantity, target, location, coefficients, covariates)
            if self.less is None:
                return here
            return here - self._averaged(self.less, target, location, coefficients, covariates)
        one, other = (
            self._averaged(self.quantity, target, location, coefficients, self.at_value(covariates, value))
            for value in self.values
        )
        return one - other

    def at_value(self, covariates: Mapping[str, Any], value: Any) -> dict[str, Any]:
        return {name: [value] * len(rows) if name == self.column else rows for name, rows in covariates.items()}

    def _averaged(
        self,
        quantity: Quantity,
        target: Target,
        location: np.ndarray,
        coefficients: np.ndarray | None,
        covariates: Mapping[str, Any],
    ) -> np.ndarray:
        """The quantity of typical tasks with these covariates, averaged over the rows, of which equal ones count."""
        if target.effects is None or coefficients is None:
            return quantity.at(target, location)
        rows, count = np.unique(target.effects.columns_at(covariates), axis=0, return_counts=True)
        total = np.zeros(location.shape[:-1])
        for row, many in zip(rows, count):  # one at a time: rewards of many states are long
            total += many * quantity.at(target, location + np.einsum("e,...ed->...d", row, coefficients))
        return total / count.sum()


def read_contrast(text: Any, model: RewardPolicyModel, target: Target) -> Contrast:
    """What a text asks for, in the names of a model and of the data it is bound to."""
    if not isinstance(text, str) or not text.strip():
        raise InputError(
            'contrast must be text such as "water", "water - food" or "water: restricted - free"; found '
            f"{quoted(text)}."
        )
    known, whole = quantities_of(model, target), " ".join(text.split())
    if whole in known:
        return Contrast(whole, known[whole])
    for match in re.finditer(":", whole):
        name, asked = whole[: match.start()].strip(), whole[match.end() :].strip()
        if name in known:
            column, values = _read_values(asked, whole, model)
            return Contrast(whole, known[name], column=column, values=values)
    for left, right in _sides(whole):
        if left in known and right in known:
            if left == right:
                raise InputError(
                    f"contrast {quoted(whole)} subtracts {quoted(left)} from itself. Compare two different names."
                )
            return Contrast(whole, known[left], less=known[right])
    sides = [side for pair in _sides(whole) for side in pair if side] or [whole.split(":")[0].strip()]
    unknown = [side for side in sides[:2] if side not in known]
    raise InputError(f"contrast {quoted(whole)}: {unknown_names(unknown, list(known), 'name')}")


def quantities_of(model: RewardPolicyModel, target: Target) -> dict[str, Quantity]:
    """What contrasts can be about, by name: features before states of the same name."""
    environment, found = target.environment, {}
    if target.num_weights:
        names = map(str, model.reward.feature_names(target.num_weights))
        found = {name: Quantity(name, WEIGHT, number) for number, name in enumerate(names)}
    own = reward_names(environment, target.on)
    for label, cell in zip(own.labels, own.first):
        name = ", ".join(map(str, label)) if isinstance(label, tuple) and target.on == "state_action" else str(label)
        found.setdefault(name, Quantity(name, REWARD, int(cell)))
    layout = target.layout
    inferred = (layout.temperature, layout.lapse, layout.discount)
    for name, position in zip(FURTHER, inferred):
        if position >= 0:
            found.setdefault(name, Quantity(name, name))
    return found


def _sides(text: str) -> list[tuple[str, str]]:
    """The text before and after each minus sign."""
    return [(text[: m.start()].strip(), text[m.end() :].strip()) for m in MINUS.finditer(text)]


def _read_values(asked: str, whole: str, model: RewardPolicyModel) -> tuple[str, tuple[Any, Any]]:
    """Two values of one covariate: `restricted - free`, `condition = restricted - free`, `age = 60 - 20`."""
    if not model.has_covariates:
        raise InputError(
            f"contrast {quoted(whole)} compares values of a covariate, but the model has none. Use "
            'mm.Hierarchical("condition", covariates=table), or compare two names, such as "water - food".'
        )
    table = model.sharing.covariates
    named, _, rest = asked.partition("=")
    if rest and named.strip() in table.names:
        columns, asked = [named.strip()], rest.strip()
    else:
        columns = [name for name, levels in zip(table.names, table.levels) if levels is not None]
    pairs = _sides(asked)
    found = [(column, values) for column in columns for pair in pairs if (values := _values_of(table, column, pair))]
    if len(found) > 1:
        raise InputError(
            f"contrast {quoted(whole)}: several covariates have these levels, "
            f'{listed([name for name, _ in found])}. Say which one you mean: "{found[0][0]} = {asked}" after the '
            "colon."
        )
    if not found:
        raise InputError(
            f"contrast {quoted(whole)}: two different levels of a factor must follow the colon, such as "
            f'"{_example(table)}"; found {quoted(asked)}. {_levels(table)}'
        )
    return found[0]


def _values_of(table: Covariates, column: str, pair: Sequence[str]) -> tuple[Any, Any] | None:
    """The two values as the table has them; None where it has not both of them."""
    place = table.names.index(column)
    if table.levels[place] is None:
        try:
            one, other = map(float, pair)
        except ValueError:
            return None
        return (one, other) if one != other and np.isfinite([one, other]).all() else None
    known = {level_name(value): value for value in table.values[place] if value is not None}
    if pair[0] == pair[1] or any(side not in known for side in pair):
        return None
    return known[pair[0]], known[pair[1]]


def _example(table: Covariates) -> str:
    for name, values, levels in zip(table.names, table.values, table.levels):
        if levels is None:
            return f"{name} = {max(values):g} - {min(values):g}"
        occurring = [level for level in levels if level in values]
        if len(occurring) > 1:
            return f"{occurring[1]} - {occurring[0]}"
    return "restricted - free"


def _levels(table: Covariates) -> str:
    """What the covariates are, in a sentence."""
    said = []
    for name, levels in zip(table.names, table.levels):
        said.append(f"{quoted(name)} has numbers" if levels is None else f"{quoted(name)} has {listed(levels)}")
    return f"Of the covariates, {'; '.join(said)}."
