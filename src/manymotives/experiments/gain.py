"""Fig. 2b: what several tasks gain, on the generalised chain: ten demonstrations of 1, 2, 5 or 10 tasks.

Task m has the m-th of ten rewards from a Dirichlet distribution, whatever the number of tasks; ten learners, each new,
are spread evenly over the tasks. The paper's imitator seems to be one for all demonstrations; one for each task is the
fair comparison. "MRP-MC, everything pooled" is what the authors' code computes: the likelihood of *all* demonstrations
for every task, so one reward for everybody.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import manymotives as mm
from manymotives.experiments.panel import Cell, Claim, Look, Panel, Row

TASKS = (1, 2, 5, 10)
DEMONSTRATIONS = 10
SAMPLES = 1000  # of MRP-MC
POPULATIONS, INNER = 100, 100  # of the nested sampler
CONVERGED = 0.95  # share of optimal actions in the second half, for demonstrators that have learnt their tasks


@dataclass(frozen=True)
class Setting:
    """What the paper leaves open, and what it does not."""

    steps: int = 100  # of each demonstration: the paper does not say
    epsilon: float = 0.01
    discount: float = 0.95
    concentration: float = 1.0  # of the rewards: the paper says only "a Dirichlet prior"
    knows_population: bool = False  # whether the models know that concentration
    rewards_on: str = "state"


def run(setting: Setting, seed: int) -> dict[str, float]:
    """Ten rewards and ten learners, grouped in four ways; all methods on each."""
    chain = mm.worlds.Chain(states=5, slip=0.2, discount=setting.discount)
    rewards = np.random.default_rng(seed).dirichlet(np.full(5, setting.concentration), size=DEMONSTRATIONS)
    prior = mm.DirichletReward(on=setting.rewards_on)
    if setting.knows_population:
        prior = mm.DirichletReward(concentration=setting.concentration, on=setting.rewards_on)
    found: dict[str, float] = {}
    for tasks in TASKS:
        each = DEMONSTRATIONS // tasks
        motives = np.repeat(rewards[:tasks], each, axis=0)  # of the ten learners
        learner = mm.worlds.ModelBasedLearner(epsilon=setting.epsilon)
        made = mm.simulate(chain, motives, learner, steps=setting.steps, seed=seed)
        table = made.to_frame().rename(columns={"task": "learner"})
        table["task"] = table["learner"] // each
        shown = mm.Demonstrations.from_frame(table, chain, task="task", episode="learner", step="step")
        best = mm.plan(chain, motives).actions
        later = made.step >= setting.steps // 2
        optimal = made.action == best[made.task, made.state]
        found[f"learnt/share/{tasks}"] = float(optimal[later].mean())

        def loss(policies: np.ndarray, tasks: int = tasks) -> float:
            return float(mm.loss(chain, policies, rewards[:tasks]).mean())

        for name, model, method in (
            ("MRP-MC", mm.Hierarchical(), mm.MonteCarlo(draws=SAMPLES)),
            ("MRP-MC, nested", mm.Hierarchical(), mm.NestedMonteCarlo(draws=POPULATIONS, inner=INNER)),
            ("MRP-MC, task by task", mm.Separate(), mm.MonteCarlo(draws=SAMPLES)),
            ("MRP-MC, everything pooled", mm.Pooled(), mm.MonteCarlo(draws=SAMPLES)),
        ):
            if name.endswith("pooled") and tasks < TASKS[-1]:
                continue
            chosen_model = mm.RewardPolicyModel(reward=prior, sharing=model)
            posterior = mm.fit(chosen_model, chain, shown, method, seed=seed, progress=False)
            found[f"loss/{name}/{tasks}"] = loss(posterior.policies().values)
            found[f"ess/{name}/{tasks}"] = float(posterior.data["sample_stats"]["effective_sample_size"].min())
        for name, seen, greedy in (
            ("Imit, pooled", shown.pooled(), False),
            ("Imit, task by task", shown, False),
            ("Imit, task by task, most frequent action", shown, True),
        ):
            imitator = mm.baselines.imitation(chain, seen, greedy=greedy)
            found[f"loss/{name}/{tasks}"] = loss(imitator.policies.values)
        for name in ("Imit, pooled", "Imit, task by task", "Imit, task by task, most frequent action"):
            for model_name in ("MRP-MC", "MRP-MC, nested"):
                gained = found[f"loss/{name}/{tasks}"] - found[f"loss/{model_name}/{tasks}"]
                found[f"gain/{model_name} over {name}/{tasks}"] = gained
    return found


def slope(series: str) -> Callable[[Row], float]:
    """Least-squares slope of a gain against the logarithm (base 10) of the number of tasks."""
    x = np.log10(TASKS)
    weights = (x - x.mean()) / np.square(x - x.mean()).sum()

    def effect(row: Row) -> float:
        return float(sum(weight * row[f"gain/{series}/{tasks}"] for weight, tasks in zip(weights, TASKS)))

    return effect


def sharing_gains(row: Row) -> float:
    """What a population adds to inference task by task, with the same kind of sampler, at ten tasks."""
    return row["loss/MRP-MC, task by task/10"] - row["loss/MRP-MC, nested/10"]


def letter_gains(row: Row) -> float:
    return row["loss/MRP-MC, task by task/10"] - row["loss/MRP-MC/10"]


def pooling_gains(row: Row) -> float:
    return row["loss/Imit, pooled/10"] - row["loss/MRP-MC, everything pooled/10"]


GROWS = "As the number of tasks increases, so does the performance gain of the multitask prior relative to an imitator"
ADDS = (
    "slope of (loss of the imitator less loss of the model) against the number of tasks: "
    "the change per tenfold increase of tasks"
)

PANEL = Panel(
    name="gain",
    figure="Fig. 2b",
    title="Gain over an imitator on the generalised chain",
    runs=1000,
    quick=10,
    more=100,
    run=run,
    readings={
        "population unknown": (Cell(Setting()),),
        "population known": (Cell(Setting(knows_population=True)),),
        "1000 steps": (Cell(Setting(steps=1000)),),
        "sparse rewards": (Cell(Setting(concentration=0.2)),),
        "rewards on pairs": (Cell(Setting(rewards_on="state_action")),),
    },
    notes={
        "population unknown": "rewards from Dirichlet(1, …, 1), which the models do not know; 100 steps each",
        "population known": "the models know the Dirichlet distribution: there is nothing to share",
        "1000 steps": "longer demonstrations: the length is not given",
        "sparse rewards": "rewards from Dirichlet(0.2, …): most tasks want a single state",
        "rewards on pairs": "the models put rewards on state–action pairs",
    },
    look=Look(
        ("MRP-MC over Imit, pooled", "MRP-MC over Imit, task by task", "MRP-MC, nested over Imit, task by task"),
        "tasks",
        y="gain (loss of Imit less loss of MRP-MC)",
        measure="gain",
    ),
    claims=(
        Claim("gain grows with tasks, pooled imitator", GROWS, ADDS, slope("MRP-MC over Imit, pooled")),
        Claim(
            "gain grows with tasks, one imitator per task",
            GROWS,
            ADDS,
            slope("MRP-MC over Imit, task by task"),
        ),
        Claim(
            "gain grows with tasks, one imitator per task, nested sampler",
            GROWS,
            f"{ADDS}; with a sampler whose weights do not collapse",
            slope("MRP-MC, nested over Imit, task by task"),
        ),
        Claim(
            "gain over the most frequent action grows with tasks",
            "control: a free gain comes from acting consistently",
            ADDS,
            slope("MRP-MC, nested over Imit, task by task, most frequent action"),
            kind="control",
        ),
        Claim(
            "a population helps",
            "control: is it the multitask prior that gains?",
            "loss of inference task by task less loss of the multitask model (nested sampler), ten tasks",
            sharing_gains,
            kind="control",
        ),
        Claim(
            "a population helps, Algorithm 1",
            "control: Algorithm 1 to the letter, whose weights collapse with many tasks",
            "loss of inference task by task less loss of MRP-MC, ten tasks",
            letter_gains,
            kind="control",
        ),
        Claim(
            "the authors' MRP-MC gains over the pooled imitator",
            "artefact: with the likelihood of all demonstrations for every task MRP-MC is not multitask",
            "loss of the pooled imitator less loss of MRP-MC with everything pooled, ten tasks",
            pooling_gains,
            kind="artefact",
        ),
    ),
    seconds=0.9,
    subsets={"converged": lambda row: min(row[f"learnt/share/{tasks}"] for tasks in TASKS) >= CONVERGED},
)
