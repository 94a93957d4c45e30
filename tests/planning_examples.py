"""Small random problems for the library and for the oracles, and the three ways to a plan."""

from itertools import islice

import jax.numpy as jnp
import numpy as np

import manymotives as mm
import oracles_worlds
from manymotives.planning import verbs

# The oracles' own accuracy: enumeration solves to rounding; the iterations stop at a relative change of 1e-13, so they
# are off by up to 1e-13 γ/(1−γ) of values below 100.
EXACT, ITERATED = 1e-10, 1e-8
KINDS = [
    dict(with_terminal=False, with_missing_actions=False, dense=True),
    dict(with_terminal=True, with_missing_actions=False, dense=True),
    dict(with_terminal=False, with_missing_actions=True, dense=False),
    dict(with_terminal=True, with_missing_actions=True, dense=False),
]


def problems(on):
    """Small random problems: the library's environment and rewards, and what the oracles take."""
    rng = np.random.default_rng(11)
    for kind in KINDS:
        for discount, size in ((0.0, (3, 2)), (0.6, (4, 3)), (0.97, (4, 3))):
            case = oracles_worlds.random_problem(rng, *size, discount=discount, **kind)
            environment = mm.Environment(
                case["transitions"],
                discount=discount,
                available=case["available"],
                terminal=list(np.flatnonzero(case["terminal"])),
            )
            rewards = case["rewards"]
            case["terminal_value"] = np.zeros(environment.num_states)
            if on == "state":
                rewards = rng.normal(size=environment.num_states)
                case["rewards"] = np.repeat(rewards[:, None], environment.num_actions, axis=1)
                case["terminal_value"] = np.where(case["terminal"], rewards, 0.0)
            yield environment, rewards, case


def some(every, way):
    """JAX compiles for each size: of its problems those with γ = .97, which are of one size."""
    return islice(every, 2, None, 3) if way == "jax" else every


def planners(monkeypatch):
    """The three ways to a plan: compiled, sparse, JAX."""

    def by_sparse(environment, rewards, **options):
        with monkeypatch.context() as patch:
            patch.setattr(verbs, "suits", lambda environment: False)
            return mm.plan(environment, rewards, **options)

    return {
        "compiled": mm.plan,
        "sparse": by_sparse,
        "jax": lambda environment, rewards, **options: mm.plan(environment, jnp.asarray(rewards), **options),
    }
