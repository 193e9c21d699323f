"""One step of an automation as (action, device): a service, a device action, a scene or an event."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fedrule.homeassistant.installation import mapping, text
from fedrule.homeassistant.translation.devices import TARGETS, Devices
from fedrule.homeassistant.translation.templates import LONGEST_TEMPLATE, is_triggering_entity, quoted
from fedrule.homeassistant.translation.types import type_of_domain
from fedrule.homeassistant.translation.vocabulary import action_word, vocabulary

SERVICE = re.compile(r"(?<![\w.])([a-z][a-z0-9_]*)\.([a-z0-9_]+)(?![\w.(])")
BLOCK = re.compile(r"\{%.*?%\}|\{#.*?#\}", re.DOTALL)
OUTPUT = re.compile(r"\{\{.*?\}\}", re.DOTALL)
ON_OR_OFF = re.compile(r"^([a-z_]+)\.turn_\s*\{")
SPEAKERS = ("media_player_entity_id", "entity_id")
# Keys of a step that do something to a device; others wait, choose or compute.
CALLS = ("action", "service", "service_template")


class Effect(NamedTuple):
    """What a rule does: an action of a device."""

    action: str
    device: str
    mirrors: bool = False  # `turn_{{ trigger.to_state.state }}`: on if the trigger is, off if it is
    triggering: str = ""  # instead of a device: the entity that triggered, if a service of this domain can act on it


Config = Mapping[str, object]


def is_call(step: Config) -> bool:
    """Whether a step acts on a device."""
    return any(isinstance(step.get(key), str) for key in (*CALLS, "scene", "event")) or (
        "device_id" in step and "domain" in step and "condition" not in step
    )


def read_action(step: Config, devices: Devices) -> Iterator[Effect]:
    """The effects of one step; none where its device or its service cannot be told, which `devices` counts."""
    call = next((text(step[key]) for key in CALLS if isinstance(step.get(key), str)), "")
    if call:
        mirrors = bool(ON_OR_OFF.match(call.strip())) and "trigger.to_state" in call
        services = list(services_of(call))
        if not services:
            devices.unresolved["a template or a secret chooses the service"] += 1
        for domain, service in services:
            for effect in _service(domain, service, step, devices):
                yield effect._replace(mirrors=mirrors)
    elif isinstance(step.get("scene"), str):
        for device in devices.target({"entity_id": step["scene"]}, "scene"):
            yield Effect("scene_activate", device)
    elif isinstance(step.get("event"), str):
        event = text(step["event"])
        yield Effect("fire_event", devices.other(f"event:{event}", "Event", name=event.replace("_", " ")))
    elif "device_id" in step:
        yield from _device(step, devices)


def services_of(call: str) -> Iterator[tuple[str, str]]:
    """The services that a text names: one, or those that a template chooses from."""
    call = call.strip()[:LONGEST_TEMPLATE]
    if "{" not in call:
        domain, point, service = call.lower().partition(".")
        if point and domain and service:
            yield domain, service
        return
    both = ON_OR_OFF.match(call)
    if both:
        yield both[1], "turn_on"
        yield both[1], "turn_off"
        return
    plain = OUTPUT.sub(" ", BLOCK.sub(" ", call))
    texts = " ".join(each for part in OUTPUT.findall(call) for each in quoted(part))
    found = dict.fromkeys(SERVICE.findall(f"{plain} {texts}"))
    # A template may ask for the states of entities, which look alike.
    yield from ((d, s) for d, s in found if d not in vocabulary().entity_domains or _is_service(d, s))
    if not found and (prefix := re.match(r"([a-z_]+)\.", call)) and prefix[1] in vocabulary().notifications:
        yield prefix[1], "chosen"


def _is_service(domain: str, service: str) -> bool:
    return domain in ("script", "scene") or action_word(domain, service) != "other"


def _service(domain: str, service: str, step: Config, devices: Devices) -> Iterator[Effect]:
    data = {**mapping(step.get("data_template")), **mapping(step.get("data"))}
    target = _target(step, data)
    known = vocabulary()
    if domain in known.runners:
        yield Effect("run", _own_device(domain, service, devices))
    elif domain == "tts" or (domain == "notify" and service.startswith("alexa") and "entity_id" in target):
        yield from _speech(target, data, devices)
    elif domain == "notify" and service == "send_message" and target:
        for device in devices.target(target, "notify"):
            yield Effect("notify", device)
    elif domain in known.notifications:
        word = "notify" if domain == "notify" else action_word(domain, service)
        name = f"{domain}.{service}" if domain == "notify" else domain
        yield Effect(word, devices.other(name, "Notification", name=_said(service) if domain == "notify" else domain))
    elif domain == "script" and service not in ("turn_on", "turn_off", "toggle", "reload"):
        yield Effect("script_run", devices.entity(f"script.{service}"))
    elif domain == "mqtt":
        topic = str(data.get("topic", data.get("topic_template", "")))
        yield Effect(action_word(domain, service), devices.other(f"mqtt:{topic}", "Mqtt", name=topic))
    elif domain == "scene" and service in ("apply", "create"):
        yield Effect(service, devices.other(f"scene.{data.get('scene_id', service)}", "Scene"))
    elif domain == "group" and service in ("set", "remove") and data.get("object_id"):
        yield Effect(service, devices.entity(f"group.{data['object_id']}"))
    elif domain == "device_tracker" and service == "see":
        seen = str(data.get("dev_id") or data.get("mac") or "seen")
        yield Effect("see", devices.entity(f"device_tracker.{seen}"))
    else:
        yield from _on_target(domain, service, data, target, devices)


def _on_target(domain: str, service: str, data: Config, target: Config, devices: Devices) -> Iterator[Effect]:
    """A service that acts on entities; without any, on a device that stands for its domain."""
    known = vocabulary()
    of_entities = domain in known.entity_domains
    if is_triggering_entity(target.get("entity_id")) and (of_entities or domain == "homeassistant"):
        yield Effect(_with_data(domain, domain, service, data), "", triggering=domain)
        return
    found = devices.target(target, domain if of_entities else "homeassistant") if target else []
    for device in found:
        yield Effect(_with_data(device.partition(".")[0], domain, service, data), device)
    if found or (target and (of_entities or domain == "homeassistant")):
        return
    word = action_word(domain, service)
    if domain in known.system:
        yield Effect(word, devices.other("system", "System"))
    elif of_entities and service not in ("reload", "see"):
        devices.unresolved["a service without a target"] += 1
    else:
        yield Effect(word, devices.other(domain, type_of_domain(domain), name=_said(domain)))


def _with_data(own: str, domain: str, service: str, data: Config) -> str:
    """The action on an entity of domain `own`: what it is turned on with makes a difference."""
    known = vocabulary()
    if service in ("turn_on", "toggle") and "light" in (own, domain):
        given = {key for key, value in data.items() if value is not None}
        chosen = next((action for action, keys in known.light.items() if keys & given), "")
        if chosen and service == "turn_on":
            return chosen
    for key in data:
        if service == "turn_on" and f"{own}.{key}" in known.fields:
            return known.fields[f"{own}.{key}"]
    if domain == "homeassistant" and service == "turn_on" and own in ("scene", "script"):
        return known.services[f"{own}.turn_on"]
    return action_word(domain, service)


def _target(step: Config, data: Config) -> Config:
    """What a call acts on: `target:`, or in older spellings a key of the step or of its data."""
    found: dict[str, object] = {}
    for place in (data, step, mapping(step.get("target"))):
        for key in TARGETS:
            if place.get(key) not in (None, "", []):
                found[key] = place[key]
    chosen = step.get("target")
    if isinstance(chosen, str) and chosen:  # a template, or an input of a blueprint
        found["entity_id"] = chosen
    return found


def _speech(target: Config, data: Config, devices: Devices) -> Iterator[Effect]:
    speakers = data.get(SPEAKERS[0]) or target.get(SPEAKERS[1])
    found = devices.target({**target, "entity_id": speakers}, "media_player") if speakers or target else []
    for device in found or [devices.other("tts", "Speech")]:
        yield Effect("speak", device)


def _own_device(domain: str, service: str, devices: Devices) -> str:
    return devices.other(f"{domain}.{service}", type_of_domain(domain), name=_said(service))


def _device(step: Config, devices: Devices) -> Iterator[Effect]:
    """A device action: its type is the name of a service, or nearly."""
    domain, type_, device_id = (text(step.get(key)) for key in ("domain", "type", "device_id"))
    if domain == "mobile_app" or type_ == "notify":
        known = devices.installation.devices.get(device_id)
        name = known.name if known else ""
        yield Effect("notify", devices.other(f"notify@device:{device_id}", "Notification", name=name))
        return
    service = DEVICE_ACTIONS.get(type_, type_)
    named = text(step.get("entity_id"))
    if not named:
        entities = devices.of_device(device_id, domain)
        target: Config = {"entity_id": entities[0].entity_id} if entities else {"device_id": device_id}
    else:
        target = {"entity_id": named}
    if domain not in vocabulary().entity_domains:
        yield Effect(action_word(domain, service), _own_device(domain, type_ or "device", devices))
        return
    for device in devices.target(target, domain):
        yield Effect(_with_data(domain, domain, service, step), device)


DEVICE_ACTIONS = {
    "arm_away": "alarm_arm_away",
    "arm_home": "alarm_arm_home",
    "arm_night": "alarm_arm_night",
    "arm_vacation": "alarm_arm_vacation",
    "disarm": "alarm_disarm",
    "trigger": "alarm_trigger",
    "set_position": "set_cover_position",
    "set_tilt_position": "set_cover_tilt_position",
    "select_option": "select_option",
    "clean": "start",
}


def _said(service: str) -> str:
    return service.replace("_", " ")
