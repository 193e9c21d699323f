"""What is known of one Home Assistant, the same whether it was read live or from its configuration folder.

Readers fill it (`readers.folder.read_folder`, `readers.live.read_live`); `home.read_home` turns it into devices and
rules. Nothing in it is a state or a history: only what exists and what is automated.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

# What YAML 1.1 does not take, and the control characters U+0080 to U+009F.
_NOT_PRINTABLE = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity; what is not known is empty."""

    entity_id: str
    name: str = ""  # what its owner calls it
    device_class: str = ""
    unit: str = ""
    area: str = ""  # the id of its area, or else of its device's
    device: str = ""  # the id of its device in the registry
    category: str = ""  # "diagnostic", "config", or empty for one that people use
    disabled: bool = False
    hidden: bool = False
    features: int = 0  # the bits of supported_features
    color_modes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # of a select
    members: tuple[str, ...] = ()  # entity ids, if it is a group
    labels: tuple[str, ...] = ()
    platform: str = ""  # the integration that it comes from
    registry_id: str = ""  # device triggers and actions may name it by this
    known_from: str = "registry"  # or "states", "yaml"
    # What it can be set to: modes, lists and ranges (`readers.registries.CAPABILITIES`), as the server tells them.
    capabilities: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def domain(self) -> str:
        return self.entity_id.partition(".")[0]

    @property
    def for_people(self) -> bool:
        """Not disabled, hidden, diagnostic or for configuration."""
        return not (self.disabled or self.hidden or self.category)


@dataclass(frozen=True, slots=True)
class Area:
    """A room or another place."""

    id: str
    name: str
    floor: str = ""
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisteredDevice:
    """A device of the device registry, which may have many entities."""

    id: str
    name: str = ""
    area: str = ""
    labels: tuple[str, ...] = ()
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class Automation:
    """An automation as its owner wrote it, with the blueprint's inputs put in if it uses one."""

    config: Mapping[str, object]
    where: str  # "automations.yaml line 12", or the entity id where it was read live
    id: str = ""  # the `id` that its owner or the editor gave it
    entity_id: str = ""
    enabled: bool = True  # false if it is switched off
    blueprint: str = ""  # the path of the blueprint that it uses
    problem: str = ""  # why its configuration is unknown, if it is

    @property
    def alias(self) -> str:
        alias = self.config.get("alias")
        return alias if isinstance(alias, str) else ""

    @property
    def key(self) -> str:
        """The same however it was read: its id, or else its entity id."""
        return self.id or self.entity_id or self.where


@dataclass(frozen=True, slots=True)
class Script:
    """A script or a scene."""

    entity_id: str
    config: Mapping[str, object] = field(default_factory=dict)  # empty where it could not be read
    where: str = ""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A blueprint for automations: its definition with `Input` where an input goes."""

    path: str
    config: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read: what, and why, in a sentence without any value of the configuration."""

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Installation:
    """One Home Assistant."""

    source: str  # the folder, or the address
    version: str = ""  # e.g. "2024.3.3"; empty where it is not known
    entities: Mapping[str, Entity] = field(default_factory=dict)  # by entity id, sorted
    areas: Mapping[str, Area] = field(default_factory=dict)  # by id
    devices: Mapping[str, RegisteredDevice] = field(default_factory=dict)  # by id
    automations: tuple[Automation, ...] = ()
    scripts: tuple[Script, ...] = ()
    scenes: tuple[Script, ...] = ()
    blueprints: Mapping[str, Blueprint] = field(default_factory=dict)  # by path; offline only
    # By domain and name, as `get_services` answers: fields, target, supported features. Empty offline.
    services: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    live: bool = False

    def area_name(self, entity_id: str) -> str:
        """The name of the area that an entity is in; empty where it has none."""
        entity = self.entities.get(entity_id)
        area = self.areas.get(entity.area) if entity else None
        return area.name if area else ""

    def __str__(self) -> str:
        domains = Counter(entity.domain for entity in self.entities.values())
        most = ", ".join(f"{count} {domain}" for domain, count in domains.most_common(4))
        return (
            f"Home Assistant {self.version or '(version unknown)'}: {len(self.entities):,} entities"
            f"{f' ({most}, ...)' if most else ''}, {len(self.areas):,} areas, "
            f"{len(self.automations):,} automations{f', {len(self.problems):,} not read' if self.problems else ''}"
        )

    def __repr__(self) -> str:
        return f"<{self}>"


def printable(text: str) -> str:
    """Text that files, YAML, HTML and terminals take: U+FFFD for control characters and halves of surrogate pairs.

    Lines and tabs stay. The readers do it to all that they read, so that what follows need not.
    """
    return text if text.isascii() and text.isprintable() else _NOT_PRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def read_json(content: str | bytes) -> object:
    """The value of a JSON text, with `printable` texts and keys; a ValueError or RecursionError if it is none."""
    decoded = content if isinstance(content, str) else content.decode("utf-8-sig", "replace")
    value: object = json.loads(decoded)
    # Most of what is read has no escapes by which such a character could come, and is large.
    return _all_printable(value) if "\\u" in decoded or _NOT_PRINTABLE.search(decoded) else value


def _all_printable(value: object) -> object:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): _all_printable(each) for key, each in value.items()}
    return [_all_printable(each) for each in value] if isinstance(value, list) else value


def text(value: object) -> str:
    """A value of a registry or a configuration that should be text; empty if it is anything else."""
    return value if isinstance(value, str) else ""


def texts(value: object) -> tuple[str, ...]:
    """The texts of a list; a single text is a list of one, separated by commas."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, (list, tuple, set, frozenset)):
        return tuple(part for each in value for part in texts(each) if part)
    return ()


def mapping(value: object) -> Mapping[str, object]:
    """A mapping, or an empty one if it is anything else."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> list[object]:
    """A list; a single value is a list of one, and nothing is an empty one."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def whole(value: object) -> int:
    """A whole number, or 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
