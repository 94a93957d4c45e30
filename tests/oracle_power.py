"""Power by brute force for a two-armed choice with known variance between subjects; shares no code with the library.

Subject m of group g takes the left arm with probability 1 / (1 + exp(−w_m)), w_m ~ Normal(η_g, σ), in n choices. The
posterior of (η_0, η_1) under η_0 = μ ~ Normal(0, s), η_1 = μ + β, β ~ Normal(0, τ) is computed on a grid, with w_m
integrated out by Gauss–Hermite quadrature. One group: η = μ ~ Normal(0, s).
"""

import numpy as np

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
GRID = np.linspace(-6.0, 6.0, 241)


def log_count_likelihood(choices, sigma):
    """log p(y | η) [y, η] of y = 0 … n left choices, up to a constant that depends on y alone."""
    w = GRID[:, None] + sigma * NODES
    log_left, log_right = -np.logaddexp(0.0, -w), -np.logaddexp(0.0, w)
    y = np.arange(choices + 1)[:, None, None]
    inner = y * log_left + (choices - y) * log_right
    largest = inner.max(axis=2, keepdims=True)
    return np.log((np.exp(inner - largest) * WEIGHTS).sum(axis=2)) + largest[:, :, 0]


def probability_positive(left, group, choices, sigma, s, tau):
    """P(β > 0 | y) of one data set: left [M] counts of subjects of groups [M] 0 or 1."""
    table = log_count_likelihood(choices, sigma)
    of_group = [table[left[group == g]].sum(axis=0) for g in (0, 1)]
    log = -0.5 * (GRID[:, None] / s) ** 2 - 0.5 * ((GRID[None, :] - GRID[:, None]) / tau) ** 2
    log = log + of_group[0][:, None] + of_group[1][None, :]
    density = np.exp(log - log.max())
    above = np.triu(density, 1).sum() + 0.5 * np.trace(density)
    return above / density.sum()


def moments(left, group, choices, sigma, s, tau):
    """Posterior mean and standard deviation of β of one data set."""
    table = log_count_likelihood(choices, sigma)
    of_group = [table[left[group == g]].sum(axis=0) for g in (0, 1)]
    beta = GRID[None, :] - GRID[:, None]
    log = -0.5 * (GRID[:, None] / s) ** 2 - 0.5 * (beta / tau) ** 2 + of_group[0][:, None] + of_group[1][None, :]
    density = np.exp(log - log.max())
    density /= density.sum()
    mean = (density * beta).sum()
    return mean, np.sqrt((density * (beta - mean) ** 2).sum())


def simulated(rng, subjects, choices, effect, sigma, s):
    """Left choices [M] of one experiment, and groups: half of the subjects in each."""
    group = np.arange(subjects) % 2
    mean = rng.normal(0.0, s)
    w = mean + effect * group + sigma * rng.standard_normal(subjects)
    return rng.binomial(choices, 1.0 / (1.0 + np.exp(-w))), group


def power(subjects, choices, effect, sigma, s, tau, level=0.975, replications=4000, seed=0):
    """The share of experiments with P(sign) > level."""
    rng, table = np.random.default_rng(seed), log_count_likelihood(choices, sigma)
    prior = -0.5 * (GRID[:, None] / s) ** 2 - 0.5 * ((GRID[None, :] - GRID[:, None]) / tau) ** 2
    yes = 0
    for _ in range(replications):
        left, group = simulated(rng, subjects, choices, effect, sigma, s)
        one, other = (table[left[group == g]].sum(axis=0) for g in (0, 1))
        density = np.exp(prior + (one - one.max())[:, None] + (other - other.max())[None, :])
        above = (np.triu(density, 1).sum() + 0.5 * np.trace(density)) / density.sum()
        yes += max(above, 1 - above) > level
    return yes / replications


def normal_power(subjects, effect, sigma, tau, level=0.975):
    """The same in closed form where choices are so many that w_m is seen, and nothing is known of μ.

    β | data ~ Normal with precision 1/τ² + M/(4 σ²), and the estimate's own distribution is Normal.
    """
    from scipy.stats import norm

    error = 2.0 * sigma / np.sqrt(subjects)
    shrink = tau**2 / (tau**2 + error**2)
    z = norm.ppf(level) * np.sqrt(shrink) * error / shrink  # the estimate that just says yes
    return norm.sf((z - effect) / error) + norm.cdf((-z - effect) / error)
