"""Rules read as columns, by hand for two homes and against plain lists for random ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from datasets import Rules
from fedrule.evidence.counts import OF_ALL_HOMES, OF_HOME, REVERSED, ColumnReader
from tests.support.strategies import homes


def values(columns):
    return {name: column.values.tolist() for name, column in columns.items()}


def test_ann_and_bobs_rules_as_columns(two):
    read = ColumnReader.of(two).columns(two.rules)
    # Ann's devices are lamp 0, lamp 1, sensor 2, Bob's is lamp 3, the first of his home. Of the relations Open -> On,
    # Open -> Off, On -> Off the states are On (0) and Open (1), and so the acts Off (0) and On (1).
    assert values(read) == {
        "home": [0, 0, 0, 1],
        "trigger": [2, 2, 0, 3],
        "action": [0, 1, 1, 3],
        "place": [0, 1, 1, 0],
        "trigger_type": [1, 1, 0, 0],
        "action_type": [0, 0, 0, 0],
        "relation": [0, 0, 2, 2],
        "state": [1, 1, 0, 0],
        "act": [1, 1, 0, 0],
    }
    assert {name: column.size for name, column in read.items()} == {
        "home": 2,
        "trigger": 4,
        "action": 4,
        "place": 3,
        "trigger_type": 2,
        "action_type": 2,
        "relation": 3,
        "state": 2,
        "act": 2,
    }


@given(some=homes())
def test_values_are_below_their_sizes_and_halves_are_words(some):
    read = ColumnReader.of(some).columns(some.rules)
    for column in read.values():
        assert (column.values >= 0).all()
        assert (column.values < column.size).all()
    for half, words in (("state", [r.trigger for r in some.relations]), ("act", [r.action for r in some.relations])):
        number = [sorted(set(words)).index(words[r]) for r in some.rules.relation.tolist()]
        assert read[half].values.tolist() == number


@given(some=homes())
def test_turned_rules_are_rules_with_trigger_and_action_exchanged(some):
    reader, rules = ColumnReader.of(some), some.rules
    exchanged = reader.columns(Rules(rules.home, rules.action, rules.trigger, rules.relation))
    backwards = reader.reversed(rules)
    assert values(backwards) == {name: exchanged[name].values.tolist() for name in backwards}
    assert {name for pattern in REVERSED for name in pattern} <= set(backwards)


def test_a_trigger_and_a_place_say_which_device_acts(two):
    pairs = np.array([(0, 0), (0, 1), (2, 1), (3, 3)]).T
    read = ColumnReader.of(two).columns(Rules(two.device_home[pairs[0]], *pairs, np.zeros(4, dtype=np.int64)))
    assert (two.device_start[two.device_home[pairs[0]]] + read["place"].values).tolist() == pairs[1].tolist()


@pytest.mark.parametrize("pattern", [*OF_HOME, *REVERSED, *(pattern for pattern, _ in OF_ALL_HOMES)], ids="-".join)
def test_every_pattern_names_columns_each_once(two, pattern):
    assert set(pattern) <= set(ColumnReader.of(two).columns(two.rules))
    assert len(set(pattern)) == len(pattern)


def test_patterns_of_one_home_are_about_one_home():
    assert all({"home", "trigger", "action"} & set(pattern) for pattern in OF_HOME)
    assert not any({"home", "trigger", "action", "place"} & set(pattern) for pattern, _ in OF_ALL_HOMES)
