"""Decisions where transitions are not known, on many random problems: `python -m benchmarks.unknown_dynamics`.

Environments are drawn from a Dirichlet prior, an agent acts at random in them for a while, and the belief is the
posterior. Four policies are compared in what they are worth under the belief, on environments that none of them was
made from: that of the mean environment, multi-MDP backward induction, the same improved by switches, and what `plan`
returns.
"""

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import manymotives as mm
from manymotives.planning.belief import candidates, generator, optimal_values
from manymotives.planning.multi_mdp import MultiMDP

FRESH = 1000  # environments to judge policies by
NAMES = ("induction", "with switches", "returned")


def main() -> None:
    given = _arguments()
    console = Console(width=120)
    table = Table(
        title=f"{given.problems} problems: {given.states} states, {given.actions} actions, discount "
        f"{given.discount:g}, {given.environments} environments to plan with, {FRESH} to judge by"
    )
    columns = (
        "seen",
        "policy",
        "differs",
        "better",
        "worse",
        "gain, %",
        "largest, %",
        "smallest, %",
        "short of bound, %",
    )
    for heading in columns:
        table.add_column(heading, justify="left" if heading == "policy" else "right")
    seconds = []
    with console.status("…") as status:
        for seen in given.seen:
            found = []
            for problem in range(given.problems):
                status.update(f"{seen} transitions seen, problem {problem} …")
                begin = time.perf_counter()
                found.append(_compared(given, seen, problem))
                seconds.append(time.perf_counter() - begin)
            gain, error, differs, short = (np.array(part) for part in zip(*found))  # [problem, policy]
            for at, name in enumerate(NAMES):
                moved, z = gain[:, at], gain[:, at] / np.maximum(error[:, at], 1e-12)
                numbers = (moved.mean(), moved.max(), moved.min(), short[:, 1 + at].mean())
                spread = moved.std(ddof=1) / np.sqrt(len(moved))
                table.add_row(
                    *(str(seen) if at == 0 else "", name, str(differs[:, at].sum())),
                    *(str((z > 2).sum()), str((z < -2).sum()), f"{numbers[0]:.2f} ± {spread:.2f}"),
                    *(f"{number:.2f}" for number in numbers[1:]),
                )
            table.add_row("", "mean environment's", "", "", "", "0", "", "", f"{short[:, 0].mean():.2f}")
    console.print(table)
    console.print(
        "better, worse: by more than two standard errors of the difference. Gains are over the mean environment's "
        f"policy, in percent of its value. {np.mean(seconds):.2f} seconds a problem."
    )


def _compared(
    given: argparse.Namespace, seen: int, problem: int
) -> tuple[list[float], list[float], list[bool], list[float]]:
    """Gains over the mean environment's policy, their errors, whether policies differ, what is short of the bound."""
    rng = np.random.default_rng([given.seed, seen, problem])
    shape = (given.states, given.actions, given.states)
    truth = rng.dirichlet(np.full(given.states, given.prior / given.states), size=shape[:2])
    counts, state = np.zeros(shape), int(rng.integers(given.states))
    for _ in range(seen):
        action = int(rng.integers(given.actions))
        after = int(rng.choice(given.states, p=truth[state, action]))
        counts[state, action, after] += 1
        state = after
    belief = mm.DynamicsBelief(counts, discount=given.discount, prior=given.prior)
    reward = rng.random(given.states)
    seed = int(rng.integers(2**31))
    returned = mm.plan(belief, reward, environments=given.environments, seed=seed)
    making = generator(seed).spawn(3)[0]
    sample = MultiMDP.from_probabilities(belief, belief.draws(given.environments, making))
    tried = candidates(sample, reward[None, :, None], mm.plan(belief.mean, reward).actions)

    fresh = belief.draws(FRESH, rng)
    judges = MultiMDP.from_probabilities(belief, fresh)
    upper = float(optimal_values(belief, fresh[:200], reward[None, :, None]).mean(axis=(0, 1)) @ judges.start)
    policies = (tried.mean, tried.induced, tried.switched, returned.actions)
    values = [judges.values(actions, reward[None, :, None]) @ judges.start for actions in policies]
    base = values[0].mean()
    differences = [each - values[0] for each in values[1:]]
    first = [each[:200].mean() for each in values]  # beside the bound, on the same environments
    return (
        [100 * float(each.mean() / base) for each in differences],
        [100 * float(each.std(ddof=1) / np.sqrt(FRESH) / base) for each in differences],
        [not np.array_equal(each, tried.mean) for each in policies[1:]],
        [100 * float((upper - each) / upper) for each in first],
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.unknown_dynamics", description=__doc__.splitlines()[0])
    for name, default in (("problems", 100), ("states", 8), ("actions", 4), ("environments", 200), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seen", type=int, nargs="+", default=[0, 30, 100, 300], help="transitions")
    parser.add_argument("--discount", type=float, default=0.95)
    parser.add_argument("--prior", type=float, default=1.0, help="counts of the prior for a state and action")
    return parser.parse_args()


if __name__ == "__main__":
    main()
