"""Are posteriors calibrated by the path of large environments? `make calibrate-large`: some minutes on many cores.

Sparse factors and chains around a Laplace approximation are forced in grids of 36 and 144 states. The control omits
the determinant of the map that tasks keep their coordinates by when their population moves, and must fail.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pandas as pd

import manymotives as mm
from manymotives.assessment.calibration import Calibration
from manymotives.inference.mcmc import laplace_chains
from manymotives.inference.mcmc.laplace_reference import Reference
from manymotives.planning import warm_start
from manymotives.planning.elimination import elimination_of
from manymotives.planning.problem import cores

REPLICATIONS, AT_ONCE = 320, 10
METHOD = mm.HMC(chains=1, draws=80, warmup=120, thin=4, max_rounds=1)
SOFT = mm.SoftOptimal(inverse_temperature=1.0)
FEATURES = np.random.default_rng(0).standard_normal((36, 4))
CASES = {  # model, side of the grid, tasks
    "smooth, 36 states": (mm.RewardPolicyModel(mm.SmoothReward(), SOFT, mm.Pooled()), 6, 1),
    "smooth, 144 states": (mm.RewardPolicyModel(mm.SmoothReward(), SOFT, mm.Pooled()), 12, 1),
    "smooth population, 36 states": (mm.RewardPolicyModel(mm.SmoothReward(), SOFT, mm.Hierarchical()), 6, 3),
    "features, one scale, 36 states": (
        mm.RewardPolicyModel(mm.GaussianReward(FEATURES, groups="all"), SOFT, mm.Hierarchical()),
        6,
        3,
    ),
}
CONTROL = "control: smooth, 36 states, no determinant"


def ranks(name: str, first: int) -> pd.DataFrame:
    """Of some replications, by the path that is forced here."""
    laplace_chains.MANY_COORDINATES = 0
    warm_start.suits = lambda environment: False
    warm_start._worthwhile_elimination = lambda environment, rewards, is_soft: elimination_of(environment)
    if name == CONTROL:
        Reference.log_determinant = property(lambda reference: np.zeros(len(reference.values)))
        name = "smooth, 36 states"
    model, side, tasks = CASES[name]
    grid = mm.worlds.GridWorld((side, side), slip=0.1, discount=0.9)
    seeds = range(first, first + AT_ONCE)
    return mm.calibrate(model, grid, METHOD, tasks=tasks, steps=60, seeds=seeds, progress=False).ranks


def main() -> None:
    wanted = sys.argv[1:] or [*CASES, CONTROL]
    with ProcessPoolExecutor(cores(), mp_context=get_context("spawn")) as pool:
        for name in wanted:
            parts = pool.map(ranks, [name] * (REPLICATIONS // AT_ONCE), range(0, REPLICATIONS, AT_ONCE))
            print(f"{name}: {Calibration(pd.concat(parts, ignore_index=True))}", flush=True)


if __name__ == "__main__":
    main()
