"""Scores of all candidates without rows of features, against the evidence network in torch on these rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the network of training is torch's")

from datasets import Homes, Rules  # noqa: E402
from datasets.candidates import Pairs  # noqa: E402
from fedrule.evidence.evidence import Evidence  # noqa: E402
from fedrule.evidence.features import IS_WORD, NAMES  # noqa: E402
from fedrule.evidence.scores import network_shapes, used_features  # noqa: E402
from fedrule.network.score import GraphModel, Scorer  # noqa: E402
from fedrule.network.terms import EvidenceNetwork  # noqa: E402
from tests.support.crowded import crowded_homes  # noqa: E402
from tests.support.strategies import homes, triples  # noqa: E402

SEEDS = st.integers(0, 99)


def parameters_of(term, seed):
    chance = torch.Generator().manual_seed(seed)
    return {name: 0.5 * torch.randn(value.shape, generator=chance) for name, value in term.initial(chance).items()}


def every_pair(some):
    pairs = Pairs.of(some, self_pairs=True)
    _, trigger, action = pairs.devices(np.arange(pairs.start[-1]))
    return trigger, action


def by_torch(term, parameters, some, trigger, action):
    """The valid candidates of these pairs in turn, and their scores, in float64."""
    valid = term.evidence.valid
    pair, item = valid.of_pairs(some.device_type[trigger], some.device_type[action])
    candidates = Rules(some.device_home[trigger[pair]], trigger[pair], action[pair], valid.relation[item])
    order = np.argsort(candidates.home, kind="stable")
    precise = {name: value.double() for name, value in parameters.items()}
    logits = np.empty(len(pair))
    logits[order] = term.logits_of(precise, term.observe(some, candidates.take(order)), None).numpy()
    return triples(candidates), logits


def compare(train, some, trigger, action, *, words, seed, hidden=3):
    term = EvidenceNetwork(Evidence.of(train), hidden, words=words)
    parameters = parameters_of(term, seed)
    found = term.scores(parameters, train.types, train.relations).of_pairs(some, trigger, action)
    candidates, expected = by_torch(term, parameters, some, trigger, action)
    valid = term.evidence.valid
    columns = (
        some.device_home[trigger[found.pair]],
        trigger[found.pair],
        action[found.pair],
        valid.relation[found.item],
    )
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == candidates
    assert found.scores.dtype == np.float32
    np.testing.assert_allclose(found.scores, expected, rtol=1e-4, atol=1e-4)


@given(some=crowded_homes(), words=st.booleans(), seed=SEEDS)
def test_scores_are_those_of_the_network_on_the_features(some, words, seed):
    context = some.with_rules(np.random.default_rng(seed).random(some.n_rules) < 0.6)
    compare(some, context, *every_pair(some), words=words, seed=seed)


@given(some=crowded_homes(min_homes=1), data=st.data(), seed=SEEDS)
def test_some_pairs_in_any_order_have_the_scores_that_they_have_among_all(some, data, seed):
    """Also where the device of a state whose scores are shared is not asked for, and where a pair comes twice."""
    trigger, action = every_pair(some)
    places = st.lists(st.integers(0, max(len(trigger) - 1, 0)), max_size=30 if len(trigger) else 0)
    chosen = np.array(data.draw(places), dtype=np.int64)
    compare(some, some, trigger[chosen], action[chosen], words=True, seed=seed)
    term = EvidenceNetwork(Evidence.of(some), 3)
    scores = term.scores(parameters_of(term, seed), some.types, some.relations)
    among_all = scores.of_pairs(some, trigger, action)
    start = np.searchsorted(among_all.pair, np.arange(len(trigger) + 1))
    expected = [among_all.scores[start[pair] : start[pair + 1]] for pair in chosen.tolist()]
    found = scores.of_pairs(some, trigger[chosen], action[chosen]).scores
    assert found.tobytes() == np.concatenate([np.zeros(0, np.float32), *expected]).tobytes()


@settings(max_examples=30)
@given(train=homes(min_homes=1, bare=False, words=True), some=crowded_homes(min_homes=1, words=True), seed=SEEDS)
def test_homes_that_were_not_in_training_are_scored_alike(train, some, seed):
    other = train.types, train.relations
    kind, relation = some.device_type % len(other[0]), some.rules.relation % len(other[1])
    rules = some.rules
    every = {(t, a, r): h for h, t, a, r in zip(rules.home, rules.trigger, rules.action, relation, strict=True)}
    columns = np.array([(h, *rule) for rule, h in every.items()], dtype=np.int64).reshape(-1, 4).T
    asked = replace(some, types=other[0], relations=other[1], device_type=kind, rules=Rules(*columns).by_home())
    compare(train, asked, *every_pair(asked), words=True, seed=seed)


def lamps_in_one_room(n, *, words, rules=()):
    """Lamps and sensors in turn."""
    columns = np.array(rules, dtype=np.int64).reshape(-1, 3).T
    return Homes(
        "lamps",
        ("Sensor", "Lamp"),
        (("On", "Turn on"), ("Off", "Turn off")),
        np.array([1]),
        np.zeros(n, dtype=np.int64),
        np.arange(n) % 2,
        np.arange(n),
        Rules(np.zeros(len(rules), dtype=np.int64), *columns),
        words=words,
    )


def test_what_nothing_tells_apart_has_one_score_but_a_device_and_itself():
    train = lamps_in_one_room(4, words=None, rules=[(0, 1, 0), (1, 3, 1), (1, 1, 0)])
    term = EvidenceNetwork(Evidence.of(train), 4)
    scores = term.scores(parameters_of(term, 3), train.types, train.relations)
    some = lamps_in_one_room(8, words=None)
    trigger, action = every_pair(some)
    found = scores.of_pairs(some, trigger, action)
    is_lamp, is_self = trigger[found.pair] % 2 == 1, trigger[found.pair] == action[found.pair]
    for item in np.unique(found.item).tolist():
        alike = (found.item == item) & ~is_self
        assert len(np.unique(found.scores[alike])) == 1
        own = found.scores[(found.item == item) & is_self]
        assert len(np.unique(own)) == bool(is_lamp[found.item == item].any())
        assert not np.isin(own, found.scores[alike]).any()
    compare(train, some, trigger, action, words=True, seed=3)


def test_a_network_without_words_takes_all_other_features():
    assert used_features(words=True).all()
    assert used_features(words=False).tolist() == (~IS_WORD).tolist()
    n = len(NAMES) - int(IS_WORD.sum())
    assert network_shapes(4, words=False)["first"] == (n, 4)
    assert network_shapes(4, words=True)["direct"] == (len(NAMES),)
    for words in (False, True):
        term = EvidenceNetwork(Evidence.of(lamps_in_one_room(2, words=None)), 4, words=words)
        initial = term.initial(torch.Generator())
        assert {name: tuple(value.shape) for name, value in initial.items()} == network_shapes(4, words=words)


@settings(max_examples=20)
@given(some=crowded_homes(min_homes=1), seed=SEEDS)
def test_a_model_answers_by_them_with_nan_for_what_no_home_has(some, seed):
    term = EvidenceNetwork(Evidence.of(some), 3)
    parameters = {f"evidence.{name}": value for name, value in parameters_of(term, seed).items()}
    scorer = Scorer(None, term.evidence.valid, (term,), answers_unseen=False)
    model = GraphModel("graphrank", scorer, parameters, some.types, some.relations)
    trigger, action = every_pair(some)
    twice = np.concatenate([trigger, trigger[::-1]]), np.concatenate([action, action[::-1]])
    found, expected = model.score_pairs(some, *twice), scorer.score_pairs(model.parameters, some, *twice)
    assert (np.isnan(found) == np.isnan(expected)).all()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
