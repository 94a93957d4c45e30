"""Rewards that are alike in neighbouring states: a Gaussian Markov random field over an environment's graph.

    L = D − W                                    Laplacian of the graph with weights W
    ρ ~ Normal(0, Q⁻¹),  Q ∝ (κ² + L)²,  κ = √8 / range            (Lindgren, Rue & Lindström 2011)

In the eigenvectors φ_k of L, with eigenvalues λ_k, this is a product over coordinates, as every prior here:

    ρ = Φ w,   w_k ~ Normal(μ_k, b_k),   b_k = scale · √S · r_k / √(Σ_j r_j²),   r_k = 1 / (1 + range² λ_k / 8)

so that the variance of a reward, averaged over states, is scale². Two states `range` steps apart on a grid have a
correlation of about 0.1.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from jaxtyping import Float
from scipy import special
from scipy.sparse.csgraph import connected_components

from manymotives.data.alignment import aligned
from manymotives.data.environment import Environment
from manymotives.errors import InputError, quoted
from manymotives.io.records import Recorded
from manymotives.models.priors import Gamma, HalfNormal, LogNormal, Normal, Prior, check_parameter
from manymotives.models.rewards import LINEAR
from manymotives.models.smooth_scales import smooth_scales

ALL_STATES = 1_500  # up to so many states all eigenvectors are used; they take seconds
FEWER = 400  # eigenvectors beyond that, the smoothest
NONE = 1e-10  # an eigenvalue below this, relative to the largest possible one, is 0


class Eigenvectors(NamedTuple):
    """The smoothest eigenvectors of a graph's Laplacian."""

    values: Float[np.ndarray, " K"]  # ascending
    vectors: Float[np.ndarray, "S K"]


