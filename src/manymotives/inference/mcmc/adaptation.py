"""Warm-up of one chain: step sizes, scales and mass matrices in, tuned ones out; fixed once warm-up is over.

After each block of draws t = 1, 2, …, with acceptance rate p̂ and its target p*, every step size ε (and every scale of a
random walk) is adapted by a Robbins–Monro step,

    log ε ← log ε + 4 t^−0.7 (p̂ − p*).

The inverse mass matrix M⁻¹ = F Fᵀ is the covariance of z over the last two thirds of the draws so far, shrunk towards
its diagonal; with many coordinates, (1 + Fisher information)⁻¹ (`laplace.mass_factors`). The covariance of random walks
is that of u.
"""

import threading
from typing import TYPE_CHECKING

import numpy as np

from manymotives.inference.laplace import improves_step_size, mass_factors
from manymotives.inference.mcmc.density import density_workspace, noncentred_draws
from manymotives.inference.mcmc.hamiltonian import start_trajectories
from manymotives.inference.mcmc.interweaving import interweaving_directions
from manymotives.inference.mcmc.state import AcceptanceCounts, Tuning
from manymotives.models import Target
from manymotives.models.rewards import LINEAR, NORMALISED

if TYPE_CHECKING:
    from manymotives.inference.mcmc.chains import MarkovChain

BLOCK = 50  # draws between two adaptations, at most
ADAPTATIONS = 20  # during warm-up, at least
CURVATURE_BLOCKS = (1, 2, 4, 7, 11, 16)  # after which mass matrices are computed from Fisher information …
UNDER_WAY = 4  # … and from which on chains are far enough from their start to see whether that lengthens steps
WALK_ACCEPTANCE = 0.25  # of random walks in many dimensions (Roberts, Gelman & Gilks 1997) …
LINE_ACCEPTANCE = 0.44  # … and in one
TRAJECTORY_ACCEPTANCE = 0.8  # of Hamiltonian trajectories (Betancourt, Byrne & Girolami 2014)
MOST_POPULATION_STEPS = 12  # leapfrog steps of a population's trajectory
MANY_COORDINATES = 100  # of a task: some hundred draws say less about so many covariances than Fisher information does


