"""Log-likelihoods of choices and their gradients for many chains at once, in JAX, with the plans they take.

    log L = Σ k(s, a) log π(a|s),      π = (1 − lapse) softmax(c q) + lapse / |A(s)|
    g = ∂ log L/∂q,    w = (I − γ P_π)⁻ᵀ γ Pᵀ g,    ∂ log L/∂ρ = g + w π          (the adjoint: `planning.warm_start`)

Arrays have the chain last: policies [S, A, M, C]. Neighbouring threads then read neighbouring numbers, and a matrix of
8 × 8 for each of M · C tasks is inverted by four passes over all of them, where a library's solver would take each
apart from the others. The adjoint is one product with the inverse that the plan has left. Large environments are for
`neighbours`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from manymotives.inference.many_chains import neighbours
from manymotives.inference.many_chains.families import natural
from manymotives.inference.many_chains.layout import Data, StaticLayout
from manymotives.models.likelihood import LARGEST_LOG_C, LARGEST_LOGIT, SMALLEST_LOG_C
from manymotives.models.rewards import NORMALISED
from manymotives.models.target import FIXED
from manymotives.planning.problem import rounding

LIMIT = 200  # policy iterations; started from a plan nearby they are two or three
UNROLLED = 16  # sums of at most so many terms are written out, so that they melt into what surrounds them


def choices(layout: StaticLayout, data: Data, u: Any, start: Any) -> tuple[Any, Any, Any]:
    """Log-likelihoods [M, C], their gradients in u [D, M, C], and what plans nearby start from [S, M, C].

    That is best actions; values where the environment is large.
    """
    rewards, rewards_to_u = jax.vjp(lambda x: _rewards(layout, data, x), u[: layout.num_rewards])
    temperature, discount = _temperature_and_discount(layout, data, u)
    plan = (_plan_of_many if layout.is_large else _plan)(layout, data, rewards, temperature, discount, start)
    likelihood, excess, below, lapse_gradient = _likelihood(layout, data, u, plan.q, temperature)

    # q → v → rewards → u
    q_gradient = temperature[None, None] * excess
    value_adjoint, found = _adjoint(layout, data, plan, discount, q_gradient)
    q_gradient = q_gradient + value_adjoint[:, None] * plan.policy
    gradient = [rewards_to_u(q_gradient if layout.on_pairs else q_gradient.sum(axis=1, keepdims=True))[0]]
    if discount is not None:
        later = jnp.where(data.allowed[:, :, None, None], plan.q - rewards, 0.0)
        inside = jnp.abs(u[layout.discount]) < LARGEST_LOGIT
        gradient.append(jnp.where(inside, (1.0 - discount) * (q_gradient * later).sum(axis=(0, 1)), 0.0)[None])
    if layout.temperature != FIXED:
        by_temperature = (excess * below).sum(axis=(0, 1))
        if layout.is_soft:
            exists = data.allowed[:, :, None, None]
            expected = (plan.policy * jnp.where(exists, plan.q, 0.0)).sum(axis=1)
            by_temperature = by_temperature + (value_adjoint * (expected - plan.value)).sum(axis=0) / temperature
        inside = (u[layout.temperature] > SMALLEST_LOG_C) & (u[layout.temperature] < LARGEST_LOG_C)
        gradient.append(jnp.where(inside, by_temperature * temperature, 0.0)[None])
    likelihood = jnp.where(plan.solved & found & (likelihood <= 0.0), likelihood, -jnp.inf)
    return likelihood, jnp.concatenate(gradient + lapse_gradient), plan.start


def action_values(layout: StaticLayout, data: Data, u: Any, start: Any) -> Any:
    """q [S, A, M, C] of the same plans."""
    rewards = _rewards(layout, data, u[: layout.num_rewards])
    temperature, discount = _temperature_and_discount(layout, data, u)
    return (_plan_of_many if layout.is_large else _plan)(layout, data, rewards, temperature, discount, start).q


def _temperature_and_discount(layout: StaticLayout, data: Data, u: Any) -> tuple[Any, Any]:
    """c [M, C], and γ [M, C] where it is inferred; else None: it is in the transitions."""
    temperature = jnp.broadcast_to(data.temperature[:, None], u.shape[1:])
    if layout.temperature != FIXED:
        temperature = jnp.exp(jnp.clip(u[layout.temperature], SMALLEST_LOG_C, LARGEST_LOG_C))
    if layout.discount == FIXED:
        return temperature, None
    return temperature, jax.nn.sigmoid(jnp.clip(u[layout.discount], -LARGEST_LOGIT, LARGEST_LOGIT))


def _likelihood(layout: StaticLayout, data: Data, u: Any, q: Any, temperature: Any) -> tuple[Any, Any, Any, list[Any]]:
    """log L [M, C], its derivatives in c q [S, A, M, C], q − max q; its derivative in the u of lapse rates, if any."""
    exists, counts = data.allowed[:, :, None, None], data.counts[..., None]
    below = jnp.where(exists, q - q.max(axis=1, keepdims=True), 0.0)
    above = temperature[None, None] * below
    weights = jnp.where(exists, jnp.exp(above), 0.0)
    weight = weights.sum(axis=1, keepdims=True)
    share = weights / weight
    lapse_gradient = []
    if layout.has_lapse:
        lapse = jnp.broadcast_to(data.lapse[:, None], u.shape[1:])
        if layout.lapse != FIXED:
            lapse = jax.nn.sigmoid(u[layout.lapse])
        rate = lapse[None, None]
        blind = (1.0 / data.allowed.sum(axis=1))[:, None, None, None]
        probability = jnp.minimum((1.0 - rate) * share + rate * blind, 1.0)  # not above it by rounding
        careful = rate > 0.0
        log_probability = jnp.where(careful, jnp.log(probability), above - jnp.log(weight))
        likelihood = jnp.where(counts > 0.0, counts * log_probability, 0.0).sum(axis=(0, 1))
        safe = jnp.where(probability > 0.0, probability, 1.0)
        meant = counts * jnp.where(careful, (1.0 - rate) * share / safe, 1.0)
        if layout.lapse != FIXED:
            by_lapse = (counts * (blind - share) / safe).sum(axis=(0, 1))
            lapse_gradient = [(by_lapse * lapse * (1.0 - lapse))[None]]
    else:
        likelihood = jnp.where(counts > 0.0, counts * (above - jnp.log(weight)), 0.0).sum(axis=(0, 1))
        meant = jnp.broadcast_to(counts, q.shape)
    excess = jnp.where(exists, meant - share * meant.sum(axis=1, keepdims=True), 0.0)
    return likelihood, excess, below, lapse_gradient


class Plan(NamedTuple):
    q: Any  # [S, A, M, C]; −inf where an action does not exist
    value: Any  # [S, M, C]
    policy: Any  # [S, A, M, C] that the values belong to
    inverse: Any  # [S, S, M, C] of I − γ P_π; of a large environment, none
    start: Any  # [S, M, C] actions, or values, that the next plan starts from
    solved: Any  # [M, C]


def _plan(layout: StaticLayout, data: Data, rewards: Any, temperature: Any, discount: Any, actions: Any) -> Plan:
    """Policy iteration for all tasks of all chains, until none improves; Newton's steps where plans are soft."""
    exists = data.allowed[:, :, None, None]
    epsilon = float(np.finfo(rewards.dtype).eps)
    largest = jnp.abs(rewards).max(axis=(0, 1))
    c = temperature[None, None]

    def evaluate(policy: Any) -> tuple[Any, Any, Any]:
        inverse = _inverse(data.transitions, _discounted(discount, policy))
        gain = (policy * rewards).sum(axis=1)
        if layout.is_soft:
            gain = gain - jax.scipy.special.xlogy(policy, policy).sum(axis=1) / temperature[None]
        value = _sum(lambda t: inverse[:, t] * gain[t][None], layout.num_states)
        later = _discounted(discount, _departures(data.transitions, value))
        return inverse, value, jnp.where(exists, rewards + later, -jnp.inf)

    def policy_of(actions: Any) -> Any:
        return jax.nn.one_hot(actions, layout.num_actions, axis=1, dtype=rewards.dtype)

    def slack_of(value: Any) -> Any:
        return rounding(jnp.abs(value).max(axis=0) + largest, layout.num_states, epsilon)

    def step(loop: tuple[Any, ...]) -> tuple[Any, ...]:
        _, _, _, policy, actions, before, _, solves = loop
        inverse, value, q = evaluate(policy)
        slack, best = slack_of(value), q.max(axis=1)
        greedy = q.argmax(axis=1).astype(actions.dtype)
        if layout.is_soft:
            above = jnp.where(exists, c * (q - best[:, None]), -jnp.inf)
            weight = jnp.exp(above).sum(axis=1)
            residual = jnp.abs(best + jnp.log(weight) / temperature[None] - value).max(axis=0)
            again = (residual > slack) & ((solves < 20) | (residual < before / 2))
            new = jnp.exp(above) / weight[:, None]
            return inverse, value, q, new, greedy, residual, again, solves + 1
        taken = jnp.where(policy > 0, q, 0.0).sum(axis=1)
        better = best > taken + slack[None]  # ties keep the action taken
        actions = jnp.where(better, greedy, actions)
        return inverse, value, q, policy_of(actions), actions, before, better.any(axis=0), solves + 1

    def unsettled(loop: tuple[Any, ...]) -> Any:
        return loop[6].any() & (loop[7] < LIMIT)

    policy = policy_of(actions)
    if layout.is_soft:  # from the soft policy of the values of the actions that were best nearby
        first = _inverse(data.transitions, _discounted(discount, policy))
        gain = (policy * rewards).sum(axis=1)
        value = _sum(lambda t: first[:, t] * gain[t][None], layout.num_states)
        q = jnp.where(exists, rewards + _discounted(discount, _departures(data.transitions, value)), -jnp.inf)
        policy = jax.nn.softmax(c * jnp.where(exists, q, -jnp.inf), axis=1)
    infinite = jnp.full(temperature.shape, jnp.inf, rewards.dtype)
    size = (layout.num_states, layout.num_states, *temperature.shape)
    empty = (jnp.zeros(size, rewards.dtype), jnp.zeros(size[1:], rewards.dtype), jnp.zeros_like(policy))
    begin = (*empty, policy, actions, infinite, infinite > 0, jnp.zeros((), jnp.int32))
    inverse, value, q, policy, actions, _, again, _ = lax.while_loop(unsettled, step, begin)
    if layout.is_soft:  # a residual that cannot be seen may hide an error of the policy as large as its root
        inverse = _inverse(data.transitions, _discounted(discount, policy))
    return Plan(q, value, policy, inverse, actions, ~again)


