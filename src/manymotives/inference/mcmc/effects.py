"""Effects of covariates as part of a Markov chain's state: start, update, record, resume.

    u_m = v_m + Σ_e X_me B_e,     B = scale ∘ z,     scale = s, or τ of a member's column            (`models.effects`)

A chain's `state.tasks` are v, so that the population's own updates are those of every model, and `data.offset` is what
covariates add. Around each sweep:

    tasks keep u       where v is normal: its scale and τ, B integrated out; then B and the population mean together
                       (conjugate: a regression); elsewhere one coefficient of each coordinate by slice sampling; τ
    B is kept          τ by slice sampling
    tasks keep v       z and log τ by a Hamiltonian trajectory, along which every task plans anew

The first is quick where choices tell tasks apart, the last where tasks are alike (interweaving: Yu & Meng 2011).
"""

from typing import Any

import numpy as np

from manymotives.families import LOG_NORMAL, NORMAL
from manymotives.inference.draws import EffectDraws
from manymotives.inference.mcmc.density import density_workspace
from manymotives.inference.mcmc.effect_kernels import Columns, EffectState, set_offset, update_effects
from manymotives.inference.mcmc.state import Data, State
from manymotives.models import Target
from manymotives.models.effects import POPULATION, Effects
from manymotives.models.target import CONSTANT
from manymotives.planning.warm_start import World

SAVED = ("z", "log_spread", "width", "step_size")  # what is needed to resume
SWEEPS_EACH = 2  # sweeps for each update
FIRST_STEP = 0.2
ACCEPTANCE = 0.8  # of trajectories


class EffectSampler:
    """The coefficients of one chain."""

    def __init__(self, target: Target, saved: dict[str, Any] | None = None) -> None:
        assert target.effects is not None
        self.effects: Effects = target.effects
        self.target = target
        self.is_member = self.effects.slope != POPULATION
        size = self.effects.applies.shape[1]
        count = len(self.effects.names) + self.effects.num_slopes
        self.known = _columns_of(target)
        self.state = EffectState(
            np.zeros(self.effects.applies.shape),
            np.zeros((self.effects.num_slopes, size)),
            np.ones((count, size)),
            np.array(FIRST_STEP),
        )
        if saved is not None:
            self.state = EffectState(*(np.array(saved[f"effects_{name}"]) for name in SAVED))
        self.seen: list[np.ndarray] = []  # in warm-up: squares of the slopes of log-likelihoods in coefficients
        self.accepted: list[float] = []
        self.slopes = np.zeros((target.num_tasks, size))  # of log-likelihoods in tasks' u, where the chain is

    def begin(self, rng: np.random.Generator) -> np.ndarray:
        """From the prior; the offsets [M, D] that follow."""
        z, log_spread = self.effects.draw(rng)
        self.state = self.state._replace(z=z, log_spread=np.maximum(log_spread, np.log(0.05 * self.effects.scale)))
        return self.offset()

    def offset(self) -> np.ndarray:
        """[M, D] what covariates add to tasks' v."""
        found = np.empty(self.slopes.shape)
        set_offset(self.known, self.state, found)
        return found

    def saved(self) -> dict[str, np.ndarray]:
        """All that is needed to resume."""
        return {f"effects_{name}": np.array(getattr(self.state, name)) for name in SAVED}

    def empty_draws(self, draws: int) -> EffectDraws:
        """Room for so many."""
        return EffectDraws(
            np.empty((draws, *self.state.z.shape)),
            np.empty((draws, *self.state.log_spread.shape)),
        )

    def record(self, drawn: EffectDraws, n: int) -> None:
        """The state as the n-th draw."""
        drawn.z[n], drawn.log_spread[n] = self.state.z, self.state.log_spread

    def update(self, rng: np.random.Generator, world: World, layout: Any, data: Data, state: State) -> None:
        """One of each kind; `data.offset` and the chain's state follow."""
        workspace = density_workspace(world, layout, len(self.slopes), len(state.hyper))
        given = world, layout, data, state, self.known, self.state, self.slopes, workspace
        self.accepted.append(update_effects(rng, *given))

    # ---- warm-up -------------------------------------------------------------------------------------------------

    def note(self) -> None:
        """What a draw of warm-up says of how far trajectories may go."""
        self.seen.append((self.effects.columns**2).T @ self.slopes**2)

    def adapt(self, gain: float) -> None:
        """Widths by what choices tell about coefficients, tasks' v given; step sizes by how many are accepted.

        Squared slopes of log-likelihoods, averaged over draws, are about the Fisher information where choices are many.
        """
        rate = float(np.mean(self.accepted)) if self.accepted else ACCEPTANCE
        self.accepted.clear()
        step = float(self.state.step_size) * np.exp(np.clip(gain * (rate - ACCEPTANCE), -0.7, 0.7))
        information = np.mean(self.seen[len(self.seen) // 3 :], axis=0)
        scales = self.effects.scales(self.state.log_spread)
        of_spread = np.full(self.state.log_spread.shape, 2.0)
        coefficients = self.effects.coefficients(self.state.z, self.state.log_spread)
        np.add.at(of_spread, self.effects.slope[self.is_member], (coefficients**2 * information)[self.is_member])
        width = 1.0 / np.sqrt(np.concatenate([1.0 + scales**2 * information, of_spread]))
        self.state = self.state._replace(width=width, step_size=np.array(min(step, 1.5)))


def _columns_of(target: Target) -> Columns:
    """Copies, because threads that share an array also fight over its reference count; row by row in memory, because
    loops are compiled again for every other order.
    """
    effects = target.effects
    assert effects is not None
    columns = np.ascontiguousarray(np.concatenate([effects.columns.T, np.ones((1, len(effects.columns)))]))
    return Columns(
        columns=columns,
        products=columns @ columns.T,
        applies=effects.applies.copy(order="C"),
        slope=effects.slope.copy(order="C"),
        has_slope=effects.has_slope,
        scale=effects.scale,
        mean=_own(target, 0),
        own_scale=_own(target, 1),
    )


def _own(target: Target, column: int) -> np.ndarray:
    """[D] the hyperparameter that is the mean (or scale) of a normal coordinate, and of no other; CONSTANT: none.

    A mean must have a normal prior.
    """
    layout = target.layout
    found = np.full(target.num_coordinates, CONSTANT)
    for d in np.flatnonzero(np.isin(layout.families, (NORMAL, LOG_NORMAL))):
        j = layout.source[d, column]
        if j != CONSTANT and (column == 1 or layout.hyper_families[j] == NORMAL) and (layout.source == j).sum() == 1:
            found[d] = j
    return found
