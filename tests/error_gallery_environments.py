"""Another room of the gallery of errors: several environments, and what is carried over to another."""

import numpy as np
import pandas as pd

import manymotives as mm
from environments_examples import BOTH, LEFT, RIGHT

FRAME = pd.DataFrame(
    {"task": ["m", "m"], "environment": ["left", "right"], "state": ["food", "water"], "action": ["a", "c"]}
)
DATA = mm.Demonstrations.from_frame(FRAME, BOTH)
QUICK = mm.Metropolis(chains=1, draws=5, warmup=5, thin=1)
OTHER = mm.Environment(np.ones((1, 1, 1)), discount=0.8, states=["salt"])
SAME = mm.Environment(np.ones((1, 1, 1)), discount=0.8, states=["c"])
FITTED = {}


def fit(reward=None, environments=BOTH, data=DATA):
    return mm.fit(mm.RewardPolicyModel(reward or mm.DirichletReward()), environments, data, QUICK, progress=False)


def fitted(**reward):
    """The same posterior for the same rewards: nobody changes it."""
    key = repr(reward)
    if key not in FITTED:
        FITTED[key] = fit(mm.GaussianReward(**reward))
    return FITTED[key]


def faster(discount):
    return mm.Environment(RIGHT.tensor, discount=discount, states=RIGHT.states, actions=RIGHT.actions)


def alone():
    """The posterior of a fit in one environment."""
    return fit(environments=LEFT, data=mm.Demonstrations.from_frame(FRAME.iloc[:1], LEFT))


def of_a_set():
    """The posterior of a model that chooses between two rewards."""
    model = mm.PolicyOptimalityModel(mm.optimality.RewardSet(np.eye(4)[:2]))
    return mm.fit(model, BOTH, DATA, mm.OptimalityMonteCarlo(draws=20), progress=False)


