"""A thousand short chains on an accelerator against four compiled ones: `python -m benchmarks.many_chains`.

Figures are printed, and written to benchmarks/latest-many-chains.json.
"""

import sys
import time
from typing import Any

import jax
import numpy as np
import xarray as xr
from arviz_stats import ess

import manymotives as mm
from benchmarks.harness import Record, machine
from manymotives.fitting.compilation import compile_first
from manymotives.inference import Draws, Progress
from manymotives.inference.diagnostics import nested_rhat
from manymotives.inference.many_chains.hmc import Chains, on
from manymotives.models import Target

STATES, ACTIONS, TASKS, STEPS, TEMPERATURE, DISCOUNT = 8, 4, 20, 50, 8.0, 0.95
CHAINS, DRAWS = 1024, 50
ROUND = 15  # sweeps of warm-up between two looks at the shape
WORLDS = {"random": mm.worlds.RandomMDP, "Dirichlet": mm.worlds.DirichletMDP}
# of the population's concentrations: widely spread rewards, sparse ones; and sweeps of warm-up, which those need longer
WARMUPS = {0.1: 150, 10.0: 600}


def main() -> None:
    """Arguments, all optional: the device, and how many chains."""
    device = sys.argv[1] if len(sys.argv) > 1 else jax.default_backend()
    chains = int(sys.argv[2]) if len(sys.argv) > 2 else CHAINS
    print(f"{device}, JAX {jax.__version__}, {chains} chains: {DRAWS} draws", flush=True)
    record = Record("latest-many-chains.json", machine(("numpy", "scipy", "numba", "jax", "jaxlib")))
    compile_first()
    for name, world in WORLDS.items():
        for rate, warmup in WARMUPS.items():
            target = problem(world, rate)
            print(f"\n{name} MDP, rate {rate}", flush=True)
            ours, on_it = on_device(target, device, chains, warmup)
            theirs, beside = compiled(target)
            apart, every = (on_it[figure] / beside[figure] for figure in ("per_second", "per_second_with_warmup"))
            print(f"  {apart:.0f} × as many without warm-up, {every:.1f} × with it")
            place, off = furthest(ours, theirs)
            print(f"  means differ by at most {off:.1f} standard errors ({place})", flush=True)
            record.add(
                name=f"{name} MDP, rate {rate}",
                device=jax.devices(device)[0].device_kind,
                chains=chains,
                draws=DRAWS,
                warmup=warmup,
                on_device=on_it,
                compiled_chains=beside,
                ratio=apart,
                ratio_with_warmup=every,
                largest_difference_in_standard_errors=off,
                largest_difference_of=place,
            )


def problem(world: Any, rate: float) -> Target:
    rng = np.random.default_rng(0)
    environment = world(states=STATES, actions=ACTIONS, seed=0, discount=DISCOUNT)
    concentration = rng.gamma(1.0, 1.0 / rate, size=STATES)
    logs = mm.families.log_gammas(rng, np.tile(concentration, (TASKS, 1)))
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    rewards = weights / weights.sum(axis=1, keepdims=True)
    data = mm.simulate(environment, rewards, mm.Softmax(TEMPERATURE), steps=STEPS, seed=0)
    prior = mm.DirichletReward(concentration=mm.Gamma(shape=1.0, rate=rate))
    return mm.RewardPolicyModel(prior).bind(environment, data)


