"""The `types` track: one device per entity type and home."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from datasets import Homes, Relation
from tests.support.strategies import homes, triples
from tests.support.two_homes import assert_same


def typed(home: Homes, index: int) -> set[tuple[str, Relation, str]]:
    return {(rule.trigger.type, rule.relation, rule.action.type) for rule in home.home(index).rules}


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


@given(homes(words=True, twins=True))
def test_merged_devices_have_no_words_as_one_stands_for_those_of_all_rooms(some: Homes) -> None:
    assert some.merged_types().words is None
    assert some.merged_types().fingerprint == some.without_words().merged_types().fingerprint
