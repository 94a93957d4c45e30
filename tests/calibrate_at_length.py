"""The calibrations of `test_calibration` with many replications: `make calibrate`."""

import sys

import manymotives as mm
import test_calibration as small


def main(replications: int) -> int:
    worst = 1.0
    for reward, prior in small.REWARDS.items():
        for rule, choice in small.RULES.items():
            for name, method in small.METHODS.items():
                model = mm.RewardPolicyModel(prior, choice())
                size = small.SIZE | {"progress": True}
                found = mm.calibrate(model, small.ENVIRONMENT, method, replications=replications, seed=11, **size)
                print(f"{name}, {reward}, {rule}: {found}", flush=True)
                worst = min(worst, found.p_value)
    print(f"the smallest of 18 p-values: {worst:.2g}")
    return 0 if worst > small.FAILURE / 18 else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
