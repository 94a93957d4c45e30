"""`families.py` for whole arrays in JAX: a and b broadcast against z and u. Derivatives are JAX's."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from manymotives.families import BEND, BETA, GAMMA, HALF_NORMAL, NORMAL

NEWTON = 14  # steps of `latent`; six are usual


def softplus(x: Any) -> Any:
    return jnp.maximum(x, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


def natural(family: int, u: Any) -> Any:
    if family == NORMAL:
        return u
    return jax.nn.sigmoid(u) if family == BETA else jnp.exp(u)


def statistics(family: int, u: Any) -> tuple[Any, Any]:
    if family == GAMMA:
        return u, jnp.exp(u)
    if family == BETA:
        return -softplus(-u), -softplus(u)
    if family == HALF_NORMAL:
        return u, jnp.exp(2.0 * u)
    return u, u * u


def log_normaliser(family: int, a: Any, b: Any) -> Any:
    if family == GAMMA:
        return a * jnp.log(b) - lax.lgamma(a)
    if family == BETA:
        return lax.lgamma(a + b) - lax.lgamma(a) - lax.lgamma(b)
    if family == HALF_NORMAL:
        return 0.5 * np.log(2.0 / np.pi) - jnp.log(a)
    return -0.5 * np.log(2.0 * np.pi) - jnp.log(b) - 0.5 * (a / b) ** 2


def log_kernel(family: int, first: Any, second: Any, a: Any, b: Any) -> Any:
    if family == GAMMA:
        return a * first - b * second
    if family == BETA:
        return a * first + b * second
    if family == HALF_NORMAL:
        return first - 0.5 * second / (a * a)
    return (a * first - 0.5 * second) / (b * b)


def placed(family: int, z: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """u = T(z; a, b) and dT/dz."""
    if family == GAMMA:
        spread = 1.0 / jnp.sqrt(a + 0.6)
        u = jnp.log(a + 0.5) - jnp.log(b) + spread * z - softplus(-BEND * z) / a
        return u, spread + BEND * jax.nn.sigmoid(-BEND * z) / a
    if family == BETA:
        spread = jnp.sqrt(1.0 / (a + 0.6) + 1.0 / (b + 0.6))
        lean = jax.nn.sigmoid(-BEND * z)
        u = jnp.log(a + 0.5) - jnp.log(b + 0.5) + spread * z - softplus(-BEND * z) / a + softplus(BEND * z) / b
        return u, spread + BEND * lean / a + BEND * (1.0 - lean) / b
    if family == HALF_NORMAL:
        return jnp.log(a) + z, jnp.ones_like(z + a)
    return a + b * z, b + jnp.zeros_like(z)


def latent(family: int, u: Any, a: Any, b: Any, guess: Any) -> Any:
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
        spread, right, above = jnp.sqrt(1.0 / (a + 0.6) + 1.0 / (b + 0.6)), BEND / b, np.log(2.0) / b
        rest = u - jnp.log(a + 0.5) + jnp.log(b + 0.5)
    left = BEND / a

    def on_lines(y: Any) -> Any:
        return jnp.where(y > 0.0, y / (spread + right), y / (spread + left))

    low, high = on_lines(rest - above), on_lines(rest + np.log(2.0) / a)
    z = jnp.clip(guess, low, high)
    for _ in range(NEWTON):
        there, slope = placed(family, z, a, b)
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
