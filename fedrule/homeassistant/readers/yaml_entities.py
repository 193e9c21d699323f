"""Entities that a configuration defines in YAML: helpers, groups, templates, platforms, and names by customize."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping

from fedrule.homeassistant.installation import Entity, items, mapping, text, texts
from fedrule.homeassistant.readers.config_yaml import Hidden
from fedrule.homeassistant.readers.registries import is_entity_id
from fedrule.homeassistant.translation.vocabulary import vocabulary

UTILITY = {"utility_meter": "sensor"}  # where the entity's domain is another
HELPER_CAPABILITIES = ("min", "max", "step", "has_date", "has_time")
NOT_LATIN = {"\u00df": "ss", "\u00e6": "ae", "\u00f8": "o", "\u0142": "l", "\u0111": "d"}


def yaml_entities(domain: str, section: object) -> Iterator[Entity]:
    """What a section of configuration.yaml or of a package defines; `domain` is its key without a name after it."""
    if domain in vocabulary().helper_domains:
        yield from _helpers(domain, mapping(section))
    elif domain == "template":
        yield from _modern(section)
    elif domain == "mqtt":
        for each in items(section):
            for kind, definitions in mapping(each).items():
                if kind in vocabulary().platform_domains:
                    for definition in items(definitions):
                        yield from _named(kind, mapping(definition), "mqtt")
    elif domain in ("sun", "default_config"):
        yield Entity("sun.sun", name="Sun", platform="sun", known_from="yaml")
    elif domain == "person":
        for each in items(section):
            yield from _named("person", mapping(each), "person")
    elif domain in vocabulary().platform_domains:
        for each in items(section):
            yield from _platform(domain, mapping(each))


def customized(customize: object) -> Iterator[tuple[str, Mapping[str, object]]]:
    """What `homeassistant: customize:` says of single entities."""
    for entity_id, attributes in mapping(customize).items():
        if is_entity_id(entity_id):
            yield entity_id, mapping(attributes)


def named_entities(config: object, *, below: bool = False) -> Iterator[str]:
    """The entity ids in a part of the configuration: what stands at `entity_id` or `entities`."""
    if isinstance(config, Mapping):
        for key, value in config.items():
            if key == "entities" and isinstance(value, Mapping):
                yield from filter(_is_named, value)
            yield from named_entities(value, below=key in ("entity_id", "entities"))
    elif isinstance(config, list):
        for each in config:
            yield from named_entities(each, below=below)
    elif below and isinstance(config, str):
        yield from filter(_is_named, texts(config))


def _is_named(value: str) -> bool:
    return is_entity_id(value) and value.partition(".")[0] in vocabulary().entity_domains


def slug(name: str) -> str:
    """The part of an entity id that Home Assistant makes of a name; scripts other than Latin are left out."""
    folded = unicodedata.normalize("NFKD", "".join(NOT_LATIN.get(letter, letter) for letter in name.lower()))
    plain = "".join(letter for letter in folded if letter.isascii())
    return re.sub(r"[^a-z0-9]+", "_", plain).strip("_")


def _helpers(domain: str, section: Mapping[str, object]) -> Iterator[Entity]:
    for key, definition in section.items():
        about = mapping(definition)
        entity_id = f"{UTILITY.get(domain, domain)}.{key}"
        if domain == "group" and not is_entity_id(entity_id):  # "Upstairs Lights:"
            entity_id, about = f"group.{slug(key)}", {"name": key, **about}
        members = texts(about.get("entities")) if domain == "group" else ()
        if domain == "group" and not isinstance(definition, Mapping):
            members = texts(definition)  # "kitchen: light.one, light.two"
        if is_entity_id(entity_id):
            name = about.get("alias") if domain == "script" else about.get("name")
            yield Entity(
                entity_id,
                name=_name(name) or _name(about.get("friendly_name")),
                unit=text(about.get("unit_of_measurement")),
                members=tuple(each for each in members if is_entity_id(each)),
                options=tuple(map(str, items(about.get("options")))) if domain == "input_select" else (),
                platform=domain,
                known_from="yaml",
                capabilities={key: about[key] for key in HELPER_CAPABILITIES if key in about},
            )


def _modern(section: object) -> Iterator[Entity]:
    for block in items(section):
        for domain, definitions in mapping(block).items():
            if domain in vocabulary().platform_domains:
                for definition in items(definitions):
                    yield from _named(domain, mapping(definition), "template")


def _platform(domain: str, definition: Mapping[str, object]) -> Iterator[Entity]:
    """One item of "light:", with one entity by its name or several below `sensors:`, `switches:` and so on."""
    platform = text(definition.get("platform"))
    several = (f"{domain}s", "sensors", "switches", "panels", "devices")
    found = False
    for key in several if platform in ("template", "command_line", "trend", "threshold", "broadlink") else ():
        for name, about in mapping(definition.get(key)).items():
            entity_id = f"{domain}.{name}"
            if is_entity_id(entity_id):
                found = True
                yield _entity(entity_id, mapping(about), platform)
    if not found:
        yield from _named(domain, definition, platform)


def _named(domain: str, definition: Mapping[str, object], platform: str) -> Iterator[Entity]:
    name = _name(definition.get("name"))
    own = text(definition.get("default_entity_id")) or f"{domain}.{text(definition.get('object_id'))}"
    entity_id = own if is_entity_id(own) else f"{domain}.{slug(name)}"
    if "{" not in name and is_entity_id(entity_id):
        yield _entity(entity_id, definition, platform)


def _name(value: object) -> str:
    """A name; empty where it is a secret, of which no id can be made either."""
    return "" if isinstance(value, Hidden) else text(value)


def _entity(entity_id: str, definition: Mapping[str, object], platform: str) -> Entity:
    return Entity(
        entity_id,
        name=_name(definition.get("friendly_name")) or _name(definition.get("name")),
        device_class=text(definition.get("device_class")),
        unit=text(definition.get("unit_of_measurement")),
        members=tuple(e for e in texts(definition.get("entities")) if is_entity_id(e)) if platform == "group" else (),
        category=text(definition.get("entity_category")),
        platform=platform,
        known_from="yaml",
    )