ENVIRONMENTS = {
    "no environments": lambda: mm.fit(mm.RewardPolicyModel(), {}, DATA),
    "environments without names": lambda: mm.Environments([LEFT, RIGHT]),
    "an environment called by a tuple": lambda: mm.Environments({("maze", "A"): LEFT}),
    "environments of which one is none": lambda: mm.Environments({"left": LEFT, "right": "maze.csv"}),
    "environments of which one is not known": lambda: mm.Environments(
        {"left": LEFT, "right": mm.DynamicsBelief.around(RIGHT, 5.0)}
    ),
    "environments with two discounts": lambda: mm.Environments({"left": LEFT, "right": faster(0.5)}),
    "environments whose states are called alike": lambda: mm.Environments(
        {"a": mm.Environment(np.ones((1, 1, 1)), discount=0.8, states=["b: c"]), "a: b": SAME}
    ),
    "environments with nothing in common": lambda: mm.RewardPolicyModel().bind(
        mm.Environments({"left": LEFT, "other": OTHER}),
        mm.Demonstrations.from_frame(FRAME.iloc[:1], {"left": LEFT, "other": OTHER}),
    ),
    "several environments, smooth rewards": lambda: fit(mm.SmoothReward()),
    "several environments that are not known": lambda: mm.fit(
        mm.RewardPolicyModel(), mm.DynamicsBelief.around(mm.Environments(BOTH), 5.0), DATA
    ),
    "several environments with memory": lambda: mm.Environments(BOTH).with_memory(),
    "an environment that is not among them": lambda: mm.Environments(BOTH)["up"],
    "rewards of other names": lambda: mm.Environments(BOTH).lifted([1.0, 2.0, 3.0]),
    # ---- tables of choices
    "choices in an unknown environment": lambda: mm.Demonstrations.from_frame(
        FRAME.assign(environment=["left", "rihgt"]), BOTH
    ),
    "choices without a column of environments": lambda: mm.Demonstrations.from_frame(
        FRAME.drop(columns="environment"), BOTH
    ),
    "a column of environments that is not there": lambda: mm.Demonstrations.from_frame(FRAME, BOTH, environment="maze"),
    "an empty cell in the column of environments": lambda: mm.Demonstrations.from_frame(
        FRAME.assign(environment=["left", None]), BOTH
    ),
    "a state of another environment": lambda: mm.Demonstrations.from_frame(FRAME.assign(state=["food", "salt"]), BOTH),
    "an action of another environment": lambda: mm.Demonstrations.from_frame(FRAME.assign(action=["a", "a"]), BOTH),
    "a column of environments where there is one": lambda: mm.Demonstrations.from_frame(
        FRAME, LEFT, environment="environment"
    ),
    "an environment that is a number": lambda: mm.Demonstrations.from_frame(FRAME, environment=3.0),
    "trajectories in too few environments": lambda: mm.Demonstrations.from_lists(
        [(["food"], ["a"]), (["food"], ["b"])], BOTH, environments=["left"]
    ),
    # ---- features
    "features of an unknown environment": lambda: fit(mm.GaussianReward(features={"left": [[1.0]] * 2, "up": [[1.0]]})),
    "features of too few environments": lambda: fit(mm.GaussianReward(features={"left": [[1.0], [0.0]]})),
    "features of an environment, of the wrong shape": lambda: fit(
        mm.GaussianReward(features={"left": [[1.0], [0.0]], "right": [[1.0]]})
    ),
    "more features in one environment": lambda: fit(
        mm.GaussianReward(features={"left": [[1.0], [0.0]], "right": [[1.0, 2.0], [0.0, 1.0]]})
    ),
    "features of an environment in words": lambda: fit(
        mm.GaussianReward(features={"left": [["a"], ["b"]], "right": [[1.0], [0.0]]})
    ),
    "features without one of the names": lambda: fit(
        mm.GaussianReward(features=pd.DataFrame([[1.0], [2.0]], index=["food", "salt"]))
    ),
    "features by environment where there is one": lambda: mm.GaussianReward(features={"left": [[1.0]]}).features_for(
        LEFT
    ),
    # ---- what is carried over
    "a transfer to unknown states": lambda: fitted().transfer(OTHER),
    "a transfer to a pair nobody knows": lambda: fitted(on="state_action").transfer(
        mm.Environment(LEFT.tensor, discount=0.8, states=LEFT.states, actions=["a", "z"])
    ),
    "a transfer to another discount": lambda: fitted().transfer(faster(0.5)),
    "a transfer to a belief": lambda: fitted().transfer(mm.DynamicsBelief.around(LEFT, 3.0)),
    "a transfer to nowhere": lambda: fitted().policies(environment="maze"),
    "a transfer with features of no use": lambda: fitted().transfer(LEFT, features=[[1.0], [0.0]]),
    "a transfer without features": lambda: fitted(features={"left": np.eye(2), "right": np.eye(2)}).transfer(OTHER),
    "a transfer with too many features": lambda: fitted(features={"left": np.eye(2), "right": np.eye(2)}).transfer(
        OTHER, features=[[1.0, 2.0, 3.0]]
    ),
    "a transfer of a set of rewards": lambda: of_a_set().transfer(LEFT),
    "a transfer by no draws": lambda: fitted().transfer(LEFT, draws=0),
    "a transfer with a level of one": lambda: fitted().transfer(LEFT, level=1.0),
    # ---- what each environment shows
    "what one environment alone shows": lambda: mm.findings.identification(LEFT),
    "what environments show of a set": lambda: mm.findings.identification(
        BOTH, reward=mm.optimality.RewardSet(np.eye(4))
    ),
    "how much one environment taught": lambda: mm.findings.contraction(alone()),
    "how much environments taught of pairs": lambda: mm.findings.contraction(fitted(on="state_action")),
    "how much environments taught of which one has all choices": lambda: mm.findings.contraction(
        fit(data=mm.Demonstrations.from_frame(FRAME.iloc[:1], BOTH))
    ),
}
