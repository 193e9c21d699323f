"""The action of a rule, as Home Assistant takes it: the reverse of `translation.actions`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from fedrule.homeassistant.installation import Entity, items, mapping
from fedrule.homeassistant.readers.registries import is_entity_id
from fedrule.homeassistant.translation.rules import AutomationRule
from fedrule.homeassistant.translation.vocabulary import vocabulary
from fedrule.homeassistant.writing.tables import (
    Guess,
    HomeLookup,
    Part,
    Unwritable,
    has_template,
    name_has,
    number,
    services_for,
    supports,
    tables,
)
from fedrule.homeassistant.writing.triggers import what_happened

Data = tuple[dict[str, object], list[Guess]]


class CallContext(NamedTuple):
    """What the data of a call depends on."""

    rule: AutomationRule
    entity: Entity
    lookup: HomeLookup


COLORS = frozenset(("hs", "xy", "rgb", "rgbw", "rgbww"))
DIMMABLE = COLORS | {"brightness", "color_temp", "white"}
LIGHT_DATA = ("set_brightness", "set_color", "set_effect")
ANY_ENTITY = ("turn_on", "turn_off", "toggle")
EFFECT, TARGET_TEMPERATURE, PLAY_MEDIA = 4, 1, 512  # features: what a value depends on
NEEDS_DATA = {
    "play_media": "what is to be played cannot be told from the data",
    "send_command": "which command is to be sent cannot be told from the data",
    "snapshot": "where the picture is to be kept cannot be told from the data",
    "record": "where the film is to be kept cannot be told from the data",
    "publish": "what is to be published cannot be told from the data",
    "set_options": "which options are meant cannot be told from the data",
    "other": "which service is called cannot be told from the data",
}


def write_action(rule: AutomationRule, lookup: HomeLookup) -> Part:
    """The action, with a warning where it can do harm; `Unwritable` says why there is none."""
    part = _action(rule, lookup)
    part.warnings += _warnings(rule, lookup)
    return part


def _action(rule: AutomationRule, lookup: HomeLookup) -> Part:
    id_, action = rule.action_device, rule.action
    if action == "fire_event" and id_.startswith("event:"):
        return _fire(id_.removeprefix("event:"))
    if action == "notify":
        return _notify(rule, lookup)
    if action == "dismiss" and id_ == "persistent_notification":
        return _call(lookup, "persistent_notification.dismiss_all")
    if action == "run" and id_.partition(".")[0] in vocabulary().runners:
        return _run(id_, lookup)
    if id_ == "system":
        return _system(rule, lookup)
    if action == "reload" and id_ in vocabulary().entity_domains and f"{id_}.reload" in _reloads(lookup):
        return _call(lookup, f"{id_}.reload")
    if action in NEEDS_DATA:
        raise Unwritable(NEEDS_DATA[action])
    if id_.endswith(".*"):
        return _all(rule, lookup)
    if not is_entity_id(id_):
        raise Unwritable("what it acts on is not an entity")
    return _on_entity(rule, lookup.entity(id_), lookup)


def _call(lookup: HomeLookup, name: str, data: Mapping[str, object] | None = None, *, entity_id: object = None) -> Part:
    domain, _, service = name.partition(".")
    if not lookup.has_service(domain, service):
        raise Unwritable(f"this home has no service {name}")
    config: dict[str, object] = {"service": name}
    if entity_id is not None:
        config["target"] = {"entity_id": entity_id}
    if data:
        config["data"] = dict(data)
    return Part(config)


def _fire(event: str) -> Part:
    if not event or has_template(event) or len(event) > 64 or not event.isprintable():
        raise Unwritable("which event is fired cannot be told from the data")
    return Part({"event": event})


def _run(id_: str, lookup: HomeLookup) -> Part:
    """A service that is a device: shell_command.NAME and the like, if it can be called without more."""
    domain, _, service = id_.partition(".")
    if not is_entity_id(id_) or (not lookup.installation.live and id_ not in lookup.devices):
        raise Unwritable(f"this home has no service {id_}")
    fields = mapping(mapping(mapping(lookup.installation.services.get(domain)).get(service)).get("fields"))
    if any(mapping(about).get("required") is True for about in fields.values()):
        raise Unwritable(f"what a {domain.replace('_', ' ')} is called with cannot be told from the data")
    return _call(lookup, id_)


def _reloads(lookup: HomeLookup) -> set[str]:
    return {f"{domain}.reload" for domain, services in lookup.installation.services.items() if "reload" in services}


def _notify(rule: AutomationRule, lookup: HomeLookup) -> Part:
    """A message that says what happened, to a target that there is."""
    id_ = rule.action_device
    data: dict[str, object] = {"message": what_happened(rule, lookup)}
    domain, _, service = id_.partition(".")
    if id_ == "persistent_notification":
        return _call(lookup, "persistent_notification.create", data)
    if id_ == "telegram_bot" and id_ in lookup.devices:
        return _call(lookup, "telegram_bot.send_message", data)
    if id_.startswith("notify@device:"):
        device = id_.removeprefix("notify@device:")
        if device not in lookup.installation.devices or lookup.installation.devices[device].disabled:
            raise Unwritable("the device to be notified is not known")
        return Part({"device_id": device, "domain": "mobile_app", "type": "notify", **data})
    if domain != "notify" or not is_entity_id(id_) or service in ("send_message", "chosen"):
        raise Unwritable("whom to notify cannot be told from the data")
    if id_ in lookup.installation.entities:
        lookup.entity(id_)  # not disabled
        return _call(lookup, "notify.send_message", data, entity_id=id_)
    if not lookup.installation.services and id_ not in lookup.devices and service != "persistent_notification":
        raise Unwritable(f"this home has no service {id_}")
    return _call(lookup, id_, data)


def _system(rule: AutomationRule, lookup: HomeLookup) -> Part:
    name = tables().system_services.get(rule.action)
    if name is None:
        raise Unwritable("what it does to Home Assistant itself cannot be told from the data")
    if rule.trigger == "system" and rule.action in ("restart", "stop"):
        raise Unwritable("the server would never be up")
    message = what_happened(rule, lookup)
    if rule.action == "write":
        return _call(lookup, name, {"message": message, "level": "info"})
    if rule.action == "log":
        return _call(lookup, name, {"name": "Automation", "message": message})
    if rule.action == "set_theme":
        part = _call(lookup, name, {"name": "default"})
        part.guesses.append(Guess("theme", "default"))
        return part
    return _call(lookup, name)


def _all(rule: AutomationRule, lookup: HomeLookup) -> Part:
    """All entities of a domain, if all that people use can do it, with data that is right for each of them."""
    domain = rule.action_device.removesuffix(".*")
    entities = [e for e in lookup.installation.entities.values() if e.domain == domain and not e.disabled]
    for_people = [entity for entity in entities if entity.for_people]
    if domain == "group" or rule.action in ("update_entity", "speak") or not for_people:
        raise Unwritable(f"no {domain.replace('_', ' ')} of this home can do it")
    part, *others = [_on_entity(rule, entity, lookup) for entity in for_people]
    if "data" in part.config:  # sent to those that people do not use, too
        others += [_on_entity(rule, entity, lookup) for entity in entities if not entity.for_people]
    part.config["target"] = {"entity_id": "all"}
    if any(other.config | {"target": part.config["target"]} != part.config for other in others):
        raise Unwritable("what is right for one of them is not for another")
    return part


def _on_entity(rule: AutomationRule, entity: Entity, lookup: HomeLookup) -> Part:
    """A service on one entity, with its data."""
    id_, action, domain = entity.entity_id, rule.action, entity.domain
    if action == "update_entity":
        return _call(lookup, "homeassistant.update_entity", entity_id=id_)
    if domain == "group":
        return _on_group(rule, entity, lookup)
    if action == "speak" and domain == "media_player":
        return _speak(rule, entity, lookup)
    if domain == "light" and action in LIGHT_DATA:
        data, guesses = _light(rule, entity, lookup)
        part = _call(lookup, "light.turn_on", data, entity_id=id_)
        part.guesses += guesses
        return part
    if domain in ("text", "input_text") and action == "set_value":
        raise Unwritable("which text is meant cannot be told from the data")
    found = services_for(domain, action)
    if not found:
        raise Unwritable(f"a {domain.replace('_', ' ')} has no service for {action.replace('_', ' ')}")
    able = [service for service in found if lookup.can(entity, service)]
    if not able:
        raise Unwritable(f"this {domain.replace('_', ' ')} does not support {action.replace('_', ' ')}")
    if domain == "alarm_control_panel":
        _refuse_code(rule, entity)
    name = f"{domain}.{able[0]}"
    data, guesses = DATA[name](CallContext(rule, entity, lookup)) if name in DATA else ({}, [])
    part = _call(lookup, name, data, entity_id=id_)
    part.guesses += guesses
    return part


def _on_group(rule: AutomationRule, group: Entity, lookup: HomeLookup) -> Part:
    """A group: the service of its members' domain if all have one, else those of any entity."""
    members = lookup.members(group)
    domains = {member.domain for member in members}
    if len(domains) == 1 and rule.action != "speak":
        for member in members:  # each must be able to
            part = _on_entity(rule._replace(action_device=member.entity_id), member, lookup)
        part.config["target"] = {"entity_id": group.entity_id}
        return part
    switched = vocabulary().switched_domains | {"script", "scene"}
    if rule.action not in ANY_ENTITY or (domains and not domains & switched):
        raise Unwritable(f"a group of these has no service for {rule.action.replace('_', ' ')}")
    return _call(lookup, f"homeassistant.{rule.action}", entity_id=group.entity_id)


