"""Features in, sentences out: which weights no choice can show, because features are zero, constant or collinear.

Weights w + δ give the same choices as w where Φ δ = c κ for some number c. κ is what every environment hides: the same
amount for every state or, where episodes end, 1 − γ in every state and 1 in terminal ones; on pairs
1 − γ P(an action leads to a state that is not terminal). So the weights that choices cannot show include the null space
of [Φ κ]. What else an environment hides, `Posterior.unidentified` says.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from manymotives.data.environment import Environment
from manymotives.errors import quoted
from manymotives.models.rewards import GaussianReward
from manymotives.planning.identifiability_words import echelon

LARGEST = 1000  # features that are looked at together: half a second
CANDIDATE, SINGULAR = 1e-6, 1e-9  # of columns of length 1, squared and not: what may be zero, and what is
SHOWN, NAMED = 3, 8  # sentences about dependent features; features in one of them
ALONE = "rests on the prior alone"


def warnings_of_features(reward: Any, environment: Environment) -> tuple[str, ...]:
    """Which weights choices cannot show, whatever the data; nothing where rewards are not made of features."""
    if not isinstance(reward, GaussianReward) or reward.features is None:
        return ()
    features, hidden = reward.features_for(environment), _hidden(environment, reward.on)
    assert features is not None
    names = reward.feature_names(features.shape[1])
    if reward.on == "state_action":
        features, hidden = features[environment.available.ravel()], hidden[environment.available.ravel()]
    sizes = np.sqrt(np.asarray(features.multiply(features).sum(axis=0)).ravel())
    said = [
        f"feature {quoted(names[k])} is 0 everywhere, so its weight has no effect and {ALONE}. Leave it out."
        for k in np.flatnonzero(sizes == 0)[:SHOWN]
    ]
    used = np.flatnonzero(sizes > 0)
    if not 0 < len(used) <= LARGEST:
        return tuple(said)
    columns = sp.hstack([features[:, used] / sizes[used], hidden[:, None] / np.linalg.norm(hidden)], format="csr")
    found = _null_space(columns)
    if not len(found):
        return tuple(said)
    rows = echelon(found[:, :-1], np.argsort(np.count_nonzero(np.abs(found[:, :-1]) > SINGULAR, axis=0), kind="stable"))
    for row in rows[:SHOWN]:
        several = [names[used[k]] for k in np.flatnonzero(row)]
        with_hidden = bool(np.linalg.norm(columns[:, :-1] @ row) > SINGULAR * np.abs(row).sum())
        said.append(_sentence(several, with_hidden, environment))
    if len(rows) > SHOWN:
        said.append(
            f"{len(rows) - SHOWN:,} more such dependences among features: in each of them a combination of "
            f"weights {ALONE}."
        )
    return tuple(said)


def _sentence(names: Sequence[Any], with_hidden: bool, environment: Environment) -> str:
    if len(names) == 1:
        why = "changes no choice here" if environment.is_terminal.any() else "is the same everywhere"
        return f"feature {quoted(names[0])} {why}: choices cannot identify its weight, which {ALONE}. Leave it out."
    more = f", … ({len(names)} in all)" if len(names) > NAMED else ""
    listed = ", ".join(map(quoted, names[:NAMED])) + more
    how = "have a weighted sum that is the same everywhere" if with_hidden else "are collinear"
    if with_hidden and environment.is_terminal.any():
        how = "have a weighted sum that changes no choice here"
    return f"features {listed} {how}: one combination of their weights {ALONE}. Leave one of them out."


def _hidden(environment: Environment, on: str) -> np.ndarray:
    """κ [S] or [S·A]."""
    lives = ~environment.is_terminal
    if on == "state":
        return np.where(lives, 1.0 - environment.discount, 1.0)
    return 1.0 - environment.discount * np.asarray(environment.matrix @ lives.astype(float)).ravel()


def _null_space(columns: sp.csr_array) -> np.ndarray:
    """Orthonormal rows v with columns @ v = 0: eigenvectors of the Gram matrix propose, singular values decide."""
    values, vectors = np.linalg.eigh((columns.T @ columns).toarray())
    near = vectors[:, values <= CANDIDATE]
    if near.shape[1] == 0:
        return near.T
    image = np.asarray(columns @ near)
    _, singular, right = np.linalg.svd(image, full_matrices=image.shape[0] < image.shape[1])
    singular = np.concatenate([singular, np.zeros(len(right) - len(singular))])
    return (near @ right[singular <= SINGULAR].T).T
