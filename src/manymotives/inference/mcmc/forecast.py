"""How long a run takes, before it begins.

about       a leapfrog step (or a proposal) of a chain is timed, and those of a draw are counted
roughly     draws of a chain that also updates transitions, motives, effects or partitions, made and thrown away;
            or plans of other methods, as many as one makes in a batch, and about how many there are
at least    plans of other methods, where there is more to do than to plan
"""

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from manymotives.inference.mcmc.density import density_workspace, log_density_and_gradient
from manymotives.inference.mcmc.hamiltonian import start_trajectories
from manymotives.inference.mcmc.proposals import proposal_log_likelihoods, proposal_workspace
from manymotives.inference.progress import Forecast
from manymotives.models import Target
from manymotives.planning.problem import cores

if TYPE_CHECKING:
    from manymotives.inference.mcmc.chains import MarkovChain

TIMED, MOST = 0.2, 40  # seconds of timed steps, and their number, at most (but a few at least)
BATCH = 32  # plans that are timed at once, at least, where a method makes many
AWAY = 0.1  # how far a timed step goes, in coordinates of scale 1: a plan for the same rewards would take no time


def forecast_of_chains(chain: Any, settings: Any, draws: int) -> Forecast:
    """How long warm-up and so many draws take on this machine, from a chain that nobody else needs."""
    chain.begin()
    seconds, said = chain.forecast(settings.thin), "about"
    if not math.isfinite(seconds):
        seconds, said = least_seconds(lambda _: chain.one_draw(settings.thin), fewest=2), "roughly"
    pieces = settings.chains * (settings.warmup + draws)
    return Forecast(float(seconds * pieces / min(settings.chains, cores())), said)


def forecast_of_plans(target: Target, plans: float, said: str = "roughly") -> Forecast:
    """How long so many plans of tasks take on this machine."""
    rng, num_tasks = np.random.default_rng(0), target.num_tasks
    hyper = target.draw_hyper(rng, -(-BATCH // num_tasks))
    tasks = target.draw_tasks(rng, hyper).reshape(-1, target.num_coordinates)
    owner = np.tile(np.arange(num_tasks), len(hyper))
    return Forecast(plans / len(tasks) * least_seconds(lambda away: target.log_likelihood(tasks + away, owner)), said)


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
    return least_seconds(
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

    return least_seconds(evaluate)


def least_seconds(step: Callable[[float], Any], fewest: int = 4) -> float:
    """Seconds of the quicker steps there and back: any may wait for a thread that compiles, or compile.

    Of a few it is the quickest, of many the median of the quicker half, which a busy machine hardly changes.
    """
    found: list[float] = []
    while len(found) < fewest or (sum(found) < TIMED and len(found) < MOST):
        begin = time.perf_counter()
        step(AWAY if len(found) % 2 == 0 else 0.0)
        found.append(time.perf_counter() - begin)
    return sorted(found)[max(0, len(found) // 4 - 1)]
