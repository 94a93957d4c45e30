"""Fig. 1a: which sampler for MRP, on the chain. Loss against total samples, MRP-MH with 1, 2, 4, 8 chains and MRP-MC.

One task, the five-state chain; the demonstrator learns while it acts. A sample of MRP-MC is a draw from the prior. A
sample of MRP-MH is a sweep; its warm-up is counted, and so are the 64 draws from the prior among which each chain finds
its start. With few samples many chains are therefore not possible, and the curves begin where they are.
"""

from dataclasses import dataclass

import numpy as np

import manymotives as mm
from manymotives.experiments.panel import Cell, Claim, Look, Panel, Row

SAMPLES = (128, 256, 512, 1024, 2048)  # in all
CHAINS = (1, 2, 4, 8)
START = 64  # draws from the prior for the start of a chain
WARMUP = 32  # sweeps of a chain that are not kept
THIN = 4  # one sweep in four is kept: neighbours are much alike, and each costs a diagnosis
CONVERGED = 0.95  # share of optimal actions in the second half, for a demonstrator that has learnt its task


@dataclass(frozen=True)
class Setting:
    """What the paper leaves open, and what it does not."""

    steps: int = 1000  # of the demonstration: the paper does not say
    burn_in: int = 0  # steps made but not shown
    epsilon: float = 0.01
    discount: float = 0.95
    rewards_on: str = "state"


def run(setting: Setting, seed: int) -> dict[str, float]:
    """One demonstration; all samplers on it."""
    chain = mm.worlds.Chain(states=5, slip=0.2, discount=setting.discount)
    wanted = chain.reward
    assert wanted is not None  # a Chain has one
    learner = mm.worlds.ModelBasedLearner(epsilon=setting.epsilon, burn_in=setting.burn_in)
    shown = mm.simulate(chain, wanted, learner, steps=setting.steps, seed=seed)
    model = mm.RewardPolicyModel(reward=mm.DirichletReward(on=setting.rewards_on))
    truth = np.array([0.2, 0.0, 0.0, 0.0, 1.0]) / 1.2  # the chain's reward, in the units of a Dirichlet distribution
    found: dict[str, float] = {"flag/converged/0": is_converged(chain, shown)}

    def note(name: str, samples: int, mean_reward: np.ndarray) -> None:
        policy = mm.plan(chain, mean_reward, on=setting.rewards_on).policy
        found[f"loss/{name}/{samples}"] = float(mm.loss(chain, policy, wanted))
        by_state = mean_reward if mean_reward.ndim == 1 else mean_reward.sum(axis=1)
        found[f"reward error/{name}/{samples}"] = float(np.abs(by_state - truth).sum())

    for chains in CHAINS:
        spent = chains * (START + WARMUP)
        method = mm.Metropolis(
            chains=chains, draws=(SAMPLES[-1] - spent) // chains // THIN, warmup=WARMUP // THIN, thin=THIN
        )
        posterior = mm.fit(model, chain, shown, method, seed=seed, progress=False)
        draws = posterior.rewards.isel(task=0).values  # [chain, draw, S(, A)]
        for samples in SAMPLES:
            kept = (samples - spent) // chains // THIN
            if kept > 0:
                note(f"MRP-MH {chains}", samples, draws[:, :kept].mean(axis=(0, 1)))
    so_far, made = None, 0
    for samples in SAMPLES:  # each goes on from the one before: the first draws of many are the few
        simple = mm.MonteCarlo(draws=samples - made)
        so_far = mm.fit(model, chain, shown, simple, seed=seed, progress=False, start=so_far)
        made = samples
        note("MRP-MC", samples, so_far.mean_reward.isel(task=0).values)
        found[f"ess/MRP-MC/{samples}"] = so_far.data["sample_stats"]["effective_sample_size"].item()
    imitators = (mm.baselines.imitation(chain, shown, greedy=greedy) for greedy in (False, True))
    for name, imitator in zip(("Imit", "Imit, most frequent action"), imitators):
        found[f"loss/{name}/0"] = float(mm.loss(chain, imitator.policies.values[0], wanted))
    return found


def is_converged(chain: mm.Environment, shown: mm.Demonstrations) -> float:
    """1 if nearly all actions of the second half are optimal; else 0."""
    wanted = chain.reward
    assert wanted is not None  # a Chain has one
    best = mm.plan(chain, wanted).actions
    later = slice(len(shown.action) // 2, None)
    return float(np.mean(shown.action[later] == best[shown.state[later]]) >= CONVERGED)


def advantage(other: str) -> Claim:
    """Whether the single chain is better than another sampler, wherever both have a curve."""

    def effect(row: Row) -> float:
        both = [x for x in SAMPLES if f"loss/{other}/{x}" in row]
        return float(np.mean([row[f"loss/{other}/{x}"] - row[f"loss/MRP-MH 1/{x}"] for x in both]))

    return Claim(
        f"one chain against {other}",
        "for the MRP model, results slightly favour the single chain MH sampler",
        f"loss of {other} less loss of MRP-MH with one chain, mean over the numbers of samples both have",
        effect,
    )


def reward_advantage(row: Row) -> float:
    """The same in the error of the reward, which tells samplers apart where policies do not."""
    return row[f"reward error/MRP-MC/{SAMPLES[-1]}"] - row[f"reward error/MRP-MH 1/{SAMPLES[-1]}"]


PANEL = Panel(
    name="samplers",
    figure="Fig. 1a",
    title="Samplers for MRP on the chain",
    runs=1000,
    quick=10,
    more=100,
    run=run,
    readings={
        "1000 steps": (Cell(Setting()),),
        "100 steps": (Cell(Setting(steps=100)),),
        "second half shown": (Cell(Setting(burn_in=1000)),),
        "rewards on pairs": (Cell(Setting(rewards_on="state_action")),),
    },
    notes={
        "1000 steps": "all steps are shown, including the first ones",
        "100 steps": "a shorter demonstration: the length is not given",
        "second half shown": "1000 steps after 1000 that are not shown, as in the authors' code",
        "rewards on pairs": "the model puts rewards on state–action pairs",
    },
    look=Look(("MRP-MH 1", "MRP-MH 2", "MRP-MH 4", "MRP-MH 8", "MRP-MC"), "total samples"),
    claims=(
        *(advantage(other) for other in ("MRP-MH 2", "MRP-MH 4", "MRP-MH 8", "MRP-MC")),
        Claim(
            "one chain against MRP-MC, by the reward itself",
            "control: the greedy policy needs only one reward from the right cone; the reward itself tells more",
            f"Σ|mean reward − truth| of MRP-MC less that of MRP-MH 1, at {SAMPLES[-1]} samples",
            reward_advantage,
            unit="reward",
            kind="control",
        ),
    ),
    seconds=0.9,
    subsets={"converged": lambda row: row["flag/converged/0"] == 1.0},
)
