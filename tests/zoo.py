"""Models, worlds and data at random; every method on each of them, held against an oracle and against each other.

    python tests/zoo.py --models 500 --seed 0 --jobs 2 --out results.json      (make zoo)
    python tests/zoo.py --seed 0 --only 17                                     model 17 of that seed alone, in detail

Written from the documentation alone, without knowledge of how the samplers work. Model k of a seed is the same whatever
else is run. What is drawn: `zoo_specimens.py`; the same in the library: `zoo_library.py`; what is checked, and by which
rules: `zoo_checks.py`; the oracle: `zoo_oracle.py`.
"""

import argparse
import json
import os
import sys
import time
import traceback
import warnings
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from zoo_checks import LARGEST_Z, Comparison, Sampled, compare, log_reach, problems_of, quantities
from zoo_library import LAPLACE, library_method, sample, taken_for_large
from zoo_specimens import Specimen, specimen

METHODS = ("HMC", "Gibbs", "Metropolis")
PROBLEMS = (
    "run away",
    "not finite",
    "outside the support",
    "log likelihood above 0",
    "log likelihood differs",
    "log density differs",
    "error",
)
LONGER = 10  # how many times as long the runs are that decide on a disagreement …
MANY = 12  # … and how many of these there are where one of each still disagrees
SLOWER = 5  # how many times as many sweeps Gibbs has between draws where rewards are smooth


# ---- examination ---------------------------------------------------------------------------------------------


def examine(
    seed: int,
    index: int,
    size: dict[str, int],
    methods: tuple[str, ...],
    *,
    suspicious: float = LARGEST_Z,
    several: bool = False,
    smooth: bool = False,
) -> dict[str, Any]:
    """Everything about one specimen, as what JSON can hold. Quantities with |z| > `suspicious` are looked at again.

    `several`: of one in two environments; `smooth`: of one whose rewards are smooth over a graph.
    """
    one = specimen(seed, index, gaussian=LAPLACE in methods, several=several, smooth=smooth)
    record: dict[str, Any] = {"index": index, "model": str(one), "problems": {}, "pairs": {}, "seconds": {}}
    reach = log_reach(one.world, one.model, one.data, np.random.default_rng([seed, index, 1]))
    drawn: dict[str, dict[str, np.ndarray]] = {}
    for number, name in enumerate(methods):
        if name == "JAX" and one.model.depth is not None:  # not for devices yet
            continue
        begin = time.process_time()
        sampled, problems = _run(one, name, size, reach, seed=1000 * index + number)
        record["seconds"][name] = round(time.process_time() - begin, 2)
        record["problems"][name] = problems
        if sampled is not None and not problems:
            drawn[name] = quantities(one.model, sampled, one.data)
    suspects: dict[tuple[str, str], Comparison] = {}
    names = list(drawn)
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            found = compare(drawn[first], drawn[second])
            record["pairs"][f"{first}–{second}"] = {"z": [round(z, 3) for z in found.z.tolist()]}
            if (np.abs(found.z[found.counted]) > suspicious).any():
                suspects[first, second] = found
    if suspects:
        record["again"] = _decided(one, size, reach, suspects)
    return record


