"""A posterior in, some of its draws out, with what each of them implies: the best actions and the choices to expect."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from manymotives.data.labels import Label
from manymotives.errors import InputError
from manymotives.models.model import EVERYBODY
from manymotives.planning import Plan
from manymotives.posterior import Posterior, SwitchingPosterior

FEWEST, MOST = 40, 200  # draws
P = TypeVar("P", bound=Posterior)
LARGE, BLOCK = 500, 16  # states, beyond which draws are planned for a few at a time, so that one sees it move
WORK = 8e8  # tasks × states² × draws: half a minute of planning
ROOM = 16_000_000  # tasks × states × actions × draws: several arrays of 128 MB


@dataclass(frozen=True, eq=False)
class Sample:
    """Evenly spaced draws of a posterior, and what follows from each."""

    posterior: Posterior  # with these draws only
    on_planned: Callable[[int], None] | None = None  # told how many draws are planned for, as it goes

    def __repr__(self) -> str:
        return f"Sample of {len(self.rewards):,} draws of: {self.posterior!r}"

    @property
    def is_pooled(self) -> bool:
        return self.posterior.model.is_pooled

    @property
    def who(self) -> tuple[Label, ...]:
        """Those who want something of their own: the tasks, or everybody together."""
        return (EVERYBODY,) if self.is_pooled else self.posterior.tasks

    @cached_property
    def rewards(self) -> np.ndarray:
        """[draws, who, S] or [draws, who, S, A]; 0 where an action does not exist."""
        return self.posterior.flat_draws(self.posterior.rewards).fillna(0.0).values

    @cached_property
    def plan(self) -> Plan:
        """What is best for each."""
        count, many = len(self.rewards), self.posterior.environment.num_states > LARGE
        parts = []
        for begin in range(0, count, BLOCK if many else max(count, 1)):
            part = slice(begin, begin + BLOCK) if many else slice(None)
            own = self.posterior.own_discounts(part)
            parts.append(self.posterior.planned(self.rewards[part], part, discount=own))
            if self.on_planned is not None:
                self.on_planned(min(begin + BLOCK, count) if many else count)
        if len(parts) == 1:
            return parts[0]
        arrays = {name: [getattr(part, name) for part in parts] for name in Plan._fields}
        return Plan(**{name: None if some[0] is None else np.concatenate(some) for name, some in arrays.items()})

    @cached_property
    def policies(self) -> np.ndarray | None:
        """[draws, who, S, A]: the choices to expect. None where the model does not say and no policies were kept."""
        return self.posterior.expected_policies(self.rewards, self.plan)

    @cached_property
    def counts(self) -> np.ndarray:
        """[who, S, A] choices."""
        counts = self.posterior.data["observed_data"].dataset["counts"].values
        return counts.sum(axis=0, keepdims=True) if self.is_pooled else counts


def sample_of(
    posterior: Posterior, draws: int | None = None, on_planned: Callable[[int], None] | None = None
) -> Sample:
    """A sample of draws with their plans; by default as many as can be planned for in about half a minute, 40 to 200.

    Where there are dozens of tasks on ten thousand states, fewer, so that there is room for them: 20 at least.

    Parameters
    ----------
    posterior
        A posterior, from `fit` or `load`.
    draws
        The largest number of draws. If None, as many as can be planned for in about half a minute.
    on_planned
        A function that is called with the number of draws planned for so far.

    Returns
    -------
    Sample
        Draws with their plans, for `similarity` and `predictive_check`.
    """
    check_one_motive(posterior)
    if draws is None:
        who, (states, actions) = len(posterior.tasks), posterior.environment.available.shape
        draws = int(np.clip(WORK / (who * states**2), FEWEST, MOST))
        draws = min(draws, max(FEWEST // 2, ROOM // (who * states * actions)))
    if draws < 1:
        raise InputError(f"draws must be at least 1; found {draws}.")
    return Sample(thinned(posterior, draws), on_planned)


def check_one_motive(posterior: Posterior) -> None:
    """Refuse motives that switch, where something is said of tasks that have one each."""
    if isinstance(posterior, SwitchingPosterior):
        raise InputError(
            "this function needs tasks with a single motive, and in this model motives switch. Use "
            "posterior.to_frame(), posterior.motives(), posterior.transitions() and mm.report instead."
        )


def thinned(posterior: P, draws: int) -> P:
    """The same posterior with at most about so many draws, every nth of each chain."""
    drawn = posterior.data["posterior"].sizes
    every = -(-drawn["chain"] * drawn["draw"] // draws)
    groups = {
        name: group.isel(draw=slice(every - 1, None, every)) if name in ("posterior", "sample_stats") else group
        for name, group in ((name, node.to_dataset()) for name, node in posterior.data.children.items())
        if name != "log_likelihood"
    }
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = dict(posterior.data.attrs)
    return replace(posterior, data=tree)


def population_of(posterior: Any) -> xr.DataArray | None:
    """What a new subject would want (chain, draw, state[, action]); None where subjects have no population."""
    try:
        return posterior.population()["reward"]
    except InputError:  # Separate(), or a model whose tasks do not inform each other
        return None
