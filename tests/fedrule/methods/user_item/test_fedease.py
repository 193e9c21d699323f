"""EASE from sums over homes: the same bits as `ease`, by plain sums, secure sums and with noise."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import given, settings

pytest.importorskip("torch", reason="the federated engine needs the extra graph")
pytest.importorskip("numba", reason="the federated engine needs the extra graph")

import datasets
from baselines.contract import ToyHome, planted_homes, toy_homes
from baselines.items import Items
from baselines.registry import build
from datasets import DataError
from fedrule.federated.cohort import Cohorts
from fedrule.methods.user_item import fedease
from fedrule.methods.user_item.fedease import Counts, secure_total, sent_numbers
from tests.support.real_data import needs_real
from tests.support.strategies import homes as random_homes

CONTACT_LIGHT = ("ContactSensor", "Light")


def fitted(name, homes, seed=3, **options):
    """The model and its one row of the history."""
    rows = []
    made = build(name, **options)
    model = made.fit(homes, rng=np.random.default_rng(seed), on_round=lambda *call: rows.append(call[3]))
    (row,) = rows
    return model, row


def same(one, other):
    assert one.items.valid.cell.tobytes() == other.items.valid.cell.tobytes()
    assert one.weight.tobytes() == other.weight.tobytes()
    assert (one.bias is None) == (other.bias is None)
    if one.bias is not None:
        assert one.bias.tobytes() == other.bias.tobytes()


OPTIONS = [{}, {"regularization": 3.0, "dropout": 0.0, "ownership": 0.0, "popularity": 0.7}]


@settings(max_examples=15, deadline=None)
@given(random_homes(min_homes=1))
def test_it_equals_ease_bit_for_bit_on_any_homes(some):
    for options in OPTIONS:
        same(fitted("fedease", some, **options)[0], fitted("ease", some, **options)[0])


@pytest.mark.parametrize(
    "name",
    [
        "wyze-synthetic",
        "ifttt-synthetic",
        pytest.param("ifttt-fedrule", marks=needs_real("ifttt")),
        pytest.param("home-assistant", marks=needs_real("home-assistant")),
    ],
)
def test_it_equals_ease_bit_for_bit_on_the_data_sets(name):
    some = datasets.load(name, **({"homes": 300} if name == "wyze-synthetic" else {})).merged_types()
    if name == "home-assistant":
        some = some.subset(np.arange(60))  # the matrix of all 4,971 rules takes seconds
    same(fitted("fedease", some)[0], fitted("ease", some)[0])


@pytest.mark.parametrize("drop_out", [0.0, 0.2])
def test_secure_sums_give_the_same_bits(drop_out):
    pytest.importorskip("cryptography", reason="secure sums need the extra secure")
    some = datasets.load("wyze-synthetic", homes=40)
    plain, row = fitted("fedease", some, drop_out=drop_out)
    secure, costs = fitted("fedease", some, drop_out=drop_out, secure_threshold=0.51, cohort=10)
    same(secure, plain)
    assert costs["clients"] == row["clients"]
    assert costs["dropped"] == row["dropped"] == 40 - row["clients"]
    assert (row["dropped"] > 0) == (drop_out > 0)
    # Both of a home that is counted. A number of a sum of ten zeros and ones needs one byte, not four, but there are
    # keys and shares, also of homes that drop out afterwards.
    assert 0.2 * row["sent_bytes"] < costs["sent_bytes"] < row["sent_bytes"]


def test_homes_that_drop_out_are_not_counted():
    some = planted_homes()
    model, row = fitted("fedease", some, drop_out=0.3)
    assert 0 < row["dropped"] < some.n_homes
    assert row["clients"] + row["dropped"] == some.n_homes
    seed = int(np.random.default_rng(3).integers(2**62))  # the first number that the fit draws
    absent = Cohorts(drop_out=0.3).of(np.arange(some.n_homes), seed=seed, number=0).absent
    assert len(absent) == row["dropped"]
    same(model, fitted("ease", some.subset(np.delete(np.arange(some.n_homes), absent)))[0])


def test_a_group_of_which_too_few_stay_is_not_counted(caplog):
    pytest.importorskip("cryptography", reason="secure sums need the extra secure")
    with caplog.at_level(logging.WARNING):
        model, row = fitted("fedease", planted_homes(), drop_out=1.0, secure_threshold=0.9, cohort=15)
    assert "15 homes are not counted" in caplog.text
    assert (row["clients"], row["dropped"], len(model.items)) == (0, 30, 0)


def test_noise_is_that_of_private_ease_with_the_same_seed():
    some = datasets.load("wyze-synthetic", homes=300)
    ours, row = fitted("fedease", some, epsilon=8.0)
    theirs, expected = fitted("ease", some, epsilon=8.0)
    same(ours, theirs)
    assert {name: row[name] for name in expected} == expected
    assert not np.array_equal(ours.items.valid.cell, fitted("fedease", some)[0].items.valid.cell)


def test_what_a_home_adds_are_zeros_and_ones_and_sums_come_back():
    some = planted_homes()
    items = Items.of(some)
    parts = [Counts.of(some.subset(np.array([home])), items).integers() for home in range(some.n_homes)]
    assert set(np.unique(parts)) == {0, 1}
    total = Counts.from_integers(np.sum(parts, axis=0), len(items), len(some.types))
    expected = Counts.of(some, items)
    assert total.n_homes == some.n_homes
    assert total.together.tolist() == expected.together.tolist()
    assert total.both.tolist() == expected.both.tolist()


def test_bytes_are_counted_with_all_zeros():
    some = planted_homes()
    model, row = fitted("fedease", some)
    # 5 types and 4 relations: 100 cells; 3 items: 6 pairs; 15 pairs of types; the number of homes. 4 bytes each.
    assert len(model.items) == 3
    assert sent_numbers(model.items) == 100 + 6 + 15 + 1
    assert row["sent_bytes"] == 4 * 122


def test_a_secure_sum_needs_three_homes():
    pytest.importorskip("cryptography", reason="secure sums need the extra secure")
    with pytest.raises(DataError, match="2 homes are too few for a secure sum, at least 3"):
        fitted("fedease", toy_homes([ToyHome(1, CONTACT_LIGHT), ToyHome(2, CONTACT_LIGHT)]), secure_threshold=0.67)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"secure_threshold": 0.4}, "secure_threshold must be above 0.5"),
        ({"secure_threshold": 0.7, "cohort": 2}, "cohort must be at least 3"),
        ({"cohort": 8}, "cohort has no effect with plain sums"),
        ({"secure_threshold": 0.7, "epsilon": 4.0}, "would be known without noise"),
        ({"drop_out": 1.5}, r"drop_out must be in \[0, 1\], got 1.5"),
        ({"regularization": 0.0}, "regularization must be above 0, got 0.0"),
    ],
)
def test_wrong_options_say_what_would_be_right(options, words):
    with pytest.raises(DataError, match=f"fedease: .*{words}"):
        build("fedease", **options)


def test_bytes_of_secure_sums_are_of_the_homes_that_are_counted(monkeypatch):
    pytest.importorskip("cryptography", reason="secure sums need the extra secure")
    sums = []

    def recorded(*args, **options):
        sums.append(secure_total(*args, **options))
        return sums[-1]

    monkeypatch.setattr(fedease, "secure_total", recorded)
    some = datasets.load("wyze-synthetic", homes=40)
    _, row = fitted("fedease", some, drop_out=0.2, secure_threshold=0.51, cohort=10)
    assert row["clients"] < 40
    assert row["sent_bytes"] * row["clients"] == pytest.approx(sum(each.sent_bytes for each in sums))