def _refuse_code(rule: AutomationRule, panel: Entity) -> None:
    needed = rule.action == "disarm" or panel.capabilities.get("code_arm_required") is not False
    if panel.capabilities.get("code_format") and needed and rule.action != "alarm_trigger":
        raise Unwritable("the alarm asks for a code that only its owner knows")


def _speak(rule: AutomationRule, player: Entity, lookup: HomeLookup) -> Part:
    if not supports(lookup.features(player), (PLAY_MEDIA,)):
        raise Unwritable("this media player cannot speak")
    data: dict[str, object] = {"message": what_happened(rule, lookup)}
    voices = sorted(id_ for id_, e in lookup.installation.entities.items() if id_.startswith("tts.") and not e.disabled)
    if voices:
        whole = {"media_player_entity_id": player.entity_id, **data}
        return _call(lookup, "tts.speak", whole, entity_id=voices[0])
    says = sorted(each for each in lookup.installation.services.get("tts", {}) if each.endswith("_say"))
    if says:
        return _call(lookup, f"tts.{says[0]}", {"entity_id": player.entity_id, **data})
    raise Unwritable("this home has no text-to-speech")


# What services are called with.


def _light(rule: AutomationRule, light: Entity, lookup: HomeLookup) -> Data:
    values = tables().values
    modes = frozenset(light.color_modes)
    if rule.action == "set_brightness":
        if modes and not modes & DIMMABLE:
            raise Unwritable("this light cannot be dimmed")
        percent = values["brightness_pct"]
        return {"brightness_pct": percent}, [Guess("brightness", str(percent))]
    if rule.action == "set_effect":
        if not lookup.features(light) & EFFECT:
            raise Unwritable("this light has no effects")
        effect = _chosen(_listed(light, "effect_list", without=("none", "off", "None")), rule)
        return {"effect": effect}, [Guess("effect", effect)]
    danger = lookup.type_of(rule.trigger) in str(values["danger_types"]).split()
    if modes & COLORS and (danger or "color_temp" not in modes):
        rgb = values["red" if danger else "rgb"]
        return {"rgb_color": rgb}, [Guess("color", "red" if danger else "a warm orange")]
    if "color_temp" in modes:
        kelvin = values["kelvin"]
        fields = mapping(mapping(mapping(lookup.installation.services.get("light")).get("turn_on")).get("fields"))
        older = "kelvin" in fields and "color_temp_kelvin" not in fields  # servers of 2024 tell the older name
        return {"kelvin" if older else "color_temp_kelvin": kelvin}, [Guess("color", f"warm white ({kelvin} K)")]
    raise Unwritable("this light has no colours")


