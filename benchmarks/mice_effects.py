"""Do mice that are short of water want other things in a labyrinth? `make mice DATA=path/to/mouse_labyrinth` (minutes).

Nineteen mice in a binary maze (Rosenberg et al. 2021), ten of them short of water; the folder holds
`trajectories.parquet`, a row a step, `maze.json` and `subjects.csv`. At every node with an alternative a mouse chooses
where to go next, by a few features of the next step:

    water    it leads nearer to the water port           home     it leads nearer to the way out
    new      to a node not yet visited in this bout      back     to where the mouse has just been
    left     it turns left, as the maze is drawn

Discount 0: log-odds of choices are weighted sums of features, and nothing is planned. Choices then depend on features
alone, so that all nodes where every step has the same features are one state. Weights differ between mice, and the
population's mean between the two groups: `mm.Hierarchical("water")`. What comes out is printed.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import manymotives as mm
from benchmarks.harness import commit

FEATURES = ("water", "home", "new", "back", "left")
NOWHERE = -1


class Choices(NamedTuple):
    """Choices between steps with features, and who made them."""

    environment: mm.Environment
    demonstrations: mm.Demonstrations
    features: np.ndarray  # [S, A, K]
    table: dict[str, list[str]]  # who was short of water


def read(folder: Path) -> Choices:
    """All choices with an alternative."""
    maze = json.loads((folder / "maze.json").read_text(encoding="utf-8"))
    successor, place = np.array(maze["next_state"]), np.array(maze["xy"], dtype=float)
    frame = pd.read_parquet(folder / "trajectories.parquet").sort_values(["subject", "bout", "t"], kind="stable")
    to_water, to_home = (_distances(successor, maze[name]) for name in ("water_port", "home"))
    contexts: dict[tuple[Any, ...], int] = {}
    rows: list[tuple[str, int, int]] = []
    for (subject, _), bout in frame.groupby(["subject", "bout"], sort=False):
        before, visited = NOWHERE, set()
        for here, action in zip(bout["state"].tolist(), bout["action"].tolist()):
            visited.add(here)
            steps = tuple(
                _features(before, here, there, visited, to_water, to_home, place) if there >= 0 else None
                for there in successor[here].tolist()
            )
            if sum(step is not None for step in steps) > 1:
                rows.append((str(subject), contexts.setdefault(steps, len(contexts)), action))
            before = here
    available = np.array([[step is not None for step in steps] for steps in contexts])
    features = np.array([[step or (0,) * len(FEATURES) for step in steps] for steps in contexts], dtype=float)
    count = len(contexts)
    moves = np.where(available[:, :, None], 1.0 / count, 0.0) * np.ones(count)  # where to does not matter at discount 0
    environment = mm.Environment(moves, discount=0.0, available=available)
    names = list(dict.fromkeys(subject for subject, _, _ in rows))
    lists = [
        ([state for subject, state, _ in rows if subject == name], [act for subject, _, act in rows if subject == name])
        for name in names
    ]
    demonstrations = mm.Demonstrations.from_lists(lists, environment, tasks=names)
    cohort = pd.read_csv(folder / "subjects.csv").set_index("subject")["cohort"]
    groups = ["restricted" if cohort[name] == "rewarded" else "free" for name in names]
    return Choices(environment, demonstrations, features, {"task": names, "water": groups})


def _features(
    before: int, here: int, there: int, visited: set[int], to_water: np.ndarray, to_home: np.ndarray, place: np.ndarray
) -> tuple[int, ...]:
    """Of one step, in the order of FEATURES."""
    turn = 0.0
    if before != NOWHERE and max(before, here, there) < len(place):
        arriving, leaving = place[here] - place[before], place[there] - place[here]
        turn = float(arriving[0] * leaving[1] - arriving[1] * leaving[0])
    return (
        int(to_water[there] < to_water[here]),
        int(to_home[there] < to_home[here]),
        int(there not in visited),
        int(there == before),
        int(turn > 1e-9),
    )


def _distances(successor: np.ndarray, goal: int) -> np.ndarray:
    """Steps from each node to a goal, by breadth first search; steps can be undone."""
    found, edge = np.full(len(successor), np.inf), [goal]
    found[goal] = 0.0
    while edge:
        node = edge.pop(0)
        for other in np.flatnonzero((successor == node).any(axis=1)):
            if found[other] == np.inf:
                found[other] = found[node] + 1
                edge.append(int(other))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--chains", type=int, default=4)
    given = parser.parse_args()
    choices = read(given.data)
    made = choices.demonstrations.counts.sum(axis=(1, 2))
    print(f"{len(made)} mice, {int(made.sum()):,} choices with an alternative, {len(choices.features)} kinds of nodes")
    reward = mm.GaussianReward(choices.features, on="state_action", names=list(FEATURES))
    model = mm.RewardPolicyModel(reward, mm.Softmax(1.0), mm.Hierarchical("water", covariates=choices.table))
    begin = time.perf_counter()
    method = mm.HMC(chains=given.chains)
    posterior: Any = mm.fit(model, choices.environment, choices.demonstrations, method, seed=0, progress=False)
    print(f"fitted in {time.perf_counter() - begin:.0f} s, commit {commit()}")
    print(posterior.data.attrs.get("mixing", "NOT MIXED"), *posterior.warnings, sep="\n")
    with pd.option_context("display.width", 160, "display.max_columns", 20):
        print("\nWater-restricted less free, in log-odds of a step:")
        print(posterior.effects().drop(columns=["parameter", "term"]).round(3).to_string(index=False))
        print("\nThe typical mouse of each group:")
        typical = posterior.predict_at({"water": ["free", "restricted"]})
        typical = typical[typical["quantity"] == "weight"]
        columns = ["feature", "water", "mean", "sd", "lower", "upper"]
        print(typical.sort_values(["feature", "water"])[columns].round(3).to_string(index=False))


if __name__ == "__main__":
    main()
