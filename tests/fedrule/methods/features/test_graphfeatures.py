"""Gradient boosting on graph features: what it learns, what counts must not give away, homes with too little."""

from __future__ import annotations

import numpy as np
import pytest

from baselines.contract import all_pairs, planted_homes

pytest.importorskip("sklearn", reason="graphfeatures needs the extra learn")

import fedrule.methods.features.ranker
from fedrule.evidence.evidence import Evidence
from fedrule.evidence.features import NAMES
from fedrule.methods.features.graphfeatures import GraphFeatures
from fedrule.methods.features.ranker import FoldedExamples
from fedrule.network.score import homes_of_pairs

SMALL = GraphFeatures(min_samples_leaf=5, max_iter=40)


def fit(method, train, seed=0):
    return method.fit(train, rng=np.random.default_rng(seed))


def test_counts_do_not_tell_a_home_whether_it_was_counted():
    # In one fold all candidates of one typed rule see the same homes, whether they are rules or not.
    examples = FoldedExamples(hidden=0.3, folds=3, draws=20, candidates=300)
    drawn = examples.draw(planted_homes(), np.random.default_rng(0), count=Evidence.of)
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


def test_all_rules_may_be_hidden_at_once():
    train = planted_homes()
    scores = fit(GraphFeatures(hidden_rules=0.999, min_samples_leaf=5), train).score_pairs(train, *all_pairs(train))
    assert np.isfinite(scores).any()


def test_only_the_homes_of_the_pairs_are_shown():
    train = planted_homes()
    trigger, action = all_pairs(train)
    some = np.isin(train.device_home[trigger], [2, 5])
    shown, moved, others = homes_of_pairs(train, trigger[some], action[some])
    assert shown.users.tolist() == train.users[[2, 5]].tolist()
    assert shown.device_type[moved].tolist() == train.device_type[trigger[some]].tolist()
    assert shown.device_type[others].tolist() == train.device_type[action[some]].tolist()
    assert (shown.device_home[moved] == shown.device_home[others]).all()
