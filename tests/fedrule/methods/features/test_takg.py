"""TaKG: its features against plain loops, what it learns from repeats and conflicts, homes with too little."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from baselines.contract import PLANTED, TYPES, ToyHome, all_pairs, planted_homes, toy_homes
from benchmarks.references.rule_features import (
    PlainPaths,
    PlainSimilarity,
    agreeing_rules,
    plain_homes,
    plain_rules,
)
from datasets import DataError, Homes, Rules, load
from fedrule.evidence import counts
from fedrule.evidence.counts import ColumnReader, HomeFrequencies
from fedrule.evidence.rule_paths import COLLABORATIVE

pytest.importorskip("sklearn", reason="takg needs the extra learn")

from fedrule.methods.features import takg
from fedrule.methods.features.takg import NAMES, OPPOSITE, REPEAT, SIMILAR, KnowledgeGraph, TaKG

SMALL = TaKG(min_samples_leaf=5, trees=40)
CONTACT_LIGHT = ("ContactSensor", "Light")
BUTTON, LAMP = 0, 1


def fit(method, train, seed=0):
    return method.fit(train, rng=np.random.default_rng(seed))


def lamps(homes_of_rules: list[list[tuple[int, int, int]]]) -> Homes:
    """Homes with a button and two lamps, and rules (trigger, action, relation) by position in the home."""
    n_homes = len(homes_of_rules)
    rules = [(n, 3 * n + i, 3 * n + j, r) for n, own in enumerate(homes_of_rules) for i, j, r in own]
    return Homes(
        name="lamps",
        types=("Button", "Lamp"),
        relations=(("Pressed On", "Power On"), ("Pressed Off", "Power Off"), ("Pressed On", "Power Off")),
        users=np.arange(n_homes),
        device_home=np.repeat(np.arange(n_homes), 3),
        device_type=np.tile([BUTTON, LAMP, LAMP], n_homes),
        device_ids=np.tile([0, 1, 2], n_homes),
        rules=Rules(*np.array(rules, dtype=np.int64).reshape(-1, 4).T),
    )


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
    own, asked = plain_homes(new), plain_rules(new, candidates)
    similarity, paths = PlainSimilarity(train), PlainPaths(train)
    for row, (home, candidate) in enumerate(zip(candidates.home.tolist(), asked, strict=True)):
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
    train = lamps([[(0, 1, 0), (0, 1, 1)], [(0, 1, 2)]])
    graph = KnowledgeGraph.of(train)
    new = lamps([[(0, 1, 0)]])  # pressed on: the first lamp goes on
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


def test_lamps_of_one_type_are_told_apart_by_what_the_home_does_with_them():
    both, on = [(0, 1, 0), (0, 1, 1)], [(0, 1, 0)]
    train = lamps([on, *[both] * 60])
    scores = fit(SMALL, train).score_pairs(train, np.array([0, 0]), np.array([1, 2]))
    switched, other = scores[:, 1]
    assert switched > other


def test_what_would_contradict_a_rule_scores_lower_than_where_there_is_none():
    # Of the homes, half switch the lamp on by pressing on, half off; nobody does both.
    train = lamps([[(0, 1, 0)] if n % 2 else [(0, 1, 2)] for n in range(80)] + [[(0, 1, 0), (0, 2, 0)]] * 40)
    fitted = fit(SMALL, train)
    with_rule, without = lamps([[(0, 1, 0)]]), lamps([[]])
    one, other = (fitted.score_pairs(homes, np.array([0]), np.array([1]))[0, 2] for homes in (with_rule, without))
    assert one < other


@pytest.mark.parametrize(
    "toys",
    [[], [ToyHome(1, CONTACT_LIGHT), ToyHome(2, ())], [ToyHome(1, CONTACT_LIGHT, (PLANTED,))]],
    ids=["no home", "no rule", "one home"],
)
def test_with_too_little_to_learn_from_all_scores_are_0_and_it_says_so(toys, caplog):
    train = toy_homes(toys)
    with caplog.at_level(logging.WARNING):
        fitted = fit(TaKG(), train)
    assert "takg: toy homes has too few rules to learn from; all scores are 0" in caplog.text
    scores = fitted.score_pairs(train, *all_pairs(train))
    assert set(scores[np.isfinite(scores)].tolist()) <= {0.0}


def test_the_seed_decides():
    train = planted_homes()
    first, again, other = (fit(SMALL, train, seed).score_pairs(train, *all_pairs(train)) for seed in (0, 0, 1))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"hidden_rules": 0.0}, r"hidden_rules must be in \(0, 1\), got 0.0"),
        ({"folds": 1}, "folds must be at least 2, got 1"),
        ({"non_rules": 0}, "non_rules must be at least 1, got 0"),
        ({"l2": -1.0}, "l2 must be at least 0, got -1.0"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0, got 0.0"),
    ],
)
def test_a_wrong_parameter_is_named(wrong, words):
    with pytest.raises(DataError, match=f"takg: {words}"):
        TaKG(**wrong)


def test_homes_in_another_vocabulary_are_refused_with_the_remedy():
    train = planted_homes()
    turned = train.with_vocabulary(TYPES[::-1], train.relations)
    with pytest.raises(DataError, match="not numbered as in the training of takg"):
        fit(SMALL, train).score_pairs(turned, *all_pairs(turned))
