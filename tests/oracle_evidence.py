"""The evidence of one reward behind a table of choices, by sequential Monte Carlo; NumPy and SciPy only.

    Z = ∫ Normal(w; 0, I) L(w) dw,    L(w) = Π_{(s, a)} π_w(a|s)^counts[s, a],    π_w(a|s) = softmax_a( c Q_w(s, a) ),
    Q_w(s, a) = r(s) + γ Σ_s' P(s'|s, a) V_w(s'),    V_w(s) = max_a Q_w(s, a),    r = features @ w.

`log_likelihood` is log L, by value iteration for many w at once. With δ = V_{n+1} − V_n, the optimal values lie
between V_{n+1} + γ/(1 − γ) min δ and V_{n+1} + γ/(1 − γ) max δ (MacQueen). Once these two are close, V_{n+1} is near
the optimum but for a constant, on which π does not depend.

`evidence` goes from the prior to the posterior through p_k(w) ∝ Normal(w; 0, I) L(w)^t_k, 0 = t_0 < t_1 < … < t_n = 1:

    Z ≈ Π_k  mean over the particles of p_{k−1} of  L(w)^(t_k − t_{k−1}),

which is unbiased if the temperatures and the moves are fixed beforehand. After each step, ancestors are drawn by weight
(systematic resampling), and each makes a chain of moves that leave p_k as it is. All states of the chains, the first
one too, are the particles of p_k (Dau and Chopin, 2022, "Waste-free sequential Monte Carlo"; still unbiased).

Moves go by a mixture of Gaussians, q_k = Σ_j a_kj g_kj, g_kj = Normal(m_kj, F_kj F_kj'). Two kinds take turns:

    far    w* ~ q_k,                               accepted with min(1, p_k(w*) q_k(w) / p_k(w) q_k(w*));
    near   w* = m + √(1 − β²) (w − m) + β F ξ,     accepted with min(1, p_k(w*) g(w) / p_k(w) g(w*)),

where ξ ~ Normal(0, I), and g = Normal(m, F F') is one g_kj, drawn with a_kj whatever w is: preconditioned
Crank-Nicolson, which is reversible with respect to g. `prepare` chooses t_k, q_k and β_k in a pilot run of its own
random numbers. A bad choice makes the estimate vary more; it does not make it biased.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

BLOCK = 256  # weights planned at once: the tables stay in the cache


class World(NamedTuple):
    """The decision problem, and how strongly choices follow its values."""

    transitions: np.ndarray  # [S, A, S]
    discount: float
    features: np.ndarray  # [S, K]
    strength: float  # c


class Mixture(NamedTuple):
    """Of J Gaussians."""

    shares: np.ndarray  # [J] sum to 1
    centres: np.ndarray  # [J, K]
    factors: np.ndarray  # [J, K, K] lower triangular


class Stage(NamedTuple):
    """What is fixed beforehand for one tempered posterior."""

    temperature: float  # t_k
    mixture: Mixture  # q_k
    step: float  # β_k


class Particles(NamedTuple):
    """Weights with their log-likelihood at temperature 1."""

    weights: np.ndarray  # [N, K]
    fits: np.ndarray  # [N]


def log_likelihood(world: World, weights: np.ndarray, counts: np.ndarray, tolerance: float = 1e-9) -> np.ndarray:
    """[N] log L of weights [N, K]; differences of Q between actions are within `tolerance`."""
    states, actions, _ = world.transitions.shape
    seen = np.flatnonzero(counts.sum(axis=1))
    ahead = world.transitions.transpose(1, 0, 2).reshape(actions * states, states)  # rows: action, then state
    operator = sparse.csr_array(ahead) if np.mean(ahead != 0) < 0.1 else ahead
    onward = world.transitions[seen].transpose(1, 0, 2)  # [A, seen, S]
    fits = np.empty(len(weights))
    for start in range(0, len(weights), BLOCK):
        rewards = world.features @ weights[start : start + BLOCK].T  # [S, N]
        values = _optimal_values(operator, world.discount, rewards, tolerance)
        logits = world.strength * world.discount * (onward @ values)  # r(s) is the same for all actions
        best = logits.max(axis=0)
        normaliser = best + np.log(np.exp(logits - best).sum(axis=0))
        fits[start : start + BLOCK] = np.einsum("asn,sa->n", logits - normaliser, counts[seen])
    return fits


def _optimal_values(
    operator: np.ndarray | sparse.csr_array,  # [A S, S]
    discount: float,
    rewards: np.ndarray,  # [S, N]
    tolerance: float,
    every: int = 8,  # iterations between looks at the bounds
    limit: int = 100_000,
) -> np.ndarray:
    """[S, N] optimal values but for a constant for each reward."""
    shape = (-1, *rewards.shape)
    values = rewards
    for iteration in range(limit):
        after = rewards + discount * (operator @ values).reshape(shape).max(axis=0)
        if iteration % every == 0 and np.ptp(after - values, axis=0).max() * discount / (1 - discount) < tolerance:
            return after
        values = after
    raise RuntimeError("Value iteration did not converge.")


def evidence(
    world: World,
    counts: np.ndarray,
    rng: np.random.Generator,
    particles: int = 20480,
    moves: int = 16,
    stages: list[Stage] | None = None,
    tolerance: float = 1e-6,
) -> tuple[float, np.ndarray]:
    """The log of an unbiased estimate of Z, and the posterior mean of w [K] of the same run.

    `particles` for each stage, in chains of `moves` states. `stages`: from `prepare`, if several runs are to share
    them; else prepared here, with a third of the particles. `tolerance`: of the values, as in `log_likelihood`.
    """
    early, late = rng.spawn(2)
    if stages is None:
        stages = prepare(world, counts, early, particles // 3, moves, tolerance=tolerance)
    cloud = _prior(world, counts, late, particles, tolerance)
    total, temperature = 0.0, 0.0
    for stage in stages:
        gains = (stage.temperature - temperature) * cloud.fits
        total += logsumexp(gains) - np.log(len(gains))
        ancestors = _resample(cloud, gains, len(gains) // moves, late)
        cloud, _ = _chains(world, counts, ancestors, stage, moves, late, tolerance)
        temperature = stage.temperature
    return float(total), cloud.weights.mean(axis=0)


def prepare(
    world: World,
    counts: np.ndarray,
    rng: np.random.Generator,
    particles: int = 8192,
    moves: int = 16,
    components: int = 4,
    effective: float = 0.5,
    accepted: float = 0.3,
    tolerance: float = 1e-6,
) -> list[Stage]:
    """The stages, by a pilot run.

    Temperatures such that reweighting leaves this `effective` share of the particles; mixtures fitted to the particles;
    steps such that about so many near moves are `accepted`.
    """
    cloud = _prior(world, counts, rng, particles, tolerance)
    stages: list[Stage] = []
    temperature, step = 0.0, 0.7
    while temperature < 1:
        after = _next_temperature(cloud.fits, temperature, effective)
        gains = (after - temperature) * cloud.fits
        first = Stage(after, _fit(cloud.weights, np.exp(gains - gains.max()), components, rng), step)
        ancestors = _resample(cloud, gains, particles // moves, rng)
        cloud, rate = _chains(world, counts, ancestors, first, moves, rng, tolerance)
        step = float(np.clip(step * np.exp(1.5 * (rate - accepted)), 0.05, 1.0))
        stages.append(Stage(after, _fit(cloud.weights, np.ones(len(cloud.fits)), components, rng), step))
        temperature = after
    return stages


def _prior(world: World, counts: np.ndarray, rng: np.random.Generator, particles: int, tolerance: float) -> Particles:
    weights = rng.normal(size=(particles, world.features.shape[1]))
    return Particles(weights, log_likelihood(world, weights, counts, tolerance))


def _next_temperature(fits: np.ndarray, temperature: float, effective: float) -> float:
    """The one that leaves this share of the particles effective, by bisection; at most 1."""
    low, high = 0.0, 1 - temperature
    if _effective_share(high * fits) >= effective:
        return 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _effective_share(middle * fits) > effective else (low, middle)
    return temperature + low


def _effective_share(gains: np.ndarray) -> float:
    return float(np.exp(2 * logsumexp(gains) - logsumexp(2 * gains)) / len(gains))


def _fit(
    weights: np.ndarray,  # [N, K]
    masses: np.ndarray,  # [N]
    components: int,
    rng: np.random.Generator,
    iterations: int = 15,
    width: float = 1.1,
) -> Mixture:
    """A mixture for particles of these masses, by expectation maximisation; in the end so much wider.

    Each covariance is drawn to that of all particles, as if by 2 K particles of it, lest it becomes singular.
    """
    number, size = weights.shape
    masses = masses / masses.sum()
    centre = masses @ weights
    whole = (masses[:, None] * (weights - centre)).T @ (weights - centre) + 1e-6 * np.eye(size)
    centres = weights[rng.choice(number, size=components, p=masses)]
    mixture = Mixture(np.full(components, 1 / components), centres, np.stack([np.linalg.cholesky(whole)] * components))
    floor = 2 * size * np.sum(masses**2)  # as a share of all mass
    for _ in range(iterations):
        parts = _log_parts(mixture, weights)
        each = masses[:, None] * np.exp(parts - logsumexp(parts, axis=1, keepdims=True))  # [N, J]
        total = each.sum(axis=0) + 1e-12
        centres = (each.T @ weights) / total[:, None]
        factors = []
        for j, middle in enumerate(centres):
            spread = (each[:, j, None] * (weights - middle)).T @ (weights - middle)
            factors.append(np.linalg.cholesky((spread + floor * whole) / (total[j] + floor)))
        mixture = Mixture((total + 0.01) / (total + 0.01).sum(), centres, np.stack(factors))
    return mixture._replace(factors=width * mixture.factors)


def _log_parts(mixture: Mixture, weights: np.ndarray) -> np.ndarray:
    """[N, J] log a_j g_j(w), but for a constant that all share."""
    parts = []
    for share, centre, factor in zip(*mixture):
        standard = (weights - centre) @ np.linalg.inv(factor).T
        parts.append(np.log(share) - np.log(np.diag(factor)).sum() - (standard**2).sum(axis=1) / 2)
    return np.stack(parts, axis=1)


def _resample(cloud: Particles, gains: np.ndarray, number: int, rng: np.random.Generator) -> Particles:
    """So many ancestors, in proportion to exp(gains); systematic."""
    heights = np.cumsum(np.exp(gains - gains.max()))
    places = (np.arange(number) + rng.uniform()) / number * heights[-1]
    chosen = np.minimum(np.searchsorted(heights, places, side="right"), len(gains) - 1)
    return Particles(cloud.weights[chosen], cloud.fits[chosen])


def _chains(
    world: World,
    counts: np.ndarray,
    cloud: Particles,
    stage: Stage,
    length: int,
    rng: np.random.Generator,
    tolerance: float,
) -> tuple[Particles, float]:
    """All states of the chains, each of this length, from `cloud`; and the share of near moves accepted."""
    weights, fits = cloud
    states, rates = [cloud], []
    for move in range(1, length):
        far = move % 2 == 1
        proposed, gain = _far(weights, stage, rng) if far else _near(weights, stage, rng)
        proposed_fits = log_likelihood(world, proposed, counts, tolerance)
        gain += stage.temperature * (proposed_fits - fits)
        gain += ((weights**2).sum(axis=1) - (proposed**2).sum(axis=1)) / 2  # the prior
        accept = rng.exponential(size=len(gain)) > -gain
        weights = np.where(accept[:, None], proposed, weights)
        fits = np.where(accept, proposed_fits, fits)
        states.append(Particles(weights, fits))
        if not far:
            rates.append(accept.mean())
    every = Particles(np.concatenate([each.weights for each in states]), np.concatenate([each.fits for each in states]))
    return every, float(np.mean(rates))


def _far(weights: np.ndarray, stage: Stage, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Proposals [N, K] of the mixture, and log q(w) − log q(w*) [N]."""
    _, proposed = _components(stage.mixture, weights, 1.0, rng)
    ahead, back = (logsumexp(_log_parts(stage.mixture, each), axis=1) for each in (proposed, weights))
    return proposed, back - ahead


def _near(weights: np.ndarray, stage: Stage, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Proposals [N, K] about one Gaussian each, and log g(w) − log g(w*) [N]."""
    chosen, proposed = _components(stage.mixture, weights, stage.step, rng)
    rows = np.arange(len(weights))
    ahead, back = (_log_parts(stage.mixture, each)[rows, chosen] for each in (proposed, weights))
    return proposed, back - ahead


def _components(
    mixture: Mixture, weights: np.ndarray, step: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian for each particle, by share [N], and a Crank-Nicolson step about it [N, K]; a step of 1 is a draw."""
    chosen = rng.choice(len(mixture.shares), size=len(weights), p=mixture.shares)
    noise = np.einsum("nkl,nl->nk", mixture.factors[chosen], rng.normal(size=weights.shape))
    centres = mixture.centres[chosen]
    return chosen, centres + np.sqrt(1 - step**2) * (weights - centres) + step * noise
