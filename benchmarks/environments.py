"""Two environments or one? Loss in a third that nobody has seen, from equally many choices: `make environments`.

Twenty random problems: three environments of 10 states and 2 actions that share the names of their states, each action
leading mostly to one random state (`RandomMDP`), discount .9; 3 subjects with rewards Normal(0, 1), Softmax(2.0). Each
subject makes the same number of choices in all, in episodes of 10: all of them in A, or half in A and half in B. Then
the policy that is best in C given what was learnt (`posterior.policies(environment=C)`) is held against the truth:
V* − V^π, summed over states as `mm.loss` does, averaged over subjects. Few choices leave much to the prior either way;
many leave what one environment cannot show.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import manymotives as mm
from benchmarks.harness import commit

SUBJECTS, LENGTH = 3, 10
CHOICE = mm.Softmax(2.0)
MODEL = mm.RewardPolicyModel(mm.GaussianReward(mean=0.0, scale=1.0), CHOICE, mm.Separate())
METHOD = mm.HMC(chains=2)
FIRST_SEED = 100


def loss_of(seed: int, names: str, choices: int, states: int = 10, actions: int = 2) -> dict[str, Any]:
    """Loss in C of what was learnt in the environments of these names; and what no choice in them can show."""
    rng = np.random.default_rng([26, 4, seed])
    world: dict[str, Any] = {
        name: mm.worlds.RandomMDP(states, actions, seed=int(rng.integers(2**31)), discount=0.9) for name in "ABC"
    }
    rewards = rng.normal(size=(SUBJECTS, states))
    known = {name: world[name] for name in names}
    episodes = choices // len(names) // LENGTH
    tables = [
        mm.simulate(world[name], rewards, CHOICE, steps=LENGTH, episodes=episodes, seed=seed)
        .to_frame()
        .assign(environment=name)
        for name in names
    ]
    demonstrations = mm.Demonstrations.from_frame(pd.concat(tables), known, episode="episode", step="step")
    assert demonstrations.num_steps == SUBJECTS * choices
    posterior = mm.fit(MODEL, known, demonstrations, METHOD, seed=seed, progress=False)
    policies = posterior.policies(environment=world["C"]).values
    return {
        "seed": seed,
        "environments": names,
        "choices": choices,
        "loss": float(np.mean(mm.loss(world["C"], policies, rewards))),
        "hidden": mm.findings.identification(known).hidden_together,
        "mixed": "mixing" in posterior.data.attrs,
    }


def summary(rows: list[dict[str, Any]], choices: int) -> str:
    """Both losses, and their difference by pairs."""
    one, two = (
        np.array([row["loss"] for row in rows if row["choices"] == choices and row["environments"] == names])
        for names in ("A", "AB")
    )
    hidden = [np.mean([row["hidden"] for row in rows if row["environments"] == names]) for names in ("A", "AB")]
    gain, root = one - two, np.sqrt(len(one))
    mixed = np.mean([row["mixed"] for row in rows if row["choices"] == choices])
    return (
        f"{choices} choices a subject, {len(one)} problems, {mixed:.0%} of fits mixed: loss {one.mean():.2f} ± "
        f"{one.std(ddof=1) / root:.2f} from one environment, {two.mean():.2f} ± {two.std(ddof=1) / root:.2f} from two "
        f"({two.mean() / one.mean():.0%}; paired difference {gain.mean():.2f} ± {gain.std(ddof=1) / root:.2f}); "
        f"directions of reward that no choice can show: {hidden[0]:.1f} and {hidden[1]:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--choices", type=int, nargs="+", default=[200, 600])
    parser.add_argument("--states", type=int, default=10)
    parser.add_argument("--actions", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/environments.json"))
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for choices in given.choices:
        for seed in range(FIRST_SEED, FIRST_SEED + given.count):
            rows += [loss_of(seed, names, choices, given.states, given.actions) for names in ("A", "AB")]
            print(f"{len(rows)} of {2 * given.count * len(given.choices)} fits", flush=True)
        print(summary(rows, choices), flush=True)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps({"commit": commit(), "rows": rows}), encoding="utf-8")


if __name__ == "__main__":
    main()
