"""Arrays for compiled loops, and distinct rows of arrays."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from datasets.homes import Array

Number = TypeVar("Number", bound=np.generic)


def read_only(array: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """A contiguous read-only view, also where memory cannot be written to.

    numba compiles anew for every kind of array: writable, read-only, strided. This makes them one kind.
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def distinct_rows(rows: npt.NDArray[Number]) -> tuple[Array, Array]:
    """The first of all rows with the same bits, in their order, and for each row its place among these.

    By a hash of each row, which is much faster than to sort the rows themselves.
    """
    bits = np.ascontiguousarray(rows).view(np.uint32)
    rng = np.random.default_rng(0)
    while True:
        hashes = np.zeros(len(bits), dtype=np.uint64)
        for column, weight in zip(bits.T, rng.integers(2**63, size=bits.shape[1], dtype=np.uint64), strict=True):
            hashes += column * weight
        _, first, place = np.unique(hashes, return_index=True, return_inverse=True)
        if np.array_equal(bits[first][place], bits):  # or two rows share a hash: other weights
            order = np.argsort(first)
            return first[order], np.argsort(order)[place]
