"""Which models predict where mice turn in a labyrinth? `make labyrinth DATA=path/to/mouse_labyrinth` (hours).

Nineteen mice in a binary maze (Rosenberg et al. 2021); the folder holds `trajectories.parquet`, a row a step, and
`maze.json`. Each mouse is predicted from the others, each choice from what came before it in its bout (and, where said,
from all that its mouse did before), in nats a choice with standard errors by mouse. Only choices with an alternative
count. At discount 0 nothing is planned: a model that plans must predict better than the same one that does not.

Results are written to build/labyrinth.json and labyrinth.md beside it, as each is done; what is there already is not
computed again.
"""

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import manymotives as mm
from benchmarks.harness import commit, peak_memory
from benchmarks.labyrinth_features import Features, features, with_memory
from manymotives.io.atomic import whole_file
from manymotives.scoring import Score
from manymotives.scoring.hidden_markov import fitted_hidden_markov
from manymotives.scoring.histories import LONGER_HISTORY, Histories
from manymotives.scoring.own_counts import OWN_PAST as OWN_HISTORY
from manymotives.scoring.splits import by_tasks, only
from manymotives.scoring.sums import Book

LEVELS, HOME = 6, 127
MEMORY = 3  # nodes before the current one, in the states of models of motives
MOTIVES = 6
FEW_MOTIVES = 4  # where one mouse is all there is to learn from
PLANS_AHEAD = 0.9  # discount
TRAINING_MICE = 5
METHOD = mm.EmpiricalBayes()
SEED = 0
# of what is common to mice, where each has its own version of a motive: standard deviations of weights beforehand, in
# log-odds, of what holds all over the maze and of what is said of single routes
GENERAL, SPECIAL = 0.6, 0.4
GENERAL_GROUPS = ("next node", "step", "step by level", "turn by level", "water")
BETWEEN_MICE = mm.HalfNormal(0.2)

UNIFORM, COUNTS, HISTORY = "uniform", "counts", "counts with history"
LONGER, FURTHER = "counts with longer history, 6 nodes at most", "counts with longer history, 9 nodes at most"
OWN_LONGER, OWN_FURTHER = f"{LONGER}, own past", f"{FURTHER}, own past"
FREE_PAIRS, FREE = (f"{MOTIVES} free policies that switch, {memory} before" for memory in ("1 node", f"{MEMORY} nodes"))
FREE_POLICIES = f"free policies, {MOTIVES} that switch"  # as `mm.score` names those beside a model
ONE = "one motive for everybody"
SWITCHING = f"{MOTIVES} motives that switch"
OWN_PAST = f"{SWITCHING}, own past"
PLANNING = f"{SWITCHING}, discount {PLANS_AHEAD:g}"
LEARNT_FROM_ONE = f"{FEW_MOTIVES} motives that switch"
COMPARED = (
    (SWITCHING, FREE),
    (SWITCHING, FREE_PAIRS),
    (SWITCHING, FURTHER),
    (SWITCHING, ONE),
    (PLANNING, SWITCHING),
    (OWN_PAST, OWN_LONGER),
    (OWN_PAST, OWN_FURTHER),
    (OWN_PAST, SWITCHING),
)
COMPARED_BY_ONE = ((LEARNT_FROM_ONE, LONGER),)
BY_MOUSE, BY_TRAINING_MOUSE = "predicted mouse", "training mouse"  # what a row of results belongs to


class Mice(NamedTuple):
    """What they did, in states of the node alone, with one node before it, and so on."""

    environments: tuple[mm.Environment, ...]
    demonstrations: tuple[mm.Demonstrations, ...]
    water: int  # a leaf


def read(folder: Path, memory: int = MEMORY, discount: float = 0.0) -> Mice:
    """The data set, whose codes of states and actions are the numbers of the world's names."""
    maze = mm.worlds.Labyrinth(levels=LEVELS, discount=discount)
    frame = pd.read_parquet(folder / "trajectories.parquet")
    names = {"state": maze.states, "action": maze.actions, "next_state": maze.states}
    frame = frame.assign(**{column: np.array(known, dtype=object)[frame[column]] for column, known in names.items()})
    found = mm.Demonstrations.from_frame(frame, maze, task="subject", episode="bout", step="t", next_state="next_state")
    about = json.loads((folder / "maze.json").read_text(encoding="utf-8"))
    assert about["home"] == HOME == maze.states.index("home"), "another maze"
    assert not found.warnings, found.warnings
    environments = with_memory(maze, memory)
    demonstrations = [found]
    for environment in environments[1:]:
        demonstrations.append(demonstrations[-1].with_memory(environment))
    return Mice(environments, tuple(demonstrations), about["water_port"])


# ---- one function for each model or few: mice in, a table of nats a choice by mouse out ------------------------------


