"""Planning for large environments, one reward at a time: cost and memory follow the non-zero transitions.

Gauss–Seidel sweeps, forwards and backwards, propagate distant rewards across the states. Policy iteration
then makes the plan exact: policies on the way are evaluated roughly, by a few BiCGStab steps; the last ones exactly,
by a sparse factorisation where the environment's graph is narrow enough for its factors to stay small (grids, chains,
trees), by BiCGStab to the end where it is not (there, states mix fast). No S × S array is ever made.

Many rewards in an environment whose factors are small: compiled Newton steps (`factors`).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from scipy.sparse.csgraph import reverse_cuthill_mckee

from manymotives.data.environment import Environment
from manymotives.planning.blocks import EPSILON, FORBIDDEN
from manymotives.planning.compiled import in_parallel
from manymotives.planning.kernels import sparse_sweep
from manymotives.planning.problem import LIMIT, Solution, allowed_actions, cores, rounding
from manymotives.planning.warm_start import World, empty_plans, planners_of, world_of

FIRST_SWEEPS = 20  # before the first policy is evaluated
MORE_SWEEPS = 100  # at a time, where rough evaluation fails …
LAST_SWEEP = 420  # … up to so many, unless the discount makes sweeping hopeless
ROUGH = 0.1  # how far a rough evaluation reduces the residual …
ROUGH_STEPS = 60  # … within so many steps, or it has failed
ROUGH_EVALUATIONS = 50  # of soft policies: where these do not settle, they never do (inexact Newton steps may cycle)
FACTOR_ENTRIES = 2e8  # states × bandwidth, a bound on the entries of the factors (in practice a tenth of it)
KRYLOV_STEPS = 1000
MANY = 8  # rewards, from which on compiled steps are worth their preparation
TOGETHER = 64  # rewards planned for one after the other
THREADED = 2_000  # states: plans for fewer spend their time in Python, which threads would only fight over


@dataclass(frozen=True, eq=False)
class _Graph:
    """What all rewards of one environment share."""

    transitions: sp.csr_array  # [S·A, S], multiplied by the discount
    discount: float
    allowed: np.ndarray  # [S, A]
    is_narrow: bool


def plan_sparse(
    environment: Environment,
    rewards: np.ndarray,  # [B, S, 1 or A]
    temperatures: np.ndarray | None,  # [B]
    start: np.ndarray | None,  # [B, S]
    discounts: np.ndarray | None = None,  # [B] instead of the environment's
) -> Solution:
    """Plans of rewards in one large environment."""
    graph = _graph_of(environment)
    num_rewards = len(rewards)
    q = np.empty((num_rewards, *graph.allowed.shape))
    value = np.empty((num_rewards, environment.num_states))
    residual = np.empty(num_rewards)
    solves = np.empty(num_rewards, dtype=np.int64)

    def work(b: int) -> None:
        on_pairs = np.where(graph.allowed, rewards[b], FORBIDDEN)
        temperature = None if temperatures is None else float(temperatures[b])
        first = None if start is None else start[b]
        own = graph if discounts is None else _rediscounted(graph, environment, float(discounts[b]))
        q[b], value[b], residual[b], solves[b] = _plan_one(own, on_pairs, temperature, first)
        q[b][~graph.allowed] = -np.inf

    world = _world_of(environment, discounts is not None) if num_rewards >= MANY and start is None else None
    residual[:] = np.inf
    if world is not None:
        _plan_many(world, rewards, temperatures, discounts, q, value, residual, solves)
    left = np.flatnonzero(~np.isfinite(residual)).tolist()
    if len(left) < 2 or environment.num_states < THREADED:
        for b in left:
            work(b)
    else:
        with ThreadPoolExecutor(cores()) as pool:
            list(pool.map(work, left))
    longest = int(np.diff(graph.transitions.indptr).max())
    slack = rounding(np.abs(value).max(axis=1), longest, EPSILON)
    actions = (q >= (q.max(axis=2) - slack[:, None])[..., None]).argmax(axis=2)
    return Solution(q, value, actions, residual, solves)


def _plan_many(
    world: World,
    rewards: np.ndarray,
    temperatures: np.ndarray | None,
    discounts: np.ndarray | None,
    q: np.ndarray,
    value: np.ndarray,
    residual: np.ndarray,
    solves: np.ndarray,
) -> None:
    """Fill q, value, residual (inf where it failed) and solves by `factors`."""
    plan_again, _ = planners_of(world)

    def work(begin: int, end: int) -> None:
        for first in range(begin, end, TOGETHER):  # the same groups however many threads there are: the same rounding
            plans = empty_plans(world, 1, rewards.shape[2])
            for b in range(first, min(first + TOGETHER, end)):  # each from the values and factors of the one before
                plans.rewards[0] = rewards[b]
                if temperatures is not None:
                    plans.temperature[0] = temperatures[b]
                if discounts is not None:
                    plans.ratio[0] = discounts[b]
                plan_again(world, plans, temperatures is not None, 1)
                q[b], value[b], residual[b], solves[b] = plans.q[0], plans.value[0], plans.residual[0], plans.solves[0]

    in_parallel(work, len(rewards), cost=20 * len(world.elimination.indices), block=TOGETHER)


def evaluate_sparse(
    environment: Environment, policies: np.ndarray, rewards: np.ndarray, discounts: np.ndarray | None = None
) -> np.ndarray:
    """V^π [B, S] of policies [B, S, A] for rewards [B, S, 1 or A]; with discounts [B], or the environment's."""
    shared = _graph_of(environment)
    value = np.empty(policies.shape[:2])
    for b, (policy, reward) in enumerate(zip(policies, rewards)):
        graph = shared if discounts is None else _rediscounted(shared, environment, float(discounts[b]))
        gain = (policy * reward).sum(axis=1)
        value[b] = _exactly(graph, _system(graph, policy, policy.argmax(axis=1)), gain, np.zeros(len(gain)))
    return value


