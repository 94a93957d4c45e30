"""The policy-optimality model against the machine's own matrix product, and against plain value iteration."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

import manymotives as mm
from benchmarks.harness import Row, first_call, floating_point_limit, side_by_side
from benchmarks.literal import losses_by_value_iteration

LARGE = """
import json, time
import numpy as np
import manymotives as mm
from benchmarks.harness import peak_memory

rng = np.random.default_rng(0)
environment = mm.worlds.RandomMDP(states=64, actions=4, seed=0)
shown = mm.simulate(environment, rng.dirichlet(np.ones(64)), mm.Softmax(8.0), steps=500, seed=0)
begin = time.perf_counter()
made = mm.fit(
    mm.PolicyOptimalityModel(), environment, shown, mm.OptimalityMonteCarlo(draws=10_000, num_rewards=10_000)
)
taken = time.perf_counter() - begin
print(json.dumps({"seconds": taken, "gibibytes": peak_memory()}))
"""


def rows() -> Iterator[Row]:
    """One row after the other."""
    yield _product()
    yield _chain()
    yield _memory()
    yield _unknown()


def _product() -> Row:
    """K = N = 4096 at S = 64: useful operations of the product, a second, for the whole call."""
    size, states, actions = 4096, 64, 4
    rng = np.random.default_rng(0)
    environment = mm.worlds.RandomMDP(states=states, actions=actions, seed=0)
    rewards = rng.dirichlet(np.ones(states), size=size)
    policies = rng.dirichlet(np.ones(actions), size=(size, states))
    compiled = first_call(lambda: mm.optimality.loss_matrix(environment, policies[:64], rewards[:64]))
    square = 1536
    a, b = rng.random((2, square, square))
    mine, theirs, _ = side_by_side(
        lambda: mm.optimality.loss_matrix(environment, policies, rewards), lambda: a @ b, rounds=5, at_least=2.0
    )
    ours, peer = 2 * size**2 * states**2 / mine / 1e9, 2 * square**3 / theirs / 1e9
    burst = floating_point_limit() / 1e9
    return Row(
        name="loss matrix, S=64, K=N=4096; peer: a matrix product on the same cores",
        ours=ours,
        peer=peer,
        ratio=ours / peer,
        unit="GFLOP/s",
        bar="≥ 50 % of it",
        passed=ours / peer >= 0.5,
        compile_seconds=compiled,
        share_of_limit=ours / burst,
        note=f"{mine:.2f} s, planning and checks included; both for two seconds at a time",
    )


def _chain() -> Row:
    """N = 10⁴, K = 10³ on the chain; the peer does some of the pairs, by the same measure."""
    chain = mm.worlds.Chain()
    rng = np.random.default_rng(1)
    rewards = rng.dirichlet(np.ones(5), size=10_000)
    policies = rng.dirichlet(np.ones(2), size=(1_000, 5))
    few = (policies[:20], rewards[:250])
    transitions = np.ascontiguousarray(chain.tensor)
    found = losses_by_value_iteration(transitions, chain.discount, *few, 1e-10)
    assert np.abs(found - mm.optimality.loss_matrix(chain, *few)).max() < 1e-7
    mine, theirs, _ = side_by_side(
        lambda: mm.optimality.loss_matrix(chain, policies, rewards),
        lambda: losses_by_value_iteration(transitions, chain.discount, *few, 1e-10),
        rounds=5,
        at_least=0.3,
    )
    ours, peer = 1e9 * mine / 1e7, 1e9 * theirs / (20 * 250)
    return Row(
        name="loss matrix, chain, N=10⁴, K=10³; peer: value iteration for each pair, compiled plain loops, one core",
        ours=ours,
        peer=peer,
        ratio=peer / ours,
        unit="ns a pair",
        bar="≥ 100 ×",
        passed=peer / ours >= 100,
        note="half of it would remain if the peer used both cores",
    )


def _memory() -> Row:
    """K = N = 10⁴ at S = 64, a whole fit in a process of its own."""
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return Row(
        name="a whole fit, S=64, K=N=10⁴",
        ours=found["gibibytes"],
        peer=None,
        ratio=None,
        unit="GiB at most",
        bar="< 1 GiB",
        passed=found["gibibytes"] < 1,
        note=f"{found['seconds']:.1f} s; the process with its imports {time.perf_counter() - begin:.1f} s",
    )


def _unknown() -> Row:
    """S = 8, A = 4, M = 20: a fit under a belief beside one in the environment itself."""
    environment = mm.worlds.RandomMDP(states=8, actions=4, seed=0)
    rewards = np.random.default_rng(0).dirichlet(np.ones(8), size=20)
    shown = mm.simulate(environment, rewards, mm.Softmax(8.0), steps=50, seed=0)
    belief = mm.DynamicsBelief.from_demonstrations(shown, discount=environment.discount)
    model = mm.PolicyOptimalityModel()
    mine, theirs, inverse = side_by_side(
        lambda: mm.fit(model, belief, shown, progress=False),
        lambda: mm.fit(model, environment, shown, progress=False),
        rounds=5,
    )
    return Row(
        name="MPO where transitions are not known, S=8, A=4, M=20; peer: the same fit in a known environment",
        ours=mine,
        peer=theirs,
        ratio=1 / inverse,
        unit="s",
        bar="≤ 3 ×",
        passed=1 / inverse <= 3,
        note="100 environments drawn from the belief",
    )
