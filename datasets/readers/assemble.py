"""From clean columns to `Homes`: users, types and relations become numbers, rows become sorted runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from datasets.common.errors import DataError
from datasets.homes import Array, Homes, Ids, Provenance, Rules
from datasets.readers.numbered import numbered
from datasets.view import Relation


@dataclass(frozen=True, slots=True)
class DeviceColumns:
    """Who owns which device; one row per device, no (user, id) twice."""

    user: Ids
    id: Ids
    type: Ids | pd.Categorical


@dataclass(frozen=True, slots=True)
class RuleColumns:
    """Who has which rule; devices by their id within the home."""

    user: Ids
    trigger: Ids
    trigger_state: Ids | pd.Categorical
    action: Ids | pd.Categorical
    action_device: Ids
    group: Array | None = None


def assemble(name: str, devices: DeviceColumns, rules: RuleColumns, provenance: Provenance) -> Homes:
    """Homes from columns whose rows are known to be good. The order of rows does not matter, but for rules in a home.

    Users and devices come out sorted by id, types and relations by name. A rule that a home has twice is kept once and
    counted in the provenance as "duplicate rules".
    """
    users, number = numbered(np.concatenate([devices.user, rules.user]))
    device_user, rule_user = number[: len(devices.user)], number[len(devices.user) :]
    ids, number = numbered(np.concatenate([devices.id, rules.trigger, rules.action_device]))
    device_id, trigger_id, action_id = np.split(number, np.cumsum([len(devices.id), len(rules.trigger)]))
    types, device_type = numbered(devices.type)

    key = device_user * max(len(ids), 1) + device_id
    order = np.argsort(key, kind="stable")
    key = key[order]
    if np.any(np.diff(key) == 0):
        raise DataError(f"{name}: a home owns one device twice")
    trigger = _find(key, rule_user * max(len(ids), 1) + trigger_id, name)
    action = _find(key, rule_user * max(len(ids), 1) + action_id, name)

    states, state = numbered(rules.trigger_state)
    actions, act = numbered(rules.action)
    pairs, relation = np.unique(state * max(len(actions), 1) + act, return_inverse=True)
    relations = tuple(Relation(str(states[p // len(actions)]), str(actions[p % len(actions)])) for p in pairs.tolist())
    sorted_rules = Rules(rule_user, trigger, action, relation, rules.group).by_home()
    _, first = np.unique(sorted_rules.keys(len(key), len(relations)), return_index=True)
    duplicates = len(sorted_rules) - len(first)
    counts = provenance.counts | ({"duplicate rules": duplicates} if duplicates else {})
    return Homes(
        name=name,
        types=tuple(str(t) for t in types),
        relations=relations,
        users=users,
        device_home=device_user[order],
        device_type=device_type[order],
        device_ids=devices.id[order],
        rules=sorted_rules.take(np.sort(first)),
        provenance=replace(provenance, counts=counts),
    )


def _find(sorted_keys: Array, wanted: Array, name: str) -> Array:
    position = np.minimum(np.searchsorted(sorted_keys, wanted), max(len(sorted_keys) - 1, 0))
    if len(wanted) and (not len(sorted_keys) or np.any(sorted_keys[position] != wanted)):
        raise DataError(f"{name}: a rule names a device that its home does not own")
    return position.astype(np.int64)
