"""Values as positions in the sorted list of what is distinct among them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from datasets.homes import Array, Ids

SPARSE = 4  # whole numbers that leave at most so many gaps to each value are counted instead of hashed


def numbered(values: Ids | pd.Categorical) -> tuple[Ids, Array]:
    """The sorted distinct values and, for each value, its position among them; no value may be missing."""
    if isinstance(values, pd.Categorical):
        used, code = numbered(np.asarray(values.codes, dtype=np.int64))
        words, rank = numbered(np.asarray(values.categories, dtype=object)[used])
        return words, rank[code]
    if values.dtype.kind == "i" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < SPARSE * len(values):
            return _counted(values, low, high)
    number, distinct = pd.factorize(values)  # hashing, then sorting only what is distinct: far cheaper than sorting all
    order = np.argsort(distinct, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return np.asarray(distinct)[order], rank[number]


def _counted(values: Ids, low: int, high: int) -> tuple[Ids, Array]:
    """The same for whole numbers that lie close together: a table over their range, no hashing and no sorting."""
    there = np.zeros(high - low + 1, dtype=bool)
    there[values - low] = True
    position = np.cumsum(there) - 1
    return np.flatnonzero(there) + low, position[values - low]
