"""Effects of covariates as part of a Markov chain's state: start, update, record, resume.

    u_m = v_m + Σ_e X_me B_e,     B = scale ∘ z,     scale = s, or τ of a member's column            (`models.effects`)

A chain's `state.tasks` are v, so that the population's own updates are those of every model, and `data.offset` is what
covariates add. Around each sweep:

    tasks keep u       B and, with it, the population mean: drawn together, where v is normal (conjugate: a regression);
                       elsewhere one coefficient of each coordinate by slice sampling; then τ, with z kept
    B is kept          τ by slice sampling
    tasks keep v       z and log τ by a Hamiltonian trajectory, along which every task plans anew

The first is quick where choices tell tasks apart, the last where tasks are alike (interweaving: Yu & Meng 2011).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from manymotives.families import LOG_NORMAL, NORMAL, log_density_each
from manymotives.inference.draws import EffectDraws
from manymotives.inference.mcmc.density import density_workspace, log_density_and_gradient
from manymotives.inference.mcmc.laplace_kernels import find_hyper_z
from manymotives.inference.mcmc.state import Data, State
from manymotives.models import Target
from manymotives.models.effects import POPULATION, Effects
from manymotives.models.target import CONSTANT
from manymotives.planning.warm_start import World

SAVED = ("z", "log_spread", "width", "step_size")  # what is needed to resume
SWEEPS_EACH = 2  # sweeps for each update, which is interpreted, and takes as long
FIRST_STEP = 0.2
ACCEPTANCE = 0.8  # of trajectories
MOST_STEPS = 12  # of a trajectory; fewer where they are short, and get nowhere: regression is quick there
SLICE_WIDTH = 1.0
SLICE_STEPS = 200  # evaluations at most; a dozen are usual
SMALLEST_LOG = -600.0  # of τ: smaller is zero for all that choices could show


class EffectState(NamedTuple):
    """Where a chain is with its effects, and how it moves them."""

    z: np.ndarray  # [E, D]
    log_spread: np.ndarray  # [K, D] log τ
    width: np.ndarray  # [E + K, D] standard deviations, tasks' v given, as far as known: units of trajectories
    step_size: np.ndarray  # []


class EffectSampler:
    """The coefficients of one chain."""

    def __init__(self, target: Target, saved: dict[str, Any] | None = None) -> None:
        assert target.effects is not None
        self.effects: Effects = target.effects
        self.target = target
        self.is_member = self.effects.slope != POPULATION
        self.is_normal = np.isin(target.layout.families, (NORMAL, LOG_NORMAL))
        self.mean = _own_means(target)
        size = self.effects.applies.shape[1]
        count = len(self.effects.names) + self.effects.num_slopes
        self.moves = np.concatenate([self.effects.applies, self.effects.has_slope])  # [E + K, D] what there is
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
        self.workspace: Any = None
        self.slopes = np.zeros((target.num_tasks, size))  # of log-likelihoods in tasks' u, where the chain is

    def begin(self, rng: np.random.Generator) -> np.ndarray:
        """From the prior; the offsets [M, D] that follow."""
        z, log_spread = self.effects.draw(rng)
        self.state = self.state._replace(z=z, log_spread=np.maximum(log_spread, np.log(0.05 * self.effects.scale)))
        return self.offset()

    def offset(self) -> np.ndarray:
        """[M, D] what covariates add to tasks' v."""
        return self.effects.offsets(self.effects.coefficients(self.state.z, self.state.log_spread))

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

    # ---- updates -------------------------------------------------------------------------------------------------

    def update(self, rng: np.random.Generator, world: World, layout: Any, data: Data, state: State) -> None:
        """One of each kind; `data.offset` and the chain's state follow."""
        self._regress(rng, data, state)
        self._slice_others(rng, data, state)
        self._slice_spreads(rng, data, state)
        data.offset[:] = self.offset()  # to the last bit what a chain that resumes begins with: sums round differently
        self._trajectory(rng, world, layout, data, state)

    def _regress(self, rng: np.random.Generator, data: Data, state: State) -> None:
        """B of normal coordinates, with their population means: u = mean + X B + b · normal, all but b drawn anew.

        In units of the prior the covariance is (1 + X̃ᵀ X̃ / b²)⁻¹.
        """
        effects, parameters = self.effects, self.target.parameters(state.hyper)[0]
        scales = effects.scales(self.state.log_spread)
        for d in np.flatnonzero(self.is_normal & effects.applies.any(axis=0)):
            which, b, j = np.flatnonzero(effects.applies[:, d]), parameters[d, 1], self.mean[d]
            columns = effects.columns[:, which] * scales[which, d]
            here = self.state.z[which, d]
            if j != CONSTANT:
                centre, spread = self.target.layout.hyper_constants[j]
                columns = np.concatenate([columns, np.full((len(columns), 1), spread)], axis=1)
                here = np.append(here, (state.hyper[0, j] - centre) / spread)
            right = b * (columns.T @ state.task_z[:, d]) - b**2 * here
            moved = _normal(rng, columns.T @ columns, b, right)
            if not np.isfinite(moved).all():
                continue
            state.task_z[:, d] -= columns @ moved / b
            self.state.z[which, d] += moved[: len(which)]
            data.offset[:, d] += columns[:, : len(which)] @ moved[: len(which)]
            if j != CONSTANT:
                state.hyper[0, j] += spread * moved[-1]
                parameters[d, 0] = state.hyper[0, j]
            state.tasks[:, d] = parameters[d, 0] + b * state.task_z[:, d]

    def _slice_others(self, rng: np.random.Generator, data: Data, state: State) -> None:
        """One coefficient of each coordinate that is not normal, its tasks' u kept."""
        effects = self.effects
        scales = effects.scales(self.state.log_spread)
        for d in map(int, np.flatnonzero(~self.is_normal & effects.applies.any(axis=0))):
            e = int(rng.choice(np.flatnonzero(effects.applies[:, d])))
            column = scales[e, d] * effects.columns[:, e]
            log_density = self._given_u(d, column, state)
            here = self.state.z[e, d]

            def along(there: float, here: float = here, log_density: Any = log_density) -> float:
                return log_density(there - here) - 0.5 * there**2

            moved = _on_slice(rng, along, here) - here
            self.state.z[e, d] += moved
            self._shift(d, moved * column, data, state)

    def _given_u(self, d: int, column: np.ndarray, state: State) -> Callable[[float], float]:
        """log p(v) of tasks where so many times a column goes from their v to their offset."""
        family, parameters = self.target.layout.families[d : d + 1], self.target.parameters(state.hyper)[0, d : d + 1]
        deviation, b = state.task_z[:, d].copy(), parameters[0, 1]

        def log_density(times: float) -> float:
            if self.is_normal[d]:
                return float(-0.5 * ((deviation - times * column / b) ** 2).sum())
            return float(log_density_each(family, (state.tasks[:, d] - times * column)[:, None], parameters).sum())

        return log_density

    def _shift(self, d: int, by: np.ndarray, data: Data, state: State) -> None:
        """From tasks' v to their offsets, u kept."""
        data.offset[:, d] += by
        if self.is_normal[d]:
            a, b = self.target.parameters(state.hyper)[0, d]
            state.task_z[:, d] -= by / b
            state.tasks[:, d] = a + b * state.task_z[:, d]
        else:
            state.tasks[:, d] -= by

    def _slice_spreads(self, rng: np.random.Generator, data: Data, state: State) -> None:
        """log τ: with z and tasks' u kept, then with B kept."""
        effects, log_spread = self.effects, self.state.log_spread
        for k, d in np.argwhere(effects.has_slope):
            mine = np.flatnonzero((effects.slope == k) & effects.applies[:, d])
            z = self.state.z[mine, d]
            here = float(log_spread[k, d])
            column = effects.columns[:, mine] @ z
            log_density = self._given_u(d, column, state)

            def noncentred(
                there: float, here: float = here, log_density: Callable[[float], float] = log_density
            ) -> float:
                return log_density(np.exp(there) - np.exp(here)) + self._of_spread(there)

            there = _on_slice(rng, noncentred, here)
            self._shift(d, (np.exp(there) - np.exp(here)) * column, data, state)
            squares, here = float((z**2).sum()), there

            def centred(there: float, here: float = here, squares: float = squares, count: int = len(mine)) -> float:
                return self._of_spread(there) - 0.5 * squares * np.exp(2.0 * (here - there)) - count * there

            there = _on_slice(rng, centred, here)
            self.state.z[mine, d] *= np.exp(here - there)
            log_spread[k, d] = there

    def _of_spread(self, log_spread: float) -> float:
        """log p(log τ), up to a constant."""
        ratio = log_spread - np.log(self.effects.scale)
        return ratio - 0.5 * np.exp(2.0 * ratio) if SMALLEST_LOG < log_spread < -SMALLEST_LOG else -np.inf

    def _trajectory(self, rng: np.random.Generator, world: World, layout: Any, data: Data, state: State) -> None:
        """z and log τ, tasks' v kept."""
        effects, target, moves = self.effects, self.target, self.moves
        if self.workspace is None:
            self.workspace = density_workspace(world, layout, target.num_tasks, target.num_groups)
        workspace, before = self.workspace, data.offset.copy()
        count = target.num_tasks
        workspace.plans.value[:count], workspace.plans.actions[:count] = state.value, state.actions
        find_hyper_z(layout, state)
        log_density_and_gradient(world, layout, data, workspace, state.hyper_z, state.task_z)
        self.slopes[:] = workspace.likelihood_gradient
        size = len(effects.names)
        here = np.concatenate([self.state.z, self.state.log_spread])
        width, step = self.state.width, float(self.state.step_size)
        members, log_scale = effects.slope[self.is_member], np.log(effects.scale)

        def density_and_gradient(x: np.ndarray, scales: np.ndarray) -> tuple[float, np.ndarray]:
            """Up to a constant, where tasks' likelihoods were evaluated."""
            z, log_spread = x[:size], x[size:]
            by = scales * (effects.columns.T @ workspace.likelihood_gradient)
            ratio = np.exp(2.0 * (log_spread - log_scale))
            prior = np.concatenate([-0.5 * z**2, log_spread - 0.5 * ratio])
            gradient = np.concatenate([by - z, 1.0 - ratio])
            np.add.at(gradient, size + members, (z * by)[self.is_member])
            return float(workspace.log_likelihood.sum() + prior[moves].sum()), np.where(moves, gradient, 0.0)

        momentum = np.where(moves, rng.standard_normal(here.shape), 0.0)
        height, gradient = density_and_gradient(here, effects.scales(self.state.log_spread))
        energy = 0.5 * (momentum**2).sum() - height
        steps = 1 + int(rng.random() * np.clip(round(30.0 * step), 1, MOST_STEPS))
        x, ended = here, energy
        for _ in range(steps):
            momentum = momentum + 0.5 * step * width * gradient
            x = x + step * width * momentum
            if not (np.abs(x[size:]) < -SMALLEST_LOG).all():
                ended = np.inf
                break
            scales = effects.scales(x[size:])
            data.offset[:] = effects.offsets(np.where(effects.applies, scales * x[:size], 0.0))
            log_density_and_gradient(world, layout, data, workspace, state.hyper_z, state.task_z)
            height, gradient = density_and_gradient(x, scales)
            momentum = momentum + 0.5 * step * width * gradient
            with np.errstate(over="ignore", invalid="ignore"):  # a trajectory that ran away is not accepted
                ended = 0.5 * (momentum**2).sum() - height
            if not ended < np.inf:
                break
        chance = float(np.exp(min(0.0, energy - ended))) if ended < np.inf else 0.0
        self.accepted.append(chance)
        if rng.random() >= chance:
            data.offset[:] = before
            return
        self.state.z[:], self.state.log_spread[:] = x[:size], x[size:]
        self.slopes[:] = workspace.likelihood_gradient
        state.log_likelihood[:] = workspace.log_likelihood
        state.value[:], state.actions[:], state.q[:] = (
            each[:count] for each in (workspace.plans.value, workspace.plans.actions, workspace.plans.q)
        )

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


