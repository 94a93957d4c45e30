"""Is a model and method honest? Simulation-based calibration: fit data whose truth is known, many times.

If truth and data come from the model itself, then the truth is one more draw from the posterior: its rank among the
posterior's draws is uniform, for every quantity (Talts et al. 2018; Modrák et al. 2023). A sampler that is wrong, too
sure or too timid, or a prior other than the one the truth came from, shows as ranks that are not.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from manymotives.choice import Softmax, SoftOptimal
from manymotives.environment import Environment
from manymotives.errors import InputError
from manymotives.inference import Gibbs, Method, Progress
from manymotives.models import RewardPolicyModel, Target
from manymotives.planning.problem import cores
from manymotives.sharing import Pooled
from manymotives.worlds import simulate


@dataclass(frozen=True, eq=False)
class Calibration:
    """Where the truth fell in each posterior, between 0 (below all draws) and 1 (above all)."""

    places: pd.DataFrame  # one row a replication, one column a quantity

    @property
    def p_values(self) -> pd.Series:
        """For each quantity, how often a calibrated sampler would look this far from uniform.

        The smaller, doubled, of two Kolmogorov–Smirnov tests: of the places, which sees bias, and of their distances
        from the middle, which sees posteriors that are too narrow or too wide.
        """
        found = {}
        for name, column in self.places.items():
            bias = stats.kstest(column, "uniform").pvalue
            width = stats.kstest(np.abs(2 * column - 1), "uniform").pvalue
            found[name] = min(1.0, 2 * min(bias, width))
        return pd.Series(found, name="p_value")

    @property
    def p_value(self) -> float:
        """Of all quantities together: the smallest times their number (Bonferroni)."""
        each = self.p_values
        return float(min(1.0, each.min() * len(each)))

    def __repr__(self) -> str:
        worst = self.p_values.sort_values().head(5)
        count, quantities = self.places.shape
        lines = [f"Calibration over {count} replications, {quantities} quantities: p = {self.p_value:.2g}"]
        return "\n".join(lines + [f"  {name}: p = {value:.2g}" for name, value in worst.items()])


def calibrate(
    model: RewardPolicyModel,
    environment: Environment,
    method: Any = None,
    *,
    tasks: int = 3,
    steps: int = 20,
    replications: int = 200,
    truth: RewardPolicyModel | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Calibration:
    """Draw truth and data from the model, fit, and see where the truth lies among the draws; many times.

    Parameters
    ----------
    method
        What to check; `Gibbs()` by default. Draws that depend on each other look over-confident: thin them.
    tasks, steps
        Size of the simulated data.
    replications
        How often; two hundred see an error of a third of a standard deviation.
    truth
        Another model to draw the truth from: what happens if the prior is wrong?
    """
    chosen = Gibbs() if method is None else method
    if not isinstance(chosen, Method) or isinstance(chosen, type):
        raise InputError(f"{chosen!r} is not a method.")
    for name, value in (("tasks", tasks), ("steps", steps), ("replications", replications)):
        if value < 1:
            raise InputError(f"{name} must be at least 1; found {value}.")
    if isinstance(model.sharing, Pooled):
        tasks = 1
    source = model if truth is None else truth
    nothing = np.zeros((tasks, environment.num_states, environment.num_actions))
    names = tuple(range(tasks))
    story = source.target(environment, names, nothing)
    seeds = np.random.SeedSequence(seed).generate_state(replications).tolist()

    def replicate(number: int) -> dict[str, float]:
        rng = np.random.default_rng([seeds[number], 1])
        hyper = story.draw_hyper(rng, 1)
        u = story.draw_tasks(rng, hyper)
        demonstrations = simulate(
            environment, story.rewards(u[0]), _rule(source, story, u[0]), steps=steps, seed=seeds[number], on=story.on
        )
        target = model.target(environment, names, demonstrations.counts.astype(float))
        draws = chosen.run(target, seed=seeds[number], progress=Progress(False))
        true = _quantities(story, u[None], hyper[None], _likelihood(target, story, u), number)
        found = _quantities(target, draws.tasks, draws.hyper, draws.log_likelihood, number)
        return {name: _place(found[name], float(true[name].ravel()[0]), rng) for name in found if name in true}

    rows: list[dict[str, float]] = []
    with ThreadPoolExecutor(cores()) as pool, Progress(progress).of(replications, "fits") as report:
        for row in pool.map(replicate, range(replications)):
            rows.append(row)
            report.update(len(rows))
    return Calibration(pd.DataFrame(rows))


def _rule(model: RewardPolicyModel, target: Target, u: np.ndarray) -> Softmax | SoftOptimal:
    """How tasks with coordinates u [M, D] choose, in numbers."""
    owner = np.arange(len(u))
    return type(model.choice)(inverse_temperature=target.temperatures(u, owner), lapse=target.lapses(u, owner))


def _likelihood(target: Target, story: Target, u: np.ndarray) -> np.ndarray:
    """Log-likelihood [1, 1, M] of the truth's coordinates u [1, M, D]."""
    bound = replace(story, counts=target.counts)
    return bound.log_likelihood(u[0], np.arange(target.num_tasks))[None, None]


def _quantities(
    target: Target, tasks: np.ndarray, hyper: np.ndarray, log_likelihood: np.ndarray, number: int
) -> dict[str, np.ndarray]:
    """Draws [chain, draw] of what is ranked: of tasks, a different one each time, as they are exchangeable."""
    m = number % target.num_tasks
    group = target.group[m]
    reward = target.rewards(tasks[:, :, m])
    found = {f"reward {place}": reward.reshape(*tasks.shape[:2], -1)[..., place] for place in _free(target)}
    owner = np.full(tasks.shape[:2], m)
    if target.anatomy.temperature >= 0:
        found["inverse temperature"] = target.temperatures(tasks[:, :, m], owner)
    if target.anatomy.lapse >= 0:
        found["lapse"] = target.lapses(tasks[:, :, m], owner)
    for block in target.blocks:
        for place in range(block.begin, block.end):
            name = block.name.replace("_", " ")
            found[f"{name} {place - block.begin}" if block.per_reward else name] = hyper[:, :, group, place]
    found["log-likelihood"] = log_likelihood.sum(axis=2)
    return found


def _free(target: Target) -> np.ndarray:
    if target.anatomy.features.size:
        return np.arange(len(target.anatomy.features))
    return target.anatomy.places


def _place(draws: np.ndarray, truth: float, rng: np.random.Generator) -> float:
    """Where the truth lies among draws, ties broken at random: uniform if it is one of them."""
    flat = draws.ravel()
    below, equal = int((flat < truth).sum()), int((flat == truth).sum())
    return float((below + rng.random() * (equal + 1)) / (len(flat) + 1))
