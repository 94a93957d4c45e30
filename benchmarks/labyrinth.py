"""Which models predict where mice turn in a labyrinth? `make labyrinth DATA=path/to/mouse_labyrinth` (an hour).

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
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import manymotives as mm
from benchmarks.harness import commit, peak_memory
from benchmarks.labyrinth_features import features, with_memory
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
METHOD = mm.EmpiricalBayes(draws=20)  # a thousand, the default, would not fit into memory here
ONE_START = mm.EmpiricalBayes(draws=20, starts=1)  # where two models are compared that begin alike
SEED = 0

UNIFORM, COUNTS, HISTORY = "uniform", "counts", "counts with history"
LONGER, FURTHER = "counts with longer history, 6 nodes at most", "counts with longer history, 9 nodes at most"
OWN_LONGER, OWN_FURTHER = f"{LONGER}, own past", f"{FURTHER}, own past"
FREE_PAIRS, FREE = (f"{MOTIVES} free policies that switch, {memory} before" for memory in ("1 node", f"{MEMORY} nodes"))
FREE_POLICIES = f"free policies, {MOTIVES} that switch"  # as `mm.score` names those beside a model
ONE = "one motive for everybody"
SWITCHING = f"{MOTIVES} motives that switch"
OWN_PAST = f"{SWITCHING}, own past"
SWITCHING_PAIRS = f"{SWITCHING}, 1 node before"
PLANNING = f"{SWITCHING_PAIRS}, discount {PLANS_AHEAD:g}"
LEARNT_FROM_ONE = f"{FEW_MOTIVES} motives that switch"
COMPARED = (
    (SWITCHING, FREE),
    (SWITCHING, FREE_PAIRS),
    (SWITCHING, FURTHER),
    (SWITCHING, ONE),
    (SWITCHING_PAIRS, FREE_PAIRS),
    (PLANNING, SWITCHING_PAIRS),
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
    """Features without switching: a single motive, found as the others are."""
    return _fitted(read(folder), 1, ONE)


def switching_motives(folder: Path) -> pd.DataFrame:
    """Motives that switch: a new mouse as the others; then as its own past brings its motives nearer.

    Beside them as many free policies in the same states.
    """
    mice = read(folder)
    score = mm.score(
        {SWITCHING: everybodys(mice, MOTIVES)},
        mice.environments[-1],
        mice.demonstrations[-1],
        METHOD,
        hold_out=("tasks", "own past"),
        beside=[],
        seed=SEED,
        progress=False,
    )
    print(score, flush=True)
    return _only(score.by_task, {SWITCHING: SWITCHING, f"{SWITCHING} and own past": OWN_PAST, FREE_POLICIES: FREE})


def looking_ahead(folder: Path) -> pd.DataFrame:
    """Is it planning? The same motives of mice that look ahead, and of mice that do not; in states (previous, node)."""
    names = {0.0: SWITCHING_PAIRS, PLANS_AHEAD: PLANNING}
    return pd.concat([_fitted(read(folder, 1, discount), MOTIVES, name) for discount, name in names.items()])


def one_training_mouse(folder: Path) -> pd.DataFrame:
    """Learn from one mouse, predict all others."""
    mice = read(folder)
    environment, demonstrations = mice.environments[-1], mice.demonstrations[-1]
    model = everybodys(mice, FEW_MOTIVES)
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


RUNGS: dict[str, Callable[[Path], pd.DataFrame]] = {  # the longest first
    "motives": switching_motives,
    "looking-ahead": looking_ahead,
    "free-policies": free_policies,
    "counts": counts,
    "one-motive": one_motive,
    "one-mouse": one_training_mouse,
}
FROM_ONE_MOUSE = ("one-mouse",)


# ---- models of motives -----------------------------------------------------------------------------------------------


def everybodys(mice: Mice, motives: int) -> mm.RewardPolicyModel:
    """Motives that all mice share: weights around 0 with a scale for each group, and a residual for each pair."""
    known = features(mice.environments, mice.water)
    reward = mm.GaussianReward(
        known.matrix,
        mean=0.0,
        scale=mm.HalfNormal(0.5),
        names=known.names,
        on="state_action",
        groups=known.groups,
        residual=mm.HalfNormal(0.5),
    )
    return mm.RewardPolicyModel(reward, mm.SoftOptimal(), mm.Pooled(), mm.Switching(motives))


# ---- scores ----------------------------------------------------------------------------------------------------------


def _book(mice: Mice, memory: int) -> Book:
    """Where sums are kept, each mouse held out in turn."""
    demonstrations = mice.demonstrations[memory]
    return Book(mice.environments[memory], demonstrations, by_tasks(demonstrations, (0,))[0], "tasks", own_past=True)


def _fitted(mice: Mice, motives: int, name: str) -> pd.DataFrame:
    """So many motives, fitted without each mouse in turn."""
    book, model = _book(mice, len(mice.environments) - 1), everybodys(mice, motives)
    for number, split in enumerate(book.splits):
        training = only(book.demonstrations, split.trains)
        posterior: Any = mm.fit(model, book.environment, training, ONE_START, seed=SEED, progress=False)
        book.add_rows(name, number, posterior.log_predictions(book.demonstrations))
        print(f"  {name}: {number + 1} of {len(book.splits)} mice", flush=True)
    return _only(book.by_task(), {name: name})


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
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        begun = {pool.submit(_measured, name, given.data): name for name in given.rungs if name not in results}
        for done in as_completed(begun):
            name = begun[done]
            try:
                results[name] = done.result()
            except Exception:  # the others take long, and need not wait
                traceback.print_exc()
                failed.append(name)
                continue
            print(f"{name}: {results[name]['seconds']:.0f} s, {results[name]['peak_gib']:.2f} GiB at most", flush=True)
            _write(given.out, json.dumps({"results": results}, indent=1, ensure_ascii=False))
            _write(given.out.with_suffix(".md"), summary(results))
    print(summary(results))
    if failed:
        sys.exit(f"not computed, for the reasons above: {', '.join(failed)}")


def _measured(name: str, folder: Path) -> dict[str, Any]:
    """One part of the table, with what it took."""
    begin = time.perf_counter()
    rows = RUNGS[name](folder).to_dict("records")
    return {"rows": rows, "seconds": time.perf_counter() - begin, "peak_gib": peak_memory(), "commit": commit()}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder mouse_labyrinth")
    parser.add_argument("--jobs", type=int, default=2, help="how many parts of the table at a time")
    parser.add_argument("--out", type=Path, default=Path("build/labyrinth.json"))
    parser.add_argument("--rungs", nargs="+", choices=RUNGS, default=list(RUNGS), help="which models; default: all")
    return parser.parse_args()


if __name__ == "__main__":
    main()
