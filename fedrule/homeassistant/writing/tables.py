"""tables.toml, read once; and what both halves of an automation are written with."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from datasets.words import tokens
from fedrule.homeassistant.home import HomeDevice, InstalledHome
from fedrule.homeassistant.installation import Automation, Entity, items, mapping, printable, whole
from fedrule.homeassistant.translation.devices import Devices
from fedrule.homeassistant.translation.rules import read_automation
from fedrule.homeassistant.translation.vocabulary import action_word

TEMPLATE = re.compile(r"\{[{%#]")


class Tables(NamedTuple):
    """tables.toml."""

    services: Mapping[str, tuple[int, ...]]
    usual_features: Mapping[str, int]
    system_services: Mapping[str, str]
    states: Mapping[str, frozenset[str]]
    state_features: Mapping[str, tuple[int, ...]]
    groups: Mapping[str, frozenset[str]]
    always_there: frozenset[str]
    numeric_domains: frozenset[str]
    text_classes: frozenset[str]
    events: frozenset[str]
    timers: frozenset[str]
    numeric_attributes: Mapping[str, Mapping[str, str]]
    levels: Mapping[str, Mapping[str, float]]
    level_units: Mapping[str, str]
    level_types: Mapping[str, str]
    values: Mapping[str, object]
    choices: Mapping[str, tuple[str, ...]]
    sentences: Mapping[str, str]
    said: Mapping[str, str]
    scene_actions: Mapping[str, str]
    warnings: Mapping[str, str]
    warning_words: Mapping[str, frozenset[str]]
    warning_domains: Mapping[str, frozenset[str]]


@cache
def tables() -> Tables:
    """The lists of tables.toml."""
    lists = tomllib.loads(Path(__file__).with_name("tables.toml").read_text("utf-8"))

    def words(part: Mapping[str, str]) -> dict[str, frozenset[str]]:
        return {key: frozenset(value.split()) for key, value in part.items()}

    lone = words(lists["trigger_lists"])
    return Tables(
        services={name: tuple(masks) for name, masks in lists["services"].items()},
        usual_features=lists["usual_features"],
        system_services=lists["system_services"],
        states=words(lists["states"]),
        state_features={name: tuple(masks) for name, masks in lists["state_features"].items()},
        groups=words(lists["groups"]),
        always_there=lone["always_there"],
        numeric_domains=lone["numeric_domains"],
        text_classes=lone["texts"],
        events=lone["events"],
        timers=lone["timers"],
        numeric_attributes=lists["numeric_attributes"],
        levels=lists["levels"],
        level_units=lists["level_units"],
        level_types=lists["level_types"],
        values=lists["values"],
        choices={key: tuple(value.split()) for key, value in lists["choices"].items()},
        sentences=lists["sentences"],
        said=lists["said"],
        scene_actions=lists["scene_actions"],
        warnings=lists["warnings"],
        warning_words=words(lists["warning_words"]),
        warning_domains=words(lists["warning_domains"]),
    )


@cache
def services_of_domain() -> Mapping[str, tuple[str, ...]]:
    """The services of [services] by domain."""
    found: dict[str, list[str]] = {}
    for name in tables().services:
        domain, _, service = name.partition(".")
        found.setdefault(domain, []).append(service)
    return {domain: tuple(services) for domain, services in found.items()}


def services_for(domain: str, action: str) -> list[str]:
    """The services of a domain that are read as this action: the reader's table backwards."""
    return [service for service in services_of_domain().get(domain, ()) if action_word(domain, service) == action]


class Guess(NamedTuple):
    """A value that the home has to choose."""

    kind: str  # the key of its sentence
    value: str

    def __str__(self) -> str:
        return tables().sentences[self.kind].format(self.value)


@dataclass
class Part:
    """A trigger or an action as it is written, in the spelling of versions before 2024.10."""

    config: dict[str, object]
    guesses: list[Guess] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class Unwritable(Exception):
    """Raised inside of the writer: why a rule cannot be written."""


