"""Compile what most tests need, once: `python tests/compile_first.py hmc`, and beside it `… others`.

Two workers that find nothing compiled would both compile all of it, each for itself.
"""

import sys
import time

import numpy as np

import manymotives as mm
from manymotives.fitting.compilation import LONGEST, compile_beside_sampler, compile_sampler, is_compiled

SHORT = {"chains": 1, "draws": 5, "warmup": 20, "thin": 1}
METHODS = {
    "hmc": [mm.HMC(**SHORT, max_rounds=1)],
    "others": [
        mm.Gibbs(**SHORT),
        mm.Metropolis(**SHORT),
        mm.EmpiricalBayes(draws=5),
        mm.NestedMonteCarlo(draws=5, inner=5),
    ],
}


def main(part: str) -> None:
    if part == "hmc":  # at first, each process compiles what the other does not, and finds the rest on disk later
        compile_beside_sampler()
    else:
        compile_sampler()
    environment = mm.worlds.Chain(states=3, discount=0.9)
    rewards = np.random.default_rng(0).dirichlet(np.ones(3), size=2)
    demonstrations = mm.simulate(environment, rewards, mm.Softmax(inverse_temperature=3.0), steps=5, seed=0)
    if part == "others":
        mm.simulate(environment, rewards, mm.worlds.ModelBasedLearner(), steps=5, seed=0)
        mm.evaluate(environment, np.full((3, 2), 0.5), rewards)
        mm.baselines.policy_walk(environment, demonstrations, method=mm.Metropolis(draws=10))
        model = mm.PolicyOptimalityModel(
            mm.optimality.RewardSet(rewards),
            mm.optimality.DirichletPolicy(1.0),
            mm.optimality.ExponentialOptimality(1.0),
        )
        mm.fit(model, environment, demonstrations, mm.OptimalityMonteCarlo(draws=10), seed=0, progress=False)
    else:
        wait_for_sampler()
    for method in METHODS[part]:
        mm.fit(mm.RewardPolicyModel(), environment, demonstrations, method, seed=0, progress=False)
    if part == "hmc":
        belief = mm.DynamicsBelief.from_demonstrations(demonstrations, discount=0.9)
        mm.fit(mm.RewardPolicyModel(), belief, demonstrations, METHODS[part][0], seed=0, progress=False)
        switching = mm.RewardPolicyModel(sharing=mm.Pooled(), switching=mm.Switching(2))
        posterior = mm.fit(switching, environment, demonstrations, METHODS[part][0], seed=0, progress=False)
        for kind in ("filtered", "smoothed"):
            posterior.motives(kind=kind)


def wait_for_sampler() -> None:
    """Until the other process has compiled it: `mm.fit` would compile it once more."""
    until = time.monotonic() + LONGEST
    while not is_compiled() and time.monotonic() < until:
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1])
