"""Where a task's posterior peaks given its population, and how sharply: Fisher scoring, for all tasks at once.

With logits ℓ = c Q and one policy π (greedy, or soft), dQ/dρ = K_π = E + γ P (I − γ P_π)⁻¹ (E spreads a state's reward
over its actions; on pairs K_π = I + γ P (I − γ P_π)⁻¹ Π), so that dℓ/du = c K_π dρ/du, and dℓ/d log c = c K_π ρ. The
curvature of the likelihood is taken at its expectation (Fisher information), which is never negative; each family's
own curvature is added.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from manymotives.families import BETA, GAMMA, HALF_NORMAL, log_density_all
from manymotives.models import Target
from manymotives.planning import plan
from manymotives.rewards import LINEAR, NORMALISED

STEPS = 60
HALVINGS = 8
SETTLED = 1e-7  # change of the log posterior at which a task rests


class Peak(NamedTuple):
    """Modes of tasks given their population."""

    tasks: Float[np.ndarray, "M D"]
    covariance: Float[np.ndarray, "M D D"]
    prior_slope: Float[np.ndarray, "M D"]  # of the log prior at the mode: minus that of the log likelihood
    prior_curvature: Float[np.ndarray, "M D"]
    converged: bool


def peaks(target: Target, parameters: Float[np.ndarray, "M D 2"], start: Float[np.ndarray, "M D"]) -> Peak:
    """Climb from `start`, every task at its own pace."""
    owner = np.arange(target.num_tasks)
    u = start.copy()
    height = target.log_likelihood(u, owner) + _log_density(target, u, parameters)
    for _ in range(STEPS):
        slope, information = _likelihood_shape(target, u)
        prior_slope, prior_curvature = prior_shape(target.anatomy.families, u, parameters)
        curvature = information + prior_curvature[:, :, None] * np.eye(u.shape[1])
        step = np.linalg.solve(curvature, (slope + prior_slope)[..., None])[..., 0]
        best, best_height = u.copy(), height.copy()
        left = np.ones(len(u), dtype=bool)
        for halving in range(HALVINGS):
            trial = u[left] + 0.5**halving * step[left]
            found = target.log_likelihood(trial, owner[left]) + _log_density(target, trial, parameters[left])
            better = np.zeros_like(left)
            better[left] = np.nan_to_num(found, nan=-np.inf) > best_height[left]
            best[better], best_height[better] = trial[better[left]], found[better[left]]
            left &= ~better
            if not left.any():
                break
        gained = best_height - height
        u, height = best, best_height
        if gained.max() < SETTLED:
            break
    _, information = _likelihood_shape(target, u)
    prior_slope, prior_curvature = prior_shape(target.anatomy.families, u, parameters)
    curvature = information + prior_curvature[:, :, None] * np.eye(u.shape[1])
    return Peak(u, np.linalg.inv(curvature), prior_slope, prior_curvature, bool(gained.max() < 1e-3))


def prior_shape(
    kinds: np.ndarray, u: Float[np.ndarray, "M D"], parameters: Float[np.ndarray, "M D 2"]
) -> tuple[Float[np.ndarray, "M D"], Float[np.ndarray, "M D"]]:
    """Slope and negative curvature of each coordinate's log density."""
    a, b = parameters[..., 0], parameters[..., 1]
    grown = np.exp(np.minimum(u, 300.0))
    share = 1.0 / (1.0 + np.exp(-np.clip(u, -300.0, 300.0)))
    normal_scale = np.where(b > 0, b, 1.0)
    kind = [kinds == GAMMA, kinds == BETA, kinds == HALF_NORMAL]
    slope = np.select(
        kind, [a - b * grown, a - (a + b) * share, 1 - (grown / a) ** 2], default=-(u - a) / normal_scale**2
    )
    curvature = np.select(
        kind,
        [b * grown, (a + b) * share * (1 - share), 2 * (grown / a) ** 2],
        default=np.broadcast_to(1 / normal_scale**2, u.shape),
    )
    return slope, np.maximum(curvature, 1e-8)


