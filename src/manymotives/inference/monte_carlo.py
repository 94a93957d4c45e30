"""MRP-MC, the paper's Algorithm 1: draw everything from the prior, weight by the likelihood of all tasks at once."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from manymotives.inference.checks import check_moves_rewards_alone, checked_counts
from manymotives.inference.draws import Draws, RunState
from manymotives.inference.importance import stream_of, weighted_draws, with_earlier
from manymotives.inference.mcmc.forecast import forecast_of_plans
from manymotives.inference.progress import Forecast, Progress
from manymotives.io.records import Recorded
from manymotives.models import Target

AT_A_TIME = 200_000  # plans between two looks at the clock


@dataclass(frozen=True)
class MonteCarlo(Recorded):
    """Algorithm 1 exactly as in the paper: weights q^(k) ∝ Π_m p(d_m | ρ_m^(k), c_m^(k)), in log space.

    With several tasks nearly all weight falls on very few draws: at 50 steps per task, five tasks leave one draw in
    five thousand. The method is included for comparison; `NestedMonteCarlo` applies the same idea task by task.

    Parameters
    ----------
    draws
        K: the number of draws from the prior, and of equally weighted draws that are returned.
    """

    draws: int = 10_000

    target_type: ClassVar[type] = Target
    is_markov_chain: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checked_counts(self)

    def init(self, target: Target, seed: int) -> RunState:
        check_moves_rewards_alone(self, target)
        return RunState(target, seed)

    def forecast(self, target: Target, seed: int, draws: int) -> Forecast:
        """How long so many draws take on this machine."""
        return forecast_of_plans(target, draws * target.num_tasks)

    def advance(self, state: RunState, draws: int, progress: Progress) -> tuple[RunState | None, Draws]:
        target = state.target
        rng = stream_of(state)
        num_tasks, size = target.num_tasks, target.num_coordinates
        hyper = np.empty((draws, target.num_groups, target.num_hyper))
        tasks = np.empty((draws, num_tasks, size))
        likelihood = np.empty((draws, num_tasks))
        step = max(1, AT_A_TIME // num_tasks)
        made = 0
        with progress.of(draws, "draws") as report:
            try:
                for begin in range(0, draws, step):
                    part = slice(begin, min(begin + step, draws))
                    hyper[part] = target.draw_hyper(rng, part.stop - begin)
                    tasks[part] = target.draw_tasks(rng, hyper[part])
                    owner = np.tile(np.arange(num_tasks), part.stop - begin)
                    likelihood[part] = target.log_likelihood(tasks[part].reshape(-1, size), owner).reshape(
                        -1, num_tasks
                    )
                    made = part.stop
                    report.update(made)
            except KeyboardInterrupt:
                if made == 0:
                    raise
        stopped = (f"interrupted after {made} of {draws} draws.",) if made < draws else ()
        every = with_earlier(state.arrays, tasks=tasks[:made], hyper=hyper[:made], likelihood=likelihood[:made])
        weighted = weighted_draws(rng, every["likelihood"], target)
        each = (weighted.chosen[:, target.group], np.arange(num_tasks))
        remedy = "Use NestedMonteCarlo(), Gibbs() or more draws."
        found = Draws(
            tasks=every["tasks"][each][None],
            hyper=every["hyper"][weighted.chosen, np.arange(target.num_groups)][None],
            log_likelihood=every["likelihood"][each][None],
            statistics=weighted.statistics,
            warnings=stopped + weighted.warnings("draws from the prior", remedy),
            includes_earlier=True,
        )
        return replace(state, arrays=every), found
