"""Homes as arrays: views of one home, and what holds for all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from datasets import DataError, Homes, Provenance, Relation, Rules, Words
from datasets.homes import Device, Rule


def test_a_home_is_spelled_out_by_names_and_source_ids(two: Homes) -> None:
    ann = two.home(0)
    assert ann.user == "ann"
    assert ann.devices == (Device(7, "Lamp"), Device(8, "Lamp"), Device(9, "Sensor"))
    assert ann.rules[2] == Rule(Device(7, "Lamp"), Relation("On", "Off"), Device(8, "Lamp"))
    assert str(ann.rules[0]) == "<Sensor 9, Open -> On, Lamp 7>"
    assert two.home(-1) == two.home(1) == list(two)[1]
    assert len(two) == two.n_homes == 2


@pytest.mark.parametrize("index", [2, -3])
def test_a_home_that_is_not_there_is_an_index_error(two: Homes, index: int) -> None:
    with pytest.raises(IndexError, match=f"home {index} of 2"):
        two.home(index)


def test_no_array_can_be_written_to(two: Homes) -> None:
    columns = [two.users, two.device_home, two.device_type, two.device_ids, two.rules.home, two.rules.trigger]
    for column in [*columns, two.rules.action, two.rules.relation, two.rules.group]:
        assert column is not None
        with pytest.raises(ValueError, match="read-only"):
            column[0] = column[1]


def test_ids_beyond_63_bits_become_text_and_stay_distinct(two: Homes) -> None:
    large = replace(two, users=np.array([2**63, 2**64 - 1], dtype=np.uint64))
    assert large.users.tolist() == ["9223372036854775808", "18446744073709551615"]
    assert replace(two, users=np.array([1, 2], dtype=np.uint8)).users.dtype == np.int64


BROKEN = {
    "an entity type is listed twice": {"types": ("Lamp", "Lamp")},
    "a relation is listed twice": {"relations": (("Open", "On"), ("Open", "On"), ("On", "Off"))},
    "the columns of devices differ in length": {"device_type": [0, 0, 1]},
    "a device names a home that is not there": {"device_home": [0, 0, 0, 2]},
    "a device names a type that is not there": {"device_type": [0, 0, 2, 0]},
    "a device names a type that is not there (negative)": {"device_type": [0, 0, -1, 0]},
    "a rule names a relation that is not there": {"rules": Rules([0], [0], [1], [3])},
    "a rule names a home that is not there": {"rules": Rules([2], [0], [1], [0])},
    "a rule names a device that is not there": {"rules": Rules([0], [0], [4], [0])},
    "a user has two homes": {"users": np.array(["ann", "ann"])},
    "a home has two devices of one id": {"device_ids": [8, 7, 8, 7]},
    "a home has two devices of one id (text)": {"device_ids": np.array(["8", "7", "8", "7"])},
    "devices are not sorted by home": {"device_home": [0, 1, 0, 1]},
    "rules are not sorted by home": {"rules": Rules([1, 0], [3, 0], [3, 1], [0, 0])},
    "a rule names a device of another home": {"rules": Rules([0], [0], [3], [0])},
    "a home has one rule twice": {"rules": Rules([0, 0], [0, 0], [1, 1], [0, 0], [1, 2])},
    "a word names a device that is not there": {"words": Words([0, 4], [0, 0])},
    "expected a column of whole numbers, got float64": {"device_type": [0.0, 0.0, 1.0, 0.5]},
}


@pytest.mark.parametrize("problem", BROKEN)
def test_what_breaks_an_invariant_is_refused_by_name(two: Homes, problem: str) -> None:
    with pytest.raises(DataError, match=problem.partition(" (")[0]):
        replace(two, **BROKEN[problem])


def test_columns_of_rules_that_differ_in_length_are_refused() -> None:
    with pytest.raises(DataError, match="differ in length"):
        Rules([0, 0], [0], [0], [0])
    with pytest.raises(DataError, match="differ in length"):
        Rules([0], [0], [0], [0], [1, 2])


def test_ids_in_any_order_and_shared_between_homes_are_fine(two: Homes) -> None:
    assert replace(two, device_ids=[9, 7, 8, 9]).device_ids.tolist() == [9, 7, 8, 9]
    assert replace(two, users=np.array(["bob", "ann"])).users.tolist() == ["bob", "ann"]


def test_writing_to_an_array_later_changes_nothing_in_homes_made_of_it(two: Homes) -> None:
    types, ids, relation = np.array([0, 0, 1, 0]), np.array(["7", "8", "9", "7"]), two.rules.relation.copy()
    locked = types[:]
    locked.flags.writeable = False  # a view that cannot be written to, of an array that can
    text = ids.astype(np.dtypes.StringDType())
    made = replace(two, device_type=locked, device_ids=text, rules=replace(two.rules, relation=relation))
    before = made.fingerprint
    types[:], text[:], relation[:] = 1, "0", 1
    assert made.fingerprint == before


def test_columns_that_nobody_can_write_to_are_shared_and_not_copied(two: Homes) -> None:
    assert replace(two, name="other").device_type is two.device_type
    assert replace(two, name="other").users is two.users


def test_filling_a_dict_later_changes_nothing_in_a_provenance_made_of_it() -> None:
    counts, numbers = {"rule rows": 1}, {"Open": 3}
    provenance = Provenance(counts=counts, codes={"trigger_state": numbers})
    counts["rule rows"], numbers["Open"] = 2, 4
    assert provenance == Provenance(counts={"rule rows": 1}, codes={"trigger_state": {"Open": 3}})


def test_rules_too_many_to_number_are_refused_instead_of_taken_for_each_other() -> None:
    # 2^31 devices and 4 relations: 2^64 rules. With two relations 2^63 are one too many, with one 2^62 are not.
    one = Rules([0], [2**31 - 1], [2**31 - 1], [0])
    assert one.keys(2**31, 1).tolist() == [2**62 - 1]
    for n_relations in (2, 4):
        with pytest.raises(DataError, match="too many to number all rules in 64 bits"):
            one.keys(2**31, n_relations)
