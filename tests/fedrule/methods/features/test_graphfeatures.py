"""Gradient boosting on graph features: what it learns, what counts must not give away, homes with too little."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from baselines.contract import PLANTED, TYPES, ToyHome, all_pairs, planted_homes, toy_homes
from datasets import DataError, Homes, Rules
from datasets.valid import ValidRules

pytest.importorskip("sklearn", reason="graphfeatures needs the extra learn")

import fedrule.methods.features.ranker
from fedrule.evidence.evidence import Evidence
from fedrule.evidence.features import NAMES
from fedrule.methods.features.graphfeatures import GraphFeatures
from fedrule.methods.features.ranker import FoldedExamples
from fedrule.network.score import homes_of_pairs

SMALL = GraphFeatures(min_samples_leaf=5, max_iter=40)
CONTACT_LIGHT = ("ContactSensor", "Light")


def fit(method, train, seed=0):
    return method.fit(train, rng=np.random.default_rng(seed))


def two_lamps(n_homes: int) -> Homes:
    """Homes with a button and two lamps: it switches the first lamp on, and in all but the first home off again."""
    home = np.arange(n_homes)
    first = 3 * home
    on = np.stack([home, first, first + 1, np.zeros(n_homes, dtype=np.int64)])
    off = np.stack([home, first, first + 1, np.ones(n_homes, dtype=np.int64)])[:, 1:]
    rules = np.concatenate([on, off], axis=1)
    return Homes(
        name="two lamps",
        types=("Button", "Lamp"),
        relations=(("Pressed", "On"), ("Held", "Off")),
        users=home,
        device_home=np.repeat(home, 3),
        device_type=np.tile([0, 1, 1], n_homes),
        device_ids=np.tile([0, 1, 2], n_homes),
        rules=Rules(*rules[:, np.argsort(rules[0], kind="stable")]),
    )


def test_lamps_of_one_type_are_told_apart_by_what_the_home_does_with_them():
    train = two_lamps(60)
    scores = fit(SMALL, train).score_pairs(train, np.array([0, 0]), np.array([1, 2]))
    switched, other = scores[:, 1]
    assert switched > other


def test_a_rule_that_training_never_saw_has_no_score_and_all_others_have_one():
    train = planted_homes()
    trigger, action = all_pairs(train)
    scores = fit(SMALL, train).score_pairs(train, trigger, action)
    types = train.device_type[trigger][:, None], train.device_type[action][:, None]
    seen = ValidRules.of(train).contains(*types, np.arange(len(train.relations)))
    assert np.isnan(scores[~seen]).all()
    assert np.isfinite(scores[seen]).all()


def test_counts_do_not_tell_a_home_whether_it_was_counted():
    # In one fold all candidates of one typed rule see the same homes, whether they are rules or not.
    examples = FoldedExamples(hidden=0.3, folds=3, draws=20, candidates=300)
    drawn = examples.draw(planted_homes(), np.random.default_rng(0), count=Evidence.of, n_features=len(NAMES))
    features, positive = drawn
    have, both = (NAMES.index(name) for name in ("homes with the typed rule", "homes that own both types"))
    rules, others = ({tuple(row) for row in features[which][:, [have, both]]} for which in (positive, ~positive))
    # 3 typed rules in 3 folds. With only the home itself left out, rules and non-rules would have no pair in common:
    # (N - 1, B - 1) for a rule that N of B homes have, and (N, B - 1) for a non-rule.
    assert len(rules | others) <= 3 * 3
    assert rules & others


@pytest.mark.parametrize("at_once", [1, 7])
def test_scores_are_the_same_bits_in_any_order_and_a_few_at_a_time(monkeypatch, at_once):
    train = planted_homes()
    fitted, (trigger, action) = fit(SMALL, train), all_pairs(train)
    together = fitted.score_pairs(train, trigger, action)
    order = np.random.default_rng(0).permutation(len(trigger))
    monkeypatch.setattr(fedrule.methods.features.ranker, "AT_ONCE", at_once)
    parts = fitted.score_pairs(train, trigger[order], action[order])
    assert parts.tobytes() == together[order].tobytes()


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
def test_with_too_little_to_learn_from_all_scores_are_0_and_it_says_so(toys, caplog):
    train = toy_homes(toys)
    with caplog.at_level(logging.WARNING):
        fitted = fit(GraphFeatures(), train)
    assert "graphfeatures: toy homes has too few rules to learn from; all scores are 0" in caplog.text
    scores = fitted.score_pairs(train, *all_pairs(train))
    assert set(scores[np.isfinite(scores)].tolist()) <= {0.0}
    assert np.count_nonzero(np.isfinite(scores)) == train.n_rules


def test_all_rules_may_be_hidden_at_once():
    train = planted_homes()
    scores = fit(GraphFeatures(hidden_rules=0.999, min_samples_leaf=5), train).score_pairs(train, *all_pairs(train))
    assert np.isfinite(scores).any()


def test_the_seed_decides():
    train = planted_homes()
    first, again, other = (fit(SMALL, train, seed).score_pairs(train, *all_pairs(train)) for seed in (0, 0, 1))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"hidden_rules": 0.0}, r"hidden_rules must be in \(0, 1\), got 0.0"),
        ({"hidden_rules": 1.0}, r"hidden_rules must be in \(0, 1\), got 1.0"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0, got 0.0"),
        ({"l2": -1.0}, "l2 must be at least 0, got -1.0"),
        ({"folds": 1}, "folds must be at least 2, got 1"),
        ({"draws": 0}, "draws must be at least 1, got 0"),
        ({"candidates": 0}, "candidates must be at least 1, got 0"),
        ({"max_leaf_nodes": 1}, "max_leaf_nodes must be at least 2, got 1"),
    ],
)
def test_a_wrong_parameter_is_named(wrong, words):
    with pytest.raises(DataError, match=f"graphfeatures: {words}"):
        GraphFeatures(**wrong)


def test_homes_in_another_vocabulary_are_refused_with_the_remedy():
    train = planted_homes()
    fitted = fit(SMALL, train)
    turned = train.with_vocabulary(TYPES[::-1], train.relations)
    with pytest.raises(DataError, match=r"not numbered as in the training of graphfeatures; use homes\.with_"):
        fitted.score_pairs(turned, *all_pairs(turned))
    more = train.with_vocabulary((*TYPES, "Oven"), train.relations)
    with pytest.raises(DataError, match="It has never seen Oven"):
        fitted.score_pairs(more, *all_pairs(more))


def test_only_the_homes_of_the_pairs_are_shown():
    train = planted_homes()
    trigger, action = all_pairs(train)
    some = np.isin(train.device_home[trigger], [2, 5])
    shown, moved, others = homes_of_pairs(train, trigger[some], action[some])
    assert shown.users.tolist() == train.users[[2, 5]].tolist()
    assert shown.device_type[moved].tolist() == train.device_type[trigger[some]].tolist()
    assert shown.device_type[others].tolist() == train.device_type[action[some]].tolist()
    assert (shown.device_home[moved] == shown.device_home[others]).all()
