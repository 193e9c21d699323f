"""How often combinations of values occur in some rows, and how often each of other rows would find its own there.

Several choices of columns are counted at once. Those that begin alike share the work, and a row whose beginning never
occurs is done with: combinations are numbered column by column, the new number of (a, b, c) being that of
(number of (a, b), c) among those that occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from datasets.homes import Array, Mask

DENSE = 1 << 19  # combinations up to which each has its number in a table; beyond, those that occur are searched

Pattern: TypeAlias = tuple[str, ...]  # names of columns


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Whole numbers from 0 to before `size`."""

    values: Array
    size: int


Columns: TypeAlias = Mapping[str, Column]


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """The combinations of a pattern that occur, numbered from 1; 0 is any other."""

    size: int  # of the last column
    table: Array | None  # [numbers before the last column, size]  flat; None where it would be large
    key: Array  # [n_occurring]  sorted places in that table
    count: Array  # [n_occurring + 1]  rows by number; none of number 0

    @classmethod
    def of(cls, before: Array, many_before: int, column: Column) -> Level:
        """Beneath the numbers that the columns before have given to the same rows."""
        place = before * column.size + column.values
        ordered = np.sort(place)  # `np.unique` hashes, which takes far longer
        first: Mask = np.diff(ordered, prepend=-1) != 0
        key = ordered[first]
        count = np.diff(np.flatnonzero(np.append(first, True)), prepend=0)  # begins with 0, for number 0
        table = None
        if many_before * column.size <= DENSE:
            table = np.zeros(many_before * column.size, dtype=np.int64)
            table[key] = np.arange(1, len(key) + 1)
        return cls(column.size, table, key, count)

    def find(self, before: Array, values: Array) -> Array:
        """The number of each row, given that of the columns before, which is 0 where these never occur."""
        if self.table is not None:
            return np.asarray(self.table[before * self.size + values])
        number = np.zeros(len(before), dtype=np.int64)
        some = np.flatnonzero(before)
        place = before[some] * self.size + values[some]
        found = np.searchsorted(self.key, place)
        number[some] = np.where(np.append(self.key, -1)[found] == place, found + 1, 0)
        return number


@dataclass(frozen=True, slots=True, eq=False)
class Tallies:
    """The combinations of several patterns in some rows."""

    levels: Mapping[Pattern, Level]  # of the patterns and of all that they begin with, which comes before them

    @classmethod
    def of(cls, rows: Columns, patterns: Iterable[Pattern]) -> Tallies:
        """Count what these rows have; a pattern names one column at least."""
        levels: dict[Pattern, Level] = {}
        number: dict[Pattern, Array] = {(): _all_alike(rows)}
        for pattern in _beginnings(patterns):
            if pattern not in levels:
                before, column = pattern[:-1], rows[pattern[-1]]
                many_before = len(levels[before].count) if before else 2
                levels[pattern] = Level.of(number[before], many_before, column)
                number[pattern] = levels[pattern].find(number[before], column.values)
        return cls(levels)

    def find(self, rows: Columns) -> dict[Pattern, Array]:
        """For each pattern the number of each row's combination, by columns of the same names and sizes."""
        number: dict[Pattern, Array] = {(): _all_alike(rows)}
        for pattern, level in self.levels.items():
            number[pattern] = level.find(number[pattern[:-1]], rows[pattern[-1]].values)
        return number

    def only(self, patterns: Iterable[Pattern]) -> Tallies:
        """The same for some of the patterns."""
        kept = set(_beginnings(patterns))
        return Tallies({pattern: level for pattern, level in self.levels.items() if pattern in kept})

    def count(self, pattern: Pattern) -> Array:
        """How often each combination of a pattern occurs, by its number."""
        return self.levels[pattern].count

    def distinct(self, pattern: Pattern) -> Array:
        """How many values of a pattern's last column occur, by the number of the combination before it."""
        level = self.levels[pattern]
        return np.bincount(level.key // max(level.size, 1), minlength=len(self.count(pattern[:-1])))


def _beginnings(patterns: Iterable[Pattern]) -> list[Pattern]:
    """The first column of each pattern, its first two, and so on to itself."""
    return [pattern[:end] for pattern in patterns for end in range(1, len(pattern) + 1)]


def _all_alike(rows: Columns) -> Array:
    """The number 1 for each row: before the first column they do not differ."""
    return np.ones(len(next(iter(rows.values())).values), dtype=np.int64)
