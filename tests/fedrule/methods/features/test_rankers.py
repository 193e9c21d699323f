"""All rankers by features: what has a score, what the seed decides, too little to learn from, another vocabulary."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest

from baselines.contract import PLANTED, TYPES, ToyHome, all_pairs, planted_homes, toy_homes
from datasets import DataError
from datasets.valid import ValidRules

pytest.importorskip("sklearn", reason="rankers by features need the extra learn")

from fedrule.methods.features import ranker
from fedrule.methods.features.graphfeatures import GraphFeatures
from fedrule.methods.features.ranker import FoldedExamples
from fedrule.methods.features.recrules import RecRules
from fedrule.methods.features.takg import TaKG
from tests.support.button_lamps import button_lamps

SMALL = {
    "graphfeatures": GraphFeatures(min_samples_leaf=5, max_iter=40),
    "recrules": RecRules(min_samples_leaf=5, trees=20),
    "takg": TaKG(min_samples_leaf=5, trees=40),
}
CONTACT_LIGHT = ("ContactSensor", "Light")


def fit(method, train, seed=0):
    return method.fit(train, rng=np.random.default_rng(seed))


def scores_of(fitted, homes):
    return fitted.score_pairs(homes, *all_pairs(homes))


@pytest.fixture(scope="module", params=sorted(SMALL))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def fitted(name):
    """The method after training on the planted homes."""
    return fit(SMALL[name], planted_homes())


def test_a_rule_that_training_never_saw_has_no_score_and_all_others_have_one(fitted):
    train = planted_homes()
    trigger, action = all_pairs(train)
    scores = fitted.score_pairs(train, trigger, action)
    types = train.device_type[trigger][:, None], train.device_type[action][:, None]
    seen = ValidRules.of(train).contains(*types, np.arange(len(train.relations)))
    assert np.isnan(scores[~seen]).all()
    assert np.isfinite(scores[seen]).all()


def test_the_seed_decides(name, fitted):
    train = planted_homes()
    again, other = (scores_of(fit(SMALL[name], train, seed), train) for seed in (0, 1))
    assert scores_of(fitted, train).tobytes() == again.tobytes()
    assert scores_of(fitted, train).tobytes() != other.tobytes()


def test_the_seed_decides_a_forest():
    train, method = planted_homes(), replace(SMALL["recrules"], ranker="forest")
    first, again, other = (scores_of(fit(method, train, seed), train) for seed in (0, 0, 1))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()
    assert np.isfinite(first).any()


@pytest.mark.parametrize("name", ["graphfeatures", "takg"])  # for recrules, devices of one type are the same
def test_lamps_of_one_type_are_told_apart_by_what_the_home_does_with_them(name):
    both, on = [(0, 1, 0), (0, 1, 1)], [(0, 1, 0)]
    train = button_lamps([on, *[both] * 60])
    scores = fit(SMALL[name], train).score_pairs(train, np.array([0, 0]), np.array([1, 2]))
    switched, other = scores[:, 1]
    assert switched > other


@pytest.mark.parametrize(
    "toys",
    [
        [],
        [ToyHome(1, CONTACT_LIGHT), ToyHome(2, ())],
        [ToyHome(1, CONTACT_LIGHT, (PLANTED,))],
        [ToyHome(n, CONTACT_LIGHT, (PLANTED,)) for n in range(8)],
    ],
    ids=["no home", "no rule", "one home", "rules only"],
)
def test_with_too_little_to_learn_from_all_scores_are_0_and_it_says_so(name, toys, caplog):
    train = toy_homes(toys)
    with caplog.at_level(logging.WARNING):
        fitted = fit(type(SMALL[name])(), train)
    assert f"{name}: toy homes has too few rules to learn from; all scores are 0" in caplog.text
    scores = scores_of(fitted, train)
    assert set(scores[np.isfinite(scores)].tolist()) <= {0.0}
    assert np.count_nonzero(np.isfinite(scores)) == train.n_rules


def test_homes_in_another_vocabulary_are_refused_with_the_remedy(name, fitted):
    train = planted_homes()
    turned = train.with_vocabulary(TYPES[::-1], train.relations)
    with pytest.raises(DataError, match=rf"not numbered as in the training of {name}; use homes\.with_"):
        scores_of(fitted, turned)
    more = train.with_vocabulary((*TYPES, "Oven"), train.relations)
    with pytest.raises(DataError, match="It has never seen Oven"):
        scores_of(fitted, more)


@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [
        ("graphfeatures", {"hidden_rules": 0.0}, r"hidden_rules must be in \(0, 1\), got 0.0"),
        ("graphfeatures", {"hidden_rules": 1.0}, r"hidden_rules must be in \(0, 1\), got 1.0"),
        ("graphfeatures", {"learning_rate": 0.0}, "learning_rate must be above 0, got 0.0"),
        ("graphfeatures", {"l2": -1.0}, "l2 must be at least 0, got -1.0"),
        ("graphfeatures", {"folds": 1}, "folds must be at least 2, got 1"),
        ("graphfeatures", {"draws": 0}, "draws must be at least 1, got 0"),
        ("graphfeatures", {"candidates": 0}, "candidates must be at least 1, got 0"),
        ("graphfeatures", {"max_leaf_nodes": 1}, "max_leaf_nodes must be at least 2, got 1"),
        ("recrules", {"length": 4}, "length must be 3 or 5, got 4"),
        ("recrules", {"hidden_rules": 1.0}, r"hidden_rules must be in \(0, 1\), got 1.0"),
        ("recrules", {"folds": 1}, "folds must be at least 2, got 1"),
        ("recrules", {"non_rules": 0}, "non_rules must be at least 1, got 0"),
        ("recrules", {"trees": 0}, "trees must be at least 1, got 0"),
        ("recrules", {"learning_rate": 0.0}, "learning_rate must be above 0, got 0.0"),
        ("takg", {"hidden_rules": 0.0}, r"hidden_rules must be in \(0, 1\), got 0.0"),
        ("takg", {"folds": 1}, "folds must be at least 2, got 1"),
        ("takg", {"non_rules": 0}, "non_rules must be at least 1, got 0"),
        ("takg", {"l2": -1.0}, "l2 must be at least 0, got -1.0"),
        ("takg", {"learning_rate": 0.0}, "learning_rate must be above 0, got 0.0"),
    ],
)
def test_a_wrong_parameter_is_named(name, wrong, words):
    with pytest.raises(DataError, match=f"{name}: {words}"):
        type(SMALL[name])(**wrong)


@pytest.mark.parametrize(
    ("most", "n_drawn"),
    [
        (1000, 4 * 30),  # few homes: all draws of all
        (70, 2 * 30),  # 70 // 30 draws
        (20, 20),  # one draw, not of all homes
    ],
)
def test_of_many_homes_fewer_examples_are_drawn(most, n_drawn, monkeypatch):
    """Of the 30 planted homes."""
    monkeypatch.setattr(ranker, "MOST_HOMES", most)
    train, examples = planted_homes(), FoldedExamples(0.999, folds=3, draws=4, candidates=1)
    assert examples.n_drawn(train.n_homes) == n_drawn
    seen = []

    class Recorded:
        def __init__(self, homes):
            self.valid = ValidRules.of(homes)

        def features(self, homes, candidates):
            seen.append(homes.n_homes)
            return np.zeros((len(candidates), 1), dtype=np.float32)

    features, positive = examples.draw(train, np.random.default_rng(0), count=Recorded)
    assert sum(seen) == n_drawn
    assert len(features) == len(positive) > 0