def _plan_of_many(layout: StaticLayout, data: Data, rewards: Any, temperature: Any, discount: Any, value: Any) -> Plan:
    """The same in a large environment, from values nearby."""
    exists, c = data.allowed[:, :, None, None], temperature[None, None]

    def action_values(value: Any) -> Any:
        later = _discounted(discount, neighbours.departures(data.transitions, value))
        return jnp.where(exists, rewards + later, -jnp.inf)

    def improve(value: Any) -> tuple[Any, Any]:
        q = action_values(value)
        best = q.max(axis=1)
        if not layout.is_soft:
            return jax.nn.one_hot(q.argmax(axis=1), layout.num_actions, axis=1, dtype=q.dtype), best
        weights = jnp.where(exists, jnp.exp(c * jnp.where(exists, q - best[:, None], 0.0)), 0.0)
        weight = weights.sum(axis=1)
        return weights / weight[:, None], best + jnp.log(weight) / temperature[None]

    value, solved = neighbours.plan(lambda value: improve(value)[1], value)
    return Plan(action_values(value), value, improve(value)[0], None, value, solved)


def _adjoint(layout: StaticLayout, data: Data, plan: Plan, discount: Any, q_gradient: Any) -> tuple[Any, Any]:
    """w [S, M, C], and whether it was found."""
    if layout.is_large:
        arrived = _discounted(discount, neighbours.arrivals(data.transitions, q_gradient))
        return neighbours.adjoint(data.transitions, _discounted(discount, plan.policy), arrived)
    arrived = _discounted(discount, _arrivals(data.transitions, q_gradient))
    return _sum(lambda t: plan.inverse[t] * arrived[t][None], layout.num_states), True


