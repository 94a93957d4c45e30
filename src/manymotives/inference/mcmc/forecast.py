"""Seconds per draw, before there is one: a leapfrog step (or a proposal) is timed, and those of a draw are counted."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from manymotives.inference.mcmc.density import density_workspace, log_density_and_gradient
from manymotives.inference.mcmc.hamiltonian import start_trajectories
from manymotives.inference.mcmc.proposals import proposal_log_likelihoods, proposal_workspace

if TYPE_CHECKING:
    from manymotives.inference.mcmc.chains import MarkovChain

TIMED, MOST = 0.2, 40  # seconds of timed steps, and their number, at most (but four at least)
AWAY = 0.1  # how far a timed step goes, in coordinates of scale 1: a plan for the same rewards would take no time


def seconds_of_a_draw(chain: "MarkovChain", thin: int) -> float:
    """About how many seconds a draw of `thin` sweeps takes, from where a chain is; nothing random is drawn.

    NaN where that is not known: uncertain dynamics, motives that switch and effects have updates of their own.
    """
    if chain.dynamics is not None or chain.motives is not None or chain.effects is not None:
        return float("nan")
    directions = len(chain.tuning.interweaving_directions)
    if not chain.is_hamiltonian:
        return thin * (2 + directions) * _seconds_of_proposals(chain)
    between, longest, longest_of_population = (int(each) for each in chain.tuning.schedule)
    evaluations = between * (2 + directions) + 1 + longest / 2 + longest_of_population / 2
    return thin * evaluations * _seconds_of_gradients(chain)


def _seconds_of_gradients(chain: "MarkovChain") -> float:
    """A leapfrog step of all tasks."""
    kept = {name: getattr(chain.state, name).copy() for name in ("likelihood_gradient", "task_z", "hyper_z")}
    state = chain.state._replace(**kept)  # the chain's own must stay as they are
    workspace = density_workspace(chain.world, chain.layout, chain.target.num_tasks, chain.target.num_groups)
    start_trajectories(chain.world, chain.layout, chain.data, state, workspace)
    return _least(
        lambda away: log_density_and_gradient(
            chain.world, chain.layout, chain.data, workspace, state.hyper_z, state.task_z + away
        )
    )


def _seconds_of_proposals(chain: "MarkovChain") -> float:
    """A proposal for each task."""
    count = chain.target.num_tasks
    plans, proposed, _, found, owner = proposal_workspace(chain.world, chain.layout, count)
    plans.value[:count], plans.actions[:count] = chain.state.value, chain.state.actions

    def evaluate(away: float) -> None:
        proposed[:count] = chain.state.tasks + away
        proposal_log_likelihoods(chain.world, chain.layout, chain.data, plans, proposed, owner, count, found)

    return _least(evaluate)


def _least(step: Callable[[float], None]) -> float:
    """Seconds of the quicker steps there and back: any may wait for a thread that compiles, or compile.

    Of a few it is the quickest, of many the median of the quicker half, which a busy machine hardly changes.
    """
    found: list[float] = []
    while len(found) < 4 or (sum(found) < TIMED and len(found) < MOST):
        begin = time.perf_counter()
        step(AWAY if len(found) % 2 == 0 else 0.0)
        found.append(time.perf_counter() - begin)
    return sorted(found)[len(found) // 4 - 1]
