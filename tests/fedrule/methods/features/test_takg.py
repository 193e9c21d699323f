"""TaKG: its features against plain loops, what it learns from repeats and conflicts, homes with too little."""

from __future__ import annotations

import numpy as np
import pytest

from baselines.contract import planted_homes
from benchmarks.references.rule_features import (
    PlainPaths,
    PlainSimilarity,
    agreeing_rules,
    plain_homes,
    plain_rules,
)
from datasets import Rules, load
from fedrule.evidence import counts
from fedrule.evidence.counts import ColumnReader, HomeFrequencies
from fedrule.evidence.rule_paths import COLLABORATIVE

pytest.importorskip("sklearn", reason="takg needs the extra learn")

from fedrule.methods.features import takg
from fedrule.methods.features.takg import NAMES, OPPOSITE, REPEAT, SIMILAR, KnowledgeGraph, TaKG
from tests.support.button_lamps import button_lamps

SMALL = TaKG(min_samples_leaf=5, trees=40)


def fit(method, train, seed=0):
    return method.fit(train, rng=np.random.default_rng(seed))


def every_candidate(homes, valid):
    """All valid rules between devices of each home, whether it has them or not, sorted by home."""
    trigger, action = np.nonzero(homes.device_home[:, None] == homes.device_home)
    pair, item = valid.of_pairs(homes.device_type[trigger], homes.device_type[action])
    trigger, action = trigger[pair], action[pair]
    return Rules(homes.device_home[trigger], trigger, action, valid.relation[item]), item


@pytest.mark.parametrize("cells", [1, 1 << 21])
def test_all_features_are_those_of_plain_loops_over_the_rules_of_the_home(monkeypatch, cells):
    monkeypatch.setattr(takg, "CELLS", cells)
    homes = load("wyze-synthetic", homes=60)
    train, new = homes.subset(np.arange(30)), homes.subset(np.arange(26, 34))  # some counted, others not
    graph = KnowledgeGraph.of(train)
    candidates, item = every_candidate(new, graph.valid)
    found = graph.features(new, candidates)
    shares = HomeFrequencies.of(train).table(ColumnReader.of(train.types, train.relations), graph.valid.cell, less=0)
    own, queries = plain_homes(new), plain_rules(new, candidates)
    similarity, paths = PlainSimilarity(train), PlainPaths(train)
    for row, (home, candidate) in enumerate(zip(candidates.home.tolist(), queries, strict=True)):
        expected = [*shares[:, 0, item[row]]]
        expected += [similarity.largest(own[home], candidate, half, pattern) for half, pattern in SIMILAR]
        expected += [agreeing_rules(own[home], candidate, pattern) for pattern in REPEAT]
        for turned, patterns in OPPOSITE.items():
            expected += [agreeing_rules(own[home], candidate, pattern, opposite=turned) for pattern in patterns]
        expected += found[row, len(expected) : len(expected) + 2].tolist()  # whether there are opposites: below
        expected += [sum((r.trigger, r.action) == (candidate.action, candidate.trigger) for r in own[home].rules)]
        expected += [candidate.trigger == candidate.action]
        expected += paths.features(own[home], [candidate], [COLLABORATIVE])[0]
        np.testing.assert_allclose(found[row], expected, rtol=1e-5, atol=1e-6, err_msg=str(candidate))
    assert len(NAMES) == found.shape[1]
    assert NAMES[: len(counts.NAMES)] == counts.NAMES


def test_conflicts_and_complements_are_told_apart():
    train = button_lamps([[(0, 1, 0), (0, 1, 1)], [(0, 1, 2)]])
    graph = KnowledgeGraph.of(train)
    new = button_lamps([[(0, 1, 0)]])  # pressed on: the first lamp goes on
    # Candidates: pressed off -> first lamp off, pressed on -> first lamp off, pressed on -> second lamp off.
    candidates = Rules(*np.array([[0, 0, 0], [0, 0, 0], [1, 1, 2], [1, 2, 2]]))
    found = graph.features(new, candidates)
    column = {name: found[:, at].tolist() for at, name in enumerate(NAMES)}
    device = "trigger, action, state, act"
    assert column[f"rules, opposite act, else same {device}"] == [0, 1, 0]
    assert column[f"rules, opposite state and act, else same {device}"] == [1, 0, 0]
    assert column["rules, opposite act, else same trigger, state, act"] == [0, 1, 1]
    assert column["rules, opposite act, else same action, act"] == [1, 1, 0]
    assert column["rules, same trigger, action"] == [1, 1, 0]
    assert column["the state has an opposite"] == column["the act has an opposite"] == [1, 1, 1]


def test_a_label_without_an_opposite_says_so():
    train = planted_homes()  # Open, Motion; Power On, Power Off: no state has an opposite, both acts have
    graph = KnowledgeGraph.of(train)
    found = graph.features(train, train.rules)
    column = {name: set(found[:, at].tolist()) for at, name in enumerate(NAMES)}
    assert column["the act has an opposite"] == {1}
    # "No Motion" is the opposite of "Motion", "Open" has none here.
    assert column["the state has an opposite"] == {0, 1}


def test_what_would_contradict_a_rule_scores_lower_than_where_there_is_none():
    # Of the homes, half switch the lamp on by pressing on, half off; nobody does both.
    train = button_lamps([[(0, 1, 0)] if n % 2 else [(0, 1, 2)] for n in range(80)] + [[(0, 1, 0), (0, 2, 0)]] * 40)
    fitted = fit(SMALL, train)
    with_rule, without = button_lamps([[(0, 1, 0)]]), button_lamps([[]])
    one, other = (fitted.score_pairs(homes, np.array([0]), np.array([1]))[0, 2] for homes in (with_rule, without))
    assert one < other
