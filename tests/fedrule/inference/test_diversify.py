"""Lists with few rules of one kind, or of some devices: what is left out of the plain list, and nothing else."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets import DataError, Relation
from fedrule.inference import HomeRequest, Recommender, RequestDevice
from fedrule.inference.encode import Graph
from fedrule.inference.recommender import search_of
from fedrule.inference.search import DiverseSearch
from tests.support.random_models import cases, random_model


def plainly(search, graph, k, max_similar):
    """All candidates, best first, each taken unless enough of its kind are."""
    found = search.one(graph, 10**6)
    seen, kept = Counter(), []
    for trigger, action, relation in zip(*(column.tolist() for column in found[1:4]), strict=True):
        kind = (graph.device_type[trigger], relation, graph.device_type[action])
        seen[kind] += 1
        if seen[kind] <= max_similar and len(kept) < k:
            kept.append((trigger, action, relation))
    return kept


@given(cases(max_devices=8), st.integers(1, 4), st.sampled_from([1, 2, 5]))
def test_the_list_is_the_plain_one_without_what_is_too_much(case, max_similar, k):
    saved, homes = case
    search = search_of(saved)
    varied = DiverseSearch(search, len(homes.types), len(homes.relations), max_similar)
    many = varied.many(homes, k)
    assert np.all(np.diff(many.home) >= 0)
    for at in range(homes.n_homes):
        graph = Graph.of(homes.subset([at]))
        expected = plainly(search, graph, k, max_similar)
        one = varied.one(graph, k)
        assert list(zip(*(column.tolist() for column in one[1:4]), strict=True)) == expected
        here, first = many.home == at, homes.device_start[at]
        devices = (many.trigger[here] - first, many.action[here] - first, many.relation[here])
        assert list(zip(*(column.tolist() for column in devices), strict=True)) == expected


@given(cases(max_devices=8), st.data(), st.sampled_from([1, 3, 50]))
def test_with_some_devices_the_list_is_the_plain_one_of_rules_that_have_one_of_them(case, data, k):
    saved, homes = case
    home = HomeRequest.from_home(homes.home(0))
    ids = [device.id for device in home.devices]
    inside = set(data.draw(st.lists(st.sampled_from(ids)))) if ids else set()
    recommender = Recommender(saved)
    every = recommender.recommend(home, 10**6, unknown="ignore").rules if ids else ()
    expected = [rule[1:] for rule in every if {rule.trigger, rule.action_device} & inside][:k]
    found = recommender.recommend(home, k, unknown="ignore", inside=inside).rules if ids else ()
    assert [rule[1:] for rule in found] == expected
    assert [rule.rank for rule in found] == list(range(1, len(found) + 1))


def test_a_house_of_lamps_is_not_told_the_same_thing_ten_times():
    # One type, two relations: 6 * 5 pairs have either. Two of each kind are four lines.
    model = random_model(("Lamp",), (Relation("On", "Power On"), Relation("Off", "Power Off")), valid=1.0)
    home = HomeRequest([RequestDevice(number, "Lamp") for number in range(6)])
    recommender = Recommender(model)
    assert len(recommender.recommend(home, 10).rules) == 10
    lines = recommender.recommend(home, 10, max_similar=2).rules
    assert Counter(line.trigger_state for line in lines) == {"On": 2, "Off": 2}
    assert [line.rank for line in lines] == [1, 2, 3, 4]


@pytest.mark.parametrize("max_similar", [-1, True, 1.5])
def test_what_is_no_number_of_rules_is_refused(max_similar):
    recommender = Recommender(random_model(("Lamp",), (Relation("On", "Power On"),), valid=1.0))
    with pytest.raises(DataError, match="max_similar must be an integer of at least 0"):
        recommender.recommend({"devices": [{"id": 1, "type": "Lamp"}]}, max_similar=max_similar)
