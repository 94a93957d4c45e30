"""Log likelihoods of simulated data under draws of the parameters in; expected information about the parameters out.

Parameters θ_1, …, θ_N are drawn from what is believed, and data y_n from p(y | θ_n). With ℓ[n, m] = log p(y_n | θ_m),
the mutual information I(θ; y) = E log p(y | θ) − E log p(y) is estimated from the same N draws twice:

    lower   mean_n ( ℓ[n, n] − log 1/N       Σ_m    exp ℓ[n, m] )      prior contrastive estimation
    upper   mean_n ( ℓ[n, n] − log 1/(N − 1) Σ_m≠n  exp ℓ[n, m] )      nested Monte Carlo

Their expectations enclose I for every N: log is concave, so that an average without θ_n underestimates log p(y) in
expectation; with θ_n among its terms it overestimates it (Foster et al. 2020, theorem 1). With V = E Var(p(y | θ)) /
p(y)², the two are wrong by −V/2N and +V/2N, up to terms of order 1/N²: their midpoint is the estimate.

A function ψ(θ) is put into G groups g of equal probability. I(g; y) ≤ I(ψ; y), as g is a function of ψ, and

    I(g; y) = E log p(y | g) − E log p(y),   p(y | g_n) ≈ mean of exp ℓ[n, m] over draws of the same group,

whose average without θ_n is too small and with θ_n too large, again in expectation: hence the two bounds.

Every draw is used as a truth and as an alternative. The error therefore comes from influence functions, which count
both uses (the infinitesimal jackknife), and not from the scatter of the N terms alone.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp


class Information(NamedTuple):
    """Expected information in nats."""

    lower: float  # expectation of it is a lower bound
    upper: float  # expectation of it is an upper bound
    influence: np.ndarray  # [N] of each draw on the midpoint; centred

    @property
    def estimate(self) -> float:
        return 0.5 * (self.lower + self.upper)

    @property
    def error(self) -> float:
        """Monte Carlo standard error of the midpoint."""
        return standard_error(self.influence)


def expected_information(log_likelihood: np.ndarray, group: np.ndarray | None = None) -> Information:
    """Information about θ, or about the group of ψ(θ) that each draw is in.

    Parameters
    ----------
    log_likelihood
        [N, N]: of the data that draw n made, under the parameters of draw m. What is the same for all m may be missing.
    group
        [N] whole numbers from 0, each of at least two draws.
    """
    log_likelihood = log_likelihood - np.diagonal(log_likelihood)[:, None]  # the same for all m: 0 is then exactly 0
    everyone, whole = _averages(log_likelihood)
    if group is None:
        below, above = -everyone.inclusive, -everyone.exclusive
        influence = 0.5 * (below + above) - whole
    else:
        below, above, inside = (np.empty(len(log_likelihood)) for _ in range(3))
        for number in range(int(group.max()) + 1):
            members = np.flatnonzero(group == number)
            alike, inside[members] = _averages(log_likelihood[np.ix_(members, members)])
            below[members] = alike.exclusive - everyone.inclusive[members]
            above[members] = alike.inclusive - everyone.exclusive[members]
        influence = 0.5 * (below + above) + inside - whole
    return Information(float(below.mean()), float(above.mean()), influence - influence.mean())


def groups_of(values: np.ndarray, count: int) -> np.ndarray:
    """[N] the group of each value: of `count` with equally many draws each, as far as equal values stay together."""
    edges = np.quantile(values, np.arange(1, count) / count)
    group = np.searchsorted(edges, values, side="right")
    size = np.bincount(group, minlength=count)
    for number in np.flatnonzero((size > 0) & (size < 2)):  # one draw alone has nothing to be averaged with
        others = np.flatnonzero(size >= 2)
        nearest = others[np.abs(others - number).argmin()]
        group[group == number] = nearest
    return np.unique(group, return_inverse=True)[1].ravel()


def standard_error(influence: np.ndarray) -> float:
    """Of an average whose terms have these influences [N]."""
    return float(influence.std(ddof=1) / np.sqrt(len(influence)))


def probabilities_best(estimates: np.ndarray, influences: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """How probable it is that each of K estimates is of the largest, given influences [K, N] of the same N draws.

    By the Bayesian bootstrap: draws are reweighted, for all estimates alike, so that what they share cancels.
    """
    weights = rng.dirichlet(np.ones(influences.shape[1]), size=BOOTSTRAP)
    best = (estimates + weights @ influences.T).argmax(axis=1)
    return np.bincount(best, minlength=len(estimates)) / BOOTSTRAP


BOOTSTRAP = 2000  # weights tried: probabilities are then known to about .01


class _Averages(NamedTuple):
    """log of averages over draws [N], with the draw that made the data among them, and without it."""

    inclusive: np.ndarray
    exclusive: np.ndarray


def _averages(log_likelihood: np.ndarray) -> tuple[_Averages, np.ndarray]:
    """Averages of each row, and how much each column adds to their logarithms: mean_n p(y_n | θ_m) / p(y_n) − 1."""
    count = len(log_likelihood)
    inclusive = logsumexp(log_likelihood, axis=1) - np.log(count)
    others = log_likelihood.copy()
    np.fill_diagonal(others, -np.inf)
    exclusive = logsumexp(others, axis=1) - np.log(count - 1)
    ratios = np.exp(log_likelihood - inclusive[:, None])
    return _Averages(inclusive, exclusive), ratios.mean(axis=0) - 1
