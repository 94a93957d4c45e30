"""What the data taught: rewards in canonical form before and after, and which differences between them are settled.

Two figures for each reward say how much was learnt. `sd_ratio` is the posterior's standard deviation over the prior's.
`shift` is the largest change in the probability of any statement "this reward is below x", sup |F − F₀|: 0 where the
posterior is the prior, 1 where they do not overlap. A difference is settled where its sign has a probability of at
least 95 %. Only differences that choices can show in this environment are looked at: the others rest on the prior
alone, however sure the posterior is of them (see `planning.identifiability`). What is the same in every draw of the
prior, such as the difference between two states with the same features, is fixed: there is nothing to learn about it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from manymotives.findings.sample import check_one_motive, population_of, thinned
from manymotives.models.model import EVERYBODY
from manymotives.models.shared_rewards import reward_names
from manymotives.planning import Plan, plan
from manymotives.posterior import Posterior
from manymotives.posterior.by_name import are_by_name, own_names
from manymotives.posterior.canonical import in_unit_range
from manymotives.posterior.unidentified import comparable

DRAWS = 1000
NUMBERS = 60_000_000  # rewards at a time: draws × tasks × cells
PLANS = 40_000_000  # the same where canonical rewards need plans: draws × tasks × states²
PAIRED = 40  # states whose differences are looked at: those most often chosen in
UNMOVED = 0.1  # a shift below this counts as nothing learnt
ROUNDING = 1e-9  # of canonical rewards, whose range is 1: what varies by less is fixed
NOISE = 1.63  # over √n: what the shift of equal distributions exceeds once in a hundred times (Kolmogorov)
SETTLED = 0.95
POPULATION = "population"


@dataclass(frozen=True, eq=False)
class Learning:
    """Rewards in canonical form, with one row for each of `who` and one column for each state or state–action pair."""

    who: tuple[str, ...]  # "population" first, where there is one, then the tasks; or "everybody"
    has_population: bool
    cells: pd.DataFrame  # columns state, action (None where rewards lie on states); index into the environment's too
    mean: np.ndarray
    sd: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    sd_ratio: np.ndarray  # NaN where the prior fixes a reward
    shift: np.ndarray
    prior_mean: np.ndarray  # [cells]
    prior_sd: np.ndarray
    prior_lower: np.ndarray
    prior_upper: np.ndarray
    pairs: np.ndarray  # [pairs, 2] cells whose difference was looked at: those that choices can show, and not fixed
    prior_alone: np.ndarray  # [others, 2] others between the same states, not fixed: no choice can show these
    comparable: (
        np.ndarray
    )  # [cells] equal numbers where choices can show a difference, negative where they can show none
    above: np.ndarray  # [who, pairs] P(first > second)
    prior_above: np.ndarray  # [pairs]
    draws: int
    limit: float  # of a shift, below which nothing counts as learnt: 0.1, or more where so few draws differ by more

    def __repr__(self) -> str:
        own = slice(int(self.has_population), None)
        moved, settled = ~self.unmoved[own][:, self.varies], self.settled[own].sum(axis=1)
        lines = [
            f"What was learnt about {moved.shape[1]:,} rewards of {_whose(self)}, from {self.draws:,} draws:",
            f"  {int(moved.sum()):,} of {moved.size:,} rewards have changed noticeably from their prior (shift ≥ "
            f"{self.limit:.2g})",
        ]
        if len(self.pairs):
            lines.append(
                f"  {len(self.pairs):,} differences that choices can identify; the sign is settled for "
                f"{settled.min():,} to {settled.max():,} of them per task"
            )
        if len(self.prior_alone):
            lines.append(f"  {len(self.prior_alone):,} differences that rest on the prior alone")
        return "\n".join([*lines, "  to_frame() has one row for each reward."])

    @property
    def varies(self) -> np.ndarray:
        """[cells] whether a reward differs between draws of the prior; others are fixed, with nothing to learn."""
        return self.prior_sd > ROUNDING

    @property
    def unmoved(self) -> np.ndarray:
        """[who, cells] whether the data left this reward as it was."""
        return self.shift < self.limit

    @property
    def settled(self) -> np.ndarray:
        """[who, pairs] whether the sign of a difference is known, and was not before the data."""
        return _settled(self.above) & ~_settled(self.prior_above)

    def to_frame(self) -> pd.DataFrame:
        """One row for each of `who` and each cell."""
        count = len(self.cells)
        table = pd.DataFrame({"who": np.repeat(np.array(self.who, dtype=object), count)})
        for name in ("state", "action"):
            if self.cells[name].notna().any():
                table[name] = np.tile(self.cells[name].to_numpy(dtype=object), len(self.who))
        for name in ("mean", "sd", "lower", "upper"):
            table[name] = getattr(self, name).ravel()
        for name in ("prior_mean", "prior_sd", "prior_lower", "prior_upper"):
            table[name] = np.tile(getattr(self, name), len(self.who))
        return table.assign(sd_ratio=self.sd_ratio.ravel(), shift=self.shift.ravel())


def _whose(learnt: Learning) -> str:
    count = len(learnt.who) - learnt.has_population
    if learnt.who == (EVERYBODY,):
        return "all tasks together"
    return f"{count:,} task{'s' if count > 1 else ''}"


def learning(posterior: Posterior, draws: int = DRAWS) -> Learning:
    """How much was learnt about each reward: posterior compared with prior.

    Parameters
    ----------
    posterior
        A posterior, from `fit` or `load`.
    draws
        The largest number of draws to use, evenly spaced; fewer are used if there are very many rewards.

    Returns
    -------
    Learning
        Canonical rewards with intervals, the change of each from its prior, and which differences choices can identify.
    """
    check_one_motive(posterior)
    environment, on = posterior.environment, posterior.model.reward.on
    num_tasks, num_states = len(posterior.tasks), environment.num_states
    affordable = NUMBERS // (num_tasks * environment.available.size)
    if on == "state_action":
        affordable = min(affordable, PLANS // (num_tasks * num_states**2))
    few = thinned(posterior, max(min(draws, affordable), 50))
    after = _flat(few.canonical()["reward"])  # [draws, tasks, S(, A)]
    who = tuple(str(task) for task in posterior.tasks)
    if posterior.model.is_pooled:
        after, who = after[:, :1], (EVERYBODY,)
    members = None if posterior.model.is_pooled else population_of(few)
    if members is not None:
        middling = _middling_temperatures(few, members), _middling_plans(few)
        new_task, _ = in_unit_range(few.identifiability, members, *middling)
        after = np.concatenate([_flat(new_task.expand_dims("task", 2)), after], axis=1)
        who = (POPULATION, *who)
    prior = few.data["prior"].dataset["reward"]
    middling = _middling_temperatures(few, prior), _middling_plans(few)
    canonical, _ = in_unit_range(few.identifiability, prior, *middling)
    before = canonical.stack(sample=("chain", "draw")).transpose("sample", ...).values

    exists = shown_cells(posterior)
    after, before = (x.reshape(*x.shape[: x.ndim - few._reward_axes], -1)[..., exists] for x in (after, before))
    cells = _cells(posterior, exists)
    alike = comparable(posterior, canonical=True)[exists]
    pairs = _pairs(posterior, cells)
    shown = (alike[pairs[:, 0]] == alike[pairs[:, 1]]) & (alike[pairs[:, 0]] >= 0)
    free = _vary(before, pairs)
    pairs, prior_alone = pairs[shown & free], pairs[~shown & free]
    prior_sd = before.std(axis=0)
    varies = prior_sd > ROUNDING
    tails = np.quantile(after, [0.025, 0.975], axis=0)
    prior_tails = np.quantile(before, [0.025, 0.975], axis=0)
    return Learning(
        who=who,
        has_population=members is not None,
        cells=cells,
        mean=after.mean(axis=0),
        sd=after.std(axis=0),
        lower=tails[0],
        upper=tails[1],
        sd_ratio=after.std(axis=0) / np.where(varies, prior_sd, np.nan),
        shift=np.where(varies, _shifts(after, before), 0.0),
        prior_mean=before.mean(axis=0),
        prior_sd=prior_sd,
        prior_lower=prior_tails[0],
        prior_upper=prior_tails[1],
        pairs=pairs,
        prior_alone=prior_alone,
        comparable=alike,
        above=_above(after, pairs),
        prior_above=_above(before, pairs),
        draws=len(after),
        limit=max(UNMOVED, NOISE * float(np.sqrt(1 / len(after) + 1 / len(before)))),
    )


def shown_cells(posterior: Posterior) -> np.ndarray:
    """Which cells are shown: of states with one reward, the first; of pairs, those that exist."""
    environment, on = posterior.environment, posterior.model.reward.on
    if on == "state_action":
        return np.flatnonzero(environment.available)
    if are_by_name(posterior.model.reward, environment):
        return reward_names(environment, on).first
    return np.arange(environment.num_states)


def by_shown_state(posterior: Posterior, values: np.ndarray) -> np.ndarray:
    """Sums [..., S] over states with one reward, at the first of them; of others, as they are."""
    environment, reward = posterior.environment, posterior.model.reward
    if reward.on == "state_action" or not are_by_name(reward, environment):
        return values
    names = reward_names(environment, "state")
    found = np.zeros_like(values)
    for state, first in enumerate(names.first[names.owner]):
        found[..., first] += values[..., state]
    return found


def largest_shift(after: np.ndarray, before: np.ndarray) -> float:
    """sup |F − F₀| of two samples: Kolmogorov and Smirnov's statistic. `before` is sorted."""
    points = np.sort(after)
    # between its own points F is flat, so that the extremes lie just at them and just before them
    at = np.searchsorted(points, points, "right") / len(points) - np.searchsorted(before, points, "right") / len(before)
    just_before = np.searchsorted(points, points, "left") / len(points) - np.searchsorted(before, points, "left") / len(
        before
    )
    return float(max(np.abs(at).max(), np.abs(just_before).max()))


