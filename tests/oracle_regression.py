"""Counts of choices of a few tasks in; the exact posterior of a hierarchical regression of their weights out.

Plain NumPy and SciPy; nothing of the library is imported. Task m has weights θ_m [D], inverse temperature c_m, and
counts of choices in one environment or in several, with a policy in each as in oracle_discount.py:

    r_e = features_e θ_m,      log p(counts_m | θ_m, c_m) = Σ_e Σ_{s,a} counts_e[m, s, a] log π_e(a | s),
    θ_md ~ Normal(μ_d + Σ_p X_mp β_pd + Σ_l b_l[group_l(m)]_d, s_d),      log c_m ~ Normal(location, scale),
    μ_d ~ Normal(m0, s0),  s_d ~ HalfNormal(t0),  β_pd ~ Normal(0, s_β),  b_l[g]_d ~ Normal(0, τ_ld),
    τ_ld ~ HalfNormal(t1).        A scale of 0 of log c: it is known. HalfNormal(t) is |Normal(0, t)|.

`exact_posterior` (D = 1, no levels, at most one covariate): given s, the other unknowns are integrated as

    Z_m(η, s) = ∫ Normal(θ; η, s) L_m(θ) dθ,    L_m(θ) = ∫ p(counts_m | θ, c) p(c) dc,    η_m = μ + X_m β,
    p(μ, β, s | counts) ∝ p(μ) p(β) p(s) Π_m Z_m(μ + X_m β, s),
    p(θ_m, s | counts) ∝ L_m(θ_m) ∫ Normal(θ_m; η, s) U_m(η, s) dη,
    U_m(η, s) = ∫ p(μ = η − X_m β) p(β) Π_{n≠m} Z_n(η + (X_n − X_m) β, s) dβ,

with lattices (trapezoid rule) in η and β, Gauss–Legendre nodes in s, in θ, and in each Z_m. L_m may have a kink, at
θ = 0 only (Softmax: Q* is linear in θ on either side): no Gauss–Legendre panel contains it, and lattices are at least
as fine as s, which is how widely it is blurred.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import interpolate, special

from oracle_discount import lattice_quantiles, log_likelihoods, rewards_of_pairs

Array = np.ndarray
PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)
REACH = 8.5  # standard deviations, of normal priors
LARGEST_SCALE = 7.0  # in units of t0: a HalfNormal is larger with probability 3e−12


@dataclass(frozen=True)
class Environment:
    """Where M tasks chose, and how often they chose what."""

    transitions: Array  # [S, A, S]
    discount: float
    features: Array  # [S, D], or [S, A, D]
    counts: Array  # [M, S, A]
    available: Array | None = None  # [S, A]


@dataclass(frozen=True)
class Prior:
    mean_location: float = 0.0  # m0
    mean_scale: float = 1.0  # s0
    scale: float = 1.0  # t0
    coefficient_scale: float = 1.0  # s_β
    level_scale: float = 1.0  # t1
    log_temperature: tuple[float, float] = (0.0, 0.0)  # location and scale of log c; a scale of 0: c is known


@dataclass(frozen=True)
class Summary:
    mean: Array
    sd: Array
    quantiles: Array  # [..., Q]


def task_log_likelihoods(environments: Sequence[Environment], weights: Array, temperatures: Array, soft: bool) -> Array:
    """log p(counts_m | θ, c) [B, M] of each of B weights [B, D] and inverse temperatures [B], for each task."""
    total = np.zeros((len(weights), len(environments[0].counts)))
    for world in environments:
        rewards = rewards_of_pairs(weights, world.features, world.transitions.shape[1])
        discounts = np.full(len(weights), float(world.discount))
        total += log_likelihoods(
            world.transitions, discounts, rewards, temperatures, world.counts, soft, world.available
        )
    return total


def marginal_log_likelihoods(
    environments: Sequence[Environment], weights: Array, prior: Prior, soft: bool, temperature_nodes: int = 35
) -> tuple[Array, Array]:
    """log L_m(θ) [B, M] with log c integrated out, and the mean and mean square of log c given θ [2, B, M]."""
    location, scale = prior.log_temperature
    z = np.linspace(-REACH, REACH, temperature_nodes) if scale > 0 else np.zeros(1)
    log_masses = -(z**2) / 2 - special.logsumexp(-(z**2) / 2)
    nodes = location + scale * z
    found = np.stack(
        [
            task_log_likelihoods(environments, weights, np.full(len(weights), np.exp(node)), soft) + log_mass
            for node, log_mass in zip(nodes, log_masses)
        ]
    )
    total = special.logsumexp(found, axis=0)
    shares = np.exp(found - total)
    return total, np.stack([np.tensordot(nodes**power, shares, axes=1) for power in (1, 2)])


# ------------------------------------------------------------------------------------------- one weight, exactly


def exact_posterior(
    environments: Sequence[Environment],
    covariates: Array,  # [M, P], P ≤ 1
    prior: Prior,
    soft: bool,
    probabilities: tuple[float, ...] = PROBABILITIES,
    scale_nodes: int = 12,  # of each of three panels of s
    lattice: float = 0.2,  # the coarsest spacing, in units of the smaller of s0 and s_β
    nodes: int = 48,  # of each Gauss–Legendre panel of θ
) -> dict[str, Summary]:
    """Summaries of 'mean' (μ), 'coefficient' (β [P]), 'scale' (s), 'weight' (θ [M]), 'log_temperature' ([M]).

    D = 1. 'log_temperature' has no quantiles. 'log_evidence' has M + 1 values as its `mean`: from the integral over
    (μ, β, s) and from that over each (θ_m, s). They share the nodes of s, so that their differences do not show errors
    of `scale_nodes`: double that too. The defaults are accurate to 1e−6 for priors of scale about 1 and tens of
    choices of each task; with a hundred, quantiles of s are to 1e−5, with five hundred everything is to 1e−4.
    """
    tasks, columns = covariates.shape
    if columns > 1:
        raise ValueError("at most one covariate: use nested_posterior")
    slopes = covariates[:, 0] if columns else np.zeros(tasks)
    spread = prior.coefficient_scale if columns else 0.0
    furthest = 1 + abs(prior.mean_location) + REACH * (prior.mean_scale + 3 * np.abs(slopes).max() * spread)
    log_likelihood = _likelihood_spline(environments, prior, soft, furthest + 10 * LARGEST_SCALE * prior.scale)
    edges = np.array([0.75, 1.5, 3.0, 6.0, 12.0, furthest + 18 * prior.scale])
    breaks = np.concatenate([-edges[::-1], [0.0], edges])
    theta, theta_weights = _panels(breaks, nodes)
    of_theta, temperatures = marginal_log_likelihoods(environments, theta[:, None], prior, soft)
    scale_breaks = prior.scale * np.array([0.0, 1.5, 3.5, LARGEST_SCALE])
    scales, scale_weights = _panels(scale_breaks, scale_nodes)
    log_scale_masses = np.log(scale_weights * np.sqrt(2 / np.pi) / prior.scale) - (scales / prior.scale) ** 2 / 2

    unit = lattice * min(prior.mean_scale, spread or np.inf)
    of_scale = np.empty(len(scales))
    lattices: tuple[list[Array], list[Array]] = ([], [])  # of μ and of β: nodes, log masses and spacing for each s
    densities = np.empty((len(scales), tasks, len(theta)))
    for number, scale in enumerate(scales):
        table = _evidence_spline(log_likelihood, scale, furthest, nodes)
        keep = 2 ** int(np.clip(np.ceil(np.log2(unit / scale)), 0, 3))
        mu, beta, joint = _lattice(table, slopes, 0.0, None, prior, spread, unit, keep)
        of_scale[number] = special.logsumexp(joint)
        for kept, line, other in zip(lattices, (mu, beta), (1, 0)):
            log_masses = special.logsumexp(joint, axis=other) + log_scale_masses[number]
            kept.append(np.stack([line, log_masses, np.full(len(line), unit / keep)]))
        for task in range(tasks):
            eta, _, others = _lattice(table, slopes, slopes[task], task, prior, spread, unit, keep)
            densities[number, task] = _blurred(theta, eta, special.logsumexp(others, axis=1), scale)
    log_theta = special.logsumexp(densities + of_theta.T + log_scale_masses[:, None, None], axis=0)
    of_scale += log_scale_masses
    evidence = np.append(special.logsumexp(of_scale), special.logsumexp(log_theta + np.log(theta_weights), axis=1))

    scale_masses = np.exp(of_scale - evidence[0])
    theta_masses = np.exp(log_theta + np.log(theta_weights) - evidence[1:, None])
    found = {"scale": _panel_summary(scales, scale_masses, scale_breaks, probabilities)}
    found["weight"] = _stacked([_panel_summary(theta, row, breaks, probabilities) for row in theta_masses])
    found["mean"] = _lattice_summary(lattices[0], probabilities)
    found["coefficient"] = _stacked([_lattice_summary(lattices[1], probabilities) for _ in range(columns)])
    one, two = np.einsum("mb,kbm->km", theta_masses, temperatures)
    found["log_temperature"] = Summary(one, np.sqrt(np.maximum(two - one**2, 0)), np.full((tasks, 0), np.nan))
    found["log_evidence"] = Summary(evidence, np.zeros(0), np.zeros(0))
    return found


def _likelihood_spline(
    environments: Sequence[Environment], prior: Prior, soft: bool, reach: float
) -> interpolate.PPoly:
    """log L_m(θ) for |θ| ≤ reach, all tasks at once: a cubic spline on either side of its kink at 0."""
    knots = np.sinh(np.linspace(0.0, np.arcsinh(reach), 1200))
    right = interpolate.CubicSpline(knots, marginal_log_likelihoods(environments, knots[:, None], prior, soft)[0])
    knots = -knots[::-1]
    left = interpolate.CubicSpline(knots, marginal_log_likelihoods(environments, knots[:, None], prior, soft)[0])
    return interpolate.PPoly(np.concatenate([left.c, right.c], axis=1), np.concatenate([left.x, right.x[1:]]))


def _evidence_spline(
    log_likelihood: interpolate.PPoly, scale: float, reach: float, nodes: int
) -> interpolate.CubicSpline:
    """log Z_m(η, s) for |η| ≤ reach, all tasks at once; knots are close where the kink of L_m is blurred."""
    knots = 4 * np.sinh(np.arange(-1, 1.0001, 1 / np.ceil(100 * np.arcsinh(reach / 4))) * np.arcsinh(reach / 4))
    if scale < 0.4:
        knots = np.concatenate([knots[np.abs(knots) > 12 * scale], np.linspace(-12 * scale, 12 * scale, 241)])
        knots = np.unique(knots)
    x, w = np.polynomial.legendre.leggauss(nodes // 2)
    kink = np.clip(-knots / scale, -9.0, 9.0)
    edges = np.sort(np.column_stack([np.tile([-9.0, -3.0, 0.0, 3.0, 9.0], (len(knots), 1)), kink]), axis=1)
    half, middle = np.diff(edges)[..., None] / 2, (edges[:, 1:, None] + edges[:, :-1, None]) / 2
    z = (middle + half * x).reshape(len(knots), -1)
    masses = (half * w).reshape(z.shape) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    found = log_likelihood(knots[:, None] + scale * z)
    top = found.max(axis=1)
    return interpolate.CubicSpline(knots, np.log(np.einsum("kz,kzm->km", masses, np.exp(found - top[:, None]))) + top)


def _lattice(
    table: interpolate.CubicSpline,
    slopes: Array,  # X_m
    slope: float,  # η = μ + slope β
    left_out: int | None,  # a task
    prior: Prior,
    spread: float,  # s_β; 0 without a covariate
    unit: float,
    keep: int,
) -> tuple[Array, Array, Array]:
    """Nodes of η and of β, spacing unit / keep, and log p(η) p(β | η) Π_n Z_n with the spacings in it [η, β]."""
    sizes = [int(np.ceil(REACH * sd / unit)) * keep for sd in (np.hypot(prior.mean_scale, slope * spread), spread)]
    spacing = unit / keep
    eta = prior.mean_location + spacing * np.arange(-sizes[0], sizes[0] + 1)
    beta = spacing * np.arange(-sizes[1], sizes[1] + 1)
    z = (eta[:, None] - slope * beta - prior.mean_location) / prior.mean_scale
    total = -(z**2) / 2 + np.log(spacing / (np.sqrt(2 * np.pi) * prior.mean_scale))
    if spread > 0:
        total += -((beta / spread) ** 2) / 2 + np.log(spacing / (np.sqrt(2 * np.pi) * spread))
    for task, other in enumerate(slopes):
        if task != left_out:
            column = interpolate.PPoly(table.c[..., task], table.x)
            total += column(eta[:, None] + (other - slope) * beta)
    return eta, beta, total


def _blurred(theta: Array, eta: Array, log_masses: Array, scale: float) -> Array:
    """log ∫ Normal(θ; η, s) U(η) dη for every θ, U known on a lattice: by its spacing where that is less than s."""
    spacing = eta[1] - eta[0]
    with np.errstate(divide="ignore"):
        if spacing <= scale:
            kernel = np.exp(-(((theta[:, None] - eta) / scale) ** 2) / 2) / (np.sqrt(2 * np.pi) * scale)
            return np.log(kernel @ np.exp(log_masses - log_masses.max())) + log_masses.max()
        z = np.linspace(-REACH, REACH, 35)
        density = interpolate.CubicSpline(eta, log_masses - np.log(spacing), extrapolate=False)
        found = np.nan_to_num(np.exp(density(theta[:, None] + scale * z)), nan=0.0)
        return np.log(found @ (np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()))


def _panels(breaks: Array, nodes: int) -> tuple[Array, Array]:
    """Gauss–Legendre nodes and weights of every panel, in one row."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    half, middle = np.diff(breaks)[:, None] / 2, (breaks[1:, None] + breaks[:-1, None]) / 2
    return (middle + half * x).ravel(), (half * w).ravel()


