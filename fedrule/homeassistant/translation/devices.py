"""The devices that automations name: entities, targets by area, device or label, and others, such as the clock.

A device's id is its entity id. Others have ids that no entity can have:

- `clock`, `system`, `template`, `conversation`, `hassio`: one for each home; the sun is `sun.sun`
- `mqtt:TOPIC`, `event:TYPE`, `device:ID` (a remote control without entities), `webhook:CODE`, `tag:CODE`: the codes are
  hashes, because who knows a webhook's id can call it
- `notify.NAME`, `shell_command.NAME`, ...: a service that is a device by itself
- `light.*`: all entities of a domain (`entity_id: all`, or a template that goes through `states.light`)
- `light@area:ID`, `light@device:ID`, `light@label:ID`: those of an area, device or label that the installation does not
  know, as one device
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from datasets.words import tokens
from fedrule.homeassistant.installation import Entity, Installation, texts
from fedrule.homeassistant.readers.registries import is_entity_id
from fedrule.homeassistant.translation.types import Typing, table, type_of_domain
from fedrule.homeassistant.translation.vocabulary import vocabulary

ENTITY = re.compile(r"(?<![\w.])([a-z][a-z0-9_]*)\.([a-z0-9_]+)(?![\w(])")
STATES = re.compile(r"(?<![\w.])states\.([a-z][a-z0-9_]*)\.([a-z0-9_]+)")
ALL_STATES = re.compile(r"(?<![\w.])states\.([a-z][a-z0-9_]*)\b(?!\.)")
REGISTRY_ID = re.compile(r"[0-9a-f]{32}")
GENERIC = ("BinarySensor", "Sensor", "Group", "Other")  # types of which nothing says what they are
TARGETS = ("entity_id", "area_id", "device_id", "label_id", "floor_id")


class NamedDevice(NamedTuple):
    """A device that an automation uses."""

    id: str
    type: str
    name: str = ""
    area: str = ""  # its id


class Devices:
    """Looks up what automations name, and remembers each device that was asked for in `used`."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.typing = Typing(installation)
        self.used: dict[str, NamedDevice] = {}
        self.unresolved: Counter[str] = Counter()  # why targets gave no device
        self.hints: dict[str, str] = {}  # types that device triggers say, of entities that nothing else says
        self._registry: dict[str, str] = {}
        self._by: dict[str, dict[str, list[Entity]]] = {key: defaultdict(list) for key in TARGETS[1:]}
        for entity in installation.entities.values():
            self._index(entity)

    def _index(self, entity: Entity) -> None:
        if entity.registry_id:
            self._registry[entity.registry_id] = entity.entity_id
        device = self.installation.devices.get(entity.device)
        area = self.installation.areas.get(entity.area)
        if entity.device:
            self._by["device_id"][entity.device].append(entity)
        if entity.area:
            self._by["area_id"][entity.area].append(entity)
        if area is not None and area.floor:
            self._by["floor_id"][area.floor].append(entity)
        labels = {*entity.labels, *(device.labels if device else ()), *(area.labels if area else ())}
        for label in sorted(labels):
            self._by["label_id"][label].append(entity)

    def type_of(self, entity_id: str) -> str:
        known = self.typing.of(entity_id)
        return self.hints.get(entity_id, known) if known in GENERIC else known

    def entity(self, entity_id: str, hint: str = "") -> str:
        """An entity by its id; `hint` is its type if nothing else says it."""
        if hint and self.typing.of(entity_id) in GENERIC:
            self.hints.setdefault(entity_id, hint)
        if entity_id not in self.used:
            known = self.installation.entities.get(entity_id)
            self.used[entity_id] = NamedDevice(entity_id, "", known.name if known else "", known.area if known else "")
        return entity_id

    def other(self, id_: str, type_: str, *, name: str = "", area: str = "") -> str:
        """A device that is no entity."""
        self.used.setdefault(id_, NamedDevice(id_, type_, name, area))
        return id_

    def secret(self, kind: str, value: object) -> str:
        """A device whose id must not be known, by a code for it."""
        code = hashlib.blake2b(str(value).encode(), digest_size=5).hexdigest()
        return self.other(f"{kind}:{code}", type_of_domain(kind))

    def registered(self, value: str) -> str:
        """An entity id; device triggers and actions may give the id of the registry's record instead."""
        return value if is_entity_id(value) else self._registry.get(value, "")

    def of_device(self, device_id: str, domain: str) -> list[Entity]:
        """The entities of a domain that a registered device has, those for people first."""
        found = [each for each in self._by["device_id"].get(device_id, ()) if each.domain == domain]
        return [each for each in found if each.for_people] or found

    def button(self, device_id: str) -> str:
        """A device without an entity that triggers: a remote control."""
        known = self.installation.devices.get(device_id)
        return self.other(
            f"device:{device_id}", "Button", name=known.name if known else "", area=known.area if known else ""
        )

    def target(self, target: Mapping[str, object], domain: str, kind: str = "") -> list[str]:
        """The devices of a target (entity_id, area_id, device_id, label_id, floor_id) that a domain's service acts on.

        `kind` is an entity type instead of the domain, for the triggers of sensors.
        """
        found = list(self._entity_ids(target.get("entity_id"), domain, kind))
        for key in TARGETS[1:]:
            for id_ in texts(target.get(key)):
                found += self._members(key, id_, domain, kind)
        return list(dict.fromkeys(found))

    def _entity_ids(self, value: object, domain: str, kind: str) -> Iterable[str]:
        for each in _entity_texts(value):
            if "{{" in each or "{%" in each:
                named = [e for e in mentioned(each) if domain in ("homeassistant", e.partition(".")[0])]
                every = domain in ALL_STATES.findall(each)
                if every and ("reject" in each or not named):  # "the lamps that are on, without these"
                    yield self._every(domain)
                elif named:
                    yield from (self.entity(e) for e in named)
                else:
                    self.unresolved["a template chooses the entity"] += 1
            elif each == "all":
                yield self._every(domain)
            elif each == "none":
                continue
            elif entity_id := self.registered(each.lower()):
                yield self.entity(entity_id, kind)
            elif REGISTRY_ID.fullmatch(each):
                yield self.other(f"{domain}@entity:{each}", kind or type_of_domain(domain))
            else:
                self.unresolved["not an entity id"] += 1

    def _every(self, domain: str) -> str:
        return self.other(f"{domain}.*", type_of_domain(domain), name=f"all {domain.replace('_', ' ')} entities")

    def _members(self, key: str, id_: str, domain: str, kind: str) -> Iterable[str]:
        if "{" in id_:
            self.unresolved["a template chooses the area, device or label"] += 1
            return []
        held = self._by[key].get(id_)
        if held is None:
            return [self._as_one(key, id_, domain, kind)]
        domains = vocabulary().switched_domains if domain == "homeassistant" else {domain}
        wanted = [each for each in held if each.for_people and (each.domain in domains or self._is(each, kind))]
        if not wanted:
            self.unresolved[f"nothing of {domain} in that {key.removesuffix('_id')}"] += 1
        return [self.entity(each.entity_id) for each in wanted]

    def _is(self, entity: Entity, kind: str) -> bool:
        return bool(kind) and self.type_of(entity.entity_id) == kind

    def _as_one(self, key: str, id_: str, domain: str, kind: str) -> str:
        part = key.removesuffix("_id")
        area = self.installation.areas.get(id_) if part == "area" else None
        type_ = kind or ({"area": "Area", "device": "Device"}.get(part, "Group") if domain == "homeassistant" else "")
        name = area.name if area else id_.replace("_", " ") if part == "area" else ""
        return self.other(f"{domain}@{part}:{id_}", type_ or type_of_domain(domain), name=name)


def _entity_texts(value: object) -> tuple[str, ...]:
    """A template may have commas; only lists of ids are cut at them."""
    if isinstance(value, str) and ("{{" in value or "{%" in value):
        return (value,)
    if isinstance(value, list):
        return tuple(each for item in value for each in _entity_texts(item))
    return texts(value)


def mentioned(template: str) -> list[str]:
    """The entity ids that stand in a template, each once, in order."""
    found = [
        f"{domain}.{name}"
        for domain, name in ENTITY.findall(STATES.sub(r"\1.\2", template))
        if domain in vocabulary().entity_domains and name not in SERVICES
    ]
    return list(dict.fromkeys(found))


SERVICES = frozenset(("turn_on", "turn_off", "toggle", "state", "attributes", "last_changed", "last_updated"))


def is_button(words: str) -> bool:
    """Whether the words of a topic or a name are those of a remote control."""
    return bool(vocabulary().button_words & set(tokens(words)))


def only_in_rules(domain: str) -> bool:
    """Whether entities of a domain are devices of a home only where a rule uses them."""
    return domain in table().only_in_rules
