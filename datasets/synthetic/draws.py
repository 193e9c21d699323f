"""Weighted draws for many choosers at once, each with its own run of options in one flat column of weights."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError
from datasets.homes import Array

Floats: TypeAlias = npt.NDArray[np.float64]


def pick(weight: Floats, start: Array, stop: Array, rng: np.random.Generator) -> Array:
    """For each run start..stop one position, drawn in proportion to its weight; -1 where no option has any."""
    return pick_along(accumulate(weight), start, stop, rng)


def accumulate(weight: Floats) -> Floats:
    """[n + 1]: the running sum of weights, from 0; make it once to draw from the same options often."""
    return np.concatenate([[0.0], np.cumsum(weight)])


def pick_along(total: Floats, start: Array, stop: Array, rng: np.random.Generator) -> Array:
    """`pick` with running sums instead of weights."""
    low, high = total[start], total[stop]
    at = low + (high - low) * rng.random(len(start))
    at = np.minimum(at, np.nextafter(high, low))  # rounding must not reach the next chooser's options
    return np.where(high > low, np.searchsorted(total, at, side="right") - 1, -1).astype(np.int64)


def flatten_runs(start: Array, stop: Array) -> tuple[Array, Array, Array]:
    """All options of all choosers in one column: the chooser of each, its position, and the end of each run.

    >>> flatten_runs(np.array([5, 0]), np.array([7, 1]))
    (array([0, 0, 1]), array([5, 6, 0]), array([2, 3]))
    """
    length = stop - start
    end = np.cumsum(length)
    chooser = np.repeat(np.arange(len(start)), length)
    return chooser, np.arange(len(chooser)) + np.repeat(start - (end - length), length), end


def any_of(start: Array, stop: Array, rng: np.random.Generator) -> Array:
    """For each run start..stop, none of them empty, any position of it."""
    return start + ((stop - start) * rng.random(len(start))).astype(np.int64)


LARGEST_SEED = 2**63 - 1


def check_integer(of: str, what: str, value: object, *, least: int, most: int) -> int:
    """The value as an int if it is an integer from `least` to `most`; `of` is the name of the data set."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise DataError(f"{of}: {what}={value!r} is not a whole number from {least:,} to {most:,}")
    return int(value)
