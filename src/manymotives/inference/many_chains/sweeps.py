"""One sweep of many Hamiltonian chains at once, in JAX: every move of `device_hmc`, for all chains."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from manymotives.inference.many_chains.choices import UNROLLED
from manymotives.inference.many_chains.collapsed import Place, exchange, has_faint, move_faint
from manymotives.inference.many_chains.density import (
    Judged,
    judge_given_tasks,
    judge_populations,
    judge_tasks,
    latent_of,
    populations_at,
    summaries_of,
    tasks_at,
    with_totals,
)
from manymotives.inference.many_chains.layout import Data, Layout

GIVEN_PATHS = 2  # of a population given its tasks


class Pace(NamedTuple):
    """How many steps the paths of a sweep have; the same in all chains."""

    tasks: Any
    populations: Any
    given: Any  # [GIVEN_PATHS]
    faint: Any  # how many moves of concentrations with faint rewards it has, each with an exchange


class State(NamedTuple):
    """Where all chains are."""

    hyper_z: Any  # [H, G, C]
    task_z: Any  # [D, M, C]
    likelihood: Any  # [M, C]
    lift: Any  # [D, M, C] its gradient in u
    actions: Any  # [S, M, C]


class Tuning(NamedTuple):
    """How paths are taken; the same in all chains."""

    task_frame: Any  # [D, D, M]
    task_step: Any  # [M]
    hyper_frame: Any  # [H, H, G]
    hyper_step: Any  # [G]
    given_step: Any  # [G] of populations given their tasks


class Tally(NamedTuple):
    """Chances of acceptance in one sweep."""

    tasks: Any  # [M, C]
    refreshments: Any  # [M, C]
    carries: Any  # [G, C]
    given: Any  # [G, C]


def sweep(layout: Layout, data: Data, tuning: Tuning, state: State, key: Any, pace: Pace) -> tuple[State, Tally]:
    """All moves of all chains."""
    refresh_key, task_key, carry_key, given_key, faint_key, total_key = jax.random.split(key, 6)
    _, values, _ = populations_at(layout, data, state.hyper_z)
    state, refreshments = _refresh(layout, data, values, state, refresh_key)

    judge = partial(judge_tasks, layout, data, values)
    start = judge(state.task_z, state[2:], again=True)
    z, found, chance, follows = _follow(
        judge, state.task_z, start, tuning.task_frame, tuning.task_step, pace.tasks, task_key
    )
    state = _moved(state, state.hyper_z, jnp.where(follows[None], z, state.task_z), found, follows)
    if layout.num_hyper == 0:
        u, _ = tasks_at(layout, data, values, state.task_z)
        nowhere = jnp.zeros((layout.num_groups, u.shape[2]), u.dtype)
        u = with_totals(layout, data, values, u, total_key)
        state = state._replace(task_z=latent_of(layout, data, values, u, state.task_z, values))
        return state, Tally(chance, refreshments, nowhere, nowhere)

    def judge_carried(z: Any, seen: Any, again: bool) -> Judged:
        return judge_populations(layout, data, z, state.task_z, seen, again)

    start = judge_carried(state.hyper_z, state[2:], again=True)
    z, found, carried, follows = _follow(
        judge_carried, state.hyper_z, start, tuning.hyper_frame, tuning.hyper_step, pace.populations, carry_key
    )
    each = jnp.repeat(follows, layout.group_size, axis=0)
    state = _moved(state, jnp.where(follows[None], z, state.hyper_z), state.task_z, found, each)

    _, values, _ = populations_at(layout, data, state.hyper_z)
    u, _ = tasks_at(layout, data, values, state.task_z)
    before, summaries = values, summaries_of(layout, data, values, u, state.task_z)

    def judge_alone(z: Any, _: Any, again: bool) -> Judged:
        return Judged(*judge_given_tasks(layout, data, z, summaries), None, None, None)

    def alone(hyper_z: Any, given: tuple[Any, Any]) -> tuple[Any, Any]:
        key, count = given
        start = judge_alone(hyper_z, None, True)
        z, _, chance, follows = _follow(judge_alone, hyper_z, start, tuning.hyper_frame, tuning.given_step, count, key)
        return jnp.where(follows[None], z, hyper_z), chance

    hyper_z, given = lax.scan(alone, state.hyper_z, (jax.random.split(given_key, GIVEN_PATHS), pace.given))
    _, values, _ = populations_at(layout, data, hyper_z)
    u = with_totals(layout, data, values, u, total_key)  # populations have moved as if there were none
    if has_faint(layout):

        def moved(k: Any, place: Place) -> Place:
            keys = jax.random.split(jax.random.fold_in(faint_key, k))
            place = move_faint(layout, data, place, keys[0])
            _, values, _ = populations_at(layout, data, place.hyper_z)
            return exchange(layout, data, values, place, keys[1])

        hyper_z, u, *seen = lax.fori_loop(0, pace.faint, moved, Place(hyper_z, u, *state[2:]))
        state = State(hyper_z, state.task_z, *seen)
        _, values, _ = populations_at(layout, data, hyper_z)
    state = state._replace(hyper_z=hyper_z, task_z=latent_of(layout, data, values, u, state.task_z, before))
    return state, Tally(chance, refreshments, carried, given.mean(axis=0))


def _refresh(layout: Layout, data: Data, values: Any, state: State, key: Any) -> tuple[State, Any]:
    """Some coordinates of each task anew: one of them, or each with some probability."""
    keys = jax.random.split(key, 6)
    size, *shape = state.task_z.shape
    dtype = state.task_z.dtype
    one = jax.random.randint(keys[0], shape, 0, size)
    single = jnp.arange(size)[:, None, None] == one[None]
    several = jax.random.uniform(keys[1], state.task_z.shape, dtype) < jax.random.uniform(keys[2], shape, dtype)[None]
    which = jnp.where(jax.random.bernoulli(keys[3], 0.5, shape)[None], single, several)
    z = jnp.where(which, jax.random.normal(keys[4], state.task_z.shape, dtype), state.task_z)
    here = judge_tasks(layout, data, values, state.task_z, state[2:], again=True)
    there = judge_tasks(layout, data, values, z, state[2:], again=False)
    gain = there.density - here.density + 0.5 * (z**2 - state.task_z**2).sum(axis=0)
    chance, follows = _decided(gain, keys[5])
    return _moved(state, state.hyper_z, jnp.where(follows[None], z, state.task_z), there, follows), chance


def _follow(
    judge: Any, z: Any, start: Judged, frame: Any, step: Any, count: Any, key: Any
) -> tuple[Any, Judged, Any, Any]:
    """Paths of z [n, K, C] with frames [n, n, K] and steps [K]: where they lead, what is there, chances, decisions."""
    momentum_key, key = jax.random.split(key)
    momentum = jax.random.normal(momentum_key, z.shape, z.dtype)
    scaled = frame * step[None, None]

    def kick(momentum: Any, slope: Any) -> Any:
        return momentum + 0.5 * _product(scaled.swapaxes(0, 1), slope)

    def one(_: Any, path: tuple[Any, Any, Judged]) -> tuple[Any, Any, Judged]:
        z, momentum, there = path
        momentum = kick(momentum, there.slope)
        z = z + _product(scaled, momentum)
        there = judge(z, there[2:], again=False)
        return z, kick(momentum, there.slope), there

    there, after, found = lax.fori_loop(0, count, one, (z, momentum, start))
    gain = 0.5 * (momentum**2 - after**2).sum(axis=0) + found.density - start.density
    chance, follows = _decided(gain, key)
    return there, found, chance, follows


def _product(frame: Any, z: Any) -> Any:
    """F z for frames [n, n, K] and z [n, K, C]."""
    if len(z) > UNROLLED:
        return jnp.einsum("ijk,jkc->ikc", frame, z)
    return sum(frame[:, j, :, None] * z[j][None] for j in range(len(z)))


def _decided(gain: Any, key: Any) -> tuple[Any, Any]:
    """Chances of acceptance, and whether; never of what is no number."""
    chance = jnp.where(gain > -jnp.inf, jnp.exp(jnp.minimum(gain, 0.0)), 0.0)
    return chance, jax.random.uniform(key, gain.shape, gain.dtype) < chance


def _moved(state: State, hyper_z: Any, task_z: Any, found: Judged, follows: Any) -> State:
    """What is known of choices, where tasks [M, C] have moved."""
    return State(
        hyper_z,
        task_z,
        jnp.where(follows, found.likelihood, state.likelihood),
        jnp.where(follows[None], found.lift, state.lift),
        jnp.where(follows[None], found.actions, state.actions),
    )