def _shifts(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    """[who, cells] from draws [draws, who, cells] and [draws, cells]."""
    ordered = np.sort(before, axis=0)
    found = np.empty(after.shape[1:])
    for who, cell in np.ndindex(*found.shape):
        found[who, cell] = largest_shift(after[:, who, cell], ordered[:, cell])
    return found


def _flat(values: xr.DataArray) -> np.ndarray:
    return values.stack(sample=("chain", "draw")).transpose("sample", "task", ...).values


def _middling_temperatures(posterior: Posterior, rewards: xr.DataArray) -> np.ndarray | None:
    """For agents who foresee their own errors, on pairs: what they foresee is part of what an action costs."""
    if not getattr(getattr(posterior.model, "choice", None), "is_soft", False):
        return None
    middle = float(posterior.inverse_temperatures.median())  # type: ignore[attr-defined]
    return np.full((rewards.sizes["chain"], rewards.sizes["draw"]), middle)


def _middling_plans(posterior: Posterior) -> Callable[[np.ndarray, np.ndarray | None], Plan] | None:
    """Plans of those who look as far ahead as most do, where discounts are inferred."""
    own = posterior.mean_discounts()
    if own is None:
        return None
    known: Any = {"on": posterior.model.reward.on, "discount": float(np.median(own)), "depth": posterior.model.depth}
    return lambda rewards, soft: plan(posterior.environment, rewards, inverse_temperature=soft, **known)


def _cells(posterior: Posterior, exists: np.ndarray) -> pd.DataFrame:
    environment = posterior.environment
    names = posterior.data["observed_data"].dataset["counts"]
    states, actions = names["state"].values.tolist(), names["action"].values.tolist()
    if are_by_name(posterior.model.reward, environment) and posterior.model.reward.on == "state":
        states = own_names(environment)
    if posterior.model.reward.on == "state":
        index = exists
        action: list[str | None] = [None] * len(index)
        where = np.full(len(index), -1)
    else:
        index, where = np.divmod(exists, environment.num_actions)
        action = [str(actions[a]) for a in where]
    return pd.DataFrame(
        {"state": [str(states[s]) for s in index], "action": action, "state_index": index, "action_index": where}
    )


def _pairs(posterior: Posterior, cells: pd.DataFrame) -> np.ndarray:
    """Pairs of states that are often chosen in; on pairs, of actions in the same state."""
    counts = by_shown_state(posterior, posterior.data["observed_data"].dataset["counts"].values.sum(axis=(0, 2)))
    often = np.sort(np.argsort(-counts, kind="stable")[:PAIRED])
    state = cells["state_index"].to_numpy()
    chosen = np.flatnonzero(np.isin(state, often))
    first, second = np.triu_indices(len(chosen), k=1)
    pairs = np.stack([chosen[first], chosen[second]], axis=1)
    if posterior.model.reward.on == "state_action":
        pairs = pairs[state[pairs[:, 0]] == state[pairs[:, 1]]]
    return pairs


def _vary(values: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """[pairs] whether the difference is not the same in all draws [draws, cells]."""
    found = np.zeros(len(pairs), dtype=bool)
    first = values[0, pairs[:, 0]] - values[0, pairs[:, 1]]
    for draw in values[1:]:
        found |= np.abs(draw[pairs[:, 0]] - draw[pairs[:, 1]] - first) > ROUNDING
    return found


def _above(values: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """[..., pairs] how often the first is above the second, ties counting half, of draws [draws, ..., cells]."""
    total = np.zeros((*values.shape[1:-1], len(pairs)))
    for draw in values:
        difference = draw[..., pairs[:, 0]] - draw[..., pairs[:, 1]]
        total += (difference > 0) + 0.5 * (difference == 0)
    return total / len(values)


def _settled(above: np.ndarray) -> np.ndarray:
    return (above >= SETTLED) | (above <= 1 - SETTLED)
