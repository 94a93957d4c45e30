"""MRP-Gibbs: exact draws of hyperparameters, inverse temperatures and lapse rates; Metropolis moves of the rewards."""

from dataclasses import dataclass
from typing import ClassVar

from manymotives.inference.checks import check_no_partitions, checked_counts
from manymotives.inference.draws import Draws, RunState
from manymotives.inference.mcmc.chains import MarkovChain, advance_chains, streams_of
from manymotives.inference.mcmc.forecast import forecast_of_chains
from manymotives.inference.mcmc.sweeps import gibbs_draws
from manymotives.inference.progress import Forecast, Progress
from manymotives.io.records import Recorded
from manymotives.models import Target


@dataclass(frozen=True)
class Gibbs(Recorded):
    """A hybrid sampler: exact draws, conjugate or one-dimensional, if they exist, and Metropolis steps otherwise.

    Parameters
    ----------
    chains, draws
        The number of chains, and of draws that are kept from each. With four chains R-hat can detect disagreement.
    warmup
        The number of earlier draws, during which the proposals of rewards are adapted; they are fixed afterwards.
    thin
        The number of sweeps per draw. The default is twenty, because a sweep is cheap and successive sweeps are highly
        correlated.
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
        return advance_chains(gibbs_draws, self, _walk_size(state.target), state, draws, progress)

    def forecast(self, target: Target, seed: int, draws: int) -> Forecast:
        """How long warm-up and so many draws take on this machine."""
        first = streams_of(seed, self.chains)[0]
        return forecast_of_chains(MarkovChain(gibbs_draws, target, _walk_size(target), first), self, draws)


def _walk_size(target: Target) -> int:
    """How many coordinates of a task random walks move."""
    layout = target.layout
    # plans depend on the discount, soft ones on the temperature too: steps in these are taken with the rewards
    return int(layout.num_rewards + (layout.discount >= 0) + (layout.is_soft and layout.temperature >= 0))
