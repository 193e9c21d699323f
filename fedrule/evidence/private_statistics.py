"""The sums of `fedrule.evidence.statistics` with differential privacy: bounded addends, noise, and consistency again.

There are two sums as before. First homes by typed rule, over all cells of types x types x relations, which are public;
the cells whose noisy counts pass a threshold are the valid rules, and are sent to all. Then the rest. Every part of a
home's addend is scaled down to the L2 norm of `BOUNDS`, which one home more or less can change the part by:

    part          a home adds                                                       full up to
    rules         1 for each typed rule                                             2 rules
    pairs         1 for each two typed rules                                        2 rules
    patterns      1 for each combination of each pattern but the first              16 combinations
    companions    1 for each two relations in common of two devices or of one       4
    types         1 for each two types owned, and each type                         3 types
    rooms         1 for each pair of types and typed rule in one room, or could be  4
    self_rules    1 for each typed rule of a device with itself                     1

Parts with noise multipliers z_p disclose together as much as one sum with 1 / z^2 = sum of 1 / z_p^2; SHARES are the
parts' shares of that. What the parts imply of each other is used after the noise, which costs nothing: a combination
has at least as many homes as each of its rules, and at most as many as all of them.

Homes do not leave themselves out of such sums. Counts without noise show a home its own rules, which it then would
learn to repeat; here that is just what the noise hides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from baselines.items import Items
from datasets import private_counts
from datasets.common.gaussian_mechanism import Cells, Normals, bounded_rows, shared
from datasets.homes import Array, Homes
from datasets.private_counts import NoisySum, Vocabulary, column_sums, ones, valid_rules
from datasets.valid import ValidRules
from fedrule.evidence.counts import (
    PATTERNS,
    ColumnReader,
    CompanionCounts,
    PatternCounts,
    RoomCounts,
    companion_cells,
    typed_start,
)
from fedrule.evidence.statistics import Statistics

MAX_RULES = 2
BOUNDS = {
    "rules": private_counts.rule_bound(MAX_RULES),
    "pairs": private_counts.pair_bound(MAX_RULES),
    "patterns": 4.0,
    "companions": 2.0,
    "types": private_counts.type_bound(),
    "rooms": 2.0,
    "self_rules": 1.0,
}
SHARES = {
    "rules": 0.4,
    "pairs": 0.2,
    "patterns": 0.15,
    "companions": 0.15,
    "types": 0.05,
    "rooms": 0.04,
    "self_rules": 0.01,
}
RIDGE = 10  # added to the diagonal of pairs, in standard deviations of their noise: EASE counts the diagonal twice


def multipliers(total: float) -> dict[str, float]:
    """The noise multiplier of each part, where all of them together disclose as much as one sum with `total`."""
    return dict(zip(SHARES, shared(total, SHARES.values()), strict=True))


def sum_of_rules(homes: Homes) -> Cells:
    """What these homes add to the first sum."""
    return private_counts.sum_of_rules(homes, max_rules=MAX_RULES)


def noisy_rules(total: Cells, multiplier: float, normals: Normals) -> NoisySum:
    """The first sum as it is released; `multiplier` is that of all parts together."""
    return NoisySum.of(total, BOUNDS["rules"], multipliers(multiplier)["rules"], normals)


@dataclass(frozen=True, slots=True, eq=False)
class BoundedSums:
    """A sum over some homes by part, exact in multiples of 2^-30; `+` makes that of both. Not to be released."""

    parts: dict[str, Cells]

    @classmethod
    def of(
        cls, homes: Homes, valid: ValidRules, *, all_patterns: bool = True, always_rooms: bool = False
    ) -> BoundedSums:
        """What these homes add to the second sum.

        With `always_rooms` also zeros where they have no words, as those of others may.
        """
        tables: dict[str, Callable[[], Cells]] = {
            "pairs": lambda: private_counts.sum_of_pairs(Items(valid).matrix(homes), bound=BOUNDS["pairs"]),
            "patterns": lambda: _bounded(_patterns(homes, valid), "patterns"),
            "companions": lambda: _bounded(_companions(homes, valid), "companions"),
            "types": lambda: private_counts.sum_of_pairs(
                private_counts.owned_types(homes), bound=BOUNDS["types"], diagonal=True
            ),
            "rooms": lambda: _bounded(_rooms(homes, valid), "rooms"),
            "self_rules": lambda: _bounded(_self_rules(homes, valid), "self_rules"),
        }
        wanted = [*tables] if all_patterns else ["types", "self_rules"]
        if homes.words is None and not always_rooms:  # as all homes of the data have none, which is not a secret
            wanted = [name for name in wanted if name != "rooms"]
        return cls({name: tables[name]() for name in wanted})

    def __add__(self, other: BoundedSums) -> BoundedSums:
        return BoundedSums({name: part + other.parts[name] for name, part in self.parts.items()})

    def noisy(self, multiplier: float, normals: Normals) -> dict[str, NoisySum]:
        """What is released, in the order of SHARES; `multiplier` is that of all parts together."""
        each = multipliers(multiplier)
        return {name: NoisySum.of(self.parts[name], BOUNDS[name], each[name], normals) for name in _ordered(self.parts)}

    def with_share_of_noise(self, multiplier: float, *, threshold: int, normals: Normals) -> Array:
        """The same where nobody adds all of the noise: what a member adds to a secure sum."""
        each = multipliers(multiplier)
        return np.concatenate(
            [
                private_counts.with_share_of_noise(
                    self.parts[name], BOUNDS[name], each[name], threshold=threshold, normals=normals
                )
                for name in _ordered(self.parts)
            ]
        )


def of_shares(
    integers: Array, sizes: Mapping[str, int], multiplier: float, *, members: int, threshold: int
) -> dict[str, NoisySum]:
    """A secure sum of what so many members added (`with_share_of_noise`), with parts of these sizes."""
    each, order = multipliers(multiplier), _ordered(sizes)
    parts = np.split(integers, np.cumsum([sizes[name] for name in order])[:-1])
    return {
        name: NoisySum.of_shares(part, BOUNDS[name], each[name], members=members, threshold=threshold)
        for name, part in zip(order, parts, strict=True)
    }


def sizes_of(vocabulary: Vocabulary, valid: ValidRules, *, all_patterns: bool, rooms: bool) -> dict[str, int]:
    """How many cells the parts of the second sum have."""
    nobody = Statistics.of_nobody(vocabulary.types, vocabulary.relations, valid, all_patterns=all_patterns)
    n_types, n_valid = valid.n_types, len(valid)
    sizes = {"types": n_types * (n_types + 1) // 2, "self_rules": n_valid}
    if all_patterns:
        sizes["pairs"] = n_valid * (n_valid - 1) // 2
        sizes["patterns"] = sum(len(none) - 1 for none in nobody.have[1:])
        sizes["companions"] = len(upper_companion_cells(valid))
        if rooms:
            sizes["rooms"] = 2 * (n_types**2 + n_valid)
    return sizes


def _ordered(names: Iterable[str]) -> list[str]:
    return sorted(names, key=[*SHARES].index)


def private_statistics(homes: Homes, *, multiplier: float, normals: Normals, all_patterns: bool = True) -> Statistics:
    """Both sums over all homes of a simulation, and the statistics of them."""
    rules = noisy_rules(sum_of_rules(homes), multiplier, normals)
    valid = valid_rules(rules, homes)
    sums = BoundedSums.of(homes, valid, all_patterns=all_patterns)
    return statistics(homes, valid, rules, sums.noisy(multiplier, normals), n_homes=homes.n_homes)


def statistics(
    vocabulary: Vocabulary,
    valid: ValidRules,
    rules: NoisySum,
    noisy: dict[str, NoisySum],
    *,
    n_homes: int,  # taken as known to everybody
) -> Statistics:
    """What methods use, made of what was released and nothing else."""
    nobody = Statistics.of_nobody(vocabulary.types, vocabulary.relations, valid, all_patterns="patterns" in noisy)
    rule = np.maximum(np.round(rules.values[valid.cell]), 1).astype(np.int64)  # [n_valid]
    have = [np.append(0, rule)]
    sizes = [len(none) - 1 for none in nobody.have[1:]]
    parts = np.split(noisy["patterns"].values, np.cumsum(sizes)[:-1]) if sizes else []
    for number, size, part in zip(nobody.numbers[1:], sizes, parts, strict=True):
        least, most = np.zeros(size), np.zeros(size)
        np.maximum.at(least, number - 1, rule)
        np.add.at(most, number - 1, rule)
        have.append(np.append(0, np.round(np.clip(part, least, most)).astype(np.int64)))
    both = private_counts.symmetric(noisy["types"].values, valid.n_types)
    trigger_type, action_type, _ = valid.typed()
    least_both = np.ones_like(both)
    np.maximum.at(least_both, (trigger_type, action_type), rule)
    both = np.clip(np.round(both), np.maximum(least_both, least_both.T), max(n_homes, 1)).ravel()
    alone = np.minimum(noisy["self_rules"].above(private_counts.VALID_AT), rule).astype(np.int64)
    return Statistics(
        valid,
        nobody.patterns,
        nobody.numbers,
        n_homes,
        both,
        tuple(have),
        alone,
        _room_counts(valid, noisy["rooms"]) if "rooms" in noisy else nobody.rooms,
        _companion_counts(valid, noisy["companions"], rule) if "companions" in noisy else nobody.companions,
        _together(noisy["pairs"], rule) if "pairs" in noisy else None,
        nobody.reader,
        noisy=True,
    )


def _bounded(table: csr_array, part: str) -> Cells:
    return column_sums(bounded_rows(table, BOUNDS[part]))


def _patterns(homes: Homes, valid: ValidRules) -> csr_array:
    """[n_homes, n_combinations]: of all patterns but the first; combinations that no valid rule has do not count."""
    reader = ColumnReader.of(homes.types, homes.relations)
    trigger_type, action_type, relation = valid.typed()
    patterns = PatternCounts.of(reader.typed(trigger_type, relation, action_type), PATTERNS)
    found = patterns.find(reader.columns(homes, homes.rules))
    sizes = [len(patterns.count(pattern)) - 1 for pattern in PATTERNS[1:]]
    begin = np.cumsum([0, *sizes])
    number = np.stack([found[pattern] for pattern in PATTERNS[1:]])  # [n_patterns, n_rules]
    home = np.broadcast_to(homes.rules.home, number.shape)
    known = number > 0
    return ones(home[known], (number - 1 + begin[:-1, None])[known], (homes.n_homes, int(begin[-1])))


def _rooms(homes: Homes, valid: ValidRules) -> csr_array:
    """[n_homes, 2 * (n_types ** 2 + n_valid)]: the columns of `RoomCounts`."""
    begin = np.cumsum([0, valid.n_types**2, valid.n_types**2, len(valid), len(valid)])
    columns = RoomCounts.of_each_home(homes, valid)
    home = np.concatenate([at[number >= 0] for at, number in columns])
    cell = np.concatenate([first + n[n >= 0] for first, (_, n) in zip(begin, columns, strict=False)])
    return ones(home, cell, (homes.n_homes, int(begin[-1])))


def _self_rules(homes: Homes, valid: ValidRules) -> csr_array:
    """[n_homes, n_valid]"""
    alone = homes.rules.trigger == homes.rules.action
    trigger_type, relation, action_type = (column[alone] for column in homes.typed())
    item = valid.number(trigger_type, action_type, relation)
    return ones(homes.rules.home[alone][item >= 0], item[item >= 0], (homes.n_homes, len(valid)))


def _companions(homes: Homes, valid: ValidRules) -> csr_array:
    """[n_homes, n_upper]: the cells of `CompanionCounts` above the diagonals, which are counts of rules again."""
    home, cell = companion_cells(homes, valid)
    upper = upper_companion_cells(valid)
    place = np.searchsorted(upper, cell)
    found = np.append(upper, -1)[place] == cell
    return ones(home[found], place[found], (homes.n_homes, len(upper)))


def upper_companion_cells(valid: ValidRules) -> Array:
    """Cells of two different relations, or typed rules, the smaller number first; sorted."""
    n, start, first = valid.n_relations, typed_start(valid), 3 * valid.n_relations**2
    one, other = np.triu_indices(n, 1)
    cells = [np.zeros(0, dtype=np.int64), *(what * n * n + one * n + other for what in range(3))]
    for begin, size in zip(start.tolist(), np.diff(valid.start).tolist(), strict=False):
        one, other = np.triu_indices(size, 1)
        cells.append(first + begin + one * size + other)
    return np.concatenate(cells)


def mirrored_companion_cells(valid: ValidRules, cell: Array) -> Array:
    """The cells of the same two, the other one first."""
    n, start, first = max(valid.n_relations, 1), typed_start(valid), 3 * valid.n_relations**2
    what, place = np.divmod(cell, n * n)
    plain = what * n * n + place % n * n + place // n
    pair = np.minimum(np.searchsorted(start, cell - first, side="right") - 1, len(start) - 2)
    size = np.maximum(np.diff(valid.start)[pair], 1)
    one, other = np.divmod(cell - first - start[pair], size)
    return np.asarray(np.where(cell < first, plain, first + start[pair] + other * size + one))


def _companion_counts(valid: ValidRules, noisy: NoisySum, rule: Array) -> CompanionCounts:
    """Both halves, and the diagonals, which are not released: the homes of a relation's typed rules, added up."""
    upper, many = upper_companion_cells(valid), noisy.above(private_counts.SEEN_AT).astype(np.int64)
    upper, many = upper[many > 0], many[many > 0]
    n, first = valid.n_relations, 3 * valid.n_relations**2
    relation = np.zeros(n, dtype=np.int64)
    np.add.at(relation, valid.relation, rule)
    used = np.flatnonzero(relation)
    diagonals = [what * n * n + used * (n + 1) for what in range(3)]
    pair = valid.cell // max(n, 1)
    within, size = np.arange(len(valid)) - valid.start[pair], np.diff(valid.start)[pair]
    diagonals.append(first + typed_start(valid)[pair] + within * (size + 1))
    cell = np.concatenate([upper, mirrored_companion_cells(valid, upper), *diagonals])
    homes = np.concatenate([many, many, *[relation[used]] * 3, rule])
    order = np.argsort(cell)
    return CompanionCounts(valid, cell[order], homes[order])


def _room_counts(valid: ValidRules, noisy: NoisySum) -> RoomCounts:
    """Nothing where the noise would explain it; no more homes share a room than could."""
    ends = np.cumsum([valid.n_types**2, valid.n_types**2, len(valid)])
    named_types, shared_types, named_rule, shared_rule = np.split(noisy.above(1.0).astype(np.int64), ends)
    return RoomCounts(
        valid, named_types, np.minimum(shared_types, named_types), named_rule, np.minimum(shared_rule, named_rule)
    )


def _together(noisy: NoisySum, rule: Array) -> csr_array:
    """X^T X without pairs that the noise would explain, none above its two rules, and with a larger diagonal."""
    ridge = math.ceil(RIDGE * noisy.deviation)
    matrix = private_counts.symmetric(noisy.above(private_counts.SEEN_AT), len(rule), diagonal=np.zeros(len(rule)))
    matrix = np.minimum(matrix, np.minimum(rule, rule[:, None]))
    matrix[np.diag_indices(len(rule))] = rule + ridge
    return csr_array(matrix.astype(np.int64))
