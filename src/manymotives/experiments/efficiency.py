"""Fig. 2c, d: does a long demonstration help, on the single-task chain? Imit, MWAL, MRP-MC, MPO-MC against samples.

The panels differ in the length of the demonstration, 10³ and 10⁴ steps; the first is the beginning of the second.
Two curves are there to show an artefact: "MRP-MC, weights underflow" is MRP-MC with weights exp(log-likelihood) that
are not kept in log space. Where all of them come out as 0 there is no mean reward, and a planner without one plays
action 0: "back" in one curve, as in the authors' code, "forward" in the other, which is the optimal policy by accident.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import manymotives as mm
from manymotives.experiments.panel import Cell, Claim, Look, Panel, Row

SAMPLES = (10, 100, 1000, 10_000)
ITERATIONS = (10, 100, 400)  # of MWAL; by then it has settled
POLICIES = 100  # of MPO; more change nothing here
CONVERGED = 0.95  # share of optimal actions in the second half, for a demonstrator that has learnt its task
BROKEN = ("MRP-MC, weights underflow, ties go back", "MRP-MC, weights underflow, ties go forward")


@dataclass(frozen=True)
class Setting:
    """What the paper leaves open, and what it does not."""

    steps: int
    burn_in: int = 0  # steps made but not shown
    epsilon: float = 0.01
    discount: float = 0.95
    optimality_rate: float = 1.0  # of β, exponential: the paper does not say
    policy_concentration: float = 1.0  # every policy equally likely beforehand: the paper does not say
    scale_free: bool = False  # losses in units of what there is to lose
    rewards_on: str = "state"


def run(setting: Setting, seed: int) -> dict[str, float]:
    """One demonstration; all methods on it."""
    chain = mm.worlds.Chain(states=5, slip=0.2, discount=setting.discount)  # r = 0.2, 0, 0, 0, 1
    wanted = chain.reward
    assert wanted is not None  # a Chain has one
    learner = mm.worlds.ModelBasedLearner(epsilon=setting.epsilon, burn_in=setting.burn_in)
    shown = mm.simulate(chain, wanted, learner, steps=setting.steps, seed=seed)

    def loss(policy: np.ndarray) -> float:
        return float(mm.loss(chain, policy, wanted))

    best = mm.plan(chain, wanted).actions
    later = slice(len(shown.action) // 2, None)
    has_learnt = np.mean(shown.action[later] == best[shown.state[later]]) >= CONVERGED
    found = {"flag/converged/0": float(has_learnt), "loss/blind/0": loss(np.full((5, 2), 0.5))}
    for name, greedy in (("Imit", False), ("Imit, most frequent action", True)):
        found[f"loss/{name}/0"] = loss(mm.baselines.imitation(chain, shown, greedy=greedy).policies.values[0])
    for iterations in ITERATIONS:
        apprentice = mm.baselines.mwal(chain, shown, iterations=iterations, on=setting.rewards_on)
        found[f"loss/MWAL/{iterations}"] = loss(apprentice.policies.values[0])
    reward = mm.DirichletReward(on=setting.rewards_on)
    softmax = mm.RewardPolicyModel(reward=reward)
    optimality = mm.PolicyOptimalityModel(
        reward=reward,
        policy=mm.optimality.DirichletPolicy(setting.policy_concentration),
        optimality=mm.optimality.ExponentialOptimality(rate=setting.optimality_rate),
        scale_free=setting.scale_free,
    )
    posterior, made = None, 0
    for samples in SAMPLES:
        posterior = mm.fit(
            softmax, chain, shown, mm.MonteCarlo(draws=samples - made), seed=seed, progress=False, start=posterior
        )
        made = samples
        found[f"loss/MRP-MC/{samples}"] = loss(posterior.policies().values[0])
        statistics = posterior.data["sample_stats"]
        found[f"ess/MRP-MC/{samples}"] = statistics["effective_sample_size"].item()
        has_underflowed = np.exp(np.asarray(statistics["log_weight"])).sum() == 0.0
        for action, name in enumerate(BROKEN):
            always = np.tile(np.eye(2)[action], (5, 1))
            found[f"loss/{name}/{samples}"] = loss(always) if has_underflowed else found[f"loss/MRP-MC/{samples}"]
        found[f"underflowed/MRP-MC/{samples}"] = float(has_underflowed)
        method = mm.OptimalityMonteCarlo(draws=POLICIES, num_rewards=samples)
        weighed = mm.fit(optimality, chain, shown, method, seed=seed, progress=False)
        found[f"loss/MPO-MC/{samples}"] = loss(weighed.policies().values[0])
        found[f"ess/MPO-MC/{samples}"] = weighed.data["sample_stats"]["effective_rewards"].item()
    return found


def between(worse: str, better: str) -> Callable[[Row], float]:
    """Loss of one method less loss of another, mean over samples; a method without samples has one loss."""

    def loss(row: Row, name: str, samples: int) -> float:
        return row.get(f"loss/{name}/{samples}", row.get(f"loss/{name}/0", np.nan))

    def effect(row: Row) -> float:
        return float(np.mean([loss(row, worse, samples) - loss(row, better, samples) for samples in SAMPLES]))

    return effect


def gain_with(samples: int) -> Callable[[Row], float]:
    """Of MPO over the imitator."""

    def effect(row: Row) -> float:
        return row["loss/Imit/0"] - row[f"loss/MPO-MC/{samples}"]

    return effect


def from_blind(row: Row) -> float:
    """A tenth of what blind choice loses, less what the imitator loses."""
    return 0.1 * row["loss/blind/0"] - row["loss/Imit/0"]


def still_falling(row: Row) -> float:
    return row["loss/MRP-MC/1000"] - row["loss/MRP-MC/10000"]


def underflow_costs(row: Row) -> float:
    return between(BROKEN[0], "MRP-MC")(row)


def accident_gains(row: Row) -> float:
    return between("MRP-MC", BROKEN[1])(row)


def more_with_more(row: Row) -> float:
    """MPO's advantage over MRP-MC with 10⁴ steps, less the same with 10³."""
    shorter = {name.removeprefix("efficiency-1e3:"): value for name, value in row.items() if ":" in name}
    return between("MRP-MC", "MPO-MC")(row) - between("MRP-MC", "MPO-MC")(shorter)


