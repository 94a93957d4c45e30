"""Tasks that share motives: counts of choices in, the posterior over all partitions of at most 6 tasks out.

Plain NumPy and SciPy; nothing of the library is imported. A partition is a restricted growth string: the first task has
block 0, each other one a block of a task before it or the next new block. For M tasks in t blocks of sizes n_i:

    Known(K, a):        K! / (K − t)! · Γ(K a) / Γ(M + K a) · Π Γ(n_i + a) / Γ(a)           weights ~ Dirichlet(a, …, a)
    Restaurant(α):      α^t Γ(α) / Γ(α + M) · Π Γ(n_i)                                       Chinese restaurant process
    Finite(mean, a):    Σ_K p(K) · (that of Known(K, a)),   K − 1 ~ Poisson(mean − 1)        mixture of finite mixtures

    reward = features · w,   w ~ Normal(mean, scale) for each motive, tasks of one motive have its w
    with spread:   w_m ~ Normal(μ, σ),   μ ~ Normal(mean, scale) for each motive,   one σ for all

Choices are as in `oracle_discount`: Q(s, a) = r(s, a) + γ Σ_t P[s, a, t] V(t), π = softmax(c Q), V the best or the soft
value. Greedy values are found by enumeration of policies. Their kinks lie on rays from w = 0, where the optimal policy
changes, because Q* of k r is k Q* of r: quadrature is by Gauss–Legendre rules in polar coordinates between these rays.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

Array = np.ndarray
FAR = 9.0  # standard deviations: a normal density has 2e-19 of its mass beyond
NODES = 24  # of each Gauss–Legendre panel


# ---- priors of partitions --------------------------------------------------------------------------------------


def partitions(tasks: int) -> Array:
    """[Bell(M), M] all restricted growth strings, in the order of a dictionary."""
    strings = [(0,)]
    for _ in range(tasks - 1):
        strings = [(*string, block) for string in strings for block in range(max(string) + 2)]
    return np.array(strings)


@dataclass(frozen=True)
class Known:
    """K motives, some of which may have no task."""

    number: int
    concentration: float = 1.0

    def log_probability(self, sizes: Sequence[int]) -> float:
        """Of a partition whose blocks have these sizes."""
        return float(_finite_mixture(self.number, self.concentration, sizes))


@dataclass(frozen=True)
class Restaurant:
    """A Chinese restaurant process; `concentration`: a number, or shape and rate of its Gamma prior."""

    concentration: float | tuple[float, float]

    def log_probability(self, sizes: Sequence[int]) -> float:
        if isinstance(self.concentration, tuple):
            shape, rate = self.concentration
            at = np.linspace(-60.0 / shape, np.log(60.0 + 20.0 * shape) - np.log(rate), 8001)  # log α
            prior = special.xlogy(shape, rate) - special.gammaln(shape) + shape * at - rate * np.exp(at)
            # the trapezoidal rule in log α: the integrand is analytic and vanishes at both ends
            return float(special.logsumexp(prior + _restaurant(at, sizes)) + np.log(at[1] - at[0]))
        return float(_restaurant(np.log(self.concentration), sizes))


@dataclass(frozen=True)
class Finite:
    """A mixture of finite mixtures (Miller & Harrison 2018): K − 1 ~ Poisson(mean − 1)."""

    mean: float
    concentration: float = 1.0

    def log_probability(self, sizes: Sequence[int]) -> float:
        number = np.arange(1, 400)
        log_number = special.xlogy(number - 1, self.mean - 1) - (self.mean - 1) - special.gammaln(number)
        return float(special.logsumexp(log_number + _finite_mixture(number, self.concentration, sizes)))


Prior = Known | Restaurant | Finite


def log_priors(prior: Prior, tasks: int) -> Array:
    """[Bell(M)] log probability of each partition."""
    sizes = [tuple(np.bincount(string)) for string in partitions(tasks)]
    found = {each: prior.log_probability(each) for each in set(sizes)}
    return np.array([found[each] for each in sizes])


def new_motive_probabilities(prior: Prior, tasks: int) -> Array:
    """[Bell(M)] the probability that another task begins a block of its own, given the partition of the others."""
    sizes = [tuple(np.bincount(string)) for string in partitions(tasks)]
    return np.array([np.exp(prior.log_probability((*each, 1)) - prior.log_probability(each)) for each in sizes])


def _restaurant(log_concentration: Array | float, sizes: Sequence[int]) -> Array:
    alpha = np.exp(log_concentration)
    rising = sum(np.log(alpha + n) for n in range(1, sum(sizes)))  # Γ(α + M) / (α Γ(α)): no cancellation at small α
    return (len(sizes) - 1) * log_concentration - rising + special.gammaln(sizes).sum()


def _finite_mixture(number: Array | int, concentration: float, sizes: Sequence[int]) -> Array:
    number, tasks = np.asarray(number), sum(sizes)
    ordered = sum(np.log(np.maximum(number - n, 1)) for n in range(len(sizes)))  # log K! / (K − t)!
    total = special.gammaln(number * concentration) - special.gammaln(tasks + number * concentration)
    blocks = sum(special.gammaln(n + concentration) - special.gammaln(concentration) for n in sizes)
    return np.where(number >= len(sizes), ordered + total + blocks, -np.inf)


# ---- choices ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Problem:
    """What tasks act in, what they may want, and what they did."""

    transitions: Array  # [S, A, S]
    discount: float
    features: Array  # [S, D] or [S, A, D]
    counts: Array  # [M, S, A]
    inverse_temperature: float
    is_soft: bool = False
    mean: float = 0.0  # of the normal prior of each weight
    scale: float = 1.0

    @cached_property
    def pair_features(self) -> Array:
        """[S, A, D]"""
        if self.features.ndim == 3:
            return self.features
        return np.repeat(self.features[:, None], self.transitions.shape[1], axis=1)

    @cached_property
    def policy_values(self) -> Array:
        """[A^S, S, D] values of each deterministic policy, for one unit of each weight."""
        states, actions, _ = self.transitions.shape
        here = np.arange(states)
        chosen = [np.array(policy) for policy in itertools.product(range(actions), repeat=states)]
        return np.stack(
            [
                np.linalg.solve(
                    np.eye(states) - self.discount * self.transitions[here, policy], self.pair_features[here, policy]
                )
                for policy in chosen
            ]
        )

    def log_likelihoods(self, weights: Array) -> Array:
        """[G, M] of each task's choices, under each of these weights [G, D]."""
        reward = np.einsum("gd,sad->gsa", weights, self.pair_features)
        if self.is_soft:
            values = self._soft_values(reward)
        else:
            values = np.einsum("psd,gd->gps", self.policy_values, weights).max(axis=1)
        logits = self.inverse_temperature * self._backed_up(reward, values)
        return np.einsum("gsa,msa->gm", special.log_softmax(logits, axis=2), self.counts)

    def _backed_up(self, reward: Array, values: Array) -> Array:
        return reward + self.discount * np.einsum("sat,gt->gsa", self.transitions, values)

    def _soft_values(self, reward: Array) -> Array:
        """[G, S] by Newton's method, each of whose steps evaluates a policy."""
        values = reward.max(axis=2) / (1 - self.discount)
        for _ in range(100):
            logits = self.inverse_temperature * self._backed_up(reward, values)
            best = special.logsumexp(logits, axis=2) / self.inverse_temperature
            chain = np.einsum("gsa,sat->gst", special.softmax(logits, axis=2), self.transitions)
            step = np.linalg.solve(np.eye(reward.shape[1]) - self.discount * chain, (best - values)[..., None])[..., 0]
            values = values + step
            if np.abs(step).max() <= 1e-13 * max(1.0, np.abs(values).max()):
                return values
        raise RuntimeError("the soft Bellman equation was not solved")


