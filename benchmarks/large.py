"""Gradients on large environments: plan, adjoint and gradient of the log density in rewards, as trajectories ask for.

Grids with slip .1, four actions, a reward for each state; CPU time of one thread. Rewards move by about 3 % between
gradients, in a direction that is drawn anew after every ten: a leapfrog trajectory. Peers: reverse-mode
differentiation in JAX through value iteration (float64, compiled, next states gathered, as many sweeps as leave 1e-11
of the values), and this library's own Gauss–Seidel sweeps, started from the values before.
"""

import importlib
import itertools
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import manymotives as mm
from benchmarks.harness import Row
from manymotives.inference.mcmc.density import density_workspace, log_density_and_gradient
from manymotives.inference.mcmc.sweeps import data_of
from manymotives.models import Target
from manymotives.planning.warm_start import World, with_planner, world_of

SLIP, STEP, TURN, ACCURACY = 0.1, 0.03, 10, 1e-11
RULES = {"soft-optimal": mm.SoftOptimal(1.0), "softmax of Q*": mm.Softmax(1.0)}
AGAINST_JAX = ((12, 0.99, 15.0), (32, 0.9, 20.0), (32, 0.99, 100.0))  # side of the grid, discount, bar
AGAINST_SWEEPS = (("soft-optimal", 100, 30.0), ("softmax of Q*", 32, 10.0), ("softmax of Q*", 100, 10.0))
TASKS, MOST = 20, 10.0  # so many tasks take no more than so many times the time of one


def rows() -> Iterator[Row]:
    for side, discount, bar in AGAINST_JAX:
        target, world = _problem(side, discount, "soft-optimal", 1)
        yield _row(
            f"soft-optimal, {side**2} states, γ = {discount}; peer: JAX through value iteration",
            gradients(target, world),
            _through_value_iteration(target),
            bar,
            (60, 5),
        )
    for rule, side, bar in AGAINST_SWEEPS:
        target, world = _problem(side, 0.99, rule, 1)
        name = f"{rule}, {side**2} states, γ = .99; peer: Gauss–Seidel sweeps"
        sweeps = gradients(target, with_planner(world._replace(by_factors=False)))
        yield _row(name, gradients(target, world), sweeps, bar, (30 if side < 100 else 12, 3))
    for rule in RULES:
        for side in (32, 100):
            yield _twenty_tasks(rule, side)


def gradients(target: Target, world: World) -> Callable[[], None]:
    """The next gradient along a trajectory, at each call."""
    data = data_of(target, world, is_hamiltonian=True)
    workspace = density_workspace(world, target.layout, target.num_tasks, target.num_groups)
    hyper = np.zeros((target.num_groups, target.num_hyper))
    rng, shape = np.random.default_rng(0), (target.num_tasks, target.num_coordinates)
    z, direction, calls = rng.normal(size=shape), rng.normal(size=shape), itertools.count()

    def following() -> None:
        if next(calls) % TURN == 0:
            direction[:] = rng.normal(size=shape)
        z[:] += STEP * direction
        log_density_and_gradient(world, target.layout, data, workspace, hyper, z)
        assert np.isfinite(workspace.task_density).all()

    return following


def _problem(side: int, discount: float, rule: str, tasks: int) -> tuple[Target, World]:
    environment = mm.worlds.GridWorld((side, side), slip=SLIP, discount=discount)
    rewards = np.random.default_rng(1).normal(size=(tasks, side**2))
    demonstrations = mm.simulate(environment, rewards, mm.Softmax(1.0), steps=500, seed=0)
    model = mm.RewardPolicyModel(mm.GaussianReward(mean=0.0, scale=1.0), RULES[rule], mm.Separate())
    target = model.bind(environment, demonstrations)
    world = world_of(environment, tasks, target.layout.is_soft)
    return target, world