MUCH = "when there is more data, then MPO is much more efficient … the MRP-MC sampler is very inefficient"
WELL = "The data is sufficient for the imitator to perform rather well"
CONSISTENTLY = "MPO-MC is consistently better than the imitator"
SLOWLY = "MRP-MC converges slowly"


def panel(name: str, figure: str, steps: int, seconds: float, quick: int) -> Panel:
    many = (
        Claim(
            "more so with more data",
            MUCH,
            "the same difference at 10⁴ steps less that at 10³, run by run",
            more_with_more,
            beside=("efficiency-1e3",),
        ),
    )
    return Panel(
        name=name,
        figure=figure,
        title=f"Single-task chain, {steps:,} steps shown",
        runs=1000,
        quick=quick,
        more=100,
        run=run,
        readings={
            "all steps": (Cell(Setting(steps)),),
            "second half shown": (Cell(Setting(steps // 2, burn_in=steps // 2)),),
            "rewards on pairs": (Cell(Setting(steps, rewards_on="state_action")),),
            "scale-free loss": (Cell(Setting(steps, scale_free=True, optimality_rate=10.0)),),
            "sharper policies": (Cell(Setting(steps, policy_concentration=0.1)),),
        },
        notes={
            "all steps": "all steps are shown, including the first ones; rewards on states",
            "second half shown": "the first half of the steps is not shown, as in the authors' code",
            "rewards on pairs": "rewards on state–action pairs, for MWAL too",
            "scale-free loss": "MPO losses are relative to the largest possible one, so flat rewards are not favoured",
            "sharper policies": "a prior of 0.1 for every action in MPO, which gives few choices more weight",
        },
        look=Look(
            ("Imit", "MWAL", "MRP-MC", "MPO-MC", "Imit, most frequent action", BROKEN[0]),
            "samples or iterations",
            log_y=True,
        ),
        claims=(
            Claim(
                "MPO-MC is more efficient than MRP-MC",
                MUCH,
                "loss of MRP-MC less loss of MPO-MC, mean over the numbers of samples",
                between("MRP-MC", "MPO-MC"),
            ),
            *(many if steps == 10_000 else ()),
            Claim(
                "the imitator performs rather well",
                WELL,
                "a tenth of the loss of uniform choice, less the imitator's",
                from_blind,
            ),
            *(
                Claim(
                    f"MPO-MC is better than the imitator with {samples:,} samples",
                    CONSISTENTLY,
                    f"loss of the imitator less loss of MPO-MC with {samples:,} samples",
                    gain_with(samples),
                )
                for samples in SAMPLES
            ),
            Claim(
                "MRP-MC still gets better after 1,000 samples",
                SLOWLY,
                "loss of MRP-MC with 10³ samples less that with 10⁴: above 0 it is still falling",
                still_falling,
            ),
            Claim(
                "MPO-MC is better than the imitator's most frequent action",
                "control: a free gain comes from acting consistently",
                "loss of the imitator that plays its most frequent action, less loss of MPO-MC, mean over samples",
                between("Imit, most frequent action", "MPO-MC"),
                kind="control",
            ),
            Claim(
                "MRP-MC is better than the imitator",
                "control: for reference",
                "loss of the imitator less loss of MRP-MC, mean over samples",
                between("Imit", "MRP-MC"),
                kind="control",
            ),
            Claim(
                "underflow makes MRP-MC look inefficient",
                "artefact: weights that underflow leave no mean reward, and action 0, back, is played",
                "loss of MRP-MC whose weights underflow less loss of MRP-MC, mean over samples",
                underflow_costs,
                kind="artefact",
            ),
            Claim(
                "underflow makes MRP-MC look good where action 0 is right",
                "artefact: the same with forward as action 0",
                "loss of MRP-MC less loss of MRP-MC whose weights underflow to the right action, mean over samples",
                accident_gains,
                kind="artefact",
            ),
        ),
        seconds=seconds,
        stream="efficiency",
        subsets={"converged": lambda row: row["flag/converged/0"] == 1.0},
    )


SHORT = panel("efficiency-1e3", "Fig. 2c", 1_000, 0.8, 10)
LONG = panel("efficiency-1e4", "Fig. 2d", 10_000, 0.8, 10)