def _plan_one(
    graph: _Graph, rewards: np.ndarray, temperature: float | None, start: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, float, int]:
    """Policy iteration for one reward [S, A]: q, value, Bellman residual, number of linear solves."""
    transitions = graph.transitions
    everywhere = np.arange(len(rewards))
    longest = int(np.diff(transitions.indptr).max())
    sweeps = 0

    def sweep(times: int) -> None:
        nonlocal sweeps
        arrays = (transitions.indptr, transitions.indices, transitions.data, 1.0, rewards)
        for _ in range(times):
            sparse_sweep(*arrays, temperature or 0.0, value, sweeps % 2 == 0)
            sweeps += 1

    def improved(value: np.ndarray, actions: np.ndarray | None) -> tuple[Any, ...]:
        """q, one-step value, and a policy no worse: its actions, its probabilities (None: those actions), its gain."""
        q = rewards + (transitions @ value).reshape(rewards.shape)
        if temperature is not None:
            best = q.argmax(axis=1)
            largest = q[everywhere, best]
            with np.errstate(over="ignore"):  # of what does not exist, or is never done at this temperature
                policy = np.exp(temperature * (q - largest[:, None]))  # never above 1, whatever rounding does
            total = policy.sum(axis=1)
            policy /= total[:, None]
            one_step = largest + np.log(total) / temperature
            # r_π + H(π)/c = V_soft − γ P_π v, without the cancelling of large numbers in the entropy's two parts
            return q, one_step, best, policy, one_step - (policy * (q - rewards)).sum(axis=1)
        one_step, best = _best(q)
        if actions is not None:  # ties keep the action taken, so that equal actions cannot take turns
            slack = rounding(np.abs(value).max(), longest, EPSILON)
            best = np.where(one_step > q[everywhere, actions] + slack, best, actions)
        return q, one_step, best, None, rewards[everywhere, best]

    value = rewards.max(axis=1)
    if graph.discount == 0:  # nothing is to come
        q, one_step = improved(value, None)[:2]
        return q, one_step, 0.0, 1
    if start is None:
        sweep(FIRST_SWEEPS)
        actions, policy, gain = improved(value, None)[2:]
    else:
        actions, policy, gain = start, None, rewards[everywhere, start]
    may_sweep = start is None and 2 / (1 - graph.discount) < LAST_SWEEP
    limit = LIMIT + len(rewards)  # a policy may have to turn round state by state
    exact, solves = start is not None, 0
    while True:
        system = _system(graph, policy, actions)
        guess = None if exact else _roughly(system, gain, value)
        if guess is not None:
            value = guess
        elif exact or not (may_sweep and sweeps < LAST_SWEEP):
            value, exact = _exactly(graph, system, gain, value), True
        else:
            sweep(MORE_SWEEPS)
        solves += 1
        q, one_step, better, policy, gain = improved(value, actions if guess is not None or exact else None)
        gap = float(np.abs(one_step - value).max())
        slack = rounding(np.abs(value).max(), longest, EPSILON)
        settled = gap <= slack if temperature is not None else bool((better == actions).all())
        actions = better
        if (exact and settled) or solves == limit:
            return q, one_step, gap, solves
        # what looks settled by rough values is looked at exactly; so is all that follows
        exact = exact or settled or gap <= slack or (temperature is not None and solves >= ROUGH_EVALUATIONS)


