"""The triggers of an automation as (device, trigger state), in the old spellings and the new."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from fedrule.homeassistant.installation import items, mapping, text, texts
from fedrule.homeassistant.translation.devices import Devices, is_button, mentioned
from fedrule.homeassistant.translation.types import type_of_domain
from fedrule.homeassistant.translation.vocabulary import state_word, vocabulary

PRESSES = ("action", "command", "click", "click_type", "press_type", "gesture")
NESTING = 20  # lists of triggers in triggers, from the inputs of blueprints


class Start(NamedTuple):
    """What starts a rule: a device and its trigger state."""

    device: str
    state: str


class Trigger(NamedTuple):
    """One trigger: its id, by which conditions ask for it, and what it stands for."""

    id: str
    starts: tuple[Start, ...]


Config = Mapping[str, object]


def read_triggers(section: object, devices: Devices, reasons: list[str]) -> list[Trigger]:
    """The triggers of an automation that are on; why one gives nothing goes to `reasons`."""
    found = []
    for number, config in enumerate(_flat(section)):
        if config.get("enabled") is False:
            reasons.append("a trigger is switched off")
            continue
        starts = tuple(dict.fromkeys(read_trigger(config, devices, reasons)))
        id_ = config.get("id")
        found.append(Trigger(str(number) if id_ is None else str(id_), starts))
    return found


def read_trigger(config: Config, devices: Devices, reasons: list[str]) -> Iterator[Start]:
    """What one trigger stands for; nothing and a reason where it cannot be told."""
    platform = text(config.get("platform")) or text(config.get("trigger"))
    config = {**config, **mapping(config.get("options"))}
    reader = PLATFORMS.get(platform)
    unresolved = devices.unresolved.total()
    starts = list(reader(config, devices)) if reader else _other(platform, config, devices)
    if not starts:
        chosen = devices.unresolved.total() > unresolved
        what = "names no entity that can be told" if reader or chosen or "." in platform else "is not known"
        reasons.append(f"the trigger {platform[:40] or '(without a platform)'} {what}")
    yield from starts


def _flat(section: object, nesting: int = NESTING) -> Iterator[Config]:
    for each in items(section):
        if isinstance(each, list) and nesting:
            yield from _flat(each, nesting - 1)
        elif isinstance(each, Mapping):
            if "triggers" in each and nesting:
                if each.get("enabled") is not False:
                    yield from _flat(each["triggers"], nesting - 1)
            else:
                yield each


def _entities(config: Config, devices: Devices) -> list[str]:
    """The entities of a trigger, by entity_id or, in new versions, by target."""
    domain = text(config.get("platform")) or text(config.get("trigger"))
    given = {**mapping(config.get("target")), **({"entity_id": config["entity_id"]} if "entity_id" in config else {})}
    named = [
        e
        for each in items(given.get("entity_id"))
        for e in (mentioned(each) if isinstance(each, str) and _is_template(each) else ())
    ]
    if named:
        return [devices.entity(each) for each in named]
    return devices.target(given, domain)


def _is_template(value: object) -> bool:
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def _state(config: Config, devices: Devices) -> Iterator[Start]:
    values = items(config.get("to"))
    if config.get("attribute") is not None:
        states = ["state:other" if values else "state:changed"]
    else:
        states = [state_word(value) for value in values] or ["state:changed"]
    at_home = {"state:home", "state:not_home"} & set(states)
    for device in _entities(config, devices):
        if at_home and device.startswith("group."):
            devices.entity(device, "Person")
        for state in states:
            yield Start(device, state)


def numeric(config: Config) -> str:
    """Above, below or between two levels; empty if there is no level."""
    above, below = (config.get(key) is not None for key in ("above", "below"))
    return "numeric:between" if above and below else "numeric:above" if above else "numeric:below" if below else ""


def _numeric_state(config: Config, devices: Devices) -> Iterator[Start]:
    for device in _entities(config, devices):
        yield Start(device, numeric(config) or "state:changed")


def _sun(config: Config, devices: Devices) -> Iterator[Start]:
    event = text(config.get("event")).lower()
    yield Start(devices.entity("sun.sun"), f"sun:{event}" if event in ("sunset", "sunrise") else "sun:other")


def _clock(devices: Devices) -> str:
    return devices.other("clock", "Clock")


def _time(config: Config, devices: Devices) -> Iterator[Start]:
    if "at" not in config:  # the pattern of versions before 0.86
        yield Start(_clock(devices), "time:pattern")
    for each in (part for value in items(config.get("at")) for part in _times(value)):
        named = mentioned(each)
        yield Start(devices.entity(named[0]) if named else _clock(devices), "time:at")


def _times(value: object) -> tuple[str, ...]:
    if isinstance(value, Mapping):
        return texts(value.get("entity_id"))
    return (value,) if _is_template(value) and isinstance(value, str) else texts(value) or (str(value),)


def _time_pattern(_: Config, devices: Devices) -> Iterator[Start]:
    yield Start(_clock(devices), "time:pattern")


def _system(devices: Devices) -> str:
    return devices.other("system", "System")


def _homeassistant(config: Config, devices: Devices) -> Iterator[Start]:
    event = "shutdown" if text(config.get("event")) in ("shutdown", "stop") else "start"
    yield Start(_system(devices), f"homeassistant:{event}")


def _mqtt(config: Config, devices: Devices) -> Iterator[Start]:
    for topic in items(config.get("topic")):
        kind = "Button" if is_button(str(topic)) else "Mqtt"
        yield Start(devices.other(f"mqtt:{topic}", kind, name=str(topic)), "mqtt")


_SYSTEM_EVENTS = {
    "homeassistant_start": "homeassistant:start",
    "homeassistant_started": "homeassistant:start",
    "homeassistant_stop": "homeassistant:shutdown",
    "homeassistant_final_write": "homeassistant:shutdown",
    "homeassistant_close": "homeassistant:shutdown",
}


def _event(config: Config, devices: Devices) -> Iterator[Start]:
    data = mapping(config.get("event_data"))
    known = vocabulary()
    for event in map(str, items(config.get("event_type"))):
        state = f"event:{event}" if event in known.events else "event:other"
        entity = next((devices.registered(each) for each in texts(data.get("entity_id"))), "")
        if event in _SYSTEM_EVENTS:
            yield Start(_system(devices), _SYSTEM_EVENTS[event])
        elif event == "tag_scanned" and "tag_id" in data:
            yield Start(devices.secret("tag", data["tag_id"]), "tag")
        elif event in known.button_events or (event not in known.events and (is_button(event) or _is_press(data))):
            yield Start(_remote(event, data, devices), state)
        elif entity and event != "call_service":  # whose entity is what is acted on, not where something happens
            yield Start(devices.entity(entity), "state:changed" if event == "state_changed" else state)
        else:
            yield Start(devices.other(f"event:{event}", "Event", name=event.replace("_", " ")), state)


def _is_press(data: Config) -> bool:
    """Whether the data of an event say which device was pressed, and how: then it is of a remote control."""
    return not data.keys().isdisjoint(PRESSES) and not data.keys().isdisjoint(vocabulary().button_keys)


def _remote(event: str, data: Config, devices: Devices) -> str:
    """One remote control for each that the data of its events tell apart."""
    key = next((key for key in vocabulary().button_keys if isinstance(data.get(key), (str, int))), "")
    if key == "device_id":
        return devices.button(str(data[key]))
    if key == "entity_id" and (entity := devices.registered(str(data[key]))):
        # Some integrations give their remote controls ids like those of entities, of a domain that has none.
        known = entity.partition(".")[0] in vocabulary().entity_domains
        return devices.entity(entity, "Button") if known else devices.other(entity, "Button")
    name = str(data[key]) if key else ""
    return devices.other(f"event:{event}:{name}" if key else f"event:{event}", "Button", name=name)


def _template(config: Config, devices: Devices) -> Iterator[Start]:
    template = text(config.get("value_template"))
    named = mentioned(template)
    if named:
        yield Start(devices.entity(named[0]), "template")
    elif re.search(r"\b(now|utcnow|today_at)\s*\(", template):
        yield Start(_clock(devices), "template")
    elif template:
        yield Start(devices.other("template", "Template"), "template")


def _zone(config: Config, devices: Devices) -> Iterator[Start]:
    state = "zone:leave" if text(config.get("event")) == "leave" else "zone:enter"
    if source := text(config.get("source")):  # of the platform geo_location
        yield Start(devices.other(f"geo_location:{source}", "Other", name=source.replace("_", " ")), state)
    for device in _entities(config, devices):
        yield Start(device, state)


def _calendar(config: Config, devices: Devices) -> Iterator[Start]:
    for device in _entities(config, devices):
        yield Start(device, "calendar:end" if text(config.get("event")) == "end" else "calendar:start")


def _webhook(config: Config, devices: Devices) -> Iterator[Start]:
    yield Start(devices.secret("webhook", config.get("webhook_id")), "webhook")


def _tag(config: Config, devices: Devices) -> Iterator[Start]:
    for tag in items(config.get("tag_id")):
        yield Start(devices.secret("tag", tag), "tag")


def _conversation(_: Config, devices: Devices) -> Iterator[Start]:
    yield Start(devices.other("conversation", "Conversation"), "conversation")


def _notification(_: Config, devices: Devices) -> Iterator[Start]:
    yield Start(devices.other("persistent_notification", "Notification"), "notification")


def _device(config: Config, devices: Devices) -> Iterator[Start]:
    """A device trigger: a synonym of a state of its entity, or something that only a remote control says."""
    domain, type_, device = (text(config.get(key)) for key in ("domain", "type", "device_id"))
    known = vocabulary()
    kind = known.trigger_kinds.get(type_, "")
    named = text(config.get("entity_id"))
    entity = devices.registered(named)
    if domain == "tag" and device:
        yield Start(devices.secret("tag", device), "tag")
    elif domain == "event" and entity:
        yield Start(devices.entity(entity), "state:changed")
    elif entity or (named and domain):
        state = numeric(config) or known.device_triggers_of.get(f"{domain}.{type_}") or known.device_triggers.get(type_)
        if state is None:
            state = f"device:{type_}" if type_ in known.device_types else "device:other"
            state = "state:changed" if kind or type_ in known.numeric_device_triggers else state
        if state == "state:changed" and config.get("to") is not None and type_ not in known.numeric_device_triggers:
            state = state_word(config["to"])
        yield Start(
            devices.entity(entity, kind)
            if entity
            else devices.other(f"{domain}@entity:{named}", kind or type_of_domain(domain)),
            state,
        )
    elif device:
        state = f"device:{type_}" if type_ in known.device_types else "device:other"
        yield Start(devices.button(device), state)


def _other(platform: str, config: Config, devices: Devices) -> list[Start]:
    """Purpose-specific triggers such as `light.turned_on`, and those that an integration adds."""
    domain, point, verb = platform.partition(".")
    known = vocabulary()
    if platform in known.device_types:
        device = next(iter(devices.target(_target(config), domain)), "") or devices.other(
            domain, type_of_domain(domain)
        )
        return [Start(device, f"device:{platform}")]
    if not point:
        return []
    what = verb.partition("_")[0]  # of air_quality.smoke_detected
    kind = known.purposes.get(f"{domain}.{what}") or known.purposes.get(domain, "")
    found = devices.target(_target(config), domain, kind)
    if domain == "sun":
        found = [devices.entity("sun.sun")]
    return [Start(device, _verb_state(domain, verb, config, device)) for device in found]


def _target(config: Config) -> Config:
    keys = ("entity_id", "device_id", "area_id", "label_id", "floor_id")
    return {**{key: config[key] for key in keys if key in config}, **mapping(config.get("target"))}


def _verb_state(domain: str, verb: str, config: Config, device: str) -> str:
    """The state that a purpose-specific trigger waits for: `blind_opened` and `smoke_detected` by their last word."""
    known = vocabulary()
    if verb.endswith(("crossed_threshold", "crossed")):
        kind = text(mapping(config.get("threshold")).get("type")) or text(config.get("threshold_type"))
        between = "numeric:between" if kind in ("between", "outside") else ""
        return numeric(config) or between or ("numeric:below" if kind == "below" else "numeric:above")
    own = device.partition(".")[0]  # door.opened may be of a cover
    for word in (verb, verb.rpartition("_")[2]):
        for name in (f"{own}.{word}", f"{domain}.{word}"):
            if name in known.device_triggers_of:
                return known.device_triggers_of[name]
        if word in known.device_triggers:
            return known.device_triggers[word]
    return "state:other"


PLATFORMS: Mapping[str, Callable[[Config, Devices], Iterator[Start]]] = {
    "state": _state,
    "numeric_state": _numeric_state,
    "sun": _sun,
    "time": _time,
    "time_pattern": _time_pattern,
    "homeassistant": _homeassistant,
    "mqtt": _mqtt,
    "event": _event,
    "template": _template,
    "zone": _zone,
    "geo_location": _zone,
    "calendar": _calendar,
    "webhook": _webhook,
    "tag": _tag,
    "conversation": _conversation,
    "persistent_notification": _notification,
    "device": _device,
}
