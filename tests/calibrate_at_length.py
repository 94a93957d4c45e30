"""The calibrations of the tests with many replications: `make calibrate`."""

import sys
from collections.abc import Iterator

import manymotives as mm
import test_calibration as choosing
import test_optimality_statistics as optimality
from cases import seeds_from
from goodness_of_fit import SIGNIFICANCE


def calibrations() -> Iterator[tuple]:
    """Name, model, environment, method and size of each."""
    for reward, prior in choosing.REWARDS.items():
        for rule, choice in choosing.RULES.items():
            for name, method in choosing.METHODS.items():
                model = mm.RewardPolicyModel(prior, choice())
                yield f"{name}, {reward}, {rule}", model, choosing.TRIANGLE, method, choosing.SIZE
    for name, model in optimality.STORIES.items():
        yield f"OptimalityMonteCarlo, {name}", model, optimality.TRIANGLE, optimality.METHOD, optimality.SIZE


def main(replications: int) -> int:
    found = {}
    for name, model, environment, method, size in calibrations():
        settings = size | {"progress": True, "seeds": seeds_from(11, replications)}
        found[name] = mm.calibrate(model, environment, method, **settings)
        print(f"{name}: {found[name]}", flush=True)
    worst = min(each.p_value for each in found.values())
    print(f"the smallest of {len(found)} p-values: {worst:.2g}")
    return 0 if worst > 10 * SIGNIFICANCE / len(found) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
