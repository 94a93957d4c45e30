"""Warm-up of a chain around a Laplace approximation: the approximation itself, step sizes, and what proposals expect.

The quadratic of `laplace_reference` is made anew at a few states on the way and averaged, the first ones forgotten: one
state's curvature is a poor guide where choices are nearly certain, or values have kinks.
"""

import threading
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import lapack, solve_triangular

from manymotives.inference.mcmc.laplace_kernels import populations_at
from manymotives.inference.mcmc.laplace_reference import Quadratic, Reference, most_rows, quadratic_at

if TYPE_CHECKING:
    from manymotives.inference.mcmc.laplace_chains import LaplaceChain

FIRST_STEP, LARGEST_STEP = 0.3, 1.3
ADAPTATIONS = 25  # of step sizes
CURVATURE_AT = (0.04, 0.1, 0.2, 0.35, 0.5)  # of warm-up: where the approximation is made anew, …
FORGOTTEN = 2  # … of which the first do not stay in its average
CORRECTED_AT = (0.6, 0.8)  # where it is corrected by draws …
CORRECTED_FROM = 0.25  # … from here on
ACCEPTANCE = 0.85  # of trajectories …
SINGLE_ACCEPTANCE = 0.6  # … and of those that only their end is planned for
LEARNT_FROM = 0.15  # of warm-up: from there on shared scales are proposed around where they were, …
WIDER = 1.25  # … a little wider: what a proposal reaches too seldom holds a chain up


class LaplaceTuning(NamedTuple):
    """What is adapted in warm-up and fixed afterwards."""

    rows: np.ndarray  # [M, R, D] and …
    slope: np.ndarray  # … [M, D]: `Quadratic`
    task_step_size: np.ndarray  # [M]
    mean_centre: np.ndarray  # [G, K] where z of means are expected, …
    mean_factor: np.ndarray  # … [G, K, K] F, their covariance being F Fᵀ
    mean_step_size: np.ndarray  # [G]
    shared_centre: np.ndarray  # [G, C] the same of z of shared scales
    shared_factor: np.ndarray  # [G, C, C]
    single_width: np.ndarray  # [G, C] how far z of single scales are expected to move
    single_step_size: np.ndarray  # [G]


def first_tuning(chain: "LaplaceChain") -> LaplaceTuning:
    """Before any draw."""
    target = chain.target
    num_groups, num_means, num_shared = target.num_groups, len(chain.means), len(chain.shared)
    return LaplaceTuning(
        rows=np.zeros((target.num_tasks, most_rows(target), target.num_coordinates)),
        slope=np.zeros((target.num_tasks, target.num_coordinates)),
        task_step_size=np.full(target.num_tasks, FIRST_STEP),
        mean_centre=np.zeros((num_groups, num_means)),
        mean_factor=np.tile(np.eye(num_means), (num_groups, 1, 1)),
        mean_step_size=np.full(num_groups, FIRST_STEP),
        shared_centre=np.zeros((num_groups, num_shared)),
        shared_factor=np.tile(np.eye(num_shared), (num_groups, 1, 1)),
        single_width=np.ones((num_groups, len(chain.single))),
        single_step_size=np.full(num_groups, FIRST_STEP),
    )


