"""Pattern counts: how many rules, and how many homes, agree with a candidate in some of its columns.

A rule <trigger, (state, act), action> has two devices, their types, and a relation of two halves: the state of the
trigger that sets it off and what is done to the action device. A pattern names the columns in which two rules agree.
What a home already does with this trigger, in this state, to devices of that type, is a pattern; so is how many homes
open a door to switch on a light.

Several patterns are counted at once. Those with a common prefix share the work, and a row whose prefix never occurs
needs no more: combinations are numbered column by column, the number of (a, b, c) being that of (number of (a, b), c)
among those that occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError
from datasets.homes import WORDS, Array, Homes, Mask, Relation, Rules, Words, distinct
from datasets.valid import ValidRules, typed_cells

DENSE = 1 << 19  # up to so many combinations numbers are in a table; beyond, they are searched for

Pattern: TypeAlias = tuple[str, ...]  # names of columns


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Whole numbers from 0 to before `size`."""

    values: Array
    size: int


Columns: TypeAlias = Mapping[str, Column]


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """The combinations of a pattern that occur, numbered from 1; 0 is any other one."""

    size: int  # of the last column
    table: Array | None  # [numbers before the last column, size]  flat; None where it would be large
    key: Array  # [n_occurring]  sorted positions in that table
    count: Array  # [n_occurring + 1]  rows by number; none of number 0

    @classmethod
    def of(cls, before: Array, n_before: int, column: Column) -> Level:
        """From the numbers of the same rows by the columns before."""
        place = before * column.size + column.values
        ordered = np.sort(place)  # `np.unique` hashes, which takes far longer
        first: Mask = np.diff(ordered, prepend=-1) != 0
        key = ordered[first]
        count = np.diff(np.flatnonzero(np.append(first, True)), prepend=0)  # begins with 0, for number 0
        table = None
        if n_before * column.size <= DENSE:
            table = np.zeros(n_before * column.size, dtype=np.int64)
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
class PatternCounts:
    """The combinations of several patterns in some rows."""

    levels: Mapping[Pattern, Level]  # of the patterns and of all their prefixes, which come before them

    @classmethod
    def of(cls, rows: Columns, patterns: Iterable[Pattern]) -> PatternCounts:
        """Count these rows; a pattern names one column at least."""
        levels: dict[Pattern, Level] = {}
        number: dict[Pattern, Array] = {(): _ones(rows)}
        for pattern in _prefixes(patterns):
            if pattern not in levels:
                before, column = pattern[:-1], rows[pattern[-1]]
                n_before = len(levels[before].count) if before else 2
                levels[pattern] = Level.of(number[before], n_before, column)
                number[pattern] = levels[pattern].find(number[before], column.values)
        return cls(levels)

    def find(self, rows: Columns) -> dict[Pattern, Array]:
        """For each pattern the number of each row's combination, by columns of the same names and sizes."""
        number: dict[Pattern, Array] = {(): _ones(rows)}
        for pattern, level in self.levels.items():
            number[pattern] = level.find(number[pattern[:-1]], rows[pattern[-1]].values)
        return number

    def only(self, patterns: Iterable[Pattern]) -> PatternCounts:
        """The same for some of the patterns."""
        kept = set(_prefixes(patterns))
        return PatternCounts({pattern: level for pattern, level in self.levels.items() if pattern in kept})

    def count(self, pattern: Pattern) -> Array:
        """How often each combination of a pattern occurs, by its number."""
        return self.levels[pattern].count

    def distinct(self, pattern: Pattern) -> Array:
        """How many values of a pattern's last column occur, by the number of the combination before it."""
        level = self.levels[pattern]
        return np.bincount(level.key // max(level.size, 1), minlength=len(self.count(pattern[:-1])))


def _prefixes(patterns: Iterable[Pattern]) -> list[Pattern]:
    """The first column of each pattern, its first two, and so on up to itself."""
    return [pattern[:end] for pattern in patterns for end in range(1, len(pattern) + 1)]


def _ones(rows: Columns) -> Array:
    """The number 1 for each row: before the first column all are equal."""
    return np.ones(len(next(iter(rows.values())).values), dtype=np.int64)


# Patterns among all homes, and the homes to compare with: those that own the type of the trigger, the action, or both.
OF_ALL_HOMES: tuple[tuple[Pattern, str], ...] = (
    (("trigger_type", "action_type", "relation"), "both"),
    (("trigger_type", "action_type", "state"), "both"),
    (("trigger_type", "action_type", "act"), "both"),
    (("trigger_type", "action_type"), "both"),
    (("trigger_type", "state"), "trigger"),
    (("trigger_type", "relation"), "trigger"),
    (("action_type", "act"), "action"),
    (("action_type", "relation"), "action"),
    (("relation",), "all"),
)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnReader:
    """Reads rules or candidates as columns."""

    n_types: int
    state: Column  # [n_relations]
    act: Column  # [n_relations]
    states: tuple[str, ...]  # the labels by number
    acts: tuple[str, ...]

    @classmethod
    def of(cls, types: Sequence[str], relations: Sequence[Relation]) -> ColumnReader:
        state, states = _encoded([relation.trigger for relation in relations])
        act, acts = _encoded([relation.action for relation in relations])
        return cls(len(types), state, act, states, acts)

    @property
    def n_relations(self) -> int:
        return len(self.state.values)

    def columns(self, homes: Homes, rules: Rules) -> Columns:
        """All columns that a pattern may name, of rules of these homes."""
        trigger_type, relation, action_type = homes.typed(rules)
        return {"home": Column(rules.home, homes.n_homes), **self.typed(trigger_type, relation, action_type)}

    def typed(self, trigger_type: Array, relation: Array, action_type: Array) -> Columns:
        """The columns that do not distinguish homes."""
        return {
            "trigger_type": Column(trigger_type, self.n_types),
            "action_type": Column(action_type, self.n_types),
            "relation": Column(relation, self.n_relations),
            "state": Column(self.state.values[relation], self.state.size),
            "act": Column(self.act.values[relation], self.act.size),
        }


def _encoded(words: list[str]) -> tuple[Column, tuple[str, ...]]:
    """Equal words have equal numbers; and the words by number."""
    distinct = tuple(sorted(set(words)))
    number = {word: n for n, word in enumerate(distinct)}
    return Column(np.array([number[word] for word in words], dtype=np.int64), len(number)), distinct


PRIOR_HAVE, PRIOR_OWN = 0.3, 3.0  # added to both counts of a frequency: what no home has is rare and not impossible
PATTERNS = tuple(pattern for pattern, _ in OF_ALL_HOMES)
NAMES = (
    *(f"share of homes, same {', '.join(pattern)}" for pattern in PATTERNS),
    "homes with the typed rule",
    "homes that own both types",
)
OF_NAMES = (*PATTERNS, PATTERNS[0], PATTERNS[0])  # the pattern that decides whether a home counts for its candidates


@dataclass(frozen=True, slots=True, eq=False)
class HomeFrequencies:
    """Of the training homes that could have a rule like a candidate, how many have one.

    Rules are alike by a pattern of types and relation, so that the answer is the same for all candidates of one typed
    rule in any home. In training a home does not count for its own candidates: then one home less may have the
    pattern, and both answers are computed for each typed rule.
    """

    n_homes: int
    counts: PatternCounts
    have: tuple[Array, ...]  # for each of them the homes with a combination, by its number
    both: npt.NDArray[np.float64]  # [n_types, n_types]  homes that own devices of both types

    @classmethod
    def of(cls, train: Homes) -> HomeFrequencies:
        """Count; a home counts once for a combination, however many of its rules have it."""
        from baselines.items import homes_with_both  # imports SciPy, which recommending does without

        by_home = [(*pattern, "home") for pattern in PATTERNS]
        counts = PatternCounts.of(ColumnReader.of(train.types, train.relations).columns(train, train.rules), by_home)
        have = tuple(counts.distinct(pattern) for pattern in by_home)
        both = homes_with_both(train).reshape(len(train.types), len(train.types))
        return cls(train.n_homes, counts.only(PATTERNS), have, both)

    def table(self, reader: ColumnReader, cell: Array, *, less: int) -> npt.NDArray[np.float32]:
        """[n_names, 2, n_cells]: logarithms for typed rules, given as cells of the valid-rule tensor.

        First as counted, then with one home less that has each pattern; in both with `less` homes less that could.
        """
        trigger_type, action_type, relation = typed_cells(cell, reader.n_types, reader.n_relations)
        number = self.counts.find(reader.typed(trigger_type, relation, action_type))
        # Below 0 only for types that no home owns, which has no candidates then.
        both, owners = np.maximum(self.both - less, 0), np.maximum(np.diag(self.both) - less, 0)
        could: dict[str, npt.NDArray[np.float64]] = {
            "both": both[trigger_type, action_type],
            "trigger": owners[trigger_type],
            "action": owners[action_type],
            "all": np.full(len(cell), float(self.n_homes - less)),
        }
        table = np.empty((len(NAMES), 2, len(cell)), dtype=np.float32)
        for at, ((pattern, owners_of), by_number) in enumerate(zip(OF_ALL_HOMES, self.have, strict=True)):
            have = by_number[number[pattern]]
            have = np.stack([have, np.maximum(have - 1, 0)])
            table[at] = np.log((have + PRIOR_HAVE) / (could[owners_of] + PRIOR_OWN))
            if at == 0:
                table[-2] = np.log1p(have)
        table[-1] = np.log1p(could["both"])
        return table


ROOMS = ("named_types", "shared_types", "named_rule", "shared_rule")  # the columns of `RoomCounts`
TOGETHER = ("data", "indices", "indptr")  # of the sparse matrix of typed rules that homes have together
PRIOR_SHARED, PRIOR_NAMED = 0.5, 2.0  # added to both counts of a share


@dataclass(frozen=True, slots=True, eq=False)
class RoomCounts:
    """How far homes keep rules in one room: of those with a rule between devices that have words, how many share one.

    Rules are alike by their two types, or by the whole typed rule. A home adds zeros and ones.
    """

    valid: ValidRules
    named_types: Array  # [n_types ** 2]  homes with a rule from a type to a type between devices with words
    shared_types: Array  # [n_types ** 2]  and one of them between devices that share a word
    named_rule: Array  # [n_valid]  the same for typed rules
    shared_rule: Array  # [n_valid]

    @classmethod
    def of(cls, homes: Homes, valid: ValidRules) -> RoomCounts:
        """What these homes add; their rules are among the valid ones."""
        pairs, items = valid.n_types**2, len(valid)
        nobody = cls(valid, *(np.zeros(size, dtype=np.int64) for size in (pairs, pairs, items, items)))
        if homes.words is None:
            return nobody
        named, shared = (homes.rules.take(which) for which in _named_and_shared(homes))
        numbers = nobody._numbers(homes, named, shared)
        counted = zip(numbers, nobody.columns, (named, shared, named, shared), strict=True)
        return cls(valid, *(homes_with(own, len(none), rules.home, homes.n_homes) for own, none, rules in counted))

    @classmethod
    def of_each_home(cls, homes: Homes, valid: ValidRules) -> list[tuple[Array, Array]]:
        """For each column, which home adds to which place; some repeatedly, and -1 for rules that are not valid."""
        nobody = cls(valid, *(np.zeros(0, dtype=np.int64) for _ in range(4)))
        named, shared = (homes.rules.take(which) for which in _named_and_shared(homes))
        numbers = nobody._numbers(homes, named, shared)
        return [(r.home, number) for r, number in zip((named, shared, named, shared), numbers, strict=True)]

    def __add__(self, other: RoomCounts) -> RoomCounts:
        columns = zip(self.columns, other.columns, strict=True)
        return RoomCounts(self.valid, *(a + b for a, b in columns))

    @property
    def columns(self) -> tuple[Array, Array, Array, Array]:
        return self.named_types, self.shared_types, self.named_rule, self.shared_rule

    @property
    def any(self) -> bool:
        """Whether any home has words, as far as rules show it."""
        return bool(self.named_types.any())

    def log_shares(
        self, homes: Homes, candidates: Rules, item: Array, *, leave_out: Homes | None = None
    ) -> npt.NDArray[np.float32]:
        """[n_candidates, 2]: by types and by typed rule, whose number is `item`, -1 for one that no home has."""
        trigger_type, _, action_type = homes.typed(candidates)
        pair = trigger_type * self.valid.n_types + action_type
        numbers = (pair, pair, item, item)
        found = [
            np.append(column, 0)[number].astype(np.float64)
            for column, number in zip(self.columns, numbers, strict=True)
        ]
        if leave_out is not None and leave_out.words is not None:
            named, shared = (leave_out.rules.take(which) for which in _named_and_shared(leave_out))
            for counted, number, rules, own in zip(
                found, numbers, (named, shared, named, shared), self._numbers(leave_out, named, shared), strict=True
            ):
                size = len(self.valid) + self.valid.n_types**2 + 1
                counted -= np.isin(candidates.home * size + number, rules.home * size + own)
        return _log_share(*found)

    def _numbers(self, homes: Homes, named: Rules, shared: Rules) -> tuple[Array, Array, Array, Array]:
        """What rules are counted by in each of the columns."""
        pairs, items = [], []
        for rules in (named, shared):
            trigger_type, relation, action_type = homes.typed(rules)
            pairs.append(trigger_type * self.valid.n_types + action_type)
            items.append(self.valid.number(trigger_type, action_type, relation))
        return pairs[0], pairs[1], items[0], items[1]

    def log_shares_of_valid(self) -> npt.NDArray[np.float32]:
        """[n_valid, 2]: the same for every valid rule."""
        pair = self.valid.cell // max(self.valid.n_relations, 1)
        return _log_share(self.named_types[pair], self.shared_types[pair], self.named_rule, self.shared_rule)


def _log_share(*counted: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    named_types, shared_types, named_rule, shared_rule = counted
    of_types = np.log((shared_types + PRIOR_SHARED) / (named_types + PRIOR_NAMED))
    of_rule = np.log((shared_rule + PRIOR_SHARED) / (named_rule + PRIOR_NAMED))
    return np.stack([of_types, of_rule], axis=1).astype(np.float32)


def _named_and_shared(homes: Homes) -> tuple[Mask, Mask]:
    """Which rules are between two different devices that have words, and which of these share one.

    A word of all devices of the home says nothing and does not count.
    """
    if homes.words is not None:
        words, home = homes.words, homes.device_home[homes.words.device]
        _, place, many = np.unique(home * WORDS + words.word, return_inverse=True, return_counts=True)
        some = many[place] < np.diff(homes.device_start)[home]
        homes = replace(homes, words=Words(words.device[some], words.word[some]))
    rules, has = homes.rules, np.diff(homes.word_start) > 0
    named = has[rules.trigger] & has[rules.action] & (rules.trigger != rules.action)
    return named, named & homes.share_word(rules.trigger, rules.action)


def homes_with(number: Array, n_numbers: int, home: Array, n_homes: int) -> Array:
    """[n_numbers]: how many homes have a rule of each number, given the number and the home of each rule."""
    each = distinct(number * max(n_homes, 1) + home)
    return np.bincount(each // max(n_homes, 1), minlength=n_numbers)


MOST_RELATIONS = 8_000  # that evidence relates with each other: 768 MB


@dataclass(frozen=True, eq=False)
class CompanionCounts:
    """How many homes have two relations in common: on a pair of devices, of a trigger, or of an action.

    A home that switches a lamp on when a door opens mostly switches it off when the door closes. On a pair of devices
    this is counted by their types as well. A home adds zeros and ones.

    Cells are those of a flat table [3, n_relations, n_relations], and behind it of a table [n] ** 2 for each pair of
    types with n valid rules. Its diagonals count homes with a relation.
    """

    valid: ValidRules
    cell: Array  # [n]  sorted; what occurs
    homes: Array  # [n]  how many have it

    @classmethod
    def of(cls, homes: Homes, valid: ValidRules) -> CompanionCounts:
        """What these homes add; their rules are among the valid ones."""
        return cls(valid, *np.unique(companion_cells(homes, valid)[1], return_counts=True))

    def __add__(self, other: CompanionCounts) -> CompanionCounts:
        cell, place = np.unique(np.concatenate([self.cell, other.cell]), return_inverse=True)
        many = np.bincount(place, np.concatenate([self.homes, other.homes]), len(cell))
        return CompanionCounts(self.valid, cell, many.astype(np.int64))

    @cached_property
    def tables(self) -> tuple[npt.NDArray[np.float32], Array, npt.NDArray[np.float32]]:
        """The table [3, n_relations, n_relations]; where each pair of types begins in the other, and that one."""
        n_relations, start = self.valid.n_relations, typed_start(self.valid)
        if n_relations > MOST_RELATIONS:
            raise DataError(
                f"evidence of {n_relations:,} relations, more than {MOST_RELATIONS:,}, would not fit into memory; "
                "use a method without evidence, e.g. graphrule, or fewer relations"
            )
        first = 3 * n_relations**2
        table = np.zeros(first + int(start[-1]), dtype=np.float32)
        table[self.cell] = self.homes
        return table[:first].reshape(3, n_relations, n_relations), start, table[first:]

    def moved(self, valid: ValidRules, item: Array) -> CompanionCounts:
        """The same in a larger vocabulary; `item` is the place of each valid rule among those of `valid`."""
        fewer, more = self.valid.n_relations, valid.n_relations
        typed = self.cell >= 3 * fewer**2
        rest, other = np.divmod(self.cell[~typed], max(fewer, 1))
        what, one = np.divmod(rest, max(fewer, 1))
        start = typed_start(self.valid)
        pair = np.searchsorted(start, self.cell[typed] - 3 * fewer**2, side="right") - 1
        within, size = self.cell[typed] - 3 * fewer**2 - start[pair], np.diff(self.valid.start)[pair]
        first, second = (item[self.valid.start[pair] + place] for place in np.divmod(within, size))
        cell = np.concatenate([(what * more + one) * more + other, typed_companion_cells(valid, first, second)])
        order = np.argsort(cell)
        return CompanionCounts(valid, cell[order], np.concatenate([self.homes[~typed], self.homes[typed]])[order])

    @property
    def n_cells(self) -> int:
        return 3 * self.valid.n_relations**2 + int(typed_start(self.valid)[-1])


def typed_start(valid: ValidRules) -> Array:
    """[n_types ** 2 + 1]: where the table of each pair of types begins."""
    return np.concatenate([[0], np.cumsum(np.diff(valid.start) ** 2)])


def typed_companion_cells(valid: ValidRules, one: Array, other: Array) -> Array:
    """The cells of two valid rules of the same types."""
    pair = valid.cell[one] // max(valid.n_relations, 1)
    low, size = valid.start[pair], np.diff(valid.start)[pair]
    return np.asarray(3 * valid.n_relations**2 + typed_start(valid)[pair] + (one - low) * size + other - low)


def companion_cells(homes: Homes, valid: ValidRules) -> tuple[Array, Array]:
    """Homes, sorted, and the cells that each has, sorted and each once."""
    rules, n_relations = homes.rules, len(homes.relations)
    trigger_type, relation, action_type = homes.typed()
    item = valid.number(trigger_type, action_type, relation)
    size = 3 * n_relations**2 + int(typed_start(valid)[-1])
    found = [np.zeros(0, dtype=np.int64)]
    for what, device in enumerate((rules.trigger * homes.n_devices + rules.action, rules.trigger, rules.action)):
        order = np.argsort(device, kind="stable")
        run_start = np.flatnonzero(np.diff(device[order], prepend=-1))
        length = np.diff(np.append(run_start, len(order)))
        # Every rule of a run beside every one of the same run.
        many = np.repeat(length, length)
        one = np.repeat(order, many)
        within = np.arange(len(one)) - np.repeat(np.cumsum(many) - many, many)
        other = order[np.repeat(np.repeat(run_start, length), many) + within]
        cell = (what * n_relations + relation[one]) * n_relations + relation[other]
        found.append(distinct(rules.home[one] * size + cell))
        if what == 0:
            valid_rules = (item[one] >= 0) & (item[other] >= 0)
            one, other = one[valid_rules], other[valid_rules]
            cell = typed_companion_cells(valid, item[one], item[other])
            found.append(distinct(rules.home[one] * size + cell))
    every = np.sort(np.concatenate(found))
    return every // max(size, 1), every % max(size, 1)
