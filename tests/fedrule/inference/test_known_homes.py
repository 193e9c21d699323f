"""Homes in a model's vocabulary keep the words of the devices that the model knows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from datasets import Homes, Words
from fedrule.inference.encode import known_homes
from tests.support.strategies import homes, words_by_device
from tests.support.two_homes import assert_same


def test_a_device_that_the_model_does_not_know_takes_its_words_along(two: Homes) -> None:
    named = replace(two, words=Words([0, 1, 1, 3], [0, 0, 2, 1]))
    sensors = SimpleNamespace(types=("Sensor",), relations=two.relations)
    assert words_by_device(known_homes(named, sensors).homes) == [[]]
    lamps = SimpleNamespace(types=("Plug", "Lamp"), relations=two.relations)
    assert words_by_device(known_homes(named, lamps).homes) == [[0], [0, 2], [1]]
    assert known_homes(two, lamps).homes.words is None


@given(homes(groups=False), st.data())
def test_a_slice_is_the_subset_of_the_same_homes(some: Homes, data: st.DataObject) -> None:
    some = replace(some, provenance=replace(some.provenance, published=""))
    first = data.draw(st.integers(0, some.n_homes))
    last = data.draw(st.integers(first, some.n_homes))
    known = known_homes(some, SimpleNamespace(types=some.types, relations=some.relations))
    assert_same(known.slice(first, last), known.homes.subset(list(range(first, last))))