def _discounted(discount: Any, values: Any) -> Any:
    """Values [..., M, C] times the discount of each task of each chain, where it is not in the transitions."""
    return values if discount is None else discount[(None,) * (values.ndim - 2)] * values


def _inverse(transitions: Any, policy: Any) -> Any:
    """(I − γ P_π)⁻¹ [S, S, M, C] by elimination in place; pivots of such a matrix need no looking for."""
    size, num_actions, _ = transitions.shape
    if num_actions <= UNROLLED:
        moves = sum(transitions[:, a, :, None, None] * policy[:, a][:, None] for a in range(num_actions))
    else:
        moves = jnp.einsum("samc,sat->stmc", policy, transitions)
    matrix = jnp.eye(size, dtype=policy.dtype)[:, :, None, None] - moves
    if size <= UNROLLED:
        for k in range(0, size - 1, 2):
            matrix = _eliminated(matrix, k, 2)
    else:
        matrix = lax.fori_loop(0, size // 2, lambda pair, matrix: _eliminated(matrix, 2 * pair, 2), matrix)
    return _eliminated(matrix, size - 1, 1) if size % 2 else matrix


def _eliminated(matrix: Any, k: Any, width: int) -> Any:
    """One pass of an inversion in place, with the rows and columns from k: two at once halve how often all is read."""
    along, across = (lax.dynamic_slice_in_dim(matrix, k, width, axis) for axis in (0, 1))
    pivot = lax.dynamic_slice_in_dim(along, k, width, 1)  # [width, width, M, C]
    number = jnp.arange(len(matrix)) - k
    is_own = ((number >= 0) & (number < width))[None, :, None, None]
    unit = (number[None] == jnp.arange(width)[:, None])[:, :, None, None]
    along = jnp.where(is_own, unit, along)
    if width == 1:
        along = along / pivot
    else:
        (a, b), (c, d) = pivot[:, :, None]
        along = jnp.stack([d * along[0] - b * along[1], a * along[1] - c * along[0]]) / (a * d - b * c)[None]
    along = lax.optimization_barrier(along)  # divided once, not wherever it is read
    new = jnp.where(is_own, 0.0, matrix)
    for j in range(width):
        new = new - across[:, j][:, None] * along[j][None]
    for j in range(width):
        new = jnp.where((number == j)[:, None, None, None], along[j][None], new)
    return new


def _departures(transitions: Any, value: Any) -> Any:
    """Σ_t γ P(t|s, a) v(t) [S, A, M, C]."""
    size = transitions.shape[0]
    if size <= UNROLLED:
        return sum(transitions[:, :, t, None, None] * value[t][None, None] for t in range(size))
    return jnp.einsum("sat,tmc->samc", transitions, value)


def _arrivals(transitions: Any, q_gradient: Any) -> Any:
    """Σ_{s,a} γ P(t|s, a) g(s, a) [S, M, C]."""
    return jnp.einsum("sat,samc->tmc", transitions, q_gradient)


def _sum(term: Any, count: int) -> Any:
    """Σ_t term(t)."""
    if count <= UNROLLED:
        return sum(term(t) for t in range(1, count)) + term(0)
    first = term(jnp.array(0))
    return lax.fori_loop(1, count, lambda t, total: total + term(t), first)


def _rewards(layout: StaticLayout, data: Data, u: Any) -> Any:
    """[S, 1 or A, M, C] from the first coordinates [K, M, C]."""
    if layout.link == NORMALISED:
        x = jax.nn.softmax(u, axis=0)
    else:
        parts = [natural(r.family, u[r.begin : r.end]) for r in layout.runs if r.end <= layout.num_rewards]
        x = jnp.concatenate(parts)
    per_state = layout.num_actions if layout.on_pairs else 1
    size = layout.num_states * per_state
    if layout.has_features:
        table = jnp.einsum("ik,kmc->imc", data.features, x)
    elif layout.reward_index == tuple(range(size)):
        table = x
    else:
        table = jnp.zeros((size, *u.shape[1:]), u.dtype).at[np.array(layout.reward_index)].set(x)
    return table.reshape(layout.num_states, per_state, *u.shape[1:])
