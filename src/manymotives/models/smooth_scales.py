"""Scales of eigenvectors where rewards are smooth over a graph, as functions of `scale` and `range`, compiled.

r_k = 1 / (1 + range² λ_k / 8),    b_k = scale · √S · r_k / √(Σ_j r_j²)
∂ log b_k / ∂ range = Σ_j r_j² t_j / Σ_j r_j² − t_k,    t_k = r_k · range · λ_k / 4
"""

import math
from typing import NamedTuple

import numpy as np

from manymotives.by_reference import by_reference
from manymotives.jit import compiled, inner


@by_reference
class SmoothScales(NamedTuple):
    """Where the second parameter of the first K coordinates comes from; K = 0 where each has its own."""

    eigenvalues: np.ndarray  # [K] λ
    num_states: int  # S
    scale_index: int  # among the hyperparameters; −1: known
    known_scale: float
    range_index: int
    known_range: float

    @property
    def exist(self) -> bool:
        """Whether there are any; compiled loops ask `len(eigenvalues) > 0`."""
        return len(self.eigenvalues) > 0

    def given(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scale and range [...] among hyperparameters [..., H]."""
        known = self.known_scale, self.known_range
        scale, distance = (
            np.full(values.shape[:-1], number) if index < 0 else values[..., index]
            for index, number in zip((self.scale_index, self.range_index), known)
        )
        return scale, distance

    def scales(self, values: np.ndarray) -> np.ndarray:
        """b [..., K] under hyperparameters [..., H]."""
        scale, distance = self.given(values)
        return smooth_scales(self.eigenvalues, self.num_states, scale.ravel(), distance.ravel()).reshape(
            *scale.shape, len(self.eigenvalues)
        )

    def log_slopes(self, values: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """∂ log b [K] / ∂ scale and / ∂ range under hyperparameters [H], those that are inferred, with their index."""
        scale, distance = self.given(values)
        by_scale, by_range = np.full(len(self.eigenvalues), 1.0 / scale), np.empty(len(self.eigenvalues))
        set_range_slopes(self.eigenvalues, float(distance), by_range)
        both = ((self.scale_index, by_scale), (self.range_index, by_range))
        return [(index, slopes) for index, slopes in both if index >= 0]


NOT_SMOOTH = SmoothScales(np.empty(0), 0, -1, 1.0, -1, 1.0)


@compiled
def smooth_scales(eigenvalues, num_states, scale, distance):
    """b [N, K] for scales [N] and ranges [N]."""
    found = np.empty((len(scale), len(eigenvalues), 2))
    for n in range(len(scale)):
        set_scales(eigenvalues, num_states, scale[n], distance[n], found[n])
    return found[:, :, 1].copy()


@inner
def set_scales(eigenvalues, num_states, scale, distance, parameters):
    """parameters [k, 1] = b_k, for k up to K."""
    total = 0.0
    for k in range(len(eigenvalues)):
        ratio = _ratio(eigenvalues[k], distance)
        parameters[k, 1] = ratio
        total += ratio * ratio
    factor = scale * math.sqrt(num_states / total)
    for k in range(len(eigenvalues)):
        parameters[k, 1] *= factor


@inner
def set_range_slopes(eigenvalues, distance, slopes):
    """slopes [k] = ∂ log b_k / ∂ range."""
    total, weighted = 0.0, 0.0
    for k in range(len(eigenvalues)):
        ratio = _ratio(eigenvalues[k], distance)
        slopes[k] = -ratio * distance * eigenvalues[k] / 4.0
        total += ratio * ratio
        weighted += ratio * ratio * slopes[k]
    for k in range(len(eigenvalues)):
        slopes[k] -= weighted / total


@inner
def _ratio(eigenvalue, distance):
    return 1.0 / (1.0 + (distance * math.sqrt(eigenvalue / 8.0)) ** 2)  # finite also where range² is not
