"""Non-centred coordinates of the families, compiled: u = T(z; a, b), z nearly standard normal whatever a and b are.

    Normal, LogNormal   T = a + b z                                                                      (exact)
    HalfNormal          T = log a + z
    Gamma               T = log(a + ½) + z / √(a + 0.6) − softplus(−1.7 z) / a − log b
    Beta                T = log((a + ½) / (b + ½)) + z √(1/(a + 0.6) + 1/(b + 0.6))
                            − softplus(−1.7 z) / a + softplus(1.7 z) / b

    log p(z | a, b) = log p(u | a, b) + log dT/dz          `centred`: z → u,   `noncentred`: u → z

T resembles the quantile function of u at Φ(z). Its Jacobian is part of the density of z, so that T only has to be good,
not exact.
"""

import math

from manymotives.families import (
    BETA,
    GAMMA,
    HALF_LOG_2_OVER_PI,
    HALF_LOG_2PI,
    HALF_NORMAL,
    beta_kernel,
    beta_log_ratios,
    kernel_slope,
    location,
    log_normaliser,
    remainder_slope,
    stirling_remainder,
)
from manymotives.jit import inner

TAIL = 1.7  # a logistic distribution function with this slope looks most like a normal one


@inner
def centred(family, z, a, b):
    """u = T(z; a, b), increasing in z, which looks like the quantile function of u in a standard normal z; and dT/dz.

    For Gamma, log(a + ½) + z / √(a + 0.6) − softplus(−1.7 z) / a − log b: the first two resemble mean and spread of
    log x at a + 1, the third the factor v^(1/a) that turns Gamma(a + 1) into Gamma(a), whose left tail is long where a
    is small. Beta has two such tails.
    """
    if family == GAMMA:
        tail, lean = _softplus(-TAIL * z)
        spread = 1.0 / math.sqrt(a + 0.6)
        return math.log(a + 0.5) + spread * z - tail / a - math.log(b), spread + TAIL * lean / a
    if family == BETA:
        low, lean = _softplus(-TAIL * z)
        high = low + TAIL * z
        spread = math.sqrt(1.0 / (a + 0.6) + 1.0 / (b + 0.6))
        u = math.log(a + 0.5) - math.log(b + 0.5) + spread * z - low / a + high / b
        return u, spread + TAIL * lean / a + TAIL * (1.0 - lean) / b
    if family == HALF_NORMAL:
        return math.log(a) + z, 1.0
    return a + b * z, b


@inner
def noncentred_constants(family, a, b):
    """What `noncentred_density` needs of a and b, T(0) − location but for tails; spread; location."""
    if family == GAMMA:
        return math.log1p(0.5 / a), 1.0 / math.sqrt(a + 0.6), location(GAMMA, a, b)
    if family == BETA:
        shift = math.log1p(0.5 / a) - math.log1p(0.5 / b)
        return shift, math.sqrt(1.0 / (a + 0.6) + 1.0 / (b + 0.6)), location(BETA, a, b)
    return 0.0, b, location(family, a, b)


@inner
def noncentred_density(family, z, a, b, shift, spread, centre):
    """log p(z | a, b), up to `noncentred_normaliser`: the log density of u at T(z; a, b), and log dT/dz.

    Returns u; log p(z | a, b); its derivatives in z, a and b; and those of u in z, a and b. The density of u is
    taken at the deviation w = u − location, which is computed from z: nothing is lost where populations are narrow.
    """
    if family == GAMMA:
        tail, lean = _softplus(-TAIL * z)
        change = -0.5 * spread**3  # of the spread, with a
        w = shift + spread * z - tail / a
        slope = spread + TAIL * lean / a
        u_a = 1.0 / (a + 0.5) + change * z + tail / (a * a)
        slope_z = -TAIL * TAIL * lean * (1.0 - lean) / a
        slope_a = change - TAIL * lean / (a * a)
        grown = math.expm1(w)
        density = math.log(slope) + a * (w - grown)
        by_z = slope_z / slope - a * grown * slope
        by_a = slope_a / slope - a * grown * u_a + w
        return w + centre, density, by_z, by_a, 0.0, slope, u_a, -1.0 / b
    if family == BETA:
        low, lean = _softplus(-TAIL * z)
        high = low + TAIL * z
        change_a = -0.5 / (spread * (a + 0.6) ** 2)
        change_b = -0.5 / (spread * (b + 0.6) ** 2)
        w = shift + spread * z - low / a + high / b
        slope = spread + TAIL * lean / a + TAIL * (1.0 - lean) / b
        u_a = 1.0 / (a + 0.5) + change_a * z + low / (a * a)
        u_b = -1.0 / (b + 0.5) + change_b * z - high / (b * b)
        slope_z = TAIL * TAIL * lean * (1.0 - lean) * (1.0 / b - 1.0 / a)
        slope_a = change_a - TAIL * lean / (a * a)
        slope_b = change_b - TAIL * (1.0 - lean) / (b * b)
        first, second = beta_log_ratios(w, a, b)
        climb = kernel_slope(BETA, w, a, b)
        by_z = slope_z / slope + climb * slope
        by_a = slope_a / slope + climb * u_a + first
        by_b = slope_b / slope + climb * u_b + second
        density = math.log(slope) + beta_kernel(w, a, b)
        return w + centre, density, by_z, by_a, by_b, slope, u_a, u_b
    if family == HALF_NORMAL:
        square = math.exp(2.0 * z)
        return centre + z, z - 0.5 * square, 1.0 - square, 0.0, 0.0, 1.0, 1.0 / a, 0.0
    return a + b * z, -0.5 * z * z, -z, 0.0, 0.0, b, 1.0, z


@inner
def noncentred_normaliser(family, a, b):
    """The part of log p(z | a, b) that does not depend on z, and its derivatives in a and b."""
    if family == GAMMA:
        return -stirling_remainder(a), -remainder_slope(a), 0.0
    if family == BETA:
        both = remainder_slope(a + b)
        return log_normaliser(BETA, a, b), both - remainder_slope(a), both - remainder_slope(b)
    return (HALF_LOG_2_OVER_PI if family == HALF_NORMAL else -HALF_LOG_2PI), 0.0, 0.0


@inner
def noncentred(family, u, a, b, guess):
    """z with T(z; a, b) = u: Newton's method from a guess, kept between two ends that close in."""
    if family == HALF_NORMAL:
        return u - math.log(a)
    if family not in (GAMMA, BETA):
        return (u - a) / b
    low, high = -1e300, 1e300
    z = guess
    for _ in range(400):
        there, slope = centred(family, z, a, b)
        if there < u:
            low = z
        else:
            high = z
        step = (u - there) / slope
        if abs(step) <= 1e-13 * max(1.0, abs(z)):
            break
        step = min(max(step, -4.0 - abs(z)), 4.0 + abs(z))
        z += step
        if not low < z < high:
            z = 0.5 * (low + high)
    return z


@inner
def same_quantile(u, shape, new_shape):
    """The log x at which Gamma(new_shape, 1) has the quantile that Gamma(shape, 1) has at log x = u.

    Newton's method for the logarithm of the smaller tail, which is concave in log x.
    """
    lower, upper = log_tails(shape, u)
    is_low = lower < upper
    goal = lower if is_low else upper
    there = centred(GAMMA, noncentred(GAMMA, u, shape, 1.0, 0.0), new_shape, 1.0)[0]
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
def _softplus(x):
    """log(1 + e^x) and its derivative, without overflow."""
    small = math.exp(-abs(x))
    lean = 1.0 / (1.0 + small)
    return max(x, 0.0) + math.log1p(small), lean if x > 0.0 else small * lean
