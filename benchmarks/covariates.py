"""Does the treated group want it more? Coverage, bias and false positives of an effect: `make covariates` (hours).

Two groups of 20 subjects, 60 steps each, on a 3 × 3 grid with slip .1, discount .9, Softmax(2.0); three features, whose
weights differ between subjects by a standard deviation of .5. In the first group the weight of the first feature is
larger by one of these standard deviations (or by nothing). `mm.HMC(chains=2)`, else defaults; beside it the two-stage
estimate: the difference between groups of posterior means by `mm.Hierarchical()`, which knows nothing of groups.
"""

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import manymotives as mm
from benchmarks.harness import commit

SUBJECTS, STEPS, SPREAD = 20, 60, 0.5
CHOICE = mm.Softmax(2.0)


def data_set(seed: int, difference: float) -> tuple[mm.Environment, np.ndarray, Any, dict[str, list[Any]]]:
    """An environment with features, choices of two groups, and who belongs to which."""
    rng = np.random.default_rng([26, seed])
    environment = mm.worlds.GridWorld((3, 3), slip=0.1, discount=0.9)
    features = rng.normal(size=(9, 3))
    weights = rng.normal(size=3) + SPREAD * rng.normal(size=(2 * SUBJECTS, 3))
    weights[:SUBJECTS, 0] += difference
    demonstrations = mm.simulate(environment, weights @ features.T, CHOICE, steps=STEPS, seed=seed)
    group = ["treated"] * SUBJECTS + ["control"] * SUBJECTS
    return environment, features, demonstrations, {"task": list(demonstrations.tasks), "group": group}


def replicate(seed: int, difference: float) -> dict[str, float]:
    """One data set: the effect, its interval, its direction; and what two stages would have given."""
    environment, features, demonstrations, table = data_set(seed, difference)
    reward = mm.GaussianReward(features)
    method = mm.HMC(chains=2)
    sharing = mm.Hierarchical("group", covariates=table)
    posterior: Any = mm.fit(
        mm.RewardPolicyModel(reward, CHOICE, sharing), environment, demonstrations, method, seed=seed, progress=False
    )
    row = posterior.effects().iloc[0]
    without: Any = mm.fit(
        mm.RewardPolicyModel(reward, CHOICE, mm.Hierarchical()), environment, demonstrations, method, progress=False
    )
    means = without.weights.isel(feature=0).mean(("chain", "draw")).values
    return {
        "seed": seed,
        "difference": difference,
        "mean": float(row["mean"]),
        "sd": float(row["sd"]),
        "covered": float(row["lower"] <= difference <= row["upper"]),
        "certain": float(row["p_direction"] > 0.975),
        "two_stage": float(means[:SUBJECTS].mean() - means[SUBJECTS:].mean()),
        "mixed": float("mixing" in posterior.data.attrs),
    }


def summaries(rows: list[dict[str, float]]) -> Iterator[str]:
    """A line for each size of the true difference."""
    for difference in sorted({row["difference"] for row in rows}):
        mine = [row for row in rows if row["difference"] == difference]
        count = len(mine)
        value = {name: np.array([row[name] for row in mine]) for name in mine[0]}
        share, error = value["covered"].mean(), value["mean"] - difference
        yield (
            f"difference {difference}: {count} data sets, {value['mixed'].mean():.0%} mixed; 95 % intervals cover "
            f"{share:.3f} ± {np.sqrt(share * (1 - share) / count):.3f}; bias {error.mean():+.3f} "
            f"± {error.std() / np.sqrt(count):.3f}, of two stages "
            f"{(value['two_stage'] - difference).mean():+.3f} ± {value['two_stage'].std() / np.sqrt(count):.3f}; "
            f"P(direction) > .975 in {value['certain'].mean():.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/covariates.json"))
    given = parser.parse_args()
    rows: list[dict[str, float]] = []
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        for difference in (SPREAD, 0.0):
            for row in pool.map(partial(replicate, difference=difference), range(given.count)):
                rows.append(row)
                if len(rows) % 10 == 0:
                    print(f"{len(rows)} of {2 * given.count} data sets", flush=True)
    for line in summaries(rows):
        print(line)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps({"commit": commit(), "rows": rows}), encoding="utf-8")


if __name__ == "__main__":
    main()
