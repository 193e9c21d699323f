"""The streams of random numbers of a seed, one for each purpose, so that no two purposes ever draw the same numbers.

A generator is keyed [seed, purpose], or [seed, seed of the split, purpose] where a split decides as well. NumPy fills a
key up with zeros, so purposes with a split count from 3 on: none of their keys is one of the shorter kind.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What numbers are drawn for; 0 and 1 are drawn in `datasets.splits`."""

    HIDE_TEST = 0
    HIDE_VALIDATION = 1
    FITTING = 2  # [seed, 2]
    TEST_NON_RULES = 3  # [seed, split's seed, 3] and so on
    VALIDATION_NON_RULES = 4
    TEST_FEASIBLE = 5
    VALIDATION_FEASIBLE = 6
    RESAMPLING = 7  # [seed, 0, 7]: of homes, to compare methods
    TRAIN_NON_RULES = 8
    TRAIN_FEASIBLE = 9
    TRAIN_CURVE = 10  # which homes of a part a curve is measured on
    VALIDATION_CURVE = 11
    TEST_CURVE = 12


def generator(stream: Stream, *seeds: int) -> np.random.Generator:
    """The generator of a purpose under one seed or two."""
    return np.random.default_rng([*seeds, int(stream)])
