"""A problem and a prior of partitions in, by `oracle_mixture`; every posterior probability out, by full enumeration.

The posterior of a partition is its prior times the evidence of each block, the choices of its tasks with the weights
integrated out by quadrature:

    E(block) = ∫ Normal(w; mean, scale) Π_m L_m(w) dw
    E(block; σ) = ∫ Normal(μ; mean, scale) Π_m ∫ Normal(w; μ, σ) L_m(w) dw dμ           with spread, for one feature
"""

from dataclasses import dataclass

import numpy as np
from scipy import interpolate, special

from oracle_mixture import (
    FAR,
    NODES,
    Array,
    Prior,
    Problem,
    log_normal,
    log_priors,
    new_motive_probabilities,
    panels,
    partitions,
    weight_nodes,
)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Of every block: bit m of its number says whether task m is in it. N values of σ (1 where there is no spread)."""

    spreads: Array  # [N] σ; 0 where there is none
    log_masses: Array  # [N] prior probability of each σ
    log_evidence: Array  # [N, 2^M]; 0 for the empty block
    moments: Array  # [N, 2^M, 2, M, D] posterior means of w and of w² of the members; 0 for others


@dataclass(frozen=True, eq=False)
class Posterior:
    """Of partitions, and what follows from it."""

    partitions: Array  # [B, M]
    probability: Array  # [B]
    number: Array  # [M] of 1, 2, …, M motives
    together: Array  # [M, M]
    best: Array  # [M] the partition with the least expected variation of information
    expected_distance: float  # that of draws from it, in nats
    best_probability: float
    weight_means: Array  # [M, D]
    weight_sds: Array  # [M, D]
    new_motive: float  # the probability that another task acts on a motive of its own
    spread_mean: float
    log_evidence: float


def posterior(problem: Problem, prior: Prior, spread: float | None = None, half_normal: bool = True) -> Posterior:
    """`spread`: scale of σ's half-normal prior, or σ itself (`half_normal=False`); None: there is none."""
    found = block_evidence(problem) if spread is None else spread_evidence(problem, *spread_nodes(spread, half_normal))
    return posterior_of(found, prior, len(problem.counts))


def posterior_of(evidence: Evidence, prior: Prior, tasks: int) -> Posterior:
    """From the evidence of each block."""
    strings = partitions(tasks)
    members = strings[:, None, :] == np.arange(tasks)[None, :, None]  # [B, block, M]
    block = (members * 2 ** np.arange(tasks)).sum(axis=2)  # [B, block]; 0 where there is none
    joint = evidence.log_masses[:, None] + log_priors(prior, tasks) + evidence.log_evidence[:, block].sum(axis=2)
    total = special.logsumexp(joint)
    mass = np.exp(joint - total)  # [N, B]
    probability = mass.sum(axis=0)
    first, second = np.einsum("nb,nbkpmd->pmd", mass, evidence.moments[:, block])
    distance = variation_of_information(strings) @ probability
    best = int(distance.argmin())
    return Posterior(
        partitions=strings,
        probability=probability,
        number=np.bincount(strings.max(axis=1), probability, minlength=tasks),
        together=np.einsum("b,bkm,bko->mo", probability, members.astype(float), members.astype(float)),
        best=strings[best],
        expected_distance=float(distance[best]),
        best_probability=float(probability[best]),
        weight_means=first,
        weight_sds=np.sqrt(second - first**2),
        new_motive=float(new_motive_probabilities(prior, tasks) @ probability),
        spread_mean=float(evidence.spreads @ mass.sum(axis=1)),
        log_evidence=float(total),
    )


def block_evidence(problem: Problem, nodes: int = NODES) -> Evidence:
    """Tasks of a block have the same weights."""
    weights, log_mass = weight_nodes(problem, nodes)
    each = problem.log_likelihoods(weights)  # [G, M]
    tasks, dimensions = each.shape[1], weights.shape[1]
    log_evidence = np.zeros((1, 2**tasks))
    moments = np.zeros((1, 2**tasks, 2, tasks, dimensions))
    for block, member in _blocks(tasks):
        joint = log_mass + each[:, member].sum(axis=1)
        log_evidence[0, block] = special.logsumexp(joint)
        mass = np.exp(joint - log_evidence[0, block])
        moments[0, block, :, member] = np.stack([mass @ weights, mass @ weights**2])
    return Evidence(np.zeros(1), np.zeros(1), log_evidence, moments)


