"""How many motives are there, and who shares which? `make motives` (an hour): problems whose truth is known, and mice.

    python -m benchmarks.motives_by_task grid       the published grid, 20 problems
    python -m benchmarks.motives_by_task objects    Objectworld with three types of behaviour, 10 problems
    python -m benchmarks.motives_by_task many       200 tasks around five motives; --tasks 1000 for time and memory
    python -m benchmarks.motives_by_task none       one population without groups, 50 data sets; with --spread-only not
                                                    by the mixture without spread, which takes most of the time
    python -m benchmarks.motives_by_task mice --data path/to/mouse_labyrinth

`mixture_problems` describes the problems, `mixture_fits` the models and metrics. A line of JSON for each problem is
written when it is done: a run that was stopped goes on where it was. Seconds are those of `mm.fit` after everything was
compiled, chains side by side on all cores: they are worth reporting with one process only.
"""

import argparse
import json
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mixture_fits import FITS, SHORT, mice

PROBLEMS = {"grid": 20, "objects": 10, "many": 1, "none": 50}  # how many, unless said otherwise
Row = dict[str, Any]


def run(kind: str, seeds: range, processes: int, path: Path, options: dict[str, Any]) -> None:
    """Each problem that the file does not hold yet."""
    done = {row["seed"] for row in rows_in(path, kind, options)}
    left = [seed for seed in seeds if seed not in done]
    if not left:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    pool = ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_compile, initargs=(kind, left[0], options)
    )
    with pool, path.open("a", encoding="utf-8") as out:
        for number, future in enumerate(as_completed([pool.submit(FITS[kind], seed, **options) for seed in left]), 1):
            out.write(json.dumps({"kind": kind, "processes": processes} | options | future.result()) + "\n")
            out.flush()
            print(f"{number} of {len(left)} problems", flush=True)


def _compile(kind: str, seed: int, options: dict[str, Any]) -> None:
    """A few draws, before anything is timed."""
    FITS[kind](seed, method=SHORT, **options)


def rows_in(path: Path, kind: str, options: dict[str, Any]) -> list[Row]:
    """What a file of lines holds of a kind; a line that was cut short, where the work was stopped, is left out."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    return [row for row in rows if row["kind"] == kind and all(row[name] == options[name] for name in options)]


def summary(kind: str, rows: list[Row]) -> Iterator[str]:
    """Means over problems with standard errors, and how often what was asked for was found."""
    if not rows:
        yield "nothing has been measured."
    elif kind == "none":
        yield from _false_splits(rows)
    else:
        yield f"{kind}: {len(rows)} problems, commit {', '.join(sorted({row['commit'] for row in rows}))}"
        words = {
            "f": "F of best matches",
            "f_of_pairs": "F of pairs",
            "nmi": "normalised mutual information",
            "ari": "adjusted Rand index",
            "loss": "loss of value",
            "brier": "Brier score of pairs",
            "seconds": "seconds",
        }
        for name, word in words.items():
            value = np.array([row[name] for row in rows])
            error = value.std() / np.sqrt(len(value))
            yield f"  {word:30} {value.mean():.3f} ± {error:.3f}, worst {_worst(name, value):.3f}"
        right = sum(row["mode"] == row["true_number"] for row in rows)
        exact = sum(row["ari"] > 1 - 1e-12 for row in rows)
        yield f"  the true number is the likeliest in {right}, the partition is exact in {exact}"
        of_truth = [row["number"].get(str(row["true_number"]), 0.0) for row in rows]
        yield f"  probability of the true number {np.mean(of_truth):.3f} on average"
        mixed = sum(row["mixed"] for row in rows)
        yield f"  largest R-hat of the number {max(row['rhat'] for row in rows):.3f}; {mixed:.0f} have mixed"
        if kind == "many":
            yield f"  at most {max(row['peak_gib'] for row in rows):.2f} GiB"


def _worst(name: str, value: np.ndarray) -> float:
    return float(value.min() if name in ("f", "f_of_pairs", "nmi", "ari") else value.max())


def _false_splits(rows: list[Row]) -> Iterator[str]:
    yield f"none: {len(rows)} data sets without groups, commit {', '.join(sorted({row['commit'] for row in rows}))}"
    for name, words in (("spread", "mixture with spread"), ("no_spread", "mixture without spread")):
        mine = [row[name] for row in rows if name in row]
        if not mine:
            continue
        p_one = np.mean([each["p_one"] for each in mine])
        yield (
            f"  {words}: more than one motive is likeliest in {sum(each['mode'] > 1 for each in mine)}, P(1) < .05 in "
            f"{sum(each['p_one'] < 0.05 for each in mine)}, the best partition has several groups in "
            f"{sum(each['found'] > 1 for each in mine)}; P(1) is {p_one:.3f} on average; "
            f"largest R-hat {max(each['rhat'] for each in mine):.3f}"
        )
    yield f"  today's grouping in the report: several groups in {sum(row['today']['found'] > 1 for row in rows)}"


def of_mice(row: Row) -> Iterator[str]:
    """What is said of the mice."""
    yield f"19 mice, fitted in {row['seconds']:.0f} s, commit {row['commit']}; R-hat of the number {row['rhat']:.3f}"
    yield from row["warnings"]
    yield "number of groups: " + ", ".join(f"{number}: {p:.3f}" for number, p in row["number"].items())
    mean, lower, median, upper = row["adjusted_rand"]
    yield f"P(one group) {row['p_one']:.3f}; P(the groups are the water-restricted and the free) {row['p_labels']:.3f}"
    yield f"adjusted Rand index against the labels {mean:.3f} (median {median:.3f}, 95 % {lower:.3f} to {upper:.3f})"
    for group in sorted(set(row["groups"].values())):
        names = [name for name, mine in row["groups"].items() if mine == group]
        yield f"group {group}: {', '.join(f'{name}*' if name in row['restricted'] else name for name in names)}"
    yield "(* water-restricted) Weights of a group, less those of the largest, in log-odds of a step:"
    for each in row["apart"]:
        yield f"  group {each['group']}, {each['feature']}: {each['mean']:+.3f} ± {each['sd']:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=[*PROBLEMS, "mice"])
    parser.add_argument("--problems", type=int, help="how many, from seed 0")
    parser.add_argument("--seeds", help="from:to, without the last, instead of --problems")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=200, help="of many")
    parser.add_argument("--spread-only", action="store_true", help="of none")
    parser.add_argument("--data", type=Path, help="the folder of the mice")
    parser.add_argument("--out", type=Path, default=Path("build/motives.jsonl"))
    parser.add_argument("--summary", action="store_true", help="of what the file holds; nothing is run")
    given = parser.parse_args()
    if given.kind == "mice":
        if given.data is None:
            parser.error("say where the data are: --data path/to/mouse_labyrinth")
        row = mice(given.data)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        with given.out.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"kind": "mice"} | row) + "\n")
        print(*of_mice(row), sep="\n")
        return
    first, last = map(int, given.seeds.split(":")) if given.seeds else (0, given.problems or PROBLEMS[given.kind])
    options: dict[str, Any] = {"tasks": given.tasks} if given.kind == "many" else {}
    if given.kind == "none" and given.spread_only:
        options = {"spread_only": True}
    if not given.summary:
        run(given.kind, range(first, last), given.processes, given.out, options)
    print(*summary(given.kind, rows_in(given.out, given.kind, options)), sep="\n")


if __name__ == "__main__":
    main()
