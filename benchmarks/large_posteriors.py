"""Full posteriors on a thousand to ten thousand states: `make large` (an hour and a half), or some of them by name.

Grids with slip .1, soft-optimal choice at inverse temperature 1, discount .9; `mm.HMC()` with its defaults unless said
otherwise, whose rounds end when R-hat ≤ 1.01 and 400 effective draws are there for every quantity. Time, on two cores,
is that of `mm.fit`, with everything compiled before; CPU seconds an effective draw are of the reward (or weight) with
fewest.

    smooth     32 × 32, one smooth reward (scale and range inferred), 500 choices
    greedy     the same, choices a softmax of Q*
    features   50 × 50, 8 actions, 16 radial features, 2 000 choices in states at random, five seeds; L2 error of the
               weights' direction, both of length 1, beside what the Fisher information at the truth lets one expect
    task       100 × 100, 100 radial features, one task, 2 000 choices
    device     the same by 256 chains on a GPU, `HMC(chains=256, draws=12, warmup=15, thin=8, device="gpu")`
    tasks      the same, 20 tasks of one population, 500 choices each, weights with one scale in common,
               by `HMC(chains=2, warmup=100)`: one chain a core
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import manymotives as mm
from benchmarks.harness import commit, peak_memory
from manymotives.inference.diagnostics import mixing
from manymotives.inference.fisher import FisherInformation
from manymotives.models.reward_policy import draw_rewards

SLIP, DISCOUNT, LENGTH = 0.1, 0.9, 25
SOFT, GREEDY = mm.SoftOptimal(inverse_temperature=1.0), mm.Softmax(inverse_temperature=1.0)
MOVES = [(-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


def grid(side: int, actions: int = 4) -> mm.Environment:
    """Cells between which one moves; with probability .1 in a direction at random. At the border one stays."""
    row, column = np.divmod(np.arange(side * side), side)
    there = np.empty((side * side, actions), dtype=int)
    for action, (down, right) in enumerate(MOVES[:actions]):
        to_row, to_column = np.clip(row + down, 0, side - 1), np.clip(column + right, 0, side - 1)
        there[:, action] = to_row * side + to_column
    pairs = np.arange(there.size)
    aims = sp.csr_array((np.full(there.size, 1 - SLIP), (pairs, there.ravel())), shape=(there.size, side * side))
    places = np.repeat(there, actions, axis=0).ravel(), np.repeat(pairs, actions)
    slips = sp.csr_array((np.full(places[0].size, SLIP / actions), places[::-1]), shape=aims.shape)
    return mm.Environment(aims + slips, discount=DISCOUNT)


def bumps(side: int, count: int, width: float) -> np.ndarray:
    """[S, count] Gaussian bumps on a square lattice of centres; `width`: in units of how far these are apart."""
    per_side = round(np.sqrt(count))
    middle = (np.arange(per_side) + 0.5) / per_side * side - 0.5
    place = np.exp(-0.5 * ((np.arange(side)[:, None] - middle) * per_side / side / width) ** 2)
    return np.einsum("rk,cl->rckl", place, place).reshape(side * side, count)


def fitted(
    name: str, model: Any, environment: mm.Environment, data: mm.Demonstrations, seed: int, method: Any = None
) -> tuple[Any, dict]:
    """A posterior, by the default method unless one is given, and what it took once all is compiled."""
    first = mm.HMC(chains=1, draws=1, warmup=1, max_rounds=1)
    if name == "device":  # sizes are compiled in
        first = method
    mm.fit(model, environment, data, first, progress=False)
    wall, cpu = time.monotonic(), time.process_time()
    posterior: Any = mm.fit(model, environment, data, method, seed=seed)
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    drawn = posterior.data["posterior"].dataset
    mixed = mixing(drawn)
    rewards = mixing(drawn[["weight" if "weight" in drawn else "reward"]])
    found = {
        "case": name,
        "seed": seed,
        "minutes": wall / 60,
        "cpu_seconds_each": cpu / rewards.bulk,
        "least_effective_reward": rewards.bulk,
        "least_effective": mixed.bulk,
        "least_effective_tail": mixed.tail,
        "r_hat": mixed.rhat,
        "draws": posterior.data["posterior"].sizes["draw"],
        "peak_gib": peak_memory(),
        "commit": commit(),
    }
    for warning in posterior.warnings:
        print("  warning:", warning[:160])
    return posterior, found


def smooth(choice: Any) -> Iterator[dict]:
    """A draw of the prior itself, scale 1 and range 8 steps."""
    environment = grid(32)
    reward = mm.SmoothReward(scale=1.0, range=8.0)
    rng = np.random.default_rng(0)
    rewards = draw_rewards(reward, environment, rng, 1)
    data = mm.simulate(environment, rewards, choice, steps=LENGTH, episodes=500 // LENGTH, seed=1)
    model = mm.RewardPolicyModel(mm.SmoothReward(), choice, mm.Pooled())
    posterior, found = fitted("smooth" if choice is SOFT else "greedy", model, environment, data, 0)
    drawn = posterior.rewards.values.reshape(-1, environment.num_states)
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
    yield found | {"covered": float(((low <= rewards[0]) & (rewards[0] <= high)).mean())}


def features() -> Iterator[dict]:
    """Weights ~ Normal(0, 5), so that a bump is worth several units of log-odds a step."""
    environment, known = grid(50, 8), bumps(50, 16, 0.5)
    reward = mm.GaussianReward(known, mean=0.0, scale=mm.HalfNormal(5.0), groups="all")
    model = mm.RewardPolicyModel(reward, SOFT, mm.Pooled())
    for seed in range(5):
        weights = 5.0 * np.random.default_rng(seed).standard_normal(16)
        data = mm.simulate(environment, (known @ weights)[None], SOFT, steps=1, episodes=2000, seed=seed)
        posterior, found = fitted("features", model, environment, data, seed)
        mean = posterior.data["posterior"]["weight"].mean(("chain", "draw")).values
        rows = FisherInformation(model.bind(environment, data), weights[None]).rows(0)
        length = np.linalg.norm(weights)
        across = np.eye(16) - np.outer(weights, weights) / length**2
        expected = np.sqrt(np.trace(across @ np.linalg.inv(rows.T @ rows + np.eye(16) / 25.0) @ across)) / length
        error = np.linalg.norm(mean / np.linalg.norm(mean) - weights / length)
        yield found | {"error": float(error), "expected_error": float(expected)}


def hundred(tasks: int, method: Any = None) -> Iterator[dict]:
    """Tasks' weights around those of the population, Normal(0, 1), half as far apart."""
    environment, known = grid(100), bumps(100, 100, 0.5)
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(100) + (tasks > 1) * 0.5 * rng.standard_normal((tasks, 100))
    episodes = (500 if tasks > 1 else 2000) // LENGTH
    data = mm.simulate(environment, weights @ known.T, SOFT, steps=LENGTH, episodes=episodes, seed=1)
    if tasks == 1:
        model = mm.RewardPolicyModel(mm.GaussianReward(known, mean=0.0, scale=1.0), SOFT, mm.Pooled())
    else:
        model = mm.RewardPolicyModel(mm.GaussianReward(known, groups="all"), SOFT, mm.Hierarchical())
    name = "tasks" if tasks > 1 else "device" if method else "task"
    posterior, found = fitted(name, model, environment, data, 0, method)
    drawn = posterior.data["posterior"]["weight"].values.reshape(-1, *weights.shape[1 if tasks == 1 else 0 :])
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
    truth = weights[0] if tasks == 1 else weights
    yield found | {"covered": float(((low <= truth) & (truth <= high)).mean())}


CASES: dict[str, Any] = {
    "smooth": lambda: smooth(SOFT),
    "greedy": lambda: smooth(GREEDY),
    "features": features,
    "task": lambda: hundred(1),
    "tasks": lambda: hundred(20, mm.HMC(chains=2, warmup=100)),
    "device": lambda: hundred(1, mm.HMC(chains=256, draws=12, warmup=15, thin=8, device="gpu")),
}


def main() -> None:
    results = Path("build/large_posteriors.jsonl")
    results.parent.mkdir(exist_ok=True)
    for name in sys.argv[1:] or [name for name in CASES if name != "device"]:
        for row in CASES[name]():
            print(
                json.dumps({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()})
            )
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
