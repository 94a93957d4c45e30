"""R-hat and effective sample sizes by ranks (Vehtari et al. 2021), of many quantities at once.

ArviZ computes the same for one quantity after another, a millisecond each; a fit has hundreds or thousands.
"""

from collections.abc import Callable

import numpy as np
import xarray as xr
from scipy import fft, special

TAIL = 0.89  # quantiles of the tails: this one and its mirror image, ends of ArviZ's default interval
AT_A_TIME = 2**20  # numbers


def rhat(draws: xr.Dataset) -> xr.Dataset:
    """Rank-normalised split R-hat of each quantity, in its bulk or its spread, whichever is larger."""

    def of(values: np.ndarray) -> np.ndarray:
        halves = _split(values)
        bulk, tail = (_rhat(_normal_scores(each)) for each in (halves, abs(halves - _median(halves))))
        return np.where(tail > bulk, tail, bulk)

    return _of_each(of, draws)


def ess(draws: xr.Dataset, method: str) -> xr.Dataset:
    """Effective draws of each quantity, in the `bulk` or in the `tail`s."""

    def of(values: np.ndarray) -> np.ndarray:
        if method == "bulk":
            return _ess(_normal_scores(_split(values)))
        limits = np.quantile(values, (1.0 - TAIL, TAIL), axis=(1, 2))[..., None, None]
        return np.minimum(*(_ess(_split(values <= limit).astype(float)) for limit in limits))

    return _of_each(of, draws)


def _of_each(diagnostic: Callable[[np.ndarray], np.ndarray], draws: xr.Dataset) -> xr.Dataset:
    """Of each variable; a diagnostic takes [quantity, chain, draw]. Where a quantity is not a number, neither is it."""
    found = {}
    for name, variable in draws.data_vars.items():
        array = variable.transpose(..., "chain", "draw")
        *shape, chains, length = array.shape
        values = array.values.reshape(-1, chains, length).astype(float)
        size = max(1, AT_A_TIME // (chains * length))
        made = np.full(len(values), np.nan)
        known = np.flatnonzero(~np.isnan(values).any(axis=(1, 2)))
        for begin in range(0, len(known), size):
            some = known[begin : begin + size]
            made[some] = diagnostic(values[some])
        found[name] = array.isel(chain=0, draw=0, drop=True).copy(data=made.reshape(shape))
    return xr.Dataset(found)


def _split(values: np.ndarray) -> np.ndarray:
    """First and second halves of chains, as chains."""
    half = values.shape[2] // 2
    return np.concatenate([values[:, :, :half], values[:, :, -half:]], axis=1)


def _median(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.median(values, axis=(1, 2), keepdims=True))


def _normal_scores(values: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata

    ranks = rankdata(values.reshape(len(values), -1), axis=1).reshape(values.shape)
    return np.asarray(special.ndtri((ranks - 0.375) / (values[0].size + 0.25)))


def _rhat(values: np.ndarray) -> np.ndarray:
    length = values.shape[2]
    between, within = length * values.mean(axis=2).var(axis=1, ddof=1), values.var(axis=2, ddof=1).mean(axis=1)
    return np.asarray(np.sqrt((between / within + length - 1) / length))


def _ess(values: np.ndarray) -> np.ndarray:
    """By Geyer's initial monotone sequence: of autocorrelations summed in pairs, those before the first negative one.

    What does not vary counts in full.
    """
    _, chains, length = values.shape
    around = values - values.mean(axis=2, keepdims=True)
    padded = fft.next_fast_len(2 * length)
    power = abs(np.fft.rfft(around, n=padded, axis=2)) ** 2
    covariances = np.fft.irfft(power, n=padded, axis=2)[:, :, :length].mean(axis=1) / length
    within = covariances[:, :1] * length / (length - 1.0)
    total = covariances[:, :1] + (values.mean(axis=2).var(axis=1, ddof=1)[:, None] if chains > 1 else 0.0)
    correlations = 1.0 - (within - covariances) / total
    correlations[:, 0] = 1.0
    pairs = correlations[:, 0 : length - 1 : 2] + correlations[:, 1:length:2]
    last = max(0, (length - 3) // 2)  # pair at which to stop at the latest
    ends = np.argmax(np.pad(pairs[:, :last] <= 0.0, ((0, 0), (0, 1)), constant_values=True), axis=1)
    counted = np.arange(pairs.shape[1]) < ends[:, None]
    rows = np.arange(len(values))
    even = correlations[rows, 2 * ends]
    even = np.where((even > 0.0) | (pairs[rows, ends] >= 0.0), even, 0.0)
    times = -1.0 + 2.0 * np.where(counted, np.minimum.accumulate(pairs, axis=1), 0.0).sum(axis=1) + even
    size = chains * length
    found = size / np.maximum(times, 1.0 / np.log10(size))
    found[np.isnan(correlations[:, 1])] = np.nan
    constant = np.ptp(values, axis=(1, 2)) < np.finfo(float).resolution
    return np.where(constant, float(size), found)
