"""Fig. 3a: random MDPs, twenty tasks of one 50-step demonstration each. Loss against the inverse temperature.

Rewards come from one Dirichlet distribution whose parameters are Gamma(1, 10): scale, rate and the order of arguments
are open, and each reading is another experiment. All tasks of a run share their transitions. The models know what the
parameters were drawn from, not what came out, and not the temperature. Baselines are run task by task and pooled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import manymotives as mm
from manymotives.experiments.panel import Cell, Claim, Look, Panel, Row

TEMPERATURES = (2.0, 4.0, 6.0, 8.0)
HYPERPRIORS = {  # (shape, rate)
    "scale 10": (1.0, 0.1),
    "rate 10": (1.0, 10.0),
    "shape 10": (10.0, 1.0),
}
CHOICES = {  # what the models believe of the temperature: the paper gives no hyperprior
    "hierarchical": mm.Softmax(),  # a shape and a rate for the population, inferred: the library's default
    "fixed": mm.Softmax(inverse_temperature=mm.Gamma(shape=2.0, rate=0.5)),  # nothing shared but the rewards
}
MH = mm.Metropolis(chains=1, draws=100, warmup=100, thin=20)  # what more would change: the reading "HMC"
FLAT_MH = mm.Metropolis(chains=1, draws=100, warmup=100, thin=10)
HMC = mm.HMC(chains=1, draws=200, warmup=150, thin=4, max_rounds=1)
WALK = mm.Metropolis(chains=1, draws=100, warmup=100, thin=5)
ITERATIONS = 200  # of MWAL


@dataclass(frozen=True)
class Setting:
    """What the paper leaves open, and what it does not."""

    temperature: float
    hyperprior: str = "scale 10"
    is_dense: bool = False  # next states from a Dirichlet distribution; else nearly deterministic
    states: int = 8
    actions: int = 4
    tasks: int = 20
    steps: int = 50
    discount: float = 0.95
    rewards_on: str = "state"
    sampler: str = "MH"
    choice: str = "hierarchical"


def run(setting: Setting, seed: int) -> dict[str, float]:
    """One environment, twenty tasks; all methods on their demonstrations."""
    world, rewards, prior = problem(setting, seed)
    on = setting.rewards_on
    rule = mm.Softmax(inverse_temperature=setting.temperature)
    shown = mm.simulate(world, rewards, rule, steps=setting.steps, seed=seed, on=on)

    def fitted(sharing: Any, method: Any) -> np.ndarray:
        model = mm.RewardPolicyModel(reward=prior, choice=CHOICES[setting.choice], sharing=sharing)
        return mm.fit(model, world, shown, method, seed=seed, progress=False).policies().values

    method = MH if setting.sampler == "MH" else HMC
    policies = {
        "soft": rule.policies(world, rewards, on=on),
        "MRP-MH": fitted(mm.Hierarchical(), method),
        "RP-MH": fitted(mm.Pooled(), FLAT_MH),
        "RP-MH, task by task": fitted(mm.Separate(), method),
    }
    for suffix, data in (("", shown), (", pooled", shown.pooled())):
        baselines = {
            "LinProg": mm.baselines.linear_program(world, data, on=on),
            "PolWalk": mm.baselines.policy_walk(world, data, choice=rule, method=WALK, on=on, seed=seed),
            "MWAL": mm.baselines.mwal(world, data, on=on, iterations=ITERATIONS),
        }
        policies |= {f"{name}{suffix}": result.policies.values for name, result in baselines.items()}
    policies["Imit"] = mm.baselines.imitation(world, shown).policies.values
    policies["Imit, most frequent action"] = mm.baselines.imitation(world, shown, greedy=True).policies.values
    at = f"{setting.temperature:g}"
    return {f"loss/{name}/{at}": mean_loss(world, policy, rewards, on) for name, policy in policies.items()}


def problem(setting: Setting, seed: int) -> tuple[mm.Environment, np.ndarray, mm.DirichletReward]:
    """An environment, true rewards, and the prior of the models."""
    size: dict[str, Any] = {
        "states": setting.states,
        "actions": setting.actions,
        "discount": setting.discount,
        "seed": seed,
    }
    world = mm.worlds.DirichletMDP(**size) if setting.is_dense else mm.worlds.RandomMDP(**size)
    shape, rate = HYPERPRIORS[setting.hyperprior]
    on_pairs = setting.rewards_on == "state_action"
    cells = (setting.states, setting.actions) if on_pairs else (setting.states,)
    rng = np.random.default_rng([seed, 1])
    concentration = rng.gamma(shape, 1.0 / rate, size=np.prod(cells))
    rewards = dirichlet(rng, concentration, setting.tasks).reshape(setting.tasks, *cells)
    prior = mm.DirichletReward(concentration=mm.Gamma(shape=shape, rate=rate), on=setting.rewards_on)
    return world, rewards, prior


def dirichlet(rng: np.random.Generator, concentration: np.ndarray, count: int) -> np.ndarray:
    """Rewards [count, S] from a Dirichlet distribution, whose parameters may be so small that a Gamma draw is 0."""
    shape = (count, len(concentration))
    logs = np.log(rng.gamma(concentration + 1.0, size=shape)) + np.log(1.0 - rng.random(shape)) / concentration
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def mean_loss(world: mm.Environment, policies: np.ndarray, rewards: np.ndarray, on: str) -> float:
    """The paper's total loss over all tasks, per task."""
    return float(mm.loss(world, policies, rewards, on=on).mean())


