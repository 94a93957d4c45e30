"""Does the treated group want it more? Coverage, bias and false positives of an effect: `make covariates` (hours).

Two groups of 20 subjects, 60 steps each, on a 3 × 3 grid with slip .1, discount .9, Softmax(2.0); three features, whose
weights differ between subjects by a standard deviation of .5. In the first group the weight of the first feature is
larger by one of these standard deviations (or by nothing). `mm.HMC(chains=2)`, else defaults; beside it the two-stage
estimate: the difference between groups of posterior means by `mm.Hierarchical()`, which knows nothing of groups.
Each data set is a line of a file, written when it is done: a run that was stopped goes on where it was.

`--within`: how long 44 subjects under two conditions take, 200 choices in each, "condition + (1 | mouse)", `mm.HMC()`.
`--overhead`: what the formula "1" adds to a fit without formula, of which it makes the same draws; fits in turn.
"""

import argparse
import json
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import Queue, get_context
from pathlib import Path
from typing import Any

import numpy as np

import manymotives as mm
from benchmarks.harness import commit
from manymotives.inference.diagnostics import mixing

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


def replicate(seed: int, difference: float, method: Any = None) -> dict[str, Any]:
    """One data set: the effect, its interval, its direction; and what two stages would have given."""
    begin = time.process_time()
    environment, features, demonstrations, table = data_set(seed, difference)
    reward = mm.GaussianReward(features)
    method = method or mm.HMC(chains=2)
    sharing = mm.Hierarchical("group", covariates=table)
    posterior: Any = mm.fit(
        mm.RewardPolicyModel(reward, CHOICE, sharing), environment, demonstrations, method, seed=seed, progress=False
    )
    row = posterior.effects().iloc[0]
    fitted = time.process_time()
    once = replace(method, max_rounds=1)  # enough for means
    without: Any = mm.fit(
        mm.RewardPolicyModel(reward, CHOICE, mm.Hierarchical()), environment, demonstrations, once, progress=False
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
        "cpu_seconds": fitted - begin,
        "cpu_seconds_two_stage": time.process_time() - fitted,
        "commit": commit(),
    }


def within_subjects(seed: int) -> str:
    """One fit of 44 subjects, each under both conditions; everything compiled before."""
    rng = np.random.default_rng([44, seed])
    environment = mm.worlds.GridWorld((3, 3), slip=0.1, discount=0.9)
    features = rng.normal(size=(9, 3))
    mice = rng.normal(size=3) + SPREAD * rng.normal(size=(44, 1, 3)) + 0.3 * rng.normal(size=(44, 2, 3))
    mice[:, 1, 0] += SPREAD
    names = [f"{mouse} {condition}" for mouse in range(44) for condition in ("off", "on")]
    choice = mm.Softmax(1.0)
    data = mm.simulate(environment, mice.reshape(88, 3) @ features.T, choice, steps=200, seed=seed, tasks=names)
    table = {"task": names, "mouse": np.repeat(np.arange(44), 2).astype(str), "condition": ["off", "on"] * 44}
    sharing = mm.Hierarchical("condition + (1 | mouse)", covariates=table)
    model = mm.RewardPolicyModel(mm.GaussianReward(features), choice, sharing)
    mm.fit(model, environment, data, mm.HMC(chains=1, draws=2, warmup=2, max_rounds=1), progress=False)
    wall, used = time.perf_counter(), time.process_time()
    posterior: Any = mm.fit(model, environment, data, seed=seed, progress=False)
    wall, used = time.perf_counter() - wall, time.process_time() - used
    mixed = mixing(posterior.data["posterior"].dataset)
    row = posterior.effects().iloc[0]
    return (
        f"seed {seed}: {wall:.0f} s ({used:.0f} of CPU), R-hat {mixed.rhat:.3f}, {min(mixed.bulk, mixed.tail):.0f} "
        f"effective draws of the worst; an effect of {SPREAD} found as {row['mean']:.2f} "
        f"({row['lower']:.2f} to {row['upper']:.2f})"
    )


