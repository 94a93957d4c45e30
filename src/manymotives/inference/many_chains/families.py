"""Twins of `families` and `mcmc.noncentred` for whole arrays, in JAX; a and b broadcast against z and u."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from manymotives.families import BETA, GAMMA, HALF_LOG_2_OVER_PI, HALF_LOG_2PI, HALF_NORMAL, LOG_NORMAL, NORMAL
from manymotives.inference.mcmc.noncentred import TAIL

NEWTON = 14  # steps of `noncentred`; six are usual


def softplus(x: Any) -> Any:
    return jnp.maximum(x, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


def is_location_scale(family: int) -> bool:
    return family in (NORMAL, LOG_NORMAL)


def natural(family: int, u: Any) -> Any:
    if family == NORMAL:
        return u
    return jax.nn.sigmoid(u) if family == BETA else jnp.exp(u)


def location(family: int, a: Any, b: Any) -> Any:
    if family in (GAMMA, BETA):
        return jnp.log(a) - jnp.log(b)
    return jnp.log(a) if family == HALF_NORMAL else a


def log_normaliser(family: int, a: Any, b: Any) -> Any:
    return noncentred_normaliser(family, a, b) - (jnp.log(b) if is_location_scale(family) else 0.0)


def log_kernel(family: int, w: Any, a: Any, b: Any) -> Any:
    """At the deviation w = u − location."""
    if family == GAMMA:
        return a * (w - jnp.expm1(w))
    if family == BETA:
        return _beta_kernel(w, a, b)
    if family == HALF_NORMAL:
        return w - 0.5 * jnp.exp(2.0 * w)
    return -0.5 * (w / b) ** 2


def _beta_kernel(w: Any, a: Any, b: Any) -> Any:
    """As `families.beta_kernel`."""
    low = a < b
    share, rest = jnp.minimum(a, b) / (a + b), jnp.maximum(a, b) / (a + b)
    up = jnp.where(low, w, -w)
    far = up >= 700.0
    near = jnp.log1p(share * jnp.expm1(jnp.where(far, 0.0, up)))
    mixed = jnp.where(far, up + jnp.log(share + rest * jnp.exp(-jnp.where(far, up, 0.0))), near)
    return jnp.where(low, a * w, -b * w) - (a + b) * mixed


def standardised(z: Any, a: Any, b: Any, new_a: Any, new_b: Any) -> Any:
    """z of the same u = a + b z with other parameters."""
    return (z + (a - new_a) / b) * (b / new_b)


def summary(family: int, u: Any, z: Any, b: Any) -> tuple[Any, Any]:
    """`families.summary` of the tasks [n, G, M / G, C] of each population: [n, G, C] twice."""
    if is_location_scale(family):
        mean = z.mean(axis=2)
        return b * mean, b * jnp.sqrt(((z - mean[:, :, None]) ** 2).sum(axis=2))
    if family == BETA:
        mean = u.mean(axis=2)
        share, rest = jax.nn.sigmoid(mean)[:, :, None], jax.nn.sigmoid(-mean)[:, :, None]
        return mean, -_beta_kernel(u - mean[:, :, None], share, rest).sum(axis=2)
    power = 2.0 if family == HALF_NORMAL else 1.0
    centre = (jax.scipy.special.logsumexp(power * u, axis=2) - np.log(u.shape[2])) / power
    off = u - centre[:, :, None]
    return centre, (jnp.expm1(power * off) / power - off).sum(axis=2)


def group_kernel(family: int, count: int, where: Any, spread: Any, base: Any, a: Any, b: Any) -> Any:
    """Σ log_kernel over `count` draws with this `summary`."""
    if is_location_scale(family):
        return -0.5 * (count * ((where + (base - a)) / b) ** 2 + (spread / b) ** 2)
    w = where - location(family, a, b)
    if family == GAMMA:
        return count * a * (w - jnp.expm1(w)) - a * spread
    if family == BETA:
        return count * _beta_kernel(w, a, b) - (a + b) * spread
    return count * (w - 0.5 * jnp.exp(2.0 * w)) - spread


def centred(family: int, z: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """u = T(z; a, b) and dT/dz."""
    if family in (GAMMA, BETA):
        w, slope = _deviation(family, z, a, b)
        return w + location(family, a, b), slope
    if family == HALF_NORMAL:
        return jnp.log(a) + z, jnp.ones_like(z + a)
    return a + b * z, b + jnp.zeros_like(z)


def noncentred_density(family: int, z: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """u = T(z; a, b) and log p(z | a, b), but for `noncentred_normaliser`."""
    if family in (GAMMA, BETA):
        w, slope = _deviation(family, z, a, b)
        return w + location(family, a, b), jnp.log(slope) + log_kernel(family, w, a, b)
    if family == HALF_NORMAL:
        return jnp.log(a) + z, z - 0.5 * jnp.exp(2.0 * z) + jnp.zeros_like(a)
    return a + b * z, -0.5 * z * z + jnp.zeros_like(a + b)


def noncentred_normaliser(family: int, a: Any, b: Any) -> Any:
    """The part of log p(z | a, b) that does not depend on z."""
    if family == GAMMA:
        return -stirling_remainder(a) + jnp.zeros_like(b)
    if family == BETA:
        return stirling_remainder(a + b) - stirling_remainder(a) - stirling_remainder(b)
    return (HALF_LOG_2_OVER_PI if family == HALF_NORMAL else -HALF_LOG_2PI) + jnp.zeros_like(a + b)


def stirling_remainder(x: Any) -> Any:
    """log Γ(x) − x log x + x, as `families.stirling_remainder`."""
    small = x < 10.0
    near, far = jnp.where(small, x, 1.0), jnp.where(small, 10.0, x)
    y = 1.0 / (far * far)
    series = 1.0 / 1260.0 - y * (1.0 / 1680.0 - y * (1.0 / 1188.0 - y * 691.0 / 360360.0))
    series = HALF_LOG_2PI - 0.5 * jnp.log(far) + (1.0 / 12.0 - y * (1.0 / 360.0 - y * series)) / far
    return jnp.where(small, lax.lgamma(near) - near * jnp.log(near) + near, series)


def _deviation(family: int, z: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """w = T(z; a, b) − location, and dT/dz, of Gammas and Betas."""
    lean = jax.nn.sigmoid(-TAIL * z)
    if family == GAMMA:
        spread = 1.0 / jnp.sqrt(a + 0.6)
        return jnp.log1p(0.5 / a) + spread * z - softplus(-TAIL * z) / a, spread + TAIL * lean / a
    spread = jnp.sqrt(1.0 / (a + 0.6) + 1.0 / (b + 0.6))
    w = jnp.log1p(0.5 / a) - jnp.log1p(0.5 / b) + spread * z - softplus(-TAIL * z) / a + softplus(TAIL * z) / b
    return w, spread + TAIL * lean / a + TAIL * (1.0 - lean) / b


def noncentred(family: int, u: Any, a: Any, b: Any, guess: Any) -> Any:
    """z with T(z; a, b) = u: Newton's steps, kept between two ends that close in.

    T lies within log 2 / a below and log 2 / b above two straight lines that meet at 0: hence the first two ends.
    """
    if family == HALF_NORMAL:
        return u - jnp.log(a)
    if family not in (GAMMA, BETA):
        return (u - a) / b
    if family == GAMMA:
        spread, right, above = 1.0 / jnp.sqrt(a + 0.6), 0.0, 0.0
        rest = u - jnp.log(a + 0.5) + jnp.log(b)
    else:
        spread, right, above = jnp.sqrt(1.0 / (a + 0.6) + 1.0 / (b + 0.6)), TAIL / b, np.log(2.0) / b
        rest = u - jnp.log(a + 0.5) + jnp.log(b + 0.5)
    left = TAIL / a

    def on_lines(y: Any) -> Any:
        return jnp.where(y > 0.0, y / (spread + right), y / (spread + left))

    low, high = on_lines(rest - above), on_lines(rest + np.log(2.0) / a)
    z = jnp.clip(guess, low, high)
    for _ in range(NEWTON):
        there, slope = centred(family, z, a, b)
        low, high = jnp.where(there < u, z, low), jnp.where(there < u, high, z)
        new = z + (u - there) / slope
        # what rounding throws past an end that is right to the last digits is there already
        z = jnp.where((new >= low) & (new <= high), new, 0.5 * (low + high))
    return z


def log_gamma_draws(key: Any, shape: Any) -> Any:
    """log x, x ~ Gamma(shape, 1): Marsaglia and Tsang (2000), ten tries at once; all fail once in 10¹³ draws.

    Small shapes as `families.log_gamma_draw` has them.
    """
    tries = 10
    normal_key, uniform_key, power_key = jax.random.split(key, 3)
    small = shape < 1.0
    d = jnp.where(small, shape + 1.0, shape) - 1.0 / 3.0
    x = jax.random.normal(normal_key, (tries, *shape.shape), shape.dtype)
    log_uniform = jnp.log1p(-jax.random.uniform(uniform_key, x.shape, shape.dtype))
    root = 1.0 + x / jnp.sqrt(9.0 * d)[None]
    log_v = 3.0 * jnp.log(jnp.where(root > 0.0, root, 1.0))
    fits = log_uniform < 0.5 * x * x + d[None] * (1.0 - jnp.exp(log_v) + log_v)
    good = (root > 0.0) & fits
    found = log_v[-1]
    for k in range(tries - 2, -1, -1):
        found = jnp.where(good[k], log_v[k], found)
    power = jnp.log1p(-jax.random.uniform(power_key, shape.shape, shape.dtype)) / shape
    return jnp.log(d) + found + jnp.where(small, power, 0.0)