def between(worse: str, better: str) -> Callable[[Row], float]:
    """Loss of one method less loss of another, mean over temperatures."""

    def effect(row: Row) -> float:
        return float(np.mean([row[f"loss/{worse}/{c:g}"] - row[f"loss/{better}/{c:g}"] for c in TEMPERATURES]))

    return effect


def cells(**settings: Any) -> tuple[Cell, ...]:
    return tuple(Cell(Setting(c, **settings), f"c = {c:g}") for c in TEMPERATURES)


FLAT = "flat MH can recover reward functions that lead to policies that outperform the demonstrator"
CLEAR = "the multi-task model MRP-MH shows a clear additional improvement"

PANEL = Panel(
    name="temperature",
    figure="Fig. 3a",
    title="Random MDPs, 20 tasks",
    runs=100,
    quick=3,
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
        "rate 10, rewards on pairs": cells(hyperprior="rate 10", rewards_on="state_action"),
        "scale 10, 16 states, 2 actions": cells(states=16, actions=2),
        "scale 10, HMC": cells(sampler="HMC"),
        "scale 10, another prior of c": cells(choice="fixed"),
    },
    notes={
        "scale 10": "Gamma with shape 1, scale 10; near-deterministic transitions; 8 states, 4 actions; state rewards",
        "rate 10": "Gamma with shape 1 and rate 10: sparse rewards",
        "shape 10": "Gamma with shape 10 and rate 1: nearly equal rewards",
        "scale 10, dense": "next states from Dirichlet(1, …, 1)",
        "rate 10, dense": "sparse rewards, dense transitions",
        "shape 10, dense": "nearly equal rewards, dense transitions",
        "scale 10, rewards on pairs": "rewards on state–action pairs, true ones and inferred ones",
        "rate 10, rewards on pairs": "sparse rewards on pairs",
        "scale 10, 16 states, 2 actions": "another size: the paper gives none",
        "scale 10, HMC": "the library's default sampler instead of a random walk",
        "scale 10, another prior of c": "inverse temperatures from Gamma(shape 2, rate 0.5), not from a population",
    },
    look=Look(
        ("soft", "RP-MH", "MRP-MH", "LinProg", "PolWalk", "MWAL", "RP-MH, task by task", "Imit, most frequent action"),
        "inverse temperature c",
        y="loss per task",
        log_x=False,
    ),
    claims=(
        Claim(
            "RP-MH outperforms the demonstrator",
            FLAT,
            "loss of soft less loss of RP-MH, mean over c",
            between("soft", "RP-MH"),
        ),
        Claim(
            "MRP-MH improves on RP-MH",
            CLEAR,
            "loss of RP-MH less loss of MRP-MH, mean over c",
            between("RP-MH", "MRP-MH"),
        ),
        *(
            Claim(
                f"MRP-MH is better than {name}",
                "comparison in the figure",
                f"loss of {name} less loss of MRP-MH, mean over c",
                between(name, "MRP-MH"),
                kind=kind,
            )
            for name, kind in (
                ("LinProg", "paper"),
                ("PolWalk", "paper"),
                ("MWAL", "paper"),
                ("LinProg, pooled", "control"),
                ("PolWalk, pooled", "control"),
                ("MWAL, pooled", "control"),
                ("Imit, most frequent action", "control"),
            )
        ),
        Claim(
            "a population helps",
            "control: is it the multitask prior that gains, or inference for each task?",
            "loss of RP-MH task by task less loss of MRP-MH, mean over c",
            between("RP-MH, task by task", "MRP-MH"),
            kind="control",
        ),
    ),
    seconds=3.5,
)
