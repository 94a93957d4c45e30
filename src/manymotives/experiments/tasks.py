"""Fig. 3b: the random MDPs of Fig. 3a at c = 8. Loss against the number of tasks that are known together.

Every run has the same forty tasks at every point of the curves, cut into groups of M: unpaired designs drown in noise.
A group of one is a task on its own: there MRP-MH and RP-MH are the same model, and one fit of `Separate()` is both.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import manymotives as mm
from manymotives.experiments import temperature
from manymotives.experiments.panel import Cell, Claim, Look, Panel, Row
from manymotives.experiments.temperature import CHOICES, FLAT_MH, HMC, ITERATIONS, MH, WALK, mean_loss, problem

SIZES = (1, 5, 20, 40)  # tasks that are known together


@dataclass(frozen=True)
class Setting(temperature.Setting):
    """What the paper leaves open, and what it does not."""

    temperature: float = 8.0
    tasks: int = SIZES[-1]


def run(setting: Setting, seed: int) -> dict[str, float]:
    """One environment, forty tasks, cut into groups of each size; all methods on every group."""
    world, rewards, prior = problem(setting, seed)
    on, everybody = setting.rewards_on, setting.tasks
    rule = mm.Softmax(inverse_temperature=setting.temperature)
    shown = mm.simulate(world, rewards, rule, steps=setting.steps, seed=seed, on=on)
    table = shown.to_frame()
    method = MH if setting.sampler == "MH" else HMC

    def fitted(sharing: Any, some: mm.Demonstrations, by: Any, group: int) -> np.ndarray:
        model = mm.RewardPolicyModel(reward=prior, choice=CHOICES[setting.choice], sharing=sharing)
        return mm.fit(model, world, some, by, seed=seed + group, progress=False).policies().values

    def baselines(some: mm.Demonstrations) -> dict[str, np.ndarray]:
        found = {
            "LinProg": mm.baselines.linear_program(world, some, on=on),
            "PolWalk": mm.baselines.policy_walk(world, some, choice=rule, method=WALK, on=on, seed=seed),
            "MWAL": mm.baselines.mwal(world, some, on=on, iterations=ITERATIONS),
        }
        return {name: result.policies.values for name, result in found.items()}

    # what takes each task alone is the same whatever the size of the group
    alone = baselines(shown)
    single = fitted(mm.Separate(), shown, method, 0)
    alone |= {
        "soft": rule.policies(world, rewards, on=on),
        "RP-MH, task by task": single,
        "Imit, most frequent action": mm.baselines.imitation(world, shown, greedy=True).policies.values,
    }
    found = {}
    for size in SIZES:
        parts: dict[str, list[np.ndarray]] = {}
        for group in range(everybody // size if size > 1 else 0):
            members = range(group * size, (group + 1) * size)
            some = mm.Demonstrations.from_frame(
                table[table["task"].isin(members)], world, task="task", episode="episode", step="step"
            )
            policies = {
                "MRP-MH": fitted(mm.Hierarchical(), some, method, group),
                "RP-MH": fitted(mm.Pooled(), some, FLAT_MH, group),
            }
            for name, policy in baselines(some.pooled()).items():
                policies[f"{name}, pooled"] = np.repeat(policy, size, axis=0)
            for name, policy in policies.items():
                parts.setdefault(name, []).append(policy)
        if size == 1:
            together = {"MRP-MH": single, "RP-MH": single}
        else:
            together = {name: np.concatenate(policies) for name, policies in parts.items()}
        for name, policy in (alone | together).items():
            found[f"loss/{name}/{size}"] = mean_loss(world, policy, rewards, on)
    return found


def slope(*series: str) -> Callable[[Row], float]:
    """Slope against the logarithm (base 10) of the number of tasks: of a loss, or of the first loss less the second."""
    x = np.log10(SIZES)
    weights = (x - x.mean()) / np.square(x - x.mean()).sum()

    def effect(row: Row) -> float:
        values = [row[f"loss/{series[0]}/{size}"] for size in SIZES]
        if len(series) == 2:
            values = [value - row[f"loss/{series[1]}/{size}"] for value, size in zip(values, SIZES)]
        return float(weights @ np.array(values))

    return effect


def falls(row: Row) -> float:
    return -slope("MRP-MH")(row)


def still_ahead(row: Row) -> float:
    return row["loss/soft/40"] - row["loss/RP-MH/40"]


def from_five(row: Row) -> float:
    return row["loss/RP-MH/40"] - row["loss/RP-MH/5"]


def population_helps(row: Row) -> float:
    return row["loss/RP-MH, task by task/40"] - row["loss/MRP-MH/40"]


def cells(**settings: Any) -> tuple[Cell, ...]:
    return (Cell(Setting(**settings)),)


GROWS = (
    "this increases with the number of available demonstrations, "
    "indicating that the task distribution is estimated well"
)
SLOWLY = "RP-MH degrades slowly, due to its assumption that all demonstrations share a common reward function"

PANEL = Panel(
    name="tasks",
    figure="Fig. 3b",
    title="Random MDPs, c = 8",
    runs=100,
    quick=2,
    more=30,
    run=run,
    readings={
        "scale 10": cells(),
        "rate 10": cells(hyperprior="rate 10"),
        "shape 10": cells(hyperprior="shape 10"),
        "scale 10, dense": cells(is_dense=True),
        "rate 10, dense": cells(hyperprior="rate 10", is_dense=True),
        "shape 10, dense": cells(hyperprior="shape 10", is_dense=True),
        "scale 10, rewards on pairs": cells(rewards_on="state_action"),
        "scale 10, 16 states, 2 actions": cells(states=16, actions=2),
        "scale 10, HMC": cells(sampler="HMC"),
    },
    notes={
        name: note
        for name, note in temperature.PANEL.notes.items()
        if name not in ("rate 10, rewards on pairs", "scale 10, another prior of c")
    },
    look=Look(
        ("soft", "RP-MH", "MRP-MH", "LinProg", "PolWalk", "MWAL", "PolWalk, pooled", "Imit, most frequent action"),
        "tasks known together",
        y="loss per task",
    ),
    claims=(
        Claim(
            "the improvement over RP-MH increases",
            GROWS,
            "slope of (loss of RP-MH less loss of MRP-MH) against the number of tasks: "
            "the change per tenfold increase of tasks",
            slope("RP-MH", "MRP-MH"),
        ),
        Claim(
            "MRP-MH gets better with more tasks",
            GROWS,
            "minus the slope of the loss of MRP-MH: the decrease per tenfold increase of tasks",
            falls,
        ),
        Claim(
            "RP-MH degrades",
            SLOWLY,
            "slope of the loss of RP-MH: the change per tenfold increase of tasks",
            slope("RP-MH"),
        ),
        Claim(
            "RP-MH degrades where all of it is pooled",
            SLOWLY,
            "loss of RP-MH with 40 tasks less that with 5: without the step from one task to several",
            from_five,
        ),
        Claim(
            "… slowly: it stays ahead of the demonstrator",
            SLOWLY,
            "loss of soft less loss of RP-MH, 40 tasks",
            still_ahead,
        ),
        Claim(
            "a population helps",
            "control: is it the multitask prior that gains, or inference for each task?",
            "loss of RP-MH task by task less loss of MRP-MH, 40 tasks",
            population_helps,
            kind="control",
        ),
    ),
    seconds=15.0,
)
