"""MRP-MC, the paper's Algorithm 1: draw everything from the prior, weight by the likelihood of all tasks at once."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from manymotives.inference.checks import check_environment_is_known, checked_counts
from manymotives.inference.draws import Draws
from manymotives.inference.importance import stream_of, weighted_draws, with_earlier
from manymotives.inference.progress import Progress
from manymotives.models import Target

AT_A_TIME = 200_000  # plans between two looks at the clock


@dataclass(frozen=True)
class MonteCarlo:
    """Algorithm 1 to the letter: weights q^(k) ∝ Π_m p(d_m | ρ_m^(k), c_m^(k)), in log space.

    With several tasks the product collapses: at 50 steps a task, five tasks leave one draw in five thousand. Here for
    comparison; `NestedMonteCarlo` is the same idea, task by task.

    Parameters
    ----------
    draws
        K: draws from the prior, and also how many equally weighted draws are returned.
    """

    draws: int = 10_000

    is_markov_chain: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checked_counts(self)

    def run(self, target: Target, *, seed: int, progress: Progress, state: dict[str, Any] | None = None) -> Draws:
        check_environment_is_known(self, target)
        rng = stream_of(seed, state)
        num_tasks, size = target.num_tasks, target.num_coordinates
        hyper = np.empty((self.draws, target.num_groups, target.num_hyper))
        tasks = np.empty((self.draws, num_tasks, size))
        likelihood = np.empty((self.draws, num_tasks))
        step = max(1, AT_A_TIME // num_tasks)
        made = 0
        with progress.of(self.draws, "draws") as report:
            try:
                for begin in range(0, self.draws, step):
                    part = slice(begin, min(begin + step, self.draws))
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
        stopped = (f"stopped by hand after {made} of {self.draws} draws.",) if made < self.draws else ()
        every = with_earlier(state, tasks=tasks[:made], hyper=hyper[:made], likelihood=likelihood[:made])
        weighted = weighted_draws(rng, every["likelihood"], target)
        each = (weighted.chosen[:, target.group], np.arange(num_tasks))
        remedy = "Use NestedMonteCarlo(), Gibbs() or more draws."
        return Draws(
            tasks=every["tasks"][each][None],
            hyper=every["hyper"][weighted.chosen, np.arange(target.num_groups)][None],
            log_likelihood=every["likelihood"][each][None],
            statistics=weighted.statistics,
            warnings=stopped + weighted.warnings("draws from the prior", remedy),
            state=every,
        )
