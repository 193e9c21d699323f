"""The recommended graph method trained in the homes: as good as centralized, and what leaves a home are addends."""

from __future__ import annotations

import functools
import operator
from itertools import product

import numpy as np
import pytest
from hypothesis import given

pytest.importorskip("torch", reason="fedrank needs the extra graph")
pytest.importorskip("torch_geometric", reason="fedrank needs the extra graph")
pytest.importorskip("numba", reason="fedrank needs the extra graph")

import datasets
from baselines.contract import ToyHome, planted_homes, toy_homes
from baselines.registry import build, parameters
from benchmarks.evaluation import evaluate
from datasets import DataError
from datasets.valid import ValidRules
from fedrule.evidence.evidence import Evidence
from fedrule.evidence.features import NAMES
from fedrule.evidence.statistics import Statistics, sent_bytes
from fedrule.methods.fedrank import FedRank
from fedrule.methods.graphrank import GraphRank
from tests.support.plain_evidence import PlainEvidence
from tests.support.strategies import every_candidate, homes

QUICK = {"rounds": 60, "draws": 2, "candidates": 50}


def rng(seed=3):
    return np.random.default_rng(seed)


# What is counted over homes


@given(train=homes(min_homes=1))
def test_the_counts_of_evidence_are_sums_of_what_each_home_adds(train):
    valid = ValidRules.of(train)
    each = [Statistics.of(train.subset(np.array([home])), valid) for home in range(train.n_homes)]
    expected = Evidence.of(train)
    candidates = every_candidate(train)
    for parts in (each, each[::-1], [Statistics.of(train, valid)]):
        summed = functools.reduce(operator.add, parts).evidence()
        assert summed.frequencies.n_homes == expected.frequencies.n_homes
        assert summed.frequencies.both.tobytes() == expected.frequencies.both.tobytes()
        for ours, theirs in zip(summed.frequencies.have, expected.frequencies.have, strict=True):
            assert ours.tolist() == theirs.tolist()
        assert summed.together.inverse.tobytes() == expected.together.inverse.tobytes()
        assert summed.together.able.tobytes() == expected.together.able.tobytes()
        for ours, theirs in zip(summed.companions.tables, expected.companions.tables, strict=True):
            assert ours.tobytes() == theirs.tobytes()
        for ours, theirs in zip(summed.rooms.columns, expected.rooms.columns, strict=True):
            assert ours.tolist() == theirs.tolist()
        for leave_out in (None, train):
            ours, theirs = (e.features(train, candidates, leave_out=leave_out) for e in (summed, expected))
            assert ours.tobytes() == theirs.tobytes()


@given(train=homes(min_homes=1))
def test_what_a_home_adds_are_zeros_and_ones(train):
    valid = ValidRules.of(train)
    for home in range(train.n_homes):
        added = Statistics.of(train.subset(np.array([home])), valid)
        rooms, (companions, _, typed) = added.rooms.columns, added.companions.tables
        for counts in (added.both, *added.have, added.together.toarray(), *rooms, companions, typed, added.self_rules):
            assert set(np.unique(counts)) <= {0, 1}


@given(train=homes(min_homes=1))
def test_the_valid_rules_are_what_is_not_zero_in_a_sum_over_homes(train):
    each = [ValidRules.of(train.subset(np.array([home]))).dense().astype(int) for home in range(train.n_homes)]
    np.testing.assert_array_equal(sum(each) > 0, ValidRules.of(train).dense())


def test_bytes_are_counted_with_all_zeros():
    # 5 types and 4 relations are 100 cells and 15 pairs of types. The two typed rules are from a sensor to a lamp,
    # Open -> Power On, and from a motion sensor to a lamp, Motion -> Power On: a pair. They differ in (trigger type,
    # action type) with state, act or nothing, in (trigger type, state), (trigger type, relation), (action type,
    # relation) and (relation,), 7 patterns of 2, and agree in (action type, act), 1 of 1: 15 combinations.
    # Rules in one room: named and shared, for 25 ordered pairs of types and for 2 typed rules, 54. Relations that go
    # together on a pair, a trigger or an action: 3 x 4 x 4. On a pair by its types: from a sensor to a lamp one rule is
    # valid, 1 x 1, from a motion sensor to a lamp another one, 1 x 1.
    rules = (("ContactSensor", 0, "Light"), ("MotionSensor", 1, "Light"))
    evidence = Evidence.of(toy_homes([ToyHome(0, ("ContactSensor", "MotionSensor", "Light"), rules)]))
    assert sent_bytes(evidence) == 4 * (100 + 15 + 15 + 1 + 54 + 48 + 2)


