"""Families of distributions on one real coordinate u, compiled: densities, draws, and what a group of draws tells.

A positive variable lives on the logarithmic scale, u = log x, one in (0, 1) on the logit scale; densities are those of
u. Every family has two parameters (the second of `HALF_NORMAL` is not read). Its density depends on many draws only
through their number and two sums, so a population of a thousand tasks costs as little as one of two.
"""

import math

import numpy as np

from manymotives.jit import compiled, inner

GAMMA, BETA, NORMAL, HALF_NORMAL, LOG_NORMAL = range(5)


@inner
def natural(family, u):
    """The variable itself, from its coordinate."""
    if family == NORMAL:
        return u
    if family == BETA:
        return 1.0 / (1.0 + math.exp(-u))
    return math.exp(u)


@inner
def statistics(family, u):
    """The two numbers whose sums over draws are sufficient."""
    if family == GAMMA:
        return u, math.exp(u)
    if family == BETA:
        return log_sigmoid(u), log_sigmoid(-u)
    if family == HALF_NORMAL:
        return u, math.exp(2.0 * u)
    return u, u * u


@inner
def log_normaliser(family, a, b):
    """The part of log p(u | a, b) that does not depend on u."""
    if family == GAMMA:  # shape a, rate b
        return a * math.log(b) - math.lgamma(a)
    if family == BETA:
        return math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    if family == HALF_NORMAL:  # scale a
        return 0.5 * math.log(2.0 / math.pi) - math.log(a)
    return -0.5 * math.log(2.0 * math.pi) - math.log(b) - 0.5 * (a / b) ** 2  # mean a, scale b


@inner
def log_kernel(family, first, second, a, b):
    """The part that does, given the two statistics, or their sums over several draws."""
    if family == GAMMA:
        return a * first - b * second
    if family == BETA:
        return a * first + b * second
    if family == HALF_NORMAL:
        return first - 0.5 * second / (a * a)
    return (a * first - 0.5 * second) / (b * b)


@inner
def log_density(family, u, a, b):
    """log p(u | a, b)."""
    first, second = statistics(family, u)
    return log_normaliser(family, a, b) + log_kernel(family, first, second, a, b)


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


# ---- coordinates that do not know their population ---------------------------------------------------------

BEND = 1.7  # a logistic curve with this slope looks most like a normal one


@inner
def placed(family, z, a, b):
    """u = T(z; a, b), increasing in z, which looks like the quantile function of u in a standard normal z.

    The answer: u; log dT/dz; and the derivatives of u in z, a, b, and of log dT/dz in z, a, b.

    For Gamma, log(a + ½) + z / √(a + 0.6) − softplus(−1.7 z) / a − log b: the first two resemble mean and spread of
    log x at a + 1, the third the factor v^(1/a) that turns Gamma(a + 1) into Gamma(a), whose left tail is long where a
    is small. Beta has two such tails.
    """
    if family == GAMMA:
        bend, lean = _bent(-BEND * z)
        spread = 1.0 / math.sqrt(a + 0.6)
        change = -0.5 * spread**3  # of the spread, with a
        u = math.log(a + 0.5) + spread * z - bend / a - math.log(b)
        slope = spread + BEND * lean / a
        u_a = 1.0 / (a + 0.5) + change * z + bend / (a * a)
        slope_z = -BEND * BEND * lean * (1.0 - lean) / a
        slope_a = change - BEND * lean / (a * a)
        return u, math.log(slope), slope, u_a, -1.0 / b, slope_z / slope, slope_a / slope, 0.0
    if family == BETA:
        low, lean = _bent(-BEND * z)
        high = low + BEND * z
        spread = math.sqrt(1.0 / (a + 0.6) + 1.0 / (b + 0.6))
        change_a = -0.5 / (spread * (a + 0.6) ** 2)
        change_b = -0.5 / (spread * (b + 0.6) ** 2)
        u = math.log(a + 0.5) - math.log(b + 0.5) + spread * z - low / a + high / b
        slope = spread + BEND * lean / a + BEND * (1.0 - lean) / b
        u_a = 1.0 / (a + 0.5) + change_a * z + low / (a * a)
        u_b = -1.0 / (b + 0.5) + change_b * z - high / (b * b)
        slope_z = BEND * BEND * lean * (1.0 - lean) * (1.0 / b - 1.0 / a)
        slope_a = change_a - BEND * lean / (a * a)
        slope_b = change_b - BEND * (1.0 - lean) / (b * b)
        return u, math.log(slope), slope, u_a, u_b, slope_z / slope, slope_a / slope, slope_b / slope
    if family == HALF_NORMAL:
        return math.log(a) + z, 0.0, 1.0, 1.0 / a, 0.0, 0.0, 0.0, 0.0
    return a + b * z, math.log(b), b, 1.0, z, 0.0, 0.0, 1.0 / b


