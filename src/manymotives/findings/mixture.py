"""Tasks that share motives: how many motives, who shares which, what each wants, and what tells them apart."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from manymotives.errors import InputError
from manymotives.findings.sample import thinned
from manymotives.models.priors import Prior
from manymotives.posterior import MixturePosterior, Partition
from manymotives.posterior.mixture_tables import motives_table, posterior_and_prior
from manymotives.posterior.partitions import in_order

DRAWS = 1000  # from which tables of rewards are made
COMPARED = 8  # motives, those with most tasks, between which differences are looked for
SURE = 0.95


@dataclass(frozen=True, eq=False)
class SharedMotives:
    """The motives of a mixture: how many, which tasks share one, and what each wants."""

    number: pd.DataFrame  # by number of motives: probability, prior
    partition: Partition
    who: tuple[str, ...]  # tasks by motive, the surest of each first
    together: np.ndarray  # [M, M] of tasks in that order
    wants: pd.DataFrame  # one row for each motive and feature or state (and action)
    apart: pd.DataFrame  # differences between motives, the largest of those that are sure first
    newcomer: pd.Series  # motive, or "new" → probability
    unit: str  # of what they want
    cells: tuple[str, ...]  # columns that say of what: ("feature",), ("state",) or ("state", "action")

    def __repr__(self) -> str:
        number = self.number.round(3).to_string(max_rows=10)
        return f"{self.partition!r}\n\nNumber of motives:\n{number}\n\nTables: wants, apart."

    def names(self, table: pd.DataFrame) -> list[str]:
        """Of what each row of a table is."""
        if self.cells == ("state", "action"):
            return [f"{action} in {state}" for state, action in zip(table["state"], table["action"])]
        return [str(name) for name in table[self.cells[0]]]


def shared_motives(posterior: Any) -> SharedMotives:
    """The motives of a mixture.

    Parameters
    ----------
    posterior
        A posterior, from `fit` or `load`.

    Returns
    -------
    SharedMotives
        The `number` of motives, which tasks share one, the reward of each, and how the motives differ.
    """
    if not isinstance(posterior, MixturePosterior):
        raise InputError("tasks of this model do not share motives. Fit a RewardPolicyModel with sharing=mm.Mixture().")
    found = posterior.partition
    order = in_order(found)
    few = thinned(posterior, DRAWS)
    is_product = isinstance(posterior.model.inverse_temperature, Prior)
    canonical = is_product or not posterior.has_features  # as everything else that is shown of features
    wants = motives_table(few, found, canonical=canonical)
    weight = "weight × inverse temperature (log-odds)" if is_product else "weight"
    return SharedMotives(
        number=posterior_and_prior(posterior),
        partition=found,
        who=tuple(str(name) for name in found.groups.index[order]),
        together=posterior.together.values[np.ix_(order, order)],
        wants=wants,
        apart=_differences(motives_table(few, found, "motive", canonical)) if found.number > 1 else pd.DataFrame(),
        newcomer=posterior.newcomer(),
        unit=weight if posterior.has_features else "reward, canonical",
        cells=tuple(word for word in ("feature", "state", "action") if word in wants),
    )


def _differences(found: pd.DataFrame) -> pd.DataFrame:
    """Between each two motives; `p_direction`: the probability of the likelier sign."""
    found = found[(found["motive"] <= COMPARED) & (found["other_motive"] <= COMPARED)]
    found = found.assign(p_direction=np.maximum(found["p_positive"], 1 - found["p_positive"]))
    order = np.lexsort((-found["mean"].abs(), found["p_direction"] < SURE))
    return found.iloc[order].reset_index(drop=True)
