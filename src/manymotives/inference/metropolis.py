"""MRP-MH: random walks and prior proposals of each task given its population, random walks of the population."""

from dataclasses import dataclass
from typing import ClassVar

from manymotives.inference.checks import check_no_partitions, checked_counts
from manymotives.inference.draws import Draws, RunState
from manymotives.inference.mcmc.chains import MarkovChain, advance_chains, streams_of
from manymotives.inference.mcmc.forecast import forecast_of_chains
from manymotives.inference.mcmc.sweeps import metropolis_draws
from manymotives.inference.progress import Forecast, Progress
from manymotives.io.records import Recorded
from manymotives.models import Target


@dataclass(frozen=True)
class Metropolis(Recorded):
    """Metropolis–Hastings, in any number of parallel chains.

    Parameters
    ----------
    chains, draws
        The number of chains, and of draws that are kept from each. With four chains R-hat can detect disagreement.
    warmup
        The number of earlier draws, during which the proposals are adapted; they are fixed afterwards.
    thin
        The number of sweeps per draw. The default is twenty, because a sweep (two proposals for each task, one for each
        hyperparameter) is cheap and successive sweeps are highly correlated.
    """

    chains: int = 4
    draws: int = 1000
    warmup: int = 1000
    thin: int = 20

    target_type: ClassVar[type] = Target
    is_markov_chain: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checked_counts(self)

    def init(self, target: Target, seed: int) -> RunState:
        check_no_partitions(self, target)
        return RunState(target, seed)

    def advance(self, state: RunState, draws: int, progress: Progress) -> tuple[RunState | None, Draws]:
        return advance_chains(metropolis_draws, self, state.target.num_coordinates, state, draws, progress)

    def forecast(self, target: Target, seed: int, draws: int) -> Forecast:
        """How long warm-up and so many draws take on this machine."""
        first = streams_of(seed, self.chains)[0]
        return forecast_of_chains(MarkovChain(metropolis_draws, target, target.num_coordinates, first), self, draws)
