"""The model of oracle_regression.py by weighted draws and by a sampler: two weights, several covariates, levels.

Every unknown of the population is a function of standard normal numbers (HalfNormal(t) is t |normal|), so that

    `nested_posterior` takes quasi-random populations from the prior and weights each by Π_m Z_m, the integral over
    the weights of each task on a grid (D ≤ 2); independent scramblings tell its error;
    `sampled_posterior` runs many independent Metropolis chains in the space of standard normals, all of θ, log c and
    the population together (any D), with proposals u' = √(1 − ε²) u + ε ξ of a random half of the coordinates, which
    leave the prior as it is and are accepted by the ratio of likelihoods.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special
from scipy.stats import qmc

from oracle_discount import lattice_quantiles
from oracle_regression import PROBABILITIES, Environment, Prior, marginal_log_likelihoods, task_log_likelihoods

Array = np.ndarray


@dataclass(frozen=True)
class Estimate:
    """Posterior summaries, and the Monte Carlo standard error of each."""

    mean: Array
    sd: Array
    quantiles: Array  # [..., Q]
    mean_error: Array
    sd_error: Array


def population(
    normals: Array,  # [K, N]
    covariates: Array,  # [M, P]
    groups: Array,  # [L, M]: which group of each level a task belongs to
    prior: Prior,
    size: int,  # D
) -> tuple[dict[str, Array], Array]:
    """Unknowns of the population [K, …] from the first of the standard normals, and locations [K, M, D].

    Names: mean [D], scale [D], coefficient [P, D], and for each level l: level_scale_l [D], level_l [G, D].
    """
    used, found = 0, {}

    def take(*shape: int) -> Array:
        nonlocal used
        count = int(np.prod(shape))
        used += count
        return normals[:, used - count : used].reshape(len(normals), *shape)

    found["mean"] = prior.mean_location + prior.mean_scale * take(size)
    found["scale"] = prior.scale * np.abs(take(size))
    found["coefficient"] = prior.coefficient_scale * take(covariates.shape[1], size)
    locations = found["mean"][:, None] + np.einsum("mp,kpd->kmd", covariates, found["coefficient"])
    for level, members in enumerate(groups):
        found[f"level_scale_{level}"] = prior.level_scale * np.abs(take(size))
        effects = found[f"level_scale_{level}"][:, None] * take(members.max() + 1, size)
        found[f"level_{level}"] = effects
        locations = locations + effects[:, members]
    return found, locations


def population_size(covariates: Array, groups: Array, size: int) -> int:
    """How many standard normals `population` takes."""
    return size * (2 + covariates.shape[1] + sum(2 + int(members.max()) for members in groups))


# --------------------------------------------------------------------------------- populations weighted by integrals


def nested_posterior(
    environments: Sequence[Environment],
    covariates: Array,  # [M, P]
    prior: Prior,
    soft: bool,
    groups: Array | None = None,  # [L, M]
    probabilities: tuple[float, ...] = PROBABILITIES,
    log2_draws: int = 11,
    scramblings: int = 32,
    points: int = 161,
    reach: float = 10.0,  # the grid of each weight is from −reach to reach
    seed: int = 0,
) -> tuple[dict[str, Estimate], float]:
    """Estimates of the population's unknowns and of 'weight' [M, D], and the effective number of draws.

    Z_m is the integral of Normal(θ; η, s) against L_m, interpolated linearly between nodes h apart; that widens the
    normal by h² / 6, which is taken off s² where it can be: errors are O(h⁴), and O(h²) where s < .4 h.
    With priors of scale 1, they are about 2e−4 of means of weights at h = .125, and 2e−3 at h = .25.
    """
    groups = np.zeros((0, len(covariates)), int) if groups is None else groups
    size = environments[0].features.shape[-1]
    line, spacing = np.linspace(-reach, reach, points, retstep=True)
    grid = np.stack(np.meshgrid(*[line] * size, indexing="ij"), axis=-1).reshape(-1, size)
    logs = np.concatenate([marginal_log_likelihoods(environments, part, prior, soft)[0] for part in _chunks(grid)])
    tops = logs.max(axis=0)
    tables = np.exp(logs - tops).T.reshape(len(covariates), points, -1)  # [M, n, n] or [M, n, 1]

    weights, unknowns, tasks = [], [], []
    for scrambling in range(scramblings):
        sobol = qmc.Sobol(population_size(covariates, groups, size), rng=np.random.default_rng([seed, scrambling]))
        normals = special.ndtri(np.clip(sobol.random_base2(log2_draws), 1e-15, 1 - 1e-15))
        found, locations = population(normals, covariates, groups, prior, size)
        ones = np.ones((len(normals), 1))
        evidence, sides = np.empty((len(covariates), len(normals))), []
        for task, table in enumerate(tables):
            rows = [_hat_masses(line, spacing, locations[:, task, d], found["scale"][:, d]) for d in range(size)]
            sides.append((rows[0], rows[1] if size == 2 else ones))
            evidence[task] = ((sides[-1][0] @ table) * sides[-1][1]).sum(axis=1)
        weight = evidence.prod(axis=0)
        masses = [table * (a.T @ (b * (weight / z)[:, None])) for table, (a, b), z in zip(tables, sides, evidence)]
        weights.append(weight)
        unknowns.append(found)
        tasks.append([[part.sum(axis=1 - d) for d in range(size)] for part in masses])

    result = {name: _weighted([one[name] for one in unknowns], weights, probabilities) for name in unknowns[0]}
    marginals = np.array(tasks)  # [R, M, D, n]
    moments = np.stack([marginals @ line, marginals @ line**2], axis=-1) / marginals.sum(axis=-1, keepdims=True)
    pooled = marginals.sum(axis=0)
    pooled /= pooled.sum(axis=-1, keepdims=True)
    mean = pooled @ line
    spread = np.sqrt(moments[..., 1] - moments[..., 0] ** 2)
    quantiles = [[lattice_quantiles(line, one, np.full(points, spacing), probabilities) for one in m] for m in pooled]
    sd = np.sqrt(pooled @ line**2 - mean**2)
    result["weight"] = Estimate(mean, sd, np.array(quantiles), _error(moments[..., 0]), _error(spread))
    every = np.concatenate(weights)
    return result, float(every.sum() ** 2 / (every**2).sum())


def _chunks(rows: Array, size: int = 50_000) -> list[Array]:
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


def _hat_masses(line: Array, spacing: float, location: Array, scale: Array) -> Array:
    """∫ Normal(θ; location, scale) hat_i(θ) dθ [K, n]: second differences of the normal's second antiderivative."""
    scale = np.sqrt(np.maximum(scale**2 - spacing**2 / 6, (1e-4 * spacing) ** 2))[:, None]
    nodes = np.concatenate([[line[0] - spacing], line, [line[-1] + spacing]])
    z = (nodes - location[:, None]) / scale
    second = scale * (z * special.ndtr(z) + np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))
    return np.maximum(np.diff(second, 2, axis=1) / spacing, 0.0)


