"""Laplace approximation of tasks given their population: modes by Fisher scoring, covariances; mass matrices of HMC.

    u ← u + (I(u) + Λ)⁻¹ ∇ log p(u, choices)            I: Fisher information of choices, Λ: minus the prior's curvature

With logits ℓ = c Q and one policy π (greedy, or soft), dQ/dρ = K_π = E + γ P (I − γ P_π)⁻¹ (E spreads a state's reward
over its actions; on pairs K_π = I + γ P (I − γ P_π)⁻¹ Π), so that dℓ/du = c K_π dρ/du, and dℓ/d log c = c K_π ρ. The
Fisher information is never negative, as the curvature of the likelihood may be. In the discount's logit
dℓ = (1 − γ) c K_π x, with x = Q − ρ on pairs, as if that were a reward. Where agents look n steps ahead K_π is a sum of
n terms, by as many backups: each step has a policy of its own.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse.linalg as spl
from jaxtyping import Float, Int
from scipy.linalg import lapack

from manymotives.data.environment import Environment
from manymotives.families import BETA, GAMMA, HALF_NORMAL, log_density_all
from manymotives.models import Target
from manymotives.planning.compiled import suits
from manymotives.planning.finite_horizon import backups
from manymotives.planning.sparse import systems_of
from manymotives.planning.verbs import Plan

Planned = Callable[[np.ndarray, np.ndarray], Plan]  # at coordinates [M, D] of tasks [M]

STEPS = 60
HALVINGS = 8
BATCH = 1_000_000  # slopes of logits at a time
LENGTHENING = 2.0  # by how much a mass matrix must lengthen steps to be worth what it gets wrong
SETTLED = 1e-7  # change of the log posterior at which a task's search ends


class Peak(NamedTuple):
    """Modes of tasks given their population."""

    tasks: Float[np.ndarray, "M D"]
    covariance: Float[np.ndarray, "M D D"]
    prior_slope: Float[np.ndarray, "M D"]  # of the log prior at the mode: minus that of the log likelihood
    prior_curvature: Float[np.ndarray, "M D"]
    converged: bool


def peaks(
    target: Target, parameters: Float[np.ndarray, "M D 2"], start: Float[np.ndarray, "M D"], steps: int = STEPS
) -> Peak:
    """Fisher scoring from `start`, each task for itself; at most so many steps."""
    owner = np.arange(target.num_tasks)
    u = start.copy()
    height = target.log_likelihood(u, owner) + _log_density(target, u, parameters)
    gained = np.full(len(u), np.inf)
    for _ in range(steps):
        climbing = np.flatnonzero(gained >= SETTLED)
        if len(climbing) == 0:
            break
        slope, information = likelihood_shape(target, u[climbing], climbing)
        prior_slope, prior_curvature = prior_shape(target.layout.families, u[climbing], parameters[climbing])
        curvature = information + prior_curvature[:, :, None] * np.eye(u.shape[1])
        step = np.linalg.solve(curvature, (slope + prior_slope)[..., None])[..., 0]
        gained[climbing] = 0.0
        left = np.arange(len(climbing))
        for halving in range(HALVINGS):
            tasks = climbing[left]
            proposed = u[tasks] + 0.5**halving * step[left]
            found = target.log_likelihood(proposed, tasks) + _log_density(target, proposed, parameters[tasks])
            better = np.nan_to_num(found, nan=-np.inf) > height[tasks]
            risen = tasks[better]
            gained[risen] = found[better] - height[risen]
            u[risen], height[risen] = proposed[better], found[better]
            left = left[~better]
            if len(left) == 0:
                break
    _, information = likelihood_shape(target, u, owner)
    prior_slope, prior_curvature = prior_shape(target.layout.families, u, parameters)
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
    in_scales = grown / np.where(kind[2], a, 1.0)
    slope = np.select(kind, [a - b * grown, a - (a + b) * share, 1 - in_scales**2], default=-(u - a) / normal_scale**2)
    curvature = np.select(
        kind,
        [b * grown, (a + b) * share * (1 - share), 2 * in_scales**2],
        default=np.broadcast_to(1 / normal_scale**2, u.shape),
    )
    return slope, np.maximum(curvature, 1e-8)


def mass_factors(
    target: Target,
    u: Float[np.ndarray, "M D"],
    u_by_z: Float[np.ndarray, "M D"],
    u_by_a: Float[np.ndarray, "M D"],
    u_by_b: Float[np.ndarray, "M D"],
    hyper_by_z: Float[np.ndarray, "G H"],
    values: Float[np.ndarray, "G H"],
) -> tuple[Float[np.ndarray, "M D D"], Float[np.ndarray, "G H H"]]:
    """Cholesky factors F of the inverse mass matrices of tasks' z, and of populations' z: F Fᵀ = (1 + information)⁻¹.

    Before the data all z are about standard normal: hence the 1. To this the choices add their information about u,
    through du/dz (derivatives, and `values`, as in `density.Workspace`). Populations move with their tasks' z fixed.
    """
    _, information = likelihood_shape(target, u, np.arange(len(u)))
    source, num_hyper = target.layout.source, target.num_hyper
    tasks, populations = np.empty_like(information), np.empty((target.num_groups, num_hyper, num_hyper))
    for m in range(len(u)):  # one at a time: these matrices may be large
        tasks[m] = _mass_factor(u_by_z[m, :, None] * information[m] * u_by_z[m])
    for g in range(target.num_groups if num_hyper else 0):
        total_information = np.zeros((num_hyper + 1, num_hyper + 1))  # the last: of known parameters, source −1
        own = np.append(hyper_by_z[g], 0.0)
        into = [u_by * own[source[:, column]] for column, u_by in enumerate((u_by_a, u_by_b))]
        owner = [source[:, 0], source[:, 1]]
        if target.layout.smooth.exist:  # b of rewards is a function of hyperparameters; of normal weights du/dz = b
            for index, slopes in target.layout.smooth.log_slopes(values[g]):
                by = np.zeros_like(u_by_b)
                by[:, : len(slopes)] = (u_by_b * u_by_z)[:, : len(slopes)] * slopes * own[index]
                into.append(by)
                owner.append(np.full(len(source), index))
        for one in range(len(into)):
            for other in range(len(into)):
                mine = target.group == g
                total = np.einsum("md,mde,me->de", into[one][mine], information[mine], into[other][mine])
                np.add.at(total_information, np.ix_(owner[one], owner[other]), total)
        populations[g] = _mass_factor(total_information[:-1, :-1])
    return tasks, populations


def improves_step_size(before: Float[np.ndarray, "M D D"], now: Float[np.ndarray, "M D D"]) -> bool:
    """Whether mass factors F of an earlier state make steps twice as long at this one, whose factors are G.

    The narrowest direction limits the step size: to 1 / ‖G⁻¹ F‖ with F, to 1 / ‖G⁻¹‖ without. Where choices are nearly
    certain, the likelihood is curved only close to where they change, and its curvature is no guide to other states.
    """
    gains = []
    for m in {0, len(now) // 2, len(now) - 1}:  # three are enough to decide
        inverse, _ = lapack.dtrtri(now[m], lower=1)
        gains.append(np.linalg.norm(inverse, 2) / np.linalg.norm(inverse @ before[m], 2))
    return bool(np.median(gains) > LENGTHENING)


def _mass_factor(information: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "D D"]:
    """Lower triangular F with F Fᵀ = (information + 1)⁻¹: reversed, it is the inverse of a Cholesky factor."""
    factor = np.linalg.cholesky((information + np.eye(len(information)))[::-1, ::-1])
    inverse, _ = lapack.dtrtri(factor, lower=1)
    return inverse.T[::-1, ::-1]


def likelihood_shape(
    target: Target, u: Float[np.ndarray, "M D"], owner: Int[np.ndarray, " M"], planned: Planned | None = None
) -> tuple[Float[np.ndarray, "M D"], Float[np.ndarray, "M D D"]]:
    """Slope and Fisher information of the log likelihoods of tasks `owner`.

    `planned`: what finds action values and best actions at some u of these tasks; the planner of `mm.plan` if None.
    """
    per_task = target.environment.num_states * target.environment.num_actions * u.shape[1]
    at_once = max(1, BATCH // per_task)
    parts = [slice(k, k + at_once) for k in range(0, len(u), at_once)]
    found = [_shape_of(target, u[part], owner[part], planned or target.planned) for part in parts]
    slopes, informations = zip(*found)
    return np.concatenate(slopes), np.concatenate(informations)


def _shape_of(target: Target, u: np.ndarray, owner: np.ndarray, planned: Planned) -> tuple[np.ndarray, np.ndarray]:
    """The same for some tasks, whose numbers are `owner`."""
    environment, layout = target.environment, target.layout
    temperature, lapse = target.felt_temperatures(u, owner), target.lapses(u, owner)
    rewards, counts = target.rewards(u), target.counts[owner]
    found = planned(u, owner)
    exists = np.isfinite(found.q)
    above = np.where(exists, found.q - found.q.max(axis=-1, keepdims=True), 0.0)
    weight = np.where(exists, np.exp(temperature[:, None, None] * above), 0.0)
    intended = weight / weight.sum(axis=-1, keepdims=True)  # [M, S, A]
    followed = intended if layout.is_soft else found.policy

    # only states in which somebody chose are informative
    visited = np.flatnonzero((counts.sum(axis=(0, 2)) > 0) & (environment.available.sum(axis=1) > 1))
    if target.depth is None:
        slopes = _logit_slopes(target, u, owner, rewards, found.q, followed, visited)  # [M, visited, A, D]
    else:
        slopes = _logit_slopes_ahead(target, u, owner, rewards, visited)
    logits = temperature[:, None, None, None] * slopes
    exists, intended, counts = exists[:, visited], intended[:, visited], counts[:, visited]
    share = lapse[:, None, None]
    blind = exists / exists.sum(axis=-1, keepdims=True)
    policy = np.where(exists, (1 - share) * intended + share * blind, 1.0)
    centred = logits - np.einsum("msa,msad->msd", intended, logits)[:, :, None, :]
    # d log π: without lapses intended / policy is 1, also where both are too small to be told from 0
    meant = (1 - share) * np.where(policy > 0, intended / np.maximum(policy, 1e-300), 1.0)
    change = meant[..., None] * centred
    if layout.lapse >= 0:
        change[..., layout.lapse] = lapse[:, None, None] * (1 - share) * (blind - intended) / policy
    slope = np.einsum("msa,msad->md", counts, change)
    visits = counts.sum(axis=2, keepdims=True)
    scaled = (change * np.sqrt(visits * policy)[..., None]).reshape(len(u), -1, u.shape[1])
    return slope, scaled.transpose(0, 2, 1) @ scaled


def _logit_slopes(
    target: Target,
    u: np.ndarray,
    owner: np.ndarray,
    rewards: np.ndarray,
    q: np.ndarray,
    followed: np.ndarray,
    visited: np.ndarray,
) -> np.ndarray:
    """dQ/du [M, visited, A, D] in some states, and K_π ρ in the place of the temperature."""
    environment, layout = target.environment, target.layout
    num_states, num_actions = environment.num_states, environment.num_actions
    size = layout.num_rewards
    directions = target.reward_derivatives(u, rewards)
    cells = directions.shape[1]
    stacked = np.concatenate([directions, rewards.reshape(len(u), cells, 1)], axis=2)  # the last column is ρ itself
    if layout.on_pairs:
        here = stacked.reshape(len(u), num_states, num_actions, -1)
        received = np.einsum("msa,msak->msk", followed, here)
    else:
        here = np.broadcast_to(stacked[:, :, None, :], (len(u), num_states, num_actions, size + 1))
        received = stacked
    discounts = target.discounts(u, owner)
    if discounts is not None:
        on_pairs = rewards if layout.on_pairs else rewards[:, :, None]
        later = (1 - discounts)[:, None, None] * np.where(np.isfinite(q), q - on_pairs, 0.0)
        here = np.concatenate([here, later[..., None]], axis=3)
        received = np.concatenate([received, (followed * later).sum(axis=2)[..., None]], axis=2)
    future = _futures(environment, discounts, followed, np.ascontiguousarray(received), visited)
    return _placed(target, u, here[:, visited] + future.reshape(len(u), len(visited), num_actions, received.shape[2]))


def _logit_slopes_ahead(
    target: Target, u: np.ndarray, owner: np.ndarray, rewards: np.ndarray, visited: np.ndarray
) -> np.ndarray:
    """The same of Q_n, where agents look n steps ahead: dQ_k = x + γ P dV_{k−1}, dV_k = Σ π_k dQ_k."""
    assert target.depth is not None
    environment, layout = target.environment, target.layout
    num_states, num_actions = environment.num_states, environment.num_actions
    directions = target.reward_derivatives(u, rewards)
    stacked = np.concatenate([directions, rewards.reshape(len(u), -1, 1)], axis=2)  # the last column is ρ itself
    here = stacked.reshape(len(u), num_states, -1, stacked.shape[2])
    on_pairs = rewards.reshape(len(u), num_states, -1)
    own, soft = target.discounts(u, owner), target.felt_temperatures(u, owner) if layout.is_soft else None
    discount = np.full(len(u), environment.discount) if own is None else own
    values: np.ndarray | None = None
    for q in backups(environment, on_pairs, soft, own, target.depth):
        total = np.broadcast_to(here, (*q.shape, here.shape[3]))
        if own is not None:
            later = (1 - own)[:, None, None] * np.where(np.isfinite(q), q - on_pairs, 0.0)
            total = np.concatenate([total, later[..., None]], axis=3)
        if values is not None:
            moved = environment.matrix @ values.transpose(1, 0, 2).reshape(num_states, -1)
            moved = moved.reshape(num_states, num_actions, len(u), -1).transpose(2, 0, 1, 3)
            total = total + discount[:, None, None, None] * moved
        above = q - q.max(axis=2, keepdims=True)
        with np.errstate(over="ignore"):  # of what does not exist, or is never done at this temperature
            weight = np.exp(soft[:, None, None] * above) if soft is not None else np.eye(num_actions)[q.argmax(axis=2)]
        values = np.einsum("msa,msak->msk", weight / weight.sum(axis=2, keepdims=True), total)
    return _placed(target, u, total[:, visited])


def _placed(target: Target, u: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Slopes by rewards, by ρ itself and by the discount's logit, in the places of coordinates."""
    layout, size = target.layout, target.layout.num_rewards
    slopes = np.zeros((*total.shape[:3], u.shape[1]))
    slopes[..., :size] = total[..., :size]
    if layout.temperature >= 0:
        slopes[..., layout.temperature] = total[..., size]
    if layout.discount >= 0:
        slopes[..., layout.discount] = total[..., size + 1]
    return slopes


