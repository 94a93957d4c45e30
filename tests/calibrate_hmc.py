"""The default sampler on a thousand simulated data sets for each reading of Gamma(1, 10); `make calibrate-hmc`.

Truth, population and choices are drawn from the model; the truth must then be one more draw of the posterior, for every
reward, temperature and hyperparameter. A control must fail: data from a population with other concentrations.
"""

import sys
import time
from pathlib import Path

import manymotives as mm
from cases import seeds_from

METHOD = mm.HMC(chains=1, draws=60, warmup=150, thin=12, max_rounds=1)
PLACE = mm.worlds.RandomMDP(4, 2, seed=1, discount=0.95)
SIZE = {"tasks": 4, "steps": 30}


def model_with(rate: float) -> mm.RewardPolicyModel:
    return mm.RewardPolicyModel(mm.DirichletReward(concentration=mm.Gamma(shape=1.0, rate=rate)))


def main(replications: int) -> int:
    begin = time.monotonic()
    lines = []
    passed = True
    for rate in (0.1, 10.0):
        found = mm.calibrate(model_with(rate), PLACE, METHOD, seeds=seeds_from(21, replications), **SIZE)
        passed &= found.p_value > 0.01
        lines.append(f"rate {rate}, {replications} data sets: {found}")
        print(lines[-1], flush=True)
    seeds = seeds_from(22, max(100, replications // 5))
    wrong = mm.calibrate(model_with(0.1), PLACE, METHOD, truth=model_with(1.0), seeds=seeds, **SIZE)
    passed &= wrong.p_value < 1e-3
    lines.append(f"control, concentrations ten times smaller than thought: {wrong}")
    print(lines[-1], flush=True)
    lines.append(f"{(time.monotonic() - begin) / 60:.1f} minutes")
    Path("docs/calibration.txt").write_text("\n".join(lines) + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
