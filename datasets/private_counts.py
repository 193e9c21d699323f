"""Counts over homes with differential privacy: addends of bounded norm, Gaussian noise, and what makes them usable.

All of it is about add-or-remove-one-home neighbours. What may be counted is public: all cells of entity type x entity
type x relation, whether any home has them or not. Which of them are valid rules is decided by noisy counts. The
sensitivity of each sum, with x the 0/1 vector of the typed rules of a home and o that of the entity types it owns:

- rules: x, scaled down to an L2 norm of at most sqrt(m) for `max_rules` m: homes with up to m typed rules count fully;
- pairs of rules: x_i x_j for i < j, scaled down to at most sqrt(m (m - 1) / 2), again exact up to m rules;
- pairs of types: o_s o_t for s <= t, scaled down to at most sqrt(t (t + 1) / 2) for t = MAX_TYPES.

Scaling a home's addend never raises its norm above the bound, so adding or removing the home changes the sum by at most
the bound; sums without noise are exact, in multiples of GRID. Everything behind the noise is post-processing, which
discloses nothing more (Dwork and Roth 2014, proposition 2.1): rounding, a floor at zero, thresholds, repairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.sparse import coo_array, csr_array

from datasets.common.errors import DataError
from datasets.common.gaussian_mechanism import GRID, Cells, Normals, bounded_rows, bounding_factors, noise
from datasets.homes import Array, Homes, Relation
from datasets.valid import ValidRules, cells_of

MAX_TYPES = 3
MOST_CELLS = 50_000_000  # of noise: 400 MB
VALID_AT = 2.5  # a cell is a valid rule from so many standard deviations of its noise on
SEEN_AT = 3.0  # below so many, a count of two rules is taken as zero: nearly all pairs are


@dataclass(frozen=True, slots=True, eq=False)
class NoisySum:
    """A sum with noise, whose standard deviation is known to everybody."""

    values: Cells
    deviation: float

    @classmethod
    def of(cls, total: Cells, bound: float, multiplier: float, normals: Normals) -> NoisySum:
        """`total` has addends of at most this L2 norm."""
        if total.size > MOST_CELLS:
            raise DataError(
                f"private counts of {total.size:,} cells, more than {MOST_CELLS:,}, would be nothing but noise; use "
                "fewer entity types and relations"
            )
        return cls(total + noise(total.size, multiplier * bound, normals), multiplier * bound)

    @classmethod
    def of_shares(cls, integers: Array, bound: float, multiplier: float, *, members: int, threshold: int) -> NoisySum:
        """The sum of what `members` have made by `with_share_of_noise`, in multiples of GRID."""
        return cls(integers.astype(np.float64) * GRID, multiplier * bound * math.sqrt(members / threshold))

    def above(self, deviations: float) -> Cells:
        """Whole numbers; zero where the sum is below so many standard deviations of its noise."""
        return np.where(self.values >= deviations * self.deviation, np.maximum(np.round(self.values), 0.0), 0.0)


def with_share_of_noise(part: Cells, bound: float, multiplier: float, *, threshold: int, normals: Normals) -> Array:
    """What a member of a secure sum adds to it, in multiples of GRID: its part of the total, and of the noise.

    The noise of any `threshold` members, without which there is no sum, is as large as that of `NoisySum.of`.
    """
    added = noise(part.size, multiplier * bound / math.sqrt(threshold), normals)
    return np.round((part + added) / GRID).astype(np.int64)


def typed_rules(homes: Homes) -> csr_array:
    """[n_homes, n_types ** 2 * n_relations]: 1 where a home has the typed rule."""
    return ones(homes.rules.home, cells_of(homes), (homes.n_homes, len(homes.types) ** 2 * len(homes.relations)))


def owned_types(homes: Homes) -> csr_array:
    """[n_homes, n_types]: 1 where a home owns a device of the type."""
    return ones(homes.device_home, homes.device_type, (homes.n_homes, len(homes.types)))


def ones(row: Array, column: Array, shape: tuple[int, int]) -> csr_array:
    """1 at these places, however often each is given."""
    table = csr_array(coo_array((np.ones(len(row)), (row, column)), shape=shape))
    table.sum_duplicates()
    table.data[:] = 1.0
    return table


def column_sums(table: csr_array) -> Cells:
    """[n_columns], exact for addends on the grid."""
    return np.bincount(table.indices, table.data, minlength=table.shape[1]).astype(np.float64)


def rule_bound(max_rules: int) -> float:
    return math.sqrt(max_rules)


def pair_bound(count: int) -> float:
    """Of the pairs of so many things."""
    return math.sqrt(count * (count - 1) / 2)


def type_bound() -> float:
    return pair_bound(MAX_TYPES + 1)  # as many as pairs of different ones among one more


def sum_of_rules(homes: Homes, *, max_rules: int) -> Cells:
    """[n_types ** 2 * n_relations]: homes by typed rule; the addend of a home is at most `rule_bound`."""
    return column_sums(bounded_rows(typed_rules(homes), rule_bound(max_rules)))


def sum_of_pairs(have: csr_array, *, bound: float, diagonal: bool = False) -> Cells:
    """[n * (n - 1) / 2], or with the diagonal [n * (n + 1) / 2]: homes with two columns of `have` (zeros and ones).

    A home with k of them adds k (k - 1) / 2, or k (k + 1) / 2, ones, scaled down to an L2 norm of at most `bound`.
    """
    k = np.diff(have.indptr)
    factor = bounding_factors(np.sqrt(k * (k + 1) / 2 if diagonal else k * (k - 1) / 2), bound)
    scaled = csr_array((np.repeat(factor, k), have.indices, have.indptr), shape=have.shape)
    together = np.asarray((have.T @ scaled).todense())
    return together[np.triu_indices(have.shape[1], 0 if diagonal else 1)]


def symmetric(upper: Cells, size: int, *, diagonal: Cells | None = None) -> Cells:
    """The whole matrix from `sum_of_pairs`, which has a diagonal unless one is given."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size, 0 if diagonal is None else 1)] = upper
    matrix += np.triu(matrix, 1).T
    if diagonal is not None:
        matrix[np.diag_indices(size)] = diagonal
    return matrix


class Vocabulary(Protocol):
    """Whatever has names of types and relations, such as `Homes`, none of whose homes are read."""

    @property
    def types(self) -> tuple[str, ...]: ...

    @property
    def relations(self) -> tuple[Relation, ...]: ...


def valid_rules(counts: NoisySum, vocabulary: Vocabulary) -> ValidRules:
    """The cells whose noisy counts pass the threshold: of cells that no home has, 0.6 % do."""
    cell = np.flatnonzero(counts.above(VALID_AT)).astype(np.int64)
    return ValidRules.of_cells(len(vocabulary.types), len(vocabulary.relations), cell)


def positive_semidefinite(matrix: Cells) -> Cells:
    """The nearest symmetric matrix without negative eigenvalues, as every X^T X is."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
