"""Do intervals hold what would really be done after a change? `python -m benchmarks.counterfactuals --studies 100`.

Each study is a random problem: 5 states, 3 actions that each lead mostly to one random state (`RandomMDP`), discount
.9; 6 subjects whose rewards are drawn from the model's own prior (population means Normal(0, 1), population scales
HalfNormal(1)), Softmax(2.0), 3 episodes of 20 choices each. The hierarchical model is fitted with the default settings
of `mm.fit`, once, and asked about three changes:

    transitions   another random environment with the same states
    rewards       1 added to the reward of one state, 0.5 taken from that of another
    available     in two states one of the actions is taken away

95 % intervals are held against the truth: what subjects with the true rewards choose, visit and gain. Within a study
quantities depend on each other, so that studies are the independent units of the standard error. Two controls must
fail: intervals of another subject; and, where transitions change, rewards that choose alike before the change (the
shaped reward Q − V of each draw).
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

import manymotives as mm
from benchmarks.harness import commit

STATES, ACTIONS, SUBJECTS, EPISODES, LENGTH = 5, 3, 6, 3, 20
CHOICE = mm.Softmax(2.0)
PRIOR = mm.GaussianReward(mean=mm.Normal(mean=0.0, scale=1.0), scale=mm.HalfNormal(scale=1.0))
MODEL = mm.RewardPolicyModel(PRIOR, CHOICE, mm.Hierarchical())
LEVEL = 0.95
CHANGES = ("transitions", "rewards", "available")


def study(seed: int) -> dict[str, Any]:
    """Shares of truths inside their intervals, by change and quantity, of one simulated study."""
    rng = np.random.default_rng([28, 3, seed])
    here, there = (mm.worlds.RandomMDP(STATES, ACTIONS, seed=int(rng.integers(2**31)), discount=0.9) for _ in range(2))
    mean, scale = rng.normal(size=STATES), np.abs(rng.normal(size=STATES))
    truth = mean + scale * rng.normal(size=(SUBJECTS, STATES))
    data = mm.simulate(here, truth, CHOICE, steps=LENGTH, episodes=EPISODES, seed=seed)
    posterior = mm.fit(MODEL, here, data, seed=seed, progress=False)
    row: dict[str, Any] = {"seed": seed, "commit": commit()}
    row["identified"], row["full_rank"] = {}, _shows_all(here)
    row["mixed"] = not any("disagree" in said or "effective" in said for said in posterior.warnings)
    added = np.zeros(STATES)
    added[rng.choice(STATES, 2, replace=False)] = 1.0, -0.5
    allowed = np.ones((STATES, ACTIONS), dtype=bool)
    for state in rng.choice(STATES, 2, replace=False):
        allowed[state, rng.integers(ACTIONS)] = False
    fewer = mm.Environment(here.transitions, discount=here.discount, available=allowed, start=here.start)
    asked: dict[str, Any] = {
        "transitions": ({"environment": there}, there, truth),
        "rewards": ({"rewards": added}, here, truth + added),
        "available": ({"available": allowed}, fewer, truth),
    }
    for change, (arguments, place, rewards) in asked.items():
        found = posterior.counterfactual(**arguments, level=LEVEL, progress=False)
        row["identified"][change] = found.identified
        row[change] = dict(_covered(found.data, _truth(here, truth, place, rewards)))
    row["transitions"]["control: shaped"] = _shaped(posterior, here, there, truth)
    return row


def _shows_all(place: Any) -> bool:
    """Whether choices there show every difference between rewards: the ranks of what actions change, on their own.

    In one of seven of these environments some state is the main successor of no action: no choice there can show its
    reward, and after a change of transitions choices depend on it.
    """
    differences = np.asarray(place.transitions) - np.asarray(place.transitions)[:, :1]
    return bool(np.linalg.matrix_rank(differences.reshape(-1, STATES), tol=1e-9) == STATES - 1)


def _truth(here: Any, before: np.ndarray, place: Any, after: np.ndarray) -> dict[str, np.ndarray]:
    """What subjects really choose and visit after the change, and what they gain by it."""
    made: dict[str, np.ndarray] = {}
    values = []
    for where, rewards in ((here, before), (place, after)):
        made["choice"] = CHOICE.policies(where, rewards)
        moves = np.einsum("msa,sat->mst", made["choice"], where.tensor)
        system = np.eye(STATES) - where.discount * moves.swapaxes(1, 2)
        visits = np.linalg.solve(system, np.broadcast_to(where.start[:, None], (SUBJECTS, STATES, 1)))[..., 0]
        made["occupancy"] = (1 - where.discount) * visits
        values.append((visits * rewards).sum(axis=1))
    return made | {"value": values[1] - values[0]}


def _covered(data: Any, truth: dict[str, np.ndarray]) -> Iterator[tuple[str, float]]:
    """Quantities and the share of their intervals, over subjects, states and actions, that hold the truth."""
    for name, values in truth.items():
        time = "difference" if name == "value" else "after"
        lower, upper = (data[f"{name}_{end}"].sel(time=time).values for end in ("lower", "upper"))
        open_ = np.isfinite(lower) & (values > 0) if name == "choice" else np.ones(values.shape, dtype=bool)
        yield name, float(((lower <= values) & (values <= upper))[open_].mean())
        low, high = (data[f"population_{name}_{end}"].sel(time=time).values for end in ("lower", "upper"))
        average = values.mean(axis=0)
        kept = open_.all(axis=0)
        yield f"population {name}", float(((low <= average) & (average <= high))[kept].mean())
        others = np.roll(lower, 1, axis=0), np.roll(upper, 1, axis=0)
        yield f"control: another subject's {name}", float(((others[0] <= values) & (values <= others[1]))[open_].mean())


def _shaped(posterior: Any, here: Any, there: Any, truth: np.ndarray) -> float:
    """Coverage of choices where each draw's reward is replaced by its advantages, which choose alike before."""
    drawn = posterior.rewards.stack(sample=("chain", "draw")).transpose("sample", "task", "state").values
    drawn = drawn[:: -(-len(drawn) // 1000)]
    best = mm.plan(here, drawn)
    q = mm.plan(there, best.q - best.value[..., None], on="state_action").q
    weight = np.exp(CHOICE.inverse_temperature * (q - q.max(axis=-1, keepdims=True)))
    lower, upper = np.quantile(weight / weight.sum(axis=-1, keepdims=True), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    values = CHOICE.policies(there, truth)
    return float(((lower <= values) & (values <= upper)).mean())


def summary(rows: list[dict[str, Any]]) -> str:
    """Coverage with its standard error over studies."""
    lines = [f"{len(rows)} studies, {np.mean([row['mixed'] for row in rows]):.0%} of fits mixed; {LEVEL:.0%} intervals"]
    right = {
        "transitions": sum(row["identified"]["transitions"] == row["full_rank"] for row in rows),
        "rewards": sum(row["identified"]["rewards"] for row in rows),
        "available": sum(row["identified"]["available"] for row in rows),
    }
    found = sum(row["full_rank"] for row in rows)
    lines.append(f"  choices show every difference between rewards in {found} studies; said rightly in {right}")
    for change in CHANGES:
        for name in rows[0][change]:
            shares = np.array([row[change][name] for row in rows])
            error = shares.std(ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else float("nan")
            lines.append(f"  {change:12} {name:32} {100 * shares.mean():5.1f} % ± {100 * error:.1f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first study")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=Path("counterfactuals.jsonl"), help="rows; what is there is kept")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    os.environ |= {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "NUMBA")}
    seeds = [seed for seed in range(given.first, given.first + given.studies) if seed not in {r["seed"] for r in rows}]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool, given.out.open("a") as file:
        for future in as_completed([pool.submit(study, seed) for seed in seeds]):
            row = future.result()
            rows.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(f"{len(rows)} studies", end="\r", flush=True)
    print(summary(sorted(rows, key=lambda row: row["seed"])))


if __name__ == "__main__":
    main()
