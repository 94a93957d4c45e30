"""Means and variances of what tasks want before the data, exactly, where they have a closed form.

A coordinate u ~ Normal(m, s), with m and s numbers or parameters with priors of their own, has

    E u = E m,   Var u = Var m + E s²

and covariates add, in the coordinates of task t, Σ_e X_te B_e with Var B_e = σ², whether B_e is a coefficient with the
prior Normal(0, σ) or that of a member of a level, Normal(0, τ) with τ ~ HalfNormal(σ).
"""

from typing import NamedTuple

import numpy as np

from manymotives import families
from manymotives.models.rewards import LINEAR
from manymotives.models.target import CONSTANT, Target


class Moments(NamedTuple):
    """Mean and variance, of each of several numbers."""

    mean: np.ndarray
    variance: np.ndarray


def family_moments(kinds: np.ndarray, parameters: np.ndarray) -> Moments:
    """Of numbers [H] of these families, with parameters [H, 2] that are known."""
    mean, variance = np.empty(len(kinds)), np.empty(len(kinds))
    for number, (kind, (a, b)) in enumerate(zip(kinds.tolist(), parameters.tolist())):
        if kind == families.GAMMA:
            mean[number], variance[number] = a / b, a / b**2
        elif kind == families.BETA:
            mean[number], variance[number] = a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))
        elif kind == families.NORMAL:
            mean[number], variance[number] = a, b**2
        elif kind == families.HALF_NORMAL:
            mean[number], variance[number] = a * np.sqrt(2 / np.pi), a**2 * (1 - 2 / np.pi)
        else:  # log-normal
            mean[number], variance[number] = np.exp(a + b**2 / 2), np.expm1(b**2) * np.exp(2 * a + b**2)
    return Moments(mean, variance)


def weight_moments(target: Target) -> Moments | None:
    """Of the first coordinates [M, R] of each task, the weights of features or the rewards, where these are normal.

    None where they are not, or have no closed form: smooth rewards, and tasks that share motives.
    """
    layout, size = target.layout, target.layout.num_rewards
    is_normal = layout.link == LINEAR and (layout.families[:size] == families.NORMAL).all()
    if not is_normal or layout.smooth.exist or target.partitions is not None or target.assignment is not None:
        return None
    known, hyper = layout.constants[:size], family_moments(layout.hyper_families, layout.hyper_constants)
    source = layout.source[:size]
    given = source == CONSTANT
    mean, variance = known.copy(), np.zeros_like(known)
    mean[~given], variance[~given] = hyper.mean[source[~given]], hyper.variance[source[~given]]
    own = variance[:, 0] + variance[:, 1] + mean[:, 1] ** 2
    found = np.repeat(own[None], len(target.tasks), axis=0)
    if target.effects is not None:
        effects = target.effects
        found = found + effects.scale**2 * (effects.columns**2 @ effects.applies[:, :size])
    return Moments(np.broadcast_to(mean[:, 0], found.shape), found)


def reward_moments(target: Target) -> Moments | None:
    """The same of rewards [M, cells]: weighted sums of independent weights."""
    weights = weight_moments(target)
    if weights is None:
        return None
    features = target.layout.features
    if features.exist:
        squared = features._replace(value=features.value**2)
        return Moments(features.times(weights.mean), squared.times(weights.variance))
    return Moments(target.on_cells(weights.mean), target.on_cells(weights.variance))
