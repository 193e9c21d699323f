"""Leaving out rare relations and small homes, as papers do before they measure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from datasets.errors import DataError
from datasets.homes import Homes


def narrow(homes: Homes, *, min_pair_count: int = 1, min_rules: int = 0, min_devices: int = 0) -> Homes:
    """First only relations that occur often enough, then only homes that are large enough in what is left."""
    for option, value in (("min_pair_count", min_pair_count), ("min_rules", min_rules), ("min_devices", min_devices)):
        if value < 0:
            raise DataError(f"{option}={value}: it counts something and cannot be negative")
    homes = keep_common_relations(homes, min_pair_count)
    return drop_small_homes(homes, min_rules=min_rules, min_devices=min_devices)


def keep_common_relations(homes: Homes, min_count: int) -> Homes:
    """Only rules whose relation occurs at least `min_count` times; the other relations leave the vocabulary."""
    count = np.bincount(homes.rules.relation, minlength=len(homes.relations))
    keep = count >= min_count
    number = np.cumsum(keep) - 1
    rules = homes.rules.take(keep[homes.rules.relation])
    return replace(
        homes,
        relations=tuple(r for r, kept in zip(homes.relations, keep, strict=True) if kept),
        rules=replace(rules, relation=number[rules.relation]),
    )


def drop_small_homes(homes: Homes, *, min_rules: int = 0, min_devices: int = 0) -> Homes:
    """Only homes with at least this many rules and devices."""
    enough = (np.diff(homes.rule_start) >= min_rules) & (np.diff(homes.device_start) >= min_devices)
    return homes if enough.all() else homes.subset(enough)


def keep_used_types(homes: Homes) -> Homes:
    """The same homes with a vocabulary of only those entity types that some home owns."""
    used = np.bincount(homes.device_type, minlength=len(homes.types)) > 0
    number = np.cumsum(used) - 1
    return replace(
        homes,
        types=tuple(t for t, kept in zip(homes.types, used, strict=True) if kept),
        device_type=number[homes.device_type],
    )
