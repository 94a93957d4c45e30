"""Exact posteriors of tiny problems whose transitions are unknown: by quadrature, and by weighted draws of the prior.

    T(. | s, a) ~ Dirichlet(alpha[s, a]), one T for all tasks      rho_m ~ Dirichlet or N(0, 1) on states
    c_m known, or Gamma                                            p(a | s, m) = softmax_a(c_m Q*_{T, rho_m}(s, a))

Tasks know T; the observer does not, so that the choices of all of them are evidence about it. Given T they are
independent, hence with Z_m(T) = E[p(d_m | T, rho, c)] over the prior of rho and c

    p(T | d) ~ p(T) prod_m Z_m(T),        p(rho_m, c_m | T, d) = p(rho_m, c_m) p(d_m | T, rho_m, c_m) / Z_m(T).

`by_quadrature` (two states, two actions) computes this with optimal values in closed form; `by_sampling` weights joint
draws of everything by the likelihood, and finds optimal values by trying all policies. They share only what describes
a problem (`belief_examples.Example`) and its answer. Plain NumPy and SciPy. Meant for a few dozen choices: quadrature
does not keep likelihoods as logarithms.
"""

import functools
import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special, stats

DECILES = np.arange(1, 10) / 10
BLOCK = 500_000  # numbers in one array of the quadrature
CHUNK = 50_000  # rewards of a task drawn at a time
ROW_ORDERS = {0: 0, 1: 8, 2: 7, 3: 3, 4: 2}  # nodes in a tenth of each uncertain row, by how many there are


@dataclass(frozen=True, eq=False)
class Marginal:
    """One number's posterior. cdf is at points, the deciles of its prior (none for a choice's probability).

    Errors are Monte Carlo standard errors: 0 where there was quadrature. Where a CDF is nearly 0 or 1, that of weighted
    draws is no measure of what they missed.
    """

    mean: float
    sd: float
    points: np.ndarray
    cdf: np.ndarray
    mean_error: float = 0.0
    sd_error: float = 0.0
    cdf_error: np.ndarray | float = 0.0


@dataclass(frozen=True, eq=False)
class Answer:
    """Marginals by name, the log of p(d), and how many independent draws they are worth (infinite for quadrature).

    Names: "reward[m, s]", "transition[s, a, t]" of uncertain moves, "inverse_temperature[m]" where it is unknown, and
    "choice[m, s]", the probability of action 0, which hangs on T, rho and c together.
    """

    marginals: dict[str, Marginal]
    log_evidence: float
    effective_draws: float = math.inf

    def __getitem__(self, name):
        return self.marginals[name]


# ---------------------------------------------------------------------------------------------- quadrature


