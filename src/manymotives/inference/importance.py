"""Importance weights in log space: how many draws they are worth, whether they have collapsed, fair resampling."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from manymotives.errors import InputError, quoted
from manymotives.inference.draws import RunState
from manymotives.models import Target

COLLAPSED = 10.0  # effective draws below which a posterior stands on a handful of proposals
UNRELIABLE = 0.7  # Pareto k̂ above which the weights' tail is too heavy for their mean (Vehtari et al. 2024)
FEWEST = 25  # weights to which a tail can be fitted


def normalised(log_weights: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """Weights that sum to one; every one −∞ is an error of whoever calls."""
    weight = np.exp(log_weights - log_weights.max())
    return weight / weight.sum()


def effective_size(log_weights: Float[np.ndarray, " K"]) -> float:
    """1 / Σ w²: how many equally weighted draws would be as good (Kish)."""
    return float(1.0 / np.square(normalised(log_weights)).sum())


def smoothed(log_weights: Float[np.ndarray, " K"]) -> tuple[Float[np.ndarray, " K"], float]:
    """Pareto-smoothed log weights and their k̂: −∞ where the largest are all alike, ∞ where no tail can be fitted."""
    if not np.isfinite(log_weights).all():
        return log_weights, float("inf")
    if np.ptp(log_weights) < 1e-12:
        return log_weights, float("-inf")
    if len(log_weights) < FEWEST:
        return log_weights, float("inf")
    in_tail = int(3 * len(log_weights) ** 0.5 if len(log_weights) > 225 else len(log_weights) / 5)
    if np.ptp(np.sort(log_weights)[-in_tail:]) < 1e-12:  # bounded, and the bound is reached: nothing to smooth
        return log_weights, float("-inf")
    from arviz_stats.base import array_stats  # takes half a second to import

    with np.errstate(all="ignore"):  # k̂ says what is wrong with weights; NumPy need not
        found, shape = array_stats.psislw(-log_weights)  # it wants log-likelihoods, whose reciprocals are the weights
    # Where the tail's lower quarter cannot be told from 0 beside the largest weight (e⁻⁷⁴⁵), its scale is 0 / 0: the
    # weights are then no numbers, although k̂ is one, and a small one (that of its prior).
    if not (np.isfinite(shape) and np.isfinite(found).all()):
        return log_weights, float("inf")
    return np.asarray(found), float(shape)


def pareto_k(log_weights: Float[np.ndarray, " K"]) -> float:
    """Shape of the Pareto tail of the weights; inf where too few are finite to fit one."""
    finite = log_weights[np.isfinite(log_weights)]
    return float("inf") if len(finite) < FEWEST else smoothed(finite)[1]


def resampled(rng: np.random.Generator, log_weights: Float[np.ndarray, " K"], count: int) -> Int[np.ndarray, " count"]:
    """Indices of equally weighted draws, by systematic resampling, in random order."""
    edges = np.cumsum(normalised(log_weights))
    points = (np.arange(count) + rng.random()) / count
    return rng.permutation(np.minimum(np.searchsorted(edges / edges[-1], points), len(edges) - 1))


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Importance weights [K, G] of joint draws, a column for each population; diagnostics, equally weighted draws."""

    chosen: Int[np.ndarray, "K G"]  # equally weighted
    sizes: Float[np.ndarray, " G"]
    shapes: Float[np.ndarray, " G"]
    log_weight: Float[np.ndarray, "K G"]

    @property
    def statistics(self) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        return {
            "log_weight": (("proposal", "group"), self.log_weight),
            "effective_sample_size": (("group",), self.sizes),
            "pareto_k": (("group",), self.shapes),
        }

    def warnings(self, what: str, remedy: str) -> tuple[str, ...]:
        """What to say of them."""
        draws, worst, heaviest = len(self.log_weight), self.sizes.min(), self.shapes.max()
        if worst < COLLAPSED:
            return (
                f"the weights have collapsed: {draws} {what} are worth {worst:.1f}. Means and intervals rest on a "
                f"handful of draws; do not use them. {remedy}",
            )
        if heaviest > UNRELIABLE:
            return (
                f"the weights have a heavy tail (Pareto k̂ = {heaviest:.2f} > {UNRELIABLE}): {draws} {what} are "
                f"nominally worth {worst:.0f}, which is optimistic. {remedy}",
            )
        return ()


def weighted_draws(rng: np.random.Generator, log_likelihood: Float[np.ndarray, "K M"], target: Target) -> WeightedDraws:
    """Weights of K joint draws from the log-likelihoods of their tasks, a product within each population."""
    log_weight = log_likelihood.reshape(len(log_likelihood), target.num_groups, -1).sum(axis=2)
    hopeless = np.flatnonzero(~np.isfinite(log_weight).any(axis=0))
    if hopeless.size:
        who = target.tasks[int(np.flatnonzero(target.group == hopeless[0])[0])]
        raise InputError(
            f"the choices of {quoted(who)}, alone or together with others, are impossible (log likelihood −∞) "
            "under every draw from the prior. Is the inverse temperature far too large?"
        )
    columns = log_weight.T
    return WeightedDraws(
        chosen=np.stack([resampled(rng, column, len(column)) for column in columns], axis=1),
        sizes=np.array([effective_size(column) for column in columns]),
        shapes=np.array([pareto_k(column) for column in columns]),
        log_weight=log_weight,
    )


def stream_of(state: RunState) -> np.random.Generator:
    """Random numbers of this part of a run: each part has a stream of its own."""
    parts = int(state.arrays.get("runs", 0))
    return np.random.default_rng(np.random.SeedSequence(state.seed, spawn_key=(2, parts)))


def with_earlier(arrays: dict[str, np.ndarray], **proposals: np.ndarray) -> dict[str, np.ndarray]:
    """All proposals of this part of a run behind those of earlier ones, and the number of parts."""
    if arrays:
        proposals = {name: np.concatenate([arrays[name], values]) for name, values in proposals.items()}
    return proposals | {"runs": np.array(int(arrays.get("runs", 0)) + 1)}
