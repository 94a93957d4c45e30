"""A small place, choices there and a quick score of them, for tests of scoring."""

import numpy as np

import manymotives as mm

PLACE = mm.worlds.RandomMDP(states=3, actions=3, discount=0.8, seed=1)
QUICK = mm.Gibbs(chains=2, draws=100, warmup=50, thin=1)
TABLES = ["uniform", "counts", "counts, own", "counts with history", "counts with history, own"]
PLAIN = [*TABLES, "counts with longer history"]


def demonstrations(temperature=8.0, tasks=6, episodes=4, steps=10, seed=0):
    rewards = np.random.default_rng(seed).dirichlet(np.full(3, 0.5), size=tasks)
    names = [f"subject {m}" for m in range(tasks)]
    rule = mm.Softmax(temperature)
    return mm.simulate(PLACE, rewards, rule, steps=steps, episodes=episodes, tasks=names, seed=seed)


def score(data=None, model=None, **options):
    model = model or mm.RewardPolicyModel()
    options = {"method": QUICK, "progress": False} | options
    return mm.score(model, PLACE, demonstrations() if data is None else data, **options)
