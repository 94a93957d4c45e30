"""Two fits by maximum likelihood in, a likelihood-ratio test out: does the larger model explain choices better?

Under the smaller model, 2 (log L̂ − log L̂₀) has a χ² distribution with as many degrees of freedom as the larger model
has parameters more (Wilks), if choices are many, the models are nested, and the smaller one does not lie on the
boundary of the larger.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from manymotives.errors import InputError
from manymotives.models.priors import Prior
from manymotives.models.rewards import LINEAR
from manymotives.posterior.estimates import fitted_maximum

ROUNDING = 1e-6  # in log likelihood: by how much a maximum may be off
SINGULAR = 1e-9  # of the largest singular value: zero
SAME = 1e-12  # transition probabilities that differ by less are the same


@dataclass(frozen=True)
class LikelihoodRatio:
    """A likelihood-ratio test."""

    statistic: float  # twice the difference of log likelihoods
    degrees_of_freedom: int
    p: float
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = f"χ²({self.degrees_of_freedom}) = {self.statistic:.4g}, p = {self.p:.3g}"
        return "\n".join([said, *(f"  ! {warning}" for warning in self.warnings)])


def likelihood_ratio(full: Any, restricted: Any) -> LikelihoodRatio:
    """Test `restricted` against `full`; both are posteriors by `MaximumLikelihood(criterion="likelihood")`."""
    if type(restricted) is not type(full):
        raise InputError(
            f"likelihood_ratio: the restricted model must be a fit of the same kind; found {type(restricted).__name__}."
        )
    larger, smaller = fitted_maximum(full), fitted_maximum(restricted)
    for one in (larger, smaller):
        if one.criterion != "likelihood":
            raise InputError(
                "likelihood_ratio: a mode of the posterior does not maximise the likelihood. Fit both models with "
                'MaximumLikelihood(criterion="likelihood").'
            )
    _check_same_data(full, restricted)
    why = _not_nested(full, restricted)
    more = larger.num_parameters - smaller.num_parameters
    if why is None and more <= 0:
        why = f"it has {smaller.num_parameters} parameters, and the larger one {larger.num_parameters}"
    if why is not None:
        raise InputError(
            f"likelihood_ratio: the restricted model is not a special case of this one: {why}. Call it on the larger "
            "model, with the smaller one as argument; models that are not nested are compared by mm.score or by AIC."
        )
    statistic = 2 * (larger.log_likelihood - smaller.log_likelihood)
    if statistic < -2 * ROUNDING:
        raise InputError(
            "likelihood_ratio: the larger model has a lower log likelihood than its special case, by "
            f"{-statistic / 2:.3g}, so the search for its maximum ended too early. Fit it with more starts."
        )
    statistic = max(statistic, 0.0)
    said = []
    if not (larger.converged and smaller.converged):
        said.append("a search did not converge, so the statistic may be too small or too large.")
    if isinstance(full.model.choice.lapse, Prior) and np.any(np.asarray(_fixed(restricted, "lapse")) == 0):
        said.append(
            "a lapse rate of 0 is the boundary of its range, where p is too large (up to twice for one parameter)."
        )
    return LikelihoodRatio(statistic, more, float(stats.chi2.sf(statistic, more)), tuple(said))


def _check_same_data(full: Any, restricted: Any) -> None:
    """Refuse fits of other choices, or in another environment."""
    one, other = full.environment, restricted.environment
    counts = [each.data["observed_data"].dataset["counts"].values for each in (full, restricted)]
    is_same = (
        all(full.data.attrs[word] == restricted.data.attrs[word] for word in ("tasks", "states", "actions"))
        and np.array_equal(*counts)
        and np.array_equal(one.available, other.available)
        and np.array_equal(one.is_terminal, other.is_terminal)
        and abs(one.matrix - other.matrix).max() <= SAME
    )
    if not is_same:
        raise InputError(
            "likelihood_ratio: the two models were fitted to different choices or environments. Fit both to the same "
            "data."
        )


def _not_nested(full: Any, restricted: Any) -> str | None:
    """Why one model is no special case of the other, as far as can be told; None where nothing speaks against it."""
    if full.model.choice.is_soft != restricted.model.choice.is_soft:
        return "one has Softmax() and the other SoftOptimal()"
    if full.model.depth != restricted.model.depth:
        return "they have different depths"
    if full.model.is_pooled and not restricted.model.is_pooled:
        return "it has parameters for each task, and the larger one the same for all"
    for word in ("inverse_temperature", "lapse", "discount"):
        large, small = _fixed(full, word), _fixed(restricted, word)
        if large is None:
            continue
        if small is None:
            return f"it infers the {word.replace('_', ' ')}, which the larger one takes as known"
        if not np.all(np.asarray(large) == np.asarray(small)):
            return f"they take different values of the {word.replace('_', ' ')} as known"
    return _rewards_not_nested(full, restricted)


def _fixed(posterior: Any, word: str) -> Any:
    """A parameter that is known; None where it is estimated."""
    if word == "discount":
        return None if posterior.model.infers_discount else posterior.environment.discount
    given = posterior.model.inverse_temperature if word == "inverse_temperature" else posterior.model.choice.lapse
    return None if isinstance(given, Prior) else given


def _rewards_not_nested(full: Any, restricted: Any) -> str | None:
    one, other = full.target, restricted.target
    if one.on != other.on:
        return "one has rewards on states and the other on pairs"
    links = one.layout.link, other.layout.link
    if links != (LINEAR, LINEAR):
        is_same = (
            links[0] == links[1] and one.names[: one.layout.num_rewards] == other.names[: other.layout.num_rewards]
        )
        return None if is_same else "their rewards are bounded in different ways"
    large, small = (_spanned(each) for each in (one, other))
    left = small - large @ (large.T @ small)
    if np.linalg.norm(left, axis=0).max(initial=0.0) > SINGULAR**0.5:
        return "its features are not linear combinations of those of the larger one"
    return None


def _spanned(target: Any) -> np.ndarray:
    """Orthonormal columns [cells, n] that span the rewards a model can make."""
    nothing = np.zeros((1, target.num_coordinates))
    features = np.asarray(target.reward_derivatives(nothing, target.rewards(nothing))[0])
    left, singular, _ = np.linalg.svd(features, full_matrices=False)
    return left[:, singular > SINGULAR * singular.max(initial=1e-300)]
