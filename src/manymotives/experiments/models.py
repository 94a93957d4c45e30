"""Fig. 1b: two models of the same chain. Loss against samples, MRP-MC and MPO-MC, with computing time.

Samples are rewards drawn from the prior: MRP-MC weighs each by the likelihood of the choices under its own temperature,
MPO-MC by how nearly optimal each of 100 policies drawn given the choices is for it. More policies change nothing here.
"""

import time
from dataclasses import dataclass

import numpy as np

import manymotives as mm
from manymotives.experiments.panel import Cell, Claim, Look, Panel, Row

SAMPLES = (10, 100, 1000, 10_000)
POLICIES = 100
CONVERGED = 0.95  # share of optimal actions in the second half, for a demonstrator that has learnt its task


@dataclass(frozen=True)
class Setting:
    """What the paper leaves open, and what it does not."""

    steps: int = 1000  # of the demonstration: the paper does not say
    epsilon: float = 0.01
    discount: float = 0.95
    optimality_rate: float = 1.0  # of β, exponential: the paper does not say
    policy_concentration: float = 1.0  # every policy equally likely beforehand: the paper does not say
    scale_free: bool = False  # losses in units of what there is to lose
    rewards_on: str = "state"


def run(setting: Setting, seed: int) -> dict[str, float]:
    """One demonstration; both models on it."""
    chain = mm.worlds.Chain(states=5, slip=0.2, discount=setting.discount)
    wanted = chain.reward
    assert wanted is not None  # a Chain has one
    shown = mm.simulate(
        chain, wanted, mm.worlds.ModelBasedLearner(epsilon=setting.epsilon), steps=setting.steps, seed=seed
    )
    reward = mm.DirichletReward(on=setting.rewards_on)
    softmax = mm.RewardPolicyModel(reward=reward)
    optimality = mm.PolicyOptimalityModel(
        reward=reward,
        policy=mm.optimality.DirichletPolicy(setting.policy_concentration),
        optimality=mm.optimality.ExponentialOptimality(rate=setting.optimality_rate),
        scale_free=setting.scale_free,
    )
    best = mm.plan(chain, wanted).actions
    later = slice(len(shown.action) // 2, None)
    has_learnt = np.mean(shown.action[later] == best[shown.state[later]]) >= CONVERGED
    found = {"flag/converged/0": float(has_learnt)}
    for samples in SAMPLES:
        for name, model, method in (
            ("MRP-MC", softmax, mm.MonteCarlo(draws=samples)),
            ("MPO-MC", optimality, mm.OptimalityMonteCarlo(draws=POLICIES, num_rewards=samples)),
        ):
            if samples == SAMPLES[0]:  # one fit that is not timed: the first loads compiled code
                mm.fit(model, chain, shown, method, seed=seed, progress=False)
            begin = time.perf_counter()
            posterior = mm.fit(model, chain, shown, method, seed=seed, progress=False)
            policy = posterior.policies().values[0]
            found[f"seconds/{name}/{samples}"] = time.perf_counter() - begin
            found[f"loss/{name}/{samples}"] = float(mm.loss(chain, policy, wanted))
            statistics = posterior.data["sample_stats"]
            size = statistics["effective_sample_size" if name == "MRP-MC" else "effective_rewards"]
            found[f"ess/{name}/{samples}"] = size.item()
    for name, greedy in (("Imit", False), ("Imit, most frequent action", True)):
        imitator = mm.baselines.imitation(chain, shown, greedy=greedy)
        found[f"loss/{name}/0"] = float(mm.loss(chain, imitator.policies.values[0], wanted))
    return found


def at_most_samples(row: Row) -> float:
    return float(np.log(row[f"seconds/MPO-MC/{SAMPLES[-1]}"] / row[f"seconds/MRP-MC/{SAMPLES[-1]}"]))


def growth(row: Row) -> float:
    """How much less than fourfold the factor between the two changes while samples grow a hundredfold."""
    first, last = (
        np.log(row[f"seconds/MPO-MC/{samples}"] / row[f"seconds/MRP-MC/{samples}"])
        for samples in (SAMPLES[-3], SAMPLES[-1])
    )
    return float(np.log(4.0) - abs(last - first))


def difference(row: Row) -> float:
    return float(np.mean([row[f"loss/MRP-MC/{x}"] - row[f"loss/MPO-MC/{x}"] for x in SAMPLES]))


PANEL = Panel(
    name="models",
    figure="Fig. 1b",
    title="MRP-MC and MPO-MC on the chain",
    runs=1000,
    quick=10,
    more=100,
    run=run,
    readings={
        "1000 steps": (Cell(Setting()),),
        "100 steps": (Cell(Setting(steps=100)),),
        "rewards on pairs": (Cell(Setting(rewards_on="state_action")),),
        "scale-free loss": (Cell(Setting(scale_free=True, optimality_rate=10.0)),),
    },
    notes={
        "1000 steps": "one demonstration of 1000 steps, rewards on states",
        "100 steps": "a shorter demonstration: the length is not given",
        "rewards on pairs": "both models put rewards on state–action pairs",
        "scale-free loss": "MPO losses are relative to the largest possible one, so flat rewards are not favoured",
    },
    look=Look(("MRP-MC", "MPO-MC"), "rewards drawn from the prior"),
    claims=(
        Claim(
            "MPO takes longer",
            "the actual computing time of MPO is larger",
            f"log of the ratio of computing times of `fit`, MPO-MC to MRP-MC, with {SAMPLES[-1]:,} samples",
            at_most_samples,
            unit="log ratio",
        ),
        Claim(
            "by a constant factor",
            "… larger by a constant factor",
            f"log 4 less the change of that log ratio between {SAMPLES[-3]:,} and {SAMPLES[-1]:,} samples: above 0, "
            "the factor changes less than fourfold while samples grow a hundredfold",
            growth,
            unit="log ratio",
        ),
        Claim(
            "MPO-MC is better than MRP-MC",
            "control: the paper shows both curves and does not say which is better",
            "loss of MRP-MC less loss of MPO-MC, mean over the numbers of samples",
            difference,
            kind="control",
        ),
    ),
    seconds=0.6,
    subsets={"converged": lambda row: row["flag/converged/0"] == 1.0},
)