def _normal(rng: np.random.Generator, square: np.ndarray, b: float, right: np.ndarray) -> np.ndarray:
    """A draw from Normal(A⁻¹ right, b² A⁻¹) with A = `square` + b²; no number where b² is 0.

    By eigenvectors where b is next to nothing and columns may repeat each other, or the intercept.
    """
    noise = b * rng.standard_normal(len(right))
    if b**2 > 1e-8 * np.trace(square):
        lower = np.linalg.cholesky(square + b**2 * np.eye(len(right)))
        first, _ = lapack.dtrtrs(lower, right, lower=1)
        return lapack.dtrtrs(lower, first + noise, lower=1, trans=1)[0]
    values, turn = np.linalg.eigh(square)
    with np.errstate(invalid="ignore", divide="ignore"):
        size = b**2 + np.maximum(values, 0.0)
        return turn @ ((turn.T @ right) / size + noise / np.sqrt(size))


def _own_means(target: Target) -> np.ndarray:
    """[D] the hyperparameter that is the mean of a normal coordinate, and of no other; CONSTANT where there is none."""
    layout = target.layout
    found = np.full(target.num_coordinates, CONSTANT)
    for d in range(target.num_coordinates):
        j = layout.source[d, 0]
        if j != CONSTANT and layout.hyper_families[j] == NORMAL and (layout.source == j).sum() == 1:
            found[d] = j
    return found


def _on_slice(rng: np.random.Generator, log_density: Callable[[float], float], here: float) -> float:
    """The next point of a real variable, by slice sampling with stepping out and shrinkage (Neal 2003)."""
    level = log_density(here) + np.log1p(-rng.random())
    left = here - SLICE_WIDTH * rng.random()
    right = left + SLICE_WIDTH
    for _ in range(SLICE_STEPS):
        if not log_density(left) > level:
            break
        left -= SLICE_WIDTH
    for _ in range(SLICE_STEPS):
        if not log_density(right) > level:
            break
        right += SLICE_WIDTH
    for _ in range(SLICE_STEPS):
        there = left + (right - left) * rng.random()
        if log_density(there) > level:
            return there
        if there < here:
            left = there
        else:
            right = there
    return here
