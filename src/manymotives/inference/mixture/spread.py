"""Where tasks are spread around their motive: the partition given their rewards, with motives integrated out.

u_m ~ Normal(θ_z, σ), θ ~ Normal(a, b) in each coordinate: a set of tasks has the evidence (as in Neal 2000, Alg. 3)

    log p(u_A) = Σ_d log ∫ Normal(θ; a, b) Π_m Normal(u_m; θ, σ) dθ

With a wide spread these moves mix, and those given tasks' distances from their motive do not; with a narrow one it is
the other way round, so a sweep has both.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from manymotives.inference.mixture.likelihood import members_of

if TYPE_CHECKING:
    from manymotives.inference.mixture.chain import MixtureChain

SCALES = (0.05, 0.2, 0.8)  # of proposals of log σ; one is chosen at random
REPEATS = 5  # of them in each sweep …
ALONG = 4  # … and of those with which tasks move along
SPLITS = 3  # splits or merges in each sweep
DOUBT = 1e-3  # least probability of either side, where a split assigns a task


class Normal(NamedTuple):
    """Of motives and of tasks around them."""

    mean: np.ndarray  # [R]
    scale: np.ndarray  # [R]
    variance: float  # σ²

    def given(self, total: np.ndarray, size: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and precision of what a motive wants, given so many tasks whose rewards sum to `total`."""
        precision = 1 / self.scale**2 + size / self.variance
        return (self.mean / self.scale**2 + total / self.variance) / precision, precision

    def predictive(self, total: np.ndarray, sizes: np.ndarray, x: np.ndarray) -> np.ndarray:
        """log p of rewards x [R] of one more task, for sets of these sizes [K] and sums of rewards [K, R]."""
        centre, precision = self.given(total, sizes[:, None])
        spread = 1 / precision + self.variance
        return -0.5 * ((x - centre) ** 2 / spread + np.log(2 * np.pi * spread)).sum(axis=1)

    def evidence(self, own: np.ndarray) -> float:
        """log p of rewards [N, R] of tasks of one motive."""
        count, centred = len(own), own - self.mean
        total, squares = centred.sum(axis=0), (centred**2).sum(axis=0)
        ratio = self.scale**2 / self.variance
        found = -0.5 * count * np.log(2 * np.pi * self.variance) - 0.5 * np.log1p(count * ratio)
        found = found - 0.5 / self.variance * (squares - ratio / (1 + count * ratio) * total**2)
        return float(found.sum())


def move_partition(chain: "MixtureChain") -> None:
    """Reassign every task, split or merge, then draw what motives want; tasks' rewards stay."""
    own = chain.motives[chain.label] + chain.away
    given = chain.parameters[: chain.likelihoods.num_rewards]
    normal = Normal(given[:, 0], given[:, 1], float(np.exp(2 * chain.log_spread)))
    _reassign(chain, own, normal)
    for _ in range(SPLITS):
        _split_or_merge(chain, own, normal)
    count = chain.label.max() + 1
    motives = np.empty((count, own.shape[1]))
    for k, members in enumerate(members_of(chain.label, range(count))):
        centre, precision = normal.given(own[members].sum(axis=0), len(members))
        motives[k] = centre + chain.rng.standard_normal(len(centre)) / np.sqrt(precision)
    chain.motives, chain.away = motives, own - motives[chain.label]


def move_spread(chain: "MixtureChain") -> None:
    """σ given tasks' distances from their motives; and with the distances moving along."""
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
    every = np.arange(len(chain.label))
    for _ in range(ALONG):
        now = chain.likelihoods.log_likelihood(chain.tasks, every).sum()
        proposed = chain.log_spread + rng.choice(SCALES) * rng.standard_normal()
        away = chain.away * np.exp(proposed - chain.log_spread)
        u = chain.likelihoods.rows(chain.motives[chain.label], chain.rest, away)
        gain = chain.likelihoods.log_likelihood(u, every).sum() - now
        gain += prior.log_density(proposed) - prior.log_density(chain.log_spread)
        if np.log1p(-rng.random()) < gain:
            chain.log_spread, chain.away = proposed, away


def log_density(chain: "MixtureChain") -> float:
    """log p of σ and of tasks' distances from their motives."""
    assert chain.spread_prior is not None
    z = chain.away / np.exp(chain.log_spread)
    normal = -0.5 * z**2 - chain.log_spread - 0.5 * np.log(2 * np.pi)
    return float(normal.sum() + chain.spread_prior.log_density(chain.log_spread))


def _reassign(chain: "MixtureChain", own: np.ndarray, normal: Normal) -> None:
    """Every task in turn, to a motive in use or to a new one."""
    rng, label, prior = chain.rng, chain.label, chain.prior
    count = label.max() + 1
    sizes = np.bincount(label, minlength=count).astype(float)
    total = np.zeros((count, own.shape[1]))
    np.add.at(total, label, own)
    for m in rng.permutation(len(label)):
        k = label[m]
        sizes[k] -= 1
        total[k] -= own[m]
        if sizes[k] == 0:
            sizes, total = np.delete(sizes, k), np.delete(total, k, axis=0)
            label[label > k] -= 1
        fresh = prior.log_start(len(sizes), chain.alpha) if len(sizes) else 0.0
        logits = np.append(prior.log_join(sizes), fresh)
        logits += normal.predictive(np.vstack([total, np.zeros(own.shape[1])]), np.append(sizes, 0.0), own[m])
        k = int(np.argmax(logits - np.log(-np.log1p(-rng.random(len(logits))))))
        if k == len(sizes):
            sizes, total = np.append(sizes, 0.0), np.vstack([total, np.zeros(own.shape[1])])
        label[m] = k
        sizes[k] += 1
        total[k] += own[m]


def _split_or_merge(chain: "MixtureChain", own: np.ndarray, normal: Normal) -> None:
    """Two tasks at random: their motive split, or their motives merged, others allocated one after the other."""
    rng, label, prior = chain.rng, chain.label, chain.prior
    if len(label) < 2:
        return
    i, j = (int(m) for m in rng.choice(len(label), size=2, replace=False))
    is_split, count = label[i] == label[j], label.max() + 1
    if is_split and not np.isfinite(prior.log_start(count, chain.alpha)):
        return
    union = np.flatnonzero((label == label[i]) | (label == label[j]))
    others = rng.permutation(union[(union != i) & (union != j)])
    sides = np.zeros(len(others), dtype=bool)  # whether with i
    sizes, total, log_chance = np.ones(2), own[[i, j]].copy(), 0.0
    for n, m in enumerate(others):
        logits = prior.log_join(sizes) + normal.predictive(total, sizes, own[m])
        chance = DOUBT + (1 - 2 * DOUBT) / (1.0 + np.exp(np.clip(logits[1] - logits[0], -700, 700)))
        sides[n] = rng.random() < chance if is_split else label[m] == label[i]
        log_chance += np.log(chance if sides[n] else 1 - chance)
        side = 0 if sides[n] else 1
        sizes[side] += 1
        total[side] += own[m]
    one, other = np.append(others[sides], i), np.append(others[~sides], j)
    t = count if is_split else count - 1
    gain = prior.log_in_use(t + 1, chain.alpha) - prior.log_in_use(t, chain.alpha) - log_chance
    for sign, members in ((1, one), (1, other), (-1, union)):
        gain += sign * (prior.log_join_all(len(members)) + normal.evidence(own[members]))
    if not np.log1p(-rng.random()) < (gain if is_split else -gain):
        return
    if is_split:
        label[other] = count
    else:
        first, second = label[i], label[j]
        label[union] = first
        label[label > second] -= 1
