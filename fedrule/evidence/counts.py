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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from baselines.items import homes_with_both
from datasets.homes import Array, Homes, Mask, Rules
from datasets.valid import typed_cells

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


# Patterns among the rules of one home. `place` is the action device counted within its home: with a trigger it says the
# same as `action`, in far fewer combinations.
OF_HOME: tuple[Pattern, ...] = (
    ("home",),
    ("home", "relation"),
    ("home", "state"),
    ("home", "act"),
    ("home", "trigger_type", "state"),
    ("home", "action_type", "act"),
    ("home", "trigger_type", "action_type"),
    ("home", "trigger_type", "relation"),
    ("home", "action_type", "relation"),
    ("home", "trigger_type", "action_type", "state"),
    ("home", "trigger_type", "action_type", "act"),
    ("home", "trigger_type", "action_type", "relation"),
    ("trigger",),
    ("action",),
    ("trigger", "state"),
    ("action", "act"),
    ("trigger", "act"),
    ("action", "state"),
    ("trigger", "relation"),
    ("action", "relation"),
    ("trigger", "action_type"),
    ("action", "trigger_type"),
    ("trigger", "action_type", "state"),
    ("action", "trigger_type", "act"),
    ("trigger", "action_type", "relation"),
    ("action", "trigger_type", "relation"),
    ("trigger", "place"),
    ("trigger", "place", "state"),
    ("trigger", "place", "act"),
)
# The same for the reversed candidate: what its action device triggers, what acts on its trigger device, and both.
REVERSED: tuple[Pattern, ...] = (("trigger",), ("action",), ("trigger", "place"))
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
    """Reads rules or candidates of some homes as columns."""

    homes: Homes
    state: Column  # [n_relations]
    act: Column  # [n_relations]
    place: Column  # [n_devices]

    @classmethod
    def of(cls, homes: Homes) -> ColumnReader:
        state = _encoded([relation.trigger for relation in homes.relations])
        act = _encoded([relation.action for relation in homes.relations])
        start = homes.device_start
        place = np.arange(homes.n_devices) - start[homes.device_home]
        return cls(homes, state, act, Column(place, int(np.diff(start).max(initial=1))))

    def columns(self, rules: Rules) -> Columns:
        """All columns that a pattern may name."""
        homes = self.homes
        trigger_type, relation, action_type = homes.typed(rules)
        return {
            "home": Column(rules.home, homes.n_homes),
            "trigger": Column(rules.trigger, homes.n_devices),
            "action": Column(rules.action, homes.n_devices),
            "place": Column(self.place.values[rules.action], self.place.size),
            **self.typed(trigger_type, relation, action_type),
        }

    def reversed(self, rules: Rules) -> Columns:
        """The columns of REVERSED, of these rules with trigger and action exchanged."""
        return {
            "trigger": Column(rules.action, self.homes.n_devices),
            "action": Column(rules.trigger, self.homes.n_devices),
            "place": Column(self.place.values[rules.trigger], self.place.size),
        }

    def typed(self, trigger_type: Array, relation: Array, action_type: Array) -> Columns:
        """The columns that do not distinguish devices of one type, of any home's rules."""
        return {
            "trigger_type": Column(trigger_type, len(self.homes.types)),
            "action_type": Column(action_type, len(self.homes.types)),
            "relation": Column(relation, len(self.homes.relations)),
            "state": Column(self.state.values[relation], self.state.size),
            "act": Column(self.act.values[relation], self.act.size),
        }


def _encoded(words: list[str]) -> Column:
    """Equal words have equal numbers."""
    number = {word: n for n, word in enumerate(sorted(set(words)))}
    return Column(np.array([number[word] for word in words], dtype=np.int64), len(number))


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
        by_home = [(*pattern, "home") for pattern in PATTERNS]
        counts = PatternCounts.of(ColumnReader.of(train).columns(train.rules), by_home)
        have = tuple(counts.distinct(pattern) for pattern in by_home)
        both = homes_with_both(train).reshape(len(train.types), len(train.types))
        return cls(train.n_homes, counts.only(PATTERNS), have, both)

    def table(self, reader: ColumnReader, cell: Array, *, less: int) -> npt.NDArray[np.float32]:
        """[n_names, 2, n_cells]: logarithms for typed rules, given as cells of the valid-rule tensor.

        First as counted, then with one home less that has each pattern; in both with `less` homes less that could.
        """
        homes = reader.homes
        trigger_type, action_type, relation = typed_cells(cell, len(homes.types), len(homes.relations))
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
