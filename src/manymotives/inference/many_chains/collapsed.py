"""Collapsed update of concentrations, negligible rewards integrated out, and swap moves, in all chains at once (JAX).

The twin of `mcmc.collapsed`: p(α | rest) ∝ p(α) · Π_{not negligible} p(x_m | α) · Π_{negligible} P(x < ℓ_m | α).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from manymotives.inference.many_chains.choices import choices
from manymotives.inference.many_chains.density import parameters_of
from manymotives.inference.many_chains.families import centred, location, log_kernel, natural, noncentred
from manymotives.inference.many_chains.layout import Data, StaticLayout
from manymotives.inference.mcmc.collapsed import NEGLIGIBLE
from manymotives.models.rewards import NORMALISED
from manymotives.models.target import CONSTANT

CEILING = -3.0  # of negligible log x: draws below it are accepted 19 times in 20
TERMS = 12  # of a series in e^CEILING
TRIES = 10
WIDTH = 8.0  # of the slice that concentrations are drawn from: any is right
SHRINKAGES = 25  # of that slice; a dozen are usual, and a chain that needs more stays where it is


class CentredState(NamedTuple):
    """Where all chains are, with tasks in centred coordinates u."""

    hyper_z: Any  # [H, G, C]
    u: Any  # [D, M, C]
    likelihood: Any  # [M, C]
    likelihood_gradient: Any  # [D, M, C]
    start: Any  # [S, M, C] what plans nearby start from


def has_collapsed_update(layout: StaticLayout) -> bool:
    """Whether each reward has a concentration of its own, and all concentrations one hyperprior's family."""
    first = layout.runs[0]
    return (
        layout.link == NORMALISED
        and first.end == layout.num_rewards >= 2
        and first.sources[0] != CONSTANT
        and first.strides[0] == 1
        and _family(layout) is not None
    )


def _family(layout: StaticLayout) -> int | None:
    begin = layout.runs[0].sources[0]
    for run in layout.hyper_runs:
        if run.begin <= begin and begin + layout.num_rewards <= run.end:
            return run.family
    return None


def collapsed_update(layout: StaticLayout, data: Data, here: CentredState, key: Any) -> CentredState:
    """The concentration of one state, the same in all chains, with that state's negligible rewards."""
    family = _family(layout)
    assert family is not None
    state_key, slice_key, draw_key, accept_key = jax.random.split(key, 4)
    d = jax.random.randint(state_key, (), 0, layout.num_rewards)
    j = layout.runs[0].sources[0] + d
    a, b = data.hyper_constants[j, 0], data.hyper_constants[j, 1]
    size, num_tasks, chains = here.u.shape
    groups = (layout.num_groups, layout.group_size, chains)

    rewards, mine = here.u[: layout.num_rewards], here.u[d]
    others = jnp.where(jnp.arange(layout.num_rewards)[:, None, None] == d, -jnp.inf, rewards)
    limit = jnp.minimum(others.max(axis=0) - NEGLIGIBLE, CEILING).reshape(groups)
    mine = mine.reshape(groups)
    is_negligible = mine < limit
    seen, count = jnp.where(is_negligible, 0.0, mine).sum(axis=1), (~is_negligible).sum(axis=1)  # [G, C]

    def density(h: Any) -> Any:
        """Of the concentration's coordinate, up to a constant: given the others and how many rewards are negligible."""
        shape = natural(family, h)
        total = log_kernel(family, h - location(family, a, b), a, b) + shape * seen - count * lax.lgamma(shape)
        below = shape[:, None] * limit + _log_series(shape[:, None], jnp.exp(limit)) - lax.lgamma(shape + 1.0)[:, None]
        total = total + jnp.where(is_negligible, below, 0.0).sum(axis=1)
        return jnp.where((shape > 0.0) & (total < jnp.inf), total, -jnp.inf)

    before, _ = centred(family, here.hyper_z[j], a, b)
    goal = _on_slice(density, before, slice_key)
    shape = natural(family, goal)
    drawn = _below(draw_key, shape[:, None], limit)
    new = jnp.where(is_negligible, drawn, mine).reshape(num_tasks, chains)
    u = jnp.where(jnp.arange(size)[:, None, None] == d, new[None], here.u)
    likelihood, likelihood_gradient, start = choices(layout, data, u, here.start)
    change = jnp.where(is_negligible, (likelihood - here.likelihood).reshape(groups), 0.0).sum(axis=1)
    chance = jnp.exp(jnp.minimum(jnp.where(change > -jnp.inf, change, -jnp.inf), 0.0))
    accepted = jax.random.uniform(accept_key, chance.shape, chance.dtype) < chance  # [G, C]
    hyper_z = jnp.where(accepted, noncentred(family, goal, a, b, here.hyper_z[j]), here.hyper_z[j])
    each = jnp.repeat(accepted, layout.group_size, axis=0) & is_negligible.reshape(num_tasks, chains)
    return CentredState(
        here.hyper_z.at[j].set(hyper_z),
        jnp.where(each[None], u, here.u),
        jnp.where(each, likelihood, here.likelihood),
        jnp.where(each[None], likelihood_gradient, here.likelihood_gradient),
        jnp.where(each[None], start, here.start),
    )