def _likelihood_shape(
    target: Target, u: Float[np.ndarray, "M D"]
) -> tuple[Float[np.ndarray, "M D"], Float[np.ndarray, "M D D"]]:
    """Slope and Fisher information of every task's log likelihood."""
    environment, anatomy = target.environment, target.anatomy
    owner = np.arange(len(u))
    temperature, lapse = target.temperatures(u, owner), target.lapses(u, owner)
    rewards = target.rewards(u)
    soft = temperature if anatomy.is_soft else None
    found = plan(environment, rewards, on=target.on, inverse_temperature=soft)
    exists = np.isfinite(found.q)
    above = np.where(exists, found.q - found.q.max(axis=-1, keepdims=True), 0.0)
    weight = np.where(exists, np.exp(temperature[:, None, None] * above), 0.0)
    intended = weight / weight.sum(axis=-1, keepdims=True)  # [M, S, A]
    share = lapse[:, None, None]
    blind = exists / exists.sum(axis=-1, keepdims=True)
    policy = np.where(exists, (1 - share) * intended + share * blind, 1.0)

    followed = intended if anatomy.is_soft else found.policy
    logits = temperature[:, None, None, None] * _logit_slopes(target, u, rewards, followed)  # [M, S, A, D]
    centred = logits - np.einsum("msa,msad->msd", intended, logits)[:, :, None, :]
    change = (1 - share[..., None]) * intended[..., None] * centred
    if anatomy.lapse >= 0:
        change[..., anatomy.lapse] = lapse[:, None, None] * (1 - share) * (blind - intended)
    counts = target.counts
    slope = np.einsum("msa,msad->md", counts / policy, change)
    visits = counts.sum(axis=2, keepdims=True)
    information = np.einsum("msad,msae->mde", change * (visits / policy)[..., None], change)
    return slope, information


def _logit_slopes(target: Target, u: np.ndarray, rewards: np.ndarray, followed: np.ndarray) -> np.ndarray:
    """dQ/du [M, S, A, D], and K_π ρ in the place of the temperature."""
    environment, anatomy = target.environment, target.anatomy
    num_states, num_actions = environment.num_states, environment.num_actions
    moves = environment.discount * environment.tensor  # [S, A, S]
    chain = np.einsum("msa,sat->mst", followed, moves)
    visits = np.linalg.inv(np.eye(num_states) - chain)  # (I − γ P_π)⁻¹
    size = anatomy.num_rewards
    x = u[:, :size]
    # dρ/du, rewards as a flat table [S·(1 or A)]
    if anatomy.link == NORMALISED:
        flat = rewards.reshape(len(u), -1)[:, anatomy.places]
        inner = flat[:, :, None] * (np.eye(size) - flat[:, None, :])
    elif anatomy.link == LINEAR:
        inner = np.broadcast_to(np.eye(size), (len(u), size, size))
    else:
        value = 1.0 / (1.0 + np.exp(-x))
        inner = (value * (1 - value))[:, :, None] * np.eye(size)
    cells = num_states * (num_actions if anatomy.on_pairs else 1)
    spread = np.zeros((cells, size))
    if anatomy.features.size:
        spread = anatomy.features
    else:
        spread[anatomy.places, np.arange(size)] = 1.0
    slopes = np.zeros((len(u), num_states, num_actions, u.shape[1]))
    directions = spread @ inner  # [M, cells, K]
    columns = [directions, rewards.reshape(len(u), cells, 1)]
    stacked = np.concatenate(columns, axis=2)  # the last column is ρ itself
    if anatomy.on_pairs:
        here = stacked.reshape(len(u), num_states, num_actions, -1)
        received = np.einsum("msa,msak->msk", followed, here)
    else:
        here = np.repeat(stacked[:, :, None, :], num_actions, axis=2)
        received = stacked
    future = np.einsum("sat,mtk->msak", moves, visits @ received)
    total = here + future
    slopes[..., :size] = total[..., :-1]
    if anatomy.temperature >= 0:
        slopes[..., anatomy.temperature] = total[..., -1]
    return slopes


def _log_density(target: Target, u: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    return log_density_all(target.anatomy.families, np.ascontiguousarray(u), np.ascontiguousarray(parameters))
