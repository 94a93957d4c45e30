"""Families of distributions on one real coordinate u, compiled: densities, draws, and what a group of draws tells.

A positive variable lives on the logarithmic scale, u = log x, one in (0, 1) on the logit scale; densities are those of
u. Every family has two parameters (the second of `HALF_NORMAL` is not read).

Densities are computed in centred form, from the deviation w = u − location(a, b) of a coordinate from where its density
is about largest:

    Gamma        location log(a / b)     log p = a (w − expm1 w) − S(a),          S(x) = log Γ(x) − x log x + x
    Beta         location log(a / b)     log p = a w − (a + b) log(1 + a/(a + b) expm1 w) + S(a + b) − S(a) − S(b)
    Half-normal  location log a          log p = w − exp(2 w) / 2 + log(2/π) / 2
    Normal       location a              log p = − (w / b)² / 2 − log b − log(2π) / 2

Written with u and u² (or log Γ itself) instead, terms of the size (a / b)² would cancel: with a mean of 1.4 and a scale
of 1e-10 nothing but rounding error would be left, and it favours ever smaller scales. Where a scale is smaller than the
rounding error of its mean, not even u − a can be computed from u: samplers therefore keep z = (u − a) / b of
location–scale families beside u, and z is what their densities are computed from.

A density depends on a group of draws only through their number, a location and a spread (`summary`), so a population of
a thousand tasks costs as little as one of two.
"""

import math

import numpy as np

from manymotives.jit import compiled, inner

GAMMA, BETA, NORMAL, HALF_NORMAL, LOG_NORMAL = range(5)

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
HALF_LOG_2_OVER_PI = 0.5 * math.log(2.0 / math.pi)


@inner
def is_location_scale(family):
    """Whether u = a + b z with a standard normal z."""
    return family in (NORMAL, LOG_NORMAL)


@inner
def natural(family, u):
    """The variable itself, from its coordinate."""
    if family == NORMAL:
        return u
    if family == BETA:
        return 1.0 / (1.0 + math.exp(-u))
    return math.exp(u)


@inner
def location(family, a, b):
    """Where the density of u is about largest; deviations w are taken from there."""
    if family in (GAMMA, BETA):
        return math.log(a) - math.log(b)
    if family == HALF_NORMAL:
        return math.log(a)
    return a


@inner
def log_normaliser(family, a, b):
    """The part of log p(u | a, b) that does not depend on u: its value at w = 0, but for half-normals."""
    if family == GAMMA:  # shape a, rate b
        return -stirling_remainder(a)
    if family == BETA:
        return stirling_remainder(a + b) - stirling_remainder(a) - stirling_remainder(b)
    if family == HALF_NORMAL:  # scale a
        return HALF_LOG_2_OVER_PI
    return -HALF_LOG_2PI - math.log(b)  # mean a, scale b


@inner
def log_kernel(family, w, a, b):
    """The part that does, at the deviation w = u − location."""
    if family == GAMMA:
        return a * (w - math.expm1(w))
    if family == BETA:
        return beta_kernel(w, a, b)
    if family == HALF_NORMAL:
        return w - 0.5 * math.exp(2.0 * w)
    return -0.5 * (w / b) ** 2


@inner
def kernel_slope(family, w, a, b):
    """d log p(u | a, b) / du at the deviation w."""
    if family == GAMMA:
        return -a * math.expm1(w)
    if family == BETA:
        share, rest = a / (a + b), b / (a + b)
        if w > 0.0:
            return a * rest * math.expm1(-w) / (share + rest * math.exp(-w))
        return -a * rest * math.expm1(w) / (rest + share * math.exp(w))
    if family == HALF_NORMAL:
        return 1.0 - math.exp(2.0 * w)
    return -(w / b) / b


@inner
def beta_kernel(w, a, b):
    """a log(x / x₀) + b log((1 − x) / (1 − x₀)) where log-odds are w above those of x₀ = a / (a + b)."""
    first, second = beta_log_ratios(w, a, b)
    return a * w + (a + b) * second if a < b else (a + b) * first - b * w


@inner
def beta_log_ratios(w, a, b):
    """log(x / x₀) and log((1 − x) / (1 − x₀)), from the smaller of the two shares, of which nothing is lost."""
    if a < b:
        second = -_log_mixed(w, a / (a + b), b / (a + b))
        return w + second, second
    first = -_log_mixed(-w, b / (a + b), a / (a + b))
    return first, first - w


@inner
def _log_mixed(w, share, rest):
    """log(rest + share e^w) without overflow, for shares that sum to one."""
    return math.log1p(share * math.expm1(w)) if w < 700.0 else w + math.log(share + rest * math.exp(-w))


@inner
def log_density(family, u, a, b):
    """log p(u | a, b)."""
    return log_normaliser(family, a, b) + log_kernel(family, u - location(family, a, b), a, b)


@inner
def standardised(z, a, b, new_a, new_b):
    """z of the same u = a + b z in a location–scale family with other parameters; exact at every scale."""
    return (z + (a - new_a) / b) * (b / new_b)