def overhead(seed: int, pairs: int = 10) -> str:
    """Processor seconds of fits with the formula "1", as a ratio to those without a formula just before or after."""
    environment, features, demonstrations, _ = data_set(seed, SPREAD)
    method = mm.HMC(chains=2, draws=250, max_rounds=1)
    sharings, ratios = {"none": mm.Hierarchical(), "1": mm.Hierarchical("1")}, []
    for number in range(pairs + 1):  # the first compiles
        used, drawn = {}, []
        for formula in ("none", "1") if number % 2 else ("1", "none"):
            model = mm.RewardPolicyModel(mm.GaussianReward(features), CHOICE, sharings[formula])
            begin = time.process_time()
            posterior: Any = mm.fit(model, environment, demonstrations, method, seed=seed, progress=False)
            used[formula] = time.process_time() - begin
            drawn.append(posterior.weights.values)
        if not np.array_equal(*drawn):
            raise RuntimeError('the formula "1" changed the draws')
        ratios.append(used["1"] / used["none"])
    low, middle, high = np.quantile(ratios[1:], [0.25, 0.5, 0.75])
    return f'seed {seed}: "1" takes {middle:.3f} times as long (quartiles {low:.3f} and {high:.3f}), the same draws'


def summaries(rows: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each size of the true difference."""
    for difference in sorted({row["difference"] for row in rows}):
        mine = [row for row in rows if row["difference"] == difference]
        count = len(mine)
        value = {name: np.array([row[name] for row in mine]) for name in mine[0] if name != "commit"}
        share, error = value["covered"].mean(), value["mean"] - difference
        yield (
            f"difference {difference}: {count} data sets, {value['mixed'].mean():.0%} mixed; 95 % intervals cover "
            f"{share:.3f} ± {np.sqrt(share * (1 - share) / count):.3f}; bias {error.mean():+.3f} "
            f"± {error.std() / np.sqrt(count):.3f}, of two stages "
            f"{(value['two_stage'] - difference).mean():+.3f} ± {value['two_stage'].std() / np.sqrt(count):.3f}; "
            f"P(direction) > .975 in {value['certain'].mean():.3f}; {value['cpu_seconds'].mean():.1f} s of CPU each, "
            f"{value['cpu_seconds_two_stage'].mean():.1f} s for two stages"
        )


def rows_in(path: Path) -> list[dict[str, Any]]:
    """What a file of lines holds; a line that was cut short, where the work was stopped, is left out."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def replicate_all(wanted: Iterable[tuple[int, float]], processes: int, path: Path) -> None:
    """A line of JSON for each data set, written when it is done; each in a process of its own, on one core."""
    done = {(row["seed"], row["difference"]) for row in rows_in(path)}
    left = [each for each in wanted if each not in done]
    if not left:
        return
    replicate(*left[0], method=mm.HMC(chains=2, draws=5, warmup=5, max_rounds=1))  # compiles, for all processes
    path.parent.mkdir(parents=True, exist_ok=True)
    os.environ |= {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "NUMBA")}
    context = get_context("spawn")
    places = context.Queue()
    for place in range(processes):
        places.put(place)
    with (
        ProcessPoolExecutor(processes, mp_context=context, initializer=_on_one_core, initargs=(places,)) as pool,
        path.open("a", encoding="utf-8") as out,
    ):
        for number, future in enumerate(as_completed([pool.submit(replicate, *each) for each in left]), 1):
            out.write(json.dumps(future.result()) + "\n")
            out.flush()
            if number % 10 == 0:
                print(f"{number} of {len(left)} data sets", flush=True)


def _on_one_core(places: "Queue[int]") -> None:
    """Bind this process to a core, where the system can: chains then run one after the other."""
    if hasattr(os, "sched_setaffinity"):
        every = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {every[places.get() % len(every)]})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0:200", help="from:to, without the last")
    parser.add_argument("--differences", type=float, nargs="*", default=[SPREAD, 0.0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/covariates.jsonl"))
    parser.add_argument("--summary", action="store_true", help="of what the file holds; nothing is run")
    parser.add_argument("--within", action="store_true", help="time two conditions within 44 subjects instead")
    parser.add_argument("--overhead", action="store_true", help='time the formula "1" beside no formula instead')
    given = parser.parse_args()
    if given.overhead:
        for seed in range(2):
            print(overhead(seed), flush=True)
        return
    if given.within:
        for seed in range(2):
            print(within_subjects(seed), flush=True)
        return
    if not given.summary:
        first, last = map(int, given.seeds.split(":"))
        wanted = [(seed, difference) for seed in range(first, last) for difference in given.differences]
        replicate_all(wanted, given.processes, given.out)
    for line in summaries(rows_in(given.out)):
        print(line)


if __name__ == "__main__":
    main()
