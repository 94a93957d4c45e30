"""MRP-Gibbs: exact draws of hyperparameters, inverse temperatures and lapse rates; Metropolis moves of the rewards."""

from dataclasses import dataclass
from typing import Any, ClassVar

from manymotives.inference.checks import checked_counts
from manymotives.inference.draws import Draws
from manymotives.inference.mcmc.chains import run_chains
from manymotives.inference.mcmc.sweeps import gibbs_draws
from manymotives.inference.progress import Progress
from manymotives.models import Target


@dataclass(frozen=True)
class Gibbs:
    """The hybrid sampler: conjugate or one-dimensional exact draws where they exist, Metropolis where not.

    Parameters
    ----------
    chains, draws
        `draws` of each chain are kept. Four chains, so that their disagreement can be seen (R-hat).
    warmup
        Draws before those, in which the proposals of rewards adapt; afterwards they are fixed.
    thin
        Sweeps for each draw. Twenty, because a sweep is cheap and successive ones are much alike.
    """

    chains: int = 4
    draws: int = 1000
    warmup: int = 1000
    thin: int = 20

    is_markov_chain: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checked_counts(self)

    def run(self, target: Target, *, seed: int, progress: Progress, state: dict[str, Any] | None = None) -> Draws:
        layout = target.layout
        # soft plans depend on the temperature: a step in it is taken together with the rewards
        walk_size = layout.num_rewards + (1 if layout.is_soft and layout.temperature >= 0 else 0)
        return run_chains(
            gibbs_draws,
            target,
            settings=self,
            walk_size=walk_size,
            seed=seed,
            progress=progress,
            state=state,
        )
