"""Maximum likelihood on Su & Judd's (2012) bus engines, beside a nested fixed point: `make likelihood`.

Every sample (175 mileage states, 50 buses of 120 months) is estimated from five starts that surround the truth
(11.7257, 2.4569) at a distance: replacement cost and maintenance cost (4, 0), (20, 0), (4, 8), (20, 8) and (12, 4).
`mm.fit(..., mm.MaximumLikelihood(starts=[start]))` is timed as a whole, with standard errors and 1 000 draws, and so is
the nested fixed point of tests/oracle_bus.py (Newton–Kantorovich inside, Fisher scoring outside; plain NumPy), from the
same start, in the same process, one after the other. Compilation is done before, on a sample that is not counted.

    python -m benchmarks.maximum_likelihood --samples 250 --workers 16

Results are kept sample by sample in --out: a run that was stopped goes on.
"""

import argparse
import json
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from tests.oracle_bus import BUSES, MONTHS, STATES, bus_environment, choice_counts, maximum_likelihood, simulate

import manymotives as mm
from benchmarks.harness import commit

DISCOUNTS = (0.975, 0.9999)
STARTS = ((4.0, 0.0), (20.0, 0.0), (4.0, 8.0), (20.0, 8.0), (12.0, 4.0))
TRANSITIONS, FEATURES = bus_environment()
NAMES = ("replacement", "maintenance")
MODEL = mm.RewardPolicyModel(
    mm.GaussianReward(FEATURES, on="state_action", names=list(NAMES)), mm.SoftOptimal(1.0), mm.Pooled()
)


def problem(seed: int, discount: float) -> tuple[mm.Environment, mm.Demonstrations, np.ndarray]:
    """A sample: environment, choices, and their counts [S, 2]."""
    matrix = sp.csr_array(TRANSITIONS.reshape(-1, STATES))
    environment = mm.Environment(matrix, discount=discount, actions=["keep", "replace"], start={0: 1.0})
    bins, decisions = simulate(seed, discount=discount)
    frame = pd.DataFrame(
        {
            "bus": np.repeat(np.arange(BUSES), MONTHS),
            "state": bins.ravel(),
            "action": np.array(environment.actions)[decisions.ravel()],
        }
    )
    return environment, mm.Demonstrations.from_frame(frame, environment, task="bus"), choice_counts(bins, decisions)


def estimated(seed: int, discount: float, start: tuple[float, float]) -> dict[str, Any]:
    """One estimate by each, from the same start."""
    environment, data, counts = problem(seed, discount)
    exact = maximum_likelihood(counts, TRANSITIONS, FEATURES, discount)  # from the truth: what both should find
    began = time.perf_counter()
    try:
        maximum_likelihood(counts, TRANSITIONS, FEATURES, discount, np.array(start))
        is_solved = True
    except (RuntimeError, np.linalg.LinAlgError):
        is_solved = False
    oracle = time.perf_counter() - began
    began = time.perf_counter()
    method = mm.MaximumLikelihood(starts=[dict(zip(NAMES, start))])
    posterior: Any = mm.fit(MODEL, environment, data, method, progress=False)
    seconds = time.perf_counter() - began
    table, maximum = posterior.estimates(), posterior.maximum
    return {
        "seed": seed,
        "discount": discount,
        "start": start,
        "converged": maximum.converged,
        "off": float(np.abs(table["estimate"].to_numpy() - exact.parameters).max()),
        "iterations": maximum.iterations,
        "seconds": seconds,
        "oracle_seconds": oracle,
        "oracle_solved": is_solved,
        "covered": bool(((table["lower"] <= [11.7257, 2.4569]) & (table["upper"] >= [11.7257, 2.4569])).all()),
        "error_ratio": float((table["standard_error"] / exact.standard_errors).mean()),
    }


def replicate(seed: int) -> list[dict[str, Any]]:
    """One sample at every discount, from every start; the first estimate of a process compiles, and is not counted."""
    global _is_warm
    if not _is_warm:
        estimated(10**6, DISCOUNTS[0], STARTS[0])
        _is_warm = True
    return [estimated(seed, discount, start) for discount in DISCOUNTS for start in STARTS]


_is_warm = False


def summary(rows: list[dict[str, Any]]) -> str:
    """What was found, at one discount."""
    table = pd.DataFrame(rows)
    ratio, off = table["seconds"] / table["oracle_seconds"], table["off"]
    total = table["seconds"].sum() / table["oracle_seconds"].sum()
    return (
        f"discount {rows[0]['discount']}: {table['converged'].sum()} of {len(table)} converged, "
        f"{(off <= 1e-6).sum()} within 1e-6 of the nested fixed point (largest difference {off.max():.1e}); "
        f"median {table['seconds'].median():.2f} s with standard errors and draws, nested fixed point "
        f"{table['oracle_seconds'].median():.2f} s ({table['oracle_solved'].sum()} solved); ratio of times: median "
        f"{ratio.median():.2f}, 95 % {ratio.quantile(0.95):.2f}, total {total:.2f}; "
        f"at most {table['iterations'].max()} iterations"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=250)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/maximum_likelihood.jsonl"))
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    done = {row["seed"] for row in rows}
    left = [seed for seed in range(given.samples) if seed not in done]
    print(f"commit {commit()}: {len(done)} samples kept, {len(left)} to go", flush=True)
    with get_context("spawn").Pool(given.workers) as pool, given.out.open("a", encoding="utf-8") as file:
        for number, some in enumerate(pool.imap_unordered(replicate, left), start=1):
            rows += some
            file.writelines(json.dumps(row) + "\n" for row in some)
            file.flush()
            if number % 10 == 0 or number == len(left):
                print(f"{number} of {len(left)} samples", flush=True)
    for discount in DISCOUNTS:
        print(summary([row for row in rows if row["discount"] == discount]), flush=True)


if __name__ == "__main__":
    main()
