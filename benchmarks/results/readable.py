"""Homes that a page can show: a handful of devices and rules, and rules in words."""

from __future__ import annotations

import numpy as np

from benchmarks.results.records import HomeRule, Owned, TypedRule
from datasets import Home, Homes
from datasets.homes import Array

Window = tuple[int, int]  # from and to, both included


def beyond(homes: Homes, *, devices: Window, rules: Window) -> Array:
    """[n_homes]: by how many devices and rules each home is too small or too large for these windows; 0 is inside."""
    distance = np.zeros(homes.n_homes, dtype=np.int64)
    for many, (least, most) in ((np.diff(homes.device_start), devices), (np.diff(homes.rule_start), rules)):
        distance += np.maximum(least - many, 0) + np.maximum(many - most, 0)
    return distance


def owned(home: Home) -> tuple[Owned, ...]:
    """What a home has."""
    return tuple(Owned(device.id, device.type) for device in home.devices)


def in_words(home: Home) -> tuple[HomeRule, ...]:
    """What a home has automated."""
    return tuple(
        HomeRule(
            Owned(rule.trigger.id, rule.trigger.type),
            rule.relation.trigger,
            rule.relation.action,
            Owned(rule.action.id, rule.action.type),
        )
        for rule in home.rules
    )


def typed_rule(homes: Homes, trigger_type: int, relation: int, action_type: int) -> TypedRule:
    """A typed rule by its numbers."""
    words = homes.relations[relation]
    return TypedRule(homes.types[trigger_type], words.trigger, words.action, homes.types[action_type])