def _futures(
    environment: Environment,
    discounts: np.ndarray | None,
    followed: np.ndarray,
    received: np.ndarray,
    visited: np.ndarray,
) -> np.ndarray:
    """γ P (I − γ P_π)⁻¹ x [M, visited · A, K], for what policies [M, S, A] receive in each state, x [M, S, K].

    With discounts [M], or the environment's.
    """
    num_states, num_actions = environment.num_states, environment.num_actions
    pairs = (visited[:, None] * num_actions + np.arange(num_actions)).ravel()
    common = environment.discount if discounts is None else 1.0
    own = np.ones(len(followed)) if discounts is None else discounts
    transitions = common * environment.matrix[pairs]
    if suits(environment):
        chain = own[:, None, None] * np.einsum("msa,sat->mst", followed, common * environment.tensor)
        values = np.linalg.solve(np.eye(num_states) - chain, received)
    else:
        options = {"SymmetricMode": True}  # diagonally dominant: no pivoting needed (see `sparse`)
        values = np.stack(
            [
                spl.splu(system.tocsc(), diag_pivot_thresh=0.0, options=options).solve(right)
                for system, right in zip(systems_of(environment, followed, discounts), received)
            ]
        )
    return np.stack([discount * (transitions @ each) for discount, each in zip(own, values)])


def _log_density(target: Target, u: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    return log_density_all(target.layout.families, np.ascontiguousarray(u), np.ascontiguousarray(parameters))
