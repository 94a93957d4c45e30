"""How long `mm.fit` takes with its defaults on the four standing problems, compilation apart:

    python -m benchmarks.defaults [near-.1 near-10 dense-.1 dense-10] [--problems 501,502,503] [--seeds 0,1,2]

Each problem has 8 states, 4 actions, 20 tasks and 50 choices of each (`benchmarks.mixing.problem`). A fit counts as
converged only if R-hat ≤ 1.01 and bulk and tail ESS ≥ 400 for *every* quantity. Seconds are of the wall clock; CPU
seconds tell more where other jobs run beside. Figures are printed, and written to benchmarks/latest-defaults.json.
"""

import os
import sys
import time

import numpy as np

import manymotives as mm
from benchmarks.harness import Record, machine
from benchmarks.mixing import problem, worst

STANDING = {  # rate of concentrations, dense transitions, seconds that a fit may take on two cores
    "near-.1": (0.1, False, 10.0),
    "dense-.1": (0.1, True, 10.0),
    "near-10": (10.0, False, 30.0),
    "dense-10": (10.0, True, 30.0),
}


def default_fit(name: str, which: int, seed: int, record: Record) -> tuple[float, float]:
    """Fit one problem, print a line, add a row; returns seconds and CPU seconds."""
    rate, dense, limit = STANDING[name]
    made = problem(rate, which, dense=dense)
    begin, cpu = time.perf_counter(), time.process_time()
    posterior = mm.fit(*made, seed=seed, progress=False)
    spent, worked = time.perf_counter() - begin, time.process_time() - cpu
    drawn = posterior.data["posterior"].to_dataset()
    rhat, bulk, tail = worst(drawn)
    converged = rhat <= 1.01 and bulk >= 400 and tail >= 400
    print(
        f"{name}, problem {which}, seed {seed}: {spent:.1f} s, {worked:.1f} CPU s, R-hat {rhat:.4f}, bulk {bulk:.0f}, "
        f"tail {tail:.0f}, {drawn.sizes['chain']} × {drawn.sizes['draw']} draws: "
        f"{'converged' if converged else 'NOT converged'}, bar {limit:g} s {'met' if spent <= limit else 'MISSED'}",
        flush=True,
    )
    record.add(
        name=f"{name}, problem {which}, seed {seed}",
        seconds=spent,
        cpu_seconds=worked,
        rhat=rhat,
        bulk=bulk,
        tail=tail,
        draws=drawn.sizes["draw"],
        converged=converged,
        limit=limit,
    )
    return spent, worked


def numbers(option: str, default: tuple[int, ...]) -> tuple[int, ...]:
    """The whole numbers after an option, or what they are by default."""
    if option not in sys.argv:
        return default
    return tuple(map(int, sys.argv[sys.argv.index(option) + 1].split(",")))


if __name__ == "__main__":
    kept = Record("latest-defaults.json", machine(("numpy", "scipy", "numba")))
    mm.fit(*problem(0.1, 99), mm.HMC(draws=5, warmup=20, max_rounds=1), seed=0, progress=False)  # compiles
    for word in [word for word in sys.argv[1:] if word in STANDING] or STANDING:
        found = [
            default_fit(word, which, seed, kept)
            for which in numbers("--problems", (501, 502, 503))
            for seed in numbers("--seeds", (0, 1, 2))
        ]
        seconds, worked = np.array(found).T
        print(
            f"  {word}: median {np.median(seconds):.1f} s, slowest {seconds.max():.1f} s; CPU seconds: median "
            f"{np.median(worked):.1f}, most {worked.max():.1f}, on {os.cpu_count()} cores",
            flush=True,
        )