def _through_value_iteration(target: Target) -> Callable[[], None]:
    """The same likelihood and its gradient by JAX; a reward after another, each from nothing."""
    environment = target.environment
    matrix: Any = environment.matrix
    size, actions = environment.num_states, environment.num_actions
    longest = int(np.diff(matrix.indptr).max())
    nexts, weights = np.zeros((size * actions, longest), dtype=np.int32), np.zeros((size * actions, longest))
    for pair in range(size * actions):
        here = slice(matrix.indptr[pair], matrix.indptr[pair + 1])
        nexts[pair, : here.stop - here.start] = matrix.indices[here]
        weights[pair, : here.stop - here.start] = environment.discount * matrix.data[here]
    sweeps = int(np.ceil(np.log(ACCURACY) / np.log(environment.discount)))
    counts = target.counts[0]
    home: Any = jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental")

    def log_density(rewards: jax.Array) -> jax.Array:
        def q_of(value: jax.Array) -> jax.Array:
            return rewards[:, None] + (weights * value[nexts]).sum(axis=1).reshape(size, actions)

        def sweep(value: jax.Array, _: None) -> tuple[jax.Array, None]:
            return jax.nn.logsumexp(q_of(value), axis=1), None

        value, _ = jax.lax.scan(sweep, jnp.zeros(size), None, length=sweeps)
        return (counts * jax.nn.log_softmax(q_of(value), axis=1)).sum() - (rewards**2).sum() / 2

    with home.enable_x64(True):
        compiled = jax.jit(jax.value_and_grad(log_density))
        rewards = np.random.default_rng(0).normal(size=size)
        jax.block_until_ready(compiled(rewards))

    def following() -> None:
        with home.enable_x64(True):
            jax.block_until_ready(compiled(rewards))

    return following


def _cpu_seconds(work: Callable[[], None], calls: int) -> float:
    """Of a call, on average: some are quick because factors fit, others make new ones."""
    begin = time.process_time()
    for _ in range(calls):
        work()
    return (time.process_time() - begin) / calls


def _side_by_side(
    ours: Callable[[], None], peer: Callable[[], None], calls: tuple[int, int], rounds: int = 3
) -> tuple[float, float, float]:
    """CPU seconds of each (medians of rounds) and the median of the rounds' ratios; the first calls do not count."""
    for _ in range(3):
        ours()
    peer()
    pairs = [(_cpu_seconds(ours, calls[0]), _cpu_seconds(peer, calls[1])) for _ in range(rounds)]
    return median(a for a, _ in pairs), median(b for _, b in pairs), median(b / a for a, b in pairs)


def _row(name: str, ours: Callable[[], None], peer: Callable[[], None], bar: float, calls: tuple[int, int]) -> Row:
    mine, theirs, ratio = _side_by_side(ours, peer, calls)
    return Row(
        name=f"a gradient, {name}",
        ours=mine * 1e3,
        peer=theirs * 1e3,
        ratio=ratio,
        unit="CPU ms",
        bar=f"≥ {bar:.0f} ×",
        passed=ratio >= bar,
        note=f"slip {SLIP}, one task, rewards move by {STEP:.0%}",
    )


def _twenty_tasks(rule: str, side: int) -> Row:
    many, one = (gradients(*_problem(side, 0.99, rule, tasks)) for tasks in (TASKS, 1))
    mine, other, inverse = _side_by_side(many, one, (12, 24) if side < 100 else (6, 12))
    return Row(
        name=f"a gradient of {TASKS} tasks, {rule}, {side**2} states, γ = .99; peer: of one task",
        ours=mine * 1e3,
        peer=other * 1e3,
        ratio=1 / inverse,
        unit="CPU ms",
        bar=f"≤ {MOST:.0f} × the time",
        passed=1 / inverse <= MOST,
        note=f"slip {SLIP}, rewards move by {STEP:.0%}",
    )


if __name__ == "__main__":
    for row in rows():
        print(
            f"{row.name}: {row.ours:.3g} against {row.peer:.3g} {row.unit}, {row.ratio:.3g} × ({row.bar})", flush=True
        )