def on_device(target: Target, device: str, chains: int, warmup: int) -> tuple[xr.Dataset, dict[str, float]]:
    """Draws and figures: effective draws per second without and with start and warm-up, of the second run, compiled."""
    times = []
    for seed in range(2):
        clock = [time.perf_counter()]
        with on(device):
            made = Chains(target, chains, seed)
            jax.block_until_ready(made.state)
            clock.append(time.perf_counter())
            rounds = warmup // ROUND
            for k in range(rounds):
                made.warm_up(ROUND, learning=(k + 1) / rounds <= 0.85)
            jax.block_until_ready(made.state)
            clock.append(time.perf_counter())
            tasks, hyper, likelihood, accepted, prior_accepted = made.draw(DRAWS, 1)
            clock.append(time.perf_counter())
        times.append(np.diff(clock))
    start, warm, draw = (float(spent) for spent in times[1])
    compiling = float(times[0].sum() - times[1].sum())
    print(f"  compiled in {compiling:.1f} s (the first run less the second)", flush=True)
    print(f"  start {start:.2f} s, warm-up of {warmup} sweeps {warm:.2f} s, draws {draw:.2f} s; ", end="")
    print(f"accepted {accepted.mean():.0%}, prior proposals {prior_accepted.mean():.0%}", flush=True)
    found = watched(target, Draws(tasks=tasks, hyper=hyper, log_likelihood=likelihood))
    sizes = effective(found)
    place = min(sizes, key=lambda name: sizes[name])
    worst, every = sizes[place], start + warm + draw
    print(f"  worst bulk ESS {worst:.0f} ({place}) of {chains * DRAWS} draws: {worst / draw:,.0f} a second, ", end="")
    print(f"{worst / every:,.0f} with start and warm-up", flush=True)
    nested = max(float(each.max()) for each in nested_rhat(found).values())
    print(f"  worst nested R-hat {nested:.4f}", flush=True)
    return found, {
        "compile_seconds": compiling,
        "start_seconds": start,
        "warmup_seconds": warm,
        "draw_seconds": draw,
        "accepted": float(accepted.mean()),
        "prior_proposals_accepted": float(prior_accepted.mean()),
        "bulk": worst,
        "per_second": worst / draw,
        "per_second_with_warmup": worst / every,
        "nested_rhat": nested,
    }


def compiled(target: Target) -> tuple[xr.Dataset, dict[str, float]]:
    """The same of four chains on the processor: 500 sweeps of warm-up, then 2 × 1 000 draws, two sweeps each."""
    method, count = mm.HMC(chains=4, draws=1000, warmup=500, thin=2), 1000
    clock = [time.perf_counter()]
    state, begun = method.advance(method.init(target, 0), count, Progress(False))
    assert state is not None
    clock.append(time.perf_counter())
    _, more = method.advance(state, count, Progress(False))
    clock.append(time.perf_counter())
    first, second = (float(spent) for spent in np.diff(clock))
    found = watched(target, begun.followed_by(more))
    worst = min(effective(found).values())
    every, drawn = worst / (first + second), 0.5 * worst / second  # half of all draws are of the second part
    print(f"  compiled chains: {first:.1f} s with warm-up, then {second:.1f} s; worst bulk ESS {worst:.0f}: ", end="")
    print(f"{drawn:.0f} a second, {every:.0f} with warm-up", flush=True)
    return found, {
        "first_seconds": first,
        "second_seconds": second,
        "bulk": worst,
        "per_second": drawn,
        "per_second_with_warmup": every,
    }


def watched(target: Target, draws: Draws) -> xr.Dataset:
    """Rewards, inverse temperatures and the population's parameters, as [chain, draw, ...]."""
    hyper = target.natural_hyper(draws.hyper)[:, :, 0]
    found = {
        "reward": target.rewards(draws.tasks).reshape(*draws.tasks.shape[:2], -1),
        "temperature": np.exp(draws.tasks[..., target.layout.temperature]),
    }
    for block in target.blocks:
        found[block.name] = hyper[..., block.begin : block.end]
    return xr.Dataset({name: (("chain", "draw", f"{name}_index"), values) for name, values in found.items()})


def effective(draws: xr.Dataset, method: str = "bulk") -> dict[str, float]:
    return {str(name): float(each.min()) for name, each in ess(draws, method=method).items()}


def furthest(one: xr.Dataset, other: xr.Dataset) -> tuple[str, float]:
    """The largest difference of two means, in Monte Carlo standard errors, and of what."""
    sample = ("chain", "draw")
    variance = sum(each.var(sample) / ess(each, method="mean") for each in (one, other))
    off = abs(one.mean(sample) - other.mean(sample)) / np.sqrt(variance)
    sizes = {str(name): float(each.max()) for name, each in off.items()}
    place = max(sizes, key=lambda name: sizes[name])
    return place, sizes[place]


if __name__ == "__main__":
    main()
