"""A posterior and a change in; what each subject would do, visit and gain after it, with intervals, out.

See `Posterior.counterfactual`. Every quantity is computed for each draw on both sides of the change, and differences
are taken within draws: their intervals are narrower than those of either side where both move together.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.labels import Label
from manymotives.errors import InputError
from manymotives.inference.progress import Progress
from manymotives.posterior.by_name import own_names
from manymotives.posterior.changes import Change, change_of
from manymotives.posterior.counterfactual_words import identification_sentences, summary_lines
from manymotives.posterior.labelling.common import coordinate_of
from manymotives.posterior.shown_after import shown_after
from manymotives.posterior.sides import Sides, prior_choices, sides_of
from manymotives.posterior.tables import stacked
from manymotives.posterior.units import unit_of_value
from manymotives.worlds.simulate import simulate_policies

TIMES = ("before", "after", "difference")
ROUNDING = 1e-11  # of the larger side: a smaller difference is none
SCALARS = ("value", "value_by_reward_before", "welfare")
QUANTITIES: dict[str, tuple[str, ...]] = {
    "choice": ("state", "action"),
    "occupancy": ("state",),
    "long_run_share": ("action",),
    **dict.fromkeys(SCALARS, ()),
}


@dataclass(frozen=True, eq=False, repr=False)
class Counterfactual:
    """What would happen after a change; returned by `posterior.counterfactual`.

    `data` contains means over draws with the intervals `…_lower` to `…_upper`, along `time`: before, after and
    difference; and `…_p_positive`, the probability that a difference is above 0. Variables whose names begin with
    `population_` are for the average of all tasks.

    choice
        (time, task, state, action): the probability of each action in each state.
    occupancy
        (time, task, state): shares of discounted time from the start distribution, (1 − γ) Σ γᵗ P(s_t = s). They sum to
        one, except for the time after episodes that end.
    long_run_share
        (time, task, action): how often each action is taken in the long run, as a share of all steps, without
        discounting: under the stationary distribution of the states. If there are several recurrent classes, such as
        two absorbing states, each counts by the probability of ending up in it from the start distribution. If episodes
        end, each is followed by another from the start distribution.
    value
        (time, task): the expected discounted sum of a task's own rewards under its own choices, in units of reward;
        `data.attrs["unit"]` says what one unit is in log-odds of choices. After the change, the rewards are those after
        the change, including whatever was added.
    value_by_reward_before
        The same, with the choices after the change evaluated by the rewards before it, so that what was added does not
        count as a gain; only if rewards are changed.
    welfare
        The value and what agents gain from the taste shocks of the random-utility interpretation: the log-sum of
        economists, up to Euler's constant. Only for `SoftOptimal` without lapses and with an infinite horizon.

    States that exist only before or only after the change have no number on the other side. Visits and values on both
    sides are discounted by the discount after the change.
    """

    data: xr.Dataset
    environment: Environment  # after the change
    identified: bool | None  # whether choices could determine choices after the change; None: not computed
    value_identified: bool | None  # and differences of value
    change: tuple[str, ...]  # what changes, in words
    statements: tuple[str, ...]  # whether the question is identified, and what it rests on where it is not
    choices: np.ndarray  # [draws, …, S, A] after the change, one table for each draw

    @cached_property
    def unidentified(self) -> pd.DataFrame:
        """States in which choices after the change depend on the prior: a typical task's interval and that of the
        prior.

        There is one row for each action: the mean over tasks of its probability and of the ends of its interval, and
        the interval of a task of which only the prior is known. The table is empty if everything is identified.
        """
        data = self.data
        columns = ["state", "action", "mean", "lower", "upper", "prior_lower", "prior_upper"]
        if "choice_prior_lower" not in data:
            return pd.DataFrame(columns=columns)
        over = [dim for dim in ("task", "motive") if dim in data["choice"].dims]
        later = data.sel(time="after")
        parts = {"mean": later["choice"], "lower": later["choice_lower"], "upper": later["choice_upper"]}
        table = xr.Dataset(
            {name: part.mean(over) for name, part in parts.items()}
            | {
                "prior_lower": data["choice_prior_lower"],
                "prior_upper": data["choice_prior_upper"],
                "rests": data["rests_on_prior"],
            }
        ).drop_vars("time")
        frame = table.to_dataframe(dim_order=["state", "action"]).reset_index()
        frame = frame[frame["rests"]].dropna(subset="mean")
        return frame[columns].reset_index(drop=True)

    def to_frame(self, of: str | None = None) -> pd.DataFrame:
        """A tidy table with a row for each quantity, task, state and action: before, after and difference, with
        intervals.

        `identified` says whether choices can identify the value after the change; if not, `prior_lower` and
        `prior_upper` are the interval under the prior.

        Parameters
        ----------
        of
            "task", "population" (the average of all tasks), or None for both.

        Returns
        -------
        DataFrame
            A tidy table, with one row for each number.
        """
        if of not in (None, "task", "population"):
            raise InputError(f'of must be "task", "population" or None; found {of!r}.')
        parts = [
            self._table(quantity, who)
            for who in (("task", "population") if of is None else (of,))
            for quantity in QUANTITIES
            if f"{'' if who == 'task' else 'population_'}{quantity}" in self.data
        ]
        if not parts:
            raise InputError(
                "under Pooled() the motives are everybody's, so there is no population of tasks. Leave out of=."
            )
        whole = stacked(parts)
        first = [name for name in ("of", "quantity", "task", "motive", "state", "action") if name in whole]
        return whole[[*first, *(name for name in whole if name not in first)]]

    def paths(self, steps: int, episodes: int = 1, seed: int = 0) -> Demonstrations:
        """Simulated demonstrations of every task after the change, with a posterior draw for each episode.

        Episodes therefore vary with the uncertainty about a task as well as by chance.

        Parameters
        ----------
        steps, episodes, seed
            As for `mm.simulate`.

        Returns
        -------
        Demonstrations
            Demonstrations of every task.
        """
        if steps < 1 or episodes < 1:
            raise InputError(f"steps and episodes must be at least 1; found {steps} and {episodes}.")
        if "motive" in self.data.dims:
            raise InputError(
                "these subjects switch between motives, and it is not known how they would do so after the "
                "change, so no paths can be simulated. counterfactual.data has what each motive would do."
            )
        tasks = tuple(self.data["task"].values.tolist())
        draws = np.random.default_rng([seed, 1]).integers(len(self.choices), size=(len(tasks), episodes))
        whose = np.arange(len(tasks))[:, None] if self.choices.ndim == 4 else None
        policies = self.choices[draws] if whose is None else self.choices[draws, whose]
        return simulate_policies(self.environment, policies, steps=steps, seed=seed, tasks=tasks)

    def _table(self, quantity: str, who: str) -> pd.DataFrame:
        """The rows of one quantity."""
        data, name = self.data, quantity if who == "task" else f"population_{quantity}"
        columns = {}
        for time in TIMES:
            for end in ("", "_lower", "_upper"):
                columns[f"{time}{end}"] = data[f"{name}{end}"].sel(time=time, drop=True)
        columns["p_positive"] = data[f"{name}_p_positive"]
        keys = [str(dim) for dim in columns["after"].dims]
        if quantity == "choice" and "choice_prior_lower" in data:
            columns |= {"prior_lower": data["choice_prior_lower"], "prior_upper": data["choice_prior_upper"]}
        if quantity in ("choice", "occupancy"):
            columns["rests"] = data["rests_on_prior"] if quantity == "choice" else xr.zeros_like(data["rests_on_prior"])
        table = xr.Dataset(columns)
        if keys:
            frame = table.to_dataframe(dim_order=keys).reset_index()
            frame = frame.dropna(subset=["before", "after"], how="all")
        else:
            frame = pd.DataFrame([{str(key): float(value) for key, value in table.items()}])
        known = self.value_identified if quantity in SCALARS else self.identified
        frame["identified"] = known if quantity != "choice" or known is None else ~frame["rests"].astype(bool)
        frame = frame.drop(columns="rests", errors="ignore")
        frame.insert(0, "quantity", quantity)
        frame.insert(0, "of", who)
        return frame

    def __str__(self) -> str:
        return "\n".join(summary_lines(self))

    __repr__ = __str__


def counterfactual_of(
    posterior: Any,
    *,
    environment: Any,
    rewards: Any,
    available: Any,
    discount: Any,
    features: Any,
    draws: int,
    level: float,
    seed: int,
    progress: bool | Progress,
) -> Counterfactual:
    """See `Posterior.counterfactual`."""
    _check(posterior, draws, level)
    change = change_of(posterior, environment, rewards, available, discount, features)
    known = shown_after(posterior, change)
    report = progress if isinstance(progress, Progress) else Progress(bool(progress))
    sides = sides_of(posterior, change, draws, seed, report)
    data = _dataset(posterior, change, sides, level)
    rests = np.zeros(data.sizes["state"], dtype=bool)
    rests[: change.place.num_states] = known.states
    data["rests_on_prior"] = (("state",), rests)
    if known.choices is not True:
        data = data.assign(_prior_interval(posterior, change, data, level, seed))
    visits = posterior.data["observed_data"].dataset["counts"].values.sum(axis=(0, 2))
    statements = identification_sentences(known, change, posterior, visits)
    has_shocks = int(posterior.model.choice.is_soft)
    return Counterfactual(
        data.assign_attrs(
            draws=len(sides.value_after), level=level, has_taste_shocks=has_shocks, unit=unit_of_value(posterior)
        ),
        change.place,
        known.choices,
        known.values,
        change.words,
        statements,
        sides.choice_after,
    )


def _check(posterior: Any, draws: int, level: float) -> None:
    if draws < 1:
        raise InputError(f"draws must be at least 1; found {draws}.")
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1; found {level!r}.")
    if getattr(posterior.model, "choice", None) is None:
        raise InputError(
            "a PolicyOptimalityModel says which rewards explain the choices, but not how subjects would choose "
            "elsewhere. posterior.transfer(environment) has what would be best for them; for what they would do, "
            "fit a RewardPolicyModel."
        )
    if posterior.belief is not None:
        raise InputError(
            "the transitions of this fit are not known, so there is nothing to compare a change with. Fit the "
            "mean of the belief (belief.mean, or --plug-in on the command line); or use "
            "posterior.transfer(environment) for what they would do in a known environment."
        )


# ---- numbers with names ------------------------------------------------------------------------------------------


def _dataset(posterior: Any, change: Change, sides: Sides, level: float) -> xr.Dataset:
    """Means and intervals of all quantities, states and actions of both sides side by side."""
    fitted, place = posterior.environment, change.place
    states, rows = _side_by_side(place.states, fitted.states, own_names(fitted))
    actions, columns = _side_by_side(place.actions, fitted.actions)
    here, there = (len(states), len(actions)), np.arange(place.num_states)
    exists = np.zeros(here, dtype=bool)
    exists[: place.num_states, : place.num_actions] |= place.available
    exists[np.ix_(rows, columns)] |= fitted.available
    both = {
        "choice": tuple(
            _choices(draws, each, at, here, exists)
            for draws, each, at in (
                (sides.choice_before, fitted, (rows, columns)),
                (sides.choice_after, place, (there, np.arange(place.num_actions))),
            )
        ),
        "occupancy": (_at(sides.visits_before, rows, len(states)), _at(sides.visits_after, there, len(states))),
        "long_run_share": (
            _at(sides.shares_before, columns, len(actions), missing=0.0),
            _at(sides.shares_after, np.arange(place.num_actions), len(actions), missing=0.0),
        ),
        "value": (sides.value_before, sides.value_after),
    }
    if change.changes_rewards:
        both["value_by_reward_before"] = (sides.value_before, sides.value_by_reward_before)
    if sides.welfare_before is not None and sides.welfare_after is not None:
        both["welfare"] = (sides.welfare_before, sides.welfare_after)
    made: dict[str, Any] = {}
    for name, (before, after) in both.items():
        cells = QUANTITIES[name]
        made |= _described(name, before, after, (*sides.whose, *cells), level)
        if "task" in sides.whose:
            axis = 1 + sides.whose.index("task")
            dims = tuple(dim for dim in (*sides.whose, *cells) if dim != "task")
            average = before.mean(axis=axis), after.mean(axis=axis)
            made |= _described(f"population_{name}", *average, dims, level)
        elif "motive" not in sides.whose:  # everybody is alike
            made |= _described(f"population_{name}", before, after, cells, level)
    names = {"state": coordinate_of(tuple(states)), "action": coordinate_of(tuple(actions)), "time": list(TIMES)}
    found = xr.Dataset(made, coords=sides.coordinates | names)
    if "task" in sides.whose or "motive" in sides.whose:
        return found
    everybody = {
        name: found[name].expand_dims({"task": posterior._task_coordinate}, axis=1 if "time" in found[name].dims else 0)
        for name in found
        if not str(name).startswith("population_")
    }
    return found.assign(everybody)


def _described(name: str, before: np.ndarray, after: np.ndarray, dims: tuple[str, ...], level: float) -> dict[str, Any]:
    """Means and intervals over draws of both sides and of their difference."""
    size = np.maximum(np.abs(before), np.abs(after))
    gained = np.where(np.abs(after - before) <= ROUNDING * size, 0.0, after - before)
    tails = [(1 - level) / 2, (1 + level) / 2]
    ends = [np.quantile(each, tails, axis=0) for each in (before, after, gained)]
    positive = np.where(np.isfinite(gained[0]), (gained > 0).mean(axis=0), np.nan)
    return {
        name: (("time", *dims), np.stack([each.mean(axis=0) for each in (before, after, gained)])),
        f"{name}_lower": (("time", *dims), np.stack([each[0] for each in ends])),
        f"{name}_upper": (("time", *dims), np.stack([each[1] for each in ends])),
        f"{name}_p_positive": (dims, positive),
    }


def _side_by_side(
    after: tuple[Label, ...], before: tuple[Label, ...], own: list[Label] | None = None
) -> tuple[list[Label], np.ndarray]:
    """All names, those after the change first; and where each of those before it stands.

    A state of several environments, "maze A: s1", is the "s1" of a single one if no other is called so.
    """
    names, rows = list(after), []
    position = {name: number for number, name in enumerate(after)}
    for number, name in enumerate(before):
        if name not in position and own is not None and own.count(own[number]) == 1 and own[number] in position:
            rows.append(position[own[number]])
        elif name in position:
            rows.append(position[name])
        else:
            rows.append(len(names))
            names.append(name)
    return names, np.array(rows)


def _choices(
    draws: np.ndarray, place: Environment, at: tuple[np.ndarray, np.ndarray], size: tuple[int, int], exists: np.ndarray
) -> np.ndarray:
    """Choices [..., S, A] of all states and actions: none in terminal states, 0 for what the other side alone has."""
    found = np.full((*draws.shape[:-2], *size), np.nan)
    lives = ~place.is_terminal
    found[..., at[0][lives], :] = 0.0
    found[..., at[0][lives][:, None], at[1]] = draws[..., lives, :]
    return np.where(exists, found, np.nan)


def _at(draws: np.ndarray, rows: np.ndarray, size: int, missing: float = np.nan) -> np.ndarray:
    found = np.full((*draws.shape[:-1], size), missing)
    found[..., rows] = draws
    return found


def _prior_interval(posterior: Any, change: Change, data: xr.Dataset, level: float, seed: int) -> dict[str, Any]:
    """The prior's interval of each choice after the change."""
    place, shape = change.place, (data.sizes["state"], data.sizes["action"])
    at = np.arange(place.num_states), np.arange(place.num_actions)
    drawn = _choices(prior_choices(posterior, change, seed), place, at, shape, np.ones(shape, dtype=bool))
    lower, upper = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return {"choice_prior_lower": (("state", "action"), lower), "choice_prior_upper": (("state", "action"), upper)}