def _listed(entity: Entity, key: str, *, without: tuple[str, ...] = ()) -> list[str]:
    value = entity.options if key == "options" else entity.capabilities.get(key)
    return [str(each) for each in items(value) if str(each) not in without] if value else []


def _chosen(options: list[str], rule: AutomationRule) -> str:
    """The most plausible option for what the trigger says."""
    lists = tables().choices
    usable = [option for option in options if option.strip() and not has_template(option)]
    if not usable:
        raise Unwritable("its options are not known")
    by_word = {option.lower(): option for option in reversed(usable)}
    when = next((kind for kind in ("away", "night") if rule.trigger_state in lists[f"{kind}_states"]), "otherwise")
    return next((by_word[word] for word in lists[when] if word in by_word), usable[0])


def _option(key: str, field: str, kind: str = "option") -> Callable[[CallContext], Data]:
    def data(on: CallContext) -> Data:
        open_window = key == "hvac_modes" and on.lookup.type_of(on.rule.trigger) == "ContactSensor"
        opened = open_window and on.rule.trigger_state == "state:on" and "off" in _listed(on.entity, key)
        option = "off" if opened else _chosen(_listed(on.entity, key), on.rule)
        return {field: option}, [Guess(kind, option)]

    return data


def _fixed(field: str, value: object, kind: str = "") -> Callable[[CallContext], Data]:
    """A value of [values] that is a guess, or without a kind one that is none."""

    def data(_: CallContext) -> Data:
        if not kind:
            return {field: value}, []
        chosen = tables().values[str(value)]
        shown = f"{float(str(chosen)) * 100:.0f}" if kind == "volume" else f"{chosen} %" if kind == "speed" else chosen
        return {field: chosen}, [Guess(kind, str(shown))]

    return data


