"""Rules read as columns, by hand for two homes and against plain lists for random ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from fedrule.evidence.counts import OF_ALL_HOMES, ColumnReader
from tests.support.strategies import homes


def reader_of(some):
    return ColumnReader.of(some.types, some.relations)


def values(columns):
    return {name: column.values.tolist() for name, column in columns.items()}


def test_ann_and_bobs_rules_as_columns(two):
    read = reader_of(two).columns(two, two.rules)
    # Of the relations Open -> On, Open -> Off, On -> Off states are On (0) and Open (1), acts Off (0) and On (1).
    # Ann's sensor switches both lamps on; one of them, and Bob's, switches a lamp off.
    typed = {
        "trigger_type": [1, 1, 0, 0],
        "action_type": [0, 0, 0, 0],
        "relation": [0, 0, 2, 2],
        "state": [1, 1, 0, 0],
        "act": [1, 1, 0, 0],
    }
    assert values(read) == {"home": [0, 0, 0, 1], **typed}
    sizes = {"trigger_type": 2, "action_type": 2, "relation": 3, "state": 2, "act": 2}
    assert {name: column.size for name, column in read.items()} == {"home": 2, **sizes}
    trigger_type, action_type, relation = (np.array(typed[n]) for n in ("trigger_type", "action_type", "relation"))
    assert values(reader_of(two).typed(trigger_type, relation, action_type)) == typed


@given(some=homes())
def test_values_are_below_their_sizes_and_halves_are_words(some):
    read = reader_of(some).columns(some, some.rules)
    for column in read.values():
        assert (column.values >= 0).all()
        assert (column.values < column.size).all()
    for half, words in (("state", [r.trigger for r in some.relations]), ("act", [r.action for r in some.relations])):
        number = [sorted(set(words)).index(words[r]) for r in some.rules.relation.tolist()]
        assert read[half].values.tolist() == number


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in OF_ALL_HOMES], ids="-".join)
def test_every_pattern_names_columns_each_once(two, pattern):
    # What all homes are compared by says nothing of one home or its devices.
    assert set(pattern) <= set(reader_of(two).columns(two, two.rules)) - {"home"}
    assert len(set(pattern)) == len(pattern)
