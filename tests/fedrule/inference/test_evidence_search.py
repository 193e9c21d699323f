"""The compiled search of evidence models against the scorer of training, and what may never be recommended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import typeof

pytest.importorskip("torch", reason="scorers are torch's")

from baselines.contract import planted_homes
from baselines.method import LARGEST_SCORE
from datasets import DataError, Homes, Words
from fedrule.evidence import best_candidates, forward_pass
from fedrule.evidence.feature_blocks import ACTION, N_HOME, PAIR
from fedrule.evidence.features import NAMES
from fedrule.inference import HomeRequest, Recommender, evidence_search
from fedrule.inference.encode import Graph, HomeEncoder
from fedrule.inference.evidence_search import EvidenceSearch
from fedrule.inference.recommender import search_of
from fedrule.inference.search import DiverseSearch, ScorerSearch
from fedrule.models.restore import restored
from fedrule.serving.shared_models import read_models, shared_file, write_models
from tests.support.crowded import crowded_homes
from tests.support.evidence_models import evidence_cases, evidence_model
from tests.support.rooms import room_homes
from tests.support.strategies import triples

LENGTHS = st.sampled_from([1, 2, 5, 10_000])


def scorer_search(saved):
    card = saved.card
    return ScorerSearch(restored(saved), saved.valid, saved.self_rules, card.types, card.relations)


def rows(found):
    columns = (found.home, found.trigger, found.action, found.relation)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def of_home(found, home):
    return found.take(found.home == home)


def one_after_the_other(search, homes, k):
    """Every home by itself, its devices numbered as among all."""
    for home in range(homes.n_homes):
        found, first = search.one(Graph.of(homes.subset([home])), k), int(homes.device_start[home])
        moved = found._replace(home=found.home + home, trigger=found.trigger + first, action=found.action + first)
        yield home, moved


def assert_alike(found, whole, k):
    """The first k of a whole list, where scores differ by more than rounding."""
    expected = whole.score[:k]
    near = 1e-4 * np.maximum(np.abs(whole.score), 1)
    assert len(found.score) == len(expected)
    np.testing.assert_allclose(found.score, expected, rtol=1e-4, atol=1e-4)
    score_of = dict(zip(rows(whole), whole.score.tolist(), strict=True))
    assert len(set(rows(found))) == len(found.score)
    for at, (row, score) in enumerate(zip(rows(found), found.score.tolist(), strict=True)):
        assert score == pytest.approx(score_of[row], rel=1e-4, abs=1e-4)
        others = np.delete(whole.score, at)
        if not np.any(np.abs(others - whole.score[at]) <= 2 * near[at]):
            assert row == rows(whole)[at]


def test_whoever_waits_for_the_compiler_is_told(monkeypatch):
    saved, compiled = evidence_model(planted_homes()), best_candidates.best_of_homes

    def slow(*arguments):
        told.wait(60)
        compiled(*arguments)

    def hear(message):
        heard.append(message)
        told.set()

    heard, told = [], threading.Event()
    monkeypatch.setattr(evidence_search.log, "info", hear)
    monkeypatch.setattr(evidence_search, "QUIET", 0.0)
    monkeypatch.setattr(best_candidates, "best_of_homes", slow)
    EvidenceSearch.of(saved)
    assert heard == ["compiling the search, once after an installation: about half a minute"]


def test_the_loops_are_compiled_once_for_a_home_for_many_and_for_models_in_shared_memory(monkeypatch):
    def record(module, name):
        loop = getattr(module, name)

        def recorded(*arguments):
            taken[name].append([str(typeof(argument)) for argument in arguments])
            loop(*arguments)

        monkeypatch.setattr(module, name, recorded)

    taken = {"best_of_homes": [], "score_homes": []}
    record(best_candidates, "best_of_homes")
    record(forward_pass, "score_homes")
    for homes in (planted_homes(), room_homes()):
        saved = evidence_model(homes)
        original, file = Recommender(saved), shared_file()
        write_models({"model": original}, file)
        shared = read_models(file)["model"]
        os.close(file)
        devices = [{"id": number, "type": homes.types[0], "room": f"{number % 2}"} for number in range(4)]
        lists = [model.recommend({"devices": devices}) for model in (original, shared)]
        assert lists[0] == lists[1]
        found = [model.recommend_many(homes) for model in (original, shared)]
        assert found[0].probability.tobytes() == found[1].probability.tobytes()
        restored(saved).score_pairs(homes, homes.rules.trigger, homes.rules.action)
        for model in (original, shared):
            model._search.scores.of_pairs(homes, homes.rules.trigger, homes.rules.action)
    assert [len(taken[name]) for name in taken] == [10, 6]  # per model: its loading, 2 homes, 2 times many; 3 scorers
    for kinds in taken.values():
        assert all(each == kinds[0] for each in kinds)
    # What both take is of one kind too, so that the loops that they call are compiled once.
    assert taken["best_of_homes"][0][3:9] == taken["score_homes"][0][3:9]


def test_where_compiled_loops_cannot_be_kept_the_error_says_what_to_set(tmp_path):
    evidence_model(planted_homes()).save(path := tmp_path / "model.safetensors")
    code = f"""