def counts(folder: Path) -> pd.DataFrame:
    """Counting: in the node, after one node, after more; and with what the mouse itself did before."""
    mice = read(folder)
    by_node, by_route = _book(mice, 0), _book(mice, MEMORY)
    for book in (by_node, by_route):
        book.add_count_models()
    plain = {name: name for name in (UNIFORM, COUNTS, HISTORY)}
    return pd.concat(
        [
            _only(by_node.by_task(), plain | {LONGER_HISTORY: LONGER, OWN_HISTORY: OWN_LONGER}),
            _only(by_route.by_task(), {LONGER_HISTORY: FURTHER, OWN_HISTORY: OWN_FURTHER}),
        ]
    )


def free_policies(folder: Path) -> pd.DataFrame:
    """Is it only switching? Free policies in states (previous node, node), where they have fewest parameters."""
    book = _book(read(folder, memory=1), 1)
    for number, split in enumerate(book.splits):
        fitted = fitted_hidden_markov(
            book.environment, book.demonstrations, split.trains, MOTIVES, SEED, hold_out="tasks"
        )
        book.add_rows(FREE_PAIRS, number, fitted.log_probability(book.demonstrations))
        print(f"  {number + 1} of {len(book.splits)} mice", flush=True)
    return _only(book.by_task(), {FREE_PAIRS: FREE_PAIRS})


def one_motive(folder: Path) -> pd.DataFrame:
    """Features without switching."""
    return _scored(read(folder), everybodys(None), {ONE: ONE})


def switching_motives(folder: Path) -> pd.DataFrame:
    """Motives that switch: a new mouse from the population of the others; then as its own past brings them nearer.

    Beside them as many free policies in the same states.
    """
    names = {SWITCHING: SWITCHING, f"{SWITCHING} and own past": OWN_PAST, FREE_POLICIES: FREE}
    return _scored(read(folder), of_each_mouse, names, hold_out=("tasks", "own past"))


def planning(folder: Path) -> pd.DataFrame:
    """The same motives of mice that look ahead."""
    return _scored(read(folder, discount=PLANS_AHEAD), of_each_mouse, {SWITCHING: PLANNING})


def one_training_mouse(folder: Path) -> pd.DataFrame:
    """Learn from one mouse, predict all others."""
    mice = read(folder)
    environment, demonstrations = mice.environments[-1], mice.demonstrations[-1]
    model = everybodys(mm.Switching(FEW_MOTIVES))(mice)
    histories = Histories.of(mice.environments[0], mice.demonstrations[0])
    has_alternative = (environment.available.sum(axis=1) > 1)[demonstrations.state] & (demonstrations.action >= 0)
    rows = []
    drawn = np.random.default_rng(SEED).choice(demonstrations.num_tasks, TRAINING_MICE, replace=False)
    for number, mouse in enumerate(drawn.tolist()):
        trains = demonstrations.task == mouse
        tested = ~trains & has_alternative
        posterior: Any = mm.fit(model, environment, only(demonstrations, trains), METHOD, seed=SEED, progress=False)
        counted = histories.log_probability(trains, tested, histories.tuned(trains, "tasks"))
        for name, found in ((LONGER, counted), (LEARNT_FROM_ONE, posterior.log_predictions(demonstrations))):
            nats = {"log_likelihood": float(found[tested].mean()), "choices": int(tested.sum())}
            rows.append({"model": name, "task": demonstrations.tasks[mouse]} | nats)
        print(f"  {number + 1} of {TRAINING_MICE} training mice", flush=True)
    return pd.DataFrame(rows)


RUNGS: dict[str, Callable[[Path], pd.DataFrame]] = {
    "counts": counts,
    "free-policies": free_policies,
    "one-motive": one_motive,
    "motives": switching_motives,
    "planning": planning,
    "one-mouse": one_training_mouse,
}
FROM_ONE_MOUSE = ("one-mouse",)


# ---- models of motives -----------------------------------------------------------------------------------------------


def everybodys(switching: mm.Switching | None) -> Callable[[Mice], mm.RewardPolicyModel]:
    """Motives that all mice share: weights around 0 with a scale for each group, and a residual for each pair."""

    def model(mice: Mice) -> mm.RewardPolicyModel:
        known = features(mice.environments, mice.water)
        reward = _reward(known, mean=0.0, scale=mm.HalfNormal(1.0), residual=True)
        return mm.RewardPolicyModel(reward, mm.SoftOptimal(), mm.Pooled(), switching)

    return model


def of_each_mouse(mice: Mice) -> mm.RewardPolicyModel:
    """Motives of which each mouse has its own version.

    A residual would be each mouse's own, around 0; what is common to mice on single routes is a group of features.
    """
    known = features(mice.environments, mice.water, finest=True)
    scales = np.where(np.isin(known.groups, GENERAL_GROUPS), GENERAL, SPECIAL)
    reward = _reward(known, mean=mm.Normal(0.0, scales), scale=BETWEEN_MICE, residual=False)
    return mm.RewardPolicyModel(reward, mm.SoftOptimal(), mm.Hierarchical(), mm.Switching(MOTIVES))


def _reward(known: Features, mean: Any, scale: mm.HalfNormal, residual: bool) -> mm.GaussianReward:
    return mm.GaussianReward(
        known.matrix,
        names=known.names,
        groups=known.groups,
        mean=mean,
        scale=scale,
        residual=residual,
        on="state_action",
    )


