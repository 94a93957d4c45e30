"""Searches that stall where a best action changes in, maxima out: gradient sampling, for the likelihood of `Softmax`.

Values of the best policy are piecewise linear in the reward, so that the log likelihood of `Softmax` is continuous but
has kinks, and its maximum may lie on one: no gradient vanishes there, but some average of the gradients around it does.
Newton's method zigzags across kinks. Gradient sampling (Burke, Lewis and Overton 2005) does not: it steps along the
shortest vector in the convex hull of gradients at random points within ε, which is an ascent direction on both sides;
where that vector vanishes ε is reduced. At the smallest ε the point is a maximum to first order.
"""

import numpy as np
from jaxtyping import Float, Int
from scipy import optimize

from manymotives.inference.maximisation import Chart, Maximum, Objective

RADII = 10.0 ** -np.arange(1, 9)  # ε, in units of log-odds
STEPS = 40  # for each of them, at most
HALVINGS = 40
VANISHED = 1e-4  # of the gradients' own length: a hull that contains a vector as short as this contains 0
LARGEST = 50  # free parameters: beyond it too many gradients would be needed


def settled_at_kinks(objective: Objective, chart: Chart, found: Maximum, owner: Int[np.ndarray, " M"]) -> Maximum:
    """The same, with tasks whose search has not converged taken to the maximum on a kink."""
    u, value, converged = found.u.copy(), found.value.copy(), found.converged.copy()
    if chart.basis.shape[2] > LARGEST:
        return found
    for row in np.flatnonzero(~converged & np.isfinite(value)):
        u[row], value[row], converged[row] = _settled(objective, chart.basis[row], u[row], value[row], int(owner[row]))
    return found._replace(u=u, value=value, converged=converged)


def _settled(
    objective: Objective, basis: Float[np.ndarray, "D F"], u: Float[np.ndarray, " D"], value: float, task: int
) -> tuple[Float[np.ndarray, " D"], float, bool]:
    """Where gradient sampling ends, its value, and whether the hull of gradients contains 0 there."""
    rng, free = np.random.default_rng(0), basis.shape[1]
    has_vanished = False
    for radius in RADII:
        has_vanished = False
        for _ in range(STEPS):
            away = rng.standard_normal((2 * free + 2, free))
            away *= radius * rng.random((len(away), 1)) ** (1 / free) / np.linalg.norm(away, axis=1, keepdims=True)
            away[0] = 0.0
            slopes = objective(u + away @ basis.T, np.full(len(away), task)).gradient @ basis
            shortest = shortest_in_hull(slopes)
            length = np.linalg.norm(shortest)
            has_vanished = length <= VANISHED * np.linalg.norm(slopes, axis=1).max()
            if has_vanished:
                break
            steps = 0.5 ** np.arange(HALVINGS)
            heights = objective(u + (steps[:, None] * shortest / length) @ basis.T, np.full(HALVINGS, task))
            better = np.flatnonzero(heights.log_likelihood > value + 1e-6 * steps * length)
            if len(better) == 0:
                break
            u, value = u + steps[better[0]] * (basis @ shortest) / length, float(heights.log_likelihood[better[0]])
    return u, value, bool(has_vanished)


def shortest_in_hull(vectors: Float[np.ndarray, "N F"]) -> Float[np.ndarray, " F"]:
    """The shortest convex combination of vectors, by non-negative least squares."""
    scale = max(float(np.linalg.norm(vectors, axis=1).max()), 1e-300)
    system = np.vstack([vectors.T / scale, np.full(len(vectors), 1e3)])  # the last row makes shares sum to one
    shares = optimize.nnls(system, np.append(np.zeros(vectors.shape[1]), 1e3))[0]
    return vectors.T @ (shares / max(shares.sum(), 1e-300))
