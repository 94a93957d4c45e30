"""Exact posteriors of tiny hierarchical inverse-reinforcement-learning models, by brute force on grids.

Two states, two actions, M tasks, rewards on states. Plain NumPy and SciPy; every Gamma is by shape and RATE.

All hierarchical models here have the same two-sided structure. Task m has two latents (x_m, y_m) with

    p(x, y | u, v) = A[u, x] C[v, y],     u, v the two groups of hyperparameters, shared by the tasks,
    Z_m[u, v] = p(d_m | u, v) = (A @ L_m @ C.T)[u, v],      L_m[x, y] = p(d_m | x, y),
    p(u, v | d) ~ p(u) p(v) prod_m Z_m[u, v],
    p(x_m, y_m | d) ~ L_m[x, y] (A.T @ W_m @ C)[x, y],      W_m[u, v] = p(u) p(v) prod_{n != m} Z_n[u, v].

Grids are uniform after a change of variables, with equal (trapezoid) weights: the ends carry no mass. Latents
with long tails use x = centre + scale * sinh(t), so that one grid holds both the body and the far tails.
"""

import itertools

import numpy as np
from scipy import special, stats

BLOCK_ROWS = 512


# ---------------------------------------------------------------------------------------------- planning


def optimal_values(transitions, discount, rewards):
    """V*(s) of rewards[2, ...]: the largest of (I - discount P_pi)^-1 rho over the 4 deterministic policies."""
    best = None
    for policy in itertools.product(range(2), repeat=2):
        chain = np.array([transitions[s, policy[s]] for s in range(2)])
        values = np.tensordot(np.linalg.inv(np.eye(2) - discount * chain), rewards, axes=1)
        best = values if best is None else np.maximum(best, values)
    return best


def soft_scaled_values(transitions, discount, rewards, inverse_temperature):
    """U = c V of the soft Bellman equation, U(s) = log sum_b exp(c rho(s) + discount P[s, b] U), by Newton's steps.

    The derivative of the right side is discount P_pi with pi the soft policy, so that each step adds
    (I - discount P_pi)^-1 (right side - U); it is written out for the 2 x 2 case.
    """
    scaled_rewards = rewards * inverse_temperature
    values = optimal_values(transitions, discount, scaled_rewards)
    for _ in range(200):
        logits = scaled_rewards[:, None] + discount * np.tensordot(transitions, values, axes=1)
        target = np.logaddexp(logits[:, 0], logits[:, 1])
        residual = target - values
        if np.all(np.abs(residual) <= 1e-12 * (1.0 + np.abs(values))):
            return values
        policy = np.exp(logits - target[:, None])
        chain = np.einsum("sa...,sat->st...", policy, transitions)
        (a, b), (c, d) = np.eye(2).reshape((2, 2) + (1,) * residual[0].ndim) - discount * chain
        step = np.array([d * residual[0] - b * residual[1], a * residual[1] - c * residual[0]])
        values = values + step / (a * d - b * c)
    raise RuntimeError("the soft Bellman equation did not converge")


def choice_log_probabilities(transitions, discount, rewards, inverse_temperature, rule):
    """log p(a | s), shape [2, 2, ...], for rewards[2, ...] and inverse temperatures that broadcast against [...].

    softmax:       softmax_a(c Q*(s, a));     soft_optimal: softmax_a(c Q(s, a)) with Q the soft values.
    The reward rho(s) is the same for both actions, so that only discount * c * P V matters in either.
    """
    if rule == "softmax":
        values = optimal_values(transitions, discount, rewards)
        differences = np.tensordot(transitions[:, 0] - transitions[:, 1], values, axes=1)
        advantage = discount * inverse_temperature * differences
    elif rule == "soft_optimal":
        values = soft_scaled_values(transitions, discount, rewards, inverse_temperature)
        advantage = discount * np.tensordot(transitions[:, 0] - transitions[:, 1], values, axes=1)
    else:
        raise ValueError(f"unknown rule {rule!r}")
    return np.stack([-np.logaddexp(0.0, -advantage), -np.logaddexp(0.0, advantage)], axis=1)


# ---------------------------------------------------------------------------------------------- grids


def sinh_grid(low, high, centre, scale, points):
    """Nodes centre + scale * sinh(t), t uniform, from low to high, with one node at the centre, and log dx weights."""
    lower, upper = np.arcsinh((low - centre) / scale), np.arcsinh((high - centre) / scale)
    spacing = (upper - lower) / (points - 1)
    t = (np.arange(points) - np.round(-lower / spacing)) * spacing
    return centre + scale * np.sinh(t), np.log(scale * spacing) + np.log(np.cosh(t))