def by_quadrature(example, treatment="exact", *, finer=0):
    """The posterior of two states and two actions by nested quadrature. Wrong ones on purpose, as controls:

    plug_in: T is the mean of the belief.
    cut: T is integrated out under its prior, as if choices said nothing of it: E_prior(T)[p(rho_m, c_m | T, d_m)].

    finer: nodes more than usual in every tenth of a prior, to see what is left of the error. As it is, all are right
    to 2e-5 with one or two uncertain rows, and to about 1e-3 with four.
    """
    assert example.alpha.shape == (2, 2, 2)
    assert treatment in ("exact", "plug_in", "cut")
    to_first, prior, levels = environments(example, treatment == "plug_in", finer)
    contrast, temperature, latent_prior, latent_levels = latents(example, finer)
    tasks, size = range(len(example.counts)), len(prior)
    environment_weights, evidences = np.zeros(size), np.zeros(size)
    latent_weights = np.zeros((len(tasks), len(contrast)))
    choices = np.zeros((len(tasks), 2, 2))  # [task, state, first or second moment]
    for start in range(0, size, BLOCK // len(contrast) + 1):
        block = slice(start, start + BLOCK // len(contrast) + 1)
        logits = advantages(to_first[:, :, block], example.discount, contrast) * temperature
        chances = special.expit(logits)
        joint = [latent_prior * likelihood(logits, example.counts[m]) for m in tasks]
        given_environment = np.array([values.sum(axis=1) for values in joint])  # Z_m(T)
        evidences[block] = prior[block] * given_environment.prod(axis=0)
        environment_weights[block] = prior[block] if treatment == "cut" else evidences[block]
        for m in tasks:
            weights = (environment_weights[block] / given_environment[m])[:, None] * joint[m]
            latent_weights[m] += weights.sum(axis=0)
            choices[m] += [[(weights * chance**power).sum() for power in (1, 2)] for chance in chances]
    total = environment_weights.sum()
    found = {}
    for m in tasks:
        found |= reward_marginals(example, m, contrast, latent_levels[0], latent_weights[m] / total)
        if math.isfinite(example.temperature_shape):
            found[f"inverse_temperature[{m}]"] = marginal(
                temperature, latent_levels[1], latent_weights[m] / total, example.temperature_prior()
            )
        for s, (first, second) in enumerate(choices[m] / total):
            found[f"choice[{m}, {s}]"] = Marginal(
                first, math.sqrt(max(second - first**2, 0.0)), np.array([]), np.array([])
            )
    for (s, a), level in levels.items():
        towards = marginal(to_first[s, a], level, environment_weights / total, example.move_prior(s, a, 0))
        found |= {f"transition[{s}, {a}, 0]": towards, f"transition[{s}, {a}, 1]": complement(towards)}
    return Answer(found, math.log(evidences.sum()))


def environments(example, plug_in, finer):
    """Nodes of T(0 | s, a) [2, 2, N], their prior masses [N], and prior levels [N] by uncertain row."""
    open_rows = [] if plug_in else [(s, a) for s, a, t in example.uncertain if t == 0]
    rules = [quantile_rule(example.move_prior(s, a, 0), ROW_ORDERS[len(open_rows)] + finer) for s, a in open_rows]
    values, masses, levels = (
        [grid.ravel() for grid in np.meshgrid(*part, indexing="ij")] for part in (zip(*rules) if rules else [[]] * 3)
    )
    size = len(masses[0]) if rules else 1
    to_first = np.repeat(example.mean_environment[:, :, 0, None], size, axis=2)
    for (s, a), nodes in zip(open_rows, values):
        to_first[s, a] = nodes
    return to_first, functools.reduce(np.multiply, masses, np.ones(size)), dict(zip(open_rows, levels))


def latents(example, finer):
    """Nodes of rho(0) - rho(1) and of c, flattened, their prior masses, and prior levels of both."""
    if example.reward_concentration is None:
        prior = stats.norm(scale=math.sqrt(2))
    else:
        prior = stats.beta(*example.reward_concentration, loc=-1, scale=2)
    # optimal values have a kink where both states are worth the same
    contrast, masses, levels = quantile_rule(prior, 7 + finer, breaks=[prior.cdf(0.0)])
    if math.isinf(example.temperature_shape):
        return (
            contrast,
            np.full_like(contrast, example.inverse_temperature),
            masses,
            (levels, np.full_like(levels, 0.5)),
        )
    temperature, temperature_masses, temperature_levels = quantile_rule(example.temperature_prior(), 6 + finer)
    pairs = np.meshgrid(contrast, temperature, indexing="ij")
    level_pairs = np.meshgrid(levels, temperature_levels, indexing="ij")
    flat = [grid.ravel() for grid in (*pairs, np.outer(masses, temperature_masses))]
    return *flat, tuple(grid.ravel() for grid in level_pairs)


def quantile_rule(prior, order, breaks=()):
    """Gauss-Legendre nodes between deciles of the prior and breaks (levels in (0, 1)): nodes, masses, levels.

    Deciles are edges, so that the mass below one is an integral over whole panels. The variable is t with
    level = t^3 (10 - 15 t + 6 t^2), the cdf of Beta(3, 3): flat at both ends, where quantiles are steep.
    """
    edges = special.betaincinv(3, 3, np.union1d(np.arange(11) / 10, breaks))
    nodes, weights = np.polynomial.legendre.leggauss(order)
    width = np.diff(edges)[:, None]
    t = (edges[:-1, None] + width * (nodes + 1) / 2).ravel()
    levels = special.betainc(3, 3, t)
    return prior.ppf(levels), (width * weights / 2).ravel() * 30 * t**2 * (1 - t) ** 2, levels


def advantages(to_first, discount, contrast):
    """Q*(s, 0) - Q*(s, 1) [s][N, J] for T(0 | s, a) [2, 2, N] and rho(0) - rho(1) [J].

    With two states the one with the greater reward has the greater value and every action is judged by how often it
    leads there, so that V(0) - V(1) = (rho(0) - rho(1)) / (1 - discount (p_0 - p_1)) with p_s the best T(0 | s, .).
    """
    towards, away = to_first.max(axis=1), to_first.min(axis=1)
    if_first_better, if_second_better = (1 / (1 - discount * (best[0] - best[1])) for best in (towards, away))
    value_gap = contrast * np.where(contrast > 0, if_first_better[:, None], if_second_better[:, None])
    return np.array([discount * (to_first[s, 0] - to_first[s, 1])[:, None] * value_gap for s in range(2)])


def likelihood(logits, counts):
    """p(d | T, rho, c) [N, J] of counts [2, 2], for logits of action 0 [2, N, J]."""
    return np.exp(
        sum(-counts[s, 0] * np.logaddexp(0, -logits[s]) - counts[s, 1] * np.logaddexp(0, logits[s]) for s in range(2))
    )


def reward_marginals(example, task, contrast, levels, weights):
    """rho(0) and rho(1) from nodes of their difference."""
    if example.reward_concentration is not None:
        first = marginal((1 + contrast) / 2, levels, weights, example.reward_prior(0))
        return {f"reward[{task}, 0]": first, f"reward[{task}, 1]": complement(first)}
    # the sum of two normal rewards is independent of their difference, and no choice hangs on it
    mean, points = float(weights @ contrast), stats.norm.ppf(DECILES)
    sd = math.sqrt(weights @ (contrast - mean) ** 2 / 4 + 1 / 2)
    below = [stats.norm.cdf(points[:, None], sign * contrast / 2, math.sqrt(1 / 2)) @ weights for sign in (1, -1)]
    return {f"reward[{task}, {s}]": Marginal(sign * mean / 2, sd, points, below[s]) for s, sign in enumerate((1, -1))}


def marginal(values, levels, weights, prior):
    """Moments, and mass below each decile of the prior, of nodes with normalised weights."""
    mean = (weights * values).sum()
    cdf = np.array([weights[levels < level].sum() for level in DECILES])
    return Marginal(float(mean), math.sqrt((weights * (values - mean) ** 2).sum()), prior.ppf(DECILES), cdf)


def complement(of):
    """The marginal of 1 - x."""
    return replace(of, mean=1 - of.mean, points=1 - of.points[::-1], cdf=1 - of.cdf[::-1])


# ---------------------------------------------------------------------------------------------- sampling


def by_sampling(example, treatment="exact", *, draws=100_000, inner=10, seed=0):
    """The posterior by self-normalised importance sampling: draws of T, rho and c from the prior, weighted by p(d | .).

    Each draw of T comes with `inner` draws of every task's rho and c: its weight is prod_m Z_m, with Z_m the mean
    likelihood of task m's (unbiased, so that with many draws the answer is exact for any number of inner ones).
    For any number of states and actions with few deterministic policies. treatment: exact, or plug_in.
    """
    assert treatment in ("exact", "plug_in")
    rng = np.random.default_rng(seed)
    sizes = [len(part) for part in np.array_split(np.arange(draws), math.ceil(draws * inner / CHUNK))]
    chunks = [prior_draws(example, size, inner, rng, treatment) for size in sizes]
    log_likelihoods = np.concatenate([log_likelihoods for log_likelihoods, _ in chunks], axis=-1)
    highest = log_likelihoods.max(axis=(1, 2), keepdims=True)
    likelihoods = np.exp(log_likelihoods - highest)  # [M, J, K]
    given_environment = likelihoods.mean(axis=1)
    weights = given_environment.prod(axis=0)
    others = [np.delete(given_environment, m, axis=0).prod(axis=0) for m in range(len(likelihoods))]
    total = weights.sum()
    found = {}
    for name, (_, task, prior) in chunks[0][1].items():
        values = np.concatenate([drawn[name][0] for _, drawn in chunks], axis=-1)
        joint = weights[None] if task is None else others[task] * likelihoods[task] / inner
        found[name] = weighted_marginal(values, joint / total, prior.ppf(DECILES) if prior else np.array([]))
    return Answer(found, math.log(total / draws) + float(highest.sum()), float(total**2 / (weights**2).sum()))


def prior_draws(example, size, inner, rng, treatment):
    """Log likelihoods [M, J, K] of draws from the prior, and by name: draws [J or 1, K], their task, their prior."""
    tasks, states, actions = example.counts.shape
    shape = (tasks, inner, size)
    gammas = rng.standard_gamma(example.alpha[..., None], size=(*example.alpha.shape, size))
    transitions = gammas / gammas.sum(axis=2, keepdims=True)
    if treatment == "plug_in":
        transitions = np.broadcast_to(example.mean_environment[..., None], transitions.shape)
    if example.reward_concentration is None:
        rewards = rng.standard_normal((*shape[:2], states, size))
    else:
        rewards = np.moveaxis(rng.dirichlet(example.reward_concentration, size=shape), 3, 2)
    temperature = np.full(shape, example.inverse_temperature)
    if math.isfinite(example.temperature_shape):
        temperature *= rng.standard_gamma(example.temperature_shape, shape) / example.temperature_shape
    agents = rewards.reshape(-1, states, size)
    values = optimal_values(transitions, example.discount, agents)
    preferences = action_values(transitions, example.discount, agents, values).reshape(
        *shape[:2], states, actions, size
    )
    log_chances = special.log_softmax(temperature[:, :, None, None] * preferences, axis=3)
    drawn = {}
    for m, s in itertools.product(range(tasks), range(states)):
        drawn[f"reward[{m}, {s}]"] = rewards[m, :, s], m, example.reward_prior(s)
        drawn[f"choice[{m}, {s}]"] = np.exp(log_chances[m, :, s, 0]), m, None
    if math.isfinite(example.temperature_shape):
        for m in range(tasks):
            drawn[f"inverse_temperature[{m}]"] = temperature[m], m, example.temperature_prior()
    for s, a, t in example.uncertain if treatment == "exact" else ():
        drawn[f"transition[{s}, {a}, {t}]"] = transitions[s, a, t][None], None, example.move_prior(s, a, t)
    return (example.counts[:, None, :, :, None] * log_chances).sum(axis=(2, 3)), drawn


def action_values(transitions, discount, rewards, values):
    """rho(s) + discount sum_t T(t | s, a) V(t): [M, S, A, K], from T [S, A, S, K], rho and V [M, S, K]."""
    return rewards[:, :, None] + discount * (transitions * values[:, None, None]).sum(axis=3)


def optimal_values(transitions, discount, rewards):
    """V* [M, S, K]: the largest of (I - discount T_pi)^-1 rho_m over deterministic policies, draw by draw."""
    states, actions = transitions.shape[:2]
    best = np.full(rewards.shape, -np.inf)
    for policy in itertools.product(range(actions), repeat=states):
        followed = transitions[range(states), policy]
        values = solved(np.eye(states)[..., None] - discount * followed, rewards.swapaxes(0, 1))
        np.maximum(best, values.swapaxes(0, 1), out=best)
    return best


def solved(matrix, right):
    """x [S, M, K] of matrix [S, S, K] x = right [S, M, K], by elimination: diagonal dominance spares the pivots."""
    matrix, right = matrix.copy(), right.copy()
    size = len(matrix)
    for pivot in range(size):
        for row in range(size):
            if row != pivot:
                factor = matrix[row, pivot] / matrix[pivot, pivot]
                matrix[row] -= factor * matrix[pivot]
                right[row] -= factor * right[pivot]
    return right / matrix[range(size), range(size)][:, None]


def weighted_marginal(values, weights, points):
    """Moments and CDF of values [J, K] with weights [J, K] that sum to one, and standard errors over independent K.

    The weighted mean of f is a ratio of two averages over K, whose error is sqrt(sum_k (sum_j w (f - mean))^2).
    """

    def mean_and_error(of):
        mean = (weights * of).sum()
        return float(mean), math.sqrt(((weights * (of - mean)).sum(axis=0) ** 2).sum())

    mean, mean_error = mean_and_error(values)
    variance, variance_error = mean_and_error((values - mean) ** 2)
    sd = math.sqrt(variance)
    cdf, cdf_error = np.array([mean_and_error(values <= point) for point in points]).reshape(-1, 2).T
    return Marginal(mean, sd, points, cdf, mean_error, variance_error / (2 * sd), cdf_error)
