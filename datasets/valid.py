"""The valid-rule tensor: which relations were ever seen between devices of two entity types.

The paper (section 4.6) keeps a 3-dimensional boolean tensor [types, types, relations] and searches only its true
cells. Nearly all cells are false, so the true ones are kept as one run of relations per ordered pair of types.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError
from datasets.homes import Array, Homes, Mask, frozen, runs

DENSE_CELLS = 50_000_000  # 50 MB of booleans; the 178 services and 3,000 relations of IFTTT would be twice that
MOST_TYPES = 5_000  # `start` has an entry for every ordered pair of types: 200 MB


@dataclass(frozen=True, slots=True, eq=False)
class ValidRules:
    """The (trigger type, action type, relation) triples that some home has, as sorted cells of the flat tensor."""

    n_types: int
    n_relations: int
    cell: Array  # [n_valid]  (trigger type * n_types + action type) * n_relations + relation, sorted
    start: Array  # [n_types ** 2 + 1]  where the run of each ordered pair of types begins in `cell`
    relation: Array  # [n_valid]

    @classmethod
    def of(cls, homes: Homes) -> ValidRules:
        """Every triple among the rules of these homes; use training data only, or hidden rules leak."""
        n_types, n_relations = len(homes.types), len(homes.relations)
        if n_types > MOST_TYPES:
            raise DataError(
                f"{homes.name}: valid rules of {n_types:,} entity types, more than {MOST_TYPES:,}, would not fit into "
                "memory; use fewer types, e.g. a device's kind instead of its model"
            )
        return cls.of_cells(n_types, n_relations, np.unique(cells_of(homes)))

    @classmethod
    def of_cells(cls, n_types: int, n_relations: int, cell: Array) -> ValidRules:
        """From the numbers of the true cells, sorted."""
        start = np.searchsorted(cell, np.arange(n_types**2 + 1) * n_relations)
        return cls(n_types, n_relations, frozen(cell), frozen(start), frozen(cell % max(n_relations, 1)))

    def typed(self) -> tuple[Array, Array, Array]:
        """[n_valid] each: trigger type, action type and relation of the valid triples."""
        return typed_cells(self.cell, self.n_types, self.n_relations)

    def __len__(self) -> int:
        """How many triples are valid."""
        return len(self.cell)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the tensor: [types, types, relations]."""
        return self.n_types, self.n_types, self.n_relations

    def contains(self, trigger_type: npt.ArrayLike, action_type: npt.ArrayLike, relation: npt.ArrayLike) -> Mask:
        """Whether each triple is valid; the three broadcast against each other."""
        return self.number(trigger_type, action_type, relation) >= 0

    def number(self, trigger_type: npt.ArrayLike, action_type: npt.ArrayLike, relation: npt.ArrayLike) -> Array:
        """The place of each triple among the valid ones, -1 for one that is not."""
        relation = self._within(relation, self.n_relations, "relation")
        return self.number_of_cells(np.asarray(self._pair(trigger_type, action_type) * self.n_relations + relation))

    def number_of_cells(self, cell: Array) -> Array:
        """The place of each cell of the flat tensor among the valid ones, -1 for one that is not."""
        place = self.cell.searchsorted(cell)
        if not len(self.cell):
            return np.full_like(cell, -1)
        found = self.cell[np.minimum(place, len(self.cell) - 1)] == cell
        return np.where(found, place, -1)

    def relations_of(self, trigger_type: int, action_type: int) -> Array:
        """The relations seen from one type to another, sorted."""
        pair = int(self._pair(trigger_type, action_type))
        return self.relation[self.start[pair] : self.start[pair + 1]]

    def how_many(self, trigger_type: Array, action_type: Array) -> Array:
        """[n_pairs]: how many relations are valid from each type to each other."""
        pair = self._pair(trigger_type, action_type)
        return self.start[pair + 1] - self.start[pair]

    def of_pairs(self, trigger_type: Array, action_type: Array) -> tuple[Array, Array]:
        """Every valid triple of many pairs, pair after pair: the place of its pair, and its number among the valid."""
        pair = np.repeat(np.arange(len(trigger_type)), self.how_many(trigger_type, action_type))
        return pair, runs(self.start, self._pair(trigger_type, action_type))

    def dense(self) -> Mask:
        """The tensor itself [types, types, relations]; refused where it would be large."""
        if self.n_types**2 * self.n_relations > DENSE_CELLS:
            raise DataError(
                f"valid rules: a dense tensor of {' x '.join(map(str, self.shape))} has more than {DENSE_CELLS:,} "
                "cells; use `contains` or `relations_of` instead"
            )
        tensor = np.zeros(self.n_types**2 * self.n_relations, dtype=np.bool_)
        tensor[self.cell] = True
        return tensor.reshape(self.shape)

    def _pair(self, trigger_type: npt.ArrayLike, action_type: npt.ArrayLike) -> Array:
        trigger = self._within(trigger_type, self.n_types, "entity type")
        return np.asarray(trigger * self.n_types + self._within(action_type, self.n_types, "entity type"))

    def _within(self, values: npt.ArrayLike, bound: int, what: str) -> Array:
        """Out of bounds, a number would silently name a cell of another pair."""
        array = np.asarray(values, dtype=np.int64)
        if array.size and (array.min() < 0 or array.max() >= bound):
            raise DataError(f"valid rules: no {what} {int(array.min())}..{int(array.max())}; there are {bound}")
        return array


def cells_of(homes: Homes) -> Array:
    """[n_rules]: the cell of each rule in the flat tensor."""
    trigger_type, relation, action_type = homes.typed()
    return np.asarray((trigger_type * len(homes.types) + action_type) * len(homes.relations) + relation)


def typed_cells(cell: Array, n_types: int, n_relations: int) -> tuple[Array, Array, Array]:
    """Trigger type, action type and relation of cells of the flat tensor."""
    pair, relation = np.divmod(cell, max(n_relations, 1))
    trigger_type, action_type = np.divmod(pair, max(n_types, 1))
    return trigger_type, action_type, relation