# ---- quadrature ------------------------------------------------------------------------------------------------


def panels(edges: Array, nodes: int = NODES) -> tuple[Array, Array]:
    """Nodes and weights of Gauss–Legendre rules between neighbouring edges, one after the other."""
    point, weight = np.polynomial.legendre.leggauss(nodes)
    low, width = edges[:-1, None], np.diff(edges)[:, None]
    return (low + width * (point + 1) / 2).ravel(), (width * weight / 2).ravel()


def weight_nodes(problem: Problem, nodes: int = NODES) -> tuple[Array, Array]:
    """Weights [G, D] and log of their quadrature weight times prior density [G], for one or two features."""
    dimensions = problem.pair_features.shape[2]
    far = abs(problem.mean) * np.sqrt(dimensions) + FAR * problem.scale
    radius, length = panels(np.linspace(0.0, far, 19), nodes)
    if dimensions == 1:
        weights, area = np.concatenate([-radius, radius])[:, None], np.tile(length, 2)
    else:
        assert dimensions == 2, "quadrature is for one or two features"
        angle, width = panels(_edges_of_angles(problem), nodes)
        weights = np.stack([np.outer(radius, np.cos(angle)).ravel(), np.outer(radius, np.sin(angle)).ravel()], axis=1)
        area = np.outer(length * radius, width).ravel()
    return weights, np.log(area) + log_normal(weights, problem.mean, problem.scale).sum(axis=1)


def _edges_of_angles(problem: Problem) -> Array:
    """Edges of panels round the circle: every angle at which a greedy value has a kink, and some more.

    Soft values have no kinks, but bend as quickly as c and the radius are large where greedy ones have them.
    """
    regular = np.linspace(-np.pi, np.pi, 25 if problem.is_soft else 9)
    crossing = [-np.pi]
    for first, second in itertools.combinations(problem.policy_values, 2):
        for difference in first - second:  # [D] of one state: two policies are as good where w is normal to it
            if np.abs(difference).max() > 1e-12:
                angle = np.arctan2(difference[0], -difference[1])
                crossing += [angle, angle - np.pi if angle > 0 else angle + np.pi]
    found = np.unique(crossing)
    direction = np.stack([np.cos(found), np.sin(found)], axis=1)
    turned = np.stack([-direction[:, 1], direction[:, 0]], axis=1)
    value, rate = (np.einsum("psd,gd->gsp", problem.policy_values, along) for along in (direction, turned))
    # a kink: two policies are best in some state, and their values there change at different rates with the angle
    tied = value >= value.max(axis=2, keepdims=True) - 1e-11
    change = np.where(tied, rate, -np.inf).max(axis=2) - np.where(tied, rate, np.inf).min(axis=2)
    edges = np.unique(np.concatenate([regular, found[(change > 1e-9).any(axis=1)]]))
    return edges[np.concatenate([[True], np.diff(edges) > 1e-12])]


def log_normal(at: Array, mean: Array | float, scale: Array | float) -> Array:
    return -0.5 * ((at - mean) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