def _within(value: float, entity: Entity, low_key: str, high_key: str) -> int | float:
    low, high = (number(entity.capabilities.get(key)) for key in (low_key, high_key))
    found = max(value, low) if low is not None else value
    found = min(found, high) if high is not None else found
    return int(found) if found == int(found) else found


def _temperature(on: CallContext) -> Data:
    _, entity, lookup = on
    values = tables().values
    top = number(entity.capabilities.get("max_temp"))
    fahrenheit = top > 60 if top is not None and entity.domain == "climate" else lookup.fahrenheit
    unit, sign = ("f", "°F") if fahrenheit else ("c", "°C")

    def inside(value: object) -> int | float:
        return _within(float(str(value)), entity, "min_temp", "max_temp")

    if entity.domain == "climate" and not lookup.features(entity) & TARGET_TEMPERATURE:
        low, high = map(inside, items(mapping(values["temperature_range"])[unit]))
        return {"target_temp_low": low, "target_temp_high": high}, [Guess("temperature", f"{low} to {high} {sign}")]
    key = "temperature" if entity.domain == "climate" else "water_temperature"
    degrees = inside(mapping(values[key])[unit])
    return {"temperature": degrees}, [Guess("temperature", f"{degrees} {sign}")]


def _humidity(on: CallContext) -> Data:
    percent = _within(float(str(tables().values["humidity"])), on.entity, "min_humidity", "max_humidity")
    return {"humidity": percent}, [Guess("humidity", str(percent))]


def _number(on: CallContext) -> Data:
    """The middle of its range, on a step; 0 for a counter."""
    entity = on.entity
    if entity.domain == "counter":
        return {"value": 0}, [Guess("number", "0")]
    low, high = (number(entity.capabilities.get(key)) for key in ("min", "max"))
    if low is None or high is None or low > high:
        raise Unwritable("its range is not known")
    step = abs(number(entity.capabilities.get("step")) or 1.0)
    value: float = low + step * round((high - low) / step / 2)
    if entity.device_class == "temperature" or entity.unit in ("°C", "°F"):
        usual = mapping(tables().values["temperature"])["f" if entity.unit == "°F" else "c"]
        value = min(max(float(str(usual)), low), high)
    value = round(value, 6)
    whole = int(value) if value == int(value) else value
    return {"value": whole}, [Guess("number", f"{whole} {entity.unit}".strip())]


def _datetime(on: CallContext) -> Data:
    entity = on.entity
    if entity.capabilities.get("has_time") is not True or entity.capabilities.get("has_date") is True:
        raise Unwritable("which date it is set to cannot be told from the data")
    time = str(tables().values["morning"])
    return {"time": time}, [Guess("time", time[:5])]


def _item(on: CallContext) -> Data:
    return {"item": what_happened(on.rule, on.lookup)}, []


def _announcement(on: CallContext) -> Data:
    return {"message": what_happened(on.rule, on.lookup)}, []