def warm_up(chain: "MarkovChain", warmup: int, thin: int, stop: threading.Event) -> None:
    """So many draws, with tuning adapted after each block; the last tenth adapts step sizes and scales alone."""
    target = chain.target
    drawn = chain.draw_arrays(warmup)
    begin, block = 0, 0
    while begin < warmup and not stop.is_set():
        count = min(BLOCK, max(1, warmup // ADAPTATIONS), warmup - begin)
        part = slice(begin, begin + count)
        acceptance = chain.acceptance_counts()
        chain.advance(thin, drawn.part(part), acceptance)
        chain.note_acceptance(acceptance, count * thin)
        begin += count
        block += 1
        gain = 4.0 / block**0.7
        tuning = _adapted_step_sizes(chain.tuning, acceptance, count * thin, gain)
        learning = begin >= 0.2 * warmup and begin >= 10
        if learning and acceptance.slice_jumps.any():
            width = 3.0 * acceptance.slice_jumps / (count * thin) + 1e-9  # a slice is about three jumps wide
            tuning = tuning._replace(slice_width=width)
        if learning and begin < 0.9 * warmup:
            seen = slice(begin // 3, begin)
            tuning = _adapted_covariances(chain, tuning, drawn.tasks[seen], drawn.hyper[seen])
        if chain.uses_curvature and block in CURVATURE_BLOCKS:
            tuning = _with_curvature(chain, tuning, block)
        for sampler in (chain.dynamics, chain.effects):
            if sampler is not None:
                sampler.adapt(gain)
        chain.tuning = tuning._replace(schedule=schedule_of(target, tuning.task_step_size, tuning.hyper_step_size))


def first_tuning(chain: "MarkovChain", tries: np.ndarray) -> Tuning:
    """Before any adaptation: random walks as wide as prior draws [N, M, D], unit mass matrices, short steps."""
    target, num_tasks, size = chain.target, chain.target.num_tasks, chain.walk_size
    directions = interweaving_directions(target.layout)
    factor = np.zeros((num_tasks, size, size))
    factor[:, np.arange(size), np.arange(size)] = tries.std(axis=0)[:, :size] + 1e-3
    tuning = Tuning(
        factor=factor,
        scale=np.full(num_tasks, 1.0 / np.sqrt(max(size, 1))),
        hyper_scale=np.full((target.num_groups, target.num_hyper), 0.5),
        interweaving_directions=directions,
        interweaving_scale=np.full((target.num_groups, len(directions)), 0.5),
        slice_width=np.ones((num_tasks, target.num_coordinates)),
        task_mass_factor=_identities(num_tasks, target.num_coordinates),
        task_step_size=np.full(num_tasks, 0.1),
        hyper_mass_factor=_identities(target.num_groups, target.num_hyper),
        hyper_step_size=np.full(target.num_groups, 0.1),
        schedule=schedule_of(target, np.full(num_tasks, 0.1), np.full(target.num_groups, 0.1)),
    )
    if not chain.uses_curvature:
        return tuning
    task_mass_factor, hyper_mass_factor = _curvature_mass_factors(chain)
    return tuning._replace(task_mass_factor=task_mass_factor, hyper_mass_factor=hyper_mass_factor)


def schedule_of(target: Target, task_step_size: np.ndarray, hyper_step_size: np.ndarray) -> np.ndarray:
    """[3] rounds of other moves between trajectories, and the most leapfrog steps of a task's and of a population's.

    Chosen by measurement. Populations whose step size is small get nowhere by trajectories: they have fewer steps, and
    more rounds of other moves. Without populations there is hardly anything but trajectories: the smaller the step
    size, the more steps.
    """
    if only_trajectories(target) and target.num_hyper:
        longest = np.clip(round(2.5 / float(np.median(task_step_size))), 4, 100)
        return np.array([0, longest, np.clip(round(2.5 / float(np.median(hyper_step_size))), 4, 100)])
    if target.num_hyper == 0:
        is_sparse = target.layout.link == NORMALISED  # or may be: Gaussian rewards leave nothing to prior proposals
        return np.array([int(is_sparse), np.clip(round(3.0 / float(np.median(task_step_size))), 6, 200), 0])
    steps = population_steps(hyper_step_size)
    if target.effects is not None and target.layout.link == LINEAR:
        return np.array([1, 4, steps])  # scales and means move with effects, and nothing is sparse
    if target.layout.is_soft and target.layout.link == LINEAR and target.num_groups == target.num_tasks:
        return np.array([2, 4, steps])  # a plan for each other move costs most, and a population of one task needs few
    return np.array([5 - round(steps / 6), 4, steps])


def population_steps(step_size: np.ndarray) -> int:
    """Most leapfrog steps of a population's trajectory: the smaller they are, the fewer, as none would be enough."""
    return int(np.clip(round(100.0 * float(np.median(step_size))), 2, MOST_POPULATION_STEPS))


def only_trajectories(target: Target) -> bool:
    """Whether random walks and prior proposals get nowhere: in many dimensions, unless rewards may be sparse."""
    return has_many_coordinates(target) and target.layout.link != NORMALISED


def has_many_coordinates(target: Target) -> bool:
    return target.num_coordinates > MANY_COORDINATES


# ---- step sizes and scales -----------------------------------------------------------------------------------------


def _adapted_step_sizes(tuning: Tuning, acceptance: AcceptanceCounts, sweeps: int, gain: float) -> Tuning:
    """Each larger where more than its target was accepted, else smaller."""
    interweaving = acceptance.interweaving / np.maximum(acceptance.interweaving_tried, 1)
    tried = np.minimum(acceptance.interweaving_tried / 10, 1)  # what was hardly tried says little
    of_tasks, of_populations = acceptance.task_trajectories / sweeps, acceptance.hyper_trajectories / sweeps
    return tuning._replace(
        scale=tuning.scale * np.exp(gain * (acceptance.random_walks / sweeps - WALK_ACCEPTANCE)),
        hyper_scale=tuning.hyper_scale * np.exp(gain * (acceptance.hyper / sweeps - LINE_ACCEPTANCE)),
        interweaving_scale=tuning.interweaving_scale * np.exp(gain * tried * (interweaving - LINE_ACCEPTANCE)),
        task_step_size=tuning.task_step_size * np.exp(gain * (of_tasks - TRAJECTORY_ACCEPTANCE)),
        hyper_step_size=tuning.hyper_step_size * np.exp(gain * (of_populations - TRAJECTORY_ACCEPTANCE)),
    )


# ---- covariances and mass matrices ---------------------------------------------------------------------------------


def _adapted_covariances(chain: "MarkovChain", tuning: Tuning, tasks: np.ndarray, hyper: np.ndarray) -> Tuning:
    """Covariances of random walks, and mass matrices of trajectories, from draws u [n, M, D] and h [n, G, H]."""
    factor, scale = _rescaled(tuning.factor, tuning.scale, tasks[:, :, : chain.walk_size])
    tuning = tuning._replace(factor=factor, scale=scale)
    if not chain.is_hamiltonian or chain.uses_curvature:
        return tuning
    hyper_z, task_z = noncentred_draws(chain.layout, hyper, tasks)
    task_factor, task_step_size = _rescaled(tuning.task_mass_factor, tuning.task_step_size, task_z, is_noncentred=True)
    hyper_factor, hyper_step_size = _rescaled(
        tuning.hyper_mass_factor, tuning.hyper_step_size, hyper_z, is_noncentred=True
    )
    return tuning._replace(
        task_mass_factor=task_factor,
        task_step_size=task_step_size,
        hyper_mass_factor=hyper_factor,
        hyper_step_size=hyper_step_size,
    )


def _rescaled(
    factor: np.ndarray, scale: np.ndarray, seen: np.ndarray, is_noncentred: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Cholesky factors of the covariance of draws [n, M, d], and scales [M] that keep the length of steps."""
    if seen.shape[2] == 0:
        return factor, scale
    new = _covariance_factors(seen, is_noncentred)
    return new, scale * _length(factor) / _length(new)


def _covariance_factors(seen: np.ndarray, is_noncentred: bool) -> np.ndarray:
    """Cholesky factors [M, d, d] of the covariance of draws [n, M, d], shrunk towards its diagonal.

    The variances of z are shrunk towards 1, their prior value: chains that have hardly moved yet seem narrow.
    """
    count, _, size = seen.shape
    deviation = seen - seen.mean(axis=0)
    covariance = np.einsum("nmi,nmj->mij", deviation, deviation) / count
    variance = np.einsum("mii->mi", covariance)
    floor = 1e-6 + 1e-3 * variance.mean(axis=1, keepdims=True)
    trust = count / (count + max(5.0 * size, 0.15 * size**2))  # there are size² / 2 numbers to learn
    prior = variance ** (count / (count + size)) if is_noncentred else variance
    covariance *= trust
    covariance[:, np.arange(size), np.arange(size)] += (1 - trust) * prior + floor
    return np.linalg.cholesky(covariance)


def _with_curvature(chain: "MarkovChain", tuning: Tuning, block: int) -> Tuning:
    """Mass matrices from the Fisher information at the chain's state; given up for good where they do not help."""
    task_factor, hyper_factor = _curvature_mass_factors(chain)
    if block >= UNDER_WAY and not improves_step_size(tuning.task_mass_factor, task_factor):
        chain.uses_curvature = False  # from here on they are learnt from draws
        task_factor, hyper_factor = (_identities(*each.shape[:2]) for each in (task_factor, hyper_factor))
    return tuning._replace(task_mass_factor=task_factor, hyper_mass_factor=hyper_factor)


def _curvature_mass_factors(chain: "MarkovChain") -> tuple[np.ndarray, np.ndarray]:
    """Mass factors of tasks [M, D, D] and populations [G, H, H] from the Fisher information at the chain's state."""
    target = chain.target
    workspace = density_workspace(chain.world, chain.layout, target.num_tasks, target.num_groups)
    start_trajectories(chain.world, chain.layout, chain.data, chain.state, workspace)
    u_by = workspace.u_by_z, workspace.u_by_a, workspace.u_by_b
    return mass_factors(target, chain.state.tasks + chain.offset, *u_by, workspace.hyper_by_z, workspace.values)


def _identities(count: int, size: int) -> np.ndarray:
    return np.tile(np.eye(size), (count, 1, 1))


def _length(factor: np.ndarray) -> np.ndarray:
    """[M] how long steps with these factors are: the geometric mean of their diagonals."""
    return np.exp(np.log(np.einsum("mii->mi", factor)).mean(axis=1))
