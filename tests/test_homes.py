"""Homes as arrays: invariants, views, parts, merging, fingerprints and the file they are saved to."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets import DataError, Homes, Provenance, Relation, Rules
from datasets.storage import load_file
from datasets.view import Device, Rule
from tests.strategies import homes, triples

# Two people; Ann owns two lamps and a sensor, Bob a lamp. One lamp of Ann's switches the other one, Bob's itself.
BUILD = """
import numpy as np
from datasets import Homes, Rules
homes = Homes(
    name="two",
    types=("Lamp", "Sensor"),
    relations=(("Open", "On"), ("Open", "Off"), ("On", "Off")),
    users=np.array(["ann", "bob"], dtype=np.dtypes.StringDType()),
    device_home=np.array([0, 0, 0, 1]),
    device_type=np.array([0, 0, 1, 0]),
    device_ids=np.array([7, 8, 9, 7]),
    rules=Rules(
        np.array([0, 0, 0, 1]), np.array([2, 2, 0, 3]), np.array([0, 1, 1, 3]), np.array([0, 0, 2, 2]),
        np.array([5, 6, 6, 5]),
    ),
)
"""


@pytest.fixture
def two() -> Homes:
    scope: dict[str, Homes] = {}
    exec(BUILD, scope)
    return scope["homes"]


def assert_same(left: Homes, right: Homes) -> None:
    """Every field, and the types of the ids."""
    assert (left.name, left.types, left.relations) == (right.name, right.types, right.relations)
    assert left.provenance == right.provenance
    for column in ("users", "device_home", "device_type", "device_ids"):
        assert getattr(left, column).dtype == getattr(right, column).dtype
        assert getattr(left, column).tolist() == getattr(right, column).tolist()
    assert triples(left.rules) == triples(right.rules)
    groups = [None if h.rules.group is None else h.rules.group.tolist() for h in (left, right)]
    assert groups[0] == groups[1]
    assert left.fingerprint == right.fingerprint


def typed(home: Homes, index: int) -> set[tuple[str, Relation, str]]:
    return {(rule.trigger.type, rule.relation, rule.action.type) for rule in home.home(index).rules}


# Views


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


# Invariants

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
    "devices are not sorted by home": {"device_home": [0, 1, 0, 1]},
    "rules are not sorted by home": {"rules": Rules([1, 0], [3, 0], [3, 1], [0, 0])},
    "a rule names a device of another home": {"rules": Rules([0], [0], [3], [0])},
    "a home has one rule twice": {"rules": Rules([0, 0], [0, 0], [1, 1], [0, 0], [1, 2])},
    "a column of whole numbers holds float64": {"device_type": [0.0, 0.0, 1.0, 0.5]},
}


@pytest.mark.parametrize("problem", BROKEN)
def test_what_breaks_an_invariant_is_refused_by_name(two: Homes, problem: str) -> None:
    with pytest.raises(DataError, match=problem.removesuffix(" (negative)")):
        replace(two, **BROKEN[problem])


def test_columns_of_rules_that_differ_in_length_are_refused() -> None:
    with pytest.raises(DataError, match="differ in length"):
        Rules([0, 0], [0], [0], [0])
    with pytest.raises(DataError, match="differ in length"):
        Rules([0], [0], [0], [0], [1, 2])


# Parts


@given(homes(), st.data())
def test_a_subset_has_just_these_homes_in_this_order(some: Homes, data: st.DataObject) -> None:
    chosen = data.draw(st.permutations(range(some.n_homes)).flatmap(lambda p: st.sampled_from([p, p[: len(p) // 2]])))
    part = some.subset(np.array(chosen, dtype=np.int64))
    assert list(part) == [some.home(i) for i in chosen]
    assert (part.types, part.relations, part.provenance) == (some.types, some.relations, some.provenance)
    if some.rules.group is not None:
        assert part.rules.group is not None
        expected = [some.rules.group[some.rules.home == i].tolist() for i in chosen]
        assert [part.rules.group[part.rules.home == i].tolist() for i in range(len(chosen))] == expected


@given(homes(), st.data())
def test_a_mask_selects_the_same_homes_as_its_positions(some: Homes, data: st.DataObject) -> None:
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=some.n_homes, max_size=some.n_homes)), dtype=np.bool_)
    assert_same(some.subset(mask), some.subset(np.flatnonzero(mask)))


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ([0, 0], "twice"),
        ([2], "not one of 0..1"),
        ([-1], "not one of 0..1"),
        ([0.5], "whole numbers"),
        ([True], "a mask of 1 for 2 homes"),
    ],
)
def test_a_subset_that_cannot_be_is_refused(two: Homes, chosen: list[int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        two.subset(np.array(chosen))


@given(homes(), st.data())
def test_with_rules_keeps_homes_and_devices_and_only_these_rules(some: Homes, data: st.DataObject) -> None:
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=some.n_rules, max_size=some.n_rules)), dtype=np.bool_)
    part = some.with_rules(mask)
    assert triples(part.rules) == [rule for rule, kept in zip(triples(some.rules), mask, strict=True) if kept]
    assert [home.devices for home in part] == [home.devices for home in some]
    shuffled = data.draw(st.permutations(np.flatnonzero(mask).tolist()))
    again = some.with_rules(np.array(shuffled, dtype=np.int64))
    assert sorted(triples(again.rules)) == sorted(triples(part.rules))


# The types track


@given(homes(twins=True))
def test_merging_types_leaves_one_device_per_type_and_the_same_typed_rules(some: Homes) -> None:
    merged = some.merged_types()
    for index, (before, after) in enumerate(zip(some, merged, strict=True)):
        assert Counter(d.type for d in after.devices) == Counter({d.type for d in before.devices})
        assert typed(merged, index) == typed(some, index)
        assert len(after.rules) == len(typed(merged, index))  # no typed rule stands twice
        first = {}
        for device in before.devices:
            first.setdefault(device.type, device.id)
        assert {d.type: d.id for d in after.devices} == first
    assert_same(merged.merged_types(), merged)


@given(homes(groups=True, twins=True))
def test_groups_that_share_a_typed_rule_are_one_group_after_merging(some: Homes) -> None:
    # Reference: join groups of a home as long as two of them hold the same typed rule.
    merged = some.merged_types()
    assert some.rules.group is not None
    assert merged.rules.group is not None
    for index in range(some.n_homes):
        here = some.rules.home == index
        parts: dict[int, set[tuple[int, int, int]]] = {}
        for group, *rule in zip(
            some.rules.group[here].tolist(), *(c[here].tolist() for c in some.typed()), strict=True
        ):
            parts.setdefault(group, set()).add(tuple(rule))
        joined: list[set[tuple[int, int, int]]] = []
        for rules in parts.values():
            touching = [part for part in joined if part & rules]
            joined = [part for part in joined if not part & rules] + [rules.union(*touching)]
        there = merged.rules.home == index
        got: dict[int, set[tuple[int, int, int]]] = {}
        for group, *rule in zip(
            merged.rules.group[there].tolist(), *(c[there].tolist() for c in merged.typed()), strict=True
        ):
            got.setdefault(group, set()).add(tuple(rule))
        assert sorted(map(sorted, got.values())) == sorted(map(sorted, joined))


def test_merging_types_by_hand(two: Homes) -> None:
    # Ann's two "Sensor, Open -> On, Lamp" become one, so groups 5 and 6 do as well; her third rule is Lamp on itself.
    merged = two.merged_types()
    assert triples(merged.rules) == [(0, 1, 0, 0), (0, 0, 0, 2), (1, 2, 2, 2)]
    assert merged.rules.group is not None
    assert merged.rules.group.tolist() == [5, 5, 5]
    assert merged.device_ids.tolist() == [7, 9, 7]


# Fingerprints

CHANGED = {
    "the relation of a rule": {"rules": Rules([0, 0, 0, 1], [2, 2, 0, 3], [0, 1, 1, 3], [1, 0, 2, 2], [5, 6, 6, 5])},
    "the trigger of a rule": {"rules": Rules([0, 0, 0, 1], [2, 2, 1, 3], [0, 1, 1, 3], [0, 0, 2, 2], [5, 6, 6, 5])},
    "the action of a rule": {"rules": Rules([0, 0, 0, 1], [2, 2, 0, 3], [0, 1, 0, 3], [0, 0, 2, 2], [5, 6, 6, 5])},
    "a rule less": {"rules": Rules([0, 0, 0], [2, 2, 0], [0, 1, 1], [0, 0, 2], [5, 6, 6])},
    "a group": {"rules": Rules([0, 0, 0, 1], [2, 2, 0, 3], [0, 1, 1, 3], [0, 0, 2, 2], [5, 5, 6, 5])},
    "no groups": {"rules": Rules([0, 0, 0, 1], [2, 2, 0, 3], [0, 1, 1, 3], [0, 0, 2, 2])},
    "the type of a device": {"device_type": [0, 1, 1, 0]},
    "the id of a device": {"device_ids": [7, 8, 9, 6]},
    "ids as text": {"device_ids": np.array(["7", "8", "9", "7"])},
    "a user": {"users": np.array(["ann", "bo"])},
    "another cut between users": {"users": np.array(["an", "nbob"])},
    "a home more": {"users": np.array(["ann", "bob", "cy"])},
    "the name of a type": {"types": ("Light", "Sensor")},
    "a type more": {"types": ("Lamp", "Sensor", "Plug")},
    "the name of a relation": {"relations": (("Open", "On"), ("Open", "Off"), ("On", "Of"))},
    "a relation more": {"relations": (("Open", "On"), ("Open", "Off"), ("On", "Off"), ("On", "On"))},
}


@pytest.mark.parametrize("change", CHANGED)
def test_the_fingerprint_changes_with(two: Homes, change: str) -> None:
    assert replace(two, **CHANGED[change]).fingerprint != two.fingerprint


@given(homes(max_homes=4, bare=False, min_homes=1), st.data())
def test_the_fingerprint_changes_when_any_one_rule_goes(some: Homes, data: st.DataObject) -> None:
    gone = data.draw(st.integers(0, some.n_rules - 1))
    assert some.with_rules(np.arange(some.n_rules) != gone).fingerprint != some.fingerprint


def test_the_fingerprint_does_not_depend_on_the_name_or_where_homes_came_from(two: Homes) -> None:
    assert replace(two, name="other", provenance=Provenance("elsewhere")).fingerprint == two.fingerprint


def test_another_process_computes_the_same_fingerprint(two: Homes) -> None:
    code = f"{BUILD}\nimport sys\nsys.stdout.write(homes.fingerprint)"
    command = [sys.executable, "-W", "error", "-c", code]
    for hash_seed in ("1", "2"):
        done = subprocess.run(command, env={"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True)
        assert done.stdout == two.fingerprint


def test_the_fingerprint_is_the_one_that_older_results_carry(two: Homes) -> None:
    # Frozen: if this changes, every result on disk loses its data.
    assert two.fingerprint == "d40f544bf2394b0b"


# The file


@given(some=homes())
def test_what_is_saved_is_loaded_again_in_every_field(some: Homes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("saved") / "homes.parquet"
    some.save(path)
    assert_same(load_file(path), some)
    assert [p.name for p in path.parent.iterdir()] == ["homes.parquet"]  # no temporary file stays


def test_any_parquet_reader_sees_one_row_per_home(two: Homes, tmp_path: Path) -> None:
    two.save(tmp_path / "new" / "two.parquet")
    table = pd.read_parquet(tmp_path / "new" / "two.parquet")
    assert table["user"].tolist() == ["ann", "bob"]
    assert [d["type"] for d in table["devices"][0]] == ["Lamp", "Lamp", "Sensor"]
    assert table["rules"][1][0]["trigger_state"] == "On"


def test_saving_over_a_file_replaces_it(two: Homes, tmp_path: Path) -> None:
    path = tmp_path / "two.parquet"
    two.save(path)
    two.subset(np.array([1])).save(path)
    assert load_file(path).users.tolist() == ["bob"]


def test_a_file_cut_off_anywhere_is_refused(two: Homes, tmp_path: Path) -> None:
    two.save(tmp_path / "two.parquet")
    whole = (tmp_path / "two.parquet").read_bytes()
    for length in range(0, len(whole), 97):
        (tmp_path / "cut.parquet").write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"cut\.parquet: not a readable Parquet file"):
            load_file(tmp_path / "cut.parquet")


def test_a_file_with_a_flipped_byte_is_refused_or_holds_the_same_homes(two: Homes, tmp_path: Path) -> None:
    two.save(tmp_path / "two.parquet")
    whole = (tmp_path / "two.parquet").read_bytes()
    refused = 0
    for place in range(0, len(whole), 13):
        bad = bytearray(whole)
        bad[place] ^= 0xFF
        (tmp_path / "bad.parquet").write_bytes(bad)
        try:
            loaded = load_file(tmp_path / "bad.parquet")
        except DataError:
            refused += 1
        else:
            assert loaded.fingerprint == two.fingerprint
    assert refused > 0


def _without_devices(table: pa.Table) -> pa.Table:
    return table.drop_columns(["devices"])


def _without_metadata(table: pa.Table) -> pa.Table:
    return table.replace_schema_metadata(None)


def _first_home_only(table: pa.Table) -> pa.Table:
    return table.slice(0, 1)


def _a_user_missing(table: pa.Table) -> pa.Table:
    return table.set_column(0, "user", pa.array(["ann", None]))


def _later_format(table: pa.Table) -> pa.Table:
    metadata = {k: v.replace(b'"format": 1', b'"format": 99') for k, v in table.schema.metadata.items()}
    return table.replace_schema_metadata(metadata)


def _other_types(table: pa.Table) -> pa.Table:
    metadata = {k: v.replace(b'"Lamp"', b'"Bulb"') for k, v in table.schema.metadata.items()}
    return table.replace_schema_metadata(metadata)


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (_without_devices, "do not fit together .*it was altered"),
        (_without_metadata, "not one that Homes.save wrote"),
        (_first_home_only, "do not match its fingerprint"),
        (_a_user_missing, "it was altered"),
        (_later_format, "format 99, this version reads 1"),
        (_other_types, "a device names a type that is not there"),
    ],
)
def test_an_altered_or_foreign_parquet_file_is_refused(two: Homes, tmp_path: Path, alter, message: str) -> None:
    path = tmp_path / "two.parquet"
    two.save(path)
    pq.write_table(alter(pq.read_table(path)), path)
    with pytest.raises(DataError, match=rf"two\.parquet: .*{message}"):
        load_file(path)


def test_a_missing_file_says_how_one_is_made(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file; `python -m datasets generate NAME --out FILE` writes one"):
        load_file(tmp_path / "none.parquet")
