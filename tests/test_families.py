"""Densities of the families against exact arithmetic, at ordinary scales and at those that used to run away."""

import math
from decimal import Decimal, getcontext

import numpy as np
import pytest
from scipy import special, stats

from manymotives import families
from manymotives.families import BETA, GAMMA, HALF_NORMAL, LOG_NORMAL, NORMAL
from manymotives.inference.mcmc import noncentred

getcontext().prec = 60
ROOT_TWO_PI = Decimal(2 * math.pi).sqrt()


@pytest.mark.parametrize("family", [NORMAL, LOG_NORMAL])
@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1e-10, 1e-8, 1e-3, 1.0, 1e3, 1e150])
def test_normal_densities_are_exact_at_every_scale(family, scale):
    """u is a double; what its density is there follows in 60 digits.

    From u and u² the log density was wrong by 1.5 at 1e-8 and by 3e4 at 1e-10: in favour of collapse.
    """
    mean = 1.43
    for z in (0.0, 0.3, -2.0):
        u = mean + scale * z
        exact = (Decimal(u) - Decimal(mean)) / Decimal(scale)
        expected = float(-exact * exact / 2 - (ROOT_TWO_PI * Decimal(scale)).ln())
        assert families.log_density(family, u, mean, scale) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1e-10, 1.0])
def test_summaries_are_exact_at_every_scale(scale):
    """A group's density from its summary is the sum over its draws, for other parameters too, from z alone."""
    mean, z = 1.43, np.array([[0.3], [-1.2], [0.8], [2.0]])
    u = mean + scale * z
    where, spread = families.summary(NORMAL, u, z, 0, 4, 0, scale)
    for shift, stretch in ((0.0, 1.0), (0.7, 1.0), (-1.0, 3.0), (0.0, 1e-5)):
        if mean + shift * scale == mean and shift:
            continue  # such a step is lost in the mean, and is no step
        new_mean, new_scale = mean + shift * scale, stretch * scale
        step = float((Decimal(mean) - Decimal(new_mean)) / Decimal(scale))
        expected = -0.5 * (((z[:, 0] + step) / stretch) ** 2).sum()
        found = families.group_kernel(NORMAL, 4, where, spread, mean, new_mean, new_scale)
        assert found == pytest.approx(expected, rel=1e-9)
        moved = [families.standardised(value, mean, scale, new_mean, new_scale) for value in z[:, 0]]
        assert np.allclose(moved, (z[:, 0] + step) / stretch, rtol=1e-9)


PARAMETERS = [(0.02, 0.5), (0.4, 3.0), (3.0, 0.2), (200.0, 170.0), (1e6, 3e5)]


@pytest.mark.parametrize(("a", "b"), PARAMETERS)
@pytest.mark.parametrize("family", range(5))
def test_densities_are_scipys(family, a, b):
    """In u, with the derivative of x in u; where scipy itself loses digits, no closer than those."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        u = families.draw(rng, family, a, b)
        if family == GAMMA:
            expected = stats.loggamma.logpdf(u + math.log(b), a)
        elif family == BETA:
            expected = a * special.log_expit(u) + b * special.log_expit(-u) - special.betaln(a, b)
        elif family == HALF_NORMAL:
            expected = stats.halfnorm.logpdf(math.exp(u), scale=a) + u
        else:
            expected = stats.norm.logpdf(u, a, b)
        size = 1 + abs(expected) + abs(a * math.log(a)) + abs(b * math.log(b)) + abs(a * u)
        assert families.log_density(family, u, a, b) == pytest.approx(expected, abs=1e-13 * size)


@pytest.mark.parametrize(("a", "b"), PARAMETERS)
@pytest.mark.parametrize("family", range(5))
def test_summaries_tell_what_draws_do(family, a, b):
    """The density of a group, from its summary, under other parameters; and the slope of each by finite differences."""
    rng = np.random.default_rng(1)
    u = np.array([[families.draw(rng, family, a, b)] for _ in range(7)])
    z = (u - a) / b
    where, spread = families.summary(family, u, z, 0, 7, 0, b)
    for new_a, new_b in ((a, b), (1.1 * a, 0.8 * b), (0.3 * a, 2.0 * b)):
        centre = families.location(family, new_a, new_b)
        expected = sum(families.log_kernel(family, value - centre, new_a, new_b) for value in u[:, 0])
        found = families.group_kernel(family, 7, where, spread, a, new_a, new_b)
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-8)
    centre = families.location(family, a, b)
    for value in u[:, 0]:
        w, step = value - centre, 1e-6 * (1.0 if family != NORMAL else b)
        above, below = (families.log_kernel(family, w + sign * step, a, b) for sign in (1, -1))
        slope = families.kernel_slope(family, w, a, b)
        assert slope == pytest.approx((above - below) / (2 * step), rel=2e-5, abs=1e-4)


@pytest.mark.parametrize("u", [-800.0, -40.0, 0.0, 40.0, 800.0])
def test_betas_far_from_one_half_have_their_tails(u):
    """log p(u) → a u to the left and −b u to the right, also where shares round to 0 or 1."""
    for a, b in ((2.0, 3.0), (1e20, 1.0), (1.0, 1e20)):
        w = u - families.location(BETA, a, b)
        found = families.log_kernel(BETA, w, a, b)
        one, other, odds = Decimal(a), Decimal(b), Decimal(w).exp() * Decimal(a) / Decimal(b)
        ratio, rest = odds / (1 + odds) / (one / (one + other)), 1 / (1 + odds) / (other / (one + other))
        expected = float(one * ratio.ln() + other * rest.ln())
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert math.isfinite(families.kernel_slope(BETA, w, a, b))


def test_what_stirling_leaves():
    x = np.array([1e-8, 0.01, 0.3, 1.0, 7.0, 9.99, 10.0, 30.0, 1e3])
    expected = special.gammaln(x) - x * np.log(x) + x
    assert np.allclose([families.stirling_remainder(value) for value in x], expected, rtol=1e-9, atol=1e-11)
    large = np.array([1e5, 1e10, 1e100])  # where the difference above is all rounding
    expected = 0.5 * np.log(2 * np.pi / large) + 1 / (12 * large)
    assert np.allclose([families.stirling_remainder(value) for value in large], expected, rtol=1e-14)


def test_narrow_populations_keep_the_density_of_z():
    """A population a million times narrower than the rounding of its mean: z is still standard normal."""
    for scale in (1e-150, 1e-22, 1e-8, 1.0):
        for z in (-1.3, 0.0, 2.5):
            u, density, by_z, by_a, by_b, _, _, _ = noncentred.noncentred_density(
                NORMAL, z, 1.43, scale, 0.0, scale, 1.43
            )
            assert (density, by_z, by_a, by_b) == (-0.5 * z * z, -z, 0.0, 0.0)
            assert u == pytest.approx(1.43 + scale * z, rel=1e-15)
