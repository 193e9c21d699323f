"""Homes that were written and read again are the same, in whatever order."""

from __future__ import annotations

from datasets import Homes
from tests.support.strategies import words_by_device


def assert_read_back(read: Homes, named: Homes) -> None:
    """The same users with the same devices, rules and automations."""
    written = {home.user: home for home in named}
    assert {home.user for home in read} == set(written)
    for home in read:
        assert set(home.devices) == set(written[home.user].devices)
        assert set(home.rules) == set(written[home.user].rules)
    assert groups_by_rule(read) == groups_by_rule(named)
    assert words_by_id(read) == words_by_id(named)


def words_by_id(homes: Homes) -> dict[tuple[object, object], list[int]]:
    """The words of every device that has some, by its user and its id."""
    users, words = homes.users[homes.device_home].tolist(), words_by_device(homes) or []
    named = zip(zip(users, homes.device_ids.tolist(), strict=True), words, strict=True) if words else ()
    return {device: numbers for device, numbers in named if numbers}


def groups_by_rule(homes: Homes) -> dict[tuple[object, ...], int | None]:
    """The group of every rule, by its user and its words."""
    groups = [None] * homes.n_rules if homes.rules.group is None else homes.rules.group.tolist()
    rules = [(home.user, *rule) for home in homes for rule in home.rules]
    return dict(zip(rules, groups, strict=True))
