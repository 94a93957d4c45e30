"""Maxima in, covariances of the estimates out: observed or expected information, or the sandwich of cluster scores.

    observed    H⁻¹,  H = −∂² log p at the estimate, by central differences of the exact gradient
    expected    I⁻¹,  I the Fisher information of the choices (with the prior's curvature at a mode of the posterior)
    robust      H⁻¹ (C / (C − 1) Σ s sᵀ) H⁻¹,  s the gradient of the log likelihood of each of C clusters of choices

All of them are computed along the free directions of the chart, and returned in coordinates.
"""

import numpy as np
from jaxtyping import Float, Int

from manymotives.errors import InputError, quoted
from manymotives.inference.laplace import likelihood_shape, prior_shape
from manymotives.inference.maximisation import AT_ONCE, Chart, Maximum, Objective

DIFFERENCE = 1e-3  # standard errors: step of the difference quotient, whose error is about the square of it


def covariances(
    errors: str, objective: Objective, chart: Chart, found: Maximum, is_smooth: np.ndarray
) -> Float[np.ndarray, "M D D"]:
    """Of the estimates, in coordinates; at kinks, which have no curvature, from the expected information."""
    target, curvature, owner = objective.target, found.curvature, np.arange(len(found.u))
    if errors == "expected" or not is_smooth.all():
        information = likelihood_shape(target, found.u, owner)[1]
        if objective.parameters is not None:
            _, prior = prior_shape(target.layout.families, found.u, objective.parameters)
            information = information + prior[:, :, None] * np.eye(prior.shape[1])
        expected = np.einsum("mdf,mde,meg->mfg", chart.basis, information, chart.basis)
        replaced = np.full(len(owner), errors == "expected") | ~is_smooth
        curvature = np.where(replaced[:, None, None], expected, curvature)
    values, vectors = np.linalg.eigh(curvature)
    if values.shape[1] and not (values[:, 0] > 0).all():
        task = target.tasks[int(np.argmin(values[:, 0]))]
        raise InputError(
            f"MaximumLikelihood: at the end of the search for {quoted(task)} the log likelihood is not concave in "
            "every direction, so there are no standard errors. Try more starts, SoftOptimal() instead of "
            'Softmax(), or errors="expected".'
        )
    inverse = np.einsum("mfk,mk,mgk->mfg", vectors, 1 / values, vectors)
    if errors == "robust":
        scores = [_cluster_scores(objective, chart, found, int(task)) for task in owner]
        inverse = np.stack([one @ (s.T @ s * len(s) / (len(s) - 1)) @ one for one, s in zip(inverse, scores)])
    return np.einsum("mdf,mfg,meg->mde", chart.basis, inverse, chart.basis)


def observed_information(
    objective: Objective, chart: Chart, found: Maximum, owner: Int[np.ndarray, " M"]
) -> tuple[Float[np.ndarray, "M F F"], np.ndarray]:
    """Observed information along the chart at the estimates, and whether no best action changes around them."""
    diagonal = np.einsum("mff->mf", found.curvature)
    steps = DIFFERENCE / np.sqrt(np.maximum(diagonal, 1.0))  # at most a thousandth of a unit of log-odds
    made, same = objective.curvature(found.u, owner, chart.basis * steps[:, None, :])
    return made / (steps[:, :, None] * steps[:, None, :]), same


def _cluster_scores(objective: Objective, chart: Chart, found: Maximum, task: int) -> Float[np.ndarray, "C F"]:
    """The gradient of the log likelihood of each cluster of choices of a task, in w."""
    target = objective.target
    clusters = None if target.episodes is None else target.episodes.clusters(task, target.counts.shape[1:])
    if clusters is None or len(clusters) < 2:
        raise InputError(
            'MaximumLikelihood: errors="robust" compares clusters of choices (tasks under Pooled(), episodes '
            f'otherwise), and {quoted(target.tasks[task])} has fewer than two. Use errors="observed".'
        )
    slopes = []
    for begin in range(0, len(clusters), AT_ONCE):
        some = clusters[begin : begin + AT_ONCE]
        rows = np.repeat(found.u[task][None], len(some), axis=0)
        slopes.append(objective.evaluation(rows, some, np.full(len(some), task)).gradient)
    return np.concatenate(slopes) @ chart.basis[task]
