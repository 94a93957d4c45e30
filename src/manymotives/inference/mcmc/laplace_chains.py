"""Hamiltonian Monte Carlo around a Laplace approximation: for many coordinates, or where every gradient is dear.

With y about standard normal (`laplace_reference`), H = |y|²/2 + |r|²/2 + φ(y), and φ is small: what the approximation
leaves. A step of size ε is a half kick, an exact rotation, a half kick (Shahbaba, Lan, Johnson & Neal 2014),

    r ← r − ε/2 ∇φ,     (y, r) ← (y cos ε + r sin ε, r cos ε − y sin ε),     r ← r − ε/2 ∇φ

so that its error is that of φ, in the few directions that choices tell, however many coordinates there are. One sweep:

    tasks given their population       each accepted for itself
    means of populations               tasks keep their y: those that choices tell little of move along, others stay
    scales that coordinates share      the same (data-informed interweaving: Murray & Adams 2010), by an autoregressive
                                       proposal around what warm-up has seen (Neal 1998; preconditioned Crank–Nicolson)
    scales of single coordinates       the same by trajectories that follow the quadratic's gradient, so that only
                                       their end needs a plan; and given tasks' u (`populations`)

Each sweep takes some dozen gradients, of milliseconds, so that these loops need not be compiled: the gradients are.
"""

import threading
import time
from typing import Any

import numpy as np

from manymotives.families import LOG_NORMAL, NORMAL
from manymotives.inference.mcmc.chains import MarkovChain, starting_point
from manymotives.inference.mcmc.density import density_workspace, log_density_and_gradient
from manymotives.inference.mcmc.laplace_adaptation import (
    FIRST_STEP,
    LaplaceTuning,
    approximate,
    first_tuning,
    solved,
    summed,
    turned,
    warm_up,
)
from manymotives.inference.mcmc.laplace_kernels import draw_populations, find_hyper_z, populations_at
from manymotives.inference.mcmc.laplace_reference import Quadratic, Reference
from manymotives.inference.mcmc.state import AcceptanceCounts, DrawArrays
from manymotives.models import Target
from manymotives.models.target import CONSTANT, FIXED

MANY_COORDINATES = 100  # of a task …
SOME_COORDINATES, MANY_STATES = 8, 500  # … or so many, where there are so many states
# Angles of trajectories: at π/2 draws would be independent, were φ zero; a bit beyond, their means are more accurate.
SHORTEST_ANGLE, LONGEST_ANGLE = 1.5, 2.2
SLOWEST, MOST_STEPS = 0.25, 30  # about the share whose steps may be too small for the whole angle; steps at most
STARTS = 4  # draws of the prior to begin from, by likelihood: each is a plan, and the way to the mode is not far
CLIMB = 8  # steps towards the mode, from a draw of the prior
WALKS = 3  # proposals of shared scales, in each sweep
# A share NEAR of their proposals has an angle below FAR, the others one from there to FARTHEST; at π/2 a proposal does
# not depend on the state, and beyond it is on the other side of the centre.
NEAR, FAR, FARTHEST = 0.25, 0.7, 2.4
FEW_SHARED = 6  # hyperparameters beside means that are proposed together; more: each from its conditional distribution
SINGLE_STEPS = 6  # of a trajectory of single scales: no step of it is planned for


def suits_laplace(target: Target) -> bool:
    """Whether these chains are for a target: normal coordinates alone, and many, or few in a large environment."""
    layout = target.layout
    size = target.num_coordinates
    return (
        bool(np.isin(layout.families, (NORMAL, LOG_NORMAL)).all())
        and layout.discount == layout.temperature == layout.lapse == FIXED
        and all(each is None for each in (target.belief, target.assignment, target.effects, target.depth))
        and (size > MANY_COORDINATES or (size > SOME_COORDINATES and target.environment.num_states > MANY_STATES))
    )


def chain_for(target: Target) -> type[MarkovChain]:
    """Which chains HMC runs."""
    return LaplaceChain if suits_laplace(target) else MarkovChain