@inner
def latent(family, u, a, b, guess):
    """z with T(z; a, b) = u: Newton's method from a guess, kept between two ends that close in."""
    if family == HALF_NORMAL:
        return u - math.log(a)
    if family not in (GAMMA, BETA):
        return (u - a) / b
    low, high = -1e300, 1e300
    z = guess
    for _ in range(400):
        there = placed(family, z, a, b)
        if there[0] < u:
            low = z
        else:
            high = z
        step = (u - there[0]) / there[2]
        if abs(step) <= 1e-13 * max(1.0, abs(z)):
            break
        step = min(max(step, -4.0 - abs(z)), 4.0 + abs(z))
        z += step
        if not low < z < high:
            z = 0.5 * (low + high)
    return z


@inner
def carried(u, shape, new_shape):
    """The coordinate log x that has in Gamma(new_shape, 1) the quantile which u has in Gamma(shape, 1).

    Newton's method for the logarithm of the smaller tail, which is concave in log x.
    """
    lower, upper = log_tails(shape, u)
    is_low = lower < upper
    goal = lower if is_low else upper
    there = placed(GAMMA, latent(GAMMA, u, shape, 1.0, 0.0), new_shape, 1.0)[0]
    normaliser = math.lgamma(new_shape)
    for _ in range(100):
        lower, upper = log_tails(new_shape, there)
        here = lower if is_low else upper
        step = (goal - here) * math.exp(here - new_shape * there + math.exp(there) + normaliser)
        step = min(max(step if is_low else -step, -1.0 - abs(there)), 1.0 + abs(there))
        there += step
        if abs(step) <= 1e-12 * max(1.0, abs(there)):
            break
    return there


@inner
def log_tails(shape, u):
    """log P(x ≤ e^u) and log P(x > e^u) for x ~ Gamma(shape, 1): a series to the left, a continued fraction right."""
    x = math.exp(u)
    if x < shape + 1.0:
        total, term = 1.0, 1.0
        for n in range(1, 10_000):
            term *= x / (shape + n)
            total += term
            if term < 1e-17 * total:
                break
        lower = min(shape * u - x - math.lgamma(shape + 1.0) + math.log(total), -1e-300)
        return lower, math.log(-math.expm1(lower))
    b = x + 1.0 - shape
    c, d = 1e300, 1.0 / b
    fraction = d
    for n in range(1, 10_000):  # Lentz's algorithm
        a = n * (shape - n)
        b += 2.0
        d = 1.0 / (a * d + b)
        c = b + a / c
        fraction *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    upper = min(shape * u - x - math.lgamma(shape) + math.log(fraction), -1e-300)
    return math.log(-math.expm1(upper)), upper


@inner
def slope(family, u, second, a, b):
    """d log p(u | a, b) / du, given u and the second of its statistics."""
    if family == GAMMA:
        return a - b * second
    if family == BETA:
        share = natural(BETA, u)
        return a * (1.0 - share) - b * share
    if family == HALF_NORMAL:
        return 1.0 - second / (a * a)
    return (a - u) / (b * b)


@inner
def parameter_slopes(family, count, first, second, a, b):
    """Derivatives of Σ log p(u | a, b) in a and b, from how many draws there are and the sums of their statistics."""
    if family == GAMMA:
        return count * (math.log(b) - digamma(a)) + first, count * a / b - second
    if family == BETA:
        both = digamma(a + b)
        return count * (both - digamma(a)) + first, count * (both - digamma(b)) + second
    if family == HALF_NORMAL:
        return (second / (a * a) - count) / a, 0.0
    squares = second - 2.0 * a * first + count * a * a
    return (first - count * a) / (b * b), (squares / (b * b) - count) / b


@inner
def _bent(x):
    """log(1 + e^x) and its derivative, without overflow."""
    small = math.exp(-abs(x))
    lean = 1.0 / (1.0 + small)
    return max(x, 0.0) + math.log1p(small), lean if x > 0.0 else small * lean


@inner
def digamma(x):
    """d log Γ(x) / dx for x > 0: up to 6 by recurrence, then the asymptotic series."""
    total = 0.0
    while x < 6.0:
        total -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    return total + math.log(x) - 0.5 / x - y * (1.0 / 12.0 - y * (1.0 / 120.0 - y * (1.0 / 252.0 - y / 240.0)))


@inner
def log_sigmoid(u):
    """log 1/(1 + e^−u) without overflow."""
    if u > 0.0:
        return -math.log1p(math.exp(-u))
    return u - math.log1p(math.exp(u))


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
def statistics_all(families, u):
    """The statistics [N, D, 2] of coordinates [N, D]."""
    found = np.empty((*u.shape, 2))
    for n in range(u.shape[0]):
        for d in range(u.shape[1]):
            found[n, d, 0], found[n, d, 1] = statistics(families[d], u[n, d])
    return found


@compiled
def as_linear(families, parameters):
    """Σ_d log p(u_d | parameters[d]) as a constant and weights [D, 2] of the statistics."""
    constant = 0.0
    weights = np.empty_like(parameters)
    for d in range(len(families)):
        a, b = parameters[d, 0], parameters[d, 1]
        constant += log_normaliser(families[d], a, b)
        weights[d, 0] = log_kernel(families[d], 1.0, 0.0, a, b)
        weights[d, 1] = log_kernel(families[d], 0.0, 1.0, a, b)
    return constant, weights
