"""How long a power analysis takes, how it uses several processes, and whether its short chains decide as long ones do.

    python -m benchmarks.power grid --workers 2              # 3 × 2 sizes, 100 experiments each: the table, the time
    python -m benchmarks.power efficiency --workers 1 4 8    # the same experiments by 1, 4 and 8 processes
    python -m benchmarks.power agreement --workers 16 --experiments 100   # short chains against long ones

A pilot of twelve subjects on a 3 × 3 grid with slip .1, discount .9 and three features; half of them want water more.
New subjects: 16, 32 and 64, of 50 and 200 steps. `--store FILE` keeps what is finished, and resumes.
"""

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

import manymotives as mm
from manymotives.assessment.power import QUICK
from manymotives.assessment.power_statistics import wilson

CONTRAST = "water: restricted - free"
SUBJECTS, STEPS = (16, 32, 64), (50, 200)
DIFFERENCE, SPREAD = 0.8, 0.5
LONG = mm.HMC(chains=4, draws=1000, warmup=300, thin=2, max_rounds=3)


def pilot(subjects: int = 12, steps: int = 100) -> Any:
    """The posterior of a small experiment."""
    environment = mm.worlds.GridWorld((3, 3), slip=0.1, discount=0.9)
    features = np.zeros((9, 3))
    features[[8, 2, 6], [0, 1, 2]] = 1.0  # in three corners
    rng = np.random.default_rng(28)
    weights = np.array([1.0, 0.5, 0.0]) + SPREAD * rng.standard_normal((subjects, 3))
    weights[1::2, 0] += DIFFERENCE
    choices = mm.simulate(environment, weights @ features.T, mm.Softmax(1.0), steps=steps, seed=28)
    table = {"task": list(range(subjects)), "condition": ["free", "restricted"] * (subjects // 2)}
    reward = mm.GaussianReward(features, names=["water", "food", "shelter"])
    model = mm.RewardPolicyModel(reward, mm.Softmax(1.0), mm.Hierarchical("condition", covariates=table))
    return mm.fit(model, environment, choices, mm.HMC(), seed=0, progress=False)


def planned(posterior: Any, workers: int, experiments: int, store: str | None, **options: Any) -> tuple[Any, float]:
    """A power analysis, and the seconds that it took, with those in which workers start; what they need is compiled."""
    begin = time.perf_counter()
    found = mm.power(
        posterior,
        contrast=CONTRAST,
        subjects=SUBJECTS,
        steps=STEPS,
        replications=experiments,
        executor=workers,
        store=store,
        **options,
    )
    return found, time.perf_counter() - begin


def compiled(posterior: Any) -> None:
    """Compile all that experiments need, and keep it on disk, where workers find it."""
    once: dict[str, Any] = {"contrast": CONTRAST, "subjects": [4], "steps": [5], "replications": 2, "progress": False}
    mm.power(posterior, **once)


def grid(workers: int, experiments: int, store: str | None, every: bool) -> None:
    posterior = pilot()
    compiled(posterior)
    found, seconds = planned(posterior, workers, experiments, store, stop=None if every else 0.05)
    print(found)
    run = len(found.experiments)
    print(f"{run} of {len(found.table) * experiments} experiments, {seconds:.0f} s with {workers} processes, ", end="")
    print(f"{seconds * workers / run:.2f} s of a core for each.")


def efficiency(several: Sequence[int], experiments: int) -> None:
    posterior, before, alone = pilot(), None, float("nan")
    compiled(posterior)
    for workers in several:
        found, seconds = planned(posterior, workers, experiments, None, stop=None, progress=False)
        if before is None:
            before, alone = found.experiments, seconds * workers
        same = before.equals(found.experiments)
        share = alone / (workers * seconds)
        print(f"{workers} processes: {seconds:.1f} s, efficiency {share:.2f}, the same to the last bit: {same}")


def agreement(workers: int, experiments: int, store: str | None) -> None:
    posterior, found = pilot(), {}
    compiled(posterior)
    options: dict[str, Any] = {"contrast": CONTRAST, "subjects": SUBJECTS, "steps": STEPS, "stop": None}
    for name, method in (("short", QUICK), ("long", LONG)):
        found[name] = mm.power(
            posterior, **options, replications=experiments, method=method, executor=workers, store=store
        ).experiments
    keys = ["subjects", "steps", "replication"]
    both = found["short"].merge(found["long"], on=keys, suffixes=("_short", "_long"))
    good = both[(both["converged_short"] == 1) & (both["converged_long"] == 1)]
    rows = []
    for name, part in [("all", good), *good.groupby(["subjects", "steps"])]:
        same = int((part["yes_short"] == part["yes_long"]).sum())
        lower, upper = wilson(same, len(part))
        rows.append({"cell": name, "experiments": len(part), "same": same / len(part), "lower": lower, "upper": upper,
                     "power_short": part["yes_short"].mean(), "power_long": part["yes_long"].mean()})  # fmt: skip
    print(pd.DataFrame(rows).round(3).to_string(index=False))
    print(f"did not converge: {int((both['converged_short'] == 0).sum())} short, ", end="")
    print(f"{int((both['converged_long'] == 0).sum())} long, of {len(both)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["grid", "efficiency", "agreement"])
    parser.add_argument("--workers", type=int, nargs="+", default=[2])
    parser.add_argument("--experiments", type=int, default=100, help="of each size")
    parser.add_argument("--every", action="store_true", help="no size is given up early")
    parser.add_argument("--store")
    given = parser.parse_args()
    if given.what == "grid":
        grid(given.workers[0], given.experiments, given.store, given.every)
    elif given.what == "efficiency":
        efficiency(given.workers, given.experiments)
    else:
        agreement(given.workers[0], given.experiments, given.store)


if __name__ == "__main__":
    main()
