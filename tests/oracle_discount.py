"""Transitions, rewards, discounts and counts of choices in; log policies and the posterior of the discount out.

Plain NumPy and SciPy; nothing of the library is imported. Conventions, for B problems at once:

    Q(s, a) = r(s, a) + γ Σ_t P[s, a, t] V(t)       the reward is that of the present state (or pair)
    Softmax:       V(s) = max_a Q(s, a),                       π = softmax_a(c Q)
    SoftOptimal:   V(s) = (1/c) log Σ_a exp(c Q(s, a)),        π = softmax_a(c Q)      (a sum: no − log A)
    log likelihood = Σ_{s,a} N[s, a] log π(a | s);      γ ~ Beta(a, b);      θ_d ~ Normal(mean_d, scale_d)

A terminal state has no available action; its value is its reward (of its first pair). Values solve their equation to
rounding: by policy iteration with exact evaluation, or by Newton's method, whose iterates are policy iterations too.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import special

EPSILON = np.finfo(float).eps
MAX_ITERATIONS = 200
Array = np.ndarray


def log_policies(
    transitions: Array,  # [S, A, S]
    discounts: Array,  # [B]
    rewards: Array,  # [B, S, A]
    inverse_temperatures: Array,  # [B]
    soft: bool,
    available: Array | None = None,  # [S, A]
) -> Array:
    """log π [B, S, A]; 0 where an action is not available, so that it does not count."""
    scaled = rewards * inverse_temperatures[:, None, None]  # under both rules c Q depends on c r alone
    available = np.ones(transitions.shape[:2], bool) if available is None else available
    action_values = scaled_action_values(transitions, discounts, scaled, soft, available)
    logits = np.where(available.any(axis=1, keepdims=True), action_values, 0.0)
    return np.where(available, logits - special.logsumexp(logits, axis=2, keepdims=True), 0.0)


def scaled_action_values(transitions: Array, discounts: Array, scaled: Array, soft: bool, available: Array) -> Array:
    """c Q [B, S, A] from c r [B, S, A]; −∞ where an action is not available."""
    states = len(transitions)
    is_terminal = np.asarray(~available.any(axis=1))
    end = scaled[:, :, 0]  # the value of a terminal state

    def backup(values: Array) -> Array:
        later = (values @ transitions.reshape(-1, states).T).reshape(scaled.shape)
        return np.where(available, scaled + discounts[:, None, None] * later, -np.inf)

    def best(action_values: Array) -> Array:
        filled = np.where(is_terminal[:, None], end[:, :, None], action_values)
        top = filled.max(axis=2)
        if soft:
            top += np.log(np.exp(filled - top[:, :, None]).sum(axis=2))
        return np.where(is_terminal, end, top)

    values = best(backup(np.zeros_like(end)))
    chosen = np.zeros(end.shape, int)
    for _ in range(MAX_ITERATIONS):
        action_values = backup(values)
        improved = best(action_values)
        if soft:
            policy = np.exp(action_values - improved[:, :, None])
        else:
            margin = 4 * EPSILON * np.abs(improved)  # a tie keeps the action taken
            kept = np.take_along_axis(action_values, chosen[:, :, None], 2)[:, :, 0] >= improved - margin
            chosen = np.where(kept, chosen, np.argmax(action_values, axis=2))
            policy = np.zeros_like(action_values)
            np.put_along_axis(policy, chosen[:, :, None], 1.0, 2)
        policy[:, is_terminal] = 0.0
        chain = (policy.swapaxes(0, 1) @ transitions).swapaxes(0, 1)  # [B, S, S]
        matrix = np.broadcast_to(np.eye(states), chain.shape) - discounts[:, None, None] * chain
        if soft:
            solved = values + np.linalg.solve(matrix, (improved - values)[..., None])[..., 0]
        else:
            of_chosen = np.take_along_axis(scaled, chosen[:, :, None], 2)
            solved = np.linalg.solve(matrix, of_chosen)[..., 0]
        step, values = solved - values, solved
        size = np.maximum(1.0, np.abs(values).max(axis=1))
        if (np.abs(step).max(axis=1) <= 64 * EPSILON * size / (1 - discounts)).all():
            return backup(values)
    raise RuntimeError("the Bellman equation was not solved")


def log_likelihoods(
    transitions: Array,
    discounts: Array,
    rewards: Array,
    inverse_temperatures: Array,
    counts: Array,  # [S, A], or [M, S, A] for M tasks
    soft: bool,
    available: Array | None = None,
) -> Array:
    """Σ N log π: [B], or [B, M]."""
    found = log_policies(transitions, discounts, rewards, inverse_temperatures, soft, available)
    return np.tensordot(found, counts, axes=([1, 2], [-2, -1]))


def discount_gradients(
    transitions: Array,
    discounts: Array,  # [B]
    reward: Array,  # [S, A]
    inverse_temperature: float,
    counts: Array,  # [S, A]
    soft: bool,
    available: Array | None = None,
    step: float = 0.004,  # of the distance to the nearer of 0 and 1
) -> tuple[Array, Array]:
    """d log likelihood / dγ [B] by central differences with three steps (Richardson), and an estimate of the error.

    Under Softmax the log likelihood has kinks, where the optimal policy changes: between two steps of a kink the
    differences disagree, and the error estimate is large.
    """
    width = step * np.minimum(discounts, 1 - discounts)

    def at(shift: float) -> Array:
        moved = discounts + shift * width
        every = np.broadcast_to(reward, (len(moved), *reward.shape))
        temperatures = np.full(len(moved), float(inverse_temperature))
        return log_likelihoods(transitions, moved, every, temperatures, counts, soft, available)

    first = [(at(size) - at(-size)) / (2 * size * width) for size in (1.0, 0.5, 0.25)]
    second = [(4 * fine - coarse) / 3 for coarse, fine in itertools.pairwise(first)]
    best = (16 * second[1] - second[0]) / 15
    return best, np.abs(best - second[1])


@dataclass(frozen=True)
class DiscountPosterior:
    """Posterior of γ, and of the weights where these are unknown."""

    discounts: Array  # [G] nodes
    masses: Array  # [G] posterior probability of each node; they sum to 1
    mean: float
    sd: float
    quantiles: Array  # [Q] of γ
    weight_means: Array  # [D]
    weight_sds: Array  # [D]
    log_evidence: float


def discount_posterior(
    transitions: Array,
    counts: Array,  # [S, A]
    features: Array,  # [S, D] or [S, A, D]
    weight_means: Array,  # [D]
    weight_scales: Array,  # [D]; 0: that weight is known
    beta: tuple[float, float],
    inverse_temperature: float,
    soft: bool,
    available: Array | None = None,
    probabilities: tuple[float, ...] = (0.05, 0.5, 0.95),
    points: int = 401,
    weight_points: int = 41,
) -> DiscountPosterior:
    """γ ~ Beta(beta), θ_d ~ Normal(weight_means_d, weight_scales_d), r = features θ, on a product grid.

    The grid is uniform in logit γ between prior tails of 1e−13 (and below 1 − 1e−7), in θ_d within 7.5 scales;
    weights are equal (trapezoid rule: exact to rounding for smooth densities once the spacing is below a standard
    deviation; under Softmax the error falls with the square of the spacing).
    """
    first, second = beta
    low = special.logit(np.maximum(special.betaincinv(first, second, 1e-13), 1e-12))
    high = -special.logit(np.maximum(special.betaincinv(second, first, 1e-13), 1e-7))
    logits, spacing = np.linspace(low, high, points, retstep=True)
    discounts = special.expit(logits)
    log_prior = first * special.log_expit(logits) + second * special.log_expit(-logits) - special.betaln(first, second)
    log_prior += np.log(spacing)

    axes = [_normal_nodes(mean, scale, weight_points) for mean, scale in zip(weight_means, weight_scales)]
    nodes = np.stack(np.meshgrid(*[axis[0] for axis in axes], indexing="ij"), axis=-1).reshape(-1, len(axes))
    log_masses = np.sum(np.meshgrid(*[axis[1] for axis in axes], indexing="ij"), axis=0).ravel()
    rewards = rewards_of_pairs(nodes, features, transitions.shape[1])
    joint = np.empty((points, len(nodes)))
    for row, discount in enumerate(discounts):
        every, temperatures = np.full(len(nodes), discount), np.full(len(nodes), float(inverse_temperature))
        found = log_likelihoods(transitions, every, rewards, temperatures, counts, soft, available)
        joint[row] = found + log_masses + log_prior[row]
    evidence = special.logsumexp(joint)
    joint = np.exp(joint - evidence)
    masses, of_weights = joint.sum(axis=1), joint.sum(axis=0)
    mean, means = masses @ discounts, of_weights @ nodes
    return DiscountPosterior(
        discounts,
        masses,
        float(mean),
        float(np.sqrt(masses @ (discounts - mean) ** 2)),
        special.expit(lattice_quantiles(logits, masses, np.full(points, spacing), probabilities)),
        means,
        np.sqrt(of_weights @ (nodes - means) ** 2),
        float(evidence),
    )


def _normal_nodes(mean: float, scale: float, points: int) -> tuple[Array, Array]:
    if scale == 0:
        return np.array([mean]), np.zeros(1)
    z = np.linspace(-7.5, 7.5, points)
    return mean + scale * z, -(z**2) / 2 - special.logsumexp(-(z**2) / 2)


def rewards_of_pairs(weights: Array, features: Array, actions: int) -> Array:
    """[B, S, A] from weights [B, D] and features [S, D] or [S, A, D]; that of a state is had whatever is done there."""
    found = np.tensordot(weights, features, axes=([1], [-1]))
    return found if found.ndim == 3 else np.repeat(found[:, :, None], actions, axis=2)


def lattice_quantiles(nodes: Array, masses: Array, spacings: Array, probabilities: tuple[float, ...]) -> Array:
    """Quantiles of a smooth density known on a uniform lattice (or a mixture of such), by bisection.

    The density is its own sinc series, so that its distribution function is
    F(x) = Σ_k mass_k (1/2 + Si(π (x − x_k) / spacing_k) / π).
    """
    wanted = np.asarray(probabilities)
    low, high = np.full(len(wanted), nodes.min()), np.full(len(wanted), nodes.max())
    for _ in range(52):
        middle = (low + high) / 2
        below = (0.5 + special.sici(np.pi * (middle[:, None] - nodes) / spacings)[0] / np.pi) @ masses
        low, high = np.where(below < wanted, middle, low), np.where(below < wanted, high, middle)
    return (low + high) / 2