def swap(layout: StaticLayout, data: Data, values: Any, here: CentredState, key: Any) -> CentredState:
    """Swap move: two rewards of each task exchanged, as another state may explain as much (`mcmc.sweeps._swap`)."""
    first_key, second_key, accept_key = jax.random.split(key, 3)
    shape, size = here.likelihood.shape, layout.num_rewards
    one = jax.random.randint(first_key, shape, 0, size)
    other = (one + jax.random.randint(second_key, shape, 1, size)) % size
    number = jnp.arange(size)[:, None, None]
    is_one, is_other = number == one[None], number == other[None]
    rewards = here.u[:size]
    of_one, of_other = (jnp.where(is_it, rewards, 0.0).sum(axis=0) for is_it in (is_one, is_other))
    swapped = jnp.where(is_one, of_other[None], jnp.where(is_other, of_one[None], rewards))
    a, _ = parameters_of(data, layout.runs[0], values)  # concentrations [K, G or 1, C or 1]
    a = jnp.repeat(jnp.broadcast_to(a, (size, layout.num_groups, shape[1])), layout.group_size, axis=1)
    u = jnp.concatenate([swapped, here.u[size:]])
    likelihood, likelihood_gradient, start = choices(layout, data, u, here.start)
    gain = likelihood - here.likelihood + (a * (swapped - rewards)).sum(axis=0)
    chance = jnp.exp(jnp.minimum(jnp.where(gain > -jnp.inf, gain, -jnp.inf), 0.0))
    accepted = jax.random.uniform(accept_key, shape, chance.dtype) < chance
    return CentredState(
        here.hyper_z,
        jnp.where(accepted[None], u, here.u),
        jnp.where(accepted, likelihood, here.likelihood),
        jnp.where(accepted[None], likelihood_gradient, here.likelihood_gradient),
        jnp.where(accepted[None], start, here.start),
    )


def _log_series(shape: Any, x: Any) -> Any:
    """As `mcmc.collapsed._log_series`."""
    total = term = jnp.ones_like(shape + x)
    for n in range(1, TERMS):
        term = term * x / (shape + n)
        total = total + term
    return jnp.log(total) - x


def _on_slice(density: Any, here: Any, key: Any) -> Any:
    """Slice sampling in an interval of one width laid at random around `here`, which shrinks towards it."""
    level_key, place_key, key = jax.random.split(key, 3)
    level = density(here) + jnp.log1p(-jax.random.uniform(level_key, here.shape, here.dtype))
    left = here - WIDTH * jax.random.uniform(place_key, here.shape, here.dtype)

    def one(_: Any, found: tuple[Any, ...]) -> tuple[Any, ...]:
        there, done, left, right, key = found
        key, own = jax.random.split(key)
        tried = left + (right - left) * jax.random.uniform(own, here.shape, here.dtype)
        inside = density(tried) > level
        there = jnp.where(~done & inside, tried, there)
        return there, done | inside, jnp.where(tried < here, tried, left), jnp.where(tried < here, right, tried), key

    first = (here, jnp.zeros(here.shape, bool), left, left + WIDTH, key)
    return lax.fori_loop(0, SHRINKAGES, one, first)[0]


def _below(key: Any, shape: Any, limit: Any) -> Any:
    """log x with x ~ Gamma(shape, 1), given that it is below `limit`: several tries at once."""
    draw_key, accept_key = jax.random.split(key)
    uniform = jax.random.uniform(draw_key, (TRIES, *limit.shape), limit.dtype)
    u = limit[None] + jnp.log1p(-uniform) / shape[None]
    good = jax.random.uniform(accept_key, u.shape, u.dtype) < jnp.exp(-jnp.exp(u))
    found = u[-1]
    for k in range(TRIES - 2, -1, -1):
        found = jnp.where(good[k], u[k], found)
    return found
