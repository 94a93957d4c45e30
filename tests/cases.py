"""Some of many cases for `make test`, all of them for `make test-long`."""

import itertools

import numpy as np
import pytest


def seeds_from(seed, count):
    """For `calibrate`: other ones for each seed."""
    return np.random.SeedSequence(seed).generate_state(count).tolist()


def in_turn(*axes, every):
    """The product of all axes, of which every so-manyth is short; the others are long.

    Cases count by the sum of their places on the axes: with axes no shorter than `every`, each value of one meets each
    value of any other in some short case.
    """
    cases = []
    for case in itertools.product(*(enumerate(axis) for axis in axes)):
        is_short = sum(place for place, _ in case) % every == 0
        values = [value for _, value in case]
        cases.append(pytest.param(*values, marks=[] if is_short else pytest.mark.long))
    return cases
