"""MRP-MH: random walks and prior proposals of each task given its population, random walks of the population."""

from dataclasses import dataclass
from typing import Any, ClassVar

from manymotives.inference.checks import checked_counts
from manymotives.inference.draws import Draws
from manymotives.inference.mcmc.chains import run_chains
from manymotives.inference.mcmc.sweeps import metropolis_draws
from manymotives.inference.progress import Progress
from manymotives.models import Target


@dataclass(frozen=True)
class Metropolis:
    """Metropolis–Hastings in any number of parallel chains.

    Parameters
    ----------
    chains, draws
        `draws` of each chain are kept. Four chains, so that their disagreement can be seen (R-hat).
    warmup
        Draws before those, in which the proposals adapt; afterwards they are fixed.
    thin
        Sweeps for each draw. Twenty, because a sweep (two proposals for each task, one for each hyperparameter) is
        cheap and successive ones are much alike.
    """

    chains: int = 4
    draws: int = 1000
    warmup: int = 1000
    thin: int = 20

    is_markov_chain: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checked_counts(self)

    def run(self, target: Target, *, seed: int, progress: Progress, state: dict[str, Any] | None = None) -> Draws:
        return run_chains(
            metropolis_draws,
            target,
            settings=self,
            walk_size=target.num_coordinates,
            seed=seed,
            progress=progress,
            state=state,
        )
