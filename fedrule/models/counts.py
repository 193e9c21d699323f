"""The counts over training homes that a model with evidence has in its file, checked; NumPy alone."""

from __future__ import annotations

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Array
from fedrule.evidence.counts import PATTERNS, ROOMS, CompanionCounts, PatternCounts, RoomCounts
from fedrule.models.file import SavedModel, checked_array


def pattern_counts(saved: SavedModel, patterns: PatternCounts) -> tuple[Array, ...]:
    """For each pattern the homes with a combination, by its number."""
    first = np.append(0, saved.arrays["counts.have"])
    others = enumerate(PATTERNS[1:], start=1)
    sizes = ((at, len(patterns.count(pattern))) for at, pattern in others)
    return first, *(_counted(saved, f"counts.patterns.{at}", (size,)) for at, size in sizes)


def room_counts(saved: SavedModel) -> RoomCounts:
    """How far homes keep rules in one room."""
    valid = saved.valid
    sizes = {name: valid.n_types**2 if "types" in name else len(valid) for name in ROOMS}
    return RoomCounts(valid, *(_counted(saved, f"counts.rooms.{name}", (size,)) for name, size in sizes.items()))


def companion_counts(saved: SavedModel) -> CompanionCounts:
    """How many homes have two relations in common."""
    cell = _counted(saved, "counts.companions.cell", None)
    many = _counted(saved, "counts.companions.homes", cell.shape)
    counted = CompanionCounts(saved.valid, cell, many)
    if np.any(cell[1:] <= cell[:-1]) or np.any(cell >= counted.n_cells):
        raise DataError("counts.companions.cell is not a sorted list of pairs of relations that the model has")
    return counted


def pairs_of_rules(saved: SavedModel) -> tuple[Array, Array, Array]:
    """Homes with both of two typed rules, as the rows of a sparse matrix: counts, columns, and where rows begin."""
    n_items = len(saved.valid)
    start = _counted(saved, "counts.together.indptr", (n_items + 1,))
    item = _counted(saved, "counts.together.indices", None)
    many = _counted(saved, "counts.together.data", item.shape)
    if start[0] != 0 or start[-1] != len(item) or np.any(np.diff(start) < 0) or np.any(item >= n_items):
        raise DataError("counts.together.indices has typed rules that the model does not have")
    row = np.repeat(np.arange(n_items), np.diff(start))
    if np.any(np.diff(row * n_items + item) <= 0):
        raise DataError("counts.together.indices has typed rules twice or out of order")
    return many, item, start


def _counted(saved: SavedModel, name: str, shape: tuple[int, ...] | None) -> Array:
    array: Array = checked_array(saved.arrays, name, shape, np.int64)
    if array.ndim != 1 or np.any(array < 0):
        raise DataError(f"{name} has values that are not counts")
    return array