def log_gamma_grid(shape, rate, points, tail):
    """Uniform grid of x = log g between the tail quantiles of g ~ Gamma(shape, rate), and log prior masses."""
    low, high = stats.gamma.ppf(tail, shape) / rate, stats.gamma.isf(tail, shape) / rate
    x = np.linspace(np.log(low), np.log(high), points)
    log_density = shape * np.log(rate) - special.gammaln(shape) + shape * x - rate * np.exp(x)
    return x, log_density + np.log(x[1] - x[0])


def product_grid(first, second):
    """All pairs of two (nodes, log masses) grids, flattened: nodes of the first, of the second, summed log masses."""
    (x, log_x), (y, log_y) = first, second
    nodes_x, nodes_y = np.meshgrid(x, y, indexing="ij")
    return nodes_x.ravel(), nodes_y.ravel(), np.add.outer(log_x, log_y).ravel()


def logit_grid(smallest_parameter, points, reach):
    """Grid of x = logit r wide enough for Beta parameters down to smallest_parameter: tails fall as exp(-a |x|).

    Returns log r, log(1 - r), and log dx weights. There is a node at r = 1/2, where Q* of (r, 1 - r) has its kink.
    """
    edge = reach / smallest_parameter
    x, log_weights = sinh_grid(-edge, edge, 0.0, 1.0, points)
    return -np.logaddexp(0.0, -x), -np.logaddexp(0.0, x), log_weights


def beta_masses(first, second, log_r, log_one_minus_r, log_weights):
    """Masses [parameters, r] of Beta(first, second), with density r^a (1 - r)^b / B(a, b) with respect to logit r."""
    first, second = np.atleast_1d(first)[:, None], np.atleast_1d(second)[:, None]
    exponent = first * log_r + second * log_one_minus_r - special.betaln(first, second)
    return np.exp(exponent + log_weights)


def log_temperature_grid(log_shape, log_rate, centre, points, reach):
    """Grid of x = log c wide enough for Gamma(g1, g2) at every g1 and g2 of the given grids.

    The left tail falls as exp(g1 x), slowly for small g1; the right tail as exp(-g2 e^x).
    """
    largest = np.exp(log_shape.max())
    high = np.log(largest + 2 * np.sqrt(largest * reach) + 2 * reach) - log_rate.min()
    low = log_shape.min() - log_rate.max() - reach / np.exp(log_shape.min())
    return sinh_grid(low, high, centre, 1.0, points)


def gamma_masses(log_shape, log_rate, log_c, log_weights):
    """Masses [hyperparameters, c] of Gamma(g1, g2), with density (g2 c)^g1 exp(-g2 c) / Gamma(g1) in log c."""
    shape = np.exp(log_shape)[:, None]
    scaled = log_c + log_rate[:, None]
    return np.exp(shape * scaled - np.exp(scaled) - special.gammaln(shape) + log_weights)


def normal_masses(mean, scale, nodes):
    """Masses [hyperparameters, x] of Normal(mean, scale) on hat functions of the nodes: w_j = E[hat_j(x)].

    Exact for functions linear between nodes, also where the scale is far below the spacing. With
    I(x) = integral of the cdf = (x - mean) Phi(z) + scale phi(z), w_j is the change of the slope of I at node j.
    """
    z = (nodes - mean[:, None]) / scale[:, None]
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    integral = scale[:, None] * (z * special.ndtr(z) + density)
    slopes = np.diff(integral, axis=1) / np.diff(nodes)
    return np.maximum(np.diff(slopes, axis=1, prepend=0.0, append=1.0), 0.0)


# ---------------------------------------------------------------------------------------------- integration


def mean_and_variance(values, weights):
    """Mean and variance of values under unnormalised weights."""
    weights = weights / weights.sum()
    mean = weights @ values
    return float(mean), float(weights @ (values - mean) ** 2)


