"""Planning inside compiled samplers, started from the plan before, and its adjoint:

    v = max_a q (or log Σ exp(c q) / c),   q = r + T v;        w = Tᵀ g + T_πᵀ w,   ∂f/∂r = g + w π   for g = ∂f/∂q

A sampler changes rewards a little at a time. Small environments: whole batches by `kernels.plan_batch`, started from
the policies that were optimal before. Larger ones: one reward after the other, with the inverse of I − T_π (`updates`:
greedy plans of few rewards) or with sparse LU factors and values (`factors`; `factor_lanes` for several rewards at
once). Where factors would be too large: Gauss–Seidel sweeps over the non-zero transitions, started from the values
before.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from manymotives.by_reference import by_reference
from manymotives.data.environment import Environment
from manymotives.jit import inner
from manymotives.planning.compiled import suits
from manymotives.planning.elimination import Elimination, elimination_of, no_elimination, operations
from manymotives.planning.factor_lanes import FEWEST, LANES, LARGEST_DISCOUNT
from manymotives.planning.finite_horizon_kernels import adjoint_ahead, plan_again_ahead
from manymotives.planning.function_pointers import address_of, call
from manymotives.planning.kernels import plan_batch
from manymotives.planning.planners import (
    adjoint_all_by_factors,
    adjoint_all_by_sweeps,
    adjoint_all_by_updates,
    adjoint_batches,
    batch_arguments,
    plan_all_by_factors,
    plan_all_by_sweeps,
    plan_all_by_updates,
    plan_batches,
)
from manymotives.planning.problem import allowed_actions
from manymotives.planning.simd import WIDTH

UPDATED = (12, 512)  # states for which plans are updated, …
FEW = 4  # … where the alternative is a batch: more fill its lanes; …
LARGEST_INVERSES = 4_000_000  # … where it is sweeps: as long as inverses have no more numbers than this
FACTORED = 12  # states from which on plans may be made by sparse factors
LARGEST_FACTORS = 100_000_000  # bytes that factors of all rewards may take; beyond, rewards share them in turn


@by_reference
class World(NamedTuple):
    """An environment as the loops below read it; transitions are already times γ.

    Where rewards have discounts of their own (`Plans.ratio`), they are as they are, and `discount` is 1.
    """

    transitions: np.ndarray  # [S·A, S]; empty where the environment is large
    indptr: np.ndarray  # the same, sparse
    indices: np.ndarray
    probabilities: np.ndarray
    forbidden: np.ndarray  # [S·A]
    num_states: int
    num_actions: int
    discount: float
    planner: int  # the address of what fills plans (`planners`)
    adjoint_solver: int  # the address of its adjoint
    batch_planner: int  # the address of `kernels.plan_batch`, where plans are made in batches
    by_updates: bool
    by_factors: bool
    elimination: Elimination  # read where plans are made by factors
    depth: int  # how many steps ahead agents look (`finite_horizon_kernels`); 0: for ever
    is_soft: bool  # whether they foresee their errors; read where they look some steps ahead only


@by_reference
class Plans(NamedTuple):
    """Plans of N rewards; N is a multiple of the kernels' WIDTH."""

    rewards: np.ndarray  # [N, S, 1 or A]
    temperature: np.ndarray  # [N], read where planning is soft
    ratio: np.ndarray  # [N] the discount of each reward, over that of the world
    q: np.ndarray  # [N, S, A]
    value: np.ndarray  # [N, S]
    actions: np.ndarray  # [N, S]
    residual: np.ndarray  # [N]
    solves: np.ndarray  # [N]
    inverse: np.ndarray  # [N, S, S] of I − T_π, where plans are updated
    taken: np.ndarray  # [N, S] the π it belongs to
    age: np.ndarray  # [N] changes since it was made; −1: never
    factors: np.ndarray  # [slots, E] of I − T_π for some π, where plans are made by factors
    holder: np.ndarray  # [slots] the reward whose factors they are; −1: none
    lane_factors: np.ndarray  # [slots, E, LANES] float32: of LANES rewards at once
    lane_holder: np.ndarray  # [slots] the first of them; −1: none
    layers: np.ndarray  # [N, n, S] values with 0, …, n − 1 steps left, where agents look n steps ahead
    further: np.ndarray  # [N, 2] gradients in the discount and in c by way of these


def world_of(
    environment: Environment,
    rewards: int = 0,
    is_soft: bool = False,
    *,
    by_inverses: bool = True,
    own_discounts: bool = False,
    depth: int = 0,
) -> World:
    """An environment for `plan_again`; arrays of its own, so that threads do not share their reference counts.

    `rewards`: how many are planned for again and again, so that inverses or factors are worth keeping. 0: none are.
    `by_inverses`: whether each is much like the one before, so that inverses of greedy plans can be updated.
    `own_discounts`: whether each has its own, so that none is in the transitions.
    `depth`: how many steps ahead agents look; 0: for ever.
    """
    discount = 1.0 if own_discounts else float(environment.discount)
    by_inverses = by_inverses and not own_discounts  # an inverse is of one discount
    size = environment.num_states
    most = FEW if suits(environment) else LARGEST_INVERSES // size**2
    by_inverses, rewards = by_inverses and depth == 0, rewards if depth == 0 else 0
    by_updates = by_inverses and not is_soft and UPDATED[0] <= size <= UPDATED[1] and 0 < rewards <= most
    elimination = no_elimination()
    if not by_updates and rewards > 0 and (is_soft or not suits(environment)):
        elimination = _worthwhile_elimination(environment, rewards, is_soft)
    matrix = environment.matrix
    is_dense = depth == 0 and suits(environment)
    dense = environment.tensor.reshape(-1, environment.num_states) if is_dense else np.empty((0, 0))
    world = World(
        transitions=np.array(discount * dense, order="C"),
        indptr=matrix.indptr.astype(np.int64),
        indices=matrix.indices.astype(np.int64),
        probabilities=discount * matrix.data,
        forbidden=~allowed_actions(environment).ravel(),
        num_states=environment.num_states,
        num_actions=environment.num_actions,
        discount=discount,
        planner=0,
        adjoint_solver=0,
        batch_planner=0,
        by_updates=by_updates,
        by_factors=elimination.order.size > 0,
        elimination=elimination,
        depth=depth,
        is_soft=is_soft,
    )
    return with_planner(world)