class LaplaceChain(MarkovChain):
    """One chain: its state, its tuning, what it has drawn."""

    block = 5  # draws between two looks at whether to stop
    draws = 125
    thin = 1
    tuning_type = LaplaceTuning
    tuning: Any

    def __init__(self, kernel: Any, target: Target, walk_size: int, stream: np.random.SeedSequence) -> None:
        super().__init__(kernel, target, walk_size, stream)
        source = self.layout.source
        self.means = np.unique(source[:, 0][source[:, 0] != CONSTANT])  # hyperparameters that are coordinates' means
        self.mean_of = np.where(source[:, 0] == CONSTANT, len(self.means), np.searchsorted(self.means, source[:, 0]))
        others = np.setdiff1d(np.arange(target.num_hyper), self.means)
        is_few = len(others) <= FEW_SHARED
        self.shared: np.ndarray = others[: len(others) if is_few else 0]
        self.single: np.ndarray = others[len(self.shared) :]
        self.seen: list[np.ndarray] = []  # z of shared scales, in warm-up
        self.passed: list[tuple[np.ndarray, np.ndarray]] = []  # h of populations and z of tasks, in warm-up
        self.reference: Reference
        self.workspace: Any

    @property
    def rounds(self) -> int:
        return 1

    # ---- start ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A population from the hyperprior; tasks from there, by Fisher scoring, most of the way to their mode."""
        target = self.target
        hyper, tasks, _ = starting_point(target, self.rng, STARTS)
        self._set_state(np.ascontiguousarray(tasks), hyper)
        self.tuning = first_tuning(self)
        self._open_workspace()
        self._climb()
        approximate(self, 1.0)

    def _climb(self) -> None:
        """Steps Λ⁻¹ ∇ of every task, shorter where they do not lead upwards; each Λ is used for three."""
        state, scale = self.state, self.parameters()[1]
        step_of: Any = None
        for n in range(CLIMB):
            if n % 3 == 0:
                approximate(self, 1.0)
                step_of = self.reference
            gradient = scale * state.likelihood_gradient - state.task_z
            step = step_of.power(gradient, -1.0)
            height = state.log_likelihood - 0.5 * (state.task_z**2).sum(axis=1)
            share = np.ones(len(step))
            for _ in range(6):
                z = state.task_z + share[:, None] * step
                self._evaluate(state.hyper_z, z)
                gained = self._task_density(z) - height
                better = gained > 0.0
                self._accept_tasks(np.flatnonzero(better & (share > 0)), z)
                share = np.where(better, 0.0, 0.4 * share)
                if not share.any():
                    break
            if n >= 3 and gained.max() < 0.5:
                break

    def _open_workspace(self) -> None:
        """Densities and gradients at the state, from nothing but the state: so that chains resume to the last bit."""
        target, state = self.target, self.state
        self.workspace = density_workspace(self.world, self.layout, target.num_tasks, target.num_groups)
        count = target.num_tasks
        self.workspace.plans.value[:count], self.workspace.plans.actions[:count] = state.value, state.actions
        self._note_population()
        self._evaluate(state.hyper_z, state.task_z)
        state.likelihood_gradient[:] = self.workspace.likelihood_gradient
        state.log_likelihood[:] = self.workspace.log_likelihood

    def _note_population(self) -> None:
        """z, density and reference where populations have moved and tasks' u have not."""
        find_hyper_z(self.layout, self.state)
        self.hyper_density = populations_at(self.layout, self.state.hyper_z)[2]
        self.reference = Reference.of(self.quadratic, *self.parameters())

    # ---- what moves read -------------------------------------------------------------------------------------

    @property
    def quadratic(self) -> Quadratic:
        return Quadratic(self.tuning.rows, self.tuning.slope).trimmed

    def parameters(self, hyper: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """a and b [M, D] of tasks, from coordinates h of populations."""
        found = self.target.parameters(self.state.hyper if hyper is None else hyper)[self.target.group]
        return np.ascontiguousarray(found[..., 0]), np.ascontiguousarray(found[..., 1])

    def _evaluate(self, hyper_z: np.ndarray, task_z: np.ndarray) -> None:
        log_density_and_gradient(self.world, self.layout, self.data, self.workspace, hyper_z, task_z)

    def _task_density(self, z: np.ndarray) -> np.ndarray:
        """[M] log p(z, choices | population), up to a constant, where it was evaluated."""
        found = self.workspace.log_likelihood - 0.5 * (z**2).sum(axis=1)
        return np.where(np.isnan(found), -np.inf, found)

    def by_group(self, values: np.ndarray) -> np.ndarray:
        """[G, ...] sums over the tasks [M, ...] of each population."""
        return values.reshape(self.target.num_groups, -1, *values.shape[1:]).sum(axis=1)

    def _accept_tasks(self, which: np.ndarray, z: np.ndarray) -> None:
        """What was evaluated becomes the state of some tasks."""
        state, found = self.state, self.workspace
        state.task_z[which] = z[which]
        for into, new in (
            (state.tasks, found.tasks),
            (state.log_likelihood, found.log_likelihood),
            (state.likelihood_gradient, found.likelihood_gradient),
            (state.value, found.plans.value),
            (state.actions, found.plans.actions),
            (state.q, found.plans.q),
        ):
            into[which] = new[which]

    def _accept_populations(self, groups: np.ndarray, hyper_z: np.ndarray, density: np.ndarray, z: np.ndarray) -> None:
        """The same of populations with their tasks."""
        state = self.state
        state.hyper_z[groups] = hyper_z[groups]
        state.hyper[groups] = self.workspace.hyper[groups]
        self.hyper_density[groups] = density[groups]
        self._accept_tasks(np.flatnonzero(np.isin(self.target.group, groups)), z)

    # ---- moves -------------------------------------------------------------------------------------------------

    def advance(self, thin: int, drawn: DrawArrays, acceptance: AcceptanceCounts, part: slice | None = None) -> None:
        """Fill these arrays with draws."""
        self._open_workspace()
        for n in range(len(drawn.tasks)):
            for _ in range(thin):
                self._sweep(acceptance)
            if not self.is_warm:
                self.seen.append(self.state.hyper_z[:, self.shared])
                self.passed.append((self.state.hyper.copy(), self.state.task_z.copy()))
            drawn.tasks[n], drawn.hyper[n], drawn.log_likelihood[n] = (
                self.state.tasks,
                self.state.hyper,
                self.state.log_likelihood,
            )
            if len(drawn.visited):
                drawn.q[n] = self.state.q[drawn.visited[:, 0], drawn.visited[:, 1]]
            self.done += 1

    def _sweep(self, acceptance: AcceptanceCounts) -> None:
        self._move_tasks(acceptance)
        if len(self.means):
            self._move_means(acceptance)
        if len(self.shared):
            for _ in range(WALKS):
                self._move_shared()
        if len(self.single):
            self._move_single(acceptance)
            draw_populations(self.rng, self.layout, self.state)
            self._note_population()

    def _move_tasks(self, acceptance: AcceptanceCounts) -> None:
        """A trajectory of every task given its population."""
        state, reference, scale = self.state, self.reference, self.reference.scale
        count, step = self._steps(self.tuning.task_step_size)
        y = reference.power(state.task_z - reference.centre, 0.5)
        momentum = self.rng.standard_normal(y.shape)
        z = state.task_z
        energy = 0.5 * (momentum**2).sum(axis=1) - (state.log_likelihood - 0.5 * (z**2).sum(axis=1))
        kick = y + reference.power(scale * state.likelihood_gradient - z, -0.5)
        for _ in range(count):
            momentum = momentum + 0.5 * step * kick
            y, momentum = _rotated(y, momentum, step)
            z = reference.centre + reference.power(y, -0.5)
            self._evaluate(state.hyper_z, z)
            kick = y + reference.power(scale * self.workspace.likelihood_gradient - z, -0.5)
            momentum = momentum + 0.5 * step * kick
        energy -= 0.5 * (momentum**2).sum(axis=1) - self._task_density(z)
        chance = _chance(energy)
        acceptance.task_trajectories[:] += chance
        self._accept_tasks(np.flatnonzero(self.rng.random(len(chance)) < chance), z)

    def _move_means(self, acceptance: AcceptanceCounts) -> None:
        """A trajectory of the means of every population, whose tasks keep their y."""
        state, tuning, means = self.state, self.tuning, self.means
        count, step = self._steps(tuning.mean_step_size)
        reference, quadratic, scale = self.reference, self.quadratic, self.reference.scale
        kept = reference.power(state.task_z - reference.centre, 0.5)  # y of tasks
        away = reference.power(kept, -0.5)
        spread = self.layout.hyper_constants[means, 1]

        def slope(h: np.ndarray, z: np.ndarray, likelihood_gradient: np.ndarray) -> np.ndarray:
            """∂/∂h [G, K] of the log density, z following h."""
            by_mean = likelihood_gradient - quadratic.information(
                scale * reference.power(scale * likelihood_gradient - z, -1.0)
            )
            return spread * summed(self.by_group(by_mean), self.mean_of, len(means)) - h

        hyper_z, z = state.hyper_z.copy(), state.task_z
        h = hyper_z[:, means]
        y = np.stack([solved(f, x) for f, x in zip(tuning.mean_factor, h - tuning.mean_centre)])
        momentum = self.rng.standard_normal(y.shape)
        energy = 0.5 * (momentum**2).sum(axis=1) - (
            self.hyper_density + self.by_group(state.log_likelihood - 0.5 * (z**2).sum(axis=1))
        )
        kick = y + turned(tuning.mean_factor, slope(h, z, state.likelihood_gradient))
        for _ in range(count):
            momentum = momentum + 0.5 * step * kick
            y, momentum = _rotated(y, momentum, step)
            h = tuning.mean_centre + np.matmul(tuning.mean_factor, y[:, :, None])[:, :, 0]
            hyper_z[:, means] = h
            hyper, _, density, _, _ = populations_at(self.layout, hyper_z)
            z = reference.centred_for(quadratic, self.parameters(hyper)[0]).centre + away
            self._evaluate(hyper_z, z)
            kick = y + turned(tuning.mean_factor, slope(h, z, self.workspace.likelihood_gradient))
            momentum = momentum + 0.5 * step * kick
        energy -= 0.5 * (momentum**2).sum(axis=1) - (density + self.by_group(self._task_density(z)))
        chance = _chance(energy)
        acceptance.hyper_trajectories[:] += chance
        self._accept_populations(np.flatnonzero(self.rng.random(len(chance)) < chance), hyper_z, density, z)
        self.reference = reference.centred_for(quadratic, self.parameters()[0])

    def _move_shared(self) -> None:
        """Scales that coordinates share, of every population, whose tasks keep their y."""
        tuning, here = self.tuning, self.state.hyper_z[:, self.shared]
        is_near = self.rng.random((len(here), 1)) < NEAR
        angle = self.rng.uniform(np.where(is_near, 0.05, FAR), np.where(is_near, FAR, FARTHEST))
        before = np.stack([solved(f, x) for f, x in zip(tuning.shared_factor, here - tuning.shared_centre)])
        after = np.cos(angle) * before + np.sin(angle) * self.rng.standard_normal(before.shape)
        hyper_z = self.state.hyper_z.copy()
        hyper_z[:, self.shared] = tuning.shared_centre + np.matmul(tuning.shared_factor, after[:, :, None])[:, :, 0]
        self._propose_populations(hyper_z, 0.5 * ((after**2).sum(axis=1) - (before**2).sum(axis=1)))

    def _move_single(self, acceptance: AcceptanceCounts) -> None:
        """A trajectory of the scales of single coordinates of every population, whose tasks keep their y."""
        state, width, step = self.state, self.tuning.single_width, self.tuning.single_step_size[:, None]
        hyper_z, quadratic, mean = state.hyper_z.copy(), self.quadratic, self.parameters()[0]

        def slope() -> np.ndarray:
            """∂/∂h [G, C] of the quadratic's log density with tasks integrated out, in units of `width`."""
            hyper, _, _, gradient, values_by_z = populations_at(self.layout, hyper_z)
            by_scale = self.by_group(quadratic.by_scale(mean, self.parameters(hyper)[1]))
            into = summed(by_scale, self.layout.source[:, 1], self.target.num_hyper)
            return width * (gradient + values_by_z * into)[:, self.single]

        momentum = self.rng.standard_normal(width.shape)
        gain = 0.5 * (momentum**2).sum(axis=1)
        kick = slope()
        for _ in range(1 + int(self.rng.random() * SINGLE_STEPS)):
            momentum = momentum + 0.5 * step * kick
            hyper_z[:, self.single] += step * width * momentum
            kick = slope()
            momentum = momentum + 0.5 * step * kick
        acceptance.hyper[:, 0] += self._propose_populations(hyper_z, gain - 0.5 * (momentum**2).sum(axis=1))

    def _propose_populations(self, hyper_z: np.ndarray, gain: np.ndarray) -> np.ndarray:
        """Other z of populations, whose tasks keep their y; accepted or not; the chance of each.

        `gain`: of log density, in whatever else the proposal changes.
        """
        state, reference = self.state, self.reference
        hyper, _, density, _, _ = populations_at(self.layout, hyper_z)
        if not (density > -np.inf).all():  # of several populations all stay: this hardly ever happens
            return np.zeros(len(gain))
        proposed = Reference.of(self.quadratic, *self.parameters(hyper))
        kept = reference.power(state.task_z - reference.centre, 0.5)
        z = proposed.centre + proposed.power(kept, -0.5)
        before = state.log_likelihood - 0.5 * (state.task_z**2).sum(axis=1) + reference.log_determinant
        self._evaluate(hyper_z, z)
        after = self._task_density(z) + proposed.log_determinant
        chance = _chance(gain + density - self.hyper_density + self.by_group(after) - self.by_group(before))
        accepted = self.rng.random(len(chance)) < chance
        self._accept_populations(np.flatnonzero(accepted), hyper_z, density, z)
        mine = accepted[self.target.group]
        self.reference = Reference(
            *(np.where(mine.reshape(-1, *[1] * (new.ndim - 1)), new, old) for new, old in zip(proposed, reference))
        )
        return chance

    def _steps(self, step_size: np.ndarray) -> tuple[int, np.ndarray]:
        """How many steps a trajectory has, and how large they are [N, 1].

        Its angle is drawn, or it might return to its start. Nothing turns further: at π, squares are where they were.
        """
        angle = self.rng.uniform(SHORTEST_ANGLE, LONGEST_ANGLE)
        count = int(np.clip(round(angle / float(np.quantile(step_size, SLOWEST))), 1, MOST_STEPS))
        return count, np.minimum(step_size, angle / count)[:, None]

    # ---- warm-up ---------------------------------------------------------------------------------------------

    def warm_up(self, warmup: int, thin: int, stop: threading.Event) -> None:
        """So many draws, after which all tuning is fixed."""
        warm_up(self, warmup, thin, stop)

    def forecast(self, thin: int) -> float:
        """About how many seconds a draw takes."""
        taken = []
        for share in (0.97, 1.0, 0.97):  # any may wait for a thread that compiles
            begin = time.perf_counter()
            self._evaluate(self.state.hyper_z, share * self.state.task_z)
            taken.append(time.perf_counter() - begin)
        each = min(taken)
        steps = 0.5 * (SHORTEST_ANGLE + LONGEST_ANGLE) / FIRST_STEP
        return thin * each * (steps * (2 if len(self.means) else 1) + 2 * WALKS * bool(len(self.shared)))

    def acceptance_counts(self) -> AcceptanceCounts:
        """Acceptance counts of zero."""
        nothing = np.zeros((0, 0))
        num_tasks = self.target.num_tasks
        return AcceptanceCounts(
            random_walks=np.zeros(num_tasks),
            prior_proposals=np.zeros(num_tasks),
            hyper=np.zeros((self.target.num_groups, 1)),  # trajectories of single scales
            interweaving=nothing,
            interweaving_tried=nothing,
            slice_jumps=nothing,
            task_trajectories=np.zeros(num_tasks),
            hyper_trajectories=np.zeros(self.target.num_groups),
        )


def _rotated(y: np.ndarray, momentum: np.ndarray, angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return y * np.cos(angle) + momentum * np.sin(angle), momentum * np.cos(angle) - y * np.sin(angle)


def _chance(gain: np.ndarray) -> np.ndarray:
    """min(1, exp(gain)); 0 where that is no number."""
    return np.where(np.isnan(gain), 0.0, np.exp(np.minimum(gain, 0.0)))
