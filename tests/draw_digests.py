"""Digests of draws: is what a change of the code must not change still the same, to the last bit?

    python tests/draw_digests.py                  a line for each case
    python tests/draw_digests.py --against REV    the same of a commit, beside ours; which lines differ

Cases: every method × sharing × reward × choice rule, environments that are drawn along, chains that go on, scores, and
the weights of the policy-optimality model. Numbers depend on the machine (the width of its vectors), so that nothing is
stored: two commits are compared on one machine.
"""

import argparse
import hashlib
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np

import manymotives as mm
from manymotives.scoring import Score

ROOT = Path(__file__).resolve().parents[1]
RENAMED = {"refresh_rate": "prior_acceptance_rate"}  # statistics that had another name in earlier commits
SHORT = {"chains": 2, "draws": 20, "warmup": 30, "thin": 2}
ONE_ROUND = {field.name: 1 for field in fields(mm.HMC)[4:5]}  # whatever the largest number of rounds is called
METHODS = {
    "HMC": mm.HMC(**SHORT, **ONE_ROUND),
    "HMC, JAX": mm.HMC(**SHORT, device="cpu"),
    "Gibbs": mm.Gibbs(**SHORT),
    "Metropolis": mm.Metropolis(**SHORT),
    "NestedMonteCarlo": mm.NestedMonteCarlo(draws=20),
    "MonteCarlo": mm.MonteCarlo(draws=200),
    "EmpiricalBayes": mm.EmpiricalBayes(draws=20),
}
SHARING = {"hierarchical": mm.Hierarchical(), "separate": mm.Separate(), "pooled": mm.Pooled()}
FEATURES = np.random.default_rng(3).normal(size=(5, 2))
REWARDS = {
    "Dirichlet": mm.DirichletReward(),
    "Beta": mm.BetaReward(),
    "Gaussian": mm.GaussianReward(),
    "features": mm.GaussianReward(features=FEATURES),
}
RULES = {"softmax": mm.Softmax(), "soft-optimal": mm.SoftOptimal(), "lapses": mm.Softmax(lapse=mm.Beta(1.0, 9.0))}


def cases(some: int) -> Iterator[tuple[str, object]]:
    """Names and posteriors; of the whole product every `some`-th."""
    world = mm.worlds.RandomMDP(states=5, actions=3, seed=1, discount=0.9)
    wanted = np.random.default_rng(0).dirichlet(np.ones(5), size=3)
    steps = mm.simulate(world, wanted, mm.Softmax(5.0), steps=30, seed=1)
    product = itertools.product(METHODS.items(), SHARING.items(), REWARDS.items(), RULES.items())
    for number, ((method, by), (sharing, shared), (reward, wants), (rule, chooses)) in enumerate(product):
        if number % some:
            continue
        name = f"{method} · {sharing} · {reward} · {rule}"
        try:
            made = mm.fit(mm.RewardPolicyModel(wants, chooses, shared), world, steps, by, seed=4, progress=False)
        except mm.errors.InputError:
            yield f"{name}: refused", None
            continue
        yield name, made
    belief = mm.DynamicsBelief(np.ones((5, 3, 5)), discount=0.9).after(steps)
    model = mm.RewardPolicyModel()
    for method in ("HMC", "Gibbs", "Metropolis"):
        first = mm.fit(model, world, steps, METHODS[method], seed=4, progress=False)
        yield f"{method} goes on", mm.fit(model, world, steps, METHODS[method], seed=4, progress=False, start=first)
        yield (
            f"{method}, environment drawn along",
            mm.fit(model, belief, steps, METHODS[method], seed=4, progress=False),
        )
    until = mm.HMC(draws=30, warmup=30, **{name: 5 for name in ONE_ROUND})
    yield "HMC, until mixed", mm.fit(model, world, steps, until, seed=4, progress=False)
    few = mm.optimality.RewardSet(np.eye(5))
    priors = getattr(mm, "optimality", mm)  # earlier commits have them at the top
    for name, optimality in (
        ("exponential", priors.ExponentialOptimality()),
        ("uniform", priors.UniformOptimality(upper=2.0)),
    ):
        for place, where in (("known", world), ("belief", belief)):
            chosen = mm.PolicyOptimalityModel(few, optimality=optimality)
            made = mm.fit(chosen, where, steps, mm.OptimalityMonteCarlo(draws=50), seed=4, progress=False)
            yield f"policy-optimality · {name} · {place}", made
    scored = mm.score({"MRP": model}, world, steps, METHODS["Gibbs"], seed=4, progress=False)
    yield "score", scored


def digest_of(made: object) -> str:
    """Of all numbers of a posterior or a score."""
    found = hashlib.sha256()
    if made is None:
        return "–"
    if isinstance(made, Score):
        found.update(made.by_task.to_csv().encode() + made.how.to_csv().encode())
    else:
        for group in ("posterior", "sample_stats"):  # log-likelihoods of episodes come from plans begun elsewhere
            values = made.data[group].to_dataset()
            names = {RENAMED.get(str(name), str(name)): name for name in values.data_vars}
            for name in sorted(names):
                found.update(name.encode() + np.ascontiguousarray(values[names[name]].values).tobytes())
    return found.hexdigest()[:16]


def lines(some: int) -> Iterator[str]:
    for name, made in cases(some):
        yield f"{digest_of(made)}  {name}"


def lines_of(commit: str, some: int) -> list[str]:
    """The same by the library of another commit."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["git", "worktree", "add", "--detach", folder, commit], cwd=ROOT, check=True, capture_output=True
        )
        try:
            command = [sys.executable, __file__, "--some", str(some)]
            environment = os.environ | {"PYTHONPATH": str(Path(folder) / "src")}
            made = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", folder], cwd=ROOT, check=True)
    return made.stdout.splitlines()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="REV", help="a commit to compare with")
    parser.add_argument("--some", type=int, default=1, help="only every so-manyth case of the product")
    asked = parser.parse_args()
    if asked.against is None:
        for line in lines(asked.some):
            print(line, flush=True)
        return 0
    theirs, ours = lines_of(asked.against, asked.some), list(lines(asked.some))
    differ = sorted(set(ours) ^ set(theirs), key=lambda line: line.split("  ", 1)[1])
    print(*differ, sep="\n")
    print(f"{len(ours)} cases, {len(differ)} lines differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