DATA: Mapping[str, Callable[[CallContext], Data]] = {
    "assist_satellite.announce": _announcement,
    "climate.set_fan_mode": _option("fan_modes", "fan_mode"),
    "climate.set_humidity": _humidity,
    "climate.set_hvac_mode": _option("hvac_modes", "hvac_mode"),
    "climate.set_preset_mode": _option("preset_modes", "preset_mode"),
    "climate.set_swing_mode": _option("swing_modes", "swing_mode"),
    "climate.set_temperature": _temperature,
    "counter.set_value": _number,
    "cover.set_cover_position": _fixed("position", "position", "position"),
    "cover.set_cover_tilt_position": _fixed("tilt_position", "position", "position"),
    "fan.set_direction": lambda _: ({"direction": "forward"}, [Guess("direction", "forward")]),
    "fan.set_percentage": _fixed("percentage", "percentage", "speed"),
    "fan.set_preset_mode": _option("preset_modes", "preset_mode"),
    "humidifier.set_humidity": _humidity,
    "humidifier.set_mode": _option("available_modes", "mode"),
    "input_datetime.set_datetime": _datetime,
    "input_number.set_value": _number,
    "input_select.select_option": _option("options", "option"),
    "media_player.select_sound_mode": _option("sound_mode_list", "sound_mode"),
    "media_player.select_source": _option("source_list", "source"),
    "media_player.shuffle_set": _fixed("shuffle", True),
    "media_player.volume_mute": _fixed("is_volume_muted", True),
    "media_player.volume_set": _fixed("volume_level", "volume", "volume"),
    "number.set_value": _number,
    "select.select_option": _option("options", "option"),
    "todo.add_item": _item,
    "vacuum.set_fan_speed": _option("fan_speed_list", "fan_speed", "speed"),
    "valve.set_valve_position": _fixed("position", "position", "position"),
    "water_heater.set_operation_mode": _option("operation_list", "operation_mode"),
    "water_heater.set_temperature": _temperature,
}


HARMLESS = ("update_entity", "reload", "dismiss")
STARTS = ("turn_on", "toggle", "")  # an action that is not known may be one


class Risk(NamedTuple):
    """Something that an action does and that can do harm."""

    kind: str  # the key of its sentence
    name: str

    def __str__(self) -> str:
        return tables().warnings[self.kind].format(self.name)


def _warnings(rule: AutomationRule, lookup: HomeLookup) -> list[str]:
    """What to look at before the automation is switched on: one sentence, for the worst that it does."""
    severity = {kind: place for place, kind in enumerate(tables().warnings)}
    worst = min(_risks(rule, lookup), key=lambda risk: severity[risk.kind], default=None)
    return [str(worst)] if worst else []


def _risks(rule: AutomationRule, lookup: HomeLookup) -> Iterator[Risk]:
    """Of the call itself and of all that it leads to: members of a group, steps of a script, states of a scene."""
    waiting = [(rule.action, rule.action_device, "")]
    seen: set[tuple[str, str]] = set()
    while waiting:
        action, id_, group = waiting.pop()
        if (action, id_) in seen or action in HARMLESS:
            continue
        seen.add((action, id_))
        domain = id_.partition(".")[0].partition("@")[0]
        every = id_.endswith(".*") or "@" in id_
        name = group or (f"all {domain.replace('_', ' ')} entities" if every else lookup.name(id_))
        calls = lookup.calls(action, id_)
        known_by_calls = domain in ("script", "scene") and (calls or action == "turn_off")
        entity = lookup.installation.entities.get(id_) or Entity(id_)
        if not known_by_calls and (kind := _risk(action, domain, entity, lookup)):
            yield Risk(kind, name)
        waiting += [(does, device, name if domain == "group" else "") for does, device in calls]


def _risk(action: str, domain: str, entity: Entity, lookup: HomeLookup) -> str:
    """The key of the warning for one call; empty if it needs none."""
    lists = tables()
    if entity.entity_id == "system":
        return f"system.{action}" if f"system.{action}" in lists.warnings else ""
    if domain in vocabulary().runners:
        return "command"
    if action == "stop" or (domain == "siren" and action == "turn_off"):
        return ""
    words = f"{lookup.name(entity.entity_id)} {entity.entity_id}"
    if domain == "cover" and entity.device_class in ("garage", "gate", "door"):
        return "garage"
    by_words = [kind for kind in ("garage", "opener", "hot") if domain in lists.warning_domains[kind]]
    if by_words and lookup.type_of(entity.entity_id) != "Light":
        for kind in by_words:
            other = kind != "hot" and domain != "cover" and name_has(words, lists.warning_words["other"])
            if name_has(words, lists.warning_words[kind]) and not other and (kind != "hot" or action in STARTS):
                return kind
    own = f"{domain}.{action}"
    return own if own in lists.warnings else domain if domain in lists.warnings else ""