# ---- scores ----------------------------------------------------------------------------------------------------------


def _book(mice: Mice, memory: int) -> Book:
    """Where sums are kept, each mouse held out in turn."""
    demonstrations = mice.demonstrations[memory]
    return Book(mice.environments[memory], demonstrations, by_tasks(demonstrations, (0,))[0], "tasks", own_past=True)


def _scored(
    mice: Mice,
    model: Callable[[Mice], mm.RewardPolicyModel],
    names: Mapping[str, str],
    hold_out: Any = "tasks",
) -> pd.DataFrame:
    """A model, called what comes first in `names`, and what stands beside it there."""
    score = mm.score(
        {next(iter(names)): model(mice)},
        mice.environments[-1],
        mice.demonstrations[-1],
        METHOD,
        hold_out=hold_out,
        beside=[],
        seed=SEED,
    )
    print(score, flush=True)
    return _only(score.by_task, names)


def _only(by_task: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """Nats a choice by mouse of some models, under other names."""
    missing = set(names) - set(by_task["model"])
    assert not missing, f"no scores of {missing}; there are {set(by_task['model'])}"
    found = by_task[by_task["model"].isin(names)]
    assert not found.duplicated(["model", "task"]).any(), "several scores of one model"
    return found.assign(model=found["model"].map(names))[["model", "task", "log_likelihood", "choices"]]


# ---- what is written -------------------------------------------------------------------------------------------------


def summary(results: Mapping[str, Any]) -> str:
    """Two tables and their differences, in Markdown."""
    parts = []
    for rungs, unit, compared in (
        ([name for name in RUNGS if name not in FROM_ONE_MOUSE], BY_MOUSE, COMPARED),
        (FROM_ONE_MOUSE, BY_TRAINING_MOUSE, COMPARED_BY_ONE),
    ):
        rows = [row for name in rungs if name in results for row in results[name]["rows"]]
        if rows:
            parts.append(_markdown(pd.DataFrame(rows), unit, compared))
    spent = ["| computed | minutes | GiB at most | at |", "|---|---|---|---|"]
    spent += [
        f"| {name} | {found['seconds'] / 60:.1f} | {found['peak_gib']:.1f} | {found['commit']} |"
        for name, found in results.items()
    ]
    return "\n\n".join([*parts, "\n".join(spent)]) + "\n"


def _markdown(by_task: pd.DataFrame, unit: str, compared: Sequence[tuple[str, str]]) -> str:
    """Nats a choice of each model, then differences, paired by `unit`."""
    known = list(dict.fromkeys(by_task["model"]))
    choices = by_task.groupby("task")["choices"].nunique()
    assert (choices == 1).all(), f"models were scored on other choices of {list(choices.index[choices > 1])}"
    score = Score("tasks", known[0], by_task, pd.DataFrame(), {})
    table = score.table
    lines = [f"| model | nats a choice | ± by {unit} |", "|---|---|---|"]
    lines += [f"| {row.model} | {row.log_likelihood:.4f} | {row.standard_error:.4f} |" for row in table.itertuples()]
    lines += [
        "",
        f"{table['choices'].iloc[0]:,} choices, {table['tasks'].iloc[0]} × {unit}.",
        "",
        f"| difference | nats a choice | ± by {unit} |",
        "|---|---|---|",
    ]
    for better, worse in compared:
        if better in known and worse in known:
            row = score.against(worse).set_index("model").loc[better]
            lines.append(f"| {better} less {worse} | {row['difference']:+.4f} | {row['difference_se']:.4f} |")
    return "\n".join(lines).replace(" -", " −")


def main() -> None:
    given = _arguments()
    results = json.loads(given.out.read_text(encoding="utf-8"))["results"] if given.out.exists() else {}
    failed = []
    for name in given.rungs:
        if name in results:
            print(f"{name}: in {given.out} already", flush=True)
            continue
        print(f"{name} …", flush=True)
        begin = time.perf_counter()
        try:
            rows = RUNGS[name](given.data).to_dict("records")
        except Exception:  # the others take hours, and need not wait
            traceback.print_exc()
            failed.append(name)
            continue
        seconds = time.perf_counter() - begin
        results[name] = {"rows": rows, "seconds": seconds, "peak_gib": peak_memory(), "commit": commit()}
        print(f"{name}: {seconds:.0f} s, {peak_memory():.2f} GiB at most so far", flush=True)
        _write(given.out, json.dumps({"results": results}, indent=1, ensure_ascii=False))
        _write(given.out.with_suffix(".md"), summary(results))
    print(summary(results))
    if failed:
        sys.exit(f"not computed, for the reasons above: {', '.join(failed)}")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder mouse_labyrinth")
    parser.add_argument("--out", type=Path, default=Path("build/labyrinth.json"))
    parser.add_argument("--rungs", nargs="+", choices=RUNGS, default=list(RUNGS), help="which models; default: all")
    return parser.parse_args()


if __name__ == "__main__":
    main()
