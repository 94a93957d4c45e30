"""When is a bus engine replaced? Posteriors beside maximum likelihood on Su & Judd's (2012) problem: `make buses`.

175 mileage states, 50 buses of 120 months, discount .975, known; two weights: the cost of a replacement and of
maintenance. Samples and maximum likelihood estimates come from tests/oracle_bus.py, which shares no code with the
library. Choices are soft-optimal at inverse temperature 1; weights have the prior Normal(0, 100).

The likelihood is skewed: with a prior as flat as this the exact posterior mean lies above the estimate, by about .28
standard errors in the first sample (by summation over a grid). The mode, by `mm.EmpiricalBayes()`, is the estimate.
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

METHODS: dict[str, Any] = {"HMC": mm.HMC(chains=2, thin=1), "EmpiricalBayes": mm.EmpiricalBayes()}
TRANSITIONS, FEATURES = bus_environment()
ENVIRONMENT = mm.Environment(
    sp.csr_array(TRANSITIONS.reshape(-1, STATES)), discount=DISCOUNT, actions=["keep", "replace"], start={0: 1.0}
)
MODEL = mm.RewardPolicyModel(
    mm.GaussianReward(FEATURES, on="state_action", names=["replacement", "maintenance"], mean=0.0, scale=100.0),
    mm.SoftOptimal(1.0),
    mm.Pooled(),
)


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


def replicate(seed: int) -> list[dict[str, Any]]:
    """One sample: what each method says of both weights, beside the estimates and their standard errors."""
    data, counts = demonstrations(seed)
    estimate = maximum_likelihood(counts)
    rows = []
    for name, method in METHODS.items():
        wall, used = time.perf_counter(), time.process_time()
        posterior: Any = mm.fit(MODEL, ENVIRONMENT, data, method, seed=seed, progress=False)
        wall, used = time.perf_counter() - wall, time.process_time() - used
        draws = posterior.data["posterior"]["weight"].values.reshape(-1, 2)
        lower, upper = np.quantile(draws, [0.025, 0.975], axis=0)
        rows.append(
            {
                "seed": seed,
                "method": name,
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
    """A line for one method."""
    value = {name: np.array([row[name] for row in rows]) for name in ("off", "ratio", "covered", "processor_seconds")}
    said = [
        f"{weight}: (mean − estimate) / standard error {value['off'][:, k].mean():+.3f} (largest "
        f"{abs(value['off'][:, k]).max():.3f}), sd / standard error {value['ratio'][:, k].mean():.3f}, 95 % intervals "
        f"cover {value['covered'][:, k].mean():.2f}"
        for k, weight in enumerate(("replacement", "maintenance"))
    ]
    used = np.median(value["processor_seconds"])
    return f"{rows[0]['method']}, {len(rows)} samples, median {used:.1f} processor seconds; " + "; ".join(said)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/buses.json"))
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with get_context("spawn").Pool(given.jobs) as pool:
        for number, some in enumerate(pool.imap(replicate, range(given.count)), start=1):
            rows += some
            if number % 10 == 0 or number == given.count:
                print(f"{number} of {given.count} samples", flush=True)
                for name in METHODS:
                    print(" ", summary([row for row in rows if row["method"] == name]), flush=True)
                given.out.write_text(json.dumps({"commit": commit(), "rows": rows}), encoding="utf-8")


if __name__ == "__main__":
    main()
