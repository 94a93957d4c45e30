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


def in_step(*axes):
    """The product of all axes, of which as few are short as the longest axis has values; the others are long.

    Each value of each axis is in a short case: one steps through all axes at once, and begins anew where one ends.
    """
    short = {tuple(place % len(axis) for axis in axes) for place in range(max(map(len, axes)))}
    cases = []
    for case in itertools.product(*(enumerate(axis) for axis in axes)):
        is_short = tuple(place for place, _ in case) in short
        cases.append(pytest.param(*(value for _, value in case), marks=[] if is_short else pytest.mark.long))
    return cases
