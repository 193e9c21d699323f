"""Automations that use a blueprint, with their inputs put in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from fedrule.homeassistant.installation import Blueprint, mapping, text
from fedrule.homeassistant.readers.config_yaml import Input, Located

# Keys that an automation adds to, or takes in place of, those of its blueprint.
OF_THE_AUTOMATION = ("id", "alias", "description", "initial_state", "variables", "trace", "mode", "max")


class MissingInput(ValueError):
    """An input that the automation does not give and that has no default."""


def used_blueprint(config: Mapping[str, object]) -> str:
    """The path of the blueprint that an automation uses; empty if it uses none."""
    return text(mapping(config.get("use_blueprint")).get("path"))


def substituted(config: Mapping[str, object], blueprint: Blueprint) -> Mapping[str, object]:
    """The automation that the blueprint and the inputs of `config` make; `MissingInput` names one that is missing."""
    given = mapping(mapping(config.get("use_blueprint")).get("input"))
    inputs = {**defaults(mapping(mapping(blueprint.config.get("blueprint")).get("input"))), **given}
    made = Located(getattr(config, "where", ""))
    for key, value in blueprint.config.items():
        if key != "blueprint":
            made[key] = _put_in(value, inputs)
    for key in OF_THE_AUTOMATION:
        if key in config:
            made[key] = config[key]
    return made


def defaults(inputs: Mapping[str, object]) -> dict[str, object]:
    """The inputs that need not be given; those of sections, which have inputs of their own, too."""
    found: dict[str, object] = {}
    for name, definition in inputs.items():
        about = mapping(definition)
        if isinstance(about.get("input"), Mapping):
            found |= defaults(mapping(about["input"]))
        elif "default" in about:
            found[name] = about["default"]
    return found


def _put_in(value: object, inputs: Mapping[str, object]) -> object:
    if isinstance(value, Input):
        if value not in inputs:
            raise MissingInput(f"its input {str(value)[:60]!r} is missing")
        return inputs[value]
    if isinstance(value, Mapping):
        made = Located(getattr(value, "where", ""))
        for key, each in value.items():
            made[key] = _put_in(each, inputs)
        return made
    if isinstance(value, list):
        return [_put_in(each, inputs) for each in value]
    return value


@cache
def built_in() -> dict[str, Blueprint]:
    """What the blueprints do that Home Assistant brings along: public configurations leave their files out."""
    changes = {"platform": "state", "entity_id": Input("motion_entity")}
    motion = {
        "blueprint": {"input": {"motion_entity": {}, "light_target": {}, "no_motion_wait": {"default": 120}}},
        "trigger": {**changes, "from": "off", "to": "on"},
        "action": [
            {"service": "light.turn_on", "target": Input("light_target")},
            {"wait_for_trigger": {**changes, "from": "on", "to": "off"}},
            {"delay": Input("no_motion_wait")},
            {"service": "light.turn_off", "target": Input("light_target")},
        ],
    }
    leaving = {
        "blueprint": {"input": {"person_entity": {}, "zone_entity": {}, "notify_device": {}}},
        "trigger": {
            "platform": "zone",
            "entity_id": Input("person_entity"),
            "zone": Input("zone_entity"),
            "event": "leave",
        },
        "action": [{"domain": "mobile_app", "type": "notify", "device_id": Input("notify_device")}],
    }
    paths = {"homeassistant/motion_light.yaml": motion, "homeassistant/notify_leaving_zone.yaml": leaving}
    return {path: Blueprint(path, config) for path, config in paths.items()}