def _run(
    one: Specimen, name: str, size: dict[str, int], reach: float, seed: int
) -> tuple[Sampled | None, dict[str, str]]:
    if name == "Gibbs" and one.model.smooth is not None:  # one weight after another, and all weights count everywhere
        size = size | {"thin": SLOWER * size["thin"]}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with taken_for_large(name == LAPLACE):
                sampled = sample(one, library_method(name, **size), seed)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return None, {"error": f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"}
    return sampled, problems_of(one.world, one.model, one.data, sampled, reach)


def _decided(
    one: Specimen, size: dict[str, int], reach: float, suspects: dict[tuple[str, str], Comparison]
) -> dict[str, Any]:
    """Both methods again, ten times as long and from other seeds, for what was further apart than `LARGEST_Z`."""
    longer = size | {"thin": LONGER * size["thin"], "warmup": 2 * size["warmup"]}
    drawn: dict[str, dict[str, np.ndarray] | None] = {}
    found: dict[str, Any] = {}
    for pair, before in suspects.items():
        for name in pair:
            if name not in drawn:
                sampled, problems = _run(one, name, longer, reach, seed=1000 * one.index + 500 + len(drawn))
                usable = sampled is not None and not problems
                drawn[name] = quantities(one.model, sampled, one.data) if usable and sampled is not None else None
                if problems:
                    found[f"{name}, {LONGER} times as long"] = problems
        ours, theirs = drawn[pair[0]], drawn[pair[1]]
        if ours is None or theirs is None:
            continue
        after = compare(ours, theirs)
        rows = []
        for name in (before.names[k] for k in np.flatnonzero(np.abs(before.z) > LARGEST_Z)):
            old, new = before.names.index(name), after.names.index(name)
            row = {
                "quantity": name,
                "z": round(float(before.z[old]), 2),
                "z of the longer runs": round(float(after.z[new]), 2),
                "means": [float(f"{mean:.4g}") for mean in after.means[new]],
            }
            rows.append(row)
        undecided = [row for row in rows if is_apart(row["z of the longer runs"])]
        if undecided:
            _between_many(one, longer, pair, undecided)
        found[f"{pair[0]}–{pair[1]}"] = rows
    return found


def is_apart(z: float) -> bool:
    """Whether two methods disagree; also where chains that do not agree among themselves (NaN) cannot tell."""
    return not abs(z) <= LARGEST_Z


def _between_many(one: Specimen, size: dict[str, int], pair: tuple[str, str], rows: list[dict[str, Any]]) -> None:
    """Adds z from the means of many chains of each method.

    Four chains that seldom change between two peaks look surer than they are, each by itself; how far many of them
    are apart needs no such estimate.
    """
    drawn = []
    for method in pair:
        for run in range(MANY):
            sampled, problems = _run(one, method, size, -np.inf, seed=1000 * one.index + 600 + run)
            if sampled is None or problems:
                return
            found = quantities(one.model, sampled, one.data)
            drawn.append([_of_chains(found, row["quantity"]) for row in rows])
    for row, every in zip(rows, zip(*drawn)):
        values = np.concatenate(every)  # [chains of both, draws]
        ranks = stats.rankdata(values).reshape(values.shape) / values.size - 0.5
        means = (np.abs(ranks) if row["quantity"].endswith("(spread)") else ranks).mean(axis=1)
        ours, theirs = np.split(means, 2)
        error = np.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / len(ours))
        row["z of many chains"] = round(float((ours.mean() - theirs.mean()) / error), 2)


def _of_chains(found: dict[str, np.ndarray], quantity: str) -> np.ndarray:
    """[chains, draws] of a quantity by its name and number."""
    name, _, rest = quantity.partition("[")
    return found[name][..., int(rest.partition("]")[0])]


# ---- many of them --------------------------------------------------------------------------------------------


