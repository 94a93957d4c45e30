"""When is a bus engine replaced? Posteriors beside maximum likelihood on Su & Judd's (2012) problem: `make buses`.

175 mileage states, 50 buses of 120 months, discount .975, known; two weights: the cost of a replacement and of
maintenance. Samples and maximum likelihood estimates come from tests/oracle_bus.py, which shares no code with the
library. Choices are soft-optimal at inverse temperature 1.

    unit unknown        weights Normal(0, σ), each σ ~ LogNormal(0, 5); `mm.HMC()`
    flat                weights Normal(0, 100); `mm.HMC(chains=2, thin=1)`
    mode                the same, by `mm.EmpiricalBayes()`

The likelihood is skewed: both costs may be larger together. So a flat prior is not neutral: the exact posterior
mean lies above the estimate, by .27 to .30 standard errors (summation over a grid, three samples). Who does not know
the unit of the costs has a prior that is flat in their logarithms, and that gives −.01 to .00. The first case is such a
prior, nearly: σ is known to a factor of e^5, about 150, either way.
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
from tests.oracle_bus import (
    BUSES,
    DISCOUNT,
    MONTHS,
    STATES,
    TRUTH,
    bus_environment,
    choice_counts,
    maximum_likelihood,
)
from tests.oracle_bus import simulate as simulated_buses

import manymotives as mm
from benchmarks.harness import commit

TRANSITIONS, FEATURES = bus_environment()
ENVIRONMENT = mm.Environment(
    sp.csr_array(TRANSITIONS.reshape(-1, STATES)), discount=DISCOUNT, actions=["keep", "replace"], start={0: 1.0}
)


def model(scale: Any) -> mm.RewardPolicyModel:
    reward = mm.GaussianReward(FEATURES, on="state_action", names=["replacement", "maintenance"], mean=0.0, scale=scale)
    return mm.RewardPolicyModel(reward, mm.SoftOptimal(1.0), mm.Pooled())


CASES: dict[str, tuple[Any, Any]] = {
    "unit unknown": (model(mm.LogNormal(0.0, 5.0)), mm.HMC()),
    "flat": (model(100.0), mm.HMC(chains=2, thin=1)),
    "mode": (model(100.0), mm.EmpiricalBayes()),
}


def demonstrations(seed: int) -> tuple[mm.Demonstrations, np.ndarray]:
    """A sample, and its counts [S, 2]."""
    bins, decisions = simulated_buses(seed)
    frame = pd.DataFrame(
        {
            "bus": np.repeat(np.arange(BUSES), MONTHS),
            "state": bins.ravel(),
            "action": np.array(ENVIRONMENT.actions)[decisions.ravel()],
        }
    )
    return mm.Demonstrations.from_frame(frame, ENVIRONMENT, task="bus"), choice_counts(bins, decisions)


def compile_first() -> None:
    """In a new process, so that no fit is timed with what it has to compile or load."""
    for assumed, _ in CASES.values():
        short = mm.HMC(chains=1, draws=2, warmup=2, max_rounds=1)
        mm.fit(assumed, ENVIRONMENT, demonstrations(0)[0], short, progress=False)


def replicate(work: tuple[int, tuple[str, ...]]) -> list[dict[str, Any]]:
    """One sample: what each case says of both weights, beside the estimates and their standard errors."""
    seed, cases = work
    data, counts = demonstrations(seed)
    estimate = maximum_likelihood(counts)
    rows = []
    for name in cases:
        assumed, method = CASES[name]
        wall, used = time.perf_counter(), time.process_time()
        posterior: Any = mm.fit(assumed, ENVIRONMENT, data, method, seed=seed, progress=False)
        wall, used = time.perf_counter() - wall, time.process_time() - used
        draws = posterior.data["posterior"]["weight"].values.reshape(-1, 2)
        lower, upper = np.quantile(draws, [0.025, 0.975], axis=0)
        rows.append(
            {
                "seed": seed,
                "case": name,
                "off": ((draws.mean(axis=0) - estimate.parameters) / estimate.standard_errors).tolist(),
                "ratio": (draws.std(axis=0) / estimate.standard_errors).tolist(),
                "covered": ((lower <= TRUTH) & (upper >= TRUTH)).tolist(),
                "seconds": wall,
                "processor_seconds": used,
                "mixed": "mixing" in posterior.data.attrs,
            }
        )
    return rows


def summary(rows: list[dict[str, Any]]) -> str:
    """A line for one case."""
    value = {name: np.array([row[name] for row in rows]) for name in ("off", "ratio", "covered", "seconds", "mixed")}
    said = [
        f"{weight}: (mean − estimate) / standard error {value['off'][:, k].mean():+.3f} (largest "
        f"{abs(value['off'][:, k]).max():.3f}), sd / standard error {value['ratio'][:, k].mean():.3f} "
        f"({value['ratio'][:, k].min():.2f} to {value['ratio'][:, k].max():.2f}), 95 % intervals "
        f"cover {value['covered'][:, k].mean():.2f}"
        for k, weight in enumerate(("replacement", "maintenance"))
    ]
    took, mixed = value["seconds"], value["mixed"].mean()
    return (
        f"{rows[0]['case']}, {len(rows)} samples, {np.median(took):.1f} s each (at most {took.max():.1f}), "
        f"{mixed:.0%} mixed; " + "; ".join(said)
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--cases", nargs="*", choices=CASES, default=[*CASES])
    parser.add_argument("--jobs", type=int, default=1, help="at once; one fit keeps two cores busy")
    parser.add_argument("--out", type=Path, default=Path("build/buses.json"))
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    given.out.parent.mkdir(parents=True, exist_ok=True)
    work = [(seed, tuple(given.cases)) for seed in range(given.count)]
    with get_context("spawn").Pool(given.jobs, initializer=compile_first) as pool:
        for number, some in enumerate(pool.imap(replicate, work), start=1):
            rows += some
            if number % 10 == 0 or number == given.count:
                print(f"{number} of {given.count} samples", flush=True)
                for name in given.cases:
                    print(" ", summary([row for row in rows if row["case"] == name]), flush=True)
                given.out.write_text(json.dumps({"commit": commit(), "rows": rows}), encoding="utf-8")


if __name__ == "__main__":
    main()