def _weighted(values: list[Array], weights: list[Array], probabilities: tuple[float, ...]) -> Estimate:
    parts = [_weighted_moments(one, weight) for one, weight in zip(values, weights)]
    every, weight = np.concatenate(values), np.concatenate(weights)
    mean, sd = _weighted_moments(every, weight)
    flat = every.reshape(len(every), -1)
    quantiles = np.empty((flat.shape[1], len(probabilities)))
    for column, row in zip(flat.T, quantiles):
        order = np.argsort(column)
        below = np.cumsum(weight[order]) - weight[order] / 2
        row[:] = np.interp(np.array(probabilities) * weight.sum(), below, column[order])
    shape = (*every.shape[1:], len(probabilities))
    errors = [_error(np.array([part[which] for part in parts])) for which in (0, 1)]
    return Estimate(mean, sd, quantiles.reshape(shape), *errors)


def _weighted_moments(values: Array, weights: Array) -> tuple[Array, Array]:
    mean = np.tensordot(weights, values, axes=1) / weights.sum()
    return mean, np.sqrt(np.tensordot(weights, (values - mean) ** 2, axes=1) / weights.sum())


def _error(parts: Array) -> Array:
    """Standard error of the mean of independent estimates [R, …]."""
    return parts.std(axis=0, ddof=1) / np.sqrt(len(parts))


# ------------------------------------------------------------------------------------------------ Metropolis chains


def sampled_posterior(
    environments: Sequence[Environment],
    covariates: Array,  # [M, P]
    prior: Prior,
    soft: bool,
    groups: Array | None = None,  # [L, M]
    chains: int = 1000,
    warmup: int = 200,
    steps: int = 500,
    thin: int = 10,
    seed: int = 0,
) -> dict[str, Array]:
    """Draws [chains, steps // thin, …] of the names of `population`, of 'weight' [M, D] and of 'log_temperature' [M].

    Chains start from the prior and are independent: `chain_summary` has Monte Carlo standard errors from their means.
    """
    rng = np.random.default_rng(seed)
    groups = np.zeros((0, len(covariates)), int) if groups is None else groups
    tasks, size = len(covariates), environments[0].features.shape[-1]
    own = np.arange(tasks)
    first = population_size(covariates, groups, size)

    def unknowns(normals: Array) -> dict[str, Array]:
        found, locations = population(normals, covariates, groups, prior, size)
        errors = normals[:, first : first + tasks * size].reshape(-1, tasks, size)
        found["weight"] = locations + found["scale"][:, None] * errors
        location, scale = prior.log_temperature
        found["log_temperature"] = location + scale * normals[:, first + tasks * size :]
        return found

    def log_likelihood(normals: Array) -> Array:
        found = unknowns(normals)
        temperatures = np.exp(found["log_temperature"]).ravel()
        every = task_log_likelihoods(environments, found["weight"].reshape(-1, size), temperatures, soft)
        return every.reshape(len(normals), tasks, tasks)[:, own, own].sum(axis=1)

    state = rng.standard_normal((chains, first + tasks * (size + 1)))
    here = log_likelihood(state)
    kept: list[dict[str, Array]] = []
    for step in range(-warmup, steps):
        width = np.exp(rng.uniform(np.log(0.05), 0.0, size=(chains, 1))) * (rng.random(state.shape) < 0.5)
        moved = np.sqrt(1 - width**2) * state + width * rng.standard_normal(state.shape)
        there = log_likelihood(moved)
        accepted = np.log(rng.random(chains)) < there - here
        state, here = np.where(accepted[:, None], moved, state), np.where(accepted, there, here)
        if step >= 0 and (step + 1) % thin == 0:
            kept.append(unknowns(state))
    return {name: np.stack([one[name] for one in kept], axis=1) for name in kept[0]}


def chain_summary(draws: Array, probabilities: tuple[float, ...] = PROBABILITIES) -> Estimate:
    """Of draws [chains, draws, …]; errors treat each chain as one independent estimate of a mean."""
    mean = draws.mean(axis=(0, 1))
    sd = draws.std(axis=(0, 1))
    squares = ((draws - mean) ** 2).mean(axis=1)
    quantiles = np.moveaxis(np.quantile(draws, probabilities, axis=(0, 1)), 0, -1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Estimate(mean, sd, quantiles, _error(draws.mean(axis=1)), _error(squares) / (2 * sd))