def two_sided_posterior(left, left_log_prior, right, right_log_prior, log_likelihoods):
    """Posterior of the two-sided model in the module's docstring, block by block over the left hyperparameters.

    left: A[u, x]; right: C[v, y]; log_likelihoods: [M][x, y]. Returns the log evidence, the weights of u, of v,
    and [M][x, y] of the latents (unnormalised). `shift` is the running maximum of the log weights.
    """
    offsets = [values.max() for values in log_likelihoods]
    likelihoods = [np.exp(values - offset) for values, offset in zip(log_likelihoods, offsets)]
    projected = [left @ likelihood for likelihood in likelihoods]
    left_weights, right_weights = np.zeros(len(left)), np.zeros(len(right))
    mixed = np.zeros((len(likelihoods), left.shape[1], right.shape[1]))
    shift = -np.inf
    for start in range(0, len(left), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        with np.errstate(divide="ignore"):
            log_terms = [np.log(product[rows] @ right.T) for product in projected]
        log_prior = left_log_prior[rows, None] + right_log_prior
        log_joint = log_prior + sum(log_terms)
        others = [log_prior + sum(log_terms[:m] + log_terms[m + 1 :]) for m in range(len(log_terms))]
        new_shift = max(shift, log_joint.max(), *(values.max() for values in others))
        for total in (left_weights, right_weights, mixed):
            total *= np.exp(shift - new_shift)
        shift = new_shift
        weights = np.exp(log_joint - shift)
        left_weights[rows] = weights.sum(axis=1)
        right_weights += weights.sum(axis=0)
        for m, values in enumerate(others):
            mixed[m] += left[rows].T @ (np.exp(values - shift) @ right)
    log_evidence = np.log(left_weights.sum()) + shift + sum(offsets)
    return float(log_evidence), left_weights, right_weights, mixed * np.array(likelihoods)


def log_likelihoods_of(counts, log_probabilities):
    """[M, ...] of sum_{s, a} counts[m, s, a] log p(a | s)."""
    return np.tensordot(np.asarray(counts, dtype=float), log_probabilities, axes=2)


# ---------------------------------------------------------------------------------------------- models


def dirichlet_side(shape, rate, points, tail, reach):
    """Grids of (log alpha_0, log alpha_1) and of rewards (r, 1 - r): nodes, log prior, rewards, A[alphas, r]."""
    alpha_grid = log_gamma_grid(shape, rate, points[0], tail)
    *log_alphas, log_prior = product_grid(alpha_grid, alpha_grid)
    log_r, log_one_minus_r, log_weights = logit_grid(np.exp(alpha_grid[0][0]), points[1], reach)
    masses = beta_masses(*np.exp(log_alphas), log_r, log_one_minus_r, log_weights)
    return log_alphas, log_prior, np.exp([log_r, log_one_minus_r]), masses


def temperature_side(g1_prior, g2_prior, points, tail, reach):
    """Grids of (log g1, log g2) and of log c: nodes, log prior, log c, C[(g1, g2), c]."""
    g1_grid, g2_grid = (log_gamma_grid(*prior, points[1], tail) for prior in (g1_prior, g2_prior))
    *log_gammas, log_prior = product_grid(g1_grid, g2_grid)
    centre = np.log(g1_prior[0] / g1_prior[1]) - np.log(g2_prior[0] / g2_prior[1])
    log_c, log_weights = log_temperature_grid(g1_grid[0], g2_grid[0], centre, points[0], reach)
    return log_gammas, log_prior, log_c, gamma_masses(*log_gammas, log_c, log_weights)


def posterior(
    transitions,
    discount,
    counts,
    *,
    alpha_shape,
    alpha_rate,
    g1_shape,
    g1_rate,
    g2_shape,
    g2_rate,
    rule="softmax",
    points=(70, 851, 421, 60),
    tail=1e-12,
    reach=40.0,
):
    """Dirichlet rewards and Gamma inverse temperatures with shared, unknown hyperparameters.

    alpha_k ~ Gamma(alpha_shape, alpha_rate), g1 ~ Gamma(g1_shape, g1_rate), g2 ~ Gamma(g2_shape, g2_rate);
    (r_m, 1 - r_m) ~ Dirichlet(alpha_0, alpha_1), c_m ~ Gamma(g1, g2). points: of each log alpha, of logit r, of
    log c, and of each of log g1 and log g2. tail: prior mass cut from either end of a hyperparameter.
    reach: exponent exp(-reach) to which the tails of r and c are followed. Returns {name: (mean, variance)},
    and "log_evidence".

    Small g1 gives log c a tail of order |x|^-(g1_shape + 1): its variance is finite only for g1_shape > 2, and a
    sampler's estimate of that variance has a finite error only for g1_shape > 4.
    """
    transitions = np.asarray(transitions, dtype=float)
    log_alphas, alpha_log_prior, rewards, left = dirichlet_side(alpha_shape, alpha_rate, points[:2], tail, reach)
    log_gammas, gamma_log_prior, log_c, right = temperature_side(
        (g1_shape, g1_rate), (g2_shape, g2_rate), points[2:], tail, reach
    )
    log_probabilities = choice_log_probabilities(transitions, discount, rewards[:, :, None], np.exp(log_c), rule)
    log_evidence, left_weights, right_weights, joints = two_sided_posterior(
        left, alpha_log_prior, right, gamma_log_prior, log_likelihoods_of(counts, log_probabilities)
    )
    result = {"log_evidence": log_evidence}
    for m, joint in enumerate(joints):
        result[f"reward[{m}]"] = mean_and_variance(rewards[0], joint.sum(axis=1))
        result[f"log_inverse_temperature[{m}]"] = mean_and_variance(log_c, joint.sum(axis=0))
    for k in range(2):
        result[f"log_concentration[{k}]"] = mean_and_variance(log_alphas[k], left_weights)
    result["log_inverse_temperature_shape"] = mean_and_variance(log_gammas[0], right_weights)
    result["log_inverse_temperature_rate"] = mean_and_variance(log_gammas[1], right_weights)
    return result


def posterior_beta(
    transitions, discount, counts, *, a, b, inverse_temperature, rule="softmax", points=1001, reach=40.0
):
    """Separate tasks with rho_m(s) ~ Beta(a[s], b[s]) and a known inverse temperature (one, or one per task).

    Returns {"reward[m, s]": (mean, variance)} and "log_evidence", the sum over tasks.
    """
    transitions, counts = np.asarray(transitions, dtype=float), np.asarray(counts, dtype=float)
    log_r, log_one_minus_r, log_weights = logit_grid(min(*a, *b), points, reach)
    masses = beta_masses(np.asarray(a, float), np.asarray(b, float), log_r, log_one_minus_r, log_weights)
    nodes = np.exp(log_r)
    rewards = np.array(np.meshgrid(nodes, nodes, indexing="ij"))
    result = {"log_evidence": 0.0}
    for m, temperature in enumerate(np.broadcast_to(inverse_temperature, len(counts))):
        log_probabilities = choice_log_probabilities(transitions, discount, rewards, temperature, rule)
        log_likelihood = log_likelihoods_of(counts[m : m + 1], log_probabilities)[0]
        joint = masses[0][:, None] * np.exp(log_likelihood - log_likelihood.max()) * masses[1]
        result[f"reward[{m}, 0]"] = mean_and_variance(nodes, joint.sum(axis=1))
        result[f"reward[{m}, 1]"] = mean_and_variance(nodes, joint.sum(axis=0))
        result["log_evidence"] += float(np.log(joint.sum()) + log_likelihood.max())
    return result


def normal_side(m0, s0, t0, points, tail, reach):
    """Grids of (mu, log sigma) and of one state's reward: nodes of both, log prior, reward nodes, masses[hyper, x]."""
    mu = np.linspace(m0 - reach * s0, m0 + reach * s0, points[0])
    mu_log_prior = stats.norm.logpdf(mu, m0, s0) + np.log(mu[1] - mu[0])
    low, high = stats.halfnorm.ppf(tail, scale=t0), stats.halfnorm.isf(tail, scale=t0)
    log_sigma = np.linspace(np.log(low), np.log(high), points[1])
    log_density = stats.halfnorm.logpdf(np.exp(log_sigma), scale=t0) + log_sigma
    sigma_log_prior = log_density + np.log(log_sigma[1] - log_sigma[0])
    means, log_scales, log_prior = product_grid((mu, mu_log_prior), (log_sigma, sigma_log_prior))
    edge = reach * (s0 + high)
    nodes, _ = sinh_grid(m0 - edge, m0 + edge, m0, np.hypot(s0, t0), points[2])
    return means, log_scales, log_prior, nodes, normal_masses(means, np.exp(log_scales), nodes)


def posterior_gaussian(
    transitions,
    discount,
    counts,
    *,
    m0,
    s0,
    t0,
    inverse_temperature,
    rule="softmax",
    points=(65, 72, 401),
    tail=1e-8,
    reach=6.5,
):
    """Gaussian rewards: rho_m(s) ~ Normal(mu_s, sigma_s), mu_s ~ Normal(m0, s0), sigma_s ~ HalfNormal(t0).

    The inverse temperature is known (one, or one per task). points: of each mu, of each log sigma, of each reward.
    tail: prior mass cut from either end of sigma; reach: half-width, in standard deviations, of the normals.
    """
    transitions, counts = np.asarray(transitions, dtype=float), np.asarray(counts, dtype=float)
    means, log_scales, log_prior, nodes, masses = normal_side(m0, s0, t0, points, tail, reach)
    rewards = np.array(np.meshgrid(nodes, nodes, indexing="ij"))
    log_likelihoods = []
    for m, temperature in enumerate(np.broadcast_to(inverse_temperature, len(counts))):
        log_probabilities = choice_log_probabilities(transitions, discount, rewards, temperature, rule)
        log_likelihoods.append(log_likelihoods_of(counts[m : m + 1], log_probabilities)[0])
    log_evidence, *hyper_weights, joints = two_sided_posterior(masses, log_prior, masses, log_prior, log_likelihoods)
    result = {"log_evidence": log_evidence}
    for m, joint in enumerate(joints):
        for s in range(2):
            result[f"reward[{m}, {s}]"] = mean_and_variance(nodes, joint.sum(axis=1 - s))
    for s, weights in enumerate(hyper_weights):
        result[f"mean[{s}]"] = mean_and_variance(means, weights)
        result[f"log_scale[{s}]"] = mean_and_variance(log_scales, weights)
    return result
