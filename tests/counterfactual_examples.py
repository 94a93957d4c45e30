"""Posteriors whose draws are known: a short fit, with every draw replaced by rewards that a test chooses."""

import numpy as np
import xarray as xr

import manymotives as mm

STATES, ACTIONS = list("abcde"), ["x", "y", "z"]
SHORT = mm.HMC(chains=2, draws=4, warmup=4, max_rounds=1)


def random_transitions(seed, size=5, acts=3):
    return np.random.default_rng(seed).dirichlet(np.full(size, 0.5), size=(size, acts))


def environment(seed=0, discount=0.85, **options):
    start = np.random.default_rng(100 + seed).dirichlet(np.ones(5))
    given = {"discount": discount, "states": STATES, "actions": ACTIONS, "start": start}
    return mm.Environment(random_transitions(seed), **(given | options))


def choices_in(place, seed=0, steps=12, episodes=3, tasks=2, on="state"):
    size = place.available.shape[: 1 if on == "state" else 2]
    rewards = np.random.default_rng(seed).normal(size=(tasks, *size))
    return mm.simulate(place, rewards, mm.Softmax(2.0), steps=steps, episodes=episodes, seed=seed, on=on)


def fitted(place, model, data=None):
    return mm.fit(model, place, choices_in(place) if data is None else data, SHORT, progress=False)


def concentrated(posterior, **known):
    """The same posterior with all of its draws at these values: {"reward": [task, state], …}."""
    drawn = posterior.data["posterior"].to_dataset()
    replaced = {}
    for name, value in known.items():
        old = drawn[name]
        replaced[name] = xr.DataArray(np.broadcast_to(value, old.shape).copy(), dims=old.dims, coords=old.coords)
    tree = posterior.data.copy(deep=False)
    groups = {name: each.to_dataset() for name, each in tree.children.items()}
    groups["posterior"] = drawn.assign(replaced)
    made = xr.DataTree.from_dict(groups)
    made.attrs = dict(posterior.data.attrs)
    return type(posterior)(made, posterior.model, posterior.environment, posterior.belief)
