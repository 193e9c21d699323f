"""The entity type of an entity, in the vocabulary of the data set `home-assistant`: types.toml says how."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from datasets.words import tokens, vocabulary
from fedrule.homeassistant.installation import Entity, Installation

ENDING = 4  # least letters of a word that is found at the end of a compound
MEMBERS = 50  # of a group that are asked
NESTING = 5  # groups of groups


class WordList(NamedTuple):
    """Words that name a type, in the domains where they do."""

    type: str
    words: frozenset[str]
    endings: tuple[str, ...]
    domains: frozenset[str]

    def matches(self, found: Sequence[str]) -> bool:
        """Whether one of these tokens is such a word or ends with one, or two in a row are one: "light level"."""
        compounds = set(found) - vocabulary().places  # "outdoor" is no door
        pairs = (first + second for first, second in pairwise(found))
        return not self.words.isdisjoint((*found, *pairs)) or any(each.endswith(self.endings) for each in compounds)


class TypeTable(NamedTuple):
    """types.toml."""

    types: frozenset[str]
    only_in_rules: frozenset[str]
    domains: Mapping[str, str]
    mixed: Mapping[str, str]
    device_class: Mapping[str, Mapping[str, str]]
    units: Mapping[str, str]
    words: tuple[WordList, ...]


@cache
def table() -> TypeTable:
    """The lists of types.toml."""
    lists = tomllib.loads(Path(__file__).with_name("types.toml").read_text("utf-8"))
    alone = frozenset(lists["alone"].split())
    words = []
    for entry in lists["words"]:
        known = frozenset(token for word in entry["words"].split() for token in ["".join(tokens(word))])
        endings = tuple(sorted(word for word in known - alone if len(word) >= ENDING or not word.isascii()))
        words.append(WordList(entry["type"], known, endings, frozenset(entry.get("only", ("sensor", "binary_sensor")))))
    return TypeTable(
        frozenset(lists["types"].split()),
        frozenset(lists["only_in_rules"].split()),
        lists["domains"],
        lists["mixed"],
        lists["device_class"],
        lists["units"],
        tuple(words),
    )


def type_of_domain(domain: str) -> str:
    """What entities and services of a domain are, where the domain says it: light is Light, climate Thermostat."""
    known = table()
    if domain in known.domains:
        return known.domains[domain]
    camel = "".join(part.capitalize() for part in domain.split("_"))
    return camel if camel in known.types else "Other"


def type_of_words(domain: str, name: str) -> str:
    """What the words of a name say of a sensor; empty if nothing."""
    found = tokens(name)
    return next((each.type for each in table().words if domain in each.domains and each.matches(found)), "")


def type_of_class(domain: str, device_class: str) -> str:
    """What a device class says; empty if nothing."""
    return table().device_class.get(domain, {}).get(device_class, "")


class Typing:
    """The types of an installation's entities; one that is not known is typed by its entity id."""

    def __init__(self, installation: Installation) -> None:
        self.entities = installation.entities
        self._known: dict[str, str] = {}
        self._groups: dict[tuple[str, int], str] = {}  # by nesting: groups may hold each other

    def of(self, entity_id: str) -> str:
        """The type of an entity, or of what an automation calls by this entity id."""
        if entity_id not in self._known:
            self._known[entity_id] = self._type(self.entities.get(entity_id) or Entity(entity_id), NESTING)
        return self._known[entity_id]

    def _type(self, entity: Entity, nesting: int) -> str:
        domain = entity.domain
        known = table()
        if domain == "group":
            at = (entity.entity_id, nesting)
            if at not in self._groups:
                self._groups[at] = self._group(entity, nesting)
            return self._groups[at]
        if domain not in known.mixed:
            return type_of_domain(domain)
        said = type_of_class(domain, entity.device_class)
        if not said and domain == "sensor":
            said = known.units.get(entity.unit, "")
        return said or self._by_words(entity) or known.mixed[domain]

    def _by_words(self, entity: Entity) -> str:
        """By the owner's name and the entity id: either may be in a language that we know."""
        said = type_of_words(entity.domain, entity.name) if entity.name else ""
        return said or type_of_words(entity.domain, entity.entity_id.partition(".")[2])

    def _group(self, entity: Entity, nesting: int) -> str:
        """One device of the type that most of its members have."""
        if nesting == 0:
            return "Group"
        members = [self.entities.get(each) or Entity(each) for each in entity.members[:MEMBERS]]
        kinds = Counter(self._type(member, nesting - 1) for member in members)
        if kinds:
            (kind, count), *_ = kinds.most_common(1)
            return kind if 2 * count > len(members) else "Group"
        return _group_by_name(entity.entity_id)


# A group whose members are not known, by what such groups have been called since the first versions.
_GROUPS = {
    "light": "Light", "lights": "Light", "lamps": "Light", "switches": "Switch", "covers": "Cover", "blinds": "Cover",
    "people": "Person", "persons": "Person", "family": "Person", "devices": "Person", "trackers": "Person",
    "phones": "Person", "residents": "Person", "fans": "Fan", "locks": "Lock", "lichter": "Light", "lampen": "Light",
    "luci": "Light", "luces": "Light", "lumieres": "Light", "personen": "Person",
}  # fmt: skip


def _group_by_name(entity_id: str) -> str:
    found = [_GROUPS[token] for token in tokens(entity_id.partition(".")[2]) if token in _GROUPS]
    return found[-1] if found else "Group"
