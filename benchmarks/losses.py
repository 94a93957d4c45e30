"""The loss of every baseline and of the paper's models on one random problem, as a table: `make losses`.

The paper's second experiment in small (section 5): rewards of many tasks from one Dirichlet distribution, whose
concentrations are Gamma(1, 1), and one short demonstration of each by a softmax policy. "soft" is the demonstrators'
own policy, which reads the truth.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import manymotives as mm

GIBBS = mm.Gibbs(chains=2, draws=250, warmup=250)  # a minute in all; enough for policies, not for intervals


def main() -> None:
    given = _arguments()
    rng = np.random.default_rng(given.seed)
    environment = mm.worlds.RandomMDP(states=given.states, actions=given.actions, seed=given.seed)
    concentration = np.maximum(rng.gamma(1.0, 1.0, size=given.states), 1e-3)
    rewards = rng.dirichlet(concentration, size=given.tasks)
    rule = mm.Softmax(inverse_temperature=given.inverse_temperature)
    shown = mm.simulate(environment, rewards, rule, steps=given.steps, seed=given.seed)
    console = Console(width=110)
    table = Table(
        title=f"Σ V* − V^π: {given.tasks} tasks of {given.steps} steps, {given.states} states, {given.actions} "
        f"actions, c = {given.inverse_temperature:g}, seed {given.seed}"
    )
    for heading in ("method", "mean loss", "s.e.", "median", "worst", "seconds", "told"):
        table.add_column(heading, justify="left" if heading in ("method", "told") else "right")
    with console.status("…") as status:
        for name, policies in _methods(environment, shown, rewards, rule).items():
            status.update(f"{name} …")
            begin = time.perf_counter()
            found, told = policies()
            taken = time.perf_counter() - begin
            losses = mm.loss(environment, found, rewards)
            numbers = (losses.mean(), losses.std(ddof=1) / np.sqrt(len(losses)), np.median(losses), losses.max())
            warnings = f"{told} warning{'s' if told > 1 else ''}" if told else ""
            table.add_row(name, *(f"{number:.3g}" for number in numbers), f"{taken:.2f}", warnings)
    console.print(table)


def _methods(
    environment: mm.Environment, shown: mm.Demonstrations, rewards: np.ndarray, rule: mm.Softmax
) -> dict[str, Callable[[], tuple[Any, int]]]:
    """Policies [task, S, A] by each method, and how many warnings came with them."""
    baselines = mm.baselines

    together = shown.pooled()

    def of(
        baseline: Callable[..., mm.baselines.Result], data: mm.Demonstrations = shown, **options: Any
    ) -> Callable[[], tuple[Any, int]]:
        def policies() -> tuple[Any, int]:
            found = baseline(environment, data, **options)
            return found.policies.values, len(found.warnings)

        return policies

    def greedily() -> tuple[Any, int]:
        found = baselines.maximum_causal_entropy(environment, shown)
        assert found.rewards is not None
        return mm.plan(environment, found.rewards.values).policy, len(found.warnings)

    def fitted(model: Any, method: Any) -> Callable[[], tuple[Any, int]]:
        def policies() -> tuple[Any, int]:
            posterior = mm.fit(model, environment, shown, method, progress=False)
            return posterior.policies().values, len(posterior.warnings)

        return policies

    few = mm.Metropolis(draws=500, warmup=250, thin=5)
    return {
        "soft (the demonstrators; reads the truth)": lambda: (rule.policies(environment, rewards), 0),
        "imitation": of(baselines.imitation),
        "imitation, most frequent action": of(baselines.imitation, greedy=True),
        "imitation, pooled": of(baselines.imitation, together),
        "linear program": of(baselines.linear_program),
        "policy walk": of(baselines.policy_walk, method=few),
        "policy walk, pooled": of(baselines.policy_walk, together, method=few),
        "MWAL": of(baselines.mwal),
        "projection": of(baselines.projection),
        "maximum causal entropy": of(baselines.maximum_causal_entropy),
        "maximum causal entropy, then greedy": greedily,
        "multiple intentions (3)": of(baselines.multiple_intentions, intentions=3),
        "RP (one reward for all)": fitted(mm.RewardPolicyModel(sharing=mm.Pooled()), GIBBS),
        "RP, task by task": fitted(mm.RewardPolicyModel(sharing=mm.Separate()), GIBBS),
        "MRP": fitted(mm.RewardPolicyModel(), GIBBS),
        "MPO": fitted(mm.PolicyOptimalityModel(), mm.OptimalityMonteCarlo(draws=300, num_rewards=2000)),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.losses", description=__doc__.splitlines()[0])
    for name, default in (("tasks", 20), ("steps", 50), ("states", 8), ("actions", 4), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--inverse-temperature", type=float, default=8.0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