class HomeLookup:
    """Devices and services of a home, looked up by the id that a rule has."""

    def __init__(self, home: InstalledHome) -> None:
        self.installation = home.installation
        self.devices: Mapping[str, HomeDevice] = {device.id: device for device in home.devices}
        rules = (*home.rules, *home.rules_switched_off)
        self.seen_states = frozenset((rule.trigger, rule.trigger_state) for rule in rules)
        units = {entity.unit for entity in self.installation.entities.values()}
        self.fahrenheit = "°F" in units and "°C" not in units
        self._configs = {
            each.entity_id: each.config for each in (*home.installation.scripts, *home.installation.scenes)
        }
        self._steps: dict[str, list[tuple[str, str]]] = {}  # of scripts, as they are asked for

    def entity(self, id_: str) -> Entity:
        """The entity behind an id; one that only automations name where the home was read from its folder."""
        found = self.installation.entities.get(id_)
        if found is None:
            if self.installation.live or id_ not in self.devices:
                raise Unwritable("the home has no such entity")
            return Entity(id_, known_from="yaml")
        if found.disabled:
            raise Unwritable("the entity is disabled")
        return found

    def type_of(self, id_: str) -> str:
        device = self.devices.get(id_)
        return device.type if device else ""

    def name(self, id_: str) -> str:
        """What its owner calls it, on one line."""
        device = self.devices.get(id_)
        entity = self.installation.entities.get(id_)
        name = (device.name if device else "") or (entity.name if entity else "")
        return " ".join(printable(name).split()) or id_.partition(".")[2].replace("_", " ") or id_

    def features(self, entity: Entity) -> int:
        """What it supports; the usual where only its id is known."""
        unknown = entity.known_from == "yaml" and not entity.features
        return tables().usual_features.get(entity.domain, 0) if unknown else entity.features

    def can(self, entity: Entity, service: str) -> bool:
        """Whether an entity supports a service of its own domain, by Home Assistant's table and by the server's."""
        features = self.features(entity)
        if not supports(features, tables().services[f"{entity.domain}.{service}"]):
            return False
        about = mapping(mapping(self.installation.services.get(entity.domain)).get(service))
        selectors = [each for each in items(mapping(about.get("target")).get("entity")) if isinstance(each, Mapping)]
        masks = [tuple(map(whole, items(each.get("supported_features")))) for each in selectors]
        return not masks or any(supports(features, mask) for mask in masks)

    def has_service(self, domain: str, service: str) -> bool:
        """Whether the server has a service; of one that does not run, it is not known and taken as true."""
        services = self.installation.services
        return service in services.get(domain, {}) if services else True

    def members(self, group: Entity) -> list[Entity]:
        """The entities of a group, with those of groups in it, each once."""
        found: dict[str, Entity] = {}
        waiting = [*reversed(group.members)]
        seen = {group.entity_id}
        while waiting:
            id_ = waiting.pop()
            if id_ in seen:
                continue
            seen.add(id_)
            each = self.installation.entities.get(id_) or Entity(id_, known_from="yaml")
            if each.domain == "group":
                waiting += reversed(each.members)
            else:
                found[id_] = each
        return list(found.values())

    def calls(self, action: str, id_: str) -> list[tuple[str, str]]:
        """What a call leads to, as actions and their devices; an action that is not known is empty.

        The members of a group, the steps of a script, and the states that a scene sets.
        """
        domain = id_.partition(".")[0]
        if domain == "group":
            group = self.installation.entities.get(id_) or Entity(id_)
            return [(action, member.entity_id) for member in self.members(group)]
        if action == "turn_off" or domain not in ("script", "scene"):
            return []
        if domain == "script":
            if id_ not in self._steps:
                steps = mapping(self._configs.get(id_)).get("sequence")
                automation = Automation({"trigger": {"platform": "homeassistant"}, "action": steps}, id_)
                rules = read_automation(automation, Devices(self.installation)).rules
                self._steps[id_] = [(rule.action, rule.action_device) for rule in rules]
            return self._steps[id_]
        scene = self.installation.entities.get(id_) or Entity(id_)
        states = mapping(mapping(self._configs.get(id_)).get("entities"))
        return [(_action_of_state(states.get(member)), member) for member in states or scene.members]


def _action_of_state(state: object) -> str:
    """What a scene does to an entity that it sets to a state, also as `{state: ...}`; empty if it cannot be told."""
    word = mapping(state).get("state", state)
    if isinstance(word, bool):  # `on` without quotes in YAML
        word = "on" if word else "off"
    return tables().scene_actions.get(str(word), "")


def supports(features: int, masks: tuple[int, ...]) -> bool:
    """All bits of one of the masks; nothing is needed where there are none."""
    return not masks or any(features & mask == mask for mask in masks)


def without_templates(text: str) -> str:
    """For a place where Home Assistant renders templates: nothing in it can begin one."""
    return text.replace("{", "(").replace("}", ")")


def has_template(text: str) -> bool:
    """Whether Home Assistant would render it."""
    return bool(TEMPLATE.search(text))


def name_has(name: str, words: frozenset[str]) -> bool:
    """Whether a name has one of the words, or a compound that ends with a longer one."""
    found = tokens(name)
    long = tuple(word for word in words if len(word) > 4)
    return any(token in words or token.endswith(long) for token in found)


def number(value: object) -> float | None:
    """A finite number, or None."""
    try:
        found = float(str(value)) if not isinstance(value, bool) else None
    except ValueError:
        return None
    return found if found is not None and abs(found) < 1e12 else None