@given(train=homes(min_homes=1))
def test_words_and_companions_are_counted_plainly(train):
    """The sums of rules in one room and of relations that go together, home by home and rule by rule."""
    plain, valid = PlainEvidence(train), ValidRules.of(train)
    evidence, n_types = Evidence.of(train), len(train.types)
    rooms = evidence.rooms
    for counted, column, typed in (
        (plain.is_named, rooms.named_types, False),
        (plain.is_shared, rooms.shared_types, False),
        (plain.is_named, rooms.named_rule, True),
        (plain.is_shared, rooms.shared_rule, True),
    ):
        expected = [0] * len(column)
        for number, home in {
            (
                int(valid.number(*(np.array([value]) for value in rule.typed))[0])
                if typed
                else rule.trigger_type * n_types + rule.action_type,
                rule.home,
            )
            for rule in plain.rules
            if counted(rule)
        }:
            assert 0 <= home < train.n_homes
            expected[number] += 1
        assert column.tolist() == expected
    companions, start, typed = evidence.companions.tables
    for table, columns in zip(
        companions, (("home", "trigger", "action"), ("home", "trigger"), ("home", "action")), strict=True
    ):
        together = {
            (one.relation, other.relation, one.home)
            for one, other in product(plain.rules, plain.rules)
            if one.agrees(other, columns)
        }
        expected = np.zeros_like(table)
        for one, other, _ in together:
            expected[one, other] += 1
        assert table.tolist() == expected.tolist()
    for pair, types in enumerate(product(range(n_types), range(n_types))):
        alike = [rule for rule in plain.rules if (rule.trigger_type, rule.action_type) == types]
        relations = sorted({rule.relation for rule in alike})
        both = {
            (one.relation, other.relation, one.home)
            for one, other in product(alike, alike)
            if one.agrees(other, ("home", "trigger", "action"))
        }
        counted = [sum((one, other) == cell[:2] for cell in both) for one, other in product(relations, relations)]
        assert typed[start[pair] : start[pair + 1]].tolist() == counted
    assert evidence.companions.n_cells == companions.size + len(typed)


# The method


def test_it_has_the_model_of_graphrank():
    ours, theirs = FedRank(), GraphRank()
    model = ("hidden", "evidence", "words", "dropout", "objective", "non_rules", "candidates", "draws", "hidden_rules")
    assert [getattr(ours, name) for name in model] == [getattr(theirs, name) for name in model]
    assert all(parameter.meaning for parameter in parameters("fedrank"))


def test_it_finds_hidden_rules_better_than_popularity():
    split = datasets.split(
        datasets.load("wyze-synthetic", homes=400).merged_types(), "holdout", seed=100, validation=True
    )
    ours, popular = (
        evaluate(model, split, "ranking", part="validation").summary["mrr"]
        for model in (FedRank(**QUICK).fit(split.train, rng=rng()), build("popularity").fit(split.train, rng=rng()))
    )
    assert ours > popular


def test_the_first_round_tells_the_bytes_of_the_counts_and_every_round_those_of_its_updates():
    told = []
    train = planted_homes()
    FedRank(rounds=3).fit(train, rng=rng(), on_round=lambda *round: told.append(dict(round[-1])))
    assert [("statistics_bytes" in values) for values in told] == [True, False, False]
    assert told[0]["statistics_bytes"] == sent_bytes(Evidence.of(train))
    # A direct weight for each feature, `first` with its bias, and the last ones, 4 bytes each.
    n, hidden = len(NAMES), FedRank().evidence
    assert {values["sent_bytes"] for values in told} == {4 * (n + (n + 1) * hidden + hidden)}
    assert {values["state_bytes"] for values in told} == {0}


def test_it_can_do_without_evidence():
    told = []
    without = FedRank(rounds=1, evidence=0, bias="learned")
    without.fit(planted_homes(), rng=rng(), on_round=lambda *round: told.append(dict(round[-1])))
    # Feasible non-rules and the bias need to know which typed rules there are: of 5 x 5 types and 4 relations.
    assert told[0]["statistics_bytes"] == 4 * 100


# Cohorts of a number of homes


def test_a_round_has_as_many_homes_as_its_cohort():
    told = []
    train = planted_homes()
    for cohort in (7, 1000):
        method = FedRank(rounds=1, cohort=cohort, hidden_rules=0.0, draws=0)
        method.fit(train, rng=rng(), on_round=lambda *round: told.append(round[-1]["clients"]))
    with_rules = len(np.unique(train.rules.home))
    assert told == [7, with_rules]


def test_a_cohort_and_participation_together_are_refused():
    with pytest.raises(DataError, match=r"fedrank: give cohort \(24\) or participation \(0\.5\), not both"):
        FedRank(cohort=24, participation=0.5)