def spread_nodes(scale: float, half_normal: bool = True, nodes: int = 8) -> tuple[Array, Array]:
    """Values of σ and the log of their prior probability."""
    if not half_normal:
        return np.array([scale]), np.zeros(1)
    sigma, width = panels(scale * np.array([0.0, 0.25, 0.75, 1.5, 2.5, 4.0, 7.0]), nodes)
    return sigma, np.log(2 * width) + log_normal(sigma, 0.0, scale)


def spread_evidence(problem: Problem, spreads: Array, log_masses: Array, nodes: int = NODES) -> Evidence:
    """Tasks of a block have weights around the motive's, for one feature."""
    assert problem.pair_features.shape[2] == 1, "quadrature with spread is for one feature"
    tasks = len(problem.counts)
    far = abs(problem.mean) + FAR * problem.scale
    likelihood = _interpolated(problem, far + FAR * spreads.max())
    # at a small σ, what was a kink at 0 is bent over a few σ: panels become narrower towards 0
    side = np.concatenate([[0.0], far / 18 * 0.5 ** np.arange(12.0, 0.0, -1.0), np.linspace(far / 18, far, 18)])
    motive, width = panels(np.concatenate([-side[:0:-1], side]), nodes // 2)
    log_motive = np.log(width) + log_normal(motive, problem.mean, problem.scale)
    log_evidence = np.zeros((len(spreads), 2**tasks))
    moments = np.zeros((len(spreads), 2**tasks, 2, tasks, 1))
    for n, sigma in enumerate(spreads):
        log_each, mean, square = _blurred(likelihood, motive, sigma, tasks, nodes)  # [U, M]
        for block, member in _blocks(tasks):
            joint = log_motive + log_each[:, member].sum(axis=1)
            log_evidence[n, block] = special.logsumexp(joint)
            mass = np.exp(joint - log_evidence[n, block])
            moments[n, block, :, member, 0] = np.stack([mass @ mean[:, member], mass @ square[:, member]], axis=1)
    return Evidence(spreads, log_masses, log_evidence, moments)


def _blurred(likelihood, motive: Array, sigma: float, tasks: int, nodes: int) -> tuple[Array, Array, Array]:
    """log ∫ Normal(w; μ, σ) L_m(w) dw for each μ and m; the means of w and w² under that integrand."""
    kink = np.clip(-motive / sigma, -FAR, FAR)  # z = (w − μ)/σ where w = 0
    point, weight = np.polynomial.legendre.leggauss(2 * nodes)
    pieces = []
    for low, high in ((np.full_like(kink, -FAR), kink), (kink, np.full_like(kink, FAR))):
        z = low[:, None] + (high - low)[:, None] * (point + 1) / 2
        with np.errstate(divide="ignore"):  # an empty piece: the kink is far away
            pieces.append((z, np.log((high - low)[:, None] * weight / 2)))
    z, log_width = (np.concatenate([piece[n] for piece in pieces], axis=1) for n in range(2))
    w = motive[:, None] + sigma * z
    joint = likelihood(w) + (log_width + log_normal(z, 0.0, 1.0))[..., None]  # [U, Z, M]
    total = special.logsumexp(joint, axis=1)
    mass = np.exp(joint - total[:, None])
    return total, np.einsum("uz,uzm->um", w, mass), np.einsum("uz,uzm->um", w**2, mass)


def _interpolated(problem: Problem, far: float):
    """log L_m(w) for |w| ≤ far, by splines of degree 7 on each side of the kink at w = 0."""
    at = np.linspace(0.0, far, int(far / 0.01) + 1)
    left, right = (
        interpolate.make_interp_spline(at, problem.log_likelihoods(sign * at[:, None]), k=7) for sign in (-1, 1)
    )

    def likelihood(w: Array) -> Array:
        return np.where(w[..., None] < 0, left(np.abs(w)), right(np.abs(w)))

    return likelihood


def _blocks(tasks: int):
    """Every block but the empty one: its number, and the indices of its members."""
    for block in range(1, 2**tasks):
        yield block, np.flatnonzero(block >> np.arange(tasks) & 1)


def variation_of_information(strings: Array) -> Array:
    """[B, B] H(a | b) + H(b | a) of each two partitions, in nats (Meilă 2007)."""
    tasks = strings.shape[1]
    members = (strings[:, :, None] == np.arange(tasks)).astype(float)  # [B, M, block]
    both = np.einsum("amk,bml->abkl", members, members)
    size = members.sum(axis=1)
    entropy = special.xlogy(size, size).sum(axis=1)
    return np.maximum(entropy[:, None] + entropy - 2 * special.xlogy(both, both).sum(axis=(2, 3)), 0.0) / tasks
