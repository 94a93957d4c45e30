"""Several environments in; which differences between rewards each of them can show, and which only all together, out.

Exact, and without fitting: what no choice can show in several environments is what none of them can show, the
intersection of the null spaces that `planning.identifiability` finds in each. How far the data went in showing it is
another question, which `contraction` answers by fitting without one environment after the other.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from manymotives.data.environments import Environments, environment_of
from manymotives.data.labels import Label
from manymotives.errors import InputError, quoted
from manymotives.fitting.fit import fit
from manymotives.inference import Method
from manymotives.models.rewards import RewardSet
from manymotives.models.shared_rewards import RewardNames, reward_names
from manymotives.planning import identifiability
from manymotives.posterior import Posterior
from manymotives.scoring.splits import only

ALIKE = 1e-9  # entries of unit vectors that differ by less are equal


@dataclass(frozen=True, eq=False)
class Identification:
    """What choices can identify in each of several environments, and in all of them together."""

    environments: tuple[Label, ...]
    rewards: tuple[Label, ...]  # [K] what has a reward of its own: names of states (or pairs), or features
    of_features: bool  # whether these are weights of features
    hidden: np.ndarray  # [environments] independent directions of reward that no choice in it can show …
    hidden_together: int  # … and that no choice in any of them can show
    groups: np.ndarray  # [environments, K] equal where a difference can be shown there; negative: not in it
    groups_together: np.ndarray  # [K]

    def __repr__(self) -> str:
        what = "weights of features" if self.of_features else "rewards"
        pairs = self.only_together
        lines = [f"What choices can identify of {len(self.rewards):,} {what} in {len(self.environments)} environments:"]
        each = [*zip(map(str, self.environments), self.hidden.tolist()), ("all together", self.hidden_together)]
        lines += [f"  {name}: {count:,} independent directions change no choice" for name, count in each]
        lines.append(f"  {len(pairs):,} differences can be identified only by choices in several environments together")
        return "\n".join([*lines, "  to_frame() has one row for each difference."])

    @property
    def shown(self) -> np.ndarray:
        """[environments, K, K] whether choices in an environment alone can show the difference between two rewards."""
        return (self.groups[:, :, None] == self.groups[:, None, :]) & (self.groups[:, :, None] >= 0)

    @property
    def shown_together(self) -> np.ndarray:
        """[K, K] the same of all environments together."""
        return (self.groups_together[:, None] == self.groups_together) & (self.groups_together[:, None] >= 0)

    @property
    def only_together(self) -> list[tuple[Label, Label]]:
        """Pairs of rewards whose difference no environment shows alone, and all of them show together."""
        found = np.argwhere(np.triu(self.shown_together & ~self.shown.any(axis=0), k=1))
        return [(self.rewards[first], self.rewards[second]) for first, second in found]

    def to_frame(self) -> pd.DataFrame:
        """One row for each pair of rewards: whether each environment shows their difference, and whether all do."""
        first, second = np.triu_indices(len(self.rewards), k=1)
        table = pd.DataFrame(
            {"reward": [self.rewards[k] for k in first], "other_reward": [self.rewards[k] for k in second]}
        )
        for name, shown in zip(self.environments, self.shown):
            table[str(name)] = shown[first, second]
        return table.assign(together=self.shown_together[first, second])


def identification(environments: Any, *, on: str = "state", reward: Any = None) -> Identification:
    """What choices in each of several environments can identify about rewards, and what only all of them together can.

    Parameters
    ----------
    environments
        {name: environment}; or a posterior with several environments, whose model then says what rewards are, and whose
        choices say which states were visited.
    on
        What has a reward, one for each name: "state" or "state_action". For a posterior, its model says so.
    reward
        A `GaussianReward(features=…)` if rewards are weighted sums of features.

    Returns
    -------
    Identification
        How many directions are `hidden` in each environment and in all together; `groups` of names that can be
        compared.
    """
    visited, depth = None, None
    if isinstance(environments, Posterior):
        depth = environments.model.depth
        reward, visited = environments.model.reward, environments.demonstrations.visits.sum(axis=0)
        environments = environments.environment
    union = environment_of(environments)
    if not isinstance(union, Environments):
        raise InputError("several environments are needed, given by name or by the posterior of a fit in several.")
    on = on if reward is None else reward.on
    if isinstance(reward, RewardSet):
        raise InputError("rewards that are inferred for each name of a state are needed, not a set of rewards.")
    own = reward_names(union, on)
    made_of = None if reward is None else reward.features_for(union)
    labels: tuple[Label, ...] = own.labels
    spread = own.matrix.toarray()
    if made_of is not None and reward.residual_scale is None:
        labels, spread = tuple(reward.feature_names(made_of.shape[1])), made_of.toarray()
    width = 1 if on == "state" else union.num_actions
    nulls = []
    for m in range(len(union.members)):
        nulls.append(_null_space(union, np.repeat(union.member == m, width), spread, on, visited, depth))
    together = _null_space(union, np.ones(len(spread), dtype=bool), spread, on, visited, depth)
    inside = np.array([_inside(union, m, own, spread, made_of is not None) for m in range(len(nulls))])
    return Identification(
        environments=union.names,
        rewards=labels,
        of_features=made_of is not None and reward.residual_scale is None,
        hidden=np.array([null.shape[1] for null in nulls]),
        hidden_together=together.shape[1],
        groups=np.array([np.where(here, _groups(null), -1) for null, here in zip(nulls, inside)]),
        groups_together=_groups(together),
    )


def contraction(posterior: Posterior, method: Method | None = None, *, seed: int = 0) -> pd.DataFrame:
    """How informative each environment was: standard deviations under the prior, without each environment, and with
    all.

    There is one row for each name of a state, or each feature if rewards are made of features: `prior_sd`,
    `sd_without_…` for each environment, from a fit to the choices in the others, and `sd`. Rewards are measured from
    their average over names, and standard deviations are root mean squares over tasks.

    Parameters
    ----------
    posterior
        A posterior, from `fit` or `load`.
    method
        The method of the fits without each environment. If None, that of the posterior.
    seed
        Seed of these fits.

    Returns
    -------
    DataFrame
        A row for each name of a state, or each feature.
    """
    union = posterior.environment
    if not isinstance(union, Environments) or len(union.members) < 2:
        raise InputError("several environments are needed, given by name or by the posterior of a fit in several.")
    if posterior.model.reward.on == "state_action" and not posterior.has_features:
        raise InputError("rewards must be on states, or made of features.")
    demonstrations = posterior.demonstrations
    where = union.member[demonstrations.state]
    table = _spreads(posterior)
    for m, name in enumerate(union.names):
        if not (where != m).any():
            raise InputError(f"all choices are in environment {quoted(name)}, so without it there is nothing to fit.")
        rest = fit(posterior.model, union, only(demonstrations, where != m), method, seed=seed, progress=False)
        table[f"sd_without_{name}"] = _spreads(rest)["sd"]
    key = [column for column in ("state", "feature") if column in table]
    return table[[*key, "prior_sd", *(f"sd_without_{name}" for name in union.names), "sd"]]


def _spreads(posterior: Posterior) -> pd.DataFrame:
    """sd of each reward in canonical form, or of each weight: of the posterior and of the prior."""
    if posterior.has_features:
        values, prior, cell = posterior.weights, posterior.data["prior"].dataset["weight"], "feature"  # type: ignore[attr-defined]
    else:
        values = posterior.by_state_name(posterior.rewards)
        prior, cell = posterior.by_state_name(posterior.data["prior"].dataset["reward"]), "state"
        values, prior = (each - each.mean(cell) for each in (values, prior))
    after = np.sqrt((values.std(("chain", "draw")) ** 2).mean([dim for dim in ("task",) if dim in values.dims]))
    before = prior.std(("chain", "draw"))
    return pd.DataFrame({cell: values[cell].values, "prior_sd": before.values, "sd": after.values})


def _null_space(
    union: Environments, rows: np.ndarray, spread: np.ndarray, on: str, visited: Any, depth: int | None
) -> np.ndarray:
    """[K, n] directions of coordinates that no choice in these cells can show: elsewhere rewards are nothing."""
    features = spread * rows[:, None]
    shaped = features if on == "state" else features.reshape(union.num_states, union.num_actions, -1)
    return identifiability(union, on=on, features=shaped, visited=visited, depth=depth).weights


def _groups(null: np.ndarray) -> np.ndarray:
    """[K] equal numbers where every hidden direction changes two coordinates alike."""
    shadows = null @ np.random.default_rng(0).normal(size=(null.shape[1], 2))
    labels = np.zeros(shadows.shape, dtype=int)
    for column, shadow in enumerate(shadows.T):
        order = np.argsort(shadow, kind="stable")
        labels[order[1:], column] = np.cumsum(np.diff(shadow[order]) > ALIKE)
    _, found = np.unique(labels, axis=0, return_inverse=True)
    return found.ravel()


def _inside(union: Environments, m: int, own: RewardNames, spread: np.ndarray, has_features: bool) -> np.ndarray:
    """[K] whether an environment has anything to do with each coordinate."""
    if has_features:
        width = len(spread) // union.num_states
        return (spread[np.repeat(union.member == m, width)] != 0).any(axis=0)
    width = own.num_cells // union.num_states
    found = np.zeros(len(own.labels), dtype=bool)
    found[own.owner[union.member[own.cells // width] == m]] = True
    return found
