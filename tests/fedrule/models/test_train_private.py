"""A saved model of a private run says no more of the homes than the run released."""

from __future__ import annotations

import numpy as np
import pytest

import datasets
import fedrule
from datasets import DataError
from datasets.splits import split
from datasets.valid import ValidRules

pytest.importorskip("torch", reason="the graph formulation needs the extra graph")
pytest.importorskip("numba", reason="the graph formulation needs the extra graph")
pytest.importorskip("opacus", reason="the account needs the extra private")

HOMES = datasets.load("wyze-synthetic", homes=100, seed=4)
OPTIONS = {"epsilon": 20.0, "clip": 0.1, "rounds": 2}
RANK = OPTIONS | {"evidence": 4, "draws": 2, "cohort": 50, "candidates": 20}


def test_the_counts_of_a_private_model_are_those_with_noise_and_it_is_not_calibrated_on_rules_of_homes():
    saved = fedrule.train(HOMES, "fedrank", options=RANK, seed=1)
    exact = ValidRules.of(split(HOMES, "holdout", seed=1, fraction=0.2, validation=True).train)
    assert not np.array_equal(saved.valid.cell, exact.cell)
    assert (saved.card.scale.slope, saved.card.scale.offset) == (1, 0)
    again = fedrule.train(HOMES, "fedrank", options=RANK, seed=1)
    assert all(np.array_equal(array, again.arrays[name]) for name, array in saved.arrays.items())


def test_a_private_model_without_counts_has_all_rules_of_the_vocabularies_and_no_counts():
    saved = fedrule.train(HOMES, "fedgnn", options=OPTIONS | {"hidden": 4, "predictor_hidden": 4}, seed=1)
    assert len(saved.valid) == len(HOMES.types) ** 2 * len(HOMES.relations)
    assert not saved.arrays["counts.have"].any()


def test_stopping_early_and_continuing_are_refused_in_words():
    with pytest.raises(DataError, match="outside of the account of privacy; set patience 0"):
        fedrule.train(HOMES, "fedgnn", options=OPTIONS, patience=3)
    saved = fedrule.train(HOMES, "fedgnn", options={"rounds": 1, "hidden": 4, "predictor_hidden": 4})
    with pytest.raises(DataError, match="a private run begins anew"):
        fedrule.train(HOMES.subset(np.arange(50)), options=OPTIONS, continue_from=saved)
