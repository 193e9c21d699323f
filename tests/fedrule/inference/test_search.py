"""The pruned searches against the plain one over all pairs and relations, and what may never be recommended."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.method import LARGEST_SCORE
from benchmarks.references.search import PlainSearch
from datasets import Relation
from fedrule.inference import network_search as network_module
from fedrule.inference import search as search_module
from fedrule.inference.encode import Graph
from fedrule.inference.network import NumpyNetwork
from fedrule.inference.network_search import NetworkSearch, best_of_each, not_below
from fedrule.inference.recommender import search_of
from fedrule.inference.search import ScorerSearch
from fedrule.models.file import SavedModel
from tests.support.random_models import cases, random_model

LENGTHS = st.sampled_from([1, 2, 3, 10, 1000])
TYPES = ("Door", "Lamp", "Plug")
RELATIONS = tuple(Relation(f"state {number}", "On") for number in range(5))


def network_search(saved):
    return NetworkSearch(NumpyNetwork.of(saved), saved.self_rules)


def scorer_search(saved):
    pytest.importorskip("torch", reason="scorers are torch's")
    from fedrule.models.restore import restored

    card = saved.card
    return ScorerSearch(restored(saved), saved.valid, saved.self_rules, card.types, card.relations)


def graph_of(types, rules=()):
    """One home."""
    columns = np.array(rules, dtype=np.int64).reshape(-1, 3).T
    return Graph(np.array(types, dtype=np.int64), np.array([0, len(types)]), *columns)


def plain_lists(saved, homes, k):
    """(home, trigger, action, relation) and the score of each, home after home."""
    search, lists, scores = PlainSearch(saved), [], []
    for home in range(homes.n_homes):
        one = homes.subset([home])
        first = int(homes.device_start[home])
        for (i, j, relation), score in search.best(one.device_type.tolist(), rules_of(Graph.of(one)), k):
            lists.append((home, first + i, first + j, relation))
            scores.append(score)
    return lists, scores


def rules_of(graph):
    return list(zip(*(column.tolist() for column in (graph.trigger, graph.action, graph.relation)), strict=True))


def rows(found):
    columns = (found.home, found.trigger, found.action, found.relation)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def one_after_the_other(search, homes, k):
    lists, scores = [], []
    for home in range(homes.n_homes):
        found = search.one(Graph.of(homes.subset([home])), k)
        first = int(homes.device_start[home])
        lists += [(home, first + trigger, first + action, relation) for _, trigger, action, relation in rows(found)]
        scores += found.score.tolist()
    return lists, scores


def assert_plain(found, expected):
    lists, scores = found if isinstance(found, tuple) and len(found) == 2 else (rows(found), found.score.tolist())
    assert lists == expected[0]
    np.testing.assert_allclose(scores, expected[1], rtol=1e-6, atol=1e-9)


@given(cases(), LENGTHS)
def test_the_pruned_search_finds_what_the_plain_one_finds(case, k):
    search, expected = network_search(case.saved), plain_lists(*case, k)
    assert_plain(one_after_the_other(search, case.homes, k), expected)
    assert_plain(search.many(case.homes, k), expected)


@given(cases(max_homes=3), LENGTHS)
def test_so_does_the_search_by_the_scorer_of_training(case, k):
    search, expected = scorer_search(case.saved), plain_lists(*case, k)
    assert_plain(one_after_the_other(search, case.homes, k), expected)
    assert_plain(search.many(case.homes, k), expected)


@given(cases(max_devices=8), LENGTHS, st.integers(1, 40))
def test_it_does_not_matter_how_much_is_searched_at_once(case, k, at_once):
    search = network_search(case.saved)
    expected = one_after_the_other(search, case.homes, k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network_module, "CHUNK", at_once)
        patch.setattr(network_module, "CELLS", at_once)
        patch.setattr(network_module, "ROWS", at_once)
        assert one_after_the_other(search, case.homes, k) == expected
        assert rows(search.many(case.homes, k)) == expected[0]


@given(cases(max_homes=3), LENGTHS, st.integers(1, 40))
@settings(max_examples=20)
def test_nor_for_the_scorer(case, k, at_once):
    search = scorer_search(case.saved)
    expected = rows(search.many(case.homes, k))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "CANDIDATES", at_once)
        assert rows(search.many(case.homes, k)) == expected


@given(cases())
def test_nothing_is_recommended_that_a_home_has_or_that_is_not_valid(case):
    saved, homes = case
    found = network_search(saved).many(homes, 1000)
    known = set(rules_of(Graph.of(homes)))
    kind = homes.device_type
    assert not known & {row[1:] for row in rows(found)}
    assert saved.valid.contains(kind[found.trigger], kind[found.action], found.relation).all()
    number = saved.valid.number(kind[found.trigger], kind[found.action], found.relation)
    assert np.all(saved.self_rules[number] | (found.trigger != found.action))
    assert (homes.device_home[found.trigger] == found.home).all()
    assert (homes.device_home[found.action] == found.home).all()
    assert len(set(rows(found))) == len(found.home)
    # Every candidate that is left is there, since 1000 are asked for: n (n - 1) pairs or n * n, 6 * 6 * 12 < 1000.
    expected = plain_lists(saved, homes, 1000)[0]
    assert sorted(rows(found)) == sorted(expected)


@given(cases())
def test_scores_fall_and_equal_ones_stand_in_the_order_of_devices(case):
    found = network_search(case.saved).many(case.homes, 50)
    order = [
        (home, -score, trigger, action, relation)
        for (home, trigger, action, relation), score in zip(rows(found), found.score.tolist(), strict=True)
    ]
    assert order == sorted(order)


def test_with_all_scores_equal_the_list_is_that_of_devices_and_relations():
    flat = random_model(TYPES, RELATIONS[:2], valid=1.0, step=1e9)
    graph = graph_of([1, 0, 1], [(0, 1, 0)])
    # Pairs in order, both relations of each, without the rule that the home has.
    expected = [(0, 1, 1), (0, 2, 0), (0, 2, 1), (1, 0, 0), (1, 0, 1), (1, 2, 0), (1, 2, 1), (2, 0, 0)]
    for search in (network_search(flat), scorer_search(flat)):
        found = search.one(graph, 8)
        assert [row[1:] for row in rows(found)] == expected
        assert found.score.tolist() == [0.0] * 8


@pytest.mark.parametrize("size", [1e-30, 1e-15, 1e-6, 1e3, 1e12, 1e37])
@pytest.mark.parametrize("messages", ["type", "relation"])
def test_weights_of_any_size_give_finite_scores_in_the_same_order(size, messages):
    saved = random_model(TYPES, RELATIONS, valid=1.0, size=size, messages=messages, seed=3)
    graph = graph_of([0, 1, 1, 2], [(0, 1, 2), (3, 1, 0), (1, 2, 4)])
    found = network_search(saved).one(graph, 1000)
    expected = PlainSearch(saved).best(graph.device_type.tolist(), rules_of(graph), 1000)
    assert [row[1:] for row in rows(found)] == [rule for rule, _ in expected]
    assert np.isfinite(found.score).all()
    assert np.abs(found.score).max() <= LARGEST_SCORE
    by_scorer = scorer_search(saved).one(graph, 1000)
    assert rows(by_scorer) == rows(found)


def test_scores_beyond_the_largest_are_equal_and_stand_in_the_order_of_devices():
    saved = random_model(TYPES, RELATIONS, valid=1.0, size=1e15, seed=3)
    graph = graph_of([0, 1, 1, 2], [(0, 1, 2), (3, 1, 0), (1, 2, 4)])
    expected = PlainSearch(saved).best(graph.device_type.tolist(), rules_of(graph), 5)
    assert [score for _, score in expected] == [LARGEST_SCORE] * 5
    assert [row[1:] for row in rows(network_search(saved).one(graph, 5))] == [rule for rule, _ in expected]


@given(st.integers(0, 2**32), st.integers(1, 40), st.booleans(), st.sampled_from([0.0, 0.5]))
def test_homes_with_many_devices_of_one_state_are_searched_as_the_plain_search_does(seed, k, ties, self_rules):
    random = np.random.default_rng(seed)
    step = 1.0 if ties else 0.0
    saved = random_model(TYPES, RELATIONS[:3], valid=0.7, seed=seed % 1000, step=step, self_rules=self_rules)
    n_devices = int(random.integers(1, 14))
    # Twins that only differ by who they are, and rules among them: some candidates have no device pair left.
    pairs = [(a, b, r) for a in range(n_devices) for b in range(n_devices) for r in range(3)]
    some = random.random(len(pairs)) < random.choice([0.0, 0.05, 0.9])
    graph = graph_of(random.integers(2, size=n_devices), [pair for pair, kept in zip(pairs, some, strict=True) if kept])
    found = network_search(saved).one(graph, k)
    expected = PlainSearch(saved).best(graph.device_type.tolist(), rules_of(graph), k)
    assert [row[1:] for row in rows(found)] == [rule for rule, _ in expected]


@pytest.mark.parametrize("small", [1e-5, 1e-12, 1e-20, 1e20])
def test_states_are_told_apart_however_small_they_are(two, small):
    saved = random_model(two.types, two.relations, valid=1.0, seed=5, hidden=6)
    arrays = dict(saved.arrays)
    for part in ("self2", "in2", "bias2"):  # makes z
        arrays[f"weights.theta.{part}"] = arrays[f"weights.theta.{part}"] * np.float32(small)
    for end in ("trigger", "action"):  # reads z
        arrays[f"weights.phi.{end}"] = arrays[f"weights.phi.{end}"] / np.float32(small)
    saved = SavedModel(saved.card, arrays)
    assert_plain(network_search(saved).many(two, 100), plain_lists(saved, two, 100))


def test_a_device_is_told_from_its_twin_by_its_rules_alone():
    saved = random_model(TYPES, RELATIONS, valid=1.0, seed=1, hidden=8)
    search = network_search(saved)

    def scores(rules, relation):
        found = search.one(graph_of([0, 1, 1, 1], rules), 1000)
        of = {row[1:]: score for row, score in zip(rows(found), found.score.tolist(), strict=True)}
        return [of[(0, lamp, relation)] for lamp in (1, 2, 3)]

    first, second, third = scores([(0, 1, 0)], 3)  # the door switches the first lamp only
    assert second == third != first
    assert len(set(scores([], 3))) == 1
    first, second, third = scores([(0, 1, 0), (0, 3, 1)], 3)  # relations do not tell: messages are of types
    assert first == third != second


@given(
    st.lists(st.lists(st.integers(-3, 3), max_size=70), max_size=8),
    st.integers(1, 12),
    st.booleans(),
)
def test_the_best_of_each_home_are_those_of_sorting_it(homes, k, some_are_out):
    scores = [-np.inf if some_are_out and value == 3 else float(value) for home in homes for value in home]
    start = np.concatenate([[0], np.cumsum([len(home) for home in homes])]).astype(np.int64)
    expected = []
    for first, last in zip(start[:-1].tolist(), start[1:].tolist(), strict=True):
        inside = [place for place in range(first, last) if scores[place] > -np.inf]
        expected += sorted(inside, key=lambda place: (-scores[place], place))[:k]
    assert best_of_each(np.array(scores, dtype=np.float32), start, k).tolist() == expected


@given(st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 2.0, 3.0])), st.integers(1, 9))
def test_what_is_not_below_the_best_is_kept_with_all_its_equals(scores, k):
    allowed = [score for score in scores if score > -np.inf]
    least = sorted(allowed)[-k] if len(allowed) > k else -np.inf
    expected = [place for place, score in enumerate(scores) if score >= least and score > -np.inf]
    assert not_below(np.array(scores, dtype=np.float32), k, 0.0).tolist() == expected


@given(st.integers(0, 2**32), st.integers(1, 9), st.sampled_from([0.0, 0.1]))
def test_so_they_are_among_many(seed, k, error):
    scores = np.random.default_rng(seed).normal(size=2000).astype(np.float32)
    kept = not_below(scores, k, error)
    assert set(np.flatnonzero(scores >= np.sort(scores)[-k] - np.float32(error) / 2)) <= set(kept)
    assert len(kept) < 1000


def test_a_large_home_is_searched_in_little_memory(monkeypatch):
    saved = random_model(TYPES, RELATIONS, valid=1.0, seed=2)
    types = np.arange(300) % 3
    graph = graph_of(types, [(device, device + 1, device % 5) for device in range(0, 298, 3)])
    search = network_search(saved)
    expected = search.one(graph, 10)
    monkeypatch.setattr(network_module, "CHUNK", 4000)
    monkeypatch.setattr(network_module, "CELLS", 4000)
    tracemalloc.start()
    found = search.one(graph, 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows(found) == rows(expected)
    # 300 * 299 * 5 scores would be 3.6 MB in float64 alone; a part has about 4000 and a strip of one trigger more.
    assert peak < 1_500_000


def test_so_is_one_whose_scores_are_all_equal(monkeypatch):
    flat = random_model(TYPES, RELATIONS, valid=1.0, step=1e9)
    monkeypatch.setattr(network_module, "CHUNK", 4000)
    monkeypatch.setattr(network_module, "CELLS", 4000)
    tracemalloc.start()
    found = network_search(flat).one(graph_of(np.arange(300) % 3), 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The first door with two devices, five relations each.
    assert [row[1:] for row in rows(found)] == [(0, action, relation) for action in (1, 2) for relation in range(5)]
    assert peak < 1_500_000


def test_the_network_alone_is_searched_in_numpy():
    assert isinstance(search_of(random_model(TYPES, RELATIONS)), NetworkSearch)