def _best(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """max_a q(s, a) and where; column by column, since NumPy's reductions over a short axis are slow."""
    best, action = q[:, 0].copy(), np.zeros(len(q), dtype=np.int64)
    for a in range(1, q.shape[1]):
        better = q[:, a] > best
        best[better] = q[better, a]
        action[better] = a
    return best, action


def systems_of(
    environment: Environment, policies: np.ndarray, discounts: np.ndarray | None = None
) -> Iterator[sp.csr_array]:
    """I − γ P_π for each policy [B, S, A], sparse; with discounts [B], or the environment's."""
    shared = _graph_of(environment)
    for b, policy in enumerate(policies):
        graph = shared if discounts is None else _rediscounted(shared, environment, float(discounts[b]))
        yield _system(graph, policy, policy.argmax(axis=1))


def _system(graph: _Graph, policy: np.ndarray | None, actions: np.ndarray) -> sp.csr_array:
    """I − γ P_π, for a policy that is stochastic or takes these actions."""
    num_states, num_actions = graph.allowed.shape
    if policy is None:
        return sp.eye_array(num_states, format="csr") - graph.transitions[np.arange(num_states) * num_actions + actions]
    pairs = np.arange(num_states * num_actions)
    choose = sp.csr_array((policy.ravel(), (pairs // num_actions, pairs)), shape=(num_states, pairs.size))
    choose.eliminate_zeros()
    return sp.eye_array(num_states, format="csr") - choose @ graph.transitions


def _roughly(system: sp.csr_array, gain: np.ndarray, value: np.ndarray) -> np.ndarray | None:
    """V^π with a residual a tenth of what `value` has; None where a few Krylov steps do not get there."""
    step, failure = spl.bicgstab(system, gain - system @ value, rtol=ROUGH, atol=0.0, maxiter=ROUGH_STEPS)
    return None if failure else value + step


def _exactly(graph: _Graph, system: sp.csr_array, gain: np.ndarray, value: np.ndarray) -> np.ndarray:
    """V^π to rounding, as far as the method allows."""
    if graph.is_narrow:
        # diagonally dominant by rows: no pivoting needed, and the ordering may care for fill alone
        factors = spl.splu(system.tocsc(), diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        value = factors.solve(gain)
        return value + factors.solve(gain - system @ value)
    for _ in range(4):  # restarts on the residual: each wins back the digits that rounding took
        rest = gain - system @ value
        if np.abs(rest).max() <= 16 * EPSILON * np.abs(value).max():
            break
        step, _ = spl.bicgstab(system, rest, rtol=1e-10, atol=0.0, maxiter=KRYLOV_STEPS)
        value = value + step
    return value


_known: WeakKeyDictionary[Environment, _Graph] = WeakKeyDictionary()  # environments never change
_worlds: WeakKeyDictionary[Environment, dict[bool, World | None]] = WeakKeyDictionary()


def _graph_of(environment: Environment) -> _Graph:
    """What all rewards of one environment share, worked out once."""
    graph = _known.get(environment)
    if graph is None:
        graph = _known[environment] = _new_graph(environment)
    return graph


def _world_of(environment: Environment, own_discounts: bool) -> World | None:
    """The environment for compiled Newton steps, made once; None where factors are not worth it."""
    made = _worlds.setdefault(environment, {})
    if own_discounts not in made:
        world = world_of(environment, rewards=TOGETHER, by_inverses=False, own_discounts=own_discounts)
        made[own_discounts] = world if world.by_factors else None
    return made[own_discounts]


def _rediscounted(graph: _Graph, environment: Environment, discount: float) -> _Graph:
    """The same with another discount than the environment's."""
    return replace(graph, transitions=sp.csr_array(discount * environment.matrix), discount=discount)


def _new_graph(environment: Environment) -> _Graph:
    transitions = sp.csr_array(environment.discount * environment.matrix)
    num_states, num_actions = environment.num_states, environment.num_actions
    entries = transitions.tocoo()
    links = sp.csr_matrix(
        (np.ones(entries.nnz, dtype=np.int8), (entries.row // num_actions, entries.col)),
        shape=(num_states, num_states),
    )
    links = (links + links.T).tocsr()
    order = reverse_cuthill_mckee(links, symmetric_mode=True)
    position = np.empty(num_states, dtype=np.int64)
    position[order] = np.arange(num_states)
    ends = links.tocoo()
    bandwidth = int(np.abs(position[ends.row] - position[ends.col]).max(initial=0))
    return _Graph(
        transitions=transitions,
        discount=environment.discount,
        allowed=allowed_actions(environment),
        is_narrow=num_states * bandwidth <= FACTOR_ENTRIES,
    )
