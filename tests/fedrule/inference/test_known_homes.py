"""Homes and requests in a model's vocabulary keep the words of the devices that the model knows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from datasets import Homes, Words
from fedrule.inference.encode import Graph, HomeEncoder, known_homes
from fedrule.inference.request import HomeRequest
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


CARD = SimpleNamespace(types=("Light", "Sensor"), relations=())


def words_of(graph: Graph) -> list[tuple[int, int]]:
    return list(zip(graph.word_device.tolist(), graph.word.tolist(), strict=True))


def request(*devices: tuple[str, str, str]) -> HomeRequest:
    """Devices by type, name and room."""
    rows = [{"id": at, "type": type_, "name": name, "room": room} for at, (type_, name, room) in enumerate(devices)]
    return HomeRequest.from_json({"devices": rows})


def test_a_graph_has_the_words_that_names_and_rooms_share() -> None:
    home = request(
        ("Light", "Hall light", ""),
        ("Light", "Dining room lamp", ""),
        ("Sensor", "", "hall"),
        ("Sensor", "Kitchen", "Dining Room"),
    )
    assert words_of(HomeEncoder(CARD).encode(home).graph) == [(0, 0), (1, 1), (2, 0), (3, 1)]
    nameless = HomeRequest.from_json({"devices": [{"id": 1, "type": "Light"}, {"id": 2, "type": "Light"}]})
    graph = HomeEncoder(CARD).encode(nameless).graph
    assert len(graph.word_device) == len(graph.word) == 0
    assert graph.word.dtype == np.int64


def test_a_device_of_an_unknown_type_counts_for_its_word_but_is_not_in_the_graph() -> None:
    home = request(("Kettle", "Hall", ""), ("Light", "Hall", ""), ("Light", "", ""), ("Light", "", ""))
    assert words_of(HomeEncoder(CARD).encode(home, "ignore").graph) == [(0, 0)]


@given(homes(min_homes=1, self_rules=True))
def test_a_home_alone_has_the_same_graph_as_in_a_file(some: Homes) -> None:
    card = SimpleNamespace(types=some.types, relations=some.relations)
    for number in range(some.n_homes):
        if some.home(number).devices:
            alone = HomeEncoder(card).encode(HomeRequest.from_home(some.home(number))).graph
            assert words_of(alone) == words_of(Graph.of(some.subset([number])))
