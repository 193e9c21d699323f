"""Plain fits: every registered method has one, and the simplest counts what it should."""

from __future__ import annotations

import numpy as np
import pytest

import datasets
from baselines.contract import PLANTED, planted_homes
from baselines.items import Items
from baselines.registry import build, missing_extra, names
from benchmarks.references import plain_fits
from benchmarks.references.plain_fits import (
    COUNTING,
    OF_FEATURES,
    OF_ROUNDS,
    homes_of_rules,
    pairs_of_rules,
    plain_fit,
)
from datasets.valid import ValidRules


@pytest.mark.parametrize("name", names())
def test_every_method_has_a_plain_fit_that_runs(name):
    if extra := missing_extra(name):
        pytest.skip(f"{name} needs the extra {extra}")
    plain = plain_fit(name, planted_homes(), 3)
    plain.work()
    assert plain.homes <= 3
    assert plain.times > 0
    assert (plain.about == COUNTING) == (name not in {*OF_ROUNDS, *OF_FEATURES})


def test_pairs_of_rules_are_those_of_the_matrix_of_homes_and_rules():
    homes = planted_homes()
    items = Items.of(homes)
    have = items.matrix(homes).toarray()
    assert sorted(pairs_of_rules(homes).values()) == sorted(count for count in (have.T @ have).ravel() if count)


def test_a_plain_fit_says_whether_it_is_of_the_same_method():
    homes = planted_homes()
    assert plain_fit("popularity", homes, 3).same
    assert plain_fit("ease", homes, 3).same
    assert not plain_fit("random", homes, 3).same


def test_a_method_that_trains_some_homes_in_a_round_is_charged_for_these():
    pytest.importorskip("torch", reason="needs the extra graph")
    few, cohort = planted_homes().subset(np.arange(3)), build("fedrank").cohort
    once = OF_ROUNDS["fedrank"]("fedrank", few, homes_of(cohort))
    assert once.times == build("fedrank").rounds * build("fedrank").local_steps
    assert OF_ROUNDS["fedrank"]("fedrank", few, homes_of(10 * cohort)).times == pytest.approx(once.times / 10)


@pytest.mark.parametrize("name", ["rotate", "complex", "rgcn", "compgcn"])
def test_a_method_with_a_least_number_of_steps_is_charged_for_these(name, monkeypatch):
    pytest.importorskip("torch", reason="needs the extra graph")
    homes, method = planted_homes(), build(name)
    assert method.least_steps > getattr(method, "epochs", 0)
    rounds = []
    short = build(name, least_steps=5, **{"epochs" if hasattr(method, "epochs") else "rounds": 1})
    short.fit(homes, rng=np.random.default_rng(0), on_round=lambda done, *_: rounds.append(done))
    monkeypatch.setattr(plain_fits, "build", lambda _: short)
    assert plain_fit(name, homes, 3).times == rounds[-1] > 1


@pytest.mark.parametrize(("name", "other"), [("fede", "RotatE"), ("complex", "RotatE"), ("rotate", "ComplEx")])
def test_knowledge_graphs_are_compared_with_the_same_score(name, other, monkeypatch):
    geometric = pytest.importorskip("torch_geometric.nn", reason="needs the extra graph")
    monkeypatch.setattr(geometric, other, None)
    plain_fit(name, planted_homes(), 3).work()


def homes_of(number):
    return datasets.load("wyze-synthetic", homes=number).merged_types()


def test_plain_fits_are_of_methods_that_exist():
    assert {*OF_ROUNDS, *OF_FEATURES} <= set(names())


def test_homes_are_counted_by_typed_rule():
    homes = planted_homes()
    found = homes_of_rules(homes)
    assert len(found) == len(ValidRules.of(homes))
    trigger, relation, action = PLANTED
    (planted,) = [own for rule, own in found.items() if rule == (trigger, homes.relations[relation], action)]
    kind = np.stack(homes.typed(), axis=1)
    rules = (kind == (homes.types.index(trigger), relation, homes.types.index(action))).all(axis=1)
    assert sorted(planted) == homes.rules.home[rules].tolist()
