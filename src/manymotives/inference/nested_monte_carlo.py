"""Monte Carlo that uses what the model says: given their population, tasks are independent.

For each of K populations h^(k) from the hyperprior, every task gets J draws of its own, and

    Z_km = mean_j p(d_m | ρ_kmj, c_kmj)          an unbiased estimate of p(d_m | h^(k))
    weight of h^(k) ∝ Π_m Z_km,   within it one of task m's draws with probability ∝ p(d_m | ρ_kmj, c_kmj)

Algorithm 1 is J = 1. The weights collapse only as fast as the populations differ, not as fast as tasks are many.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from manymotives.inference.checks import check_moves_rewards_alone, checked_counts
from manymotives.inference.draws import Draws, RunState
from manymotives.inference.importance import COLLAPSED, stream_of, weighted_draws, with_earlier
from manymotives.inference.mcmc.forecast import forecast_of_plans
from manymotives.inference.progress import Forecast, Progress
from manymotives.io.records import Recorded
from manymotives.models import Target

AT_A_TIME = 200_000  # plans between two looks at the clock
KEPT = 16  # draws of each task kept for each population, so that one resampled often is not one draw repeated


@dataclass(frozen=True)
class NestedMonteCarlo(Recorded):
    """Importance sampling of populations, and of each task within each population.

    Parameters
    ----------
    draws
        K: the number of populations drawn from the hyperprior, and of equally weighted draws that are returned.
    inner
        J: the number of draws of every task for each population.
    """

    draws: int = 1_000
    inner: int = 1_000

    target_type: ClassVar[type] = Target
    is_markov_chain: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checked_counts(self)

    def init(self, target: Target, seed: int) -> RunState:
        check_moves_rewards_alone(self, target)
        return RunState(target, seed)

    def forecast(self, target: Target, seed: int, draws: int) -> Forecast:
        """How long so many draws take on this machine."""
        return forecast_of_plans(target, draws * self.inner * target.num_tasks)

    def advance(self, state: RunState, draws: int, progress: Progress) -> tuple[RunState | None, Draws]:
        target = state.target
        rng = stream_of(state)
        num_tasks = target.num_tasks
        hyper = target.draw_hyper(rng, draws)
        kept = np.empty((draws, num_tasks, KEPT, target.num_coordinates))
        likelihood = np.empty((draws, num_tasks, KEPT))
        evidence = np.empty((draws, num_tasks))  # log Z_km
        inner_size = np.empty((draws, num_tasks))
        step = max(1, AT_A_TIME // (num_tasks * self.inner))
        made = 0
        with progress.of(draws, "populations") as report:
            try:
                for begin in range(0, draws, step):
                    part = slice(begin, min(begin + step, draws))
                    found = self._inside(rng, target, hyper[part])
                    evidence[part], inner_size[part], kept[part], likelihood[part] = found
                    made = part.stop
                    report.update(made)
            except KeyboardInterrupt:
                if made == 0:
                    raise
        stopped = (f"interrupted after {made} of {draws} populations.",) if made < draws else ()
        every = with_earlier(
            state.arrays,
            hyper=hyper[:made],
            evidence=evidence[:made],
            inner_size=inner_size[:made],
            kept=kept[:made],
            likelihood=likelihood[:made],
        )
        weighted = weighted_draws(rng, every["evidence"], target)
        chosen = weighted.chosen
        inside = np.array([every["inner_size"][chosen[:, target.group[m]], m].mean() for m in range(num_tasks)])
        each = (chosen[:, target.group], np.arange(num_tasks), _turns(chosen)[:, target.group])
        warnings: tuple[str, ...] = stopped
        if target.num_hyper:  # without hyperparameters all populations are one, and their weights say nothing
            warnings += weighted.warnings("populations", "Use Gibbs(), or more draws.")
        if inside.min() < COLLAPSED:
            task = target.tasks[int(np.argmin(inside))]
            warnings += (
                f"within a population, {self.inner} draws of {task!r} are worth {inside.min():.1f}: its choices "
                "are far more informative than the prior. Raise `inner`, or use Gibbs().",
            )
        sampled = Draws(
            tasks=every["kept"][each][None],
            hyper=every["hyper"][chosen, np.arange(target.num_groups)][None],
            log_likelihood=every["likelihood"][each][None],
            statistics=weighted.statistics | {"inner_effective_sample_size": (("task",), inside)},
            warnings=warnings,
            includes_earlier=True,
        )
        return replace(state, arrays=every), sampled

    def _inside(
        self, rng: np.random.Generator, target: Target, hyper: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """log Z [K, M], how many draws it stands on [K, M], and KEPT of them with likelihoods, for h [K, G, H]."""
        num, num_tasks, inner = len(hyper), target.num_tasks, self.inner
        tasks = target.draw_tasks(rng, np.repeat(hyper, inner, axis=0))  # [K·J, M, D]
        owner = np.tile(np.arange(num_tasks), num * inner)
        log_p = target.log_likelihood(tasks.reshape(-1, target.num_coordinates), owner)
        log_p = log_p.reshape(num, inner, num_tasks)
        largest = np.maximum(log_p.max(axis=1, keepdims=True), -1e300)
        weight = np.exp(log_p - largest)
        total = weight.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_z = np.log(total / inner) + largest[:, 0]
            size = np.nan_to_num(total**2 / np.square(weight).sum(axis=1))
        edges = np.cumsum(weight, axis=1)
        points = rng.random((num, KEPT, num_tasks)) * edges[:, -1:]
        index = np.empty((num, KEPT, num_tasks), dtype=int)
        for k in range(num):
            for m in range(num_tasks):
                index[k, :, m] = np.minimum(np.searchsorted(edges[k, :, m], points[k, :, m]), inner - 1)
        tasks = tasks.reshape(num, inner, num_tasks, -1)
        where = (np.arange(num)[:, None, None], index, np.arange(num_tasks))
        return log_z, size, tasks[where].swapaxes(1, 2), log_p[where].swapaxes(1, 2)


def _turns(chosen: np.ndarray) -> np.ndarray:
    """[N, G] the how-manieth time each index of [N, G] comes, counted modulo KEPT."""
    turns = np.empty_like(chosen)
    for g in range(chosen.shape[1]):
        order = np.argsort(chosen[:, g], kind="stable")
        ranked = chosen[order, g]
        first = np.searchsorted(ranked, ranked)
        turns[order, g] = (np.arange(len(ranked)) - first) % KEPT
    return turns