def _panel_summary(nodes: Array, masses: Array, breaks: Array, probabilities: tuple[float, ...]) -> Summary:
    """Moments by quadrature; quantiles from the Legendre series of the density in each panel, integrated."""
    masses = masses / masses.sum()
    mean = masses @ nodes
    of_panels = masses.reshape(len(breaks) - 1, -1)
    below = np.append(0.0, np.cumsum(of_panels.sum(axis=1)))
    x, _ = np.polynomial.legendre.leggauss(of_panels.shape[1])
    degrees = np.arange(len(x))
    vander = np.polynomial.legendre.legvander(x, len(x) - 1)
    quantiles = []
    for wanted in probabilities:
        panel = int(np.searchsorted(below, wanted) - 1)
        series = np.polynomial.legendre.legint((degrees + 0.5) * (of_panels[panel] @ vander), lbnd=-1)
        low, high = -1.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            is_less = below[panel] + np.polynomial.legendre.legval(middle, series) < wanted
            low, high = (middle, high) if is_less else (low, middle)
        quantiles.append(breaks[panel] + (breaks[panel + 1] - breaks[panel]) * (1 + low) / 2)
    return Summary(mean, np.sqrt(masses @ (nodes - mean) ** 2), np.array(quantiles))


def _lattice_summary(lattices: list[Array], probabilities: tuple[float, ...]) -> Summary:
    """Of a mixture of densities, each on a lattice of its own: rows are nodes, log masses, spacing."""
    nodes, log_masses, spacings = np.concatenate(lattices, axis=1)
    masses = np.exp(log_masses - special.logsumexp(log_masses))
    mean = masses @ nodes
    sd = np.sqrt(masses @ (nodes - mean) ** 2)
    return Summary(mean, sd, lattice_quantiles(nodes, masses, spacings, probabilities))


def _stacked(parts: list[Summary]) -> Summary:
    """[N], [N] and [N, Q] of N summaries."""
    return Summary(*(np.array([getattr(part, name) for part in parts]) for name in ("mean", "sd", "quantiles")))