from numba.core import caching
caching.CacheImpl._locator_classes = []  # as where no folder can be written to
from fedrule.inference import Recommender
try:
    Recommender.load({str(path)!r})
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"DataError {path}: a model of graphrank")
    assert "NUMBA_CACHE_DIR" in done.stdout


@given(case=evidence_cases(), k=LENGTHS)
def test_it_finds_what_the_scorer_of_training_finds(case, k):
    search, whole = search_of(case.saved), scorer_search(case.saved).many(case.homes, 10_000)
    assert isinstance(search, EvidenceSearch)
    many = search.many(case.homes, k)
    for home, alone in one_after_the_other(search, case.homes, k):
        assert_alike(of_home(many, home), of_home(whole, home), k)
        assert rows(alone) == rows(of_home(many, home))
        assert alone.score.tobytes() == of_home(many, home).score.tobytes()


@settings(max_examples=25)
@given(case=evidence_cases(words=True))
def test_the_scorer_finds_in_one_home_what_it_finds_among_many(case):
    search = scorer_search(case.saved)
    many = search.many(case.homes, 20)
    for home, alone in one_after_the_other(search, case.homes, 20):
        assert rows(alone) == rows(of_home(many, home))


@given(case=evidence_cases())
def test_nothing_is_recommended_that_a_home_has_or_that_is_not_valid(case):
    saved, homes = case
    found, kind = search_of(saved).many(homes, 10_000), homes.device_type
    number = saved.valid.number(kind[found.trigger], kind[found.action], found.relation)
    assert (number >= 0).all()
    assert np.all(saved.self_rules[number] | (found.trigger != found.action))
    assert not set(triples(homes.rules)) & set(rows(found))
    # Since more are asked for than there are, all others are there, each once.
    expected = {
        (h, i, j, r)
        for h in range(homes.n_homes)
        for i in np.flatnonzero(homes.device_home == h).tolist()
        for j in np.flatnonzero(homes.device_home == h).tolist()
        for r in saved.valid.relations_of(kind[i], kind[j]).tolist()
        if i != j or saved.self_rules[saved.valid.number(kind[[i]], kind[[i]], np.array([r]))[0]]
    } - set(triples(homes.rules))
    assert len(rows(found)) == len(expected)
    assert set(rows(found)) == expected


@given(case=evidence_cases(), k=LENGTHS)
def test_scores_fall_and_equal_ones_stand_in_the_order_of_devices(case, k):
    whole, found = (search_of(case.saved).many(case.homes, many) for many in (10_000, k))
    order = [(home, -score, *rest) for (home, *rest), score in zip(rows(whole), whole.score.tolist(), strict=True)]
    assert order == sorted(order)
    # So a shorter list is the beginning of a longer one.
    for home in range(case.homes.n_homes):
        assert rows(of_home(found, home)) == rows(of_home(whole, home))[:k]


def test_with_all_scores_equal_the_list_is_that_of_devices_and_relations():
    train = planted_homes()
    flat = evidence_model(train, step=1e9)
    found = search_of(flat).many(train, 7)
    assert set(found.score.tolist()) == {0.0}
    whole = search_of(flat).many(train, 10_000)
    assert rows(whole) == sorted(rows(whole))
    assert rows(of_home(found, 3)) == rows(of_home(whole, 3))[:7]


@pytest.mark.parametrize("size", [1e-30, 1e-6, 1e3, 1e12, 1e20, 1e37])
def test_weights_of_any_size_give_finite_scores_and_all_candidates(size):
    homes = room_homes()
    found, expected = (search_of(evidence_model(homes, seed=2, size=of)).many(homes, 10_000) for of in (size, 1.0))
    assert sorted(rows(found)) == sorted(rows(expected))
    assert np.isfinite(found.score).all()
    assert np.abs(found.score).max() <= LARGEST_SCORE


def test_a_score_beyond_all_numbers_is_the_lowest():
    # The home's counts add up to infinity and those of the action to minus infinity.
    homes, none = room_homes(), evidence_model(room_homes(), step=1e9)
    direct = np.zeros(len(NAMES), dtype=np.float32)
    direct[:N_HOME], direct[ACTION:PAIR] = 3e38, -3e38
    found = search_of(replace(none, arrays=none.arrays | {"weights.evidence.direct": direct})).many(homes, 10_000)
    assert sorted(rows(found)) == sorted(rows(search_of(none).many(homes, 10_000)))
    assert np.abs(found.score).max() <= LARGEST_SCORE


@settings(max_examples=20)
@given(case=evidence_cases(words=False), seed=st.integers(0, 9))
def test_a_model_of_homes_without_words_ignores_those_of_a_request(case, seed):
    saved, homes = case
    chance = np.random.default_rng(seed)
    named = np.flatnonzero(chance.random(homes.n_devices) < 0.7)
    other = replace(homes, words=Words(named, chance.integers(0, 3, len(named))))
    search = search_of(saved)
    ours, theirs = (search.many(some, 20) for some in (homes, other))
    assert rows(ours) == rows(theirs)
    assert ours.score.tobytes() == theirs.score.tobytes()
    for (_, alone), (_, with_words) in zip(
        one_after_the_other(search, homes, 20), one_after_the_other(search, other, 20), strict=True
    ):
        assert rows(alone) == rows(with_words)


