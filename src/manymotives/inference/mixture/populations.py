"""Hyperparameters given motives and tasks, and the concentration of a Dirichlet process."""

from typing import TYPE_CHECKING

import numpy as np

from manymotives.families import NORMAL, log_density_all
from manymotives.models.target import CONSTANT

if TYPE_CHECKING:
    from manymotives.inference.mixture.chain import MixtureChain

REPEATS = 6  # proposals for each hyperparameter in each sweep
ALONG = 8  # proposals in each sweep with which motives move along …
TOGETHER = 0.4  # … and the share of them that move all means alike
SCALES = (0.05, 0.2, 0.8)  # of proposals, in coordinates; one is chosen at random


def move_hyperparameters(chain: "MixtureChain") -> None:
    """Random walks of hyperparameters: those that are the first parameter of coordinates, then the second ones."""
    layout = chain.target.layout
    if chain.target.num_hyper == 0:
        return
    for _ in range(REPEATS):
        for column in range(2):
            which = np.unique(layout.source[:, column])
            which = which[which != CONSTANT]
            if len(which):
                _walk(chain, which)
    if np.all(layout.families[: layout.num_rewards] == NORMAL):
        for _ in range(ALONG):
            _walk_along(chain)


def _walk(chain: "MixtureChain", which: np.ndarray) -> None:
    """Each of these for itself: no coordinate depends on two of them."""
    rng, proposed = chain.rng, chain.hyper.copy()
    proposed[which] += rng.choice(SCALES, size=len(which)) * rng.standard_normal(len(which))
    gain = _hyper_densities(chain, proposed) - _hyper_densities(chain, chain.hyper)
    source = chain.target.layout.source
    change = coordinate_densities(chain, proposed) - coordinate_densities(chain, chain.hyper)
    for column in range(2):
        has = source[:, column] != CONSTANT
        np.add.at(gain, source[has, column], change[has])
    accepted = np.log1p(-rng.random(len(which))) < np.nan_to_num(gain[which], nan=-np.inf)
    chain.hyper = chain.hyper.copy()
    chain.hyper[which[accepted]] = proposed[which[accepted]]


def _walk_along(chain: "MixtureChain") -> None:
    """One hyperparameter of rewards, or all means alike, and motives keep their distance from means in units of scales.

    The same added to all rewards changes few choices, or none: in that direction means and motives move only together.
    """
    rng, layout, size = chain.rng, chain.target.layout, chain.likelihoods.num_rewards
    which = np.unique(layout.source[:size])
    which = which[which != CONSTANT]
    if len(which) == 0:
        return
    means, proposed = np.unique(layout.source[:size, 0]), chain.hyper.copy()
    means = means[means != CONSTANT]
    together = len(means) > 0 and rng.random() < TOGETHER
    proposed[means if together else rng.choice(which)] += rng.choice(SCALES) * rng.standard_normal()
    before, after = chain.parameters[:size], np.ascontiguousarray(chain.target.parameters(proposed))[:size]
    moved = after[:, 0] + after[:, 1] * (chain.motives - before[:, 0]) / before[:, 1]
    if not np.isfinite(moved).all():
        return
    found = chain.likelihoods.at_motives(moved, chain.label, chain.rest, chain.away).log_likelihood.sum()
    now = chain.likelihoods.at_motives(chain.motives, chain.label, chain.rest, chain.away).log_likelihood.sum()
    gain = found - now + (_hyper_densities(chain, proposed) - _hyper_densities(chain, chain.hyper)).sum()
    rest = coordinate_densities(chain, proposed)[size:] - coordinate_densities(chain, chain.hyper)[size:]
    if np.log1p(-rng.random()) < gain + rest.sum():
        chain.hyper, chain.motives = proposed, moved


def move_concentration(chain: "MixtureChain") -> None:
    """α of a Dirichlet process given the number of motives: random walks of its logarithm."""
    prior, rng = chain.prior, chain.rng
    if not prior.is_process or prior.alpha.is_known:
        return
    count = len(chain.motives)
    for _ in range(REPEATS):
        proposed = chain.alpha * np.exp(rng.choice(SCALES[1:]) * rng.standard_normal())
        gain = prior.log_in_use(count, proposed) - prior.log_in_use(count, chain.alpha)
        gain += prior.alpha.log_density(np.log(proposed)) - prior.alpha.log_density(np.log(chain.alpha))
        if np.log1p(-rng.random()) < gain:
            chain.alpha = proposed


def coordinate_densities(chain: "MixtureChain", hyper: np.ndarray) -> np.ndarray:
    """log p of each coordinate [D] of motives and of tasks, given hyperparameters [H]."""
    layout, size = chain.target.layout, chain.likelihoods.num_rewards
    parameters = chain.target.parameters(hyper)
    found = np.empty(len(parameters))
    for d in range(len(parameters)):
        values = chain.motives[:, d] if d < size else chain.rest[:, d - size]
        given = np.broadcast_to(parameters[d], (len(values), 1, 2))
        found[d] = log_density_all(layout.families[d : d + 1], values[:, None].copy(), given.copy()).sum()
    return found


def log_hyperprior(chain: "MixtureChain") -> float:
    return float(_hyper_densities(chain, chain.hyper).sum())


def log_rest(chain: "MixtureChain") -> float:
    """log p of tasks' own coordinates behind their rewards."""
    if chain.rest.shape[1] == 0:
        return 0.0
    return float(coordinate_densities(chain, chain.hyper)[chain.likelihoods.num_rewards :].sum())


def _hyper_densities(chain: "MixtureChain", hyper: np.ndarray) -> np.ndarray:
    """log p of each hyperparameter [H]."""
    layout = chain.target.layout
    found = np.zeros(len(hyper))
    for j in range(len(hyper)):
        given = np.ascontiguousarray(layout.hyper_constants[j : j + 1][None])
        found[j] = log_density_all(layout.hyper_families[j : j + 1], np.array([[hyper[j]]]), given)[0]
    return found