def examine_all(
    seed: int, which: list[int], size: dict[str, int], arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """Records of all specimens, made in several processes; says every few seconds where it stands."""
    for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        os.environ[f"{library}_NUM_THREADS"] = "1"  # of the processes started here, which read it as they import
    begin = said = time.monotonic()
    records: list[dict[str, Any]] = []
    waiting = list(reversed(which))
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        running: dict[Any, int] = {}
        while waiting or running:
            late = time.monotonic() - begin > 60 * arguments.minutes
            while waiting and len(running) < arguments.jobs and not late:
                index = waiting.pop()
                with_jax = arguments.jax_every and index % arguments.jax_every == 0
                methods = (*arguments.methods, *(("JAX",) if with_jax else ()))
                running[pool.submit(examine, seed, index, size, methods)] = index
            if late and not running:
                break
            for future in wait(running, timeout=2.0, return_when=FIRST_COMPLETED).done:
                index = running.pop(future)
                records.append(future.result())
                save(records, arguments)
                if is_bad(records[-1]):
                    print(f"\r{described(records[-1])}", flush=True)
            if time.monotonic() - said > 2:
                said = time.monotonic()
                bad = sum(map(is_bad, records))
                print(
                    f"\r{len(records)} of {len(which)} models, {bad} with problems, {said - begin:.0f} s ",
                    end="",
                    flush=True,
                )
    print()
    return sorted(records, key=lambda record: record["index"])


def still_apart(record: dict[str, Any]) -> list[str]:
    """What two methods still disagree on in the longer runs."""
    found = []
    for pair, rows in record.get("again", {}).items():
        for row in rows if isinstance(rows, list) else []:
            last = row.get("z of many chains", row["z of the longer runs"])
            if is_apart(last):
                ours, theirs = row["means"]
                found.append(f"{pair}: {row['quantity']}: z = {row['z']}, at last {last} ({ours}, {theirs})")
    return found


def longer_problems(record: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {name: rows for name, rows in record.get("again", {}).items() if isinstance(rows, dict)}


def is_bad(record: dict[str, Any]) -> bool:
    return any(record["problems"].values()) or bool(still_apart(record)) or bool(longer_problems(record))


def described(record: dict[str, Any]) -> str:
    lines = [f"model {record['index']}: {record['model']}"]
    for name, problems in (record["problems"] | longer_problems(record)).items():
        lines += [f"    {name}: {kind}: {what}" for kind, what in problems.items()]
    lines += [f"    {line}" for line in still_apart(record)]
    return "\n".join(lines)


def table(records: list[dict[str, Any]]) -> str:
    """What was found, in numbers."""
    lines = [f"{len(records)} models"]
    methods = sorted({name for record in records for name in record["problems"]})
    kinds = sorted({kind for record in records for problems in record["problems"].values() for kind in problems})
    kinds = [*PROBLEMS, *(kind for kind in kinds if kind not in PROBLEMS)]
    lines.append(f"{'models with':<28}" + "".join(f"{name:>12}" for name in methods))
    for kind in kinds:
        counts = [sum(kind in record["problems"].get(name, {}) for record in records) for name in methods]
        lines.append(f"{kind:<28}" + "".join(f"{count:>12}" for count in counts))
    seconds = [sum(record["seconds"].get(name, 0.0) for record in records) for name in methods]
    lines.append(f"{'CPU seconds in all':<28}" + "".join(f"{second:>12.0f}" for second in seconds))
    lines.append("")
    lines.append(f"{'pair':<20}{'quantities':>12}{'not converged':>16}{'rms z':>8}{'|z| > 4':>9}")
    for pair in sorted({pair for record in records for pair in record["pairs"]}):
        z = np.concatenate(
            [np.array(record["pairs"][pair]["z"], float) for record in records if pair in record["pairs"]]
        )
        counted = z[np.isfinite(z)]
        rms = np.sqrt((counted**2).mean()) if len(counted) else np.nan
        far = int((np.abs(counted) > LARGEST_Z).sum())
        lines.append(f"{pair:<20}{len(z):>12}{len(z) - len(counted):>16}{rms:>8.3f}{far:>9}")
    rows = [
        row
        for record in records
        for row in chain(*(r for r in record.get("again", {}).values() if isinstance(r, list)))
    ]
    longer = sum(abs(row["z of the longer runs"]) > LARGEST_Z for row in rows)
    unknown = sum(np.isnan(row["z of the longer runs"]) for row in rows)
    apart = sum(bool(still_apart(record)) for record in records)
    lines.append(
        f"still more than {LARGEST_Z:g} standard errors apart in runs {LONGER} times as long: {longer} quantities; "
        f"of {unknown} chains do not agree among themselves"
    )
    lines.append(f"and, of these, between {4 * MANY} such chains of each method: {apart} models")
    return "\n".join(lines)


def save(records: list[dict[str, Any]], arguments: argparse.Namespace) -> None:
    if arguments.out:
        written = {"arguments": {name: str(value) for name, value in vars(arguments).items()}, "models": records}
        arguments.out.write_text(json.dumps(written, indent=1))


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--only", type=int, nargs="+", help="these numbers alone")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--draws", type=int, default=1500)
    parser.add_argument("--warmup", type=int, default=400)
    parser.add_argument("--thin", type=int, default=1)
    parser.add_argument("--jax-every", type=int, default=50, help="also HMC in JAX, on every so-manyth model; 0: never")
    parser.add_argument("--minutes", type=float, default=600.0, help="no model is begun after so many")
    parser.add_argument("--out", type=Path, help="all numbers, as JSON")
    arguments = parser.parse_args(given)
    size = {name: getattr(arguments, name) for name in ("chains", "draws", "warmup", "thin")}
    which = arguments.only if arguments.only else list(range(arguments.models))
    records = examine_all(arguments.seed, which, size, arguments)
    print("\n".join(described(record) for record in records if is_bad(record) or arguments.only))
    print(f"seed {arguments.seed}, {size}")
    print(table(records))
    save(records, arguments)
    bad = [record["index"] for record in records if is_bad(record)]
    if bad:
        numbers = " ".join(map(str, bad))
        print(f"{len(bad)} with problems; again: python tests/zoo.py --seed {arguments.seed} --only {numbers}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