def warm_up(chain: "LaplaceChain", warmup: int, thin: int, stop: threading.Event) -> None:
    """So many draws, after which all tuning is fixed."""
    begin, block, made, corrected = 0, 0, 0, 0
    while begin < warmup and not stop.is_set():
        count = min(max(1, warmup // ADAPTATIONS), warmup - begin)
        acceptance, tried = chain.acceptance_counts(), count * thin
        chain.advance(thin, chain.draw_arrays(count), acceptance)
        chain.note_acceptance(acceptance, tried)
        begin += count
        block += 1
        tuning, single = chain.tuning, acceptance.hyper[:, 0]
        chain.tuning = tuning._replace(
            task_step_size=_adapted(tuning.task_step_size, acceptance.task_trajectories / tried, block),
            mean_step_size=_adapted(tuning.mean_step_size, acceptance.hyper_trajectories / tried, block),
            single_step_size=_adapted(tuning.single_step_size, single / tried, block, SINGLE_ACCEPTANCE),
        )
        while made < len(CURVATURE_AT) and begin >= CURVATURE_AT[made] * warmup:
            made += 1
            approximate(chain, 1.0 / max(1, made - FORGOTTEN + 1))
        while corrected < len(CORRECTED_AT) and begin >= CORRECTED_AT[corrected] * warmup:
            corrected += 1
            correct(chain, chain.passed[int(CORRECTED_FROM * begin) :])
        if len(chain.shared) and begin >= LEARNT_FROM * warmup:
            _learn_shared(chain, np.stack(chain.seen[begin // 3 :]))


def approximate(chain: "LaplaceChain", share: float) -> None:
    """The quadratic at the chain's state into the average, with this share; and what follows from it."""
    _, scale = chain.parameters()
    new = quadratic_at(chain.target, chain.state.tasks, scale)
    if share < 1.0:
        new = Quadratic(chain.tuning.rows, chain.tuning.slope).averaged(new, share, scale)
    chain.tuning = chain.tuning._replace(rows=new.rows, slope=new.slope)
    _moves_around(chain, new.trimmed)


def correct(chain: "LaplaceChain", passed: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """The quadratic by states that the chain has passed, each as h of populations and z of tasks."""
    found = Quadratic(chain.tuning.rows, chain.tuning.slope).corrected([(*chain.parameters(h), z) for h, z in passed])
    chain.tuning = chain.tuning._replace(rows=found.rows, slope=found.slope)
    _moves_around(chain, found.trimmed)


def _moves_around(chain: "LaplaceChain", quadratic: Quadratic) -> None:
    """What moves need of a quadratic."""
    chain.reference = Reference.of(quadratic, *chain.parameters())
    if len(chain.single):
        _expect_single(chain, quadratic)
    if len(chain.means):
        _expect_means(chain, quadratic)


def _expect_means(chain: "LaplaceChain", quadratic: Quadratic) -> None:
    """Where means are by the quadratic, given scales, with tasks integrated out: Normal(centre, F Fᵀ)."""
    reference, count = chain.reference, len(chain.means)
    mean, scale = chain.parameters()
    spread = chain.layout.hyper_constants[chain.means, 1]
    left = quadratic.slope - quadratic.information(mean)
    left -= quadratic.information(scale * reference.power(scale * left, -1.0))
    here = chain.state.hyper_z[:, chain.means]
    slope = spread * summed(chain.by_group(left), chain.mean_of, count) - here
    told = np.matmul(reference.turn.transpose(0, 2, 1), quadratic.rows) / np.sqrt(1.0 + reference.values)[:, :, None]
    centre, factor = np.empty_like(here), np.empty((len(here), count, count))
    for g in range(len(here)):
        mine = [summed(each, chain.mean_of, count) for each in told[chain.target.group == g]]
        rows = spread * np.concatenate(mine)
        factor[g] = _factor_of(np.eye(count) + rows.T @ rows)
        centre[g] = here[g] + factor[g] @ (factor[g].T @ slope[g])
    chain.tuning = chain.tuning._replace(mean_centre=centre, mean_factor=factor)


def _expect_single(chain: "LaplaceChain", quadratic: Quadratic) -> None:
    """How far single scales can move: each task tells 2 (1 − 1 / (1 + b² information))² about log b."""
    _, values, _, _, slope = populations_at(chain.layout, chain.state.hyper_z)
    told = (quadratic.rows**2).sum(axis=1) * chain.reference.scale**2
    about = chain.by_group(2.0 * (told / (1.0 + told)) ** 2)
    into = summed(about, chain.layout.source[:, 1], chain.target.num_hyper) * (slope / values) ** 2
    chain.tuning = chain.tuning._replace(single_width=1.0 / np.sqrt(1.0 + into[:, chain.single]))


def _learn_shared(chain: "LaplaceChain", seen: np.ndarray) -> None:
    """Where shared scales were [n, G, C], and as wide. (By the quadratic they would be smaller than they are.)"""
    count, _, size = seen.shape
    centre = seen.mean(axis=0)
    away = seen - centre
    covariance = np.einsum("ngi,ngj->gij", away, away) / count
    trust = count / (count + 10.0 * size)
    covariance = WIDER**2 * covariance * np.where(np.eye(size, dtype=bool), 1.0, trust) + 1e-4 * np.eye(size)
    factor = np.stack([_factor_of(np.linalg.inv(each)) for each in covariance])
    chain.tuning = chain.tuning._replace(shared_centre=centre, shared_factor=factor)


def summed(values: np.ndarray, index: np.ndarray, size: int) -> np.ndarray:
    """[n, size] sums of the columns of values [n, D] that have the same index; an index outside counts nowhere."""
    found = np.zeros((size + 1, len(values)))
    np.add.at(found, np.where((index >= 0) & (index < size), index, size), values.T)
    return found[:-1].T


def _adapted(step_size: np.ndarray, accepted: np.ndarray, block: int, wanted: float = ACCEPTANCE) -> np.ndarray:
    """By a Robbins–Monro step, not more than double or half: a start far from the posterior says little."""
    step = np.clip(4.0 / np.sqrt(block) * (accepted - wanted), -0.7, 0.7)
    return np.minimum(step_size * np.exp(step), LARGEST_STEP)


def _factor_of(precision: np.ndarray) -> np.ndarray:
    """Upper triangular F with F Fᵀ the inverse of a precision matrix."""
    inverse, _ = lapack.dtrtri(np.linalg.cholesky(precision), lower=1)
    return inverse.T


def solved(factor: np.ndarray, x: np.ndarray) -> np.ndarray:
    """F⁻¹ x."""
    return solve_triangular(factor, x, lower=False)


def turned(factor: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Fᵀ x of each population."""
    return np.matmul(x[:, None, :], factor)[:, 0]
