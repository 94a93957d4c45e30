"""Hamiltonian Monte Carlo within Gibbs: trajectories of tasks and of populations, among other updates."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from manymotives.errors import InputError
from manymotives.inference.checks import check_moves_rewards_alone, checked_counts
from manymotives.inference.draws import Draws, RunState
from manymotives.inference.many_chains.hmc import run_on_device
from manymotives.inference.mcmc.chains import MarkovChain, advance_chains
from manymotives.inference.mcmc.laplace_chains import chain_for
from manymotives.inference.mcmc.sweeps import hamiltonian_draws
from manymotives.inference.mixture.chain import MixtureChain
from manymotives.inference.progress import Progress
from manymotives.io.records import Recorded
from manymotives.models import Target

SIZES = ("draws", "warmup", "thin")  # that may be left open


@dataclass(frozen=True)
class HMC(Recorded):
    """Hamiltonian trajectories of tasks given their population, and of populations with their tasks (non-centred).

    In between, hyperparameters are drawn from their conditional distributions, and rewards are proposed from the prior
    and swapped: each kind of update mixes quickly where another is slow (few choices or many, sparse rewards or spread
    ones). What was tried instead, and how fast: docs/decisions/0007. Gaussian rewards of more than 100 coordinates, or
    of more than 8 in more than 500 states, move around a Laplace approximation instead: docs/decisions/0019.

    Parameters
    ----------
    chains, draws
        `draws` of each chain are kept from each round. Four chains, so that their disagreement can be seen (R-hat).
        None: 250, or 125 around a Laplace approximation, where every draw is dear and nearly independent.
    warmup
        Draws before those, in which step sizes and mass matrices are adapted; afterwards they are fixed. None: 250.
    thin
        Sweeps for each draw. None: four, because a sweep is cheap and successive ones are alike; one around a Laplace
        approximation.
    max_rounds
        `fit` makes rounds of `draws` until the chains agree (R-hat ≤ 1.01) and every quantity has 400 effective draws,
        in its bulk and in its tails; at most this many. Rounds are short, so that easy problems end in seconds.
    device
        None: compiled chains, each in a thread of this machine. "gpu", "cpu" or a device of JAX: all chains at once
        there, in float64; meant for hundreds of chains or thousands, warmed up together and then short, such as
        `HMC(chains=1024, draws=50, warmup=150, thin=1, device="gpu")`. Large environments are swept there. These chains
        cannot go on, so `max_rounds` is not read.
    """

    chains: int = 4
    draws: int | None = None
    warmup: int | None = None
    thin: int | None = None
    max_rounds: int = 20
    device: Any = None

    target_type: ClassVar[type] = Target
    is_markov_chain: ClassVar[bool] = True

    def __post_init__(self) -> None:
        left_open = [name for name in SIZES if getattr(self, name) is None]
        checked_counts(self, *(name for name in ("chains", *SIZES, "max_rounds") if name not in left_open))

    def suited_to(self, target: Target) -> "HMC":
        """With the sizes that chains of this target have by default, where they were left open."""
        kind = MarkovChain if self.device is not None else _chain_for(target)
        default = {"draws": kind.draws, "warmup": kind.warmup, "thin": kind.thin}
        return replace(self, **{name: value for name, value in default.items() if getattr(self, name) is None})

    def init(self, target: Target, seed: int) -> RunState:
        if self.device is not None:
            check_moves_rewards_alone(self, target)
            if target.layout.smooth.exist:
                raise InputError("HMC: SmoothReward() is not available on devices yet. Use device=None.")
            if target.depth is not None:
                raise InputError("HMC: a depth is not available on devices yet. Use device=None.")
        return RunState(target, seed)

    def advance(self, state: RunState, draws: int, progress: Progress) -> tuple[RunState | None, Draws]:
        settings: Any = self.suited_to(state.target)
        if self.device is None:
            kind = _chain_for(state.target)
            size = state.target.num_coordinates
            return advance_chains(hamiltonian_draws, settings, size, state, draws, progress, kind)
        if state.arrays:
            raise InputError("HMC: chains on a device cannot be resumed. Use device=None.")
        return None, run_on_device(state.target, replace(settings, draws=draws), self.device, state.seed, progress)


def _chain_for(target: Target) -> Any:
    """The kind of chain that samples from a target."""
    return chain_for(target) if target.partitions is None else MixtureChain
