"""One sweep of many Hamiltonian chains at once, in JAX: the twin of `mcmc.sweeps` and `mcmc.hamiltonian`.

leapfrog:  r ← r + ε/2 Fᵀ ∇ log p(z),   z ← z + ε F r,   r ← r + ε/2 Fᵀ ∇ log p(z)       F Fᵀ: inverse mass matrix
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from manymotives.inference.many_chains.choices import UNROLLED
from manymotives.inference.many_chains.collapsed import CentredState, collapsed_update, has_collapsed_update, swap
from manymotives.inference.many_chains.density import (
    LogDensity,
    log_density_given_tasks,
    log_density_of_populations,
    log_density_of_tasks,
    noncentred_of,
    populations_at,
    summaries_of,
    tasks_at,
    with_totals,
)
from manymotives.inference.many_chains.layout import Data, StaticLayout

CENTRED_TRAJECTORIES = 2  # of a population given its tasks' u, per sweep


class Schedule(NamedTuple):
    """How many leapfrog steps the trajectories of a sweep have; the same in all chains."""

    tasks: Any
    populations: Any  # given their tasks' z
    centred: Any  # [CENTRED_TRAJECTORIES] given their tasks' u
    collapsed: Any  # how many collapsed updates of concentrations, each with a swap move


class State(NamedTuple):
    """Where all chains are."""

    hyper_z: Any  # [H, G, C]
    task_z: Any  # [D, M, C]
    likelihood: Any  # [M, C]
    likelihood_gradient: Any  # [D, M, C] its gradient in u
    start: Any  # [S, M, C] what plans nearby start from


class Tuning(NamedTuple):
    """Mass matrices and step sizes of trajectories; the same in all chains."""

    task_mass_factor: Any  # [D, D, M] Cholesky factor F of the inverse mass matrix: z = F y
    task_step_size: Any  # [M]
    hyper_mass_factor: Any  # [H, H, G]
    hyper_step_size: Any  # [G] of populations given their tasks' z
    centred_step_size: Any  # [G] of populations given their tasks' u


class AcceptanceProbabilities(NamedTuple):
    """Of the proposals of one sweep."""

    task_trajectories: Any  # [M, C]
    prior_proposals: Any  # [M, C]
    hyper_trajectories: Any  # [G, C] given tasks' z
    centred_trajectories: Any  # [G, C] given tasks' u


def sweep(
    layout: StaticLayout, data: Data, tuning: Tuning, state: State, key: Any, schedule: Schedule
) -> tuple[State, AcceptanceProbabilities]:
    """All updates of all chains."""
    prior_key, task_key, noncentred_key, centred_key, collapsed_key, total_key = jax.random.split(key, 6)
    _, values, _ = populations_at(layout, data, state.hyper_z)
    if layout.is_large:  # of many coordinates they are hardly ever accepted, and plans are dear
        prior_proposals = jnp.zeros_like(state.likelihood)
    else:
        state, prior_proposals = _prior_proposal(layout, data, values, state, prior_key)

    of_tasks = partial(log_density_of_tasks, layout, data, values)
    start = of_tasks(state.task_z, state[2:], again=True)
    z, found, task_chance, accepted = trajectory(
        of_tasks, state.task_z, start, tuning.task_mass_factor, tuning.task_step_size, schedule.tasks, task_key
    )
    state = _accepted_state(state, state.hyper_z, jnp.where(accepted[None], z, state.task_z), found, accepted)
    if layout.num_hyper == 0:
        u, _ = tasks_at(layout, data, values, state.task_z)
        none = jnp.zeros((layout.num_groups, u.shape[2]), u.dtype)
        u = with_totals(layout, data, values, u, total_key)
        state = state._replace(task_z=noncentred_of(layout, data, values, u, state.task_z, values))
        return state, AcceptanceProbabilities(task_chance, prior_proposals, none, none)

    def of_populations(z: Any, seen: Any, again: bool) -> LogDensity:
        return log_density_of_populations(layout, data, z, state.task_z, seen, again)

    start = of_populations(state.hyper_z, state[2:], again=True)
    z, found, hyper_chance, accepted = trajectory(
        of_populations,
        state.hyper_z,
        start,
        tuning.hyper_mass_factor,
        tuning.hyper_step_size,
        schedule.populations,
        noncentred_key,
    )
    each = jnp.repeat(accepted, layout.group_size, axis=0)
    state = _accepted_state(state, jnp.where(accepted[None], z, state.hyper_z), state.task_z, found, each)

    _, values, _ = populations_at(layout, data, state.hyper_z)
    u, _ = tasks_at(layout, data, values, state.task_z)
    before, summaries = values, summaries_of(layout, data, values, u, state.task_z)

    def given_tasks(z: Any, _: Any, again: bool) -> LogDensity:
        return LogDensity(*log_density_given_tasks(layout, data, z, summaries), None, None, None)

    def centred_update(hyper_z: Any, given: tuple[Any, Any]) -> tuple[Any, Any]:
        key, count = given
        start = given_tasks(hyper_z, None, True)
        z, _, chance, accepted = trajectory(
            given_tasks, hyper_z, start, tuning.hyper_mass_factor, tuning.centred_step_size, count, key
        )
        return jnp.where(accepted[None], z, hyper_z), chance

    keys = jax.random.split(centred_key, CENTRED_TRAJECTORIES)
    hyper_z, centred_chance = lax.scan(centred_update, state.hyper_z, (keys, schedule.centred))
    _, values, _ = populations_at(layout, data, hyper_z)
    u = with_totals(layout, data, values, u, total_key)  # integrated out in the update of populations
    if has_collapsed_update(layout):

        def collapsed_and_swap(k: Any, here: CentredState) -> CentredState:
            keys = jax.random.split(jax.random.fold_in(collapsed_key, k))
            here = collapsed_update(layout, data, here, keys[0])
            _, values, _ = populations_at(layout, data, here.hyper_z)
            return swap(layout, data, values, here, keys[1])

        here = CentredState(hyper_z, u, *state[2:])
        hyper_z, u, *seen = lax.fori_loop(0, schedule.collapsed, collapsed_and_swap, here)
        state = State(hyper_z, state.task_z, *seen)
        _, values, _ = populations_at(layout, data, hyper_z)
    state = state._replace(hyper_z=hyper_z, task_z=noncentred_of(layout, data, values, u, state.task_z, before))
    return state, AcceptanceProbabilities(task_chance, prior_proposals, hyper_chance, centred_chance.mean(axis=0))


def _prior_proposal(layout: StaticLayout, data: Data, values: Any, state: State, key: Any) -> tuple[State, Any]:
    """Prior proposal: some coordinates z of each task from a standard normal: one of them, or each by a coin."""
    keys = jax.random.split(key, 6)
    size, *shape = state.task_z.shape
    dtype = state.task_z.dtype
    one = jax.random.randint(keys[0], shape, 0, size)
    single = jnp.arange(size)[:, None, None] == one[None]
    several = jax.random.uniform(keys[1], state.task_z.shape, dtype) < jax.random.uniform(keys[2], shape, dtype)[None]
    which = jnp.where(jax.random.bernoulli(keys[3], 0.5, shape)[None], single, several)
    z = jnp.where(which, jax.random.normal(keys[4], state.task_z.shape, dtype), state.task_z)
    here = log_density_of_tasks(layout, data, values, state.task_z, state[2:], again=True)
    there = log_density_of_tasks(layout, data, values, z, state[2:], again=False)
    gain = there.density - here.density + 0.5 * (z**2 - state.task_z**2).sum(axis=0)
    chance, accepted = _decided(gain, keys[5])
    return _accepted_state(state, state.hyper_z, jnp.where(accepted[None], z, state.task_z), there, accepted), chance


def trajectory(
    log_density: Any, z: Any, start: LogDensity, mass_factor: Any, step_size: Any, steps: Any, key: Any
) -> tuple[Any, LogDensity, Any, Any]:
    """Trajectories of z [n, K, C] with mass factors [n, n, K] and step sizes [K].

    Returns their ends, the log density there, acceptance probabilities, and whether they are accepted.
    """
    momentum_key, key = jax.random.split(key)
    momentum = jax.random.normal(momentum_key, z.shape, z.dtype)
    scaled = mass_factor * step_size[None, None]

    def half_step(momentum: Any, gradient: Any) -> Any:
        return momentum + 0.5 * _product(scaled.swapaxes(0, 1), gradient)

    def leapfrog(_: Any, here: tuple[Any, Any, LogDensity]) -> tuple[Any, Any, LogDensity]:
        z, momentum, there = here
        momentum = half_step(momentum, there.gradient)
        z = z + _product(scaled, momentum)
        there = log_density(z, there[2:], again=False)
        return z, half_step(momentum, there.gradient), there

    there, after, found = lax.fori_loop(0, steps, leapfrog, (z, momentum, start))
    gain = 0.5 * (momentum**2 - after**2).sum(axis=0) + found.density - start.density
    chance, accepted = _decided(gain, key)
    return there, found, chance, accepted


def _product(mass_factor: Any, z: Any) -> Any:
    """F z for mass factors [n, n, K] and z [n, K, C]."""
    if len(z) > UNROLLED:
        return jnp.einsum("ijk,jkc->ikc", mass_factor, z)
    return sum(mass_factor[:, j, :, None] * z[j][None] for j in range(len(z)))


def _decided(gain: Any, key: Any) -> tuple[Any, Any]:
    """Acceptance probabilities, and whether accepted; never where the gain is no number."""
    chance = jnp.where(gain > -jnp.inf, jnp.exp(jnp.minimum(gain, 0.0)), 0.0)
    return chance, jax.random.uniform(key, gain.shape, gain.dtype) < chance


def _accepted_state(state: State, hyper_z: Any, task_z: Any, found: LogDensity, accepted: Any) -> State:
    """The state with log-likelihoods, gradients and starts of plans of tasks [M, C] whose proposals were accepted."""
    return State(
        hyper_z,
        task_z,
        jnp.where(accepted, found.likelihood, state.likelihood),
        jnp.where(accepted[None], found.likelihood_gradient, state.likelihood_gradient),
        jnp.where(accepted[None], found.start, state.start),
    )
