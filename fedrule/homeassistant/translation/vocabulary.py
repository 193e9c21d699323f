"""The words for trigger states and actions: relations.toml, read once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Vocabulary(NamedTuple):
    """relations.toml."""

    states: frozenset[str]
    events: frozenset[str]
    device_types: frozenset[str]
    actions: frozenset[str]
    entity_domains: frozenset[str]
    switched_domains: frozenset[str]
    platform_domains: frozenset[str]
    helper_domains: frozenset[str]
    numeric_device_triggers: frozenset[str]
    button_events: frozenset[str]
    button_keys: tuple[str, ...]
    button_words: frozenset[str]
    device_triggers: Mapping[str, str]
    device_triggers_of: Mapping[str, str]
    purposes: Mapping[str, str]
    trigger_kinds: Mapping[str, str]  # the type of a device trigger -> the kind of sensor
    services: Mapping[str, str]
    system: frozenset[str]
    notifications: frozenset[str]
    runners: frozenset[str]
    light: Mapping[str, frozenset[str]]
    fields: Mapping[str, str]


@cache
def vocabulary() -> Vocabulary:
    """The lists of relations.toml."""
    lists = tomllib.loads(Path(__file__).with_name("relations.toml").read_text("utf-8"))

    def words(key: str) -> frozenset[str]:
        return frozenset(lists[key].split())

    def domains(part: str) -> frozenset[str]:
        return frozenset(lists[part]["domains"].split())

    return Vocabulary(
        states=words("states") | frozenset(lists["states_of_two_words"]),
        events=words("events"),
        device_types=words("device_types"),
        actions=words("actions"),
        entity_domains=words("entity_domains"),
        switched_domains=words("switched_domains"),
        platform_domains=words("platform_domains"),
        helper_domains=words("helper_domains"),
        numeric_device_triggers=words("numeric_device_triggers"),
        button_events=words("button_events"),
        button_keys=tuple(lists["button_keys"].split()),
        button_words=words("button_words"),
        device_triggers=lists["device_triggers"],
        device_triggers_of=lists["device_triggers_of"],
        purposes=lists["purposes"],
        trigger_kinds={type_: kind for kind, types in lists["device_trigger_kinds"].items() for type_ in types.split()},
        services=lists["services"],
        system=domains("system"),
        notifications=domains("notifications"),
        runners=domains("runners"),
        light={action: frozenset(keys.split()) for action, keys in lists["light"].items()},
        fields=lists["fields"],
    )


def state_word(value: object) -> str:
    """The trigger state for a value that an entity changes to."""
    if isinstance(value, bool):
        value = "on" if value else "off"
    word = str(value).strip().lower()
    return f"state:{word}" if word in vocabulary().states else "state:other"


def action_word(domain: str, service: str) -> str:
    """The action for a service, whatever it is called with."""
    known = vocabulary()
    full = f"{domain}.{service}"
    word = known.services.get(full) or known.services.get(service) or service
    return word if word in known.actions else "other"
