"""Parts of homes: some homes, some rules, and what they still say about where they came from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets import DataError, Homes, Provenance
from datasets.readers.filters import filter_homes, keep_common_rules
from tests.support.strategies import homes, triples
from tests.support.two_homes import assert_same


@given(homes(), st.data())
def test_a_subset_has_just_these_homes_in_this_order(some: Homes, data: st.DataObject) -> None:
    chosen = data.draw(st.permutations(range(some.n_homes)).flatmap(lambda p: st.sampled_from([p, p[: len(p) // 2]])))
    part = some.subset(np.array(chosen, dtype=np.int64))
    assert list(part) == [some.home(i) for i in chosen]
    assert (part.types, part.relations) == (some.types, some.relations)
    assert part.provenance == replace(some.provenance, published="")
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


@pytest.mark.parametrize(
    "part",
    [
        lambda two: two.subset(np.array([1])),
        lambda two: two.with_rules(np.array([0])),
        lambda two: two.merged_types(),
        lambda two: filter_homes(two, min_pair_count=2, min_rules=1),
        lambda two: two.with_vocabulary(["Sensor", "Lamp", "Plug"], two.relations),
    ],
    ids=["subset", "with_rules", "merged_types", "filter_homes", "with_vocabulary"],
)
def test_what_was_published_about_all_homes_is_not_laid_beside_a_part(two: Homes, part) -> None:
    whole = replace(two, provenance=Provenance(published="wyze-public"))
    assert part(whole).provenance.published == ""
    assert whole.provenance.published == "wyze-public"


# Narrowing: Open -> On is seen twice (both Ann's), On -> Off twice (Ann's and Bob's), Open -> Off never.


def test_what_narrowing_leaves_out_is_counted(two: Homes) -> None:
    rare = two.with_rules(np.array([0, 2, 3]))  # Open -> On is left once
    filtered = filter_homes(rare, min_pair_count=2, min_devices=2)
    assert filtered.provenance.counts == {
        "rules left out as their pair is rare": 1,
        "homes left out as too small": 1,  # Bob's, with one device
    }
    assert (filtered.users.tolist(), filtered.relations) == (["ann"], (("On", "Off"),))


def test_rules_that_few_homes_have_between_devices_of_the_same_types_leave(two: Homes) -> None:
    # Open -> On is Ann's twice, of a sensor with a lamp: one home. On -> Off between lamps is Ann's and Bob's.
    common = keep_common_rules(two, 2)
    assert common.relations == (("On", "Off"),)
    assert (common.n_rules, common.n_homes, common.n_devices) == (2, two.n_homes, two.n_devices)
    assert common.provenance.counts == {"rules left out as fewer than 2 homes have them": two.n_rules - 2}
    assert keep_common_rules(two, 1) is two
    with pytest.raises(DataError, match="min_homes=3 leaves no rule: the commonest is in 2 homes; choose less"):
        keep_common_rules(two, 3)
    with pytest.raises(DataError, match="min_homes must be at least 1, got 0"):
        keep_common_rules(two, 0)


def test_types_that_no_home_owns_any_more_leave_with_the_homes(two: Homes) -> None:
    few = filter_homes(two.subset(np.array([1, 0])), min_rules=0)
    assert few.types == ("Lamp", "Sensor")
    assert filter_homes(two.subset(np.array([1]))).types == ("Lamp",)


def test_narrowing_by_nothing_gives_the_same_homes(two: Homes) -> None:
    used = replace(filter_homes(two), provenance=Provenance(published="wyze-public"))
    assert filter_homes(used) is used


def test_filtering_everything_out_is_refused_with_what_there_is(two: Homes) -> None:
    with pytest.raises(DataError, match="min_pair_count=3 leaves no rule: the commonest pair is seen 2 times"):
        filter_homes(two, min_pair_count=3)
    with pytest.raises(DataError, match="leave no home: the largest have 3 rules and 3 devices; choose less"):
        filter_homes(two, min_rules=4)
    with pytest.raises(DataError, match="min_pair_count must be at least 1, got 0"):
        filter_homes(two, min_pair_count=0)


def test_devices_that_no_rule_uses_can_be_taken_away(two: Homes) -> None:
    # Without Open -> On Ann's sensor has no rule.
    filtered = filter_homes(two.with_rules(np.array([2, 3])), only_used_devices=True)
    assert [[device.id for device in home.devices] for home in filtered] == [[7, 8], [7]]
    assert [len(home.rules) for home in filtered] == [1, 1]
    assert filtered.types == ("Lamp",)
    assert filtered.provenance.counts["devices left out as no rule uses them"] == 1
