"""One fit instead of many: draws weighted as if some choices had not been seen (PSIS-LOO; Vehtari et al. 2024).

Leaving choices out of a posterior divides each draw by their likelihood. The weights' tail is smoothed, and its shape k̂
says whether they can be trusted: up to 0.7 they can.
"""

from collections.abc import Iterator

import numpy as np

from manymotives.data.demonstrations import Demonstrations
from manymotives.inference.importance import normalised, smoothed
from manymotives.posterior import RewardPolicyPosterior
from manymotives.scoring.prediction import REWEIGHTED, Prediction
from manymotives.scoring.splits import Split, only


def reweighted(
    posterior: RewardPolicyPosterior, demonstrations: Demonstrations, splits: tuple[Split, ...]
) -> Iterator[Prediction]:
    """For each split, what its task would do next had it not made the choices that are held out."""
    available = posterior.environment.available
    pooled = posterior.model.is_pooled  # whose draws are everybody's
    drawn: tuple[int, np.ndarray, np.ndarray] | None = None
    for split in splits:
        if drawn is None or (drawn[0] != split.task and not pooled):
            policies = posterior.drawn_policies(split.task).reshape(-1, available.size)
            with np.errstate(divide="ignore"):
                drawn = split.task, policies, np.where(policies > 0, np.log(policies), 0.0)
        _, policies, logs = drawn
        gone = only(demonstrations, ~split.trains).counts.sum(axis=0).ravel()
        likelihood = np.where(((policies == 0) & (gone > 0)).any(axis=1), -np.inf, logs @ gone)
        log_weights, shape = smoothed(-likelihood)
        with np.errstate(divide="ignore"):
            log_policy = np.log(normalised(log_weights) @ policies) if np.isfinite(shape) or shape < 0 else logs[0]
        yield Prediction(log_policy.reshape(available.shape), REWEIGHTED, shape)
