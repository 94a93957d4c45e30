"""Planning against QuantEcon's policy iteration: many small problems, one of 10⁴ states, one of 10⁵."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
from threadpoolctl import threadpool_limits

import manymotives as mm
from benchmarks.harness import Row, first_call, floating_point_limit, side_by_side
from manymotives.planning import Plan
from manymotives.planning.sparse import FIRST_SWEEPS

DISCOUNT = 0.95
CORES = 2
# states, actions, rewards for us, rewards for the peer, least ratio, ratio aimed at
SIZES = [
    (5, 2, 20_000, 1_000, 500, 500),
    (8, 4, 20_000, 1_000, 20, 20),
    (20, 4, 8_000, 600, 20, 40),
    (64, 4, 2_000, 400, 6, 10),
]


def rows() -> Iterator[Row]:
    limit = floating_point_limit()
    with ProcessPoolExecutor(CORES, mp_context=get_context("spawn")) as pool:
        for size in SIZES:
            yield batch_row(pool, limit, *size)
    for reward in ("random", "goal"):
        yield grid_row(reward, limit)
    yield large_grid_row(limit)


def batch_row(
    pool: ProcessPoolExecutor, limit: float, states: int, actions: int, count: int, peers: int, bar: float, aim: float
) -> Row:
    """Microseconds for each reward of a batch, both cores used by both."""
    environment = mm.worlds.RandomMDP(states=states, actions=actions, seed=0, discount=DISCOUNT)
    rewards = np.random.default_rng(1).dirichlet(np.ones(states), size=count)

    def ours() -> Plan:
        return mm.plan(environment, rewards)

    parts = np.array_split(rewards[:peers], CORES)
    tensor = environment.tensor

    def peer() -> list[np.ndarray]:
        return list(pool.map(partial(quantecon_values, tensor), parts))

    compile_seconds = first_call(ours)
    found = ours()
    error = np.abs(np.concatenate(peer()) - found.value[:peers]).max()
    assert error < 1e-9, error
    assert found.converged.all()
    mine, theirs, _ = timed = side_by_side(ours, peer)
    ratio = timed[2] * count / peers
    sweeps, solves = 4 + states // 6, found.solves.mean()
    backups = 2 * actions * states**2 * (sweeps + 2 * solves)  # each solve: one to build the matrix, one for q
    operations = count * (backups + solves * (2 / 3 * states**3 + 2 * states**2))
    return Row(
        name=f"plan, S={states} A={actions}, QuantEcon DiscreteDP policy iteration",
        ours=mine / count * 1e6,
        peer=theirs / peers * 1e6,
        ratio=ratio,
        unit="µs a reward",
        bar=f"≥ {bar} ×, aim {aim} ×" if aim > bar else f"≥ {bar} ×",
        passed=ratio >= bar,
        compile_seconds=compile_seconds,
        share_of_limit=operations / mine / limit,
        note=f"largest difference of values {error:.0e}; {solves:.2f} solves a reward",
    )


def quantecon_values(transitions: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """The peer at its kindest: one object, rewards swapped in, and no BLAS threads to fight the other process."""
    from quantecon.markov import DiscreteDP

    num_actions = transitions.shape[1]
    with threadpool_limits(1):
        problem = DiscreteDP(np.repeat(rewards[0][:, None], num_actions, axis=1), transitions, DISCOUNT)
        values = []
        for reward in rewards:
            problem.R = np.repeat(reward[:, None], num_actions, axis=1)
            values.append(problem.policy_iteration().v)
    return np.array(values)


def grid_row(kind: str, limit: float) -> Row:
    """A 100 × 100 grid with slip, a random reward in each cell or one goal in a corner."""
    from quantecon.markov import DiscreteDP

    environment = mm.worlds.GridWorld((100, 100), slip=0.2, discount=0.99)
    states, actions = environment.num_states, environment.num_actions
    rewards = np.random.default_rng(0).random(states) if kind == "random" else np.eye(1, states, states - 1)[0]

    def ours() -> Plan:
        return mm.plan(environment, rewards)

    pairs = np.divmod(np.arange(states * actions), actions)
    problem = DiscreteDP(np.repeat(rewards, actions), environment.matrix, environment.discount, *pairs)

    def peer() -> np.ndarray:
        return problem.solve(method="policy_iteration", max_iter=2000).v

    compile_seconds = first_call(ours)
    found = ours()
    error = np.abs(peer() - found.value).max()
    # QuantEcon stops when its policy repeats, which rounding can bring about early; ours has the smaller residual
    assert error < 1e-6, error
    assert found.residual < 1e-9, found.residual
    mine, theirs, ratio = side_by_side(ours, peer, rounds=5 if kind == "random" else 1)
    operations = 2 * environment.matrix.nnz * (FIRST_SWEEPS + int(found.solves))
    return Row(
        name=f"plan, 100 × 100 grid, γ = .99, {kind} reward, QuantEcon sparse policy iteration",
        ours=mine,
        peer=theirs,
        ratio=ratio,
        unit="s",
        bar="≥ 3 ×",
        passed=ratio >= 3,
        compile_seconds=compile_seconds,
        share_of_limit=operations / mine / limit,
        note=f"largest difference of values {error:.0e}; share counts backups only, not the factorisations",
    )


def large_grid_row(limit: float) -> Row:
    """A 316 × 316 grid in a process of its own, so that its memory can be told."""
    done = subprocess.run(
        [sys.executable, "-c", "from benchmarks.planning import large_grid; large_grid()"],
        capture_output=True,
        text=True,
        check=True,
    )
    result = json.loads(done.stdout)
    passed = result["seconds"] < 60 and result["gib"] < 2 and result["error"] <= 1e-8
    return Row(
        name="plan, 316 × 316 grid (10⁵ states), γ = .99, to 1e-8",
        ours=result["seconds"],
        peer=None,
        ratio=None,
        unit="s",
        bar="< 60 s, < 2 GiB",
        passed=passed,
        compile_seconds=result["compile"],
        share_of_limit=result["operations"] / result["seconds"] / limit,
        note=f"peak memory {result['gib']:.2f} GiB, value wrong by at most {result['error']:.0e}",
    )


def large_grid() -> None:
    """Plan for a goal and for random rewards; print the slower one's time, the memory, and the bound on the error."""

    from benchmarks.harness import peak_memory, seconds

    small = mm.worlds.GridWorld((20, 20), slip=0.2, discount=0.99)
    compile_seconds = seconds(lambda: mm.plan(small, np.ones(400)))
    environment = mm.worlds.GridWorld((316, 316), slip=0.2, discount=0.99)
    states = environment.num_states
    worst, error, operations = 0.0, 0.0, 0
    for rewards in (np.random.default_rng(0).random(states), np.eye(1, states, states - 1)[0]):
        begin = time.perf_counter()
        found = mm.plan(environment, rewards)
        spent = time.perf_counter() - begin
        if spent > worst:
            worst, operations = spent, 2 * environment.matrix.nnz * (FIRST_SWEEPS + int(found.solves))
        error = max(error, float(found.residual) / (1 - environment.discount))
    gib = peak_memory()
    result = {"seconds": worst, "gib": gib, "error": error, "compile": compile_seconds, "operations": operations}
    print(json.dumps(result))
