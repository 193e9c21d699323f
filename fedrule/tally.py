"""How often a combination of values occurs in some rows, and how often each of other rows would find it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from datasets.errors import DataError
from datasets.homes import Array

DENSE = 1 << 22  # combinations up to which every one has its count in a table; beyond, those that occur are searched


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Whole numbers from 0 to before `size`."""

    values: Array
    size: int


Columns: TypeAlias = Mapping[str, Column]


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """The counts of the combinations of some columns."""

    names: tuple[str, ...]
    key: Array | None  # [n_occurring]  sorted; None where `count` has every combination
    count: Array

    @classmethod
    def of(cls, columns: Columns, names: Sequence[str]) -> Tally:
        """Count the combinations of the columns of these names, one at least."""
        cells, key = combined(columns, names)
        if cells <= DENSE:
            return cls(tuple(names), None, np.bincount(key, minlength=cells))
        occurring, count = np.unique(key, return_counts=True)
        return cls(tuple(names), np.append(occurring, cells), np.append(count, 0))

    def find(self, columns: Columns) -> Array:
        """The count of each row's combination, by columns of the same names and sizes."""
        _, key = combined(columns, self.names)
        if self.key is None:
            return self.count[key]
        place = np.searchsorted(self.key, key)
        return np.where(self.key[place] == key, self.count[place], 0)


def combined(columns: Columns, names: Sequence[str]) -> tuple[int, Array]:
    """How many combinations there may be, and the number of each row's."""
    first, *others = (columns[name] for name in names)
    cells, key = first.size, first.values
    for column in others:
        cells, key = cells * column.size, key * column.size + column.values
    if cells >= 2**63:
        raise DataError(f"{' x '.join(names)}: {cells:,} combinations are too many to number; give fewer homes at once")
    return max(cells, 1), key
