"""Where tasks are spread around their motive: the partition given their rewards, with motives integrated out.

u_m ~ Normal(θ_z, σ), θ ~ Normal(a, b) in each coordinate: a set of tasks has the evidence (as in Neal 2000, Alg. 3)

    log p(u_A) = Σ_d log ∫ Normal(θ; a, b) Π_m Normal(u_m; θ, σ) dθ

With a wide spread these moves mix, and those given tasks' distances from their motive do not; with a narrow one it is
the other way round, so a sweep has both, and those of `integrated`.
"""

from typing import TYPE_CHECKING

import numpy as np

from manymotives.inference.mixture.gibbs import reassign, split_or_merge
from manymotives.models.mixture import first_seen

if TYPE_CHECKING:
    from manymotives.inference.mixture.chain import MixtureChain

SCALES = (0.05, 0.2, 0.8)  # of proposals of log σ; one is chosen at random
REPEATS = 5  # of them in each sweep
SPLITS = 5  # or merges, in each sweep


def move_partition(chain: "MixtureChain") -> None:
    """Every task, to a motive in use or to a new one; splits and merges; then what motives want.

    Tasks' rewards stay.
    """
    rng, label, count = chain.rng, chain.label, len(chain.label)
    own = chain.motives[label] + chain.away
    given = chain.parameters[: own.shape[1]]
    known = (
        given[:, 1] ** 2, np.exp(2.0 * chain.log_spread), chain.prior.log_joins(), chain.prior.log_starts(chain.alpha)
    )  # fmt: skip
    centred = own - given[:, 0]
    reassign(centred, rng.permutation(count), rng.random(count), *known, label)
    for _ in range(SPLITS if count > 1 else 0):
        i, j, *_ = order = rng.permutation(count)
        split_or_merge(centred, i, j, order, rng.random(count), np.log1p(-rng.random()), *known, label)
    label[:] = first_seen(label)
    sizes = np.bincount(label)[:, None]
    precision = given[:, 1] ** -2.0 + sizes * np.exp(-2.0 * chain.log_spread)
    total = np.zeros((len(sizes), own.shape[1]))
    np.add.at(total, label, own)
    centre = (given[:, 0] * given[:, 1] ** -2.0 + total * np.exp(-2.0 * chain.log_spread)) / precision
    chain.motives = centre + rng.standard_normal(centre.shape) / np.sqrt(precision)
    chain.away = own - chain.motives[label]


def move_spread(chain: "MixtureChain") -> None:
    """σ given tasks' distances from their motives."""
    rng, prior = chain.rng, chain.spread_prior
    assert prior is not None
    if prior.is_known:
        return
    for _ in range(REPEATS):
        before = chain.log_spread
        current = log_density(chain)
        chain.log_spread = before + rng.choice(SCALES) * rng.standard_normal()
        if not np.log1p(-rng.random()) < log_density(chain) - current:
            chain.log_spread = before


def log_density(chain: "MixtureChain") -> float:
    """log p of σ and of tasks' distances from their motives."""
    assert chain.spread_prior is not None
    z = chain.away / np.exp(chain.log_spread)
    normal = -0.5 * z**2 - chain.log_spread - 0.5 * np.log(2 * np.pi)
    return float(normal.sum() + chain.spread_prior.log_density(chain.log_spread))
