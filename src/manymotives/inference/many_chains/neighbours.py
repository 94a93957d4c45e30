"""Plans and their adjoints in large environments, for many chains at once, in JAX: nothing of size states × states.

Both are fixed points, of v = B(v) and of w = b + T_πᵀ w, and found alike: by iteration with Anderson's acceleration
(Walker & Ni 2011). With f = B(x) − x, and what the last steps changed in x and f, Δx_i and Δf_i,

    x ← x + f − Σ_i θ_i (Δx_i + Δf_i),      θ = arg min |f − Σ_i θ_i Δf_i|²            in each chain by itself

It takes two to five times fewer sweeps, the more the nearer the discount is to 1. A chain whose rest grows begins again
without a past.

A state's successors under any action are looked up once: T_π is an array [S, N, M, C] for N successors at most.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import lax

TOLERANCE = 1e-13  # of a fixed point: its rest, relative to its largest value
MOST_SWEEPS = 20_000
PAST = 4  # steps that the next one is extrapolated from
MANY_ARRIVALS = 4  # times the mean: where a state has more, what arrives is added one by one


class Neighbours(NamedTuple):
    """Transitions of a large environment."""

    successors: Any  # [S, N] states that a state may be followed by; itself where there are fewer
    probabilities: Any  # [S, A, N] times the discount
    origins: Any  # [S, L] the entries s·N + n of `successors` that are this state; without columns where L is large
    arrives: Any  # [S, L] 1, or 0 where there are fewer


def neighbours_of(transitions: sp.csr_array, num_actions: int) -> Neighbours:
    """From transition probabilities [S·A, S], times the discount."""
    num_states = transitions.shape[1]
    entries = transitions.tocoo()
    state, action = np.divmod(entries.row, num_actions)
    links = sp.csr_array((np.ones(len(state)), (state, entries.col)), shape=(num_states, num_states))
    links.sum_duplicates()
    most = int(np.diff(links.indptr).max(initial=1))
    successors = np.tile(np.arange(num_states)[:, None], (1, most))
    starts = np.repeat(np.arange(num_states), np.diff(links.indptr))
    slots = np.arange(links.nnz) - links.indptr[starts]
    successors[starts, slots] = links.indices
    slot_of = sp.csr_array((slots + 1, links.indices, links.indptr), shape=links.shape)
    probabilities = np.zeros((num_states, num_actions, most))
    np.add.at(probabilities, (state, action, np.asarray(slot_of[state, entries.col]).ravel() - 1), entries.data)
    order = np.argsort(links.indices, kind="stable")
    counts = np.bincount(links.indices, minlength=num_states)
    width = int(counts.max(initial=0))
    if width > MANY_ARRIVALS * max(counts.mean(), 1.0):
        width = 0
    origins, arrives = np.zeros((num_states, width), dtype=np.int64), np.zeros((num_states, width))
    if width:
        ends = links.indices[order]
        rank = np.arange(links.nnz) - (np.cumsum(counts) - counts)[ends]
        origins[ends, rank] = (starts * most + slots)[order]
        arrives[ends, rank] = 1.0
    return Neighbours(successors.astype(np.int32), probabilities, origins.astype(np.int32), arrives)


def departures(neighbours: Neighbours, value: Any) -> Any:
    """Σ_t γ P(t|s, a) v(t) [S, A, M, C]."""
    return sum(
        neighbours.probabilities[:, :, n, None, None] * value[neighbours.successors[:, n]][:, None]
        for n in range(neighbours.successors.shape[1])
    )


def arrivals(neighbours: Neighbours, gradient: Any) -> Any:
    """Σ_{s,a} γ P(t|s, a) g(s, a) [S, M, C]."""
    return _gathered(neighbours, _weighted(neighbours, gradient))


def plan(backup: Callable[[Any], Any], value: Any) -> tuple[Any, Any]:
    """Values [S, M, C] with v = B(v), from those nearby; and whether they were found [M, C]."""
    return _fixed_point(backup, value, 0.0)


def adjoint(neighbours: Neighbours, policy: Any, arrived: Any) -> tuple[Any, Any]:
    """w = b + T_πᵀ w [S, M, C] for what has arrived, b; and whether it was found [M, C]."""
    moves = _weighted(neighbours, policy)
    size = jnp.abs(arrived).max(axis=0)
    return _fixed_point(lambda w: arrived + _gathered(neighbours, moves * w[:, None]), arrived, size)


def _weighted(neighbours: Neighbours, weights: Any) -> Any:
    """Σ_a γ P(t|s, a) x(s, a) [S, N, M, C] for weights x [S, A, M, C]."""
    return sum(neighbours.probabilities[:, a, :, None, None] * weights[:, a][:, None] for a in range(weights.shape[1]))


def _gathered(neighbours: Neighbours, flow: Any) -> Any:
    """The sum of what goes to each state [S, M, C], of flow [S, N, M, C] to the successors of each."""
    size, most = neighbours.successors.shape
    flat = flow.reshape(size * most, *flow.shape[2:])
    if neighbours.origins.shape[1] == 0:
        return jnp.zeros((size, *flow.shape[2:]), flow.dtype).at[neighbours.successors.ravel()].add(flat)
    return sum(
        neighbours.arrives[:, k, None, None] * flat[neighbours.origins[:, k]]
        for k in range(neighbours.origins.shape[1])
    )


class _Search(NamedTuple):
    """Where the search for fixed points is, in each chain."""

    x: Any  # [S, M, C]
    rest: Any  # [S, M, C] f
    gap: Any  # [M, C] its largest entry
    changes: Any  # [PAST, S, M, C] Δx + Δf
    rest_changes: Any  # [PAST, S, M, C] Δf
    products: Any  # [PAST, PAST, M, C] of Δf
    past: Any  # [M, C] how many of them count
    again: Any  # [M, C]
    count: Any


def _fixed_point(mapped: Callable[[Any], Any], x: Any, least: Any) -> tuple[Any, Any]:
    """x = mapped(x) of each chain, and whether it was found; `least`: of the size that errors are relative to."""

    def unsettled(here: _Search) -> Any:
        return here.again.any() & (here.count < MOST_SWEEPS)

    def step(here: _Search) -> _Search:
        age = (here.count - 1 - jnp.arange(PAST)) % PAST
        known = age[:, None, None] < here.past[None]
        theta = _least_squares(here.products, (here.rest_changes * here.rest[None]).sum(axis=1), known)
        change = here.rest - (theta[:, None] * here.changes).sum(axis=0)
        x = jnp.where(here.again[None], here.x + change, here.x)
        rest = mapped(x) - x
        gap = jnp.abs(rest).max(axis=0)
        has_grown = ~(gap <= 2.0 * here.gap)
        slot = here.count % PAST
        rest_change = rest - here.rest
        rest_changes = here.rest_changes.at[slot].set(rest_change)
        products = (rest_changes * rest_change[None]).sum(axis=1)
        size = jnp.maximum(jnp.abs(x).max(axis=0), least)
        return _Search(
            x,
            rest,
            gap,
            here.changes.at[slot].set(change + rest_change),
            rest_changes,
            here.products.at[slot].set(products).at[:, slot].set(products),
            jnp.where(has_grown, 0, jnp.minimum(here.past + 1, PAST)),
            ~(gap <= TOLERANCE * size),
            here.count + 1,
        )

    rest = mapped(x) - x
    shape, nothing = x.shape[1:], jnp.zeros((PAST, *x.shape), x.dtype)
    products = jnp.zeros((PAST, PAST, *shape), x.dtype)
    gap, again = jnp.abs(rest).max(axis=0), jnp.full(shape, True)
    past = jnp.zeros(shape, jnp.int32)
    begin = _Search(x, rest, gap, nothing, nothing, products, past, again, jnp.zeros((), jnp.int32))
    found = lax.while_loop(unsettled, step, begin)
    return found.x, ~found.again


def _least_squares(products: Any, right: Any, known: Any) -> Any:
    """θ [PAST, M, C] from the products of Δf and theirs with f; 0 of what is not known. By elimination, written out."""
    both = known[:, None] & known[None]
    trace = jnp.where(known, jnp.einsum("iimc->imc", products), 0.0).sum(axis=0)
    ridge = jnp.where(known, 1e-14 * trace, 1.0)
    rows = [[jnp.where(both[i, j], products[i, j], 0.0) for j in range(PAST)] for i in range(PAST)]
    theta = [jnp.where(known[i], right[i], 0.0) for i in range(PAST)]
    for i in range(PAST):
        rows[i][i] = rows[i][i] + ridge[i]
    for k in range(PAST):
        for i in range(k + 1, PAST):
            share = rows[i][k] / rows[k][k]
            rows[i] = [a - share * b for a, b in zip(rows[i], rows[k])]
            theta[i] = theta[i] - share * theta[k]
    for k in reversed(range(PAST)):
        theta[k] = (theta[k] - sum(rows[k][j] * theta[j] for j in range(k + 1, PAST))) / rows[k][k]
    found = jnp.stack(theta)
    return jnp.where(jnp.isfinite(found), found, 0.0)
