"""Leapfrog trajectories of many rows at once, each accepted for itself; their step size."""

from collections.abc import Callable

import numpy as np

from manymotives.families import NORMAL
from manymotives.inference.laplace import prior_shape

LONGEST = 10  # leapfrog steps of a trajectory, at most
WANTED = 0.8  # acceptance rate
FIRST_STEP = 0.5


class StepSizes:
    """Of both kinds of trajectories; adapted in warm-up by stochastic approximation, averaged over its second half."""

    def __init__(self) -> None:
        self.values = np.full(2, FIRST_STEP)
        self.is_adapting = False
        self.count = np.zeros(2)
        self.recent = float("nan")

    def note(self, kind: int, accepted: float) -> None:
        self.recent = accepted if np.isnan(self.recent) else 0.95 * self.recent + 0.05 * accepted
        if self.is_adapting:
            self.count[kind] += 1
            rate = 1.0 / (5.0 + self.count[kind]) ** 0.6
            self.values[kind] = np.clip(self.values[kind] * np.exp(rate * 2.0 * (accepted - WANTED)), 1e-4, 1.5)


def prior_slope(kinds: np.ndarray, u: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """Of each coordinate's log density."""
    if np.all(kinds == NORMAL):
        return (parameters[..., 0] - u) / parameters[..., 1] ** 2
    return prior_shape(kinds, u, parameters)[0]


def trajectory(
    rng: np.random.Generator,
    start: np.ndarray,
    factors: np.ndarray,
    step_size: float,
    density: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    steps: int | None = None,
    known: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Rows [N, D] after a trajectory of each, which of them were accepted [N], and the mean acceptance probability.

    `density`: log densities [N] and gradients [N, D] of rows; `factors` F [N, D, D] or [D, D]: momenta are those of y,
    x = F y.
    `steps`: how many; None: at random.
    `known`: what `density` says of the start, if that is known.
    """
    momentum = rng.standard_normal(start.shape)
    value, gradient = known or density(start)
    energy = value - 0.5 * (momentum**2).sum(axis=1)
    steps = steps or 1 + int(rng.integers(LONGEST))
    size = step_size * np.exp(0.2 * rng.standard_normal())
    x, transposed = start.copy(), factors.swapaxes(-1, -2)
    with np.errstate(all="ignore"):
        momentum = momentum + 0.5 * size * (transposed @ gradient[..., None])[..., 0]
        for n in range(steps):
            x = x + size * (factors @ momentum[..., None])[..., 0]
            x = np.where(np.isfinite(x), x, start)
            value, gradient = density(x)
            gradient = np.where(np.isfinite(gradient), gradient, 0.0)
            momentum = momentum + (1.0 if n < steps - 1 else 0.5) * size * (transposed @ gradient[..., None])[..., 0]
        change = value - 0.5 * (momentum**2).sum(axis=1) - energy
    chance = np.exp(np.minimum(0.0, np.where(np.isnan(change), -np.inf, change)))
    accepted = rng.random(len(x)) < chance
    return np.where(accepted[:, None], x, start), accepted, float(chance.mean())