@inner
def summary(family, u, z, begin, end, d, b):
    """What draws u[begin:end, d] tell of their parameters: where they are and how far they spread.

    Of Gammas: log of the mean of e^u, and Σ of what u falls short of it. Of half-normals the same with e^(2u). Of
    Betas: the mean, and Σ of what log-odds lose by spreading around it. Of location–scale families the mean deviation
    from a, and the root of the sum of squares around it, both from z and the scale b that z belongs to.
    """
    count = end - begin
    if is_location_scale(family):
        mean = 0.0
        for m in range(begin, end):
            mean += z[m, d]
        mean /= count
        squares = 0.0
        for m in range(begin, end):
            squares += (z[m, d] - mean) ** 2
        return b * mean, b * math.sqrt(squares)
    if family == BETA:
        mean = 0.0
        for m in range(begin, end):
            mean += u[m, d]
        mean /= count
        lost = 0.0
        for m in range(begin, end):
            lost -= beta_kernel(u[m, d] - mean, natural(BETA, mean), natural(BETA, -mean))
        return mean, lost
    power = 2.0 if family == HALF_NORMAL else 1.0
    largest = u[begin, d]
    for m in range(begin + 1, end):
        largest = max(largest, u[m, d])
    total = 0.0
    for m in range(begin, end):
        total += math.exp(power * (u[m, d] - largest))
    centre = largest + math.log(total / count) / power
    short = 0.0
    for m in range(begin, end):
        short += math.expm1(power * (u[m, d] - centre)) / power - (u[m, d] - centre)
    return centre, short


@inner
def group_kernel(family, count, where, spread, base, a, b):
    """Σ log_kernel over `count` draws with this `summary`; `base` is the mean that deviations of normals are from."""
    if is_location_scale(family):
        return -0.5 * (count * ((where + (base - a)) / b) ** 2 + (spread / b) ** 2)
    w = where - location(family, a, b)
    if family == GAMMA:
        return count * a * (w - math.expm1(w)) - a * spread
    if family == BETA:
        return count * beta_kernel(w, a, b) - (a + b) * spread
    return count * (w - 0.5 * math.exp(2.0 * w)) - spread


@inner
def draw(rng, family, a, b):
    """One coordinate u from p(u | a, b)."""
    if family == GAMMA:
        return log_gamma_draw(rng, a) - math.log(b)
    if family == BETA:
        return log_gamma_draw(rng, a) - log_gamma_draw(rng, b)
    if family == HALF_NORMAL:
        return math.log(abs(rng.standard_normal())) + math.log(a)
    return a + b * rng.standard_normal()


@inner
def log_gamma_draw(rng, shape):
    """log x with x ~ Gamma(shape, 1); x itself underflows for shapes below 0.01.

    With y ~ Gamma(shape + 1, 1) and v uniform, y v^(1/shape) ~ Gamma(shape, 1).
    """
    if shape >= 1.0:
        return math.log(rng.standard_gamma(shape))
    return math.log(rng.standard_gamma(shape + 1.0)) + math.log1p(-rng.random()) / shape


@inner
def stirling_remainder(x):
    """S(x) = log Γ(x) − x log x + x for x > 0: what Stirling's first two terms leave, small where x is large."""
    if x < 10.0:
        return math.lgamma(x) - x * math.log(x) + x
    y = 1.0 / (x * x)
    series = 1.0 / 1260.0 - y * (1.0 / 1680.0 - y * (1.0 / 1188.0 - y * 691.0 / 360360.0))
    return HALF_LOG_2PI - 0.5 * math.log(x) + (1.0 / 12.0 - y * (1.0 / 360.0 - y * series)) / x


@inner
def remainder_slope(x):
    """dS/dx = ψ(x) − log x for x > 0: up to 6 by recurrence, then the asymptotic series."""
    total, begin = 0.0, x
    while x < 6.0:
        total -= 1.0 / x
        x += 1.0
    if x > begin:
        total += math.log(x) - math.log(begin)
    y = 1.0 / (x * x)
    series = 1.0 / 12.0 - y * (1.0 / 120.0 - y * (1.0 / 252.0 - y * (1.0 / 240.0 - y / 132.0)))
    return total - 0.5 / x - y * series


# ---- whole arrays ------------------------------------------------------------------------------------------


@compiled
def draw_all(rng, families, parameters):
    """Coordinates [N, D] for parameters [N, D, 2]."""
    num, size, _ = parameters.shape
    u = np.empty((num, size))
    for n in range(num):
        for d in range(size):
            u[n, d] = draw(rng, families[d], parameters[n, d, 0], parameters[n, d, 1])
    return u


def log_gammas(rng, shapes):
    """log x with x ~ Gamma(shape, 1), for shapes [N, D]: normalised, they are Dirichlet."""
    parameters = np.stack([shapes, np.ones_like(shapes)], axis=-1)
    return draw_all(rng, np.full(shapes.shape[1], GAMMA), parameters)


@compiled
def natural_all(families, u):
    """The variables themselves for coordinates [N, D]."""
    x = np.empty_like(u)
    for n in range(u.shape[0]):
        for d in range(u.shape[1]):
            x[n, d] = natural(families[d], u[n, d])
    return x


@compiled
def log_density_all(families, u, parameters):
    """log p of each row of coordinates [N, D] under parameters [N, D, 2]."""
    total = np.zeros(len(u))
    for n in range(u.shape[0]):
        for d in range(u.shape[1]):
            total[n] += log_density(families[d], u[n, d], parameters[n, d, 0], parameters[n, d, 1])
    return total


@compiled
def log_density_each(families, u, parameters):
    """log p of each row of coordinates [N, D] under the same parameters [D, 2]."""
    size = len(families)
    centre, constant = np.empty(size), 0.0
    for d in range(size):
        centre[d] = location(families[d], parameters[d, 0], parameters[d, 1])
        constant += log_normaliser(families[d], parameters[d, 0], parameters[d, 1])
    total = np.full(len(u), constant)
    for n in range(len(u)):
        for d in range(size):
            total[n] += log_kernel(families[d], u[n, d] - centre[d], parameters[d, 0], parameters[d, 1])
    return total
