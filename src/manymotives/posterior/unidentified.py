"""What no choice can show of a posterior's rewards: which differences these are, and what they are in words."""

from typing import Any

import numpy as np
import pandas as pd

from manymotives.errors import InputError
from manymotives.models.rewards import RewardSet
from manymotives.models.shared_rewards import reward_names
from manymotives.planning import Identifiability, identifiability
from manymotives.planning.identifiability_words import Sentences, Shown, sentences
from manymotives.posterior.by_name import are_by_name, own_names


def identifiability_of(posterior: Any) -> Identifiability:
    """For the rewards that its model can make, in states that can be reached from the start or from those observed."""
    reward, environment = posterior.model.reward, posterior.environment
    if isinstance(reward, RewardSet):  # what one of them has more than another
        some = reward.for_environment(environment).reshape(len(reward.rewards), -1)
        features = (some[1:] - some[0]).T if 1 < len(some) <= some.shape[1] else None
    elif getattr(reward, "residual_scale", None) is not None:
        own = reward_names(environment, reward.on)
        features = own.matrix.toarray() if own.are_shared else None  # every reward is free
    else:
        made_of, own = reward.features_for(environment), reward_names(environment, reward.on)
        if made_of is None and own.are_shared:  # one reward for states of one name
            made_of = own.matrix
        features = None if made_of is None else made_of.toarray()
    if features is not None and reward.on == "state_action":
        features = features.reshape(environment.num_states, environment.num_actions, -1)
    visited = posterior.data["observed_data"].dataset["counts"].values.sum(axis=(0, 2))
    known = posterior.belief is None
    how: Any = {"visited": visited, "known": known, "depth": posterior.model.depth}
    return identifiability(environment, on=reward.on, features=features, **how)


def comparable(posterior: Any, *, canonical: bool) -> np.ndarray:
    """[S] or [S·A] numbers that are equal where choices can show a difference, negative where they can show none."""
    known = posterior.identifiability
    if canonical and known.on == "state_action":  # what an action costs against the best, wherever one acts
        return np.where(known.exists, 0, -1)
    return known.groups


def marked(table: pd.DataFrame, posterior: Any, canonical: bool) -> pd.DataFrame:
    """Contrasts between states, and whether choices can show them; without that where it cannot be computed."""
    try:
        groups = comparable(posterior, canonical=canonical)
    except InputError:  # rewards on very many pairs
        return table
    counts = posterior.data["observed_data"].dataset["counts"].sum("task")
    cells = counts if posterior.model.reward.on == "state_action" else counts.isel(action=0, drop=True)
    shown = posterior.by_state_name(cells.copy(data=groups.astype(float).reshape(cells.shape)), canonical)
    names = shown["state"].values.tolist()
    if "action" in shown.dims:
        names = [f"{state}–{action}" for state in names for action in shown["action"].values.tolist()]
    group = dict(zip(names, shown.values.ravel().tolist()))
    first, second = (np.array([group[name] for name in table[column]]) for column in table.columns[:2])
    return table.assign(identified=(first == second) & (first >= 0))


def unidentified(posterior: Any) -> Sentences:
    """Sentences about what choices cannot show beyond a constant; none where they can show everything else."""
    known, reward = posterior.identifiability, posterior.model.reward
    features, shown, names, shared = None, None, None, False
    if getattr(reward, "features", None) is not None and getattr(reward, "residual_scale", None) is None:
        features = None if known.features is None else reward.feature_names(known.features.shape[1])
    if known.on == "state":
        shared = are_by_name(reward, known.environment)
        cells = reward_names(known.environment, "state").first if shared else np.arange(known.environment.num_states)
        shown = Shown(known.groups[cells], known.directions[cells])
        names = [own_names(known.environment)[s] for s in cells] if shared else None
    return sentences(known, features, shown, names, are_by_name=shared)