@dataclass(frozen=True, eq=False)
class SmoothReward(Recorded):
    """Rewards on states that are similar in neighbouring states, to a degree that is inferred.

    Choices depend on the product of reward and inverse temperature only, so a model takes the inverse temperature as
    known. The default is 1: rewards are then in units of log-odds.

    Parameters
    ----------
    scale
        Standard deviation of rewards, averaged over states; if tasks share a population, that of a task's deviation
        from it. A number or a prior.
    range
        The distance over which rewards are correlated, in steps from state to state: rewards of states that far apart
        have a correlation of about 0.1. A number or a prior. The default, Gamma(shape=3, rate=0.5), is between 1.6 and
        12.6 steps with 90 % probability: with a shorter range states would be independent, as in `GaussianReward()`;
        with a longer one all rewards would be similar in most environments. If an environment is hundreds of states
        across, give a longer one.
    mean
        If None, the mean is 0 under `Pooled()` and `Separate()`; under `Hierarchical()` it is the reward of the
        population, which is inferred: a smooth reward of its own, with scale 1 and the median of `range`. With 0, the
        mean is 0 under `Hierarchical()` too.
    basis
        The number of eigenvectors of the graph that are used, the smoothest first. If None, all in environments of up
        to 1,500 states, and 400 in larger ones.
    graph
        Which states are neighbours: a symmetric array [S, S] of weights, dense or sparse. If None, two states are
        neighbours, with weight 1, if some action leads from one to the other with positive probability.
    """

    scale: Any = HalfNormal(scale=1.0)
    range: Any = Gamma(shape=3.0, rate=0.5)
    mean: Any = None
    basis: Any = None
    graph: Any = None

    on: ClassVar[str] = "state"
    link: ClassVar[int] = LINEAR
    words: ClassVar[tuple[str, ...]] = ("mean", "scale")
    default_inverse_temperature: ClassVar[Any] = 1.0

    def __post_init__(self) -> None:
        for word in ("scale", "range"):
            given = getattr(self, word)
            check_parameter(given, f"SmoothReward: {word}", "positive")
            if any(np.ndim(number) > 0 for number in (given.parameters if isinstance(given, Prior) else (given,))):
                raise InputError(
                    f"SmoothReward: {word} must be a single number or prior for all states; found {quoted(given)}."
                )
        if self.mean is not None and not (isinstance(self.mean, int | float) and self.mean == 0):
            raise InputError(
                "SmoothReward: mean must be None (the population's mean reward is inferred) or 0; found "
                f"{quoted(self.mean)}."
            )
        if self.basis is not None and (isinstance(self.basis, bool) or not isinstance(self.basis, int | np.integer)):
            raise InputError(f"SmoothReward: basis must be a whole number or None; found {quoted(self.basis)}.")
        if self.basis is not None and self.basis < 1:
            raise InputError(f"SmoothReward: basis must be at least 1; found {self.basis}.")

    def component(self, found: Eigenvectors, is_hierarchical: bool) -> Prior:
        """Prior of the weights; where scale or range are inferred, `SmoothScales` has their scales."""
        mean: Any = 0.0
        if self.mean is None and is_hierarchical:
            mean = Normal(mean=0.0, scale=self._scales(found, 1.0, _median(self.range)))
        scale = 1.0 if self.hyperpriors else self._scales(found, self.scale, self.range)
        return Normal(mean=mean, scale=scale)

    def _scales(self, found: Eigenvectors, scale: Any, distance: Any) -> np.ndarray:
        return smooth_scales(found.values, len(found.vectors), np.array([float(scale)]), np.array([float(distance)]))[0]

    @property
    def hyperpriors(self) -> dict[str, Prior]:
        """What is inferred of scale and range."""
        both = {"reward_scale": self.scale, "reward_range": self.range}
        return {name: prior for name, prior in both.items() if isinstance(prior, Prior)}

    def eigenvectors(self, environment: Environment) -> Eigenvectors:
        """Of the Laplacian of the environment's graph, or of the one that is given."""
        size = environment.num_states
        if self.basis is not None and self.basis > size:
            raise InputError(f"SmoothReward: basis is {self.basis}, but there are only {size} states.")
        graph = self.neighbours(environment)
        if graph.nnz == 0:
            raise InputError(
                "SmoothReward: no state has a neighbour, so rewards cannot be smooth. Use GaussianReward()."
            )
        count = self.basis or (size if size <= ALL_STATES else FEWER)
        degree = np.asarray(graph.sum(axis=1)).ravel()
        laplacian = sp.diags_array(degree) - graph
        if size <= ALL_STATES or count > size // 2:
            values, vectors = np.linalg.eigh(laplacian.toarray())
        else:  # the smallest, by inverses of L + a little, which has an inverse
            start = np.random.default_rng(0).standard_normal(size)
            values, vectors = spl.eigsh(
                laplacian.tocsc(), k=count, sigma=-1e-3 * degree.mean(), which="LM", v0=start, tol=1e-12
            )
        order = np.argsort(values, kind="stable")[:count]
        values, vectors = values[order], vectors[:, order]
        values = np.where(values < NONE * 2 * degree.max(), 0.0, values)
        large = np.abs(vectors) > 0.5 * np.abs(vectors).max(axis=0)  # the first large entry is positive
        signs = np.sign(vectors[large.argmax(axis=0), np.arange(count)])
        return Eigenvectors(values, np.ascontiguousarray(vectors * signs))

    def features_for(self, environment: Environment) -> sp.csr_array | None:
        """The eigenvectors [S, K] where they are fewer than states; None: every reward is free."""
        found = self.eigenvectors(environment).vectors
        return None if found.shape[1] == len(found) else sp.csr_array(found)

    def neighbours(self, environment: Environment) -> sp.csr_array:
        """Weights [S, S] of the graph, without loops from a state to itself."""
        graph = _reached(environment) if self.graph is None else self._given(environment)
        graph = sp.csr_array(graph - sp.diags_array(graph.diagonal()))
        graph.eliminate_zeros()
        return graph

    def _given(self, environment: Environment) -> sp.csr_array:
        graph, size, states = self.graph, environment.num_states, environment.states
        try:
            if not sp.issparse(graph):
                graph = np.asarray(aligned(graph, "SmoothReward: graph", state=states, neighbour=states), dtype=float)
            if graph.shape != (size, size):
                raise InputError(
                    f"SmoothReward: graph must have a row and a column for each of {size} states; found the shape "
                    f"{list(graph.shape)}."
                )
            found = sp.csr_array(graph, dtype=float)
        except (TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError("SmoothReward: graph must be numbers, in an array [S, S], dense or sparse.") from None
        found.sum_duplicates()
        if not np.isfinite(found.data).all() or (found.data < 0).any():
            raise InputError("SmoothReward: the weights of a graph must be finite, and not negative.")
        uneven = sp.coo_array(abs(found - found.T) > 1e-9 * max(found.data.max(initial=0.0), 1e-300))
        if uneven.nnz:
            one, other = (states[index[0]] for index in uneven.coords)
            raise InputError(
                f"SmoothReward: graph must be symmetric; the weight from {quoted(one)} to {quoted(other)} differs "
                "from the reverse one. To link neighbours in either direction, use graph + graph.T."
            )
        return sp.csr_array((found + found.T) / 2)

    def warnings_in(self, environment: Environment) -> tuple[str, ...]:
        """What to know about the graph."""
        graph = self.neighbours(environment)
        size = environment.num_states
        parts, of = connected_components(graph, directed=False)
        if parts > 1:
            sizes = np.bincount(of)
            alone = int((sizes == 1).sum())
            return (
                f"SmoothReward: the graph of states has {parts} parts without a link between them"
                f"{f' ({alone} of a single state)' if alone else ''}: before the data, rewards in one say nothing "
                "about another. `graph` can link them.",
            )
        if size > 3 and graph.nnz == size * (size - 1):
            return (
                "SmoothReward: every state is a neighbour of every other, so no states are closer than others. "
                "Use `graph` to say which are neighbours.",
            )
        return ()


def _reached(environment: Environment) -> sp.csr_array:
    """1 between states where some action leads from one to the other."""
    size, actions = environment.num_states, environment.num_actions
    rows = sp.coo_array(environment.matrix)
    pair, after = rows.coords
    leads = (rows.data > 0) & environment.available.ravel()[pair]
    one, other = pair[leads] // actions, after[leads]
    both = (np.concatenate([one, other]), np.concatenate([other, one]))
    graph = sp.csr_array((np.ones(len(both[0])), both), shape=(size, size))
    graph.sum_duplicates()
    graph.data[:] = 1.0
    return graph


def _median(given: Any) -> float:
    """Of a prior, or the number."""
    if isinstance(given, Gamma):
        return float(special.gammaincinv(given.shape, 0.5) / given.rate)
    if isinstance(given, HalfNormal):
        return float(given.scale * special.ndtri(0.75))
    return float(np.exp(given.mean)) if isinstance(given, LogNormal) else float(given)
