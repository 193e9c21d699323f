"""Records of Home Assistant's registries and states, as entities, areas and devices.

The server answers `config/*_registry/list` with the records that it also keeps in `.storage`, so one code reads both.
What only one of them has is taken where it is: device class and unit are in the state of a running server and in the
stored entity registry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fedrule.homeassistant.installation import Area, Entity, RegisteredDevice, mapping, text, texts, whole

Record = Mapping[str, object]

# Attributes that say what an entity can be set to. They are the same while the server runs: none is a state.
_CAPABILITIES = """
available_modes available_tones code_arm_required code_format effect_list fan_modes fan_speed_list has_date has_time
hvac_modes max max_humidity max_temp min min_humidity min_temp operation_list pattern preset_modes
sound_mode_list source_list state_class step swing_modes
"""
CAPABILITIES = frozenset(_CAPABILITIES.split())


def areas(records: Iterable[object]) -> dict[str, Area]:
    """By id, sorted; the server calls the id area_id, the stored registry id."""
    found = [
        Area(id_, text(record.get("name")), text(record.get("floor_id")), texts(record.get("labels")))
        for record in map(mapping, records)
        if (id_ := text(record.get("area_id")) or text(record.get("id")))
    ]
    return {area.id: area for area in sorted(found, key=lambda area: area.id)}


def devices(records: Iterable[object]) -> dict[str, RegisteredDevice]:
    """By id, sorted."""
    found = [
        RegisteredDevice(
            id_,
            text(record.get("name_by_user")) or text(record.get("name")),
            text(record.get("area_id")),
            texts(record.get("labels")),
            record.get("disabled_by") is not None,
        )
        for record in map(mapping, records)
        if (id_ := text(record.get("id")))
    ]
    return {device.id: device for device in sorted(found, key=lambda device: device.id)}


def entities(records: Iterable[object], known: Mapping[str, RegisteredDevice]) -> dict[str, Entity]:
    """The entities of the entity registry by entity id."""
    found = {}
    for record in map(mapping, records):
        entity_id = text(record.get("entity_id"))
        if is_entity_id(entity_id):
            found[entity_id] = _entity(entity_id, record, known)
    return found


def _entity(entity_id: str, record: Record, known: Mapping[str, RegisteredDevice]) -> Entity:
    device = known.get(text(record.get("device_id")))
    capabilities = mapping(record.get("capabilities"))
    return Entity(
        entity_id,
        name=_registered_name(record, device),
        device_class=text(record.get("device_class")) or text(record.get("original_device_class")),
        unit=text(record.get("unit_of_measurement")),
        area=text(record.get("area_id")) or (device.area if device else ""),
        device=text(record.get("device_id")),
        category=text(record.get("entity_category")),
        disabled=record.get("disabled_by") is not None,
        hidden=record.get("hidden_by") is not None,
        features=whole(record.get("supported_features")),
        color_modes=tuple(sorted(texts(capabilities.get("supported_color_modes")))),
        options=_listed(capabilities.get("options")),
        labels=tuple(sorted(texts(record.get("labels")))),
        platform=text(record.get("platform")),
        registry_id=text(record.get("id")),
        capabilities=_capabilities(capabilities),
    )


def _capabilities(attributes: Record) -> dict[str, object]:
    return {key: value for key, value in attributes.items() if key in CAPABILITIES and value is not None}


def _registered_name(record: Record, device: RegisteredDevice | None) -> str:
    """The owner's name, or what the server would call it: with its device's name if the entity's is a part of it."""
    own = text(record.get("name"))
    if own:
        return own
    original = text(record.get("original_name"))
    if record.get("has_entity_name") is True and device is not None:
        return f"{device.name} {original}".strip()
    return original


def with_states(registered: Mapping[str, Entity], states: Iterable[object]) -> dict[str, Entity]:
    """Registered entities completed by their states, and those that have a state only."""
    found = dict(registered)
    for state in map(mapping, states):
        entity_id = text(state.get("entity_id"))
        if not is_entity_id(entity_id):
            continue
        seen = mapping(state.get("attributes"))
        entity = found.get(entity_id) or Entity(entity_id, known_from="states")
        found[entity_id] = replace(
            entity,
            name=text(seen.get("friendly_name")) or entity.name,  # as the owner sees it
            device_class=text(seen.get("device_class")) or entity.device_class,
            unit=text(seen.get("unit_of_measurement")) or entity.unit,
            features=whole(seen.get("supported_features")) or entity.features,
            color_modes=tuple(sorted(texts(seen.get("supported_color_modes")))) or entity.color_modes,
            options=_listed(seen.get("options")) or entity.options,
            members=_members(seen.get("entity_id")) or entity.members,
            capabilities={**entity.capabilities, **_capabilities(seen)},
        )
    return found


def _members(value: object) -> tuple[str, ...]:
    """Of a group or a scene: automations and others have a single id or none."""
    return tuple(each for each in texts(value) if is_entity_id(each)) if isinstance(value, (list, tuple)) else ()


def _listed(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()


def is_entity_id(value: str) -> bool:
    """light.kitchen: two words of lower-case letters, digits and underscores, joined by a point."""
    domain, point, name = value.partition(".")
    return bool(point and _is_slug(domain) and _is_slug(name)) and len(value) <= 255


def _is_slug(word: str) -> bool:
    return word.isascii() and word.replace("_", "0").isalnum() and word == word.lower()
