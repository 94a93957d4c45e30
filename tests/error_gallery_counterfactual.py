"""The room of the gallery of errors for counterfactual questions: what changes, what is refused, the command line."""

import functools
from pathlib import Path

import numpy as np

import manymotives as mm
from error_gallery_data import CHAIN, CHAIN_DATA
from manymotives.commands.whatif import _amounts, _check_out, _pair, new_environment

QUICK = mm.HMC(chains=1, draws=5, warmup=5, thin=1, max_rounds=1)
MODEL = mm.RewardPolicyModel(mm.GaussianReward(mean=0.0, scale=1.0), mm.Softmax(2.0), mm.Pooled())


@functools.cache
def fitted(model, method, environment):
    """Nobody changes it."""
    return mm.fit(model, environment, CHAIN_DATA, method, progress=False)


def ask(model=MODEL, method=QUICK, environment=CHAIN, **changes):
    return fitted(model, method, environment).counterfactual(**changes)


FIRST, LAST = CHAIN.states[0], CHAIN.states[-1]
ACTION, OTHER = CHAIN.actions[:2]
ENDS = mm.Environment(
    CHAIN.transitions, discount=CHAIN.discount, states=CHAIN.states, actions=CHAIN.actions, terminal=[LAST]
)
OPTIMAL = mm.PolicyOptimalityModel()
SEARCH = mm.OptimalityMonteCarlo(draws=20)


def asked(**changes):
    return fitted(MODEL, QUICK, CHAIN).counterfactual(**changes)


def fewer_actions():
    one = np.ones(CHAIN.available.shape, dtype=bool)
    one[0, 1] = False
    names = {"states": CHAIN.states, "actions": CHAIN.actions}
    return mm.Environment(CHAIN.transitions, discount=CHAIN.discount, **names, available=one)


def allowed():
    return asked(environment=fewer_actions(), available={FIRST: [ACTION, OTHER]})


def other_subjects():
    data = mm.simulate(CHAIN, np.zeros((3, 3)), mm.Softmax(1.0), steps=5, tasks=["x", "y", "z"])
    return mm.fit(MODEL, CHAIN, data, QUICK, progress=False).counterfactual(discount=0.5)


def at_the_end():
    model = mm.RewardPolicyModel(
        mm.GaussianReward(mean=0.0, scale=1.0, on="state_action"), mm.Softmax(2.0), mm.Pooled()
    )
    posterior = mm.fit(model, CHAIN, CHAIN_DATA, QUICK, progress=False)
    return posterior.counterfactual(environment=ENDS, rewards={LAST: 1.0})


def other_transitions():
    pairs = mm.GaussianReward(np.ones((3, 2, 1)), on="state_action")
    posterior = mm.fit(mm.RewardPolicyModel(pairs, mm.Softmax(2.0)), CHAIN, CHAIN_DATA, QUICK, progress=False)
    return posterior.counterfactual(environment=mm.worlds.Chain(states=3, slip=0.3, discount=0.95))


def ahead():
    model = mm.RewardPolicyModel(mm.GaussianReward(mean=0.0, scale=1.0), mm.Softmax(2.0), mm.Pooled(), depth=2)
    posterior = mm.fit(model, CHAIN, CHAIN_DATA, QUICK, progress=False)
    return posterior.counterfactual(environment=ENDS, rewards={(FIRST, ACTION): 1.0})


COUNTERFACTUALS = {
    # ---- what changes
    "a change of nothing": ask,
    "a change of the discount with the environment": lambda: asked(environment=CHAIN.with_discount(0.5)),
    "a new environment that is a word": lambda: asked(environment="maze"),
    "a new environment that is a belief": lambda: asked(
        environment=mm.DynamicsBelief.from_demonstrations(CHAIN_DATA, discount=CHAIN.discount)
    ),
    "a reward added where nothing is": lambda: ask(rewards={"nowhere": 1.0}),
    "a reward added for what cannot be done": lambda: ask(rewards={(FIRST, "fly"): 1.0}),
    "a reward added for an action that is not there": lambda: asked(
        environment=fewer_actions(), rewards={(FIRST, OTHER): 1.0}
    ),
    "a reward added to a state and a feature": lambda: ask(
        mm.RewardPolicyModel(mm.GaussianReward(features=np.eye(3)[:, :2], names=["0", "near"]), mm.Softmax(2.0)),
        rewards={"0": 1.0},
    ),
    "a reward added in words": lambda: ask(rewards={FIRST: "much"}),
    "rewards added in the wrong shape": lambda: ask(rewards=[1.0]),
    "a function that forgets subjects": lambda: ask(rewards=lambda reward: np.zeros(2)),
    "a reward added at the end of actions": at_the_end,
    "features that a model has not got": lambda: ask(features=[[1.0]]),
    "an action that nobody knows the way of": allowed,
    "a state without an action after the change": lambda: ask(available={FIRST: []}),
    "a pair that is available in words": lambda: ask(available={(FIRST, ACTION): "no"}),
    "a table of available actions in the wrong shape": lambda: ask(available=[[True]]),
    "a discount of one after the change": lambda: ask(discount=1.0),
    "a counterfactual of no draws": lambda: ask(discount=0.5, draws=0),
    "a counterfactual at no level": lambda: ask(discount=0.5, level=1.0),
    # ---- what is refused
    "what would be done by those who are nearly optimal": lambda: ask(OPTIMAL, SEARCH, discount=0.5),
    "features of pairs where transitions are others": other_transitions,
    "a change of what is not known": lambda: ask(
        environment=mm.DynamicsBelief.from_demonstrations(CHAIN_DATA, discount=0.9), discount=0.5
    ),
    "amounts for actions of those who look some steps ahead": ahead,
    "paths without steps": lambda: ask(discount=0.5).paths(0),
    "a table of motives of a counterfactual": lambda: ask(discount=0.5).to_frame("motive"),
    "a picture of something else after a change": lambda: mm.plots.counterfactual(ask(discount=0.5), of="reward"),
    "a report of something else after a change": lambda: mm.report(
        mm.fit(MODEL, CHAIN, CHAIN_DATA, QUICK, progress=False), "page.html", counterfactual="maze"
    ),
    "a report of other subjects after a change": lambda: mm.report(
        mm.fit(MODEL, CHAIN, CHAIN_DATA, QUICK, progress=False), "page.html", counterfactual=other_subjects()
    ),
    # ---- the command line
    "an amount without a number": lambda: _amounts(["water"], CHAIN, None),
    "an action without a state": lambda: _pair("left", CHAIN),
    "an end of no new environment": lambda: new_environment([], 0.9, ["s"]),
    "a counterfactual in a netCDF file": lambda: _check_out(Path("whatif.nc"), False),
    "a counterfactual in no folder": lambda: _check_out(Path("nowhere/whatif.csv"), False),
}
