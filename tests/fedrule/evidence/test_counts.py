"""Pattern counts against Python's own Counter, with a dense table and with a search among those that occur."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedrule.evidence.counts
from fedrule.evidence.counts import Column, PatternCounts

SIZES = {"a": 3, "b": 4, "c": 2}
PATTERNS = (("a",), ("b", "a"), ("a", "b", "c"), ("a", "b"), ("c", "a", "b"))
ROWS = st.lists(st.tuples(*(st.integers(0, size - 1) for size in SIZES.values())), max_size=30)


def columns(rows, sizes=SIZES):
    table = np.array(rows, dtype=np.int64).reshape(len(rows), len(sizes))
    return {name: Column(table[:, n], size) for n, (name, size) in enumerate(sizes.items())}


def of(row, pattern):
    return tuple(row[list(SIZES).index(name)] for name in pattern)


@pytest.mark.parametrize("dense", [0, 8, 1 << 22], ids=["searched", "both", "tables"])
@given(known=ROWS, asked=ROWS)
def test_every_row_finds_how_often_its_combination_occurs(dense, known, asked):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fedrule.evidence.counts, "DENSE", dense)
        counted = PatternCounts.of(columns(known), PATTERNS)
    number = counted.find(columns(asked))
    for pattern in PATTERNS:
        counts = Counter(of(row, pattern) for row in known)
        assert counted.count(pattern)[number[pattern]].tolist() == [counts[of(row, pattern)] for row in asked]


@given(known=ROWS, asked=ROWS)
def test_tables_and_searches_give_the_same_numbers(known, asked):
    found = []
    for dense in (0, 1 << 22):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fedrule.evidence.counts, "DENSE", dense)
            found.append(PatternCounts.of(columns(known), PATTERNS).find(columns(asked)))
    searched, tables = found
    assert {p: n.tolist() for p, n in searched.items()} == {p: n.tolist() for p, n in tables.items()}


@given(known=ROWS)
def test_distinct_values_of_the_last_column_are_counted_once(known):
    counted = PatternCounts.of(columns(known), [("a", "b")])
    number = counted.find(columns(known))[("a",)]
    values = {a: {row[1] for row in known if row[0] == a} for a, _, _ in known}
    assert counted.distinct(("a", "b"))[number].tolist() == [len(values[a]) for a, _, _ in known]


@given(known=ROWS, asked=ROWS)
def test_some_of_the_patterns_find_what_all_of_them_find(known, asked):
    counted = PatternCounts.of(columns(known), PATTERNS)
    some = counted.only([("b", "a")])
    assert set(some.levels) == {("b",), ("b", "a")}
    assert some.find(columns(asked))[("b", "a")].tolist() == counted.find(columns(asked))[("b", "a")].tolist()


def test_numbers_beyond_32_bits_are_told_apart():
    # 3 rows of columns with 2 ** 40 values each: the numbers of the combinations stay small, their places do not.
    sizes = {"a": 2**40, "b": 2**40}
    rows = columns([(2**39, 5), (2**39, 2**39), (7, 5)], sizes)
    counted = PatternCounts.of(rows, [("a", "b")])
    asked = columns([(2**39, 5), (7, 2**39), (7, 5), (0, 0)], sizes)
    assert counted.count(("a", "b"))[counted.find(asked)["a", "b"]].tolist() == [1, 0, 1, 0]
