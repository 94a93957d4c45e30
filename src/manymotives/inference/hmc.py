"""Hamiltonian Monte Carlo within Gibbs: trajectories of tasks and of populations, among other updates."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from manymotives.errors import InputError
from manymotives.inference.checks import check_moves_rewards_alone, checked_counts
from manymotives.inference.draws import Draws, RunState
from manymotives.inference.mcmc.adaptation import has_many_coordinates
from manymotives.inference.mcmc.chains import MarkovChain, advance_chains, streams_of
from manymotives.inference.mcmc.forecast import forecast_of_chains
from manymotives.inference.mcmc.laplace_chains import chain_for
from manymotives.inference.mcmc.sweeps import hamiltonian_draws
from manymotives.inference.mixture.chain import MixtureChain
from manymotives.inference.mixture.collapsed import integrates_motives_out
from manymotives.inference.progress import Forecast, Progress
from manymotives.io.records import Recorded
from manymotives.models import Target

SIZES = ("draws", "warmup", "thin")  # that may be left open
# Where nothing but rewards and temperatures is inferred, 150 draws of warm-up do as well as 250: chains need as many
# draws after them, on problems with sparse rewards too (decision 0029). With 100, some need twice as many.
SHORT_WARMUP = 150


@dataclass(frozen=True)
class HMC(Recorded):
    """Hamiltonian Monte Carlo for tasks given their population, and for populations with their tasks (non-centred).

    Between trajectories, hyperparameters are drawn from their conditional distributions, and rewards are proposed from
    the prior and swapped: each kind of update mixes quickly where another is slow (few choices or many, sparse rewards
    or diffuse ones). Alternatives and their speed are in docs/decisions/0007. Gaussian rewards of more than 100
    coordinates, or of more than 8 in more than 500 states, are sampled around a Laplace approximation instead:
    docs/decisions/0019.

    Parameters
    ----------
    chains, draws
        The number of chains, and of draws that are kept from each chain in each round. With four chains R-hat can
        detect disagreement. If `draws` is None, `fit` checks the chains several times in a round and stops as soon as
        they have mixed; a round is 250 draws, or 125 around a Laplace approximation, where draws are expensive and
        nearly independent.
    warmup
        The number of earlier draws, during which step sizes and mass matrices are adapted; they are fixed afterwards.
        If None, 150; or 250 if transitions, switching motives, effects of covariates or more than 100 coordinates are
        inferred too.
    thin
        The number of sweeps per draw. If None, four, because a sweep is cheap and successive sweeps are correlated; one
        around a Laplace approximation.
    max_rounds
        The largest number of rounds. `fit` makes rounds of `draws` until the chains agree (R-hat ≤ 1.01) and every
        quantity has 400 effective draws, in its bulk and in its tails. If `draws` is None, it checks after 150 draws
        and after every 50 more (later, after an eighth more), and stops at the first check that finds this with
        15 % of the effective draws to spare.
    device
        If None, compiled chains, each in a thread of this machine. With "gpu", "cpu" or a device of JAX, all chains run
        at once there, in float64; meant for hundreds or thousands of chains, warmed up together and then short, such as
        `HMC(chains=1024, draws=50, warmup=150, thin=1, device="gpu")`. Large environments are planned there by sweeps.
        These chains cannot be continued, so `max_rounds` is ignored.
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
        warmup = SHORT_WARMUP if self.device is None and _is_soon_warm(kind, target) else kind.warmup
        default = {"draws": kind.draws, "warmup": warmup, "thin": kind.thin}
        return replace(self, **{name: value for name, value in default.items() if getattr(self, name) is None})

    def init(self, target: Target, seed: int) -> RunState:
        if self.device is not None:
            check_moves_rewards_alone(self, target)
            if target.layout.smooth.exist:
                raise InputError("HMC: SmoothReward() is not available on devices yet. Use device=None.")
            if target.depth is not None:
                raise InputError("HMC: a depth is not available on devices yet. Use device=None.")
        return RunState(target, seed)

    def forecast(self, target: Target, seed: int, draws: int) -> Forecast:
        """How long warm-up and so many draws take on this machine's cores: on a device less."""
        settings: Any = self.suited_to(target)
        first = streams_of(seed, settings.chains)[0]
        chain = _chain_for(target)(hamiltonian_draws, target, target.num_coordinates, first)
        found = forecast_of_chains(chain, settings, draws)
        return found if self.device is None else found._replace(said="at most")

    def advance(self, state: RunState, draws: int, progress: Progress) -> tuple[RunState | None, Draws]:
        settings: Any = self.suited_to(state.target)
        if self.device is None:
            kind = _chain_for(state.target)
            size = state.target.num_coordinates
            return advance_chains(hamiltonian_draws, settings, size, state, draws, progress, kind)
        if state.arrays:
            raise InputError("HMC: chains on a device cannot be resumed. Use device=None.")
        from manymotives.inference.many_chains.hmc import run_on_device  # needs JAX

        return None, run_on_device(state.target, replace(settings, draws=draws), self.device, state.seed, progress)


def _is_soon_warm(kind: Any, target: Target) -> bool:
    """Whether few rewards, temperatures and populations are all that is inferred, or motives are integrated out."""
    if kind is not MarkovChain:
        return kind is MixtureChain and integrates_motives_out(target)
    others = (target.belief, target.assignment, target.effects)
    return all(other is None for other in others) and not has_many_coordinates(target)


def _chain_for(target: Target) -> Any:
    """The kind of chain that samples from a target."""
    return chain_for(target) if target.partitions is None else MixtureChain
