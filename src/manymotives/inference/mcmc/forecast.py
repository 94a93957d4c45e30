"""How long a draw will take, before there is one: a step of a chain is timed, and the steps of a draw are counted."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from manymotives.inference.mcmc.density import latent_room, path_judge
from manymotives.inference.mcmc.hamiltonian import prepare_paths
from manymotives.inference.mcmc.proposals import room_for, trial_judge

if TYPE_CHECKING:
    from manymotives.inference.mcmc.chains import Chain

AWAY = 0.1  # how far a timed step goes, in coordinates of scale 1: a plan for the same rewards would take no time


def seconds_of_a_draw(chain: "Chain", thin: int) -> float:
    """About how many seconds a draw of `thin` sweeps takes, from where a chain is; nothing random is drawn.

    NaN where that is not known: an environment that is drawn along has moves of its own.
    """
    if chain.unknown is not None:
        return float("nan")
    carried = len(chain.proposal.carry_directions)
    if not chain.follows:
        return thin * (2 + carried) * _seconds_of_trials(chain)
    between, longest, longest_together = (int(each) for each in chain.proposal.pace)
    judged = between * (2 + carried) + 1 + longest / 2 + longest_together / 2
    return thin * judged * _seconds_of_gradients(chain)


def _seconds_of_gradients(chain: "Chain") -> float:
    """A leapfrog step of all tasks."""
    kept = {name: getattr(chain.state, name).copy() for name in ("lift", "task_z", "hyper_z")}
    state = chain.state._replace(**kept)  # what is left here must not be where the chain begins
    room = latent_room(chain.world, chain.anatomy, chain.target.num_tasks, chain.target.num_groups)
    prepare_paths(chain.world, chain.anatomy, chain.data, state, room)
    return _least(
        lambda away: path_judge(chain.world, chain.anatomy, chain.data, room, state.hyper_z, state.task_z + away)
    )


def _seconds_of_trials(chain: "Chain") -> float:
    """A proposal for each task."""
    count = chain.target.num_tasks
    plans, trial, _, found, owner = room_for(chain.world, chain.anatomy, count)
    plans.value[:count], plans.actions[:count] = chain.state.value, chain.state.actions

    def judge(away: float) -> None:
        trial[:count] = chain.state.tasks + away
        trial_judge(chain.world, chain.anatomy, chain.data, plans, trial, owner, count, found)

    return _least(judge)


def _least(step: Callable[[float], None]) -> float:
    """Seconds of the quickest of a few steps there and back: any may wait for a thread that compiles, or compile."""
    found = []
    for away in (AWAY, 0.0, AWAY, 0.0):
        begin = time.perf_counter()
        step(away)
        found.append(time.perf_counter() - begin)
    return min(found)