@settings(max_examples=20)
@given(homes=crowded_homes(min_homes=1, words=True), seed=st.integers(0, 99))
def test_so_does_one_whose_network_takes_none(homes, seed):
    search = search_of(evidence_model(homes, seed=seed, words=False))
    ours, theirs = (search.many(some, 20) for some in (homes, homes.without_words()))
    # What has no weight may change the order in which the same scores are computed, not the scores beyond rounding.
    np.testing.assert_allclose(ours.score, theirs.score, rtol=1e-5, atol=1e-5)


@settings(max_examples=20)
@given(case=evidence_cases(), k=st.integers(1, 9))
def test_diverse_lists_of_one_home_are_those_among_many(case, k):
    card = case.saved.card
    search = DiverseSearch(search_of(case.saved), len(card.types), len(card.relations), 1)
    many = search.many(case.homes, k)
    for home, alone in one_after_the_other(search, case.homes, k):
        assert rows(alone) == rows(of_home(many, home))


def test_no_homes_and_homes_without_devices_have_no_lists():
    train = planted_homes()
    search = search_of(evidence_model(train))
    assert len(search.many(train.subset([]), 5).home) == 0
    none = np.zeros(0, dtype=np.int64)
    bare = Homes("bare", train.types, train.relations, np.arange(2), none, none, none, train.subset([]).rules)
    assert len(search.many(bare, 5).home) == 0
    assert len(search.one(Graph.of(bare.subset([0])), 5).home) == 0


ROOMS = {
    "devices": [
        {"id": "s1", "type": "ContactSensor", "name": "Kitchen door"},
        {"id": "l1", "type": "Light", "name": "Hall lamp"},
        {"id": "l2", "type": "Light", "name": "Kitchen lamp"},
        {"id": "s2", "type": "ContactSensor", "name": "Hall door"},
    ],
    "rules": [],
}
LIGHT = """
import json, sys
for name in ("torch", "torch_geometric", "scipy", "pandas", "pyarrow", "fastapi"):
    sys.modules[name] = None  # to import it is an error
from fedrule.inference import HomeRequest, Recommender
recommender = Recommender.load(sys.argv[1])
answer = recommender.recommend(HomeRequest.from_json(json.loads(sys.argv[2])), k=3)
print(json.dumps([rule.text for rule in answer.rules]))
"""


def test_it_answers_where_neither_torch_nor_scipy_nor_pandas_is_installed(tmp_path):
    saved = evidence_model(room_homes(), seed=4)
    saved.save(tmp_path / "model.safetensors")
    command = [sys.executable, "-c", LIGHT, str(tmp_path / "model.safetensors"), json.dumps(ROOMS)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found == [rule.text for rule in Recommender(saved).recommend(HomeRequest.from_json(ROOMS), k=3).rules]
    assert len(found) == 3


def test_names_of_devices_say_which_are_in_one_room():
    # Of all weights only that of shared words is not zero: the lamp of the same room comes first.
    saved = evidence_model(room_homes(), step=1e9)
    direct = np.zeros(len(NAMES), dtype=np.float32)
    direct[NAMES.index("word: cosine")] = 1
    saved = replace(saved, arrays=saved.arrays | {"weights.evidence.direct": direct})
    lines = Recommender(saved).recommend(HomeRequest.from_json(ROOMS), k=2).rules
    assert [(line.trigger, line.action_device) for line in lines] == [("s1", "l2"), ("s2", "l1")]
    graph = HomeEncoder(saved.card).encode(HomeRequest.from_json(ROOMS)).graph
    assert rows(scorer_search(saved).one(graph, 4)) == rows(search_of(saved).one(graph, 4))


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("weights.evidence.first", np.zeros((3, 3), dtype=np.float32)),
        ("weights.evidence.direct", None),
        ("counts.patterns.1", None),
        ("counts.patterns.3", np.array([1, 2, 3])),
        ("counts.together.indices", np.array([99])),
        ("counts.together.indptr", np.array([0, 1, 2, 99])),
        ("counts.rooms.named_types", np.array([1])),
        ("counts.rooms.shared_rule", None),
        ("counts.companions.cell", np.array([2, 1])),
        ("counts.companions.cell", np.array([10**6])),
        ("counts.companions.homes", np.array([-1])),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, other):
    saved = evidence_model(room_homes())
    arrays = {key: array for key, array in {**saved.arrays, name: other}.items() if array is not None}
    with pytest.raises(DataError, match=r"counts|weights"):
        Recommender(replace(saved, arrays=arrays))


@pytest.mark.parametrize(
    "options", [{"evidence": "many"}, {"evidence": -4}, {"evidence": 8}, {"words": "yes"}, {"words": False}]
)
def test_a_card_that_does_not_fit_is_refused(options):
    saved = evidence_model(room_homes())
    with pytest.raises(DataError, match=r"evidence|words"):
        Recommender(replace(saved, card=replace(saved.card, options=saved.card.options | options)))