def with_planner(world: World) -> World:
    """The same with the addresses of the functions that plan in it, which are compiled here, if need be."""
    plans = empty_plans(world, WIDTH, 1)
    planner, adjoint_solver = planners_of(world)
    if planner is plan_batches:
        world = world._replace(batch_planner=address_of(plan_batch, *batch_arguments(world, plans)))
    return world._replace(
        planner=address_of(planner, world, plans, False, 1),
        adjoint_solver=address_of(adjoint_solver, world, plans, plans.q, plans.q, plans.value, 1),
    )


def planners_of(world: World) -> tuple[Callable[..., None], Callable[..., None]]:
    """What fills plans in this world, as `plan_again`, and the adjoint that belongs to it."""
    if world.depth > 0:
        return plan_again_ahead, adjoint_ahead
    if world.by_updates:
        return plan_all_by_updates, adjoint_all_by_updates
    if world.by_factors:
        return plan_all_by_factors, adjoint_all_by_factors
    if world.transitions.size > 0:
        return plan_batches, adjoint_batches
    return plan_all_by_sweeps, adjoint_all_by_sweeps


def _worthwhile_elimination(environment: Environment, rewards: int, is_soft: bool) -> Elimination:
    """The order of elimination where factors are quicker than the alternative, by the count of operations; or none."""
    size, pairs = environment.num_states, environment.num_states * environment.num_actions
    if size < FACTORED:
        return no_elimination()
    elimination = elimination_of(environment)
    factorising, solving = operations(elimination)
    if solving == 0:  # factors would be too large
        return elimination
    transitions = environment.matrix.nnz
    step = solving + transitions + 10 * pairs  # with a backup and exponentials, each worth ten operations
    if suits(environment):  # four eliminations; operations on WIDTH numbers take two or three times as long
        cost = rewards * (2 * factorising + 6 * step)
        instead = 2.5 * -(-rewards // WIDTH) * 4 * (size**3 / 3 + 5 * pairs * size)
    else:  # sweeps, whose operations take 1.6 times as long: with it, measured ratios of times are met within a third
        cost = min(factorising, 20 * step) + 6 * step if is_soft else 2 * factorising + 6 * step
        instead = 16 / (1 - environment.discount) * (transitions + 10 * pairs)
    return elimination if cost < instead else no_elimination()


def empty_plans(world: World, count: int, per_state: int) -> Plans:
    """Plans of so many rewards, none of which is made yet."""
    size, actions = world.num_states, world.num_actions
    kept = count if world.by_updates else 0
    slots, lane_slots = _slots(world, count)
    entries = len(world.elimination.indices)
    return Plans(
        np.zeros((count, size, per_state)),
        np.ones(count),
        np.ones(count),
        np.zeros((count, size, actions)),
        np.zeros((count, size)),
        np.zeros((count, size), dtype=np.int64),
        np.zeros(count),
        np.zeros(count, dtype=np.int64),
        np.zeros((kept, size, size)),
        np.zeros((kept, size), dtype=np.int64),
        np.full(kept, -1, dtype=np.int64),
        np.empty((slots, entries)),  # empty, so that what is never written takes no memory
        np.full(slots, -1, dtype=np.int64),
        np.empty((lane_slots, entries, LANES), dtype=np.float32),
        np.full(lane_slots, -1, dtype=np.int64),
        np.zeros((count if world.depth > 0 else 0, world.depth, size)),
        np.zeros((count, 2)),
    )


def _slots(world: World, count: int) -> tuple[int, int]:
    """How many sets of factors are kept for one reward each, and for LANES of them."""
    if not world.by_factors:
        return 0, 0
    entries = len(world.elimination.indices)
    lane_slots = min(count // LANES, LARGEST_FACTORS // (4 * LANES * entries))
    if LARGEST_DISCOUNT < world.discount < 1.0:  # at 1 it is not known yet
        lane_slots = 0
    slots = FEWEST - 1 if lane_slots > 0 else count  # one at a time: those that are too few for another block
    return max(1, min(slots, count, LARGEST_FACTORS // (8 * entries))), lane_slots


@inner
def plan_again(world, plans, is_soft, count):
    """Plan for the first `count` rewards, starting from the actions (or values) that stand in `plans`.

    residual [N] is left as inf where no plan was found.
    """
    call(world.planner, (world, plans, is_soft, count))


@inner
def adjoint(world, plans, policies, q_gradient, value_adjoint, count):
    """Fill value_adjoint [N, S], the derivatives in v of functions of q with gradients q_gradient [N, S, A].

    q = r + T v and v = q_π give w = Tᵀ g + T_πᵀ w, and g + w π as the gradient in the rewards. `policies` [N, S, A] are
    those the values of `plans` belong to: greedy, or soft.
    """
    call(world.adjoint_solver, (world, plans, policies, q_gradient, value_adjoint, count))
