"""The table of formulations: every method of ours is in it, once, and every twin exists."""

from __future__ import annotations

import pytest

from baselines.registry import build, listed
from benchmarks.results.formulations import (
    FEDERATED,
    FEDERATED_METHODS,
    FORMULATIONS,
    families,
    federated_method,
    formulation_of,
)

CENTRAL = [method for each in FORMULATIONS for method in each.central]
NAMES = [*CENTRAL, *(each.name for each in FEDERATED_METHODS)]


def test_every_method_of_ours_has_a_formulation():
    assert [name for name in listed() if formulation_of(name) is None] == []


def test_a_method_is_listed_once_and_a_twin_is_a_central_method():
    assert len(set(NAMES)) == len(NAMES)
    assert {twin for each in FEDERATED_METHODS for twin in each.twins} <= set(CENTRAL)


def test_a_federated_method_has_the_formulation_of_its_twin():
    assert formulation_of("fedrank") is formulation_of("graphrank")
    assert formulation_of("fedrank").name == "evidence ranking"
    assert federated_method("fedrank").twins == ("graphrank",)
    assert federated_method("graphrank") is None
    assert formulation_of("nobody-knows-it") is None


def test_families_have_every_method_once_and_the_federated_ones_together():
    found = families()
    assert sorted(method for methods in found.values() for method in methods) == sorted(NAMES)
    assert found[FEDERATED] == tuple(each.name for each in FEDERATED_METHODS)
    assert {"graphrule", "compgcn", "graphrank"} <= set(found["graph"])


def test_the_first_twin_is_the_same_model_with_all_data_in_one_place():
    pytest.importorskip("torch", reason="needs the extra graph")
    assert build("fede").score == federated_method("fede").twins[0]
    for federated, shared in {
        "fedcompgcn": (
            "hidden",
            "composition",
            "dropout",
            "hidden_rules",
            "objective",
            "non_rules",
            "candidates",
            "bias",
        ),
        "fedrank": ("hidden", "evidence", "words", "objective", "non_rules", "candidates", "hidden_rules"),
        "fedgnn": ("hidden", "encoder", "direction", "messages", "objective", "non_rules", "bias"),
        "fedease": ("regularization", "ownership", "popularity"),
    }.items():
        ours, theirs = build(federated), build(federated_method(federated).twins[0])
        assert {name: getattr(ours, name) for name in shared} == {name: getattr(theirs, name) for name in shared}
